//! What is said about an autoscaler. The JSON form is an interface.

use plimsoll_core::hpa::controller::{Kept, Limit, Metric, MetricError, Proposal, Reason, Target};
use plimsoll_core::hpa::{
    Bases, Hpa, KeyBase, MeanBase, MetricKey, MetricTarget, Originals, Seen, TargetFacts, Verdict, Why,
    Written, judge, standing,
};
use plimsoll_core::hpa::{HpaPod, Shape};
use plimsoll_core::keys;
use plimsoll_core::overcommit::Amount;
use plimsoll_core::profile::{Basis, HpaMode};
use plimsoll_core::resource::Resource;
use serde::Serialize;

use super::views::{View, Views, is_converted, mean_request, shown};
use super::world::{World, target_name};
use crate::config;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) hpa: String,
    pub(super) target: String,
    pub(super) replicas: Replicas,
    pub(super) pods: Pods,
    /// The profile of its pods, if there is one.
    pub(super) profile: Option<String>,
    /// `Convert`, `Shim`, `External` or `Off`.
    pub(super) mode: &'static str,
    /// What becomes of its targets, and why.
    pub(super) verdict: String,
    pub(super) metrics: Vec<MetricReport>,
    /// What the controller does, or why it cannot.
    pub(super) now: Said,
    /// What it would do with the targets as they were written, by what is requested now.
    pub(super) untouched: Said,
    /// What it would do with them by what was requested first, or by the limits.
    pub(super) meant: Said,
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Replicas {
    pub(super) current: i32,
    pub(super) min: i64,
    pub(super) max: i64,
}

#[derive(Debug, Serialize)]
pub(super) struct Pods {
    /// All that the selector finds.
    pub(super) found: usize,
    /// Those that are neither terminating nor finished.
    pub(super) counted: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct Said {
    /// Nothing if it cannot decide.
    pub(super) replicas: Option<i32>,
    pub(super) reason: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetricReport {
    /// Its place in `spec.metrics`.
    pub(super) index: usize,
    pub(super) metric: String,
    pub(super) record: Option<Record>,
    /// What was made of its target, and from what.
    pub(super) state: String,
    pub(super) now: Figures,
    pub(super) untouched: Figures,
    pub(super) meant: Figures,
}

/// What the annotation records.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    /// The utilization that was written, in per cent.
    pub(super) target: i64,
    pub(super) basis: Option<&'static str>,
    pub(super) sum: Option<String>,
    pub(super) pods: Option<u64>,
    pub(super) value: Option<String>,
}

/// What a metric comes to, by one way to compute.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    pub(super) target: String,
    /// Of a measured pod on average.
    pub(super) usage: Option<String>,
    /// What that is divided by: the average request or base, or the target value.
    pub(super) divisor: Option<String>,
    /// In per cent of the divisor, as the controller cuts it; of a utilization only.
    pub(super) utilization: Option<i32>,
    /// Of usage to target: above 1 more pods are needed.
    pub(super) ratio: Option<f64>,
    pub(super) replicas: Option<i32>,
    /// How many pods are measured, are not ready, have no metrics.
    pub(super) measured: usize,
    pub(super) unready: usize,
    pub(super) missing: usize,
    /// Why it stays as it is, or why it cannot be computed.
    pub(super) why: Option<String>,
}

impl Report {
    pub(super) fn new(world: &World, config: &config::Hpa) -> Self {
        let context = world.context();
        let hpa = &world.hpa;
        let mut notes = world.notes.clone();
        let originals = hpa.original.as_deref().map(Originals::read).transpose().unwrap_or_else(|error| {
            notes.push(format!("annotation {} cannot be read: {error}", keys::HPA_ORIGINAL));
            None
        });
        let originals = originals.unwrap_or_default();
        let counted: Vec<Shape> = world
            .pods
            .iter()
            .filter_map(HpaPod::read)
            .filter(|pod| pod.counts)
            .map(|pod| pod.shape.as_ref().clone())
            .collect();
        let seen: Vec<Seen<'_>> = counted.iter().map(|shape| Seen { shape, pods: 1 }).collect();
        let facts = TargetFacts { pods: &seen, template: world.template.as_ref() };
        let verdict = judge(hpa, &facts, &context);
        let leading = world.template.as_ref().into_iter().chain(&counted);
        let standings = leading.map(|shape| standing(shape, &hpa.namespace, &context));
        let ours = standings.into_iter().find(|standing| standing.profile.is_some());
        let mode = match &verdict {
            Verdict::Restore(Why::Mode(mode)) => *mode,
            _ => ours.as_ref().map_or(context.settings.hpa_mode, |standing| standing.mode),
        };
        let shim = verdict == Verdict::Restore(Why::Mode(HpaMode::Shim)) && config.offers(mode);
        let views = Views::of(world, &originals, shim);
        notes.extend(not_computed(hpa, &views));
        if let Err(why) = &world.usages {
            notes.push(format!("no metrics: {why}"));
        }
        if hpa.sync.is_some() {
            notes.push(format!(
                "annotation {} was not taken off: Plimsoll's webhook for autoscalers was not called",
                keys::HPA_SYNC
            ));
        }
        if let Some(asked) = ours.as_ref().and_then(|standing| standing.unserved) {
            let asked = asked.name();
            notes.push(format!(
                "by this configuration mode {asked} is not served, so that it is converted: see `hpa`"
            ));
        }
        if !config.offers(mode) {
            notes.push(format!("by this configuration mode {} has no effect: see `hpa`", mode.name()));
        }
        notes.extend(views.unscaled.iter().cloned());
        if shim && views.unscaled.is_empty() {
            notes.push(
                "Shim: the controller is given usage times what is requested, divided by what was meant"
                    .to_owned(),
            );
        }
        let metrics = (0..views.metrics.len())
            .filter_map(|place| metric(place, &views, hpa, &originals, &verdict))
            .collect();
        Self {
            hpa: format!("{}/{}", hpa.namespace, hpa.name),
            target: target_name(hpa),
            replicas: Replicas { current: world.replicas, min: hpa.min_replicas, max: hpa.max_replicas },
            pods: Pods { found: world.pods.len(), counted: counted.len() },
            profile: ours.and_then(|standing| standing.profile).map(|profile| profile.name.clone()),
            mode: mode.name(),
            verdict: verdict_text(&verdict),
            now: said(&views.now, &views, hpa),
            untouched: said(&views.untouched, &views, hpa),
            meant: said(&views.meant, &views, hpa),
            metrics,
            notes,
        }
    }
}

fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Unknown => {
            "left as it stands: its namespace, its pods or its template are not known".to_owned()
        }
        Verdict::Restore(why) => format!("its targets are as its author wrote them: {why}"),
        Verdict::Convert(_) => "its utilizations are kept as average values".to_owned(),
    }
}

/// The metrics that are not looked at.
fn not_computed(hpa: &Hpa, views: &Views) -> Option<String> {
    let others = hpa.metrics.iter().enumerate().filter(|(index, _)| !views.metrics.contains(index));
    let others: Vec<String> = others
        .map(|(index, metric)| {
            let name = metric.key.as_ref().map_or_else(|| metric.type_name.clone(), ToString::to_string);
            format!("spec.metrics[{index}] ({name})")
        })
        .collect();
    (!others.is_empty()).then(|| {
        format!(
            "not looked at: {}; the controller takes the greatest count of all metrics",
            others.join(", ")
        )
    })
}

fn metric(
    place: usize,
    views: &Views,
    hpa: &Hpa,
    originals: &Originals,
    verdict: &Verdict,
) -> Option<MetricReport> {
    let index = *views.metrics.get(place)?;
    let metric = hpa.metrics.get(index)?;
    let key = metric.key.as_ref()?;
    let recorded = originals.0.get(key);
    let figures = |view: &View| {
        let proposal = view.decision.proposals.get(place);
        view.metrics.get(place).map(|metric| figures(key.resource, metric, proposal))
    };
    Some(MetricReport {
        index,
        metric: key.to_string(),
        record: recorded.map(|original| Record {
            target: original.target,
            basis: original.written.as_ref().map(|written| basis_text(written.base.basis)),
            sum: original
                .written
                .as_ref()
                .map(|written| Amount::computed(key.resource, written.base.sum).text),
            pods: original.written.as_ref().map(|written| written.base.pods),
            value: original.written.as_ref().map(|written| written.value.text.clone()),
        }),
        state: if is_several(hpa, key) {
            "not converted: there are several utilizations of it; keep one".to_owned()
        } else if is_unreadable(hpa) && matches!(metric.target, MetricTarget::AverageValue(_)) {
            "not known: the record cannot be read; it is left alone".to_owned()
        } else {
            state(key, &metric.target, is_converted(hpa, index, originals), originals, verdict)
        },
        now: figures(&views.now)?,
        untouched: figures(&views.untouched)?,
        meant: figures(&views.meant)?,
    })
}

fn is_several(hpa: &Hpa, key: &MetricKey) -> bool {
    let utilizations = hpa.metrics.iter().filter(|metric| {
        metric.key.as_ref() == Some(key) && matches!(metric.target, MetricTarget::Utilization(_))
    });
    utilizations.count() > 1
}

fn is_unreadable(hpa: &Hpa) -> bool {
    hpa.original.as_deref().is_some_and(|text| Originals::read(text).is_err())
}

/// What was made of a target, from what, and what is to be made of it now.
fn state(
    key: &MetricKey,
    target: &MetricTarget,
    converted: bool,
    originals: &Originals,
    verdict: &Verdict,
) -> String {
    let recorded = originals.0.get(key);
    let base = match verdict {
        Verdict::Convert(Bases(bases)) => bases.get(key),
        _ => None,
    };
    match (target, recorded.and_then(|original| Some((original.target, original.written.as_ref()?)))) {
        (MetricTarget::AverageValue(_), Some((percent, written))) if converted => {
            let wrote = wrote(key, percent, written);
            match (verdict, base) {
                (Verdict::Restore(_), _) => format!("{wrote}; to be restored"),
                (_, Some(KeyBase::AsWritten)) => format!("{wrote}; to be restored: it is never lowered"),
                (_, Some(KeyBase::Missing { why, native: true })) => {
                    format!("{wrote}; to be restored: {why}")
                }
                (_, Some(KeyBase::Missing { why, .. })) => format!("{wrote}; kept so: {why}"),
                (_, Some(KeyBase::Known(base))) => match base.value(key, percent) {
                    Some(value) if value.nanos != written.value.nanos => {
                        format!("{wrote}; to become {}: {}", value.text, mean_text(key, base))
                    }
                    _ => wrote,
                },
                _ => wrote,
            }
        }
        (MetricTarget::AverageValue(_), _) => "a value of its author's own; it is left alone".to_owned(),
        (MetricTarget::Utilization(percent), _) => match (verdict, base) {
            (_, Some(KeyBase::Missing { why, .. })) => format!("not converted: {why}"),
            (_, Some(KeyBase::Known(base))) => match base.value(key, *percent) {
                Some(value) => {
                    format!("not converted yet; to become {}: {}", value.text, mean_text(key, base))
                }
                None => "not converted: the value would be 0, or beyond all quantities".to_owned(),
            },
            (Verdict::Unknown, _) if recorded.is_some() => {
                "not converted yet: what it scales is not known".to_owned()
            }
            _ => "as its author wrote it".to_owned(),
        },
        (MetricTarget::Other, _) => "not known here".to_owned(),
    }
}

fn wrote(key: &MetricKey, percent: i64, written: &Written) -> String {
    format!("{percent} % became {}: {}", written.value.text, mean_text(key, &written.base))
}

fn mean_text(key: &MetricKey, base: &MeanBase) -> String {
    let figure = match base.basis {
        Some(Basis::Limit) => "limit",
        Some(Basis::Request) => "original request",
        None => "original request or limit",
    };
    let sum = Amount::computed(key.resource, base.sum).text;
    let pods = if base.pods == 1 { "1 pod".to_owned() } else { format!("{} pods", base.pods) };
    format!("by the mean {figure} of {pods}, {sum} together")
}

const fn basis_text(basis: Option<Basis>) -> &'static str {
    match basis {
        Some(Basis::Request) => "request",
        Some(Basis::Limit) => "limit",
        None => "mixed",
    }
}

fn figures(resource: Resource, metric: &Metric, proposal: Option<&Result<Proposal, MetricError>>) -> Figures {
    let (target, value) = match metric.target {
        Target::Utilization(percent) => (format!("{percent} %"), None),
        Target::AverageValue(milli) => {
            let text = shown(resource, milli);
            (text.clone(), Some(text))
        }
    };
    let empty = Figures {
        target,
        usage: None,
        divisor: value.or_else(|| mean_request(metric).map(|mean| shown(resource, mean))),
        utilization: None,
        ratio: None,
        replicas: None,
        measured: 0,
        unready: 0,
        missing: 0,
        why: None,
    };
    match proposal {
        None => Figures { why: Some("not looked at".to_owned()), ..empty },
        Some(Err(error)) => Figures { why: Some(error.to_string()), ..empty },
        Some(Ok(proposal)) => Figures {
            usage: Some(shown(resource, proposal.average)),
            utilization: proposal.utilization,
            ratio: Some((proposal.ratio * 10_000.0).round() / 10_000.0),
            replicas: Some(proposal.replicas),
            measured: proposal.measured,
            unready: proposal.unready,
            missing: proposal.missing,
            why: proposal.kept.map(|kept| kept_text(kept).to_owned()),
            ..empty
        },
    }
}

const fn kept_text(kept: Kept) -> &'static str {
    match kept {
        Kept::Tolerance => "within the tolerance",
        Kept::Direction => "pods that are not measured may use so much that it would be the other way",
    }
}

fn said(view: &View, views: &Views, hpa: &Hpa) -> Said {
    let decision = &view.decision;
    let name = |place: usize| {
        let index = views.metrics.get(place).copied();
        let key = index.and_then(|index| hpa.metrics.get(index)?.key.as_ref());
        key.map(ToString::to_string).unwrap_or_default()
    };
    let reason = match decision.reason {
        Reason::Disabled => "scaling is switched off, since the target has 0 replicas".to_owned(),
        Reason::AboveMaximum => "there are more than maxReplicas".to_owned(),
        Reason::BelowMinimum => "there are fewer than minReplicas".to_owned(),
        Reason::CannotDecide { metric: None } => {
            "the controller cannot decide: there is no cpu or memory metric".to_owned()
        }
        Reason::CannotDecide { metric: Some(place) } => {
            let error = decision.proposals.get(place).and_then(|proposal| proposal.as_ref().err());
            let error = error.map(ToString::to_string).unwrap_or_default();
            format!("the controller cannot decide: {}: {error}", name(place))
        }
        Reason::Metric { metric, wanted, limit } => {
            let bound = match limit {
                None => String::new(),
                Some(limit) => format!("; it asks for {wanted}, but {}", limit_text(limit)),
            };
            format!("by {}{bound}", name(metric))
        }
    };
    let can = !matches!(decision.reason, Reason::CannotDecide { .. });
    Said { replicas: can.then_some(decision.replicas), reason }
}

const fn limit_text(limit: Limit) -> &'static str {
    match limit {
        Limit::Minimum => "minReplicas is more",
        Limit::Maximum => "maxReplicas is fewer",
        Limit::UpRate => "more must not be added at once",
        Limit::DownRate => "more must not be taken away at once",
    }
}
