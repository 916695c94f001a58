//! What the keeper tells the webhook.
//!
//! A keeper that patched `spec.metrics` itself would become an owner of that field, and the next server-side apply of
//! the autoscaler's author would fail with a conflict. So it patches this annotation only, and the webhook changes the
//! targets in the same request, which makes it no owner. It tells the bases, not the value: the webhook computes that
//! from the target that stands in the object at that moment.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::hpa::record::{Entry, OriginalsError, read_object};
use crate::hpa::{Bases, KeyBase, Verdict, Why};

/// Why the annotation cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SyncError {
    /// It is not the JSON that the keeper writes.
    #[error("it is not what Plimsoll's keeper writes: {0}")]
    NotOurs(String),
    /// An entry in it cannot be.
    #[error(transparent)]
    Entry(#[from] OriginalsError),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    restore: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bases: Vec<Entry>,
}

/// The annotation's text for a verdict; nothing for one that asks for no change.
pub fn write_sync(verdict: &Verdict) -> Option<String> {
    let text = match verdict {
        Verdict::Unknown => return None,
        Verdict::Restore(_) => Text { restore: true, bases: Vec::new() },
        Verdict::Convert(bases) => Text {
            restore: false,
            bases: bases
                .0
                .iter()
                .map(|(key, base)| match base {
                    KeyBase::Known(base) => Entry::about(key).with_base(key, base),
                    KeyBase::Missing { why, native } => {
                        Entry { missing: Some(why.clone()), keep: !native, ..Entry::about(key) }
                    }
                    KeyBase::AsWritten => Entry { as_written: true, ..Entry::about(key) },
                })
                .collect(),
        },
    };
    // Strings and numbers can always be written.
    serde_json::to_string(&text).ok()
}

/// The verdict that the annotation's text tells.
///
/// # Errors
/// It is not what we write.
pub fn read_sync(text: &str) -> Result<Verdict, SyncError> {
    let read: Text = read_object(text).map_err(SyncError::NotOurs)?;
    if read.restore {
        return Ok(Verdict::Restore(Why::Asked));
    }
    let mut bases = Bases::default();
    for (index, entry) in read.bases.iter().enumerate() {
        let key = entry.key(index)?;
        let base = match (entry.base(index)?, &entry.missing) {
            (Some(base), _) => KeyBase::Known(base),
            (None, Some(why)) => KeyBase::Missing { why: why.clone(), native: !entry.keep },
            (None, None) if entry.as_written => KeyBase::AsWritten,
            // One that waits.
            (None, None) => continue,
        };
        bases.0.insert(key, base);
    }
    Ok(Verdict::Convert(bases))
}
