//! Who asks, and whether they may.

use serde_json::{Value, json};

use crate::server::Reply;
use crate::support::{CONTROLLER, Running, Setup, config_map, pod_metrics};
use crate::tls::Authority;
use crate::wait::until;

const PODS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods";
const GROUP: &str = "/apis/metrics.k8s.io/v1beta1";

fn empty(_: &crate::server::Asked) -> Reply {
    Reply::ok(pod_metrics(&[]).to_string())
}

#[tokio::test]
async fn who_is_believed() {
    let (proxy, other) = (Authority::new(), Authority::new());
    let (good, wrong_name) = (proxy.client("front-proxy-client"), proxy.client("kubelet"));
    let (wrong_authority, expired) =
        (other.client("front-proxy-client"), proxy.expired("front-proxy-client"));
    let running = Running::start(Setup::new(&proxy), empty).await;
    let headers: &[(&str, &str)] = &[
        ("x-remote-user", "carol"),
        ("x-remote-group", "devs"),
        ("x-remote-group", "ops"),
        ("x-remote-extra-scopes", "all"),
    ];
    let token = |token: &'static str| [headers, &[("authorization", token)]].concat();
    let rows = [
        ("the front proxy", Some(&good), headers.to_vec(), Some("carol")),
        ("nothing", None, vec![], None),
        ("forged headers", None, headers.to_vec(), None),
        (
            "forged headers and a group",
            None,
            vec![("x-remote-user", "a"), ("x-remote-group", "system:masters")],
            None,
        ),
        ("another name", Some(&wrong_name), headers.to_vec(), None),
        ("another authority", Some(&wrong_authority), headers.to_vec(), None),
        ("an expired certificate", Some(&expired), headers.to_vec(), None),
        ("the front proxy about nobody", Some(&good), vec![], None),
        ("a token", None, vec![("authorization", "Bearer alice")], Some("alice")),
        ("a token, and forged headers", None, token("Bearer alice"), Some("alice")),
        (
            "a token, and a certificate of others",
            Some(&wrong_authority),
            token("Bearer alice"),
            Some("alice"),
        ),
        ("the front proxy goes first", Some(&good), token("Bearer alice"), Some("carol")),
        ("an expired token", None, vec![("authorization", "Bearer old")], None),
        ("a password", None, vec![("authorization", "Basic YTpi")], None),
        ("an empty token", None, vec![("authorization", "Bearer ")], None),
    ];
    for (rule, pair, headers, user) in rows {
        running.cluster.lock().unwrap().reviews.clear();
        // A path of its own, so that no right is remembered.
        let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods", rule.replace([' ', ','], "-"));
        let answer = running.connect(pair).await.get(&path, &headers).await;
        let asked: Vec<Value> = running.cluster.lock().unwrap().reviews.clone();
        let of = asked.iter().find_map(|spec| spec["user"].as_str());
        assert_eq!(of, user, "{rule}: {answer:?}");
        if user.is_some() {
            assert_eq!(answer.status, 200, "{rule}: {answer:?}");
        } else {
            assert_eq!((answer.status, answer.refusal().as_str()), (401, "Unauthorized"), "{rule}");
        }
        if user == Some("carol") {
            let spec = &asked[0];
            assert_eq!(
                (&spec["groups"], &spec["extra"]),
                (&json!(["devs", "ops"]), &json!({"scopes": ["all"]}))
            );
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn who_may() {
    let running = Running::with(empty).await;
    let answer = running.get("nobody", PODS).await;
    assert_eq!(answer.status, 403);
    assert_eq!(
        answer.refusal(),
        "pods.metrics.k8s.io is forbidden: User \"nobody\" cannot list resource \"pods\" in API group \"metrics.k8s.io\" in \
         the namespace \"shop\""
    );
    let answer = running.get("nobody", GROUP).await;
    assert_eq!(
        answer.refusal(),
        "forbidden: User \"nobody\" cannot get path \"/apis/metrics.k8s.io/v1beta1\""
    );
    assert!(running.upstream.asked().is_empty(), "nothing was asked for somebody who may not");
    let attributes: Vec<Value> = running.cluster.lock().unwrap().reviews.clone();
    assert_eq!(
        attributes[1]["resourceAttributes"],
        json!({"group": "metrics.k8s.io", "version": "v1beta1", "resource": "pods", "subresource": "",
            "namespace": "shop", "name": "", "verb": "list"})
    );
    assert_eq!(attributes[2]["nonResourceAttributes"], json!({"path": GROUP, "verb": "get"}));
    let outcomes = "plimsoll_hpa_api_requests_total{group=\"metrics\",outcome=\"forbidden\"}";
    assert_eq!(running.metric(outcomes), 2);
    running.stop().await;
}

#[tokio::test]
async fn answers_about_who_may_are_remembered() {
    let proxy = Authority::new();
    let running = Running::start(Setup::new(&proxy), empty).await;
    let reviews = || running.cluster.lock().unwrap().reviews.len();
    for _ in 0..3 {
        assert_eq!(running.get("alice", PODS).await.status, 200);
        assert_eq!(running.get("old", PODS).await.status, 401);
    }
    assert_eq!(reviews(), 3, "a token, a right, a token that is no good");
    let masters: &[(&str, &str)] =
        &[("x-remote-user", "system:kube-aggregator"), ("x-remote-group", "system:masters")];
    let pair = proxy.client("front-proxy-client");
    running.cluster.lock().unwrap().away = true;
    let answer = running.connect(Some(&pair)).await.get(GROUP, masters).await;
    assert_eq!(answer.status, 200, "the API server's own look at us needs no review");
    let alone: &[(&str, &str)] = &[("x-remote-user", "system:kube-aggregator")];
    let mut aggregator = running.connect(Some(&pair)).await;
    assert_eq!(aggregator.get(GROUP, alone).await.status, 200, "nor does its question for resources");
    assert_eq!(aggregator.get(PODS, alone).await.status, 503, "but usage does");
    let answer = running.get("new", PODS).await;
    assert_eq!(answer.status, 503, "not 401: it may be good");
    assert!(answer.refusal().contains("TokenReview"), "{answer:?}");
    let answer = running.get("alice", GROUP).await;
    assert_eq!(answer.status, 503, "not 403");
    assert!(answer.refusal().contains("SubjectAccessReview"), "{answer:?}");
    assert!(!answer.body.contains("alice"), "{answer:?}");
    running.stop().await;
}

#[tokio::test]
async fn the_authority_may_change() {
    let (old, new) = (Authority::new(), Authority::new());
    let running = Running::start(Setup::new(&old), empty).await;
    let headers: &[(&str, &str)] = &[("x-remote-user", "carol")];
    let mut with_old = running.connect(Some(&old.client("front-proxy-client"))).await;
    let mut with_new = running.connect(Some(&new.client("front-proxy-client"))).await;
    assert_eq!(with_old.get(GROUP, headers).await.status, 200);
    assert_eq!(with_new.get(GROUP, headers).await.status, 401);

    let mut both = config_map(&old);
    both["requestheader-client-ca-file"] = json!(format!("{}{}", old.pem(), new.pem()));
    running.cluster.lock().unwrap().config_map = Some(both);
    while with_new.get(GROUP, headers).await.status != 200 {}
    assert_eq!(with_old.get(GROUP, headers).await.status, 200);

    running.cluster.lock().unwrap().config_map = Some(config_map(&new));
    while with_old.get(GROUP, headers).await.status != 401 {}
    assert_eq!(with_new.get(GROUP, headers).await.status, 200, "also on a connection from before");

    // What cannot be used is not taken up.
    let mut broken = config_map(&old);
    broken["requestheader-client-ca-file"] = json!("half a certif");
    running.cluster.lock().unwrap().config_map = Some(broken);
    let degraded = "plimsoll_degraded{reason=\"front_proxy\"}";
    until("the broken one is seen", || running.metric(degraded) == 1).await;
    assert_eq!(with_new.get(GROUP, headers).await.status, 200);
    assert_eq!(with_old.get(GROUP, headers).await.status, 401);

    // Nobody may speak for others where there is no front proxy.
    running.cluster.lock().unwrap().config_map = Some(json!({"client-ca-file": "x"}));
    while with_new.get(GROUP, headers).await.status != 401 {}
    until("as it should be", || running.metric(degraded) == 0).await;
    running.stop().await;
}

#[tokio::test]
async fn the_authority_may_be_late() {
    let proxy = Authority::new();
    let mut setup = Setup::new(&proxy);
    let config_map = setup.cluster.config_map.take();
    let running = Running::start(setup, empty).await;
    let headers: &[(&str, &str)] = &[("x-remote-user", CONTROLLER)];
    let mut connection = running.connect(Some(&proxy.client("front-proxy-client"))).await;
    assert_eq!(connection.get(GROUP, headers).await.status, 503, "it may be the front proxy");
    assert_eq!(running.connect(None).await.get(GROUP, headers).await.status, 401);
    assert_eq!(running.get("alice", GROUP).await.status, 200);
    running.cluster.lock().unwrap().config_map = config_map;
    while connection.get(GROUP, headers).await.status != 200 {}
    running.stop().await;
}

#[tokio::test]
async fn who_is_in_many_groups() {
    let proxy = Authority::new();
    let running = Running::start(Setup::new(&proxy), empty).await;
    let groups: Vec<String> = (0..500).map(|index| format!("oidc:{index}:{}", "x".repeat(100))).collect();
    let mut headers = vec![("x-remote-user", "carol")];
    headers.extend(groups.iter().map(|group| ("x-remote-group", group.as_str())));
    let mut connection = running.connect(Some(&proxy.client("front-proxy-client"))).await;
    assert_eq!(connection.get(PODS, &headers).await.status, 200);
    assert_eq!(running.cluster.lock().unwrap().reviews[0]["groups"], json!(groups));
    running.stop().await;
}
