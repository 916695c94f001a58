//! Requests and usage of a workload over the time that somebody looks.

use maud::{Markup, html};
use plimsoll_core::placement::WorkloadKey;
use plotters::style::RGBColor;

use super::super::View;
use super::super::format::{moment, number};
use super::super::plot::{Series, timeline};
use crate::survey::Point;

/// What the style sheet replaces.
const BEFORE: RGBColor = RGBColor(120, 120, 120);
const NOW: RGBColor = RGBColor(0, 114, 178);
const USED: RGBColor = RGBColor(0, 158, 115);

const GIB: f64 = 1_073_741_824.0;

pub(super) fn plots(view: &View<'_>, key: &WorkloadKey) -> Markup {
    let points = view.known.surveys.as_ref().map(|surveys| surveys.history(key)).unwrap_or_default();
    let Some((first, last)) = points.first().zip(points.last()) else { return Markup::default() };
    html! {
        h3 { "Over time" }
        p.taken {
            "Since somebody began to look at these pages, " (moment(first.at, view.now)) ", a point every 30 s ("
            (points.len()) " so far). An hour is kept; what was before that, your monitoring knows."
        }
        p.legend {
            span { span.key.before {} "requested before (dotted)" }
            span { span.key.now {} "requested now (dashed)" }
            span { span.key.used {} "really used" }
        }
        div.plots {
            (plot(&points, 0, 1.0, "cores", "CPU", last))
            (plot(&points, 1, GIB, "GiB", "Memory", last))
        }
    }
}

fn plot(points: &[Point], index: usize, unit: f64, unit_name: &str, resource: &str, last: &Point) -> Markup {
    let value = |pair: &[f32; 2]| f64::from(pair.get(index).copied().unwrap_or_default()) / unit;
    let used = |point: &Point| Some(f64::from((*point.used.get(index)?)?) / unit);
    let series = |colour, of: &dyn Fn(&Point) -> Option<f64>| Series {
        colour,
        points: points.iter().filter_map(|point| Some((point.at, of(point)?))).collect(),
    };
    let all = [
        series(BEFORE, &|point| Some(value(&point.before))),
        series(NOW, &|point| Some(value(&point.now))),
        series(USED, &used),
    ];
    let used = used(last).map_or_else(|| "not measured".to_owned(), number);
    let description = format!(
        "At the end {} {unit_name} requested before, {} requested now, {used} used.",
        number(value(&last.before)),
        number(value(&last.now))
    );
    html! {
        figure {
            figcaption { (resource) }
            div.scroll tabindex="0" role="region" aria-label={ (resource) " over time" } {
                @if let Some(plot) = timeline(&all, unit_name, &format!("{resource} over time"), &description) { (plot) }
            }
        }
    }
}
