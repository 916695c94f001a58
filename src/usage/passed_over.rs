//! What of a file is no amount, and is passed over.

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_core::usage::is_amount;

use super::rows::{COLUMNS, Row};

/// Why something in a file is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// A value below 0.
    Negative,
    /// NaN.
    NotANumber,
    /// Without end, in either direction.
    Infinite,
    /// More than an amount can be.
    TooLarge,
    /// A row without any usage.
    Empty,
}

impl Why {
    /// All there are, in this order.
    pub const ALL: [Self; 5] =
        [Self::Negative, Self::NotANumber, Self::Infinite, Self::TooLarge, Self::Empty];

    const fn of(value: f64) -> Self {
        if value.is_nan() {
            Self::NotANumber
        } else if value.is_infinite() {
            Self::Infinite
        } else if value < 0.0 {
            Self::Negative
        } else {
            Self::TooLarge
        }
    }

    /// Its name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Negative => "negative",
            Self::NotANumber => "notANumber",
            Self::Infinite => "infinite",
            Self::TooLarge => "tooLarge",
            Self::Empty => "empty",
        }
    }
}

/// What is passed over for one reason.
#[derive(Clone, Debug, PartialEq)]
pub struct PassedOver {
    /// How many values, or rows where they are [`Why::Empty`].
    pub count: u64,
    /// The line of the first, counted from 1.
    pub line: u64,
    /// The column and value of the first; rows that are empty have none.
    pub value: Option<(&'static str, f64)>,
    /// The reason.
    pub why: Why,
}

/// As in `line 4: cpu_cores: -1.0 is negative; 2 such values are passed over, of which this is the first`.
impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        if let Some((column, value)) = self.value {
            write!(f, "{column}: {value:?} ")?;
        }
        f.write_str(match self.why {
            Why::Negative => "is negative",
            Why::NotANumber => "is not a number",
            Why::Infinite => "is infinite",
            Why::TooLarge => "is more than anything can have",
            Why::Empty => "has neither cpu_cores nor memory_bytes",
        })?;
        let what = if self.why == Why::Empty { "row" } else { "value" };
        match self.count {
            1 => write!(f, "; the {what} is passed over"),
            count => write!(f, "; {count} such {what}s are passed over, of which this is the first"),
        }
    }
}

/// Counts what of a row is passed over.
pub(super) fn look(row: &Row<'_>, passed_over: &mut BTreeMap<Why, PassedOver>) {
    let mut count = |why, value| {
        let first = || PassedOver { count: 0, line: row.line, value, why };
        passed_over.entry(why).or_insert_with(first).count += 1;
    };
    let usage = row.usage;
    if usage.cpu.is_none() && usage.memory.is_none() {
        count(Why::Empty, None);
    }
    let [_, _, columns @ ..] = COLUMNS;
    let values = [usage.cpu, usage.memory, usage.cpu_request, row.memory_request];
    for (column, value) in columns.into_iter().zip(values) {
        if let Some(value) = value.filter(|value| !is_amount(*value)) {
            count(Why::of(value), Some((column, value)));
        }
    }
}
