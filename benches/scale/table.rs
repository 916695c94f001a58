//! Tables as the documents have them.

use std::io::Write as _;

/// A line on the terminal; that nobody reads it is no reason to stop.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

pub(crate) fn rows<const N: usize>(rows: &[[String; N]]) {
    for (index, row) in rows.iter().enumerate() {
        say(&format!("| {} |", row.join(" | ")));
        if index == 0 {
            say(&format!("|{}", " --- |".repeat(N)));
        }
    }
}

/// A count as a float, for averages.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}
