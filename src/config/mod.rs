//! Configuration: built-in defaults, a file, the environment and flags, each beating the one before.
//!
//! [`load`] merges the layers and checks the result; every violation is reported at once, with its path and
//! where the value stands. [`ConfigWatcher`] reads the file again when its content changes.

mod check;
mod checked;
mod error;
mod hpa;
mod hpa_api;
mod keys;
mod layers;
mod placement;
mod profiles;
mod prometheus;
mod quota;
mod raw;
mod recommender;
mod reload;
mod self_managed;
mod units;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

pub(crate) use check::{is_host, is_label};
pub use checked::{
    Admission, ApiListener, ClientAuth, Cluster, Config, Log, LogFormat, Probes, Server, Tls, TlsSource,
    TlsVersion,
};
pub use error::{ConfigErrors, Origin, Violation};
pub use hpa::{External, Hpa, Shim};
pub use hpa_api::HpaApi;
pub use keys::environment_name;
pub(crate) use keys::nearest;
pub use layers::{Flag, Sources};
pub use placement::{
    Balance, HowLoadIsRead, LoadClass, LoadQueries, LoadSource, Placement, UsageQueries, WhatContainersUse,
};
pub use prometheus::PrometheusAccess;
pub use quota::{Namespaces, Quota, Reclaim};
pub use recommender::{MetricsServer, Prometheus, Recommender, UsageSource};
pub use reload::{ConfigWatcher, Observer, POLL_INTERVAL, Poll};
pub use self_managed::SelfManaged;
pub(crate) use units::duration;

/// A configuration with the story of its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The checked configuration.
    pub config: Config,
    values: Map<String, Value>,
    origins: BTreeMap<String, Origin>,
    file_hash: Option<layers::ContentHash>,
}

/// One setting: its effective value as written, and where that came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Such as `server.drainDelay`.
    pub path: String,
    /// As written in its source.
    pub value: Value,
    /// Its source.
    pub origin: Origin,
}

impl Loaded {
    /// The effective settings as one tree, in the form of a configuration file.
    pub fn values(&self) -> &Map<String, Value> {
        &self.values
    }

    /// Every setting with its value and origin, in alphabetical order of the paths.
    pub fn settings(&self) -> Vec<Setting> {
        self.origins
            .iter()
            .map(|(path, origin)| Setting {
                path: path.clone(),
                value: value_at(&self.values, path).cloned().unwrap_or_default(),
                origin: origin.clone(),
            })
            .collect()
    }
}

fn value_at<'a>(tree: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut parts = path.split('.');
    let first = tree.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

/// Every setting there is with its built-in default, in alphabetical order of the paths.
pub fn defaults() -> Vec<(String, Value)> {
    let mut leaves: Vec<_> = keys::leaves().into_iter().map(|(path, value)| (path, value.clone())).collect();
    leaves.sort_by(|left, right| left.0.cmp(&right.0));
    leaves
}

/// Merges and checks a configuration.
///
/// # Errors
///
/// [`ConfigErrors::File`] when the file cannot be read or parsed at all, else [`ConfigErrors::Violations`] with
/// everything that is wrong in any layer.
pub fn load(sources: &Sources) -> Result<Loaded, ConfigErrors> {
    let layers = layers::Layers::collect(sources)?;
    let (values, origins) = layers.merge().map_err(internal)?;
    checked(values, origins, layers.file_hash, layers.violations)
}

/// Checks the content of a configuration file, alone.
///
/// # Errors
///
/// As [`load`].
pub fn check_tree(file: &Path, tree: Map<String, Value>) -> Result<Loaded, ConfigErrors> {
    let layers = layers::Layers::of_tree(file, tree);
    let (values, origins) = layers.merge().map_err(internal)?;
    checked(values, origins, None, layers.violations)
}

/// Checks a merged tree; `violations` are those that were found before.
fn checked(
    values: Map<String, Value>,
    origins: BTreeMap<String, Origin>,
    file_hash: Option<layers::ContentHash>,
    mut violations: Vec<Violation>,
) -> Result<Loaded, ConfigErrors> {
    let raw = raw::RawConfig::deserialize(Value::Object(values.clone())).map_err(internal)?;
    match Config::check(&raw, &origins) {
        Ok(config) if violations.is_empty() => Ok(Loaded { config, values, origins, file_hash }),
        checked => {
            violations.extend(checked.err().unwrap_or_default());
            violations.sort_by(|left, right| left.path.cmp(&right.path));
            Err(ConfigErrors::Violations(violations))
        }
    }
}

/// What the checks of the layers should have caught before.
fn internal(error: impl std::fmt::Display) -> ConfigErrors {
    let violation = Violation { path: String::new(), message: error.to_string(), origin: Origin::Default };
    ConfigErrors::Violations(vec![violation])
}
