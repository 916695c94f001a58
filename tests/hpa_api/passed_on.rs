//! What everybody is told: the true values, or that there are none.

use std::time::Duration;

use serde_json::json;

use crate::server::{Asked, Reply};
use crate::support::{OUR_TOKEN, Running, Setup, pod_metrics};
use crate::tls::Authority;

type Upstream = fn(&Asked) -> Reply;

const PODS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods";

fn setup() -> Setup {
    Setup::new(&Authority::new())
}

#[tokio::test]
async fn byte_for_byte() {
    let table = "{ \"kind\":\"Table\",\n  \"rows\": [ ] }\n";
    let running = Running::with(move |asked: &Asked| match asked.path.as_str() {
        "/apis/metrics.k8s.io/v1beta1/nodes/gone" => Reply::Answer(
            404,
            vec![("content-type", "application/vnd.x".to_owned())],
            "{\"code\": 404 }".to_owned(),
        ),
        "/apis/metrics.k8s.io/v1beta1/pods" => Reply::status(500, "not even JSON\u{e9}"),
        _ => Reply::Answer(
            200,
            vec![("content-type", "application/json;as=Table".to_owned())],
            table.to_owned(),
        ),
    })
    .await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let mut connection = running.connect(None).await;
    let headers: &[(&str, &str)] = &[
        ("authorization", "Bearer alice"),
        ("accept", accept),
        ("x-remote-user", "root"),
        ("accept-encoding", "gzip"),
    ];
    let path = format!(
        "{PODS}?labelSelector=app%3Dweb%2Ctier%20in%20(a,b)&fieldSelector=metadata.name%3Dx&limit=500"
    );
    let answer = connection.get(&path, headers).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, table));
    assert_eq!(answer.content_type.as_deref(), Some("application/json;as=Table"));
    assert!(answer.server.as_deref().unwrap().starts_with("plimsoll/"), "{answer:?}");
    let asked = running.upstream.asked();
    let [asked] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(asked.path, PODS);
    let given = ["labelSelector", "fieldSelector", "limit"].map(|name| asked.get(name));
    assert_eq!(given, ["app=web,tier in (a,b)", "metadata.name=x", "500"]);
    assert_eq!(asked.headers["accept"], accept);
    assert_eq!(asked.headers["authorization"], format!("Bearer {OUR_TOKEN}"), "never that of whoever asks");
    assert!(!asked.headers.contains_key("x-remote-user"), "{:?}", asked.headers);
    assert!(!asked.headers.contains_key("accept-encoding"), "{:?}", asked.headers);

    let answer = running.get("alice", "/apis/metrics.k8s.io/v1beta1/nodes/gone").await;
    assert_eq!((answer.status, answer.body.as_str()), (404, "{\"code\": 404 }"));
    assert_eq!(answer.content_type.as_deref(), Some("application/vnd.x"));
    let answer = running.get("alice", "/apis/metrics.k8s.io/v1beta1/pods").await;
    assert_eq!(
        (answer.status, answer.body.as_str(), answer.content_type),
        (500, "not even JSON\u{e9}", None)
    );
    let series =
        |outcome: &str| format!("plimsoll_hpa_api_requests_total{{group=\"metrics\",outcome=\"{outcome}\"}}");
    assert_eq!((running.metric(&series("ok")), running.metric(&series("upstream"))), (1, 2));
    running.stop().await;
}

#[tokio::test]
async fn the_groups_have_resources() {
    let running = Running::with(|_: &Asked| Reply::ok("{}")).await;
    let answer = running.get("alice", "/apis/metrics.k8s.io/v1beta1").await;
    assert_eq!(
        answer.json(),
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1", "resources": [
            {"name": "nodes", "singularName": "", "namespaced": false, "kind": "NodeMetrics", "verbs": ["get", "list"]},
            {"name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics", "verbs": ["get", "list"]},
        ]})
    );
    for version in ["v1beta1", "v1beta2"] {
        let answer = running.get("alice", &format!("/apis/custom.metrics.k8s.io/{version}")).await.json();
        assert_eq!(answer["groupVersion"], format!("custom.metrics.k8s.io/{version}"));
        assert_eq!(
            answer["resources"][0],
            json!({"name": "pods/plimsoll_cpu_percent", "singularName": "", "namespaced": true,
                "kind": "MetricValueList", "verbs": ["get"]})
        );
        assert_eq!(answer["resources"][1]["name"], "pods/plimsoll_memory_percent");
    }
    let answer = running.get("alice", "/apis/external.metrics.k8s.io/v1beta1").await.json();
    assert_eq!(answer["resources"][1]["kind"], "ExternalMetricValueList");
    assert!(
        running.upstream.asked().is_empty(),
        "whether the group is there does not depend on metrics-server"
    );
    running.stop().await;
}

#[tokio::test]
async fn what_there_is_not() {
    let mut only_metrics = setup();
    only_metrics.served.external = false;
    let running = Running::start(only_metrics, |_: &Asked| Reply::ok("{}")).await;
    let mut connection = running.connect(None).await;
    let headers: &[(&str, &str)] = &[("authorization", "Bearer alice")];
    for (rule, method, path, status) in [
        ("groups", "GET", "/apis", 404),
        ("OpenAPI", "GET", "/openapi/v2", 404),
        ("OpenAPI", "GET", "/openapi/v3", 404),
        ("the root", "GET", "/", 404),
        ("another resource", "GET", "/apis/metrics.k8s.io/v1beta1/services", 404),
        ("off", "GET", "/apis/custom.metrics.k8s.io/v1beta2", 404),
        ("off", "GET", "/apis/external.metrics.k8s.io/v1beta1", 404),
        ("delete", "DELETE", PODS, 405),
        ("create", "POST", PODS, 405),
        ("watch", "GET", &format!("{PODS}?watch=true"), 405),
    ] {
        let answer = connection.send(method, path, headers).await;
        assert_eq!(answer.status, status, "{rule}: {answer:?}");
        answer.refusal();
    }
    for (path, status) in [("/apis", 404), ("/apis/custom.metrics.k8s.io/v1beta2", 404), (PODS, 401)] {
        let answer = connection.send("GET", path, &[]).await;
        assert_eq!(answer.status, status, "{path}: who is not known is told only what is not there");
    }
    assert!(running.upstream.asked().is_empty());
    running.stop().await;
}

#[tokio::test]
async fn without_true_values_there_is_no_answer() {
    let cases: Vec<(&str, Setup, Upstream, &str, &str)> = vec![
        (
            "slow",
            Setup { upstream_timeout: Duration::from_millis(50), ..setup() },
            |_| Reply::Hang,
            "did not answer within 50ms",
            "timeout",
        ),
        ("cut off", setup(), |_| Reply::CutOff("{\"kind\":".to_owned()), "cannot be asked", "no_answer"),
        (
            "another authority",
            Setup { wrong_ca: true, ..setup() },
            |_| Reply::ok("{}"),
            "invalid peer certificate",
            "no_answer",
        ),
        (
            "unknown to it",
            setup(),
            |_| Reply::status(401, "{\"message\": \"Unauthorized\"}"),
            "refuses our own credentials (401 Unauthorized): Unauthorized;",
            "credentials",
        ),
        (
            "without rights",
            setup(),
            |_| Reply::status(403, "no"),
            "needs get and list on pods and nodes",
            "credentials",
        ),
        ("elsewhere", setup(), |_| Reply::status(302, ""), "must be its Service", "bad_answer"),
        (
            "too large",
            {
                let mut small = setup();
                small.options.body_memory = 1 << 20;
                small
            },
            |_| Reply::ok(" ".repeat(2 << 20)),
            "no memory",
            "too_large",
        ),
    ];
    for (rule, setup, upstream, said, reason) in cases {
        let running = Running::start(setup, upstream).await;
        let answer = running.get("alice", PODS).await;
        assert_eq!(answer.status, 503, "{rule}: {answer:?}");
        assert!(answer.refusal().contains(said), "{rule}: {}", answer.refusal());
        assert!(!answer.body.contains(OUR_TOKEN));
        assert_eq!(answer.json()["reason"], "ServiceUnavailable");
        let series = format!("plimsoll_hpa_api_upstream_errors_total{{reason=\"{reason}\"}}");
        assert_eq!(running.metric(&series), 1, "{rule}");
        running.stop().await;
    }
}

#[tokio::test]
async fn memory_of_answers_is_given_back() {
    let mut small = setup();
    small.options.body_memory = 1 << 20;
    let body = " ".repeat(700 << 10);
    let running = Running::start(small, move |_: &Asked| Reply::ok(body.clone())).await;
    for _ in 0..5 {
        assert_eq!(running.get("alice", PODS).await.status, 200);
    }
    running.stop().await;
}

#[tokio::test]
async fn its_certificate_need_not_be_checked() {
    let running = Running::start(Setup { skip_verify: true, ..setup() }, |_: &Asked| Reply::ok("{}")).await;
    assert_eq!(running.get("alice", PODS).await.status, 200);
    running.stop().await;
}

#[tokio::test]
async fn too_many_are_told_to_try_again() {
    let mut one = setup();
    one.options.concurrency = 1;
    one.options.queue_deadline = Duration::from_millis(10);
    let running = Running::start(one, |asked: &Asked| {
        if asked.path.ends_with("/pods") { Reply::Hang } else { Reply::ok(pod_metrics(&[]).to_string()) }
    })
    .await;
    let mut hanging = running.connect(None).await;
    let headers: &[(&str, &str)] = &[("authorization", "Bearer alice")];
    tokio::select! {
        answer = hanging.get(PODS, headers) => panic!("{answer:?}"),
        () = async {
            let mut connection = running.connect(None).await;
            // Until the first one has the only slot.
            while connection.get("/apis/metrics.k8s.io/v1beta1/nodes", headers).await.status != 429 {}
            let discovery = connection.get("/apis/metrics.k8s.io/v1beta1", headers).await;
            assert_eq!(discovery.status, 200, "which resources there are does not wait for metrics-server");
        } => {}
    }
    drop(hanging);
    let mut connection = running.connect(None).await;
    while connection.get("/apis/metrics.k8s.io/v1beta1/nodes", headers).await.status != 200 {}
    running.stop().await;
}
