//! Webhook configurations: while they are there without a server, what they fail closed for is blocked.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Ending, Job, Line, SERVICE};
use crate::cli::CliError;
use crate::cli::access::reach;
use crate::cli::calls::{Collection, is_ours, name_of};
use crate::cluster::WriteError;

const STEP: &str = "webhooks";
/// The configurations of the base.
const BASE: &str = "plimsoll";

/// What fails closed first.
const KINDS: [Collection<'static>; 2] = [
    kind("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    kind("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
];

const fn kind(kind: &'static str, plural: &'static str) -> Collection<'static> {
    Collection { group: "admissionregistration.k8s.io", version: "v1", kind, plural, namespace: "" }
}

/// What there is that may be ours.
#[derive(Debug, Default)]
pub(super) struct Found {
    objects: Vec<(Collection<'static>, Value)>,
    /// What could not be read.
    failed: Vec<Line>,
    /// Of which kinds.
    unread: BTreeSet<&'static str>,
}

impl Found {
    /// The namespace whose Service ours call, if that is another one.
    pub(super) fn elsewhere(&self, own: &str) -> Option<String> {
        let ours = self.objects.iter().filter(|(_, object)| is_ours(object));
        let called: BTreeSet<_> = ours.flat_map(|(_, object)| namespaces(object)).collect();
        if called.contains(own) { None } else { called.first().map(|&other| other.to_owned()) }
    }
}

/// By our label, by our names, and by the Service that they call: names can be configured.
///
/// # Errors
/// The cluster cannot be asked: that is said once, not by every step.
pub(super) async fn find(job: &Job) -> Result<Found, CliError> {
    let names = [job.quota_webhooks.as_str(), BASE];
    let mut found = Found::default();
    for kind in KINDS {
        let failed =
            |object: String, message: String| Line { step: STEP, object, result: Ending::Failed, message };
        let error = match job.calls.list_whole(kind).await {
            Ok(all) => {
                let concerns = |object: &Value| {
                    is_ours(object)
                        || names.contains(&name_of(object))
                        || entries(object).any(|entry| calls(entry, job))
                };
                found.objects.extend(all.into_iter().filter(concerns).map(|object| (kind, object)));
                continue;
            }
            Err(error) => error,
        };
        if matches!(error, WriteError::Unavailable { .. } | WriteError::Unauthorized { .. }) {
            reach(&job.client).await?;
        }
        found.unread.insert(kind.kind);
        found.failed.push(failed(format!("{}s", kind.kind), error.to_string()));
        for name in names {
            match job.calls.get(kind, name).await {
                Ok(object) => found.objects.extend(object.map(|object| (kind, object))),
                Err(error) => found.failed.push(failed(kind.object(name), error.to_string())),
            }
        }
    }
    Ok(found)
}

/// What became of each, and which may still stand and fail closed.
pub(super) async fn delete(job: &Job, found: Found) -> (Vec<Line>, Vec<String>) {
    let Found { objects, failed: mut lines, unread } = found;
    let mut stands: Vec<_> = unread.iter().map(|kind| format!("{kind}s that could not be read")).collect();
    let others: BTreeSet<_> = objects.iter().map(|(_, object)| name_of(object)).collect();
    let known = [job.quota_webhooks.as_str(), BASE];
    let others = others.into_iter().filter(|name| !known.contains(name));
    let mut names = vec![job.quota_webhooks.as_str()];
    names.extend(others);
    if job.quota_webhooks != BASE {
        names.push(BASE);
    }
    for name in names {
        for kind in KINDS {
            let object = objects.iter().find(|(of, object)| of.kind == kind.kind && name_of(object) == name);
            let Some((_, object)) = object else {
                if known.contains(&name) && !unread.contains(kind.kind) {
                    lines.push(said(kind, name, Ending::Nothing, "not there".to_owned()));
                }
                continue;
            };
            let (line, blocks) = one(job, kind, object).await;
            if blocks {
                stands.push(line.object.clone());
            }
            lines.push(line);
        }
    }
    (lines, stands)
}

fn said(kind: Collection<'_>, name: &str, result: Ending, message: String) -> Line {
    Line { step: STEP, object: kind.object(name), result, message }
}

/// What became of it, and whether it still stands and fails closed.
async fn one(job: &Job, kind: Collection<'_>, object: &Value) -> (Line, bool) {
    let line = |result, message: String| said(kind, name_of(object), result, message);
    if !is_ours(object) {
        let why = "left, since it is not ours: it has no label app.kubernetes.io/name: plimsoll";
        return (line(Ending::Left, why.to_owned()), blocks(object, |entry| calls(entry, job)));
    }
    let called = namespaces(object);
    if let (Some(other), false) = (called.first(), called.contains(job.own.as_str())) {
        return (line(Ending::Left, format!("left, since it calls a Service of namespace {other}")), false);
    }
    if job.dry_run {
        return (line(job.ending(), job.words("deleted")), false);
    }
    match job.calls.delete(kind, object).await {
        Ok(true) => (line(job.ending(), job.words("deleted")), false),
        Ok(false) => (line(Ending::Nothing, "not there".to_owned()), false),
        Err(error) => (line(Ending::Failed, error.to_string()), blocks(object, |_| true)),
    }
}

fn entries(object: &Value) -> impl Iterator<Item = &Value> {
    object.get("webhooks").and_then(Value::as_array).into_iter().flatten()
}

/// A field of the Service that an entry calls.
fn service<'a>(entry: &'a Value, field: &str) -> Option<&'a str> {
    entry.pointer("/clientConfig/service")?.get(field)?.as_str()
}

/// The namespaces of the Services that it calls.
fn namespaces(object: &Value) -> BTreeSet<&str> {
    entries(object).filter_map(|entry| service(entry, "namespace")).collect()
}

/// Whether an entry calls our Service.
fn calls(entry: &Value, job: &Job) -> bool {
    service(entry, "namespace") == Some(&job.own) && service(entry, "name") == Some(SERVICE)
}

/// Whether something is refused while nobody answers one of these entries.
fn blocks(object: &Value, entry: impl Fn(&Value) -> bool) -> bool {
    let fails = |entry: &Value| entry.get("failurePolicy").and_then(Value::as_str) != Some("Ignore");
    entries(object).any(|one| entry(one) && fails(one))
}
