//! Requests and usage of a workload over time: of the last day where Prometheus knows it, else since somebody looks.

use std::sync::Arc;

use jiff::Timestamp;
use maud::{Markup, html};
use plimsoll_core::placement::WorkloadKey;
use plotters::style::RGBColor;

use super::super::View;
use super::super::format::{foreign, moment, number};
use super::super::plot::{Series, timeline};
use crate::survey::{LastDay, Point};

/// What the style sheet replaces.
const BEFORE: RGBColor = RGBColor(120, 120, 120);
const NOW: RGBColor = RGBColor(0, 114, 178);
const USED: RGBColor = RGBColor(0, 158, 115);

const GIB: f64 = 1_073_741_824.0;

type Points = Vec<(Timestamp, f64)>;

/// What Prometheus knows of the last day.
#[derive(Clone, Debug, Default)]
pub(super) enum Day {
    /// Usage is not read from there.
    #[default]
    Elsewhere,
    /// It has not answered yet.
    Asked,
    /// It has.
    Known(Arc<LastDay>),
}

impl Day {
    fn known(&self) -> Option<&LastDay> {
        match self {
            Self::Known(day) if day.past.used.iter().any(|line| !line.is_empty()) => Some(day),
            _ => None,
        }
    }
}

pub(super) fn plots(view: &View<'_>, key: &WorkloadKey, day: &Day) -> Markup {
    let points = view.known.surveys.as_ref().map(|surveys| surveys.history(key)).unwrap_or_default();
    if points.is_empty() && day.known().is_none() {
        return origin(view, &points, day);
    }
    html! {
        h3 { "Over time" }
        (origin(view, &points, day))
        p.legend {
            span { span.key.before {} "requested before (dotted)" }
            span { span.key.now {} "requested now (dashed)" }
            span { span.key.used {} "really used" }
        }
        div.plots {
            (plot(&points, day.known(), 0, 1.0, ("cores", "CPU")))
            (plot(&points, day.known(), 1, GIB, ("GiB", "Memory")))
        }
    }
}

/// Where the points are from, and why there are no others.
fn origin(view: &View<'_>, points: &[Point], day: &Day) -> Markup {
    let looks = html! {
        @if let Some(first) = points.first() {
            "since somebody began to look at these pages, " (moment(first.at, view.now)) ", a point every 30 s ("
            (points.len()) " so far, an hour is kept)"
        }
    };
    html! {
        @match (day, day.known()) {
            (_, Some(LastDay { asked, host, step, past })) => p.taken {
                "Usage of the last day is what Prometheus says (" (foreign(host)) ", asked " (moment(*asked, view.now)) "), a point every "
                (step.as_secs() / 60) " min, of all pods whose names are as those of this workload. What is requested is "
                @if past.requested.iter().all(Vec::is_empty) {
                    "not known there (kube_pod_container_resource_requests); it is shown "
                } @else {
                    "from there too (kube_pod_container_resource_requests). What was requested before is shown "
                }
                (looks) "."
            },
            (Day::Elsewhere, None) => @if !points.is_empty() {
                p.taken { "Shown " (looks) ". What was before that, your monitoring knows." }
            },
            (Day::Asked, None) => p.taken {
                "Prometheus is being asked for the last day: load this page again in a moment. "
                @if !points.is_empty() { "Until then, shown " (looks) "." }
            },
            (Day::Known(day), None) => p.taken {
                @if day.past.failures.is_empty() { "Prometheus (" (foreign(&day.host)) ") knows no usage of its pods in the last day. " }
                @if !points.is_empty() { "Shown " (looks) "." }
            },
        }
        @if let Day::Known(day) = day {
            @for failure in &day.past.failures {
                p.taken { "The last day is not complete: " (foreign(failure)) " (asked " (moment(day.asked, view.now)) "; again after five minutes)" }
            }
        }
    }
}

fn plot(
    points: &[Point],
    day: Option<&LastDay>,
    index: usize,
    unit: f64,
    (unit_name, resource): (&str, &str),
) -> Markup {
    let value = |pair: &[f32; 2]| f64::from(pair.get(index).copied().unwrap_or_default()) / unit;
    let seen = |of: &dyn Fn(&Point) -> Option<f64>| -> Points {
        points.iter().filter_map(|point| Some((point.at, of(point)?))).collect()
    };
    let told = |lines: &[Vec<(i64, f64)>; 2]| -> Points {
        let line = lines.get(index).into_iter().flatten();
        line.filter_map(|(at, value)| Some((Timestamp::from_nanosecond((*at).into()).ok()?, value / unit)))
            .collect()
    };
    let or = |told: Points, seen: Points| if told.is_empty() { seen } else { told };
    let before = seen(&|point| Some(value(&point.before)));
    let now = or(
        day.map(|day| told(&day.past.requested)).unwrap_or_default(),
        seen(&|point| Some(value(&point.now))),
    );
    let used = or(
        day.map(|day| told(&day.past.used)).unwrap_or_default(),
        seen(&|point| Some(f64::from((*point.used.get(index)?)?) / unit)),
    );
    let last = |points: &Points, none: &str| {
        points.last().map_or_else(
            || none.to_owned(),
            |(at, value)| format!("{} (at {})", number(*value), at.strftime("%Y-%m-%d %H:%M UTC")),
        )
    };
    let description = format!(
        "In {unit_name}, at the end: requested before {}, requested now {}, used {}.",
        last(&before, "not known"),
        last(&now, "not known"),
        last(&used, "not measured")
    );
    let series = |colour, points| Series { colour, points };
    let all = [series(BEFORE, before), series(NOW, now), series(USED, used)];
    html! {
        figure {
            figcaption { (resource) }
            div.scroll tabindex="0" role="region" aria-label={ (resource) " over time" } {
                @if let Some(plot) = timeline(&all, unit_name, &format!("{resource} over time"), &description) { (plot) }
            }
        }
    }
}
