//! The words by which the program gives its reasons are all explained.

use std::collections::BTreeSet;
use std::fs;

use plimsoll_core::admission::Skip;
use plimsoll_core::overcommit::{Held, Kept, Rule};
use plimsoll_core::pod::Malformed;
use plimsoll_core::quota::flavor::{FlavorRefusal, MOST_TERMS};
use plimsoll_quantity::Ratio;

use crate::markdown::{Document, code, documents, files, read, root};

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
        Rule::Static { factor: Ratio::ONE }.to_string().replace('1', "F"),
        Rule::Dynamic { recommendation: text("NAME"), target: text("R"), expanded: text("E") }.to_string(),
        Held::Original.to_string(),
        Held::Minimum(text("Q")).to_string(),
        Held::BelowMinimum(text("Q")).to_string(),
        Held::WithPod.to_string(),
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

#[test]
fn every_refusal_because_of_flavors_is_in_the_table() {
    let text = |text: &str| text.to_owned();
    let (leaf, levels, allowed) = (|| text("LEAF"), || text("LEVELS"), || text("ALLOWED"));
    let refusals = [
        FlavorRefusal::Missing { flavor: text("FLAVOR"), node: text("NODE"), leaf: leaf() },
        FlavorRefusal::Contradiction { leaf: leaf(), levels: levels() },
        FlavorRefusal::TooManyTerms { leaf: leaf(), levels: levels(), most: MOST_TERMS },
        FlavorRefusal::TooLarge { leaf: leaf(), levels: levels(), most: 1 << 20 },
        FlavorRefusal::NodeSelector {
            leaf: leaf(),
            levels: levels(),
            key: text("KEY"),
            value: text("VALUE"),
            allowed: allowed(),
        },
        FlavorRefusal::NotImplied {
            leaf: leaf(),
            levels: levels(),
            place: text("PLACE"),
            allowed: allowed(),
        },
        FlavorRefusal::Malformed {
            leaf: leaf(),
            error: Malformed { path: text("PATH"), expected: "EXPECTED" },
        },
    ];
    let document = read("docs/flavors.md");
    let rows = rows(&document);
    for refusal in refusals.map(|refusal| refusal.to_string()) {
        let described = rows.iter().any(|row| row[0].len() > 20 && refusal.starts_with(&row[0]));
        assert!(described, "no row for {refusal:?}");
    }
}

#[test]
fn every_verdict_and_reason_of_balance_is_in_a_table() {
    use plimsoll_core::balance::{Spared, Verdict};
    let document = read("docs/balance.md");
    let rows = rows(&document);
    for name in Verdict::NAMES.iter().chain(&Spared::NAMES) {
        assert!(rows.iter().any(|row| row[0] == *name), "docs/balance.md: no row for {name}");
    }
}

#[test]
fn metrics_that_are_named_exist() {
    let known = read("docs/metrics.md").text;
    let mut seen = 0;
    for document in documents() {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        for word in document.text.split(|c| !is_part(c)).filter(|word| word.starts_with("plimsoll_")) {
            // The crates of the workspace, as Rust spells them; what is served to autoscalers, not to Prometheus.
            let others =
                ["plimsoll_core", "plimsoll_quantity", "plimsoll_cpu_percent", "plimsoll_memory_percent"];
            if others.contains(&word) {
                continue;
            }
            let place = document.path.display();
            assert!(known.contains(&format!("`{word}`")), "{place}: {word} is not in docs/metrics.md");
            seen += 1;
        }
    }
    assert!(seen >= 20, "only {seen} names were found");
}

#[test]
fn settings_that_are_named_exist() {
    let known = read("docs/configuration.md").text;
    let mut seen = 0;
    for document in documents() {
        for (line, text) in document.prose() {
            for setting in code(text).filter_map(setting) {
                let place = document.path.display();
                let row = known.contains(&format!("| `{setting}` |"));
                assert!(row, "{place}:{line}: there is no setting {setting}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 20, "only {seen} settings were found");
}

/// The setting that a piece of code names, as `log.level` or `log.level: info`.
fn setting(code: &str) -> Option<&str> {
    const SECTIONS: [&str; 8] =
        ["server", "tls", "probes", "admission", "cluster", "recommender", "api", "log"];
    let path = code.split([':', ' ']).next()?;
    let (section, key) = path.split_once('.')?;
    let is_key = key.chars().all(|c| c.is_ascii_alphanumeric());
    // A name of a file looks like a setting.
    let is_file = ["crt", "key", "yaml", "log"].contains(&key);
    let is_setting = SECTIONS.contains(&section) && is_key && (!is_file || code == "tls.key");
    is_setting.then_some(path)
}

/// `kubectl apply -k` removes nothing: what has to be deleted by hand after a part was taken out is all there.
#[test]
fn every_part_that_brings_rights_is_in_the_list_of_those_to_delete() {
    let document = read("docs/install.md");
    let line = document.prose().find_map(|(_, line)| line.strip_prefix("PART is one of "));
    let listed: BTreeSet<String> = code(line.unwrap()).map(str::to_owned).collect();
    let mut made = BTreeSet::new();
    for path in files() {
        if !path.starts_with("webhook-config") || path.extension().is_none_or(|extension| extension != "yaml")
        {
            continue;
        }
        let text = fs::read_to_string(root().join(&path)).unwrap();
        for object in text.split("\n---") {
            let value = |key: &str| object.lines().find_map(|line| line.strip_prefix(key));
            if matches!(value("kind: "), Some("ClusterRole" | "Role" | "NetworkPolicy")) {
                made.extend(value("  name: plimsoll-").map(str::to_owned));
            }
        }
    }
    assert_eq!(listed, made);
}
