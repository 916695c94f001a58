//! The settings of the balance controller.

use std::time::Duration;

use crate::config::check::Check;
use crate::config::checked::{HOUR, SECOND};
use crate::config::raw::RawBalance;

/// So many evictions of an hour fit into what one leader leaves for the next one.
const MOST_EVICTIONS: u64 = 500;

/// Pods are moved off nodes that are loaded more than the others.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Balance {
    /// Whether nodes are compared at all.
    pub enabled: bool,
    /// Whether it is only told which pods would be evicted.
    pub dry_run: bool,
    /// How far above the mean a node must be, as a share.
    pub threshold: f64,
    /// For how many rounds in a row.
    pub rounds: u32,
    /// How often there is a round.
    pub interval: Duration,
    /// A pod is moved only if its owner has more ready pods than this.
    pub min_replicas: u32,
    /// Younger pods stay.
    pub minimum_age: Duration,
    /// The least time between two evictions of one workload.
    pub cooldown: Duration,
    /// The most evictions in an hour, in the whole cluster.
    pub evictions_per_hour: u32,
    /// Namespaces whose pods stay.
    pub excluded_namespaces: Vec<String>,
    /// Whether pods with `emptyDir` or `hostPath` may be moved: what is in the former is lost.
    pub evict_local_storage: bool,
}

pub(super) fn check(check: &mut Check<'_>, raw: &RawBalance) -> Balance {
    let path = |key: &str| format!("placement.balance.{key}");
    let balance = Balance {
        enabled: check.flag(&path("enabled"), &raw.enabled),
        dry_run: check.flag(&path("dryRun"), &raw.dry_run),
        threshold: check.number(&path("threshold"), &raw.threshold, 0.0..=1.0),
        rounds: number(check, &path("rounds"), &raw.rounds, 1, 1_000),
        interval: check.duration(&path("interval"), &raw.interval, SECOND..=HOUR),
        min_replicas: number(check, &path("minReplicas"), &raw.min_replicas, 0, 100_000),
        minimum_age: check.duration(&path("minimumAge"), &raw.minimum_age, Duration::ZERO..=24 * HOUR),
        cooldown: check.duration(&path("cooldown"), &raw.cooldown, Duration::ZERO..=24 * HOUR),
        evictions_per_hour: number(
            check,
            &path("evictionsPerHour"),
            &raw.evictions_per_hour,
            1,
            MOST_EVICTIONS,
        ),
        excluded_namespaces: check.list(
            &path("excludedNamespaces"),
            &raw.excluded_namespaces,
            Check::namespace,
        ),
        evict_local_storage: check.flag(&path("evictLocalStorage"), &raw.evict_local_storage),
    };
    if balance.threshold <= 0.0 && raw.threshold.as_f64() == Some(0.0) {
        check.refuse(
            &path("threshold"),
            "is 0, so that some node would always be above it; write a share, as in 0.1",
        );
    }
    balance
}

fn number(check: &mut Check<'_>, path: &str, value: &serde_json::Value, least: u64, most: u64) -> u32 {
    u32::try_from(check.count(path, value, least..=most)).unwrap_or(u32::MAX)
}
