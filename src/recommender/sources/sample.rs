//! What sources deliver.

pub use plimsoll_core::recommender::Sample;

/// Where samples go.
pub type Sink<'s> = dyn FnMut(&Sample<'_>) + Send + 's;

/// What was not delivered, by reason. None of these fails a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Series, or containers, without the name of a namespace, pod or container.
    pub missing_labels: u64,
    /// Values that are NaN (stale markers are) or infinite.
    pub not_finite: u64,
    /// Values that are negative or no number, and times that are none.
    pub invalid: u64,
    /// Containers and series without any value.
    pub no_value: u64,
    /// Values of a container and a time for which another series has one too; the greatest counts.
    pub duplicate: u64,
}

impl Skipped {
    /// The counts with a word for each, as for a metric's label.
    pub const fn by_reason(&self) -> [(&'static str, u64); 5] {
        [
            ("missing_labels", self.missing_labels),
            ("not_finite", self.not_finite),
            ("invalid", self.invalid),
            ("no_value", self.no_value),
            ("duplicate", self.duplicate),
        ]
    }

    /// Adds the counts of another.
    pub const fn add(&mut self, other: &Self) {
        self.missing_labels += other.missing_labels;
        self.not_finite += other.not_finite;
        self.invalid += other.invalid;
        self.no_value += other.no_value;
        self.duplicate += other.duplicate;
    }

    /// A value, if it can be one of usage; else it is counted.
    pub(crate) fn checked(&mut self, value: Option<f64>) -> Option<f64> {
        match value {
            Some(value) if !value.is_finite() => self.not_finite += 1,
            Some(value) if value >= 0.0 => return Some(value),
            _ => self.invalid += 1,
        }
        None
    }
}
