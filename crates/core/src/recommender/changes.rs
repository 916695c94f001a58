//! Whether what stands in the cluster is near enough to what should stand there.

use std::collections::BTreeMap;

use jiff::Timestamp;
use plimsoll_quantity::Quantity;
use serde_json::Value;

use crate::profile::Profile;
use crate::recommender::assign::is_dynamic;
use crate::recommender::desired::{ContainerStatus, Desired, ResourceStatus, Status};
use crate::resource::{Resource, UNIT};
use crate::usage::{Buckets, SECOND, buckets};

/// How old the time of the last sample may become in the cluster before it is written anew, in seconds.
const LONGEST_UNWRITTEN: i64 = 6 * 3600;

/// Whether a status must be written where `stored` stands: a condition turned, a container came or went, a request
/// that somebody wrote is another, or a figure moved by more than a bucket. Times and counts alone do not, unless
/// they have become old: some thousands of workloads must not be written each minute.
pub fn must_write(desired: &Desired, stored: &Value) -> bool {
    conditions_differ(&desired.status, stored)
        || containers_differ(&desired.status, stored)
        || desired.status.containers.iter().any(|container| is_old(desired, container, stored))
}

/// Whether a `Recommendation` of ours, about whose target nothing is known, should be deleted: nobody asks for it
/// any more, or it is too old to be used. `last` is the time of its last sample, or of its creation, and `now` the
/// clock, in nanoseconds since 1970.
pub fn is_garbage(profile: Option<&Profile>, last: i64, now: i64) -> bool {
    profile
        .filter(|profile| is_dynamic(profile))
        .is_none_or(|profile| now.saturating_sub(last) >= profile.dynamic.maximum_age.saturating_mul(SECOND))
}

fn conditions_differ(status: &Status, stored: &Value) -> bool {
    let text = |condition: &Value, key: &str| {
        condition.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let conditions = stored.get("conditions").and_then(Value::as_array);
    let stored: BTreeMap<_, _> = conditions
        .into_iter()
        .flatten()
        .map(|condition| (text(condition, "type"), (text(condition, "status"), text(condition, "reason"))))
        .collect();
    let desired: BTreeMap<_, _> = status
        .conditions
        .iter()
        .map(|condition| {
            let status = if condition.holds { "True" } else { "False" };
            (condition.kind.name().to_owned(), (status.to_owned(), condition.reason.to_owned()))
        })
        .collect();
    stored != desired
}

fn find<'a>(stored: &'a Value, container: &str) -> Option<&'a Value> {
    let containers = stored.get("containers").and_then(Value::as_array)?;
    containers.iter().find(|found| found.get("name").and_then(Value::as_str) == Some(container))
}

fn containers_differ(status: &Status, stored: &Value) -> bool {
    let count = stored.get("containers").and_then(Value::as_array).map_or(0, Vec::len);
    count != status.containers.len()
        || status.containers.iter().any(|container| match find(stored, &container.name) {
            None => true,
            Some(found) => {
                differs(Resource::Cpu, container.cpu.as_ref(), found.get("cpu"))
                    || differs(Resource::Memory, container.memory.as_ref(), found.get("memory"))
            }
        })
}

fn differs(resource: Resource, desired: Option<&ResourceStatus>, stored: Option<&Value>) -> bool {
    let (Some(desired), Some(stored)) = (desired, stored.filter(|stored| !stored.is_null())) else {
        return desired.is_some() != stored.is_some_and(|stored| !stored.is_null());
    };
    let read = |key: &str| -> Option<Quantity> { serde_json::from_value(stored.get(key)?.clone()).ok() };
    let moved = |new: Option<&Quantity>, key: &str| match (new, read(key)) {
        (Some(new), Some(old)) => is_far(resource, new, &old),
        (new, old) => new.is_some() != old.is_some(),
    };
    read("original").map(|old| old.nanos()) != desired.original.as_ref().map(Quantity::nanos)
        || moved(Some(&desired.target), "target")
        || moved(Some(&desired.lower), "lower")
        || moved(desired.upper.as_ref(), "upper")
        || moved(desired.effective.as_ref(), "effective")
}

/// Whether two figures are more than a bucket apart.
fn is_far(resource: Resource, a: &Quantity, b: &Quantity) -> bool {
    let buckets: &Buckets = match resource {
        Resource::Cpu => &buckets::CPU,
        Resource::Memory | Resource::EphemeralStorage => &buckets::MEMORY,
    };
    buckets.find(units(a)).abs_diff(buckets.find(units(b))) > 1
}

#[expect(clippy::cast_precision_loss, reason = "a bucket is 5 % wide")]
fn units(quantity: &Quantity) -> f64 {
    quantity.nanos() as f64 / UNIT as f64
}

/// Whether the times of samples are so far behind that a reader, or admission, would be misled.
fn is_old(desired: &Desired, container: &ContainerStatus, stored: &Value) -> bool {
    let (Some(first), Some(last)) = (container.first_sample, container.last_sample) else { return false };
    let written =
        |key: &str| -> Option<Timestamp> { find(stored, &container.name)?.get(key)?.as_str()?.parse().ok() };
    let (Some(first_written), Some(last_written)) = (written("firstSample"), written("lastSample")) else {
        return true;
    };
    let policy = &desired.profile.dynamic;
    let most = (policy.maximum_age / 4).clamp(1, LONGEST_UNWRITTEN);
    // The conditions are those of the worst container; admission uses each as soon as its history is long enough.
    let is_enough = |first, last: Timestamp| last.duration_since(first).as_secs() >= policy.minimum_history;
    last.duration_since(last_written).as_secs() >= most
        || is_enough(first, last) != is_enough(first_written, last_written)
}
