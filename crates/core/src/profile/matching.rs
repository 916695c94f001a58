//! Which profile a pod falls under.

use std::sync::Arc;

use crate::profile::{Labels, Profile, ProfileMatch};

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

/// A part of a profile's match that does not hold.
#[derive(Clone, Copy)]
enum Part {
    Namespaces,
    Pods,
    Pools,
    WorkloadKinds,
}

impl ProfileMatch {
    fn first_mismatch(&self, candidate: &Candidate<'_>) -> Option<Part> {
        if !self.namespaces.selects(candidate.namespace_labels) {
            Some(Part::Namespaces)
        } else if !self.pods.selects(candidate.labels) {
            Some(Part::Pods)
        } else if !self.pools.is_empty()
            && candidate.pool.is_none_or(|pool| self.pools.iter().all(|name| name != pool))
        {
            Some(Part::Pools)
        } else if !self.workload_kinds.is_empty()
            && self.workload_kinds.iter().all(|kind| kind != candidate.workload_kind)
        {
            Some(Part::WorkloadKinds)
        } else {
            None
        }
    }

    /// The first part that does not hold, in words; `None` if all hold.
    pub fn mismatch(&self, candidate: &Candidate<'_>) -> Option<String> {
        Some(match self.first_mismatch(candidate)? {
            Part::Namespaces => "namespaceSelector does not select the namespace's labels".to_owned(),
            Part::Pods => "podSelector does not select the pod's labels".to_owned(),
            Part::Pools => {
                let pools = self.pools.join(", ");
                match candidate.pool {
                    Some(pool) => format!("pools are {pools}, the pod's pool is {pool}"),
                    None => format!("pools are {pools}, the pod has none"),
                }
            }
            Part::WorkloadKinds => format!(
                "workloadKinds are {}, the pod's owner is a {}",
                self.workload_kinds.join(", "),
                candidate.workload_kind
            ),
        })
    }
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
        self.ordered.iter().find(|profile| profile.matches.first_mismatch(candidate).is_none())
    }

    /// All of them, in that order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Profile>> {
        self.ordered.iter()
    }
}
