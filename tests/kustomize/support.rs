//! The files, and what is in them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All YAML files below `webhook-config`.
pub(crate) fn files() -> Vec<PathBuf> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "yaml") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join("webhook-config"), &mut found);
    found.sort();
    found
}

pub(crate) fn documents(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The objects of a kind in the base.
pub(crate) fn base(kind: &str) -> Vec<Value> {
    let in_base = |file: &PathBuf| file.parent().unwrap().ends_with("base");
    let all = files().into_iter().filter(in_base).flat_map(|file| documents(&file));
    let found: Vec<Value> = all.filter(|object| object["kind"] == kind).collect();
    assert!(!found.is_empty(), "no {kind} in webhook-config/base");
    found
}

pub(crate) fn webhook(kind: &str) -> Value {
    base(kind)[0]["webhooks"][0].clone()
}

/// The objects of a kind in a component.
pub(crate) fn component(name: &str, kind: &str) -> Vec<Value> {
    let folder = root().join("webhook-config/components").join(name);
    let all = files().into_iter().filter(|file| file.starts_with(&folder)).flat_map(|file| documents(&file));
    let found: Vec<Value> = all.filter(|object| object["kind"] == kind).collect();
    assert!(!found.is_empty(), "no {kind} in {}", folder.display());
    found
}
