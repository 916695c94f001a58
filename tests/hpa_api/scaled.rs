//! What the controller of autoscalers is told.

use serde_json::{Value, json};

use crate::server::{Asked, Reply};
use crate::support::{CONTROLLER, Running, Setup, hpa, lowered, one_pod, pod_metrics, profile, utilization};
use crate::tls::Authority;

const PODS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods";

/// `a` uses 900m of 1, lowered to 500m; `b` 100m of 2, lowered to 500m.
fn two(_: &Asked) -> Reply {
    Reply::ok(
        pod_metrics(&[("a", &[("app", "900m", "12Ki")]), ("b", &[("app", "100000000n", "3Gi")])]).to_string(),
    )
}

async fn start(
    mode: &str,
    metrics: &Value,
    upstream: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
) -> Running {
    let running = Running::with(upstream).await;
    running.put(&[profile(mode), hpa("web", metrics)]);
    running.put_pods(&[lowered("web", "a", "1", "500m"), lowered("web", "b", "2", "500m")]);
    running
}

fn usage(answer: &Value, resource: &str) -> Vec<String> {
    let items = answer["items"].as_array().unwrap();
    items.iter().map(|item| item["containers"][0]["usage"][resource].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_vector_of_the_ratio_of_sums() {
    let running = start("Shim", &json!([utilization("cpu")]), two).await;
    let path = format!("{PODS}?labelSelector=app%3Dweb");
    let answer = running.get("hpa", &path).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.content_type.as_deref(), Some("application/json"));
    let told = answer.json();
    assert_eq!(usage(&told, "cpu"), ["300m", "33333334n"]);
    assert_eq!(usage(&told, "memory"), ["12Ki", "3Gi"], "no autoscaler looks at it");
    let mut others = told.clone();
    let truth: Value = running.get("alice", &path).await.json();
    assert_eq!(usage(&truth, "cpu"), ["900m", "100000000n"], "everybody else is told the truth");
    for (index, cpu) in ["900m", "100000000n"].iter().enumerate() {
        others["items"][index]["containers"][0]["usage"]["cpu"] = json!(cpu);
    }
    assert_eq!(others, truth, "all else is the same");
    let asked = running.upstream.asked();
    assert_eq!((asked[0].get("labelSelector"), asked[0].path.as_str()), ("app=web", PODS));
    assert_eq!(asked[0].headers["accept"], "application/json", "what we can read");
    assert_eq!(running.metric("plimsoll_hpa_api_scaled_total{resource=\"cpu\",outcome=\"scaled\"}"), 1);
    assert!(running.lost.lock().unwrap().is_empty());
    running.stop().await;
}

#[tokio::test]
async fn the_front_proxy_speaks_for_the_controller() {
    let proxy = Authority::new();
    let running = Running::start(Setup::new(&proxy), two).await;
    running.put(&[profile("Shim"), hpa("web", &json!([utilization("cpu")]))]);
    running.put_pods(&[lowered("web", "a", "1", "500m"), lowered("web", "b", "2", "500m")]);
    let headers: &[(&str, &str)] = &[("x-remote-user", CONTROLLER)];
    let mut connection = running.connect(Some(&proxy.client("front-proxy-client"))).await;
    assert_eq!(usage(&connection.get(PODS, headers).await.json(), "cpu"), ["300m", "33333334n"]);
    let headers: &[(&str, &str)] =
        &[("x-remote-user", "system:serviceaccount:shop:horizontal-pod-autoscaler")];
    assert_eq!(usage(&connection.get(PODS, headers).await.json(), "cpu"), ["900m", "100000000n"]);
    let forged = running.connect(None).await.get(PODS, &[("x-remote-user", CONTROLLER)]).await;
    assert_eq!(forged.status, 401);
    running.stop().await;
}

#[tokio::test]
async fn where_nothing_is_to_be_done_the_answer_is_passed_on() {
    let body = pod_metrics(&[("a", &[("app", "900m", "12Ki")])]).to_string().replace(':', " : ");
    for (rule, mode, metrics, outcome) in [
        (
            "converted",
            "Convert",
            json!([{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "AverageValue", "averageValue": "800m"}}}]),
            "other_mode",
        ),
        ("off", "Off", json!([utilization("cpu")]), "other_mode"),
        (
            "absolute",
            "Shim",
            json!([{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "AverageValue", "averageValue": "800m"}}}]),
            "average_value",
        ),
    ] {
        let sent = body.clone();
        let running = start(mode, &metrics, move |_| Reply::ok(sent.clone())).await;
        let answer = running.get("hpa", PODS).await;
        assert_eq!((answer.status, &answer.body), (200, &body), "{rule}");
        let series = format!("plimsoll_hpa_api_scaled_total{{resource=\"cpu\",outcome=\"{outcome}\"}}");
        assert_eq!(running.metric(&series), 1, "{rule}");
        let told = running.lost.lock().unwrap().clone();
        let kept: Vec<_> = told.iter().map(|told| (told.name.as_str(), told.is_lost)).collect();
        assert_eq!(kept, if outcome == "average_value" { vec![("web", false)] } else { vec![] }, "{rule}");
        running.stop().await;
    }
}

#[tokio::test]
async fn an_autoscaler_whose_meaning_is_lost_is_told_of() {
    let average = json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "AverageValue", "averageValue": "800m"}}});
    let running = start("Shim", &json!([utilization("cpu"), average]), two).await;
    let answer = running.get("hpa", PODS).await;
    assert_eq!(usage(&answer.json(), "cpu"), ["900m", "100000000n"]);
    let lost = running.lost.lock().unwrap().clone();
    let [lost] = lost.as_slice() else { panic!("{lost:?}") };
    assert_eq!((lost.namespace.as_str(), lost.name.as_str(), lost.uid.as_str()), ("shop", "web", "hpa-web"));
    assert!(lost.is_lost && lost.why.contains("usage of cpu is not scaled, so that"), "{}", lost.why);
    running.stop().await;
}

#[tokio::test]
async fn what_is_not_known_is_refused() {
    let running = start("Shim", &json!([utilization("cpu")]), two).await;
    running.pods.0.lock().unwrap().incomplete = true;
    let answer = running.get("hpa", PODS).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.refusal().contains("not known yet"));
    assert!(running.upstream.asked().is_empty(), "in vain");
    assert_eq!(running.get("alice", PODS).await.status, 200, "the truth can be told");
    running.stop().await;

    let running = start("Shim", &json!([utilization("cpu")]), |_: &Asked| {
        Reply::ok(pod_metrics(&[("new", &[("app", "900m", "1Gi")])]).to_string())
    })
    .await;
    let answer = running.get("hpa", PODS).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.refusal().contains("none of the pods is known"), "{answer:?}");
    running.stop().await;

    // Nothing is not an error: it is what metrics-server says.
    let empty = pod_metrics(&[]).to_string();
    let sent = empty.clone();
    let running = start("Shim", &json!([utilization("cpu")]), move |_: &Asked| Reply::ok(sent.clone())).await;
    let answer = running.get("hpa", PODS).await;
    assert_eq!((answer.status, answer.body), (200, empty));
    running.stop().await;
}

#[tokio::test]
async fn pods_that_are_not_known_are_left_out_of_the_sums() {
    let running = start("Shim", &json!([utilization("cpu")]), |_: &Asked| {
        let of = |name| (name, &[("app", "900m", "1Gi")][..]);
        Reply::ok(pod_metrics(&[of("a"), of("gone"), of("ended")]).to_string())
    })
    .await;
    let mut ended = lowered("web", "ended", "8", "1");
    ended["metadata"]["deletionTimestamp"] = json!("2026-11-30T12:00:00Z");
    running.put_pods(&[ended]);
    let answer = running.get("hpa", PODS).await;
    assert_eq!(usage(&answer.json(), "cpu"), ["450m"; 3], "500m of 1");
    running.stop().await;
}

#[tokio::test]
async fn each_selector_has_its_own_factor() {
    let running = Running::with(|asked: &Asked| {
        let app = asked.get("labelSelector").strip_prefix("app=").unwrap().to_owned();
        let name = format!("{app}-0");
        Reply::ok(pod_metrics(&[(&name, &[("app", "1", "1Gi")])]).to_string())
    })
    .await;
    let mut objects = vec![profile("Shim")];
    let mut pods = Vec::new();
    for count in 1..=40 {
        let app = format!("app{count}");
        objects.push(hpa(&app, &json!([utilization("cpu")])));
        pods.push(lowered(&app, &format!("{app}-0"), "1", &format!("{}m", count * 10)));
    }
    running.put(&objects);
    running.put_pods(&pods);
    let mut connection = running.connect(None).await;
    for count in 1..=40 {
        let path = format!("{PODS}?labelSelector=app%3Dapp{count}");
        let answer = connection.get(&path, &[("authorization", "Bearer hpa")]).await;
        assert_eq!(usage(&answer.json(), "cpu"), [format!("{}m", count * 10)]);
    }
    running.stop().await;
}

#[tokio::test]
async fn one_pod_and_all_namespaces() {
    let running = start("Shim", &json!([utilization("cpu")]), |asked: &Asked| match asked.path.as_str() {
        "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/a" => {
            Reply::ok(one_pod("a", &[("app", "900m", "1Gi")]).to_string())
        }
        "/apis/metrics.k8s.io/v1beta1/pods" => Reply::ok("all of them"),
        _ => Reply::status(404, "{\"kind\":\"Status\"}"),
    })
    .await;
    let answer = running.get("hpa", &format!("{PODS}/a")).await.json();
    assert_eq!(answer["containers"][0]["usage"]["cpu"], "450m");
    let answer = running.get("hpa", &format!("{PODS}/b")).await;
    assert_eq!((answer.status, answer.body.as_str()), (404, "{\"kind\":\"Status\"}"));
    let answer = running.get("hpa", "/apis/metrics.k8s.io/v1beta1/pods").await;
    assert_eq!(answer.body, "all of them", "no autoscaler asks for that");
    running.stop().await;
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_not_passed_on() {
    let change = |pointer: &str, value: Value| {
        let mut answer = pod_metrics(&[("a", &[("app", "900m", "12Ki")])]);
        *answer.pointer_mut(pointer).unwrap() = value;
        answer.to_string()
    };
    for (rule, body) in [
        ("no JSON", "<html>".to_owned()),
        ("half of it", "{\"kind\": \"PodMetricsList\", \"items\": [".to_owned()),
        ("another kind", change("/kind", json!("NodeMetricsList"))),
        ("no list", change("/items", json!({}))),
        ("no name", change("/items/0/metadata", json!({"namespace": "shop"}))),
        ("another namespace", change("/items/0/metadata/namespace", json!("bank"))),
        ("no containers' list", change("/items/0/containers", json!("app"))),
        ("not a number", change("/items/0/containers/0/usage/cpu", json!("NaN"))),
        ("a number without text", change("/items/0/containers/0/usage/cpu", json!(1))),
        ("less than nothing", change("/items/0/containers/0/usage/memory", json!("-1"))),
        ("deep", format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))),
    ] {
        let sent = body.clone();
        let running = start("Shim", &json!([utilization("cpu")]), move |_| Reply::ok(sent.clone())).await;
        let answer = running.get("hpa", PODS).await;
        assert_eq!(answer.status, 503, "{rule}: {answer:?}");
        assert!(answer.refusal().contains("the answer of metrics-server"), "{rule}: {answer:?}");
        assert_eq!(running.get("alice", PODS).await.body, body, "{rule}: others judge for themselves");
        running.stop().await;
    }
}
