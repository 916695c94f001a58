//! Profiles and exclusions that stand in the configuration file.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_core::problem::Problem;
use plimsoll_core::profile::{Profile, from_manifest};
use serde_json::Value;

use crate::config::Config;

/// The checked profiles of the configuration, and everything that is wrong with the others.
pub fn of_file(profiles: &[Value]) -> (Vec<Arc<Profile>>, Vec<Problem>) {
    let mut valid: Vec<Arc<Profile>> = Vec::new();
    let mut problems = Vec::new();
    for (index, value) in profiles.iter().enumerate() {
        match from_manifest(value) {
            Ok(profile) => valid.push(Arc::new(profile)),
            Err(found) => {
                problems.extend(found.into_iter().map(|problem| Problem {
                    path: format!("profiles[{index}].{}", problem.path),
                    ..problem
                }));
            }
        }
    }
    (valid, problems)
}

/// The namespaces whose pods are never touched: those of the configuration and the server's own.
pub fn excluded_namespaces(config: &Config) -> BTreeSet<String> {
    let mut excluded: BTreeSet<String> = config.admission.excluded_namespaces.iter().cloned().collect();
    excluded.insert(config.admission.own_namespace.clone());
    excluded
}
