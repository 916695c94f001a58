//! What usage is divided by.

use plimsoll_core::hpa::{MetricKey, Shape, base, request};
use plimsoll_core::profile::Basis;
use plimsoll_core::resource::{MILLI, Resource, UNIT};
use serde_json::{Value, json};

use crate::world::{app, cpu, deployment, lowered, memory, of_container, pod, shape, untouched};

/// Milli-cores, or the message.
fn milli(result: Result<i128, impl ToString>) -> Result<i128, String> {
    result.map(|nanos| nanos / MILLI).map_err(|error| error.to_string())
}

fn with_record(mut pod: Value, record: &Value) -> Value {
    pod["metadata"]["annotations"] = json!({"plimsoll.dev/original-resources": record.to_string()});
    pod
}

#[test]
fn bases_of_pods() {
    let two = |second: &str| pod(&json!({"containers": [app("app", "1", "2"), app("b", second, second)]}));
    let sidecar =
        json!({"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}});
    let init = json!({"name": "init", "resources": {"requests": {"cpu": "4"}}});
    let with_inits = pod(&json!({"containers": [app("app", "1", "")], "initContainers": [init, sidecar]}));
    let lowered_sidecar = with_record(
        pod(&json!({"containers": [app("app", "500m", "2")], "initContainers": [
            {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}}]})),
        &json!({"basis": "request", "profile": "p",
            "containers": {"app": {"requests": {"cpu": "1"}, "set": {"cpu": "500m"}}},
            "initContainers": {"proxy": {"requests": {"cpu": "100m"}, "set": {"cpu": "50m"}}}}),
    );
    let pod_level = |resources: Value| {
        pod(&json!({"containers": [app("app", "200m", ""), app("b", "", "")], "resources": resources}))
    };
    let lowered_pod_level = with_record(
        pod_level(json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "2"}})),
        &json!({"basis": "request", "profile": "p", "pod": {"requests": {"cpu": "1"}, "set": {"cpu": "500m"}}}),
    );
    let mut sandboxed = pod_level(json!({"requests": {"cpu": "1"}}));
    sandboxed["spec"]["overhead"] = json!({"cpu": "250m"});
    let missing = |container: &str, what: &str| {
        Err(format!("container {container} has no cpu {what}; set it in the pod template"))
    };
    for (rule, pod, key, now, by_request, by_limit) in [
        ("nobody touched it", untouched("1", "2"), cpu(), Ok(1000), Ok(1000), Ok(2000)),
        ("lowered: the original counts", lowered("1", "500m", "2"), cpu(), Ok(500), Ok(1000), Ok(2000)),
        (
            "a recorded original is capped by the limit",
            lowered("4", "500m", "2"),
            cpu(),
            Ok(500),
            Ok(2000),
            Ok(2000),
        ),
        (
            "a request that was changed after us is the original",
            with_record(
                untouched("700m", "2"),
                &json!({"containers": {"app": {"requests": {"cpu": "1"}, "set": {"cpu": "500m"}}}}),
            ),
            cpu(),
            Ok(700),
            Ok(700),
            Ok(2000),
        ),
        ("containers add up", two("500m"), cpu(), Ok(1500), Ok(1500), Ok(2500)),
        (
            "one container without request",
            two(""),
            cpu(),
            missing("b", "request"),
            missing("b", "request"),
            missing("b", "limit"),
        ),
        ("a request of 0 is there", two("0"), cpu(), Ok(1000), Ok(1000), Ok(2000)),
        ("of one container", two(""), of_container("app", Resource::Cpu), Ok(1000), Ok(1000), Ok(2000)),
        (
            "of a container that is not there",
            two("1"),
            of_container("c", Resource::Cpu),
            Err("the pod has no container c; the metric should name one that is there".to_owned()),
            Err("the pod has no container c; the metric should name one that is there".to_owned()),
            Err("the pod has no container c; the metric should name one that is there".to_owned()),
        ),
        (
            "sidecars count, init containers do not",
            with_inits.clone(),
            cpu(),
            Ok(1100),
            Ok(1100),
            missing("app", "limit"),
        ),
        (
            "an init container is none that a metric can name",
            with_inits,
            of_container("init", Resource::Cpu),
            Err("the pod has no container init; the metric should name one that is there".to_owned()),
            Err("the pod has no container init; the metric should name one that is there".to_owned()),
            Err("the pod has no container init; the metric should name one that is there".to_owned()),
        ),
        ("lowered sidecar", lowered_sidecar.clone(), cpu(), Ok(550), Ok(1100), missing("proxy", "limit")),
        (
            "a sidecar by its name",
            lowered_sidecar,
            of_container("proxy", Resource::Cpu),
            Ok(50),
            Ok(100),
            missing("proxy", "limit"),
        ),
        (
            "the pod-level request replaces the sum, and no container needs one",
            pod_level(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}})),
            cpu(),
            Ok(1000),
            Ok(1000),
            Ok(3000),
        ),
        ("lowered pod-level request", lowered_pod_level.clone(), cpu(), Ok(500), Ok(1000), Ok(2000)),
        (
            "one container beside pod-level requests",
            lowered_pod_level,
            of_container("app", Resource::Cpu),
            Ok(200),
            Ok(200),
            missing("app", "limit"),
        ),
        (
            "overhead beside a pod-level request",
            sandboxed,
            cpu(),
            Ok(1250),
            Ok(1250),
            missing("app", "limit"),
        ),
        (
            "pod-level requests of another resource: the aggregate, whatever is missing",
            pod_level(json!({"requests": {"memory": "1Gi"}})),
            cpu(),
            Ok(200),
            Ok(200),
            missing("app", "limit"),
        ),
        (
            "pod-level limit only, request defaulted by the API server",
            pod_level(json!({"limits": {"cpu": "3"}})),
            cpu(),
            missing("b", "request"),
            missing("b", "request"),
            Ok(3000),
        ),
        (
            "no quantity",
            untouched("much", "2"),
            cpu(),
            Err("container app: \"much\" is no quantity of cpu".to_owned()),
            Err("container app: \"much\" is no quantity of cpu".to_owned()),
            Err("container app: \"much\" is no quantity of cpu".to_owned()),
        ),
    ] {
        let shape = shape(&pod);
        assert_eq!(milli(request(&shape, &key)), now, "{rule}: the controller");
        assert_eq!(milli(base(&shape, &key, Basis::Request)), by_request, "{rule}: by request");
        assert_eq!(milli(base(&shape, &key, Basis::Limit)), by_limit, "{rule}: by limit");
    }
}

#[test]
fn memory_is_in_bytes() {
    let pod = pod(&json!({"containers": [{"name": "app", "resources": {"requests": {"memory": "1Gi"}}}]}));
    assert_eq!(base(&shape(&pod), &memory(), Basis::Request), Ok(1_073_741_824 * UNIT));
}

#[test]
fn templates() {
    for (rule, workload, expected) in [
        ("a request", deployment("1", "2"), Some(1000)),
        ("limits only: the API server sets the request of the pod", deployment("", "2"), Some(2000)),
        ("no template", json!({"kind": "Foo", "spec": {}}), None),
        ("a template without containers", json!({"kind": "Foo", "spec": {"template": {"spec": {}}}}), None),
    ] {
        let template = Shape::of_template(&workload);
        let found = template.map(|shape| milli(base(&shape, &cpu(), Basis::Request)).unwrap());
        assert_eq!(found, expected, "{rule}");
    }
}

#[test]
fn pods_of_one_template_have_one_shape() {
    let (mut a, mut b) = (lowered("1", "500m", "2"), lowered("1", "500m", "2"));
    a["metadata"]["name"] = json!("web-a");
    a["status"] = json!({"phase": "Running"});
    b["metadata"]["annotations"]["kwok.x-k8s.io/usage-cpu"] = json!("100m");
    assert_eq!(shape(&a), shape(&b));
    assert_ne!(shape(&a), shape(&lowered("2", "500m", "2")), "another original");
}

#[test]
fn keys() {
    for (type_name, resource, container, expected) in [
        ("Resource", "cpu", None, Some("cpu")),
        ("Resource", "memory", Some("x"), Some("memory")),
        ("ContainerResource", "cpu", Some("app"), Some("cpu of container app")),
        ("ContainerResource", "cpu", None, None),
        ("ContainerResource", "cpu", Some(""), None),
        ("Resource", "ephemeral-storage", None, None),
        ("Pods", "cpu", None, None),
        ("External", "cpu", None, None),
    ] {
        let key = MetricKey::of(type_name, resource, container).map(|key| key.to_string());
        assert_eq!(key.as_deref(), expected, "{type_name} {resource} {container:?}");
    }
}
