//! Runs what the documents show and compares what they say comes out.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::markdown::{Block, documents, root};

/// Blocks of YAML and JSON whose first line is `# NAME.yaml` are files, from there to the end of the document or until
/// another of that name. A console block after `<!-- run -->` is run beside them.
///
/// `UPDATE_DOCS=1` writes what came out into the documents instead.
#[test]
fn commands_print_what_is_shown() {
    let mut ran = 0;
    for document in documents() {
        let folder = tempfile::tempdir().unwrap();
        for shared in ["examples", "webhook-config"] {
            std::os::unix::fs::symlink(root().join(shared), folder.path().join(shared)).unwrap();
        }
        let mut results = Vec::new();
        for block in document.blocks() {
            if let Some(name) = file_name(&block.text) {
                fs::write(folder.path().join(name), &block.text).unwrap();
            }
            if !block.run {
                continue;
            }
            let place = format!("{}:{}", document.path.display(), block.line);
            assert_eq!(block.language, "console", "{place}: only console blocks can be run");
            let shown = run_all(&block.text, folder.path(), &place);
            ran += 1;
            if std::env::var_os("UPDATE_DOCS").is_some() {
                results.push((block, shown));
            } else {
                assert_eq!(shown, block.text, "{place}: UPDATE_DOCS=1 writes the document anew");
            }
        }
        if !results.is_empty() {
            fs::write(root().join(&document.path), updated(&document.text, &results)).unwrap();
        }
    }
    assert!(ran >= 12, "only {ran} blocks were run: the marker is `<!-- run -->`");
}

/// The document with other contents of some blocks.
fn updated(text: &str, results: &[(Block, String)]) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    // From the end, so that line numbers before it stay right.
    for (block, shown) in results.iter().rev() {
        lines.splice(block.line..block.line + block.lines, shown.lines());
    }
    lines.join("\n") + "\n"
}

fn file_name(block: &str) -> Option<&str> {
    let name = block.lines().next()?.strip_prefix("# ")?;
    let extension = Path::new(name).extension()?;
    (!name.contains([' ', '/']) && (extension == "yaml" || extension == "json")).then_some(name)
}

/// The block with the output that its commands give now.
fn run_all(block: &str, folder: &Path, place: &str) -> String {
    let mut shown = String::new();
    let mut lines = block.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix("$ ") else { continue };
        let mut command = first.to_owned();
        shown.push_str(line);
        shown.push('\n');
        while command.ends_with('\\') {
            let next = lines.next().unwrap_or_else(|| panic!("{place}: the command goes on in no line"));
            command.push('\n');
            command.push_str(next);
            shown.push_str(next);
            shown.push('\n');
        }
        shown.push_str(&run(&command, folder, place));
    }
    shown
}

fn run(command: &str, folder: &Path, place: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_plimsoll")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .current_dir(folder)
        .env_clear()
        .env("PATH", format!("{}:{path}", program.display()))
        .output()
        .unwrap_or_else(|e| panic!("{place}: {e}"));
    String::from_utf8(output.stdout).unwrap()
}

/// Everything that a reader could apply is fit to be applied.
#[test]
fn manifests_are_valid() {
    let mut profiles = 0;
    let mut check = |text: &str, place: &str| {
        let documents = plimsoll::input::parse_manifests(text.as_bytes(), place);
        for manifest in documents.unwrap_or_else(|e| panic!("{e}")) {
            use plimsoll_core::objects::{Fact, read_manifest};
            match read_manifest(&manifest.value) {
                Ok(Some(Fact::BrokenProfile { problems, .. })) => panic!("{place}: {problems:?}"),
                Ok(fact) => profiles += usize::from(matches!(fact, Some(Fact::Profile(_)))),
                Err(error) => panic!("{place}: {error}"),
            }
        }
    };
    for document in documents() {
        for block in document.blocks() {
            // A file that is shown for its mistakes says so by its name.
            let broken = file_name(&block.text).is_some_and(|name| name.starts_with("broken"));
            if block.language == "yaml" && block.text.contains("\nkind: ") && !broken {
                check(&block.text, &format!("{}:{}", document.path.display(), block.line));
            }
        }
    }
    for file in yaml_files() {
        let place = file.display().to_string();
        let kustomize = file.file_name().is_some_and(|name| name == "kustomization.yaml");
        let text = fs::read_to_string(root().join(&file)).unwrap();
        if !kustomize && text.contains("OvercommitProfile") && !text.contains("CustomResourceDefinition") {
            check(&text, &place);
        }
    }
    assert!(profiles >= 8, "only {profiles} profiles were found");
}

fn yaml_files() -> Vec<std::path::PathBuf> {
    let of_readers = |path: &std::path::PathBuf| {
        let yaml = path.extension().is_some_and(|extension| extension == "yaml");
        yaml && ["examples", "webhook-config"].iter().any(|folder| path.starts_with(folder))
    };
    crate::markdown::files().into_iter().filter(of_readers).collect()
}
