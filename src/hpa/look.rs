//! One look at an autoscaler: how it stands, and what is to be written. Nothing here waits or calls anybody.

use std::sync::Arc;

use plimsoll_core::admission::Context;
use plimsoll_core::hpa::{
    Hpa, MetricTarget, Note, Originals, Seen, Shape, TargetFacts, Verdict, convert, judge, standing,
    write_sync,
};
use plimsoll_core::profile::HpaMode;

use crate::metrics::HpaState;

/// What a look found.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Look {
    /// How it stands once what is wanted is written.
    pub(super) state: HpaState,
    /// What the keeper's annotation is to be; nothing if all is well.
    pub(super) wanted: Option<Wanted>,
    /// What is done by that, and what cannot be done.
    pub(super) notes: Vec<Note>,
    /// The mode that the profile of its pods asks for, where nobody serves it.
    pub(super) unserved: Option<HpaMode>,
}

/// What the keeper's annotation is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// This text, for the webhook to act on.
    Text(String),
    /// Gone: it was left behind, and there is nothing to be done.
    Nothing,
}

/// Looks at an autoscaler and the pods that it is about.
pub(super) fn look(
    hpa: &Hpa,
    pods: &[(Arc<Shape>, u64)],
    template: Option<&Shape>,
    context: &Context<'_>,
) -> Look {
    let is_marked = hpa.original.is_some() || hpa.sync.is_some();
    if context.settings.excluded_namespaces.contains(&hpa.namespace) && !is_marked {
        // The webhook leaves it alone too. What was converted before must not be stuck.
        return Look { state: HpaState::Native, wanted: None, notes: Vec::new(), unserved: None };
    }
    let seen: Vec<_> = pods.iter().map(|(shape, pods)| Seen { shape, pods: *pods }).collect();
    let verdict = judge(hpa, &TargetFacts { pods: &seen, template }, context);
    let conversion = convert(hpa, None, &verdict);
    let record = conversion.record.as_ref();
    let text = if conversion.changes(hpa) { write_sync(&verdict) } else { None };
    let wanted = text.map(Wanted::Text).or_else(|| hpa.sync.as_ref().map(|_| Wanted::Nothing));
    let has = |is: fn(&Note) -> bool| conversion.notes.iter().any(is);
    let stored = hpa.original.as_deref().and_then(|text| Originals::read(text).ok());
    let is_converted = record.or(stored.as_ref()).is_some_and(Originals::has_written);
    let state = match &verdict {
        _ if has(|note| matches!(note, Note::Unreadable { .. })) => HpaState::Unreadable,
        Verdict::Unknown => HpaState::Unknown,
        Verdict::Convert(_) if has(Note::is_warning) => HpaState::Incomplete,
        Verdict::Convert(_) if is_converted => HpaState::Converted,
        Verdict::Convert(_) | Verdict::Restore(_) => HpaState::Native,
    };
    let shapes = pods.iter().map(|(shape, _)| shape.as_ref()).chain(template);
    let unserved = if context.settings.hpa_unserved.is_empty() || !has_percentages(hpa) {
        None
    } else {
        shapes.into_iter().find_map(|shape| standing(shape, &hpa.namespace, context).unserved)
    };
    Look { state, wanted, notes: conversion.notes, unserved }
}

/// Whether it has, or had before it was converted, percentages of what is requested.
fn has_percentages(hpa: &Hpa) -> bool {
    hpa.original.is_some()
        || hpa
            .metrics
            .iter()
            .any(|metric| metric.key.is_some() && matches!(metric.target, MetricTarget::Utilization(_)))
}
