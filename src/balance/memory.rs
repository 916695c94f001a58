//! What one leader leaves for the next one: who was evicted, in an annotation of the lease.

use kube::Client;
use plimsoll_core::balance::{PastEviction, State};
use serde::{Deserialize, Serialize};

use super::PART;
use crate::cluster::{LeaseMemo, WriteError};

/// The annotation.
pub const MEMO: &str = "plimsoll.dev/balance-evictions";

/// Annotations of an object may have 256 KiB together; this one is read and written with each renewal.
const MOST_BYTES: usize = 64 << 10;
const HOUR: i64 = 3_600;

/// The annotation on the lease.
#[derive(Clone, Debug)]
pub struct Memory(LeaseMemo);

#[derive(Serialize, Deserialize)]
struct Text {
    evictions: Vec<PastEviction>,
}

/// What an annotation says that somebody else wrote.
#[derive(Clone, Debug, PartialEq)]
pub enum Remembered {
    /// This was evicted.
    Evictions(Vec<PastEviction>),
    /// Nobody can tell what it says, and why.
    Unreadable(String),
}

impl Memory {
    /// Nothing is called yet. `identity` is ours in the lease.
    pub fn new(client: Client, namespace: &str, identity: &str) -> Self {
        Self(LeaseMemo::new(client, PART, namespace, identity, MEMO))
    }

    /// What was evicted by whoever led before.
    ///
    /// # Errors
    /// The lease cannot be read.
    pub async fn read(&self) -> Result<Remembered, WriteError> {
        let Some(text) = self.0.read().await? else { return Ok(Remembered::Evictions(Vec::new())) };
        Ok(match serde_json::from_str::<Text>(&text) {
            Ok(text) => Remembered::Evictions(text.evictions),
            Err(error) => Remembered::Unreadable(error.to_string()),
        })
    }

    /// Writes what was evicted, and is about to be, at `now` (nanoseconds since 1970). Whether we still lead.
    ///
    /// # Errors
    /// The lease cannot be read or written.
    pub async fn write(&self, state: &State, now: i64) -> Result<bool, WriteError> {
        self.0.write(&text_of(state.evictions(), now / 1_000_000_000)).await
    }
}

/// The newest of these evictions, as many as an annotation takes. Those of the last hour are always among them: the cap
/// goes by them.
fn text_of(evictions: &[PastEviction], now: i64) -> String {
    let mut length = 0;
    let mut kept: Vec<PastEviction> = evictions
        .iter()
        .rev()
        .take_while(|past| {
            // Texts and numbers can always be written.
            length += serde_json::to_string(past).unwrap_or_default().len() + 1;
            length <= MOST_BYTES || now - past.at < HOUR
        })
        .cloned()
        .collect();
    kept.reverse();
    serde_json::to_string(&Text { evictions: kept }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_is_not_too_long() {
        let past = |ago: i64| PastEviction {
            workload: format!("shop/StatefulSet/{}", "x".repeat(100)),
            node: "n1".to_owned(),
            at: 10_000 - ago,
            cpu: 0.1234,
            ..PastEviction::default()
        };
        for (rule, old, new, expected) in [
            ("all", 10, 5, 15),
            (
                "the oldest are left out",
                1_000,
                5,
                MOST_BYTES / serde_json::to_string(&past(3_600)).unwrap().len(),
            ),
            ("but none of the last hour", 10, 600, 600),
        ] {
            let evictions: Vec<_> =
                std::iter::repeat_n(past(3_600), old).chain(std::iter::repeat_n(past(0), new)).collect();
            let text = text_of(&evictions, 10_000);
            let read: Text = serde_json::from_str(&text).unwrap();
            assert!(read.evictions.len().abs_diff(expected) <= 5, "{rule}: {}", read.evictions.len());
            assert!(text.len() < MOST_BYTES + 100 || new > 500, "{rule}: {}", text.len());
            assert_eq!(read.evictions.iter().filter(|past| past.at == 10_000).count(), new, "{rule}");
        }
    }
}
