//! The little of Markdown that the documents use.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A Markdown file.
pub(crate) struct Document {
    /// Relative to the repository.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// What stands between two fences.
#[derive(Debug)]
pub(crate) struct Block {
    /// The line of the opening fence, counted from 1.
    pub(crate) line: usize,
    /// How many lines there are between the fences.
    pub(crate) lines: usize,
    /// The language.
    pub(crate) language: String,
    /// Whether `<!-- run -->` stands before it.
    pub(crate) run: bool,
    pub(crate) text: String,
}

impl Document {
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let (mut open, mut indent, mut before) = (false, 0, "");
        for (index, line) in self.text.lines().enumerate() {
            let trimmed = line.trim_start();
            if let Some(info) = trimmed.strip_prefix("```") {
                if !open {
                    indent = line.len() - trimmed.len();
                    blocks.push(Block {
                        line: index + 1,
                        lines: 0,
                        language: info.trim().to_owned(),
                        run: before == "<!-- run -->",
                        text: String::new(),
                    });
                }
                open = !open;
            } else if open && let Some(block) = blocks.last_mut() {
                block.text.push_str(line.get(indent..).unwrap_or_default());
                block.text.push('\n');
                block.lines += 1;
            } else if !trimmed.is_empty() {
                before = trimmed.trim_end();
            }
        }
        assert!(!open, "{}: a fence is not closed", self.path.display());
        blocks
    }

    /// The lines outside of fences.
    pub(crate) fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut open = false;
        self.text.lines().enumerate().filter_map(move |(index, line)| {
            let fence = line.trim_start().starts_with("```");
            open ^= fence;
            (!open && !fence).then_some((index + 1, line))
        })
    }

    /// The anchors that its headings make, as GitHub forms them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let headings = self.prose().filter_map(|(_, line)| line.strip_prefix('#'));
        let slug = |heading: &str| {
            let text = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        };
        headings.map(slug).collect()
    }
}

/// The pieces of `text` between `open` and `close`.
pub(crate) fn between<'t>(text: &'t str, open: &'t str, close: &'t str) -> impl Iterator<Item = &'t str> {
    text.split(open).skip(1).filter_map(move |rest| rest.split_once(close).map(|(inner, _)| inner))
}

/// What stands in a line as code.
pub(crate) fn code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Every Markdown file of the repository.
pub(crate) fn documents() -> Vec<Document> {
    let is_markdown = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    files().into_iter().filter(is_markdown).map(|path| read(&path)).collect()
}

/// The document at a path within the repository.
pub(crate) fn read(path: impl AsRef<Path>) -> Document {
    let path = path.as_ref();
    let text = fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    Document { path: path.to_owned(), text }
}

/// The files of the repository, relative to it: everything but what is built and what begins with a dot.
pub(crate) fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    collect(Path::new(""), &mut files);
    files.sort();
    files
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    const BUILT: [&str; 4] = ["target", "corpus", "artifacts", "coverage"];
    for entry in fs::read_dir(root().join(directory)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = directory.join(&name);
        if name.starts_with('.') || BUILT.contains(&name.as_str()) {
            continue;
        }
        // What `make certs` or a reader made there is nobody's document.
        let generated = directory == Path::new("certs") && name != "README.md";
        if generated {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
