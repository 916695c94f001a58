//! The histograms in a checkpoint, with the percentile that is the target.

use std::sync::Arc;

use maud::{Markup, html};
use plimsoll_core::objects::Recommendation;
use plimsoll_core::profile::from_spec;
use plimsoll_core::resource::Resource;
use plimsoll_core::usage::{Aggregate, Checkpoint, Model};
use plimsoll_quantity::Quantity;
use serde_json::{Value, json};

use super::super::View;
use super::super::format::{bytes, count, foreign, number, units, visible};
use super::super::layout::nothing;
use super::super::plot::{Bars, histogram};
use super::Read;

/// So many containers are drawn.
const MOST: usize = 8;
const MIB: f64 = 1_048_576.0;

pub(super) fn all(view: &View<'_>, found: &[Arc<Recommendation>], read: &Read) -> Markup {
    let checkpoint = match &read.checkpoint {
        Some(Ok(Some(checkpoint))) => checkpoint,
        Some(Ok(None)) => {
            return nothing(
                "There is no checkpoint of its usage: the recommender writes one some minutes after it saw the first pod.",
            );
        }
        Some(Err(why)) => return nothing(&format!("Its checkpoint cannot be read: {why}")),
        None => return nothing("Without a cluster there are no checkpoints of usage."),
    };
    let model = match model(view, found) {
        Ok(model) => model,
        Err(why) => return nothing(&why),
    };
    let containers = checkpoint
        .pointer("/spec/containers")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    if containers.is_empty() {
        return nothing("Its checkpoint holds no usage.");
    }
    html! {
        p.taken {
            "How often how much was used by a container at a time: old samples count less and less. The percentile is the target of the recommendation."
        }
        p.legend {
            span { span.key.used {} "samples" }
            span { span.key.target {} "the percentile" }
            span { span.key.now {} "requested now by a pod that runs (dashed)" }
        }
        @for container in containers.iter().take(MOST) { (one(container, &model, read)) }
        @if containers.len() > MOST { p { "and " (count(containers.len() - MOST)) " more containers" } }
    }
}

/// By which percentile and half-life: as the profile of the recommendation says.
fn model(view: &View<'_>, found: &[Arc<Recommendation>]) -> Result<Model, String> {
    let objects = view.known.objects.load();
    let named = found.first().map(|found| found.profile.as_str());
    let profile = objects.profiles().iter().find(|profile| Some(profile.name.as_str()) == named);
    let model = if let Some(profile) = profile {
        Model::from_policy(&profile.dynamic)
    } else {
        // What a profile has that says nothing.
        let plain = from_spec("none", &json!({"mode": "Dynamic"}));
        let plain = plain.map_err(|problems| plimsoll_core::problem::join(&problems))?;
        Model::from_policy(&plain.dynamic)
    };
    model.map_err(|error| error.to_string())
}

fn one(container: &Value, model: &Model, read: &Read) -> Markup {
    let text = |key: &str| container.get(key).and_then(Value::as_str).unwrap_or_default();
    let (name, pod) = (text("name"), text("pod"));
    let loaded = serde_json::from_value::<Checkpoint>(container.clone())
        .map_err(|error| error.to_string())
        .and_then(|checkpoint| checkpoint.load(model).map_err(|error| error.to_string()));
    html! {
        h3 { "Container " (foreign(name)) @if !pod.is_empty() { " of pod " (foreign(pod)) } }
        @match loaded {
            Err(why) => { (nothing(&format!("Its usage cannot be read: {why}"))) }
            Ok(aggregate) => {
                p.taken { (count(aggregate.samples())) " samples" }
                div.plots {
                    @for resource in [Resource::Cpu, Resource::Memory] { (drawn(&aggregate, model, resource, name, read)) }
                }
            }
        }
    }
}

fn drawn(aggregate: &Aggregate, model: &Model, resource: Resource, name: &str, read: &Read) -> Markup {
    let Some((settings, buckets)) = model.of(resource) else { return Markup::default() };
    let weights: Vec<(usize, f64)> =
        aggregate.histogram(resource).map(|all| all.weights().collect()).unwrap_or_default();
    let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let what = if resource == Resource::Cpu { "CPU" } else { "Memory" };
    let target = aggregate.percentile(model, resource, settings.percentile);
    let Some(target) = target.filter(|_| total > 0.0) else {
        return html! { figure { figcaption { (what) } (nothing("No sample is remembered.")) } };
    };
    let shown = |value: f64| {
        if resource == Resource::Cpu { format!("{} cores", number(value)) } else { bytes(value) }
    };
    let request = requested(read, name, resource);
    let bars = Bars {
        buckets: weights
            .iter()
            .map(|(n, weight)| (buckets.start(*n), buckets.end(*n), weight / total))
            .collect(),
        target: Some(target),
        request,
        unit: if resource == Resource::Cpu { 1.0 } else { MIB },
        name: if resource == Resource::Cpu { "cores" } else { "MiB" },
    };
    let words = format!("The {}th percentile is {}.", settings.percentile, shown(target));
    let now = request.map(|request| format!(" Requested now: {}.", shown(request))).unwrap_or_default();
    let title = format!("{what} usage of container {}", visible(name));
    html! {
        figure {
            figcaption { (what) ": " (words) (now) }
            div.scroll tabindex="0" role="region" aria-label=(title) {
                @if let Some(plot) = histogram(&bars, &title, &format!("{words}{now}")) { (plot) }
            }
        }
    }
}

/// What the container of the pod that was read requests.
fn requested(read: &Read, name: &str, resource: Resource) -> Option<f64> {
    let Some(Ok(Some(pod))) = &read.pod else { return None };
    let lists =
        ["/spec/containers", "/spec/initContainers"].map(|list| pod.pointer(list).and_then(Value::as_array));
    let mut all = lists.into_iter().flatten().flatten();
    let container = all.find(|container| container.get("name").and_then(Value::as_str) == Some(name))?;
    let text = container.pointer(&format!("/resources/requests/{}", resource.name()))?.as_str()?;
    Some(units(Quantity::parse(text).ok()?.nanos()))
}
