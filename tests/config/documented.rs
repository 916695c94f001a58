//! The documentation and the program say the same.

use std::time::Duration;

use plimsoll::config::{defaults, environment_name};
use serde_json::Value;

use crate::support::config;

/// The rows of the tables of settings in the documentation: path and default.
fn documented() -> Vec<(String, Value)> {
    let text = include_str!("../../docs/configuration.md");
    let settings = text.split("## Settings").nth(1).unwrap();
    let cell = |cell: &str| cell.trim().trim_matches('`').to_owned();
    let rows = settings.lines().filter(|line| line.starts_with("| `"));
    let mut rows: Vec<(String, Value)> = rows
        .map(|row| {
            // A bar within a cell is escaped.
            let row = row.replace("\\|", "\u{0}");
            let cells: Vec<String> = row.split('|').map(|cell| cell.replace('\u{0}', "|")).collect();
            let default = cell(&cells[2]);
            (cell(&cells[1]), serde_json::from_str(&default).unwrap_or_else(|_| panic!("default in {row}")))
        })
        .collect();
    rows.sort_by(|left, right| left.0.cmp(&right.0));
    rows
}

#[test]
fn the_documentation_lists_every_setting_with_its_default() {
    assert_eq!(documented(), defaults());
}

#[test]
fn the_documented_example_is_valid() {
    let text = include_str!("../../docs/configuration.md");
    let example = text.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let config = config(example);
    assert_eq!(config.server.drain_delay, Duration::from_secs(15));
    assert_eq!(config.profiles.len(), 1);
}

#[test]
fn variables_have_the_documented_names() {
    assert_eq!(environment_name("server.drainDelay"), "PLIMSOLL_SERVER__DRAIN_DELAY");
    assert_eq!(environment_name("profiles"), "PLIMSOLL_PROFILES");
}
