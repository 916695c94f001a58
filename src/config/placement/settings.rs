//! How nodes are scored, as `plimsoll_core::placement` takes it.

use std::sync::Arc;

use plimsoll_core::placement::{
    ByResource, FilterSettings, Flood, FloodForm, HotSpot, HotSpotForm, LoadSettings, Metric, NodeResource,
    PointsForm, Policies, Settings, Window,
};
use serde_json::Value;

use crate::config::check::Check;
use crate::config::checked::{HOUR, MINUTE, SECOND};
use crate::config::raw::{RawFilter, RawFlood, RawHotSpot, RawPlacement, RawPlacementLoad};
use crate::config::units;

/// More windows than anybody wants to ask for.
const MOST_WINDOWS: usize = 10;

pub(super) fn check(check: &mut Check<'_>, raw: &RawPlacement) -> Settings {
    let forms = [("spread", PointsForm::Spread), ("absolute", PointsForm::Absolute)];
    Settings {
        policies: policies(check, &raw.policies),
        points: check.choice("placement.points", &raw.points, &forms, PointsForm::Spread),
        replica_penalty: number(check, "placement.replicaPenalty", &raw.replica_penalty, 0, 10),
        load: load(check, &raw.load),
        default_weights: default_weights(check, &raw.weights),
        hot_spot: hot_spot(check, &raw.hot_spot),
        flood: flood(check, &raw.flood),
        filter: filter(check, &raw.filter),
    }
}

fn policies(check: &mut Check<'_>, value: &Value) -> Policies {
    type Field = fn(&mut Policies) -> &mut f64;
    let weights = check.weights("placement.policies", value, false, |name| {
        let field: Field = match name {
            "load" => |policies| &mut policies.load,
            "weights" => |policies| &mut policies.weights,
            "overcommit-risk" => |policies| &mut policies.overcommit_risk,
            _ => return Err(unknown("a policy", ["load", "weights", "overcommit-risk"])),
        };
        Ok(field)
    });
    let mut policies = Policies { load: 0.0, weights: 0.0, overcommit_risk: 0.0 };
    for (field, weight) in weights {
        *field(&mut policies) = weight;
    }
    policies
}

fn load(check: &mut Check<'_>, raw: &RawPlacementLoad) -> LoadSettings {
    let metrics = check.weights("placement.load.metrics", &raw.metrics, false, |name| {
        Metric::from_name(name).ok_or_else(|| unknown("a metric", Metric::ALL.map(Metric::name)))
    });
    LoadSettings {
        windows: windows(check, &raw.windows),
        metrics: in_order(metrics),
        missing: check.number("placement.load.missing", &raw.missing, 0.0..=1.0),
        maximum_age: LoadSettings::default().maximum_age,
    }
}

fn windows(check: &mut Check<'_>, value: &Value) -> Vec<Window> {
    const PATH: &str = "placement.load.windows";
    let longest = 90 * 24 * HOUR;
    let noted = check.count_noted();
    let found = check.weights(PATH, value, false, |name| {
        let length = units::duration(name).filter(|length| (MINUTE..=longest).contains(length));
        let whole = length.filter(|length| length.subsec_millis() == 0);
        whole.map(|length| (Arc::from(name), length.as_secs())).ok_or_else(|| {
            format!("{name:?} is not the length of a window; write a duration from 1m to 90d, as in 15m")
        })
    });
    let mut windows: Vec<_> = found
        .into_iter()
        .map(|((name, seconds), weight): ((Arc<str>, u64), f64)| Window {
            name,
            seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
            weight,
        })
        .collect();
    windows.sort_by_key(|window| window.seconds);
    if check.count_noted() > noted {
        return windows;
    }
    for (shorter, longer) in windows.iter().zip(windows.iter().skip(1)) {
        if shorter.seconds == longer.seconds {
            let message = format!("{} is as long as {}; leave one out", longer.name, shorter.name);
            check.refuse(&format!("{PATH}.{}", longer.name), message);
        }
    }
    if windows.len() > MOST_WINDOWS {
        check.refuse(PATH, format!("has {} windows; {MOST_WINDOWS} are the most", windows.len()));
    }
    windows
}

fn default_weights(check: &mut Check<'_>, value: &Value) -> ByResource<f64> {
    let weights = check.weights("placement.weights", value, true, |name| {
        let known = NodeResource::ALL.map(NodeResource::name);
        NodeResource::from_name(name).ok_or_else(|| unknown("a resource", known))
    });
    let mut by_resource = ByResource::all(if weights.is_empty() { 1.0 } else { 0.0 });
    for (resource, weight) in weights {
        by_resource.set(resource, weight);
    }
    by_resource
}

fn hot_spot(check: &mut Check<'_>, raw: &RawHotSpot) -> HotSpot {
    let forms = [("step", HotSpotForm::Step), ("linear", HotSpotForm::Linear)];
    HotSpot {
        window: seconds(check, "placement.hotSpot.window", &raw.window, 1),
        bindings: number(check, "placement.hotSpot.bindings", &raw.bindings, 1, 100_000),
        form: check.choice("placement.hotSpot.form", &raw.form, &forms, HotSpotForm::Step),
        penalty: check.number("placement.hotSpot.penalty", &raw.penalty, 0.0..=100.0),
    }
}

fn flood(check: &mut Check<'_>, raw: &RawFlood) -> Flood {
    let forms = [("buffer", FloodForm::Buffer), ("fuse", FloodForm::Fuse)];
    Flood {
        pending: number(check, "placement.flood.pendingPods", &raw.pending_pods, 0, 1_000_000),
        window: seconds(check, "placement.flood.window", &raw.window, 1),
        node_lost: seconds(check, "placement.flood.nodeLost", &raw.node_lost, 0),
        form: check.choice("placement.flood.form", &raw.form, &forms, FloodForm::Buffer),
    }
}

fn filter(check: &mut Check<'_>, raw: &RawFilter) -> FilterSettings {
    FilterSettings {
        cpu: check.number("placement.filter.cpu", &raw.cpu, 0.0..=1.0),
        memory: check.number("placement.filter.memory", &raw.memory, 0.0..=1.0),
    }
}

/// A duration of at most an hour, in whole seconds.
fn seconds(check: &mut Check<'_>, path: &str, value: &Value, least: u32) -> i64 {
    let noted = check.count_noted();
    let duration = check.duration(path, value, least * SECOND..=HOUR);
    if check.count_noted() == noted && duration.subsec_millis() != 0 {
        check.refuse(path, "is not in whole seconds");
    }
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

fn number(check: &mut Check<'_>, path: &str, value: &Value, least: u64, most: u64) -> u32 {
    u32::try_from(check.count(path, value, least..=most)).unwrap_or(u32::MAX)
}

/// Metrics in the order in which they are documented.
fn in_order(mut metrics: Vec<(Metric, f64)>) -> Vec<(Metric, f64)> {
    metrics.sort_by_key(|(metric, _)| *metric);
    metrics
}

fn unknown<const N: usize>(what: &str, known: [&str; N]) -> String {
    format!("is not {what}; {} are known", known.join(", "))
}
