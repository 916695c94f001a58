//! The documents say what the program does: examples are run, commands parsed, links followed, words compared.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what helps tests may fail like a test"
)]

#[path = "docs/commands.rs"]
mod commands;
#[path = "docs/examples.rs"]
mod examples;
#[expect(dead_code, reason = "the test calls what `main` calls")]
#[path = "../examples/first_pod.rs"]
mod first_pod;
#[path = "docs/links.rs"]
mod links;
#[path = "docs/make_run.rs"]
mod make_run;
#[path = "docs/markdown.rs"]
mod markdown;
#[path = "docs/reference.rs"]
mod reference;
#[path = "docs/words.rs"]
mod words;
