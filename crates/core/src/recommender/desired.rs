//! What should be recommended.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use plimsoll_quantity::Quantity;

use crate::objects::{LimitRange, Objects};
use crate::overcommit::Effective;
use crate::pod::Owner;
use crate::profile::{Granularity, Profile};
use crate::recommender::assign::{NAMESPACE, has_stable_pod_names, is_dynamic};
use crate::recommender::state::{Key, Recommender};
use crate::recommender::subject::{Measured, Slot, Subject};
use crate::resource::Resource;
use crate::usage::{Model, SECOND, stated, timestamp_of};

/// A `Recommendation` as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// What it is about.
    pub key: Arc<Key>,
    /// The pod, at granularity Pod.
    pub pod: Option<String>,
    /// The object that it goes with; none for a namespace.
    pub owner: Option<Owner>,
    /// The profile it was made for.
    pub profile: Arc<Profile>,
    /// What should stand in its status.
    pub status: Status,
}

/// The status of a `Recommendation`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Those that pods have now, then those that they had; each by name.
    pub containers: Vec<ContainerStatus>,
    /// Each type once.
    pub conditions: Vec<Condition>,
}

/// What is known of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// In cores.
    pub cpu: Option<ResourceStatus>,
    /// In bytes.
    pub memory: Option<ResourceStatus>,
    /// How many samples were taken.
    pub samples: u64,
    /// Time of the first sample.
    pub first_sample: Option<Timestamp>,
    /// Time of the last sample.
    pub last_sample: Option<Timestamp>,
}

/// The figures of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceStatus {
    /// The profile's percentile.
    pub target: Quantity,
    /// The 50th percentile.
    pub lower: Quantity,
    /// A high percentile, with room for a short history.
    pub upper: Option<Quantity>,
    /// The request that the newest pod's author wrote.
    pub original: Option<Quantity>,
    /// What the request of a new pod becomes.
    pub effective: Option<Quantity>,
}

/// What is to be known about a recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionType {
    /// New pods get it.
    Ready,
    /// There is less history than the profile asks for.
    LowHistory,
    /// There is no new usage.
    Stale,
    /// No pod runs.
    NoPods,
    /// Something is configured that cannot be done.
    ConfigUnsupported,
}

impl ConditionType {
    /// As it stands in a condition.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::LowHistory => "LowHistory",
            Self::Stale => "Stale",
            Self::NoPods => "NoPods",
            Self::ConfigUnsupported => "ConfigUnsupported",
        }
    }
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What about.
    pub kind: ConditionType,
    /// Whether it holds.
    pub holds: bool,
    /// One word.
    pub reason: &'static str,
    /// What it means, and what to do.
    pub message: String,
}

/// How the source of usage is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceHealth {
    /// Since when it has failed, in nanoseconds since 1970, and why.
    pub failing: Option<(i64, String)>,
}

/// A failing source, or a pod without samples, is spoken of after this time: a short one is nobody's concern.
const PATIENCE: i64 = 600 * SECOND;

impl Recommender {
    /// What should stand in the cluster, for every workload that is known. `now` is in nanoseconds since 1970.
    pub fn desired<'a>(
        &'a self,
        objects: &'a Objects,
        now: i64,
        source: &'a SourceHealth,
    ) -> impl Iterator<Item = Desired> + 'a {
        self.subjects
            .iter()
            .flat_map(move |(key, subject)| self.of_subject(key, subject, objects, now, source))
    }

    fn of_subject(
        &self,
        key: &Arc<Key>,
        subject: &Subject,
        objects: &Objects,
        now: i64,
        source: &SourceHealth,
    ) -> Vec<Desired> {
        let Some(model) = self.models.get(subject.model) else { return Vec::new() };
        let is_learnt = || subject.containers.values().any(Measured::is_known);
        if subject.pods == 0 && !(is_asked_for(key, subject, objects) && is_learnt()) {
            return Vec::new();
        }
        // At the start of a workload its containers are not known yet.
        let mut by_pod: BTreeMap<Option<&str>, Vec<(&Slot, &Measured)>> = BTreeMap::new();
        for (slot, measured) in &subject.containers {
            if slot.pod.is_some() == subject.by_pod {
                by_pod.entry(slot.pod.as_deref()).or_default().push((slot, measured));
            }
        }
        let limit_ranges: Vec<_> = objects.limit_ranges(&key.namespace).cloned().collect();
        let view = View {
            key,
            subject,
            model,
            limit_ranges: &limit_ranges,
            now,
            source,
            scan: self.options.scan_interval,
        };
        by_pod
            .into_iter()
            .map(|(pod, containers)| Desired {
                key: Arc::clone(key),
                pod: pod.map(str::to_owned),
                owner: subject.owner.clone(),
                profile: Arc::clone(&subject.profile),
                status: view.status(containers),
            })
            .collect()
    }
}

/// Whether the profile of a workload that has no pods still asks for its recommendation.
fn is_asked_for(key: &Key, subject: &Subject, objects: &Objects) -> bool {
    let of_namespace = key.workload.kind == NAMESPACE;
    objects.profiles().iter().any(|profile| {
        profile.name == subject.profile.name
            && is_dynamic(profile)
            && (profile.dynamic.granularity == Granularity::Namespace) == of_namespace
    })
}

/// What the figures of a subject are made from.
struct View<'a> {
    key: &'a Key,
    subject: &'a Subject,
    model: &'a Model,
    limit_ranges: &'a [Arc<LimitRange>],
    now: i64,
    source: &'a SourceHealth,
    scan: i64,
}

impl View<'_> {
    fn status(&self, mut containers: Vec<(&Slot, &Measured)>) -> Status {
        containers.sort_by_key(|(_, measured)| !measured.live);
        let conditions = self.conditions(&containers);
        let containers = containers.into_iter().map(|(slot, measured)| self.container(slot, measured));
        Status { containers: containers.collect(), conditions }
    }

    fn container(&self, slot: &Slot, measured: &Measured) -> ContainerStatus {
        let aggregate = &measured.aggregate;
        ContainerStatus {
            name: slot.container.clone(),
            cpu: self.resource(measured, Resource::Cpu),
            memory: self.resource(measured, Resource::Memory),
            samples: aggregate.samples(),
            first_sample: aggregate.first_sample().map(timestamp_of),
            last_sample: aggregate.last_sample().map(timestamp_of),
        }
    }

    fn resource(&self, measured: &Measured, resource: Resource) -> Option<ResourceStatus> {
        let estimate = measured.aggregate.estimate(self.model, resource)?;
        let profile = &self.subject.profile;
        let target = stated(resource, estimate.target)?;
        let shape = measured.shape.as_ref().and_then(|shape| shape.of(resource));
        let effective = Effective {
            profile,
            resource,
            target: target.nanos(),
            original: shape.map(|shape| shape.original),
            limit: shape.and_then(|shape| shape.limit),
            limit_ranges: self.limit_ranges,
        };
        let used = profile.dynamic.resources.contains(&resource) && shape.is_some();
        let effective = used.then(|| effective.request()).flatten();
        Some(ResourceStatus {
            lower: stated(resource, estimate.lower)?,
            upper: estimate.upper.and_then(|upper| stated(resource, upper)),
            original: shape.map(|shape| shape.original(resource)),
            effective: effective.map(|nanos| Quantity::from_nanos(nanos, resource.format())),
            target,
        })
    }

    fn conditions(&self, containers: &[(&Slot, &Measured)]) -> Vec<Condition> {
        let judged: Vec<_> = containers.iter().filter(|(_, measured)| measured.live).collect();
        let judged: Vec<_> = if judged.is_empty() { containers.iter().collect() } else { judged };
        let worst = judged
            .iter()
            .map(|(slot, measured)| (self.verdict(measured), slot.container.as_str()))
            .max_by_key(|(verdict, _)| *verdict);
        let worst = worst.unwrap_or((Verdict::NoSamples, "no container"));
        // At granularity Pod, others of the workload may run.
        let idle = !containers.iter().any(|(_, measured)| measured.live);
        let pods = Condition {
            kind: ConditionType::NoPods,
            holds: idle,
            reason: if idle { "NoPods" } else { "PodsRun" },
            message: if idle {
                "no pod runs; what was learnt is used for new pods until it is older than dynamic.maximumAge"
                    .to_owned()
            } else {
                "its pods are measured".to_owned()
            },
        };
        let stale = self.stale(worst, containers);
        vec![self.ready(worst), self.low_history(worst), stale, pods, self.unsupported()]
    }

    fn verdict(&self, measured: &Measured) -> Verdict {
        let aggregate = &measured.aggregate;
        let (Some(first), Some(last)) = (aggregate.first_sample(), aggregate.last_sample()) else {
            return Verdict::NoSamples;
        };
        let policy = &self.subject.profile.dynamic;
        let age = self.now.saturating_sub(last);
        if age >= policy.maximum_age.saturating_mul(SECOND) {
            Verdict::TooOld
        } else if last.saturating_sub(first) < policy.minimum_history.saturating_mul(SECOND) {
            Verdict::LowHistory
        } else {
            Verdict::Good
        }
    }

    fn ready(&self, (verdict, container): (Verdict, &str)) -> Condition {
        let profile = &self.subject.profile;
        let instead = match profile.mode {
            crate::profile::Mode::StaticThenDynamic => "new pods get the profile's static factors",
            _ => "new pods keep their requests",
        };
        let (holds, reason, message) = match verdict {
            Verdict::Good if !profile.apply => (
                true,
                "NotApplied",
                format!("can be used, but profile {} has apply: false: pods are not changed", profile.name),
            ),
            Verdict::Good => (true, "Usable", "new pods get what is recommended here".to_owned()),
            Verdict::LowHistory => (
                false,
                "LowHistory",
                format!("container {container} has too short a history; until then {instead}"),
            ),
            Verdict::TooOld => (
                false,
                "TooOld",
                format!(
                    "the last sample of container {container} is too old; until there are new ones {instead}"
                ),
            ),
            Verdict::NoSamples => (
                false,
                "NoSamples",
                format!("container {container} has not been measured yet; until then {instead}"),
            ),
        };
        Condition { kind: ConditionType::Ready, holds, reason, message }
    }

    fn low_history(&self, (verdict, container): (Verdict, &str)) -> Condition {
        let least = self.subject.profile.dynamic.minimum_history;
        let low = matches!(verdict, Verdict::LowHistory | Verdict::NoSamples);
        Condition {
            kind: ConditionType::LowHistory,
            holds: low,
            reason: if low { "BelowMinimum" } else { "Sufficient" },
            message: if low {
                format!(
                    "container {container} has less than the {least} s of history that dynamic.minimumHistory asks for; wait, or lower it"
                )
            } else {
                format!("there is the history of {least} s that dynamic.minimumHistory asks for")
            },
        }
    }

    fn stale(&self, (verdict, container): (Verdict, &str), containers: &[(&Slot, &Measured)]) -> Condition {
        let patience = PATIENCE.max(self.scan.saturating_mul(5));
        let condition =
            |holds, reason, message| Condition { kind: ConditionType::Stale, holds, reason, message };
        if verdict == Verdict::TooOld {
            let most = self.subject.profile.dynamic.maximum_age;
            return condition(
                true,
                "TooOld",
                format!(
                    "the last sample of container {container} is older than the {most} s of dynamic.maximumAge; it is not used; see whether pods run and usage is measured"
                ),
            );
        }
        if let Some((since, why)) = &self.source.failing
            && self.now.saturating_sub(*since) >= patience
        {
            let since = timestamp_of(*since);
            return condition(
                true,
                "SourceFailing",
                format!("no usage since {since:.0}: {why}; what was learnt before is used on"),
            );
        }
        let live = containers.iter().filter(|(_, measured)| measured.live);
        let newest = live.clone().filter_map(|(_, measured)| measured.aggregate.last_sample()).max();
        if newest.is_none() && live.count() > 0 {
            return condition(
                false,
                "NoSamples",
                "no usage of its pods has arrived yet; if none comes, see whether the source measures them"
                    .to_owned(),
            );
        }
        if newest.is_some_and(|newest| self.now.saturating_sub(newest) >= patience) {
            return condition(
                true,
                "NoUsage",
                "its pods run, but the source has had no usage of them for a while; see whether it measures them"
                    .to_owned(),
            );
        }
        condition(false, "Fresh", "usage arrives".to_owned())
    }

    fn unsupported(&self) -> Condition {
        let profile = &self.subject.profile;
        let others: Vec<_> =
            self.subject.profiles.iter().filter(|name| **name != profile.name).cloned().collect();
        let measured = profile.dynamic.resources.iter().any(|resource| self.model.of(*resource).is_some());
        let (reason, message) = if let Err(error) = Model::from_policy(&profile.dynamic) {
            ("Model", format!("profile {}: {error}; the values before are used on", profile.name))
        } else if !others.is_empty() {
            (
                "SeveralProfiles",
                format!(
                    "its pods match several profiles; {} is used, that of the newest pod; make {} not match them",
                    profile.name,
                    others.join(", ")
                ),
            )
        } else if !measured {
            (
                "NothingMeasured",
                format!(
                    "profile {} names no resource in dynamic.resources that is measured; cpu and memory are",
                    profile.name
                ),
            )
        } else if profile.dynamic.granularity == Granularity::Pod
            && self.key.workload.kind != NAMESPACE
            && self.key.workload.kind != "Pod"
            && !has_stable_pod_names(&self.key.workload)
        {
            (
                "GranularityPod",
                format!(
                    "pods of a {} cannot be told apart before they are created; they share one recommendation",
                    self.key.workload.kind
                ),
            )
        } else {
            return Condition {
                kind: ConditionType::ConfigUnsupported,
                holds: false,
                reason: "Supported",
                message: "the profile can be followed".to_owned(),
            };
        };
        Condition { kind: ConditionType::ConfigUnsupported, holds: true, reason, message }
    }
}

/// What is to be said of a container; the last is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Good,
    LowHistory,
    TooOld,
    NoSamples,
}
