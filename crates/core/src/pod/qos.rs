//! QoS class Guaranteed, as the kubelet and the API server define it.

use plimsoll_quantity::{Format, Quantity};

use crate::pod::{Members, PodView, Resources, aggregate, requests_any};

/// Whether every container (or the pod as a whole, where it has pod-level resources) has limits of
/// CPU and memory and requests equal to them.
pub fn is_guaranteed(pod: &PodView<'_>) -> bool {
    let containers = || pod.containers.iter().map(|container| (container.part(), &container.resources));
    if pod.pod_level.requests.is_some() || pod.pod_level.limits.is_some() {
        return guaranteed(&pod.pod_level, |name| {
            // The API server sets a missing pod-level request to the containers' sum, else to the limit.
            if !requests_any(pod, name) {
                return amount(pod.pod_level.limits, name);
            }
            let requests = containers().map(|(part, resources)| (part, request(resources, name)));
            aggregate(requests.map(|(part, request)| (part, request.map_or(0, |request| request.nanos()))))
                .map(|sum| Quantity::from_nanos(sum, Format::DecimalSi))
        });
    }
    !pod.containers.is_empty()
        && containers().all(|(_, resources)| guaranteed(resources, |name| amount(resources.limits, name)))
}

/// Whether requests equal limits, where a request that is absent is what the API server sets it to.
fn guaranteed(resources: &Resources<'_>, absent: impl Fn(&str) -> Option<Quantity>) -> bool {
    ["cpu", "memory"].iter().all(|name| {
        let limit = amount(resources.limits, name);
        let request = amount(resources.requests, name).or_else(|| absent(name));
        matches!((limit, request), (Some(limit), Some(request)) if limit.is_positive() && limit == request)
    })
}

fn request(resources: &Resources<'_>, name: &str) -> Option<Quantity> {
    amount(resources.requests, name).or_else(|| amount(resources.limits, name))
}

fn amount(list: Option<&Members<'_>>, name: &str) -> Option<Quantity> {
    serde_json::from_value(list?.get(name)?.to_value()).ok()
}

#[cfg(test)]
mod tests {
    use super::is_guaranteed;
    use crate::pod::{PodView, Pruned};
    use serde_json::json;

    #[test]
    fn classes() {
        let both = |q: &str| json!({"cpu": q, "memory": "1Gi"});
        for (rule, spec, expected) in [
            (
                "requests equal limits",
                json!({"containers": [{"resources": {"requests": both("1"), "limits": both("1000m")}}]}),
                true,
            ),
            (
                "limits only: requests are defaulted",
                json!({"containers": [{"resources": {"limits": both("1")}}]}),
                true,
            ),
            (
                "request below the limit",
                json!({"containers": [{"resources": {"requests": both("500m"), "limits": both("1")}}]}),
                false,
            ),
            ("no memory limit", json!({"containers": [{"resources": {"limits": {"cpu": "1"}}}]}), false),
            ("best effort", json!({"containers": [{}]}), false),
            (
                "an init container without limits",
                json!({"containers": [{"resources": {"limits": both("1")}}], "initContainers": [{}]}),
                false,
            ),
            (
                "pod-level resources decide",
                json!({"containers": [{}], "resources": {"requests": both("1"), "limits": both("1")}}),
                true,
            ),
            (
                "a missing pod-level request is the containers' sum",
                json!({"containers": [{"resources": {"requests": both("1")}}], "resources": {"limits": both("4")}}),
                false,
            ),
            (
                "and the pod-level limit where no container names the resource",
                json!({"containers": [{}], "resources": {"limits": both("4")}}),
                true,
            ),
        ] {
            let pod = json!({"metadata": {}, "spec": spec});
            let pod = Pruned::of(&pod);
            assert_eq!(is_guaranteed(&PodView::read(&pod).unwrap()), expected, "{rule}");
        }
    }
}
