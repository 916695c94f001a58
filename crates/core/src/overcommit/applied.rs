//! The text of the annotation `plimsoll.dev/applied`: what was lowered, for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::overcommit::{Line, Plan, Target};

/// Longer texts are cut: a person reads the beginning, and the annotation's size counts.
const LIMIT: usize = 1024;

impl Plan {
    /// As in `static(shared-pool): app cpu 1 -> 500m, memory 1Gi -> 717Mi; proxy cpu 200m -> 100m`. `None`
    /// if nothing is below its original.
    pub fn applied(&self, profile: &str) -> Option<String> {
        let mut by_rule: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
        for line in self.lines.iter().filter(|line| line.lowered()) {
            by_rule.entry(line.rule.word()).or_default().push(line);
        }
        if by_rule.is_empty() {
            return None;
        }
        let mut text = String::new();
        let mut left_out = 0_usize;
        for (rule, lines) in by_rule {
            let mut last = None;
            for line in lines {
                let before = text.len();
                // Writing to a string cannot fail.
                let _ = append(&mut text, line, rule, profile, last);
                if text.len() > LIMIT {
                    text.truncate(before);
                    left_out += 1;
                    continue;
                }
                last = Some(&line.target);
            }
        }
        if left_out > 0 {
            let _ = write!(text, "; and {left_out} more");
        }
        Some(text)
    }
}

fn append(
    text: &mut String,
    line: &Line,
    rule: &str,
    profile: &str,
    last: Option<&Target>,
) -> std::fmt::Result {
    let Line { target, resource, original, result, .. } = line;
    match last {
        Some(last) if last == target => text.push_str(", "),
        Some(_) => write!(text, "; {target} ")?,
        None if text.is_empty() => write!(text, "{rule}({profile}): {target} ")?,
        None => write!(text, "; {rule}({profile}): {target} ")?,
    }
    write!(text, "{resource} {} -> {}", short(&original.text), short(&result.text))
}

/// Quantities may be written with any number of zeros.
fn short(text: &str) -> &str {
    text.get(..40).unwrap_or(text)
}
