//! What the controller makes of a pod's state.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::resource::Resource;

/// How the controller treats a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is terminating, or has failed: it is as if it were not there.
    Ignored,
    /// It does not run yet: it uses nothing.
    Pending,
    /// It is not ready, or was not long enough for its CPU to be believed: it uses nothing.
    Unready,
    /// What it uses counts.
    Counted,
}

/// `status.phase`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not all containers run.
    Pending,
    /// It failed.
    Failed,
    /// Running, Succeeded or Unknown: the controller makes no difference.
    Other,
}

/// What of a pod's status is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodStatus {
    /// Its phase.
    pub phase: Phase,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// When it started.
    pub started: Option<Timestamp>,
    /// Its condition `Ready`.
    pub ready: Option<ReadyCondition>,
}

/// The condition `Ready` of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyCondition {
    /// Whether its status is `False`; `Unknown` is not.
    pub is_false: bool,
    /// Since when.
    pub since: Timestamp,
}

/// When a usage was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The end of the window.
    pub at: Timestamp,
    /// How long the window is.
    pub window: Duration,
}

/// The controller's flags about young pods, whose CPU may be that of their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// `--horizontal-pod-autoscaler-cpu-initialization-period`
    pub cpu_initialization: Duration,
    /// `--horizontal-pod-autoscaler-initial-readiness-delay`
    pub initial_readiness: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { cpu_initialization: Duration::from_secs(300), initial_readiness: Duration::from_secs(30) }
    }
}

impl PodStatus {
    /// Reads a pod; what is malformed counts as absent.
    pub fn read(pod: &Value) -> Self {
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        let ready = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition.get("type").and_then(Value::as_str) == Some("Ready"));
        Self {
            phase: match text("/status/phase") {
                Some("Pending") => Phase::Pending,
                Some("Failed") => Phase::Failed,
                _ => Phase::Other,
            },
            terminating: text("/metadata/deletionTimestamp").is_some(),
            started: text("/status/startTime").and_then(|time| time.parse().ok()),
            ready: ready.map(|ready| ReadyCondition {
                is_false: ready.get("status").and_then(Value::as_str) == Some("False"),
                // Go's zero time is before everything.
                since: ready
                    .get("lastTransitionTime")
                    .and_then(|time| time.as_str()?.parse().ok())
                    .unwrap_or(Timestamp::MIN),
            }),
        }
    }

    /// How the controller treats the pod, if its usage of the resource was measured then.
    pub fn stage(
        &self,
        resource: Resource,
        sample: Option<&Sample>,
        now: Timestamp,
        timing: &Timing,
    ) -> Stage {
        match self.phase {
            _ if self.terminating => Stage::Ignored,
            Phase::Failed => Stage::Ignored,
            Phase::Pending => Stage::Pending,
            Phase::Other if resource == Resource::Cpu && self.is_unready(sample, now, timing) => {
                Stage::Unready
            }
            Phase::Other => Stage::Counted,
        }
    }

    fn is_unready(&self, sample: Option<&Sample>, now: Timestamp, timing: &Timing) -> bool {
        let (Some(started), Some(ready)) = (self.started, self.ready) else { return true };
        if after(started, timing.cpu_initialization) > now {
            // All of the window must have been spent in the present state.
            let spans = sample.is_some_and(|sample| sample.at < after(ready.since, sample.window));
            return ready.is_false || spans;
        }
        // Its last change was so early that it has never been ready.
        ready.is_false && after(started, timing.initial_readiness) > ready.since
    }
}

fn after(time: Timestamp, span: Duration) -> Timestamp {
    time.saturating_add(span).unwrap_or(Timestamp::MAX)
}
