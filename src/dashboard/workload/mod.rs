//! `/workloads/NAMESPACE/KIND/NAME`: all that is known of a workload.

mod autoscalers;
mod explanation;
mod history;
mod read;
mod recommendation;
mod usage;
mod weights;

use maud::{Markup, html};
use plimsoll_core::objects::Recommendation;
use plimsoll_core::placement::WorkloadKey;
use plimsoll_core::pod::Workload;
use plimsoll_core::savings::Row;

pub(super) use self::read::{Read, read};
use super::format::{cores, count, foreign, memory, percent};
use super::layout::{Page, nothing, section};
use super::query::encoded;
use super::table::scrolled;
use super::{Refusal, View, decisions, savings};
use crate::api::Sources;

/// So many decisions are shown.
const DECISIONS: usize = 10;

/// Which workload is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    namespace: String,
    kind: String,
    name: String,
}

impl Address {
    pub(super) fn new(namespace: &str, kind: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
    }

    fn is(&self, workload: &Workload, group: &str) -> bool {
        workload.name == self.name
            && workload.kind.eq_ignore_ascii_case(&self.kind)
            && (group.is_empty() || workload.group == group)
    }

    /// The workload as it is known: by its pods, by a recommendation, or by an autoscaler. There may be some of the same
    /// kind in several groups; `group` says which one, else it is the first.
    fn find(&self, known: &Sources, group: &str) -> Option<WorkloadKey> {
        let key = |workload: &Workload| WorkloadKey {
            namespace: self.namespace.as_str().into(),
            workload: workload.clone().into(),
        };
        if let Some(survey) = known.surveys.as_ref().and_then(crate::survey::Surveys::look) {
            let mut all = survey.savings.workloads.keys();
            let found = all.find(|key| *key.namespace == *self.namespace && self.is(&key.workload, group));
            if let Some(found) = found {
                return Some(found.clone());
            }
        }
        let objects = known.objects.load();
        let targets = objects.recommendations_in(&self.namespace).map(|found| &found.target);
        let scaled = objects.hpas_in(&self.namespace).map(|hpa| &hpa.target);
        let mut all = targets.chain(scaled);
        all.find(|workload| self.is(workload, group)).map(key)
    }
}

/// The recommendations that decide about a workload: about itself or its pods, else about its namespace.
fn recommendations(known: &Sources, key: &WorkloadKey) -> Vec<std::sync::Arc<Recommendation>> {
    let objects = known.objects.load();
    let (namespace, workload) = (&*key.namespace, &*key.workload);
    let of_workload = objects.recommendations(namespace, &workload.kind, &workload.name);
    let mut found: Vec<_> =
        of_workload.filter(|found| found.target.group == workload.group).cloned().collect();
    if found.is_empty() {
        found = objects.recommendations(namespace, "Namespace", namespace).cloned().collect();
    }
    found
}

pub(super) fn page(address: &Address, view: &View<'_>, read: &Read) -> Result<Page, Refusal> {
    let known = view.known;
    let Address { namespace, kind, name } = address;
    let Some(key) = address.find(known, view.frame.query.text("group")) else {
        let why = match savings::survey(known) {
            Ok(_) => "no pod, recommendation or autoscaler of it is known".to_owned(),
            Err(why) => format!("no recommendation or autoscaler of it is known. {why}"),
        };
        if known.surveys.as_ref().is_some_and(|surveys| surveys.look().is_none()) {
            let message =
                format!("whether there is a {kind} {name} in namespace {namespace} is not known yet: {why}");
            return Err(Refusal::not_yet(&message));
        }
        return Err(Refusal::missing(&format!("there is no {kind} {name} in namespace {namespace}: {why}")));
    };
    let recommendations = recommendations(known, &key);
    let survey = savings::survey(known);
    let row = survey.as_ref().ok().and_then(|survey| survey.savings.workloads.get(&key));
    let lead = html! {
        (foreign(&key.workload.kind)) " in namespace " (savings::namespace_link(namespace)) ". "
        @match (row, &survey) {
            (Some(row), _) => { (count(row.pods)) " pods, " (count(row.lowered)) " of them with lowered requests." }
            (None, Ok(_)) => { "No pod of it runs." }
            (None, Err(why)) => { (super::format::visible(why)) }
        }
    };
    let body = html! {
        @if let Some(row) = row { (section("requests", "Requested and used", &figures(view, &key, row, &read.day))) }
        (section("decision", "Why its pods request what they do", &explanation::explained(view, &key, read)))
        (section("recommendation", "Recommendation", &recommendation::all(view, &recommendations)))
        (section("usage", "Usage, as it is remembered", &usage::all(view, &recommendations, read)))
        (section("autoscalers", "Autoscalers", &autoscalers::all(view, &key)))
        @if let Some(placement) = &known.placement {
            (section("weights", "Placement weights", &weights::of(placement, &key)))
        }
        (section("decisions", "Last decisions about its pods", &decided(view, &key)))
    };
    Ok(Page { title: key.workload.name.clone(), lead, body })
}

fn figures(view: &View<'_>, key: &WorkloadKey, row: &Row, day: &history::Day) -> Markup {
    let saved = row.saved();
    let used = row.used();
    let known = |used: Option<i128>, shown: fn(i128) -> String| used.map_or_else(|| "-".to_owned(), shown);
    let table = html! {
        table.short {
            caption { "All pods together" }
            thead {
                tr {
                    th scope="col" { "Resource" }
                    @for name in ["Before", "Now", "Used", "Saved"] { th.num scope="col" { (name) } }
                }
            }
            tbody {
                tr {
                    th scope="row" { "CPU, cores" }
                    td.num { (cores(row.before.cpu)) } td.num { (cores(row.now.cpu)) } td.num { (known(used.cpu, cores)) }
                    td.num.strong { (cores(saved.cpu)) " " span.muted { "(" (percent(saved.cpu, row.before.cpu)) ")" } }
                }
                tr {
                    th scope="row" { "Memory" }
                    td.num { (memory(row.before.memory)) } td.num { (memory(row.now.memory)) } td.num { (known(used.memory, memory)) }
                    td.num.strong { (memory(saved.memory)) " " span.muted { "(" (percent(saved.memory, row.before.memory)) ")" } }
                }
            }
        }
    };
    html! {
        (scrolled("All pods together", &table))
        @if row.measured.both() < row.pods { p.taken { "Usage was measured for " (savings::measured(row.measured)) " of " (count(row.pods)) " pods." } }
        (history::plots(view, key, day))
    }
}

/// Decisions about pods whose names begin as those of its controllers do.
fn decided(view: &View<'_>, key: &WorkloadKey) -> Markup {
    let name = &key.workload.name;
    let is_of = |pod: &str| {
        pod == name || pod.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(['-', '…']))
    };
    let found: Vec<_> = view
        .known
        .decisions
        .newest_first()
        .into_iter()
        .filter(|decided| *decided.namespace == *key.namespace && is_of(&decided.name))
        .take(DECISIONS)
        .collect();
    if found.is_empty() {
        return nothing(
            "This replica decided about none lately. Others may have: each keeps its own decisions.",
        );
    }
    let all = format!("/decisions?namespace={}&q={}", encoded(&key.namespace), encoded(name));
    html! {
        (decisions::table(&found, view.now, "Pods whose names begin with that of the workload, the newest first"))
        p.more { a href=(all) { "All decisions about such names" } }
    }
}
