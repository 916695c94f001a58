//! From objects of the cluster to how they are. Nothing here asks anybody.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::cluster::unknown;
use super::replicas::On;
use super::report::Row;
use super::trust::Trust;
use crate::cli::access::Read;
use crate::cli::server::{has_ended, is_ready, name};
use crate::cluster::lease_name;
use crate::status::{Part, State};

/// A recommendation that is older than this was not renewed for long: while nothing moves, its times are up to six hours
/// behind.
const OLD: SignedDuration = SignedDuration::from_hours(7);

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, "/status/conditions").iter().find(|condition| text(condition, "/type") == kind)
}

/// The Deployment and its pods.
pub(super) fn installation(deployment: &Read<Value>, pods: &Read<Vec<Value>>, own: &str) -> Row {
    const PART: &str = "installation";
    let deployment = match deployment {
        Read::Found(deployment) => deployment,
        Read::Absent => {
            return Row::new(PART, State::Failed, "").with(
                State::Failed,
                format!("there is no Deployment plimsoll in {own}; install it, or set admission.ownNamespace to where it is"),
            );
        }
        Read::Unknown(why) => return unknown(PART, why),
    };
    let (wanted, ready) = (number(deployment, "/spec/replicas"), number(deployment, "/status/readyReplicas"));
    let mut row = Row::new(PART, State::Healthy, format!("{ready} of {wanted} replicas ready"));
    if ready == 0 {
        row = row.with(State::Failed, "no replica is ready: pods keep their full requests");
    } else if ready < wanted {
        row = row.with(State::Degraded, format!("{} replicas are not ready", wanted - ready));
    }
    match pods {
        Read::Found(pods) => {
            for pod in pods.iter().filter(|pod| !has_ended(pod) && !is_ready(pod)) {
                let why = items(pod, "/status/containerStatuses")
                    .iter()
                    .map(|status| text(status, "/state/waiting/reason"))
                    .find(|reason| !reason.is_empty())
                    .unwrap_or_else(|| text(pod, "/status/phase"));
                let name = name(pod);
                let what =
                    format!("pod {name} is not ready: {why}; see kubectl -n {own} describe pod {name}");
                row = row.with(State::Degraded, what);
            }
            row
        }
        Read::Absent => row,
        Read::Unknown(why) => row.with(State::Unknown, why.clone()),
    }
}

/// What it means that a webhook configuration is not there; `None` where none is asked for.
pub(super) type Missing = Option<(State, &'static str)>;

/// Whether the API server can call us. Without the mutating one nothing is lowered.
pub(super) fn webhook(part: &str, found: &Read<Value>, trust: &Trust, missing: Missing) -> Row {
    let object = match (found, missing) {
        (Read::Found(object), _) => object,
        (Read::Absent, Some((state, then))) => {
            let what = format!(
                "there is no webhook configuration, so that {then}; apply the manifests or the chart again"
            );
            return Row::new(part, state, "").with(state, what);
        }
        (Read::Absent, None) => return Row::new(part, State::Off, "not installed"),
        (Read::Unknown(why), _) => return unknown(part, why),
    };
    let webhooks = items(object, "/webhooks");
    let mut row = Row::new(part, State::Healthy, format!("{} webhooks", webhooks.len()));
    if webhooks.is_empty() {
        return row.with(State::Failed, "it has no webhooks");
    }
    let mut not_known = None;
    for webhook in webhooks {
        let who = text(webhook, "/name");
        let bundle = STANDARD.decode(text(webhook, "/clientConfig/caBundle")).unwrap_or_default();
        let bundle = String::from_utf8(bundle).unwrap_or_default();
        if bundle.trim().is_empty() {
            row = row.with(
                State::Failed,
                format!("{who}: caBundle is empty, so that the API server cannot call it; the part certificate-authority \
                         or cert-manager's CA injector should fill it"),
            );
        } else if !bundle.contains("BEGIN CERTIFICATE") {
            row = row.with(State::Failed, format!("{who}: caBundle is no PEM certificate"));
        } else {
            match trust.judge(&bundle) {
                Ok(None) => {}
                Ok(Some(why)) => row = row.with(State::Failed, format!("{who}: {why}")),
                Err(why) => not_known = Some(why),
            }
        }
    }
    not_known.into_iter().fold(row, |row, why| row.with(State::Unknown, why))
}

/// Whether those who lead go on renewing. What is left of parts that are off, or of other numbers of shards, means
/// nothing.
pub(super) fn leases(found: &Read<Vec<Value>>, on: Option<&On>, now: Timestamp) -> Row {
    const PART: &str = "leases";
    let leases = match found {
        Read::Found(leases) => leases,
        Read::Absent => return Row::new(PART, State::Off, "none"),
        Read::Unknown(why) => return unknown(PART, why),
    };
    let Some(on) = on else {
        return unknown(
            PART,
            "which of them should be held is not known: no replica says which parts are on",
        );
    };
    let wanted = wanted_leases(on);
    let ours = leases.iter().filter(|lease| wanted.iter().any(|wanted| wanted == name(lease)));
    let mut row = Row::new(PART, State::Healthy, "");
    let mut held = Vec::new();
    for lease in ours {
        let short = name(lease).trim_start_matches("plimsoll-");
        let holder = text(lease, "/spec/holderIdentity");
        let duration = SignedDuration::from_secs(number(lease, "/spec/leaseDurationSeconds"));
        let age =
            text(lease, "/spec/renewTime").parse::<Timestamp>().map(|renewed| now.duration_since(renewed));
        match age {
            _ if holder.is_empty() => {
                row = row.with(
                    State::Degraded,
                    format!("nobody holds {}; is the part on, and a replica ready?", name(lease)),
                );
            }
            Ok(age) if age > duration * 3 => {
                row = row.with(
                    State::Degraded,
                    format!("{} was not renewed by {holder} for {} s", name(lease), age.as_secs()),
                );
            }
            Ok(age) => held.push(format!("{short} {} s", age.as_secs().max(0))),
            Err(_) => row = row.with(State::Unknown, format!("{} has no renewTime", name(lease))),
        }
    }
    row.details = if held.is_empty() { "none".to_owned() } else { format!("renewed: {}", held.join(", ")) };
    if row.problems.is_empty() && held.is_empty() {
        row.state = State::Off;
    }
    row
}

/// The names of the leases that parts which are on go by.
fn wanted_leases(on: &On) -> Vec<String> {
    ["certs", "recommender", "hpa", "quota", "balance"]
        .into_iter()
        .filter_map(|name| Some((name, on.shards(Part::of_lease(name)?)?)))
        .flat_map(|(name, shards)| (0..shards).map(move |shard| lease_name(name, shards, shard)))
        .collect()
}

/// Whether profiles can be used.
pub(super) fn profiles(found: &Read<Vec<Value>>) -> Row {
    const PART: &str = "profiles";
    let profiles = match found {
        Read::Found(profiles) => profiles,
        Read::Absent => {
            return Row::new(PART, State::Failed, "").with(
                State::Failed,
                "overcommitprofiles.plimsoll.dev is not served in version v1alpha1: its CRD is not installed, or is one of another version; see the part crds",
            );
        }
        Read::Unknown(why) => return unknown(PART, why),
    };
    let lowers = |profile: &&Value| !matches!(text(profile, "/spec/mode"), "" | "Off");
    let active = profiles.iter().filter(lowers).count();
    let mut row = Row::new(
        PART,
        State::Healthy,
        format!("{} profiles, {active} of them lower requests", profiles.len()),
    );
    for profile in profiles {
        if let Some(valid) = condition(profile, "Valid")
            && text(valid, "/status") == "False"
        {
            let what = format!("profile {} is not used: {}", name(profile), text(valid, "/message"));
            row = row.with(State::Degraded, what);
        }
    }
    row
}

/// Whether the tree in force counts.
pub(super) fn trees(found: &Read<Vec<Value>>) -> Row {
    const PART: &str = "quota tree";
    let trees = match found {
        Read::Found(trees) => trees,
        Read::Absent => return Row::new(PART, State::Off, "not installed"),
        Read::Unknown(why) => return unknown(PART, why),
    };
    if trees.is_empty() {
        return Row::new(PART, State::Off, "there is none");
    }
    let mut row = Row::new(PART, State::Healthy, trees.iter().map(name).collect::<Vec<_>>().join(", "));
    for tree in trees {
        match condition(tree, "Ready") {
            Some(ready) if text(ready, "/status") == "True" => {}
            Some(ready) => {
                let what = format!("{}: {}: {}", name(tree), text(ready, "/reason"), text(ready, "/message"));
                row = row.with(State::Degraded, what);
            }
            None => {
                let what = format!(
                    "{} has no condition Ready: is quota.enabled true, and who leads plimsoll-quota?",
                    name(tree)
                );
                row = row.with(State::Unknown, what);
            }
        }
    }
    row
}

/// Whether the aggregated APIs that are ours are available.
pub(super) fn apiservices(found: &Read<Vec<Value>>, own: &str) -> Row {
    const PART: &str = "apiservices";
    let services = match found {
        Read::Found(services) => services,
        Read::Absent => return Row::new(PART, State::Off, "not served"),
        Read::Unknown(why) => return unknown(PART, why),
    };
    let is_ours = |service: &&Value| {
        text(service, "/spec/service/namespace") == own
            && text(service, "/spec/service/name").starts_with("plimsoll")
    };
    let ours: Vec<&Value> = services.iter().filter(is_ours).collect();
    if ours.is_empty() {
        return Row::new(PART, State::Off, "none is ours");
    }
    let mut row =
        Row::new(PART, State::Healthy, ours.iter().map(|one| name(one)).collect::<Vec<_>>().join(", "));
    for service in ours {
        let available = condition(service, "Available");
        if available.is_none_or(|condition| text(condition, "/status") != "True") {
            let why = available.map_or("nothing is known of it", |condition| text(condition, "/message"));
            row = row.with(State::Failed, format!("{} is not available: {why}", name(service)));
        }
    }
    row
}

/// How many autoscalers were converted.
pub(super) fn autoscalers(found: &Read<Vec<Value>>) -> Row {
    const PART: &str = "autoscalers";
    let all = match found {
        Read::Found(all) => all,
        Read::Absent => return Row::new(PART, State::Off, "not served"),
        Read::Unknown(why) => return unknown(PART, why),
    };
    let converted = all
        .iter()
        .filter(|hpa| hpa.pointer("/metadata/annotations/plimsoll.dev~1hpa-original").is_some())
        .count();
    let state = if all.is_empty() { State::Off } else { State::Healthy };
    Row::new(PART, state, format!("{converted} of {} converted", all.len()))
}

/// How fresh the freshest recommendation is.
pub(super) fn recommendations(found: &Read<Vec<Value>>, on: Option<&On>, now: Timestamp) -> Row {
    const PART: &str = "recommendations";
    let is_on = on.map(|on| on.is(Part::Recommender));
    let all = match found {
        Read::Found(all) => all,
        Read::Absent if is_on == Some(false) => return Row::new(PART, State::Off, "not installed"),
        Read::Absent => {
            return Row::new(PART, State::Degraded, "").with(
                State::Degraded,
                "recommendations.plimsoll.dev is not served in version v1alpha1: its CRD is not installed, or is one of another version; see the part crds",
            );
        }
        Read::Unknown(why) => return unknown(PART, why),
    };
    let samples = all.iter().flat_map(|one| items(one, "/status/containers"));
    let newest = samples.filter_map(|one| text(one, "/lastSample").parse::<Timestamp>().ok()).max();
    let count = all.len();
    match is_on {
        Some(true) => {}
        Some(false) => return Row::new(PART, State::Off, format!("{count}, the recommender is off")),
        None => return unknown(PART, "no replica says whether the recommender is on"),
    }
    match newest.map(|newest| now.duration_since(newest)) {
        None => Row::new(PART, State::Off, format!("{count}, none of them of usage yet")),
        Some(age) if age > OLD => Row::new(PART, State::Healthy, format!("{count}")).with(
            State::Degraded,
            format!(
                "the freshest is {} min old; is the recommender on, and does its source answer?",
                age.as_secs() / 60
            ),
        ),
        Some(age) => {
            Row::new(PART, State::Healthy, format!("{count}, the freshest {} s old", age.as_secs().max(0)))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-03-02T10:00:00Z";
    const LONG_AGO: &str = "2026-01-01T00:00:00Z";

    fn on(parts: &[(Part, u32)]) -> On {
        parts.iter().copied().collect()
    }

    #[test]
    fn leases_of_what_is_on() {
        let lease = |name: &str, holder: &str, renewed: &str| {
            json!({"metadata": {"name": name},
                   "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}})
        };
        let recommender = on(&[(Part::Recommender, 1), (Part::Admission, 1)]);
        let sharded = on(&[(Part::Recommender, 2)]);
        let held = lease("plimsoll-recommender", "a", NOW);
        let shards = [lease("plimsoll-recommender-0", "a", NOW), lease("plimsoll-recommender-1", "b", NOW)];
        for (rule, on, leases, state) in [
            ("held", Some(&recommender), vec![held.clone()], State::Healthy),
            ("given up", Some(&recommender), vec![lease("plimsoll-recommender", "", NOW)], State::Degraded),
            ("old", Some(&recommender), vec![lease("plimsoll-recommender", "a", LONG_AGO)], State::Degraded),
            (
                "of a part that is off",
                Some(&recommender),
                vec![
                    held.clone(),
                    lease("plimsoll-quota", "", LONG_AGO),
                    lease("plimsoll-hpa", "a", LONG_AGO),
                ],
                State::Healthy,
            ),
            (
                "of shards that were",
                Some(&recommender),
                vec![held.clone(), lease("plimsoll-recommender-3", "a", LONG_AGO)],
                State::Healthy,
            ),
            (
                "of before there were shards",
                Some(&sharded),
                [&shards[..], &[lease("plimsoll-recommender", "", LONG_AGO)]].concat(),
                State::Healthy,
            ),
            (
                "a shard that is not held",
                Some(&sharded),
                vec![shards[0].clone(), lease("plimsoll-recommender-1", "", NOW)],
                State::Degraded,
            ),
            ("nothing is led", Some(&on(&[])), vec![held.clone()], State::Off),
            ("nobody says", None, vec![held], State::Unknown),
        ] {
            let row = leases_row(leases, on);
            assert_eq!(row.state, state, "{rule}: {row:?}");
        }
    }

    fn leases_row(found: Vec<Value>, on: Option<&On>) -> Row {
        leases(&Read::Found(found), on, NOW.parse().unwrap())
    }

    #[test]
    fn recommendations_of_a_recommender_that_is_on() {
        let of =
            |sample: &str| Read::Found(vec![json!({"status": {"containers": [{"lastSample": sample}]}})]);
        let (with, without) = (on(&[(Part::Recommender, 1)]), on(&[(Part::Admission, 1)]));
        for (rule, found, on, state) in [
            ("fresh", of(NOW), Some(&with), State::Healthy),
            ("old", of(LONG_AGO), Some(&with), State::Degraded),
            ("old, but off", of(LONG_AGO), Some(&without), State::Off),
            ("no CRD", Read::Absent, Some(&with), State::Degraded),
            ("no CRD, but off", Read::Absent, Some(&without), State::Off),
            ("nobody says", of(LONG_AGO), None, State::Unknown),
        ] {
            let row = recommendations(&found, on, NOW.parse().unwrap());
            assert_eq!(row.state, state, "{rule}: {row:?}");
        }
    }

    #[test]
    fn pods_that_count() {
        let deployment = Read::Found(json!({"spec": {"replicas": 1}, "status": {"readyReplicas": 1}}));
        let pod = |phase: &str, deleted: bool, ready: &str| {
            let mut pod = json!({
                "metadata": {"name": "p"},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
            });
            if deleted {
                pod["metadata"]["deletionTimestamp"] = NOW.into();
            }
            pod
        };
        for (rule, pod, state) in [
            ("ready", pod("Running", false, "True"), State::Healthy),
            ("not ready", pod("Running", false, "False"), State::Degraded),
            ("waits", pod("Pending", false, "False"), State::Degraded),
            ("evicted", pod("Failed", false, "False"), State::Healthy),
            ("done", pod("Succeeded", false, "False"), State::Healthy),
            ("goes", pod("Running", true, "True"), State::Healthy),
        ] {
            let row = installation(&deployment, &Read::Found(vec![pod]), "own");
            assert_eq!(row.state, state, "{rule}: {row:?}");
        }
    }
}
