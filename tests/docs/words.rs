//! The words by which the program gives its reasons are all explained.

use plimsoll_core::admission::Skip;
use plimsoll_core::overcommit::{Held, Kept, Rule};

use crate::markdown::{Document, read};

/// The cells of the rows of tables, without the marks of code.
fn rows(document: &Document) -> Vec<Vec<String>> {
    let rows = document.prose().filter_map(|(_, line)| line.strip_prefix('|'));
    rows.map(|row| row.split('|').map(|cell| cell.replace('`', "").trim().to_owned()).collect()).collect()
}

#[test]
fn every_reason_for_leaving_a_pod_alone_is_in_the_table() {
    let document = read("docs/troubleshooting.md");
    let rows = rows(&document);
    for skip in Skip::ALL {
        let row = rows.iter().find(|row| row[0] == skip.word());
        let row = row.unwrap_or_else(|| panic!("no row for {}", skip.word()));
        assert_eq!(row[1], skip.sentence(), "the sentence of {}", skip.word());
        assert!(!row[2].is_empty(), "what to do about {}", skip.word());
    }
    let described = rows.iter().filter(|row| row[0].starts_with("skipped_")).count();
    assert_eq!(described, Skip::ALL.len(), "rows for reasons that the program does not know");
}

#[test]
fn every_reason_for_a_figure_is_in_the_table() {
    let text = |text: &str| text.to_owned();
    let kept = |kept| Rule::Keep(kept).to_string();
    let reasons = [
        kept(Kept::Vpa),
        kept(Kept::Unreadable(text("TEXT"))),
        kept(Kept::AboveLimit),
        kept(Kept::Unnamed),
        kept(Kept::TooLarge),
        kept(Kept::PodLevel),
        Rule::Static { factor: text("F") }.to_string(),
        Rule::Dynamic { recommendation: text("NAME"), target: text("R"), expanded: text("E") }.to_string(),
        Held::Original.to_string(),
        Held::Minimum(text("Q")).to_string(),
        Held::LimitRange(text("Q")).to_string(),
        Held::LimitRangeAboveOriginal(text("Q")).to_string(),
        Held::PodLimitRange(text("Q")).to_string(),
        Held::ContainerSum(text("Q")).to_string(),
    ];
    let document = read("docs/troubleshooting.md");
    let rows = rows(&document);
    for reason in reasons {
        assert!(rows.iter().any(|row| row[0] == reason), "no row that begins with {reason:?}");
    }
}
