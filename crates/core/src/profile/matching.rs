//! Which profile a pod falls under.

use std::sync::Arc;

use crate::profile::{Labels, Profile};

/// What of a pod decides the profile.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Labels of its namespace.
    pub namespace_labels: &'a dyn Labels,
    /// Its own labels.
    pub labels: &'a dyn Labels,
    /// Its pool, if it has one.
    pub pool: Option<&'a str>,
    /// Kind of its topmost owner, or `Pod`.
    pub workload_kind: &'a str,
}

/// Profiles in the order in which they are asked: highest priority first, then by name.
#[derive(Clone, Debug, Default)]
pub struct ProfileSet {
    ordered: Vec<Arc<Profile>>,
}

impl ProfileSet {
    /// Puts profiles in order.
    pub fn new(profiles: impl IntoIterator<Item = Arc<Profile>>) -> Self {
        let mut ordered: Vec<_> = profiles.into_iter().collect();
        ordered.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name)));
        Self { ordered }
    }

    /// The first profile that matches.
    pub fn find(&self, candidate: &Candidate<'_>) -> Option<&Arc<Profile>> {
        self.ordered.iter().find(|profile| {
            let matches = &profile.matches;
            matches.namespaces.selects(candidate.namespace_labels)
                && matches.pods.selects(candidate.labels)
                && (matches.pools.is_empty()
                    || candidate.pool.is_some_and(|pool| matches.pools.iter().any(|p| p == pool)))
                && (matches.workload_kinds.is_empty()
                    || matches.workload_kinds.iter().any(|kind| kind == candidate.workload_kind))
        })
    }

    /// All of them, in that order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Profile>> {
        self.ordered.iter()
    }
}
