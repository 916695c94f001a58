//! Who asks.

use std::collections::BTreeMap;

/// A user, as the API server knows one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    /// The name.
    pub(super) user: String,
    /// Which of all users of that name, over time; often empty.
    pub(super) uid: String,
    /// The groups.
    pub(super) groups: Vec<String>,
    /// Whatever else the authenticator knows.
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// Whether the user is in a group.
    pub(super) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|known| known == group)
    }
}
