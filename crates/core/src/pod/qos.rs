//! QoS class Guaranteed, as the kubelet and the API server define it.

use plimsoll_quantity::Quantity;

use crate::pod::{Members, PodView, Resources};

/// Whether every container (or the pod as a whole, where it has pod-level resources) has limits of
/// CPU and memory and requests equal to them.
pub fn is_guaranteed(pod: &PodView<'_>) -> bool {
    if pod.pod_level.requests.is_some() || pod.pod_level.limits.is_some() {
        return guaranteed(&pod.pod_level);
    }
    !pod.containers.is_empty() && pod.containers.iter().all(|container| guaranteed(&container.resources))
}

fn guaranteed(resources: &Resources<'_>) -> bool {
    ["cpu", "memory"].iter().all(|name| {
        let limit = amount(resources.limits, name);
        // A request that is absent is set to the limit by the API server.
        let request = amount(resources.requests, name).or_else(|| limit.clone());
        matches!((limit, request), (Some(limit), Some(request)) if limit.is_positive() && limit == request)
    })
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
        ] {
            let pod = json!({"metadata": {}, "spec": spec});
            let pod = Pruned::of(&pod);
            assert_eq!(is_guaranteed(&PodView::read(&pod).unwrap()), expected, "{rule}");
        }
    }
}
