//! What an autoscaler's controller computes: as things stand, and as they might.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::admission::Context;
use plimsoll_core::hpa::controller::{
    Decision, Metric, PodFigures, PodStatus, PodUsage, Scaling, Stage, Target, Timing, decide,
};
use plimsoll_core::hpa::{self, Hpa, MetricKey, MetricTarget, Originals, Shape, Standing, base, request};
use plimsoll_core::objects::Fact;
use plimsoll_core::overcommit::Amount;
use plimsoll_core::resource::{MILLI, Resource};
use serde_json::Value;

use super::world::World;

/// One way to compute.
#[derive(Debug)]
pub(super) struct View {
    /// The metrics that are computed, in the order of [`Views::metrics`].
    pub(super) metrics: Vec<Metric>,
    pub(super) decision: Decision,
}

/// The ways to compute.
#[derive(Debug)]
pub(super) struct Views {
    /// The places in the autoscaler's list of the metrics that are computed; the others are not known here.
    pub(super) metrics: Vec<usize>,
    /// As it stands.
    pub(super) now: View,
    /// As if the targets had never been changed: the utilizations that were written, against what is requested now.
    pub(super) untouched: View,
    /// As it was meant: the same utilizations, against what was requested first, or against the limits.
    pub(super) meant: View,
    /// Usage that the shim does not scale, and why.
    pub(super) unscaled: Vec<String>,
}

/// A pod as every view needs it.
struct Seen<'w> {
    name: &'w str,
    shape: Shape,
    standing: Standing,
    status: Option<PodStatus>,
    usage: Option<&'w PodUsage>,
}

/// What usage is divided by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Divisor {
    Requests,
    Bases,
}

impl Views {
    /// `shim`: whether the controller is given scaled usage.
    pub(super) fn of(world: &World, originals: &Originals, shim: bool) -> Self {
        let context = world.context();
        let pods: Vec<Seen<'_>> = world.pods.iter().map(|pod| Seen::of(pod, world, &context)).collect();
        let spec = world.manifest.get("spec").cloned().unwrap_or_default();
        let scaling = Scaling::read(&spec, world.replicas);
        let metrics: Vec<(usize, &MetricKey, Target, Target)> = world
            .hpa
            .metrics
            .iter()
            .enumerate()
            .filter_map(|(index, metric)| {
                let key = metric.key.as_ref()?;
                Some((index, key, target(&metric.target)?, target(&intended(metric, originals))?))
            })
            .collect();
        let view = |of: &dyn Fn(&MetricKey, Target, Target) -> Metric| {
            let metrics: Vec<_> = metrics.iter().map(|(_, key, now, meant)| of(key, *now, *meant)).collect();
            let decision = decide(&scaling, &metrics);
            View { metrics, decision }
        };
        let figures = |key: &MetricKey, divisor, factor: Option<f64>| {
            pods.iter().map(|pod| pod.figures(key, divisor, factor, world)).collect()
        };
        let told = if shim { Told::of(world, &pods) } else { Told::default() };
        Self {
            now: view(&|key, now, _| Metric {
                target: now,
                pods: figures(key, Divisor::Requests, told.factor(key)),
            }),
            untouched: view(&|key, _, meant| Metric {
                target: meant,
                pods: figures(key, Divisor::Requests, None),
            }),
            meant: view(&|key, _, meant| Metric { target: meant, pods: figures(key, Divisor::Bases, None) }),
            metrics: metrics.iter().map(|(index, ..)| *index).collect(),
            unscaled: told.unscaled,
        }
    }
}

impl<'w> Seen<'w> {
    fn of(pod: &'w Value, world: &'w World, context: &Context<'_>) -> Self {
        let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let shape = Shape::of_pod(pod);
        let standing = hpa::standing(&shape, &world.hpa.namespace, context);
        let usages = world.usages.as_deref().unwrap_or_default();
        // In files a pod may stand without its status; then it is taken to be one that serves.
        let status = PodStatus::read(pod);
        let status = (pod.get("status").is_some() || status.terminating).then_some(status);
        Self { name, shape, standing, status, usage: usages.iter().find(|usage| usage.pod == name) }
    }

    fn figures(&self, key: &MetricKey, divisor: Divisor, factor: Option<f64>, world: &World) -> PodFigures {
        let sample = self.usage.and_then(|usage| usage.sample.as_ref());
        let stage = self.status.as_ref().map_or(Stage::Counted, |status| {
            status.stage(key.resource, sample, world.now, &Timing::default())
        });
        let usage = self.usage.and_then(|usage| usage.of(key.resource, key.container.as_deref()));
        let figure = match divisor {
            Divisor::Requests => request(&self.shape, key),
            Divisor::Bases => base(&self.shape, key, self.standing.basis),
        };
        PodFigures {
            stage,
            request: figure.map(milli).map_err(|error| format!("pod {}: {error}", self.name)),
            usage: match factor {
                None => usage,
                Some(factor) => usage.map(|usage| scaled(usage, factor)),
            },
        }
    }
}

/// What the shim makes of usage.
#[derive(Default)]
struct Told {
    scalings: BTreeMap<Resource, hpa::Scaling>,
    unscaled: Vec<String>,
}

impl Told {
    /// About the pods that have metrics.
    fn of(world: &World, pods: &[Seen<'_>]) -> Self {
        let mut objects = world.context().objects.clone();
        objects.put(Fact::Hpa(Arc::new(world.hpa.clone())));
        let context = Context { objects: &objects, ..world.context() };
        let counts = |pod: &&Seen<'_>| {
            pod.usage.is_some() && !pod.status.as_ref().is_some_and(|status| status.terminating)
        };
        let seen = pods.iter().filter(counts).map(|pod| hpa::Seen { shape: &pod.shape, pods: 1 });
        let seen: Vec<_> = seen.collect();
        let mut told = Self::default();
        for resource in [Resource::Cpu, Resource::Memory] {
            match hpa::scaling(&world.hpa.namespace, &seen, resource, &context) {
                Ok(hpa::Scaling::Unscaled(hpa::Unscaled::NotUsed | hpa::Unscaled::NotLowered)) => {}
                Ok(hpa::Scaling::Unscaled(why)) => {
                    told.unscaled.push(format!("Shim: usage of {resource} is told as it is: {why}"));
                }
                Ok(scaling) => drop(told.scalings.insert(resource, scaling)),
                Err(unknown) => {
                    told.unscaled.push(format!("Shim: usage of {resource} is not told: {unknown}"));
                }
            }
        }
        told
    }

    fn factor(&self, key: &MetricKey) -> Option<f64> {
        let ratio = match self.scalings.get(&key.resource)? {
            hpa::Scaling::Pods(ratio) => ratio,
            hpa::Scaling::Containers(ratios) => ratios.get(key.container.as_deref()?)?,
            hpa::Scaling::Unscaled(_) => return None,
        };
        #[expect(clippy::cast_precision_loss, reason = "what is shown is rounded further")]
        let factor = ratio.num() as f64 / ratio.den() as f64;
        Some(factor)
    }
}

fn scaled(usage: i64, factor: f64) -> i64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "what is shown is rounded further"
    )]
    let usage = (usage as f64 * factor).round() as i64;
    usage
}

/// Milli-units, rounded up as the controller does.
pub(super) fn milli(nanos: i128) -> i64 {
    let up = nanos.saturating_add(MILLI - 1) / MILLI;
    i64::try_from(up).unwrap_or(i64::MAX)
}

fn target(target: &MetricTarget) -> Option<Target> {
    match target {
        MetricTarget::Utilization(percent) => {
            Some(Target::Utilization(i32::try_from(*percent).unwrap_or(i32::MAX)))
        }
        MetricTarget::AverageValue(value) => Some(Target::AverageValue(milli(value.nanos))),
        MetricTarget::Other => None,
    }
}

/// The target that the autoscaler's author wrote.
fn intended(metric: &hpa::Metric, originals: &Originals) -> MetricTarget {
    let recorded = metric.key.as_ref().and_then(|key| originals.0.get(key));
    match (&metric.target, recorded) {
        (MetricTarget::AverageValue(value), Some(original))
            if original.written.as_ref().is_some_and(|written| written.value.nanos == value.nanos) =>
        {
            MetricTarget::Utilization(original.target)
        }
        (other, _) => other.clone(),
    }
}

/// Whether the metric's target is one that we wrote.
pub(super) fn is_converted(hpa: &Hpa, index: usize, originals: &Originals) -> bool {
    hpa.metrics.get(index).is_some_and(|metric| intended(metric, originals) != metric.target)
}

/// An amount of milli-units, as Kubernetes writes it; of memory whole bytes.
pub(super) fn shown(resource: Resource, milli: i64) -> String {
    let step = resource.step();
    let nanos = i128::from(milli).saturating_mul(MILLI);
    Amount::computed(resource, nanos / step * step).text
}

/// What the measured pods are divided by on average, in milli-units.
pub(super) fn mean_request(metric: &Metric) -> Option<i64> {
    let measured = metric.pods.iter().filter(|pod| pod.stage == Stage::Counted && pod.usage.is_some());
    let requests: Vec<i64> = measured.map(|pod| pod.request.clone().ok()).collect::<Option<_>>()?;
    let sum: i128 = requests.iter().map(|request| i128::from(*request)).sum();
    i64::try_from(sum.checked_div(i128::try_from(requests.len()).ok()?)?).ok()
}
