//! Leases, by which servers found out who leads. Nothing else of a namespace is made by them but what their kinds take along.

use serde_json::Value;

use super::servers::Stopped;
use super::{Ending, Job, Line};
use crate::cli::calls::{Collection, name_of};
use crate::cli::hpa::restore::HOLDER;
use crate::cluster::lease_name;

const STEP: &str = "leases";
/// The parts that have a leader.
const PARTS: [&str; 5] = ["balance", "certs", "hpa", "quota", "recommender"];

pub(super) async fn delete(job: &Job, stopped: Stopped) -> Vec<Line> {
    let kind = Collection {
        group: "coordination.k8s.io",
        version: "v1",
        kind: "Lease",
        plural: "leases",
        namespace: &job.own,
    };
    let line = |object: String, result, message: String| Line { step: STEP, object, result, message };
    let all = || format!("Leases of {}", job.own);
    let leases = match job.calls.list(kind, None).await {
        Ok(leases) => leases,
        Err(error) => return vec![line(all(), Ending::Failed, error.to_string())],
    };
    let ours: Vec<_> = leases.iter().filter(|lease| is_of_a_part(name_of(lease))).collect();
    if ours.is_empty() {
        return vec![line(all(), Ending::Nothing, "none is ours".to_owned())];
    }
    let mut lines = Vec::new();
    for lease in ours {
        let object = kind.object(name_of(lease));
        let holder = lease.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default();
        // Whoever does not find it would lead at once, and undo what was done.
        if stopped == Stopped::Unknown && !holder.is_empty() {
            let by = if holder == HOLDER {
                "held by this command, so that it converts no autoscaler again".to_owned()
            } else {
                format!("held by {holder}")
            };
            let why = format!("left, since a server may still run: {by}; the namespace takes it along");
            lines.push(line(object, Ending::Left, why));
            continue;
        }
        if job.dry_run {
            lines.push(line(object, job.ending(), job.words("deleted")));
            continue;
        }
        lines.push(match job.calls.delete(kind, lease).await {
            Ok(true) => line(object, Ending::Done, "deleted".to_owned()),
            Ok(false) => line(object, Ending::Nothing, "not there any more".to_owned()),
            Err(error) => line(object, Ending::Failed, error.to_string()),
        });
    }
    lines
}

/// Not that of a second scheduler, which `plimsoll manifests scheduler` may have put there.
fn is_of_a_part(name: &str) -> bool {
    PARTS.iter().any(|part| {
        let rest = name.strip_prefix(&lease_name(part, 1, 0));
        rest.is_some_and(|rest| {
            let shard = rest.strip_prefix('-').unwrap_or_default();
            rest.is_empty() || (!shard.is_empty() && shard.bytes().all(|byte| byte.is_ascii_digit()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_of_parts() {
        for (name, ours) in [
            ("plimsoll-hpa", true),
            ("plimsoll-recommender", true),
            ("plimsoll-recommender-12", true),
            ("plimsoll-scheduler", false),
            ("plimsoll-hpa-", false),
            ("plimsoll-hpa-x", false),
            ("plimsoll", false),
            ("hpa", false),
        ] {
            assert_eq!(is_of_a_part(name), ours, "{name}");
        }
    }
}
