//! `custom.metrics.k8s.io` and `external.metrics.k8s.io`: usage in percent of what it is meant against.
//!
//! A pod's value is `100 * usage * pods / sum(bases)`, so that the mean over the pods, which is what the controller makes
//! of it, is the ratio of the sums. Where there is nothing to tell, that is said; it is never 0.

use std::sync::Arc;

use plimsoll_core::admission::Context;
use plimsoll_core::hpa::{MetricKey, Shape, base, percent, standing};
use plimsoll_core::pod::topmost_owner;
use plimsoll_quantity::{Format, Quantity};
use serde_json::{Value, json};

use super::answer::{Answer, Refusal};
use super::percent::parameter;
use super::percent_metric::PercentMetric;
use super::resources::{Resources, by_labels};
use super::route::{CUSTOM, CustomVersion, EXTERNAL};
use super::usage::{Pod, PodUsage};

/// A pod that has both usage and a base.
struct Found<'a> {
    pod: Pod<'a>,
    usage: i128,
}

/// Such pods, and the sum of their bases.
struct Sum<'a> {
    pods: Vec<Found<'a>>,
    bases: i128,
}

impl Resources {
    /// A metric of pods.
    pub(super) async fn pod_metric(
        &self,
        version: CustomVersion,
        namespace: &str,
        name: Option<&str>,
        metric: &str,
        query: Option<&str>,
    ) -> Result<Answer, Refusal> {
        let metric = known(metric)?;
        if parameter(query, "metricLabelSelector").is_some_and(|selector| !selector.is_empty()) {
            let message = format!("{} has no labels; leave out metric.selector", metric.name());
            return Err(Refusal::bad_request(message));
        }
        self.check_complete()?;
        let selector = parameter(query, "labelSelector").filter(|_| name.is_none());
        let usage = self.pods(namespace, name, by_labels(selector.as_deref()).as_deref()).await?;
        let found = match usage {
            Ok(found) => found,
            Err(answer) => return Ok(answer),
        };
        let sum = self.sum(namespace, metric, &found.pods, |_, _| true)?;
        let count = u64::try_from(sum.pods.len()).unwrap_or(u64::MAX);
        let mut items = Vec::with_capacity(sum.pods.len());
        for Found { pod, usage } in &sum.pods {
            let value = value(*usage, count, sum.bases, metric)?;
            items.push(pod_item(version, namespace, metric, pod, &value));
        }
        Ok(Answer::object(&json!({
            "kind": "MetricValueList", "apiVersion": format!("{CUSTOM}/{}", version.name()), "metadata": {},
            "items": items,
        })))
    }

    /// A metric of a workload.
    pub(super) async fn workload_metric(
        &self,
        namespace: &str,
        metric: &str,
        query: Option<&str>,
    ) -> Result<Answer, Refusal> {
        let metric = known(metric)?;
        let selector = parameter(query, "labelSelector").unwrap_or_default();
        let wanted = Wanted::read(&selector).map_err(Refusal::bad_request)?;
        self.check_complete()?;
        let found = match self.pods(namespace, None, None).await? {
            Ok(found) => found,
            Err(answer) => return Ok(answer),
        };
        let mut kinds = Vec::new();
        let sum = self.sum(namespace, metric, &found.pods, |shape, context| {
            let Ok(view) = shape.view() else { return false };
            let owner = topmost_owner(&view, namespace, context.objects);
            let is_it = wanted.is(&owner.kind, &owner.name);
            if is_it && !kinds.contains(&owner.kind) {
                kinds.push(owner.kind);
            }
            is_it
        })?;
        let [kind] = kinds.as_slice() else {
            let message = format!(
                "{} is the name of a {} in namespace {namespace}; add kind=KIND to the selector",
                wanted.name,
                kinds.join(" and of a ")
            );
            return Err(Refusal::bad_request(message));
        };
        let total = sum.pods.iter().try_fold(0_i128, |total, found| total.checked_add(found.usage));
        let total = total.ok_or_else(|| beyond(metric))?;
        let value = value(total, 1, sum.bases, metric)?;
        // The controller looks at the time only to show it: the oldest says what can be relied on.
        let times = || sum.pods.iter().map(|found| found.pod.time());
        let mut item = json!({
            "metricName": metric.name(), "metricLabels": {"workload": wanted.name, "kind": kind},
            "timestamp": times().filter_map(|(time, _)| time).min(), "value": value,
        });
        if let (Some(window), Some(item)) =
            (times().filter_map(|(_, window)| window).max(), item.as_object_mut())
        {
            item.insert("window".to_owned(), json!(window));
        }
        Ok(Answer::object(&json!({
            "kind": "ExternalMetricValueList", "apiVersion": format!("{EXTERNAL}/v1beta1"), "metadata": {},
            "items": [item],
        })))
    }

    /// The pods that count and have both usage and a base. There is at least one.
    fn sum<'a>(
        &self,
        namespace: &str,
        metric: PercentMetric,
        usage: &'a PodUsage,
        mut is_wanted: impl FnMut(&Arc<Shape>, &Context<'_>) -> bool,
    ) -> Result<Sum<'a>, Refusal> {
        let key = MetricKey::pod(metric.resource());
        let mut sum = Sum { pods: Vec::new(), bases: 0 };
        self.world.decide(|context| {
            for pod in usage.pods() {
                let known = self.world.pods.pod(namespace, pod.name).filter(|known| known.counts);
                let Some(shape) = known.map(|known| known.shape) else { continue };
                if !is_wanted(&shape, context) {
                    continue;
                }
                let Some(used) = pod.usage(metric.resource()) else { continue };
                let stand = standing(&shape, namespace, context);
                // One pod without a base would shift the mean of all: then there is none.
                let base = base(&shape, &key, stand.basis)
                    .map_err(|error| Refusal::no_data(format!("pod {}: {error}", pod.name)))?;
                sum.bases = sum.bases.checked_add(base).ok_or_else(|| beyond(metric))?;
                sum.pods.push(Found { pod, usage: used });
            }
            Ok::<_, Refusal>(())
        })?;
        if sum.pods.is_empty() {
            let message =
                format!("no usage of {} is known of these pods in namespace {namespace}", metric.resource());
            return Err(Refusal::no_data(message));
        }
        Ok(sum)
    }
}

fn known(metric: &str) -> Result<PercentMetric, Refusal> {
    PercentMetric::of(metric).ok_or_else(|| {
        let names = PercentMetric::ALL.map(PercentMetric::name).join(" and ");
        Refusal::no_data(format!("there is no metric {metric:.100}; there are {names}"))
    })
}

fn beyond(metric: PercentMetric) -> Refusal {
    Refusal::unavailable(format!("the figures of {} are beyond all quantities", metric.resource()))
}

fn value(usage: i128, pods: u64, bases: i128, metric: PercentMetric) -> Result<String, Refusal> {
    let value = percent(usage, pods, bases);
    let value =
        value.ok_or_else(|| Refusal::no_data(format!("what {} is meant against is 0", metric.resource())))?;
    Ok(Quantity::from_nanos(value, Format::DecimalSi).to_string())
}

fn pod_item(
    version: CustomVersion,
    namespace: &str,
    metric: PercentMetric,
    pod: &Pod<'_>,
    value: &str,
) -> Value {
    let (time, window) = pod.time();
    let mut item = json!({
        "describedObject": {"kind": "Pod", "namespace": namespace, "name": pod.name, "apiVersion": "/v1"},
        "timestamp": time, "value": value,
    });
    let (named, window_key) = match version {
        CustomVersion::V1Beta1 => (("metricName", json!(metric.name())), "window"),
        CustomVersion::V1Beta2 => {
            (("metric", json!({"name": metric.name(), "selector": null})), "windowSeconds")
        }
    };
    if let Some(item) = item.as_object_mut() {
        item.insert(named.0.to_owned(), named.1);
        if version == CustomVersion::V1Beta1 {
            item.insert("selector".to_owned(), Value::Null);
        }
        if let Some(window) = window {
            item.insert(window_key.to_owned(), json!(window));
        }
    }
    item
}

/// Which workload a selector names.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    name: String,
    kind: Option<String>,
}

impl Wanted {
    fn read(selector: &str) -> Result<Self, String> {
        let wrong = |found: &str| {
            format!("labelSelector has {found:.100}; workload=NAME, or workload=NAME,kind=KIND, is right")
        };
        let (mut name, mut kind) = (None, None);
        for part in selector.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| wrong(part))?;
            let value = value.strip_prefix('=').unwrap_or(value).trim();
            let place = match key.trim() {
                "workload" => &mut name,
                "kind" => &mut kind,
                _ => return Err(wrong(part)),
            };
            if value.is_empty() || place.replace(value.to_owned()).is_some() {
                return Err(wrong(part));
            }
        }
        Ok(Self { name: name.ok_or_else(|| wrong("no workload"))?, kind })
    }

    fn is(&self, kind: &str, name: &str) -> bool {
        name == self.name && self.kind.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_name_a_workload() {
        let wanted = |name: &str, kind: Option<&str>| {
            Ok(Wanted { name: name.to_owned(), kind: kind.map(str::to_owned) })
        };
        for (selector, expected) in [
            ("workload=web", wanted("web", None)),
            ("workload==web, kind=Deployment", wanted("web", Some("Deployment"))),
            ("kind=StatefulSet,workload=db", wanted("db", Some("StatefulSet"))),
        ] {
            assert_eq!(Wanted::read(selector), expected, "{selector}");
        }
        for bad in [
            "",
            "kind=Deployment",
            "workload=",
            "workload=a,workload=b",
            "workload!=a",
            "app=web",
            "workload in (a)",
        ] {
            let error = Wanted::read(bad).unwrap_err();
            assert!(error.contains("workload=NAME"), "{bad}: {error}");
        }
        let web = Wanted::read("workload=web,kind=deployment").unwrap();
        assert!(web.is("Deployment", "web") && !web.is("StatefulSet", "web") && !web.is("Deployment", "db"));
    }
}
