//! Profiles and exclusions that stand in the configuration file.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_core::admission::{AbsentNamespace, Settings};
use plimsoll_core::profile::{HpaMode, Profile, from_manifest};

use crate::config::Config;

/// The profiles of the configuration. All of them are good: a configuration with a bad one is refused.
pub fn of_file(config: &Config) -> Vec<Arc<Profile>> {
    config.profiles.iter().filter_map(|profile| from_manifest(profile).ok()).map(Arc::new).collect()
}

/// What of the configuration decisions depend on.
pub fn settings(config: &Config, absent_namespace: AbsentNamespace) -> Settings {
    Settings {
        excluded_namespaces: excluded_namespaces(config),
        absent_namespace,
        own_namespace: config.admission.own_namespace.clone(),
        refuse_above_cluster: config.quota.refuse_above_cluster,
        hpa_mode: config.hpa.mode,
        hpa_unserved: [HpaMode::Shim, HpaMode::External]
            .into_iter()
            .filter(|mode| !config.hpa.offers(*mode))
            .collect(),
        load_class: config.placement.enabled && config.placement.load_class.enabled,
    }
}

/// The namespaces whose pods are never touched: those of the configuration and the server's own.
pub fn excluded_namespaces(config: &Config) -> BTreeSet<String> {
    let mut excluded: BTreeSet<String> = config.admission.excluded_namespaces.iter().cloned().collect();
    excluded.insert(config.admission.own_namespace.clone());
    excluded
}
