//! What the README shows of `make run` is what it prints.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tokio::sync::Notify;

use crate::first_pod::{Options, show};
use crate::markdown::read;

/// Keeps what is written, and says when the last line came.
struct Screen<'a> {
    text: Vec<u8>,
    complete: &'a Notify,
}

impl Write for Screen<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        if self.text.ends_with(b"Ctrl-C ends the server.\n") {
            self.complete.notify_one();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_readme_shows_what_make_run_prints() {
    let program = Path::new(env!("CARGO_BIN_EXE_plimsoll"));
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        once: false,
        pod: PathBuf::from("examples/pod.yaml"),
        objects: PathBuf::from("examples/standalone"),
        repeat: 200,
        program: Some(program.to_owned()),
        folder: Some(folder.path().to_owned()),
        any_port: true,
    };
    let complete = Notify::new();
    let mut screen = Screen { text: Vec::new(), complete: &complete };
    tokio::select! {
        ended = show(&options, &mut screen, false) => panic!("{ended:?}"),
        () = complete.notified() => {}
    }
    let printed = String::from_utf8(screen.text).unwrap();
    let built = program.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap_or(program).parent().unwrap();
    let printed = printed
        .replace(&folder.path().display().to_string(), "target/debug/first_pod")
        .replace(&built.display().to_string(), "target/debug");

    let readme = read("README.md");
    let shown = readme
        .blocks()
        .into_iter()
        .find_map(|block| block.text.strip_prefix("$ make run\n").map(str::to_owned));
    assert_eq!(without_figures(&printed), without_figures(&shown.unwrap()));
}

/// The text with every time and port in it the same.
fn without_figures(text: &str) -> String {
    let figure = |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let mut out = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let next = words.iter().skip(1).copied().chain([""]);
        let words = words.iter().zip(next);
        let words: Vec<&str> =
            words.map(|(word, next)| if next == "ms" && figure(word) { "N" } else { word }).collect();
        let line = words.join(" ");
        let pieces =
            line.split("127.0.0.1:").map(|piece| piece.trim_start_matches(|c: char| c.is_ascii_digit()));
        out.push_str(&pieces.collect::<Vec<_>>().join("127.0.0.1:PORT"));
        out.push('\n');
    }
    out
}
