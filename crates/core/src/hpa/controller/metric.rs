//! What one metric asks for.

use thiserror::Error;

use super::{Stage, Tolerance};

/// What shall be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Per cent of what the pods request.
    Utilization(i32),
    /// So much a pod, in milli-units.
    AverageValue(i64),
}

/// A `Resource` or `ContainerResource` metric, and the pods by it.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// What shall be kept.
    pub target: Target,
    /// Every pod that the target's selector finds, finished ones too.
    pub pods: Vec<PodFigures>,
}

/// A pod, as far as one metric is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFigures {
    /// What the controller makes of its state.
    pub stage: Stage,
    /// What it requests of the metric's resource, in milli-units; or why there is no such figure. It is asked for by
    /// percentages only.
    pub request: Result<i64, String>,
    /// What it uses, in milli-units, if metrics tell.
    pub usage: Option<i64>,
}

/// What one metric asks for, and from what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// How many replicas.
    pub replicas: i32,
    /// What is used of what shall be, by the pods that are measured: above 1 more replicas are needed.
    pub ratio: f64,
    /// The same once pods that are not measured are taken to use what the controller assumes, where it assumes that.
    pub assumed_ratio: Option<f64>,
    /// Whole per cent of the requests that are used; of a percentage only.
    pub utilization: Option<i32>,
    /// What a measured pod uses on average, in milli-units, cut to a whole one.
    pub average: i64,
    /// How many pods are measured.
    pub measured: usize,
    /// How many pods are not ready.
    pub unready: usize,
    /// How many pods have no metrics.
    pub missing: usize,
    /// Why the replicas stay as they are, if they do.
    pub kept: Option<Kept>,
}

/// Why a metric asks for the replicas that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The ratio is within the tolerance.
    Tolerance,
    /// With what is assumed of pods that are not measured one would scale the other way.
    Direction,
}

/// Why a metric cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MetricError {
    /// The selector finds nothing.
    #[error("the target's selector finds no pod")]
    NoPods,
    /// No pod has metrics.
    #[error("there are no metrics of any pod")]
    NoMetrics,
    /// There are metrics, but of no pod that counts.
    #[error("there are metrics only of pods that do not count: not ready, terminating or failed")]
    NoneReady,
    /// A percentage needs a request.
    #[error("{0}")]
    MissingRequest(String),
    /// The pods with metrics request nothing, so nothing can be divided by it.
    #[error("the pods that have metrics request 0")]
    ZeroRequests,
}

/// What a metric asks for.
///
/// # Errors
/// It cannot be computed.
pub fn propose(metric: &Metric, current: i32, tolerance: Tolerance) -> Result<Proposal, MetricError> {
    let Metric { target, pods } = metric;
    if pods.is_empty() {
        return Err(MetricError::NoPods);
    }
    if pods.iter().all(|pod| pod.usage.is_none()) {
        return Err(MetricError::NoMetrics);
    }
    let Grouped { measured, unready, missing } = Grouped::of(*target, pods)?;
    let first = measure(*target, &measured).ok_or(MetricError::ZeroRequests)?;
    let mut proposal = Proposal {
        replicas: current,
        ratio: first.ratio,
        assumed_ratio: None,
        utilization: first.utilization,
        average: first.average,
        measured: measured.len(),
        unready: unready.len(),
        missing: missing.len(),
        kept: None,
    };
    let unready_count = !unready.is_empty() && first.ratio > 1.0;
    if !unready_count && missing.is_empty() {
        if tolerance.contains(first.ratio) {
            proposal.kept = Some(Kept::Tolerance);
        } else {
            proposal.replicas = replicas(first.ratio, measured.len());
        }
        return Ok(proposal);
    }

    // What is not measured is taken to use so much that it makes the step smaller.
    let mut all = measured;
    if first.ratio < 1.0 {
        all.extend(missing.iter().map(|&request| (request, assumed(*target, request))));
    } else if first.ratio > 1.0 {
        all.extend(missing.iter().map(|&request| (request, 0)));
    }
    if unready_count {
        all.extend(unready.iter().map(|&request| (request, 0)));
    }
    let second = measure(*target, &all).ok_or(MetricError::ZeroRequests)?;
    proposal.assumed_ratio = Some(second.ratio);
    let turned = |first: f64| (first < 1.0 && second.ratio > 1.0) || (first > 1.0 && second.ratio < 1.0);
    if tolerance.contains(second.ratio) {
        proposal.kept = Some(Kept::Tolerance);
        return Ok(proposal);
    }
    let wanted = replicas(second.ratio, all.len());
    let other_way = (second.ratio < 1.0 && wanted > current) || (second.ratio > 1.0 && wanted < current);
    if turned(first.ratio) || other_way {
        proposal.kept = Some(Kept::Direction);
    } else {
        proposal.replicas = wanted;
    }
    Ok(proposal)
}

/// The pods by what is known of them: requests and usages.
struct Grouped {
    measured: Vec<(i64, i64)>,
    unready: Vec<i64>,
    missing: Vec<i64>,
}

impl Grouped {
    fn of(target: Target, pods: &[PodFigures]) -> Result<Self, MetricError> {
        let mut groups = Self { measured: Vec::new(), unready: Vec::new(), missing: Vec::new() };
        // The controller looks at the requests of all pods, also of those it then ignores, but only after it has
        // found one with metrics.
        let mut unknown = None;
        for pod in pods {
            let request = match (&pod.request, target) {
                (Ok(request), _) => *request,
                (Err(_), Target::AverageValue(_)) => 0,
                (Err(why), Target::Utilization(_)) => {
                    unknown.get_or_insert(why);
                    0
                }
            };
            match (pod.stage, pod.usage) {
                (Stage::Ignored, _) => {}
                (Stage::Pending, _) | (Stage::Unready, Some(_)) => groups.unready.push(request),
                (Stage::Unready | Stage::Counted, None) => groups.missing.push(request),
                (Stage::Counted, Some(usage)) => groups.measured.push((request, usage)),
            }
        }
        if groups.measured.is_empty() {
            return Err(MetricError::NoneReady);
        }
        unknown.map_or(Ok(groups), |why| Err(MetricError::MissingRequest(why.clone())))
    }
}

struct Measured {
    ratio: f64,
    utilization: Option<i32>,
    average: i64,
}

/// How much of the target pods with these requests and usages use; nothing if there is nothing to divide by.
fn measure(target: Target, pods: &[(i64, i64)]) -> Option<Measured> {
    let used: i128 = pods.iter().map(|(_, usage)| i128::from(*usage)).sum();
    let average = used.checked_div(i128::try_from(pods.len()).ok()?)?;
    let average = i64::try_from(average).unwrap_or(i64::MAX);
    match target {
        Target::Utilization(target) => {
            let requested: i128 = pods.iter().map(|(request, _)| i128::from(*request)).sum();
            let percent = used.saturating_mul(100).checked_div(requested)?;
            let percent = i32::try_from(percent).unwrap_or(i32::MAX);
            let ratio = f64::from(percent) / f64::from(target);
            Some(Measured { ratio, utilization: Some(percent), average })
        }
        Target::AverageValue(target) => {
            #[expect(clippy::cast_precision_loss, reason = "the controller divides so")]
            let ratio = average as f64 / target as f64;
            Some(Measured { ratio, utilization: None, average })
        }
    }
}

/// What a pod without metrics is taken to use while the others ask for fewer replicas.
fn assumed(target: Target, request: i64) -> i64 {
    match target {
        Target::Utilization(percent) => {
            let usage = i128::from(request) * i128::from(percent.max(100)) / 100;
            i64::try_from(usage).unwrap_or(i64::MAX)
        }
        Target::AverageValue(value) => value,
    }
}

fn replicas(ratio: f64, pods: usize) -> i32 {
    let pods = i32::try_from(pods).unwrap_or(i32::MAX);
    #[expect(clippy::cast_possible_truncation, reason = "too many become the most there can be")]
    let replicas = (ratio * f64::from(pods)).ceil() as i32;
    replicas
}
