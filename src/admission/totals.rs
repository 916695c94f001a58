//! The sums of what pods requested before and after.

use plimsoll_core::overcommit::{Line, Plan, Target};
use plimsoll_core::pod::aggregate;
use plimsoll_core::resource::{Resource, UNIT};

use crate::metrics::Metrics;

/// Adds a pod's requests to the counters, summed as the scheduler sums them.
pub(super) fn count(metrics: &Metrics, plan: &Plan) {
    for (resource, add) in [
        (Resource::Cpu, Metrics::requested_cpu as fn(&Metrics, f64, f64)),
        (Resource::Memory, Metrics::requested_memory),
    ] {
        let (before, after) = totals(plan, resource);
        add(metrics, before, after);
    }
}

fn totals(plan: &Plan, resource: Resource) -> (f64, f64) {
    let lines = || plan.lines.iter().filter(|line| line.resource == resource);
    let sum = |of: &dyn Fn(&Line) -> i128| match lines().find(|line| line.target == Target::Pod) {
        Some(pod) => of(pod),
        None => aggregate(lines().filter_map(|line| Some((line.target.part()?, of(line))))).unwrap_or(0),
    };
    (whole(sum(&|line| line.original.nanos)), whole(sum(&|line| line.result.nanos)))
}

#[expect(clippy::cast_precision_loss, reason = "a counter of a monitoring system is a float")]
fn whole(nanos: i128) -> f64 {
    nanos as f64 / UNIT as f64
}
