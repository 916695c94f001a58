//! What a status is put together from.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::health::Known;
use super::judge::{Facts, judge, text};
use super::{Health, Part, State, Status};
use crate::config::{Config, TlsSource};
use crate::metrics::Metrics;
use crate::server::Readiness;
use crate::server::health::ConditionState;

/// Watches are opened anew every five minutes at the latest, and bookmarks come more often: then the API server is away.
const OLDEST_SNAPSHOT: Duration = Duration::from_secs(600);
/// So many scans of usage may fail in a row before it is old.
const MISSED_SCANS: u32 = 3;

/// What a status is put together from. Clones share it.
#[derive(Clone, Debug)]
pub struct StatusSources {
    config: Arc<Config>,
    standalone: bool,
    replica: String,
    readiness: Readiness,
    metrics: Arc<Metrics>,
}

impl StatusSources {
    /// `config` says what is on; `standalone` that there is no cluster.
    pub fn new(config: Arc<Config>, standalone: bool, readiness: Readiness, metrics: Arc<Metrics>) -> Self {
        let replica = std::env::var("HOSTNAME").unwrap_or_default();
        let replica = if replica.is_empty() { "plimsoll".to_owned() } else { replica };
        Self { config, standalone, replica, readiness, metrics }
    }

    /// What parts told.
    pub fn health(&self) -> &Health {
        self.metrics.health()
    }

    /// How everything is now.
    pub fn status(&self) -> Status {
        let now = Timestamp::now();
        let known = self.health().known();
        let mut conditions: BTreeMap<Part, Facts> = BTreeMap::new();
        for (name, state) in self.readiness.conditions() {
            let part = part_of(&name);
            let facts = conditions.entry(part).or_default();
            match state {
                ConditionState::Ready => {}
                ConditionState::Degraded(why) => facts.degraded.push(why),
                ConditionState::Missing(why) | ConditionState::Stuck(why) => {
                    facts.failed.push(format!("{name}: {why}"));
                }
            }
        }
        let missing = self.readiness.missing();
        let of_admission = conditions.entry(Part::Admission).or_default();
        of_admission
            .failed
            .extend(self.readiness.broken().map(|why| format!("{why}; the replica asks to be restarted")));
        let elsewhere =
            missing.iter().filter(|(name, _)| part_of(name) != Part::Admission || name == "shutdown");
        of_admission.failed.extend(elsewhere.map(|(name, why)| format!("not ready: {name}: {why}")));
        let nothing = Known::default();
        let parts: Vec<_> = Part::ALL
            .iter()
            .map(|part| {
                let known_of = |part: &Part| known.get(part).unwrap_or(&nothing);
                let facts = self.facts(*part, conditions.remove(part).unwrap_or_default(), known_of(part));
                let leases = facts.led_by.map(|led| &known_of(&led).leases);
                judge(*part, facts, known_of(part), leases, now)
            })
            .collect();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            replica: self.replica.clone(),
            at: text(now),
            ready: missing.is_empty(),
            state: State::sum(parts.iter().map(|part| part.state)),
            parts,
        }
    }

    /// What a part is judged by. Nothing of a cluster is on without one.
    fn facts(&self, part: Part, conditions: Facts, known: &Known) -> Facts {
        let config = &self.config;
        let cluster = !self.standalone;
        let placed = cluster && config.placement.enabled;
        let (enabled, led_by) = match part {
            Part::Admission | Part::Snapshots | Part::Certificates | Part::Configuration => (true, None),
            Part::Events => (cluster, None),
            Part::CertificateAuthority => {
                // Where nobody asks for a lease, files or nobody keep the authority.
                let kept = config.tls.source == TlsSource::SelfManaged;
                (cluster && kept, Some(Part::CertificateAuthority))
            }
            Part::Recommender | Part::UsageSource => {
                let led = cluster.then_some(Part::Recommender);
                (config.recommender.runs(self.standalone), led)
            }
            Part::HpaKeeper => (cluster && config.hpa.enabled, Some(part)),
            Part::HpaApi => (cluster && config.hpa.serves_metrics(), None),
            Part::QuotaKeeper => (cluster && config.quota.enabled, Some(part)),
            Part::QuotaLedger => (cluster && config.quota.enabled, None),
            Part::PlacementLoad => (placed, None),
            Part::Extender => (placed && config.placement.address.is_some(), None),
            Part::Balance => (cluster && config.placement.leads(), Some(part)),
        };
        let (age, maximum_age) = match part {
            Part::Snapshots if cluster => (self.metrics.oldest_snapshot(), Some(OLDEST_SNAPSHOT)),
            Part::UsageSource => {
                let limit = config.recommender.scan_interval.saturating_mul(MISSED_SCANS);
                (known.age(), Some(limit))
            }
            Part::PlacementLoad => (known.age(), Some(config.placement.load.maximum_age)),
            _ => (known.age(), None),
        };
        let shards = if led_by == Some(Part::Recommender) { config.recommender.shards } else { 1 };
        Facts { enabled, led_by, shards, age, maximum_age, ..conditions }
    }
}

/// The part that a readiness condition is about; what is not known here counts for the whole.
fn part_of(condition: &str) -> Part {
    match condition {
        "snapshots" => Part::Snapshots,
        "certificate" | "self-managed certificates" => Part::Certificates,
        "certificate authority" => Part::CertificateAuthority,
        "certificate of the extender" | "pods of placement" => Part::Extender,
        "certificate of the aggregated API" | "pods" | "front proxy" => Part::HpaApi,
        "load of nodes" => Part::PlacementLoad,
        _ if condition.starts_with("quota") => Part::QuotaLedger,
        _ => Part::Admission,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Shutdown;

    fn sources() -> (StatusSources, Readiness) {
        let readiness = Readiness::new(Shutdown::new());
        let metrics = Arc::new(Metrics::new("test"));
        let config = crate::config::load(&crate::config::Sources::default()).unwrap().config;
        (StatusSources::new(Arc::new(config), true, readiness.clone(), metrics), readiness)
    }

    fn state_of(status: &Status, part: Part) -> State {
        status.parts.iter().find(|found| found.name == part).unwrap().state
    }

    #[test]
    fn conditions_count_for_their_part_and_for_admission() {
        let (sources, readiness) = sources();
        let snapshots = readiness.condition("snapshots");
        let status = sources.status();
        assert_eq!(state_of(&status, Part::Snapshots), State::Failed);
        assert_eq!(state_of(&status, Part::Admission), State::Failed);
        assert!(!status.ready && status.state == State::Failed);
        snapshots.degraded("not installed: CRD x");
        let status = sources.status();
        assert_eq!(state_of(&status, Part::Admission), State::Healthy);
        assert!(status.ready && status.state == State::Degraded, "{status:?}");
        snapshots.ready();
        let status = sources.status();
        assert_eq!((status.state, state_of(&status, Part::Balance)), (State::Healthy, State::Off));
        sources.health().failed(Part::Configuration, "reload", "line 3");
        let status = sources.status();
        assert_eq!((status.ready, status.state), (true, State::Degraded));
        readiness.break_down("a task died");
        assert_eq!(sources.status().state, State::Failed);
    }

    #[test]
    fn what_is_not_known_here_counts_for_the_whole() {
        let (sources, readiness) = sources();
        readiness.condition("something new").degraded("odd");
        assert_eq!(state_of(&sources.status(), Part::Admission), State::Degraded);
    }
}
