//! What is said about a workload or pod.

use std::io::Write;

use jiff::Timestamp;
use plimsoll_core::admission::{self, Decision, Outcome, Skip, WouldBe};
use plimsoll_core::keys;
use plimsoll_core::objects::Objects;
use plimsoll_core::overcommit::{Line, Plan, restored};
use plimsoll_core::pod::{PodView, Pruned, Workload, topmost_owner};
use plimsoll_core::savings::SavingsPod;
use serde_json::{Value, json};

use super::live::Live;
use super::table;
use crate::cli::context::show_only;
use crate::cli::{CliError, table as new_table};
use crate::template;
use crate::visible::visible;

/// What was found out.
pub(super) struct Report {
    title: String,
    decision: Option<Decision>,
    why_no_profile: Vec<String>,
    /// What was done to a pod that runs.
    applied: Option<String>,
    recommendations: Vec<Value>,
    pods: PodCounts,
    notes: Vec<String>,
    now: Timestamp,
}

/// The pods of a workload that have not ended, by what was done to them.
#[derive(Debug, Default, PartialEq, Eq)]
struct PodCounts {
    all: usize,
    lowered: usize,
    dynamic: usize,
}

impl PodCounts {
    /// Counts as `plimsoll top` does: those whose topmost owner the object is. Of a ReplicaSet or Job that belongs to
    /// something itself, those that it controls.
    fn of(object: &Value, pods: &[Value], objects: &Objects) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let wanted = Workload {
            group: text("/apiVersion").split_once('/').map_or("", |(group, _)| group).to_owned(),
            kind: text("/kind").to_owned(),
            name: text("/metadata/name").to_owned(),
        };
        let is_controller = |reference: &Value| {
            reference.get("controller") == Some(&Value::Bool(true))
                && Workload::from_reference(reference).as_ref() == Some(&wanted)
        };
        let mut counts = Self::default();
        for pod in pods {
            // One that no API server would store is none of its.
            let Ok(Some(read)) = SavingsPod::read(pod, objects) else { continue };
            let references = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            if *read.workload.workload != wanted && !references.into_iter().flatten().any(is_controller) {
                continue;
            }
            let by_recommendation = applied_to(pod).is_some_and(|text| text.contains("dynamic("));
            counts.all += 1;
            counts.lowered += usize::from(read.lowered);
            counts.dynamic += usize::from(read.lowered && by_recommendation);
        }
        counts
    }
}

impl Report {
    pub(super) fn new(live: &Live, object: &Value, pods: &[Value], now: Timestamp) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let title = format!("{} {}/{}", text("/kind"), live.namespace, text("/metadata/name"));
        let applied = applied_to(object).map(str::to_owned);
        let mut report = Self {
            title,
            decision: None,
            why_no_profile: Vec::new(),
            applied,
            recommendations: Vec::new(),
            pods: PodCounts::default(),
            notes: live.notes.clone(),
            now,
        };
        report.pods = PodCounts::of(object, pods, live.objects());
        let Some(at) = template::find(object) else { return report };
        let pod = template::pod(object, at);
        // One that runs was lowered already; the next one is written as this one was.
        let pod = if at == template::PodAt::Root { restored(&pod) } else { pod };
        let pod = Pruned::of(&pod);
        let decision = live.explain(&pod);
        if decision.answer.outcome == Outcome::Skipped(Skip::NoProfile) {
            report.why_no_profile = admission::why_no_profile(&pod, &live.namespace, &live.context());
        }
        if let Ok(view) = PodView::read(&pod) {
            let workload = topmost_owner(&view, &live.namespace, live.objects());
            let is_about = |found: &&Value| {
                let target =
                    |key: &str| found.pointer("/spec/targetRef").and_then(|target| target.get(key)?.as_str());
                let of_namespace = target("kind") == Some("Namespace");
                of_namespace
                    || (target("kind") == Some(&workload.kind) && target("name") == Some(&workload.name))
            };
            report.recommendations = live.recommendations.iter().filter(is_about).cloned().collect();
        }
        report.decision = Some(decision);
        report
    }

    pub(super) fn json(&self) -> Value {
        let decision = self.decision.as_ref().map(|decision| {
            let lines = |plan: &Plan| -> Vec<Value> {
                let line = |line: &Line| {
                    json!({
                        "container": line.target.to_string(),
                        "resource": line.resource.name(),
                        "original": line.original.text,
                        "result": line.result.text,
                        "why": line.why(),
                    })
                };
                plan.lines.iter().map(line).collect()
            };
            let would_be = match &decision.would_be {
                Some(WouldBe::Planned(plan)) => Some(json!({"requests": lines(plan)})),
                Some(WouldBe::Skipped(skip)) => Some(json!({"outcome": skip.word()})),
                None => None,
            };
            let mut told = json!({
                "outcome": decision.answer.outcome.word(),
                "profile": decision.answer.profile,
                "requests": lines(&decision.plan),
                "warnings": decision.answer.warnings,
                "whyNoProfile": self.why_no_profile,
            });
            if let (Some(would_be), Some(members)) = (would_be, told.as_object_mut()) {
                members.insert("wouldBe".to_owned(), would_be);
            }
            told
        });
        let recommendations = self.recommendations.iter().map(|found| {
            json!({
                "name": found.pointer("/metadata/name"),
                "targetRef": found.pointer("/spec/targetRef"),
                "profile": found.pointer("/spec/profile"),
                "podName": found.pointer("/spec/podName"),
                "status": found.get("status"),
            })
        });
        json!({
            "object": self.title,
            "applied": self.applied,
            "next": decision,
            "recommendations": recommendations.collect::<Vec<_>>(),
            "pods": {"all": self.pods.all, "lowered": self.pods.lowered, "dynamic": self.pods.dynamic},
            "notes": self.notes,
        })
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> Result<(), CliError> {
        for note in &self.notes {
            writeln!(out, "note: {}", visible(note))?;
        }
        if let Some(applied) = &self.applied {
            writeln!(out, "{}: {}\n\nThe next one would be:", visible(&self.title), visible(applied))?;
        }
        match &self.decision {
            Some(decision) => table::write(out, &self.title, decision)?,
            None => writeln!(out, "{}: has no pod template; nothing is changed", visible(&self.title))?,
        }
        for reason in &self.why_no_profile {
            writeln!(out, "  {}", visible(reason))?;
        }
        if self.pods.all > 0 {
            writeln!(
                out,
                "\n{} pods: {} with lowered requests, {} of them by recommendation",
                self.pods.all, self.pods.lowered, self.pods.dynamic
            )?;
        }
        if self.recommendations.is_empty() {
            writeln!(out, "\nNo recommendation is about it.")?;
        }
        for recommendation in &self.recommendations {
            self.write_recommendation(out, recommendation)?;
        }
        Ok(())
    }

    fn write_recommendation(&self, out: &mut dyn Write, found: &Value) -> Result<(), CliError> {
        let text = |value: &Value, pointer: &str| {
            visible(value.pointer(pointer).and_then(Value::as_str).unwrap_or_default())
        };
        let pod = match text(found, "/spec/podName").as_str() {
            "" => String::new(),
            pod => format!(", pod {pod}"),
        };
        writeln!(
            out,
            "\nRecommendation {} ({} {}{pod}, profile {})",
            text(found, "/metadata/name"),
            text(found, "/spec/targetRef/kind"),
            text(found, "/spec/targetRef/name"),
            text(found, "/spec/profile"),
        )?;
        let mut figures = new_table([
            "CONTAINER",
            "RESOURCE",
            "TARGET",
            "LOWER",
            "UPPER",
            "ORIGINAL",
            "EFFECTIVE",
            "SAMPLES",
            "HISTORY",
            "LAST",
        ]);
        let containers = found.pointer("/status/containers").and_then(Value::as_array);
        for container in containers.into_iter().flatten() {
            for resource in ["cpu", "memory"].into_iter().filter(|resource| container.get(resource).is_some())
            {
                let figure = |key: &str| quantity(container.pointer(&format!("/{resource}/{key}")));
                let time = |key: &str| container.get(key)?.as_str()?.parse::<Timestamp>().ok();
                let (first, last) = (time("firstSample"), time("lastSample"));
                let history = first.zip(last).map(|(first, last)| span(last.duration_since(first)));
                let age = last.map(|last| format!("{} ago", span(self.now.duration_since(last))));
                figures.add_row([
                    text(container, "/name"),
                    resource.to_owned(),
                    figure("target"),
                    figure("lower"),
                    figure("upper"),
                    figure("original"),
                    figure("effective"),
                    container.get("samples").map_or_else(String::new, ToString::to_string),
                    history.unwrap_or_default(),
                    age.unwrap_or_default(),
                ]);
            }
        }
        write_table(out, &mut figures)?;
        let mut conditions = new_table(["CONDITION", "STATUS", "REASON", "MESSAGE"]);
        let list = found.pointer("/status/conditions").and_then(Value::as_array);
        for condition in list.into_iter().flatten() {
            let of = |key: &str| text(condition, &format!("/{key}"));
            conditions.add_row([of("type"), of("status"), of("reason"), of("message")]);
        }
        write_table(out, &mut conditions)
    }
}

fn write_table(out: &mut dyn Write, table: &mut comfy_table::Table) -> Result<(), CliError> {
    show_only(table);
    for line in table.lines() {
        writeln!(out, "  {}", line.trim_end())?;
    }
    Ok(())
}

fn applied_to(object: &Value) -> Option<&str> {
    object.pointer("/metadata/annotations")?.get(keys::APPLIED)?.as_str()
}

fn quantity(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => "-".to_owned(),
        Some(other) => other.to_string(),
    }
}

/// A span of time in its largest units.
fn span(time: jiff::SignedDuration) -> String {
    let seconds = time.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_counted_as_top_counts_them() {
        let pod = |name: &str, owner: &str, phase: &str| {
            json!({
                "metadata": {
                    "namespace": "shop", "name": name, "labels": {"pod-template-hash": "5d4f8"},
                    "annotations": {
                        "plimsoll.dev/applied": "cpu: 1->500m dynamic(shop/web)",
                        "plimsoll.dev/original-resources":
                            json!({"containers": {"app": {"requests": {"cpu": "1"}, "set": {"cpu": "500m"}}}}).to_string(),
                    },
                    "ownerReferences": [
                        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": "r", "controller": true},
                    ],
                },
                "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "500m"}}}]},
                "status": {"phase": phase},
            })
        };
        let mut undone = pod("c", "web-5d4f8", "Running");
        undone["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1");
        let pods = [
            pod("a", "web-5d4f8", "Running"),
            pod("ended", "web-5d4f8", "Succeeded"),
            pod("of-another", "api-5d4f8", "Running"),
            undone,
        ];
        for (rule, kind, name, expected) in [
            ("a Deployment", "Deployment", "web", (2, 1, 1)),
            ("its ReplicaSet", "ReplicaSet", "web-5d4f8", (2, 1, 1)),
            ("another kind", "StatefulSet", "web", (0, 0, 0)),
        ] {
            let object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}});
            let counts = PodCounts::of(&object, &pods, &Objects::default());
            assert_eq!((counts.all, counts.lowered, counts.dynamic), expected, "{rule}");
        }
    }

    #[test]
    fn spans() {
        for (seconds, expected) in
            [(-5, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172_799, "47h"), (172_800, "2d")]
        {
            assert_eq!(span(jiff::SignedDuration::from_secs(seconds)), expected);
        }
    }
}
