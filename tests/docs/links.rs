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

/// What is beside the book has no page in it, so a link there leads to the repository, on both.
#[test]
fn links_of_the_book_stay_in_it_or_name_the_repository() {
    let mut seen = 0;
    for document in documents() {
        let in_book = document.path.starts_with("docs");
        for (line, text) in document.prose() {
            for link in between(text, "](", ")") {
                let place = format!("{}:{line}: {link}", document.path.display());
                if let Some(path) = link.strip_prefix(REPOSITORY) {
                    let path = path.split('#').next().unwrap();
                    assert!(root().join(path).exists(), "{place}: no such file");
                    seen += 1;
                } else if in_book && !link.contains("://") {
                    let depth = document.path.components().count() - 2;
                    let up = link.split('/').take_while(|part| *part == "..").count();
                    assert!(up <= depth, "{place}: it leads out of docs/; write {REPOSITORY}...");
                }
            }
        }
    }
    assert!(seen >= 5, "only {seen} links to the repository were found");
}

/// The repository's newest files, as a page of the book names them.
const REPOSITORY: &str = "https://github.com/plimsoll-dev/plimsoll/blob/main/";

#[test]
fn every_page_is_in_the_summary_once() {
    let summary = read("docs/SUMMARY.md").text;
    let mut listed: Vec<&str> = between(&summary, "](", ")").collect();
    listed.sort_unstable();
    let pages = files().into_iter().filter(|path| {
        path.starts_with("docs") && path.extension().is_some_and(|extension| extension == "md")
    });
    let mut pages: Vec<String> =
        pages.map(|path| path.strip_prefix("docs").unwrap().to_str().unwrap().to_owned()).collect();
    pages.retain(|page| page != "SUMMARY.md");
    pages.sort_unstable();
    assert_eq!(listed, pages, "docs/SUMMARY.md lists every page of docs/ once");
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
