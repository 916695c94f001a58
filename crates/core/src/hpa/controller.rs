//! A model of how kube-controller-manager computes replicas from resource metrics.
//!
//! It says what the HPA controller decides at first sight: with no earlier recommendation in a stabilization window and
//! no earlier scaling counted by a policy. What it leaves out makes the real controller slower, never different in the
//! end. Metrics of pods that the selector no longer finds are left out too.
//!
//! # Where a plain value differs from a percentage
//!
//! `AverageValue: ceil(T/100 * mean(B))` and `AverageUtilization: T` of requests B give the same replicas but for these:
//!
//! - The controller cuts a percentage to a whole number, so a ratio by percentage is up to `1/T` too low; a plain value
//!   is exact to a milli-unit. With n pods this is up to `n/T` replicas, at most one as long as there are fewer pods
//!   than per cent.
//! - The value is rounded up and the average usage down to a milli-unit, which only shows where a base is tiny or usage
//!   is many times the target.
//! - At the edge of the tolerance this difference decides whether anything happens at all.
//! - A pod without metrics counts as using all of its request (T per cent of it, if that is more) by percentage, and
//!   the target itself by a plain value, when the others ask for fewer replicas: by percentage one scales down later.
//! - Where pods have unequal bases, a percentage weighs by the bases of the pods with metrics; a plain value is the mean
//!   over all pods. Once all pods have metrics they are the same.
//!
//! All amounts are milli-units, as in the controller, whose sums wrap around beyond 64 bits where these do not.

mod metric;
mod rules;
mod status;
mod usage;

pub use metric::{Kept, Metric, MetricError, PodFigures, Proposal, Target, propose};
pub use rules::{Behavior, Policy, Rules, Select, Tolerance};
pub use status::{Phase, PodStatus, ReadyCondition, Sample, Stage, Timing};
pub use usage::PodUsage;

/// What of an HPA and its target decides, beside the metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// `spec.replicas` of the target.
    pub current: i32,
    /// `spec.minReplicas`.
    pub min: i32,
    /// `spec.maxReplicas`.
    pub max: i32,
    /// What is too little to act on.
    pub tolerance: Tolerance,
    /// `spec.behavior`, if there is one.
    pub behavior: Option<Behavior>,
}

/// What the controller does.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The replicas that the target is given; as many as it has where nothing is done.
    pub replicas: i32,
    /// Why so many.
    pub reason: Reason,
    /// What each metric asks for, in the order of the metrics; none where they are not looked at.
    pub proposals: Vec<Result<Proposal, MetricError>>,
}

/// Why there are as many replicas as there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The target has 0 replicas: somebody has switched it off.
    Disabled,
    /// There are more than the maximum.
    AboveMaximum,
    /// There are fewer than the minimum.
    BelowMinimum,
    /// No metric can be computed, or one cannot and the others ask for fewer replicas than there are.
    CannotDecide {
        /// The first metric that cannot be computed; nothing if there is no metric.
        metric: Option<usize>,
    },
    /// What the metric that asks for most asks for.
    Metric {
        /// Which one.
        metric: usize,
        /// How many it asks for.
        wanted: i32,
        /// What keeps it from getting as many.
        limit: Option<Limit>,
    },
}

/// What bounds a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `spec.minReplicas`.
    Minimum,
    /// `spec.maxReplicas`.
    Maximum,
    /// How fast may be scaled up.
    UpRate,
    /// How fast may be scaled down.
    DownRate,
}

/// What the controller does with these metrics.
pub fn decide(scaling: &Scaling, metrics: &[Metric]) -> Decision {
    let current = scaling.current;
    let without_metrics = |replicas, reason| Decision { replicas, reason, proposals: Vec::new() };
    if current == 0 {
        return without_metrics(0, Reason::Disabled);
    }
    if current > scaling.max {
        return without_metrics(scaling.max, Reason::AboveMaximum);
    }
    if current < scaling.min {
        return without_metrics(scaling.min, Reason::BelowMinimum);
    }
    let proposals: Vec<_> =
        metrics.iter().map(|metric| propose(metric, current, scaling.tolerance)).collect();
    let mut most: Option<(usize, i32)> = None;
    for (index, proposal) in proposals.iter().enumerate() {
        if let Ok(proposal) = proposal
            && most.is_none_or(|(_, replicas)| proposal.replicas > replicas)
        {
            most = Some((index, proposal.replicas));
        }
    }
    let failed = proposals.iter().position(Result::is_err);
    let (metric, wanted) = match (most, failed) {
        (Some((_, wanted)), Some(metric)) if wanted < current => {
            let reason = Reason::CannotDecide { metric: Some(metric) };
            return Decision { replicas: current, reason, proposals };
        }
        (None, metric) => {
            return Decision { replicas: current, reason: Reason::CannotDecide { metric }, proposals };
        }
        (Some(most), _) => most,
    };
    let (replicas, limit) = rules::bounded(scaling, wanted);
    Decision { replicas, reason: Reason::Metric { metric, wanted, limit }, proposals }
}
