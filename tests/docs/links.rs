//! Links resolve, and nothing names a place of one machine only.

use std::fs;

use crate::markdown::{between, documents, files, read, root};

#[test]
fn relative_links_resolve() {
    let mut seen = 0;
    for document in documents() {
        for (line, text) in document.prose() {
            let targets = between(text, "](", ")").chain(between(text, "src=\"", "\"")).chain(between(
                text,
                "srcset=\"",
                "\"",
            ));
            for link in targets {
                let place = format!("{}:{line}: {link}", document.path.display());
                if link.contains("://") || link.starts_with("mailto:") {
                    continue;
                }
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let folder = document.path.parent().unwrap();
                let target = if path.is_empty() { document.path.clone() } else { folder.join(path) };
                assert!(root().join(&target).exists(), "{place}: no such file");
                if !anchor.is_empty() && target.extension().is_some_and(|extension| extension == "md") {
                    let anchors = read(&target).anchors();
                    assert!(anchors.iter().any(|a| a == anchor), "{place}: no such heading: {anchors:?}");
                }
                seen += 1;
            }
        }
    }
    assert!(seen >= 20, "only {seen} links were found");
}

#[test]
fn every_document_is_in_the_index() {
    let index = read("docs/README.md").text;
    for path in files() {
        if path.starts_with("docs") && path.extension().is_some_and(|extension| extension == "md") {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            assert!(
                name == "README.md" || index.contains(&format!("({name})")),
                "{name} is not in docs/README.md"
            );
        }
    }
}

#[test]
fn no_file_names_a_place_of_one_machine() {
    let mut places = vec![format!("{}/", root().display())];
    places.extend(std::env::var("HOME").ok().filter(|home| home.len() > 1).map(|home| format!("{home}/")));
    // In two pieces, or this file would be found.
    places
        .extend([["/home", "/"], ["/Users", "/"], ["/root", "/"], ["C:", "\\"]].map(|place| place.concat()));
    for path in files() {
        // Lock files and what came from elsewhere as data are no texts of ours.
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        if let Some(place) = places.iter().find(|place| text.contains(place.as_str())) {
            panic!("{} contains {place}", path.display());
        }
    }
}
