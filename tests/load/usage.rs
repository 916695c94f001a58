use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll::metrics::Metrics;
use plimsoll::placement::load::{Learner, Usage, UsageQueries};
use plimsoll::placement::{PlacedPods, PlacementState};
use plimsoll::recommender::sources::prometheus::{Endpoint, Labels};
use plimsoll::recommender::sources::{MetricsServer, MetricsServerOptions};
use plimsoll_core::objects::Objects;
use plimsoll_core::placement::{
    ByResource, LoadSnapshot, NodeLoad, NodeResource, Placed, PlacedPod, Settings, WeightsFrom, WorkloadKey,
    workload_key,
};
use serde_json::{Value, json};

use crate::support::{Reply, Server};
use crate::world::{Answers, counted, now, objects, series, vector};

/// Two containers, `app` and `proxy`, on a node.
fn pod(name: &str, workload: &str, node: &str, more: &Value) -> PlacedPod {
    let mut manifest = json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{name}"),
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": workload, "uid": "w", "controller": true}],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "app", "image": format!("{workload}:1")}, {"name": "proxy", "image": "proxy:2"}],
        },
        "status": {"phase": "Running"},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        manifest["spec"][key] = value.clone();
    }
    PlacedPod::read(&manifest, &Objects::default()).unwrap()
}

fn key(name: &str) -> WorkloadKey {
    workload_key(&format!("shop/StatefulSet/{name}")).unwrap()
}

/// Nodes of 4 cores, 8 GB, 1 Gbit/s and 100 GB.
fn state(pods: Vec<PlacedPod>) -> PlacementState {
    let mut state = PlacementState::new(Settings::default(), Arc::default());
    state.objects.store(Arc::new(objects(&["n1", "n2"])));
    state.pods = PlacedPods::of(Placed::listed(pods));
    let mut load = LoadSnapshot { taken: now(0), ..LoadSnapshot::default() };
    for node in ["n1", "n2"] {
        let mut totals = ByResource::default();
        for (resource, total) in NodeResource::ALL.into_iter().zip([4.0, 8e9, 1e9, 1e11]) {
            totals.set(resource, Some(total));
        }
        load.nodes.insert(node.into(), NodeLoad { totals, ..NodeLoad::default() });
    }
    state.load.store(Arc::new(load));
    state
}

fn of(pod: &str, container: &str, value: &str) -> String {
    let mut labels = vec![("namespace", "shop"), ("pod", pod)];
    if !container.is_empty() {
        labels.push(("container", container));
    }
    series(&labels, value)
}

fn queries() -> UsageQueries {
    let text = |name: &str| Some(name.to_owned());
    UsageQueries {
        cpu: text("cpu"),
        memory: text("memory"),
        bandwidth: text("bandwidth"),
        disk: text("disk"),
        labels: Labels::default(),
    }
}

fn learner(server: &Server, state: &PlacementState, metrics: &Arc<Metrics>) -> Learner {
    let endpoint = Endpoint { timeout: Duration::from_millis(500), ..Endpoint::new(server.url()) };
    let usage = Usage::prometheus(&endpoint, queries(), Duration::from_secs(60)).unwrap();
    Learner::new(usage, state.clone(), Arc::clone(metrics))
}

async fn serving(answers: &Answers) -> Server {
    let known = answers.clone();
    Server::start(move |asked| known.answer(asked)).await
}

/// What containers use locally, by `pod/container`.
fn found(state: &PlacementState) -> Vec<(String, [Option<f64>; 4])> {
    let uses = state.uses.load();
    let mut all: Vec<_> = uses
        .containers
        .iter()
        .map(|found| {
            (
                format!("{}/{}", found.pod, found.container),
                NodeResource::ALL.map(|resource| found.local.get(resource)),
            )
        })
        .collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

#[tokio::test]
async fn usage_becomes_shares_and_weights() {
    let answers = Answers::default();
    answers
        .set("cpu", vector(&[of("web-0", "app", "1"), of("web-0", "proxy", "0.5"), of("db-0", "app", "2")]));
    let memory = [of("web-0", "app", "2e9"), of("web-0", "proxy", "0"), of("db-0", "app", "8e9")];
    answers.set("memory", vector(&memory));
    answers.set("bandwidth", vector(&[of("web-0", "", "5e8")]));
    answers.set("disk", vector(&[of("db-0", "app", "5e10")]));
    let server = serving(&answers).await;
    let state = state(vec![pod("web-0", "web", "n1", &Value::Null), pod("db-0", "db", "n2", &Value::Null)]);
    let metrics = Arc::new(Metrics::new("test"));
    learner(&server, &state, &metrics).look(now(0)).await;
    assert_eq!(
        found(&state),
        [
            ("shop/db-0/app".to_owned(), [Some(0.5), Some(1.0), None, Some(0.5)]),
            ("shop/web-0/app".to_owned(), [Some(0.25), Some(0.25), Some(0.5), None]),
            ("shop/web-0/proxy".to_owned(), [Some(0.125), Some(0.0), None, None]),
        ],
        "the network of a pod is its first container's"
    );
    let uses = state.uses.load();
    let app = uses.containers.iter().find(|found| &*found.pod == "shop/web-0").unwrap();
    assert_eq!((&*app.node, &*app.image, &app.workload), ("n1", "web:1", &key("web")));
    let weights = state.weights.load();
    // Half of each resource of the cluster is a node's: .1875, .125, .25 and 0 of it.
    let web = weights.workloads[&key("web")];
    for (resource, share) in NodeResource::ALL.into_iter().zip([0.1875, 0.125, 0.25, 0.0]) {
        assert!((web.get(resource) - share / 0.5625).abs() < 1e-12, "{resource:?}: {web:?}");
    }
    assert_eq!(weights.images["web:1"], web);
    assert!(weights.images.contains_key("db:1") && weights.images.contains_key("proxy:2"));
    let (_, from) = weights.of(&key("new"), ["proxy:2"], ByResource::all(1.0));
    assert_eq!(from, WeightsFrom::Image);
    assert_eq!(counted(&metrics, "learnt_weights{of=\"workload\"}"), 2.0);
    assert!(counted(&metrics, "load_age_seconds{of=\"containers\",source=\"prometheus\"}") < 60.0);
}

#[tokio::test]
async fn samples_of_containers_that_are_not_used() {
    let answers = Answers::default();
    let bad = ["NaN", "-1", "+Inf", "much"].map(|value| of("web-0", "proxy", value));
    let mut cpu = bad.to_vec();
    cpu.extend([
        of("web-0", "app", "1"),
        of("web-0", "app", "3"),
        of("gone-0", "app", "1"),
        of("done-0", "app", "1"),
        of("wait-0", "app", "1"),
        of("web-0", "setup", "1"),
        of("web-0", "", "9"),
        series(&[("pod", "web-0")], "1"),
    ]);
    answers.set("cpu", vector(&cpu));
    answers.set("memory", vector(&[of("web-0", "app", "2e9")]));
    answers.set("bandwidth", vector(&[of("host-0", "", "9e8"), of("web-0", "", "1e8")]));
    let server = serving(&answers).await;
    let mut done = pod("done-0", "done", "n1", &Value::Null);
    done.terminal = true;
    let waiting = pod("wait-0", "wait", "", &Value::Null);
    let host = pod("host-0", "host", "n1", &json!({"hostNetwork": true}));
    let state = state(vec![pod("web-0", "web", "n1", &Value::Null), done, waiting, host]);
    let metrics = Arc::new(Metrics::new("test"));
    learner(&server, &state, &metrics).look(now(0)).await;
    assert_eq!(found(&state), [("shop/web-0/app".to_owned(), [Some(0.75), Some(0.25), Some(0.1), None])]);
    for (reason, count) in [
        ("not_a_number", 2.0),
        ("negative", 1.0),
        ("infinite", 1.0),
        ("duplicate", 1.0),
        ("unknown_pod", 6.0),
    ] {
        let series = format!("load_samples_dropped_total{{reason=\"{reason}\"}}");
        assert_eq!(counted(&metrics, &series), count, "{reason}");
    }
}

#[tokio::test]
async fn labels_can_have_other_names() {
    let answers = Answers::default();
    let labels = [("ns", "shop"), ("exported_pod", "web-0"), ("c", "app"), ("pod", "prometheus-0")];
    answers.set("cpu", vector(&[series(&labels, "1")]));
    answers.set("memory", vector(&[series(&labels, "2e9")]));
    let server = serving(&answers).await;
    let state = state(vec![pod("web-0", "web", "n1", &Value::Null)]);
    let endpoint = Endpoint { timeout: Duration::from_millis(500), ..Endpoint::new(server.url()) };
    let labels = Labels { namespace: "ns".into(), pod: "exported_pod".into(), container: "c".into() };
    let queries = UsageQueries { labels, ..queries() };
    let usage = Usage::prometheus(&endpoint, queries, Duration::from_secs(60)).unwrap();
    Learner::new(usage, state.clone(), Arc::new(Metrics::new("test"))).look(now(0)).await;
    assert_eq!(found(&state), [("shop/web-0/app".to_owned(), [Some(0.25), Some(0.25), None, None])]);
}

/// Answers as they are set, but for one query while it is to fail.
async fn failing_at(query: &'static str, answers: &Answers) -> (Server, Arc<AtomicBool>) {
    let (known, failing) = (answers.clone(), Arc::new(AtomicBool::new(false)));
    let fails = Arc::clone(&failing);
    let server = Server::start(move |asked| {
        if asked.get("query") == query && fails.load(Ordering::SeqCst) {
            return Reply::status(503, "down");
        }
        known.answer(asked)
    })
    .await;
    (server, failing)
}

/// Memory is there with the first scrape, a rate of CPU with the second.
#[tokio::test]
async fn a_pod_that_is_known_in_part_is_not_believed() {
    let both = ["app", "proxy"];
    for (rule, cpu, memory, expected) in [
        ("all is known", &both[..], &both[..], 2),
        ("it has just come", &[], &both, 0),
        ("one container was restarted", &both[1..], &both, 0),
        ("no memory", &both, &[], 0),
        ("a container of which nobody tells anything", &both[..1], &both[..1], 1),
    ] {
        let answers = Answers::default();
        let told = |containers: &[&str], value: &str| {
            let of_web = containers.iter().map(|container| of("web-0", container, value));
            vector(&of_web.chain([of("db-0", "app", value)]).collect::<Vec<_>>())
        };
        answers.set("cpu", told(cpu, "3"));
        answers.set("memory", told(memory, "2e9"));
        let server = serving(&answers).await;
        let state =
            state(vec![pod("web-0", "web", "n1", &Value::Null), pod("db-0", "db", "n2", &Value::Null)]);
        learner(&server, &state, &Arc::new(Metrics::new("test"))).look(now(0)).await;
        let of_web = found(&state).iter().filter(|(name, _)| name.starts_with("shop/web-0/")).count();
        assert_eq!(of_web, expected, "{rule}");
        let weights = state.weights.load();
        assert_eq!(weights.workloads.contains_key(&key("web")), expected > 0, "{rule}: what is learnt");
        assert!(weights.workloads.contains_key(&key("db")), "{rule}: others are not concerned");
    }
}

#[tokio::test]
async fn what_containers_use_is_as_old_as_the_oldest_answer() {
    let answers = Answers::default();
    answers.set("cpu", vector(&[of("web-0", "app", "3")]));
    answers.set("memory", vector(&[of("web-0", "app", "2e9")]));
    let (server, failing) = failing_at("cpu", &answers).await;
    let state = state(vec![pod("web-0", "web", "n1", &Value::Null)]);
    let mut learner = learner(&server, &state, &Arc::new(Metrics::new("test")));
    learner.look(now(0)).await;
    assert_eq!((found(&state).len(), state.uses.load().taken), (1, now(0)));
    failing.store(true, Ordering::SeqCst);
    learner.look(now(60)).await;
    learner.look(now(240)).await;
    assert_eq!((found(&state).len(), state.uses.load().taken), (1, now(0)), "CPU is of then");
    learner.look(now(360)).await;
    assert!(found(&state).is_empty(), "a pod of three cores does not count as one of none");
    failing.store(false, Ordering::SeqCst);
    learner.look(now(700)).await;
    assert_eq!((found(&state).len(), state.uses.load().taken), (1, now(700)));
}

#[tokio::test]
async fn a_query_that_fails_does_not_tilt_the_weights() {
    for (query, counted_as, before, after) in [
        ("disk", "containerDisk", Some(0.5), Some(0.5)),
        // Without CPU nothing is learnt, and what was learnt stays.
        ("cpu", "containerCpu", None, Some(1.0 / 3.0)),
    ] {
        let answers = Answers::default();
        answers.set("cpu", vector(&[of("web-0", "app", "1")]));
        answers.set("memory", vector(&[of("web-0", "app", "2e9")]));
        answers.set("disk", vector(&[of("web-0", "app", "2.5e10")]));
        let (server, failing) = failing_at(query, &answers).await;
        let state = state(vec![pod("web-0", "web", "n1", &Value::Null)]);
        let metrics = Arc::new(Metrics::new("test"));
        let mut learner = learner(&server, &state, &metrics);
        let check = |expected: Option<f64>, rule: &str| {
            let weights = state.weights.load();
            let found = weights.workloads.get(&key("web")).map(|weights| weights.get(NodeResource::Cpu));
            let is_same = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-12,
                (found, expected) => found == expected,
            };
            assert!(is_same, "{query}: {rule}: {found:?} and not {expected:?}");
        };
        failing.store(true, Ordering::SeqCst);
        learner.look(now(-600)).await;
        check(None, "nothing is learnt while it may come back");
        learner.look(now(-270)).await;
        check(before, "what nobody reports has no part");
        failing.store(false, Ordering::SeqCst);
        learner.look(now(0)).await;
        check(Some(1.0 / 3.0), "all is known");
        failing.store(true, Ordering::SeqCst);
        learner.look(now(120)).await;
        check(Some(1.0 / 3.0), "the last answer counts");
        let failures = format!("load_query_failures_total{{query=\"{counted_as}\"}}");
        assert_eq!(counted(&metrics, &failures), 3.0);
        learner.look(now(400)).await;
        check(Some(1.0 / 3.0), "after five intervals nothing is learnt for a while");
        learner.look(now(430)).await;
        check(after, "then it is learnt without");
    }
}

#[tokio::test]
async fn nothing_answered_leaves_what_is_known() {
    let answers = Answers::default();
    answers.set("cpu", vector(&[of("web-0", "app", "1")]));
    answers.set("memory", vector(&[of("web-0", "app", "0")]));
    let (known, failing) = (answers.clone(), Arc::new(AtomicBool::new(false)));
    let fails = Arc::clone(&failing);
    let server = Server::start(move |asked| {
        if fails.load(Ordering::SeqCst) { Reply::status(500, "<html>") } else { known.answer(asked) }
    })
    .await;
    let state = state(vec![pod("web-0", "web", "n1", &Value::Null)]);
    let metrics = Arc::new(Metrics::new("test"));
    let mut learner = learner(&server, &state, &metrics);
    learner.look(now(0)).await;
    failing.store(true, Ordering::SeqCst);
    learner.look(now(600)).await;
    assert_eq!(state.uses.load().taken, now(0), "its age shows");
    assert!(state.weights.load().workloads.contains_key(&key("web")));
}

#[tokio::test]
async fn what_was_learnt_before_a_restart_counts_until_it_is_measured() {
    let answers = Answers::default();
    answers.set("cpu", vector(&[of("web-0", "app", "1")]));
    answers.set("memory", vector(&[of("web-0", "app", "0")]));
    let server = serving(&answers).await;
    let state = state(vec![pod("web-0", "web", "n1", &Value::Null), pod("db-0", "db", "n2", &Value::Null)]);
    let metrics = Arc::new(Metrics::new("test"));
    let mut learner = learner(&server, &state, &metrics);
    let mut half = ByResource::default();
    half.set(NodeResource::Cpu, 0.5);
    half.set(NodeResource::Disk, 0.5);
    learner.restore([(key("web"), half), (key("db"), half), (key("asleep"), half)], now(0));
    let weights = state.weights.load_full();
    assert_eq!((weights.workloads[&key("db")], weights.images["db:1"]), (half, half));
    assert!(weights.workloads.contains_key(&key("asleep")), "nothing of it runs");
    learner.look(now(1)).await;
    let weights = state.weights.load_full();
    assert_eq!(weights.workloads[&key("web")].get(NodeResource::Cpu), 1.0, "measured");
    assert_eq!(weights.workloads[&key("db")], half, "not measured yet");
}

/// The loop: checkpoints are read once, usage again and again.
#[tokio::test]
async fn weights_come_back_from_checkpoints() {
    let checkpoint = |name: &str, weights: Value| {
        json!({
            "metadata": {"namespace": "shop", "name": name, "uid": name, "resourceVersion": "1"},
            "spec": {
                "version": 1, "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name},
                "weights": weights,
            },
        })
    };
    let list = json!({"metadata": {}, "items": [
        checkpoint("db", json!({"cpu": "0.25", "disk": "0.75"})),
        checkpoint("web", json!({"disk": "1"})),
        checkpoint("old", Value::Null),
        checkpoint("bad", json!({"cpu": "much"})),
    ]})
    .to_string();
    for (rule, code, body, restored) in [
        ("they are there", 200, list.as_str(), true),
        (
            "they may not be read",
            403,
            r#"{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}"#,
            false,
        ),
        ("they are not installed", 404, "404 page not found", false),
    ] {
        let answers = Answers::default();
        answers.set("cpu", vector(&[of("web-0", "app", "1")]));
        answers.set("memory", vector(&[of("web-0", "app", "0")]));
        let (known, body) = (answers.clone(), body.to_owned());
        let server = Server::start(move |asked| match asked.path.as_str() {
            "/apis/plimsoll.dev/v1alpha1/usagecheckpoints" => {
                Reply::Answer(code, vec![("content-type", "application/json".into())], body.clone())
            }
            _ => known.answer(asked),
        })
        .await;
        let client = plimsoll::cluster::client(kube::Config::new(server.url().parse().unwrap())).unwrap();
        let state =
            state(vec![pod("web-0", "web", "n1", &Value::Null), pod("db-0", "db", "n2", &Value::Null)]);
        let learner = learner(&server, &state, &Arc::new(Metrics::new("test")));
        let cancelled = tokio_util::sync::CancellationToken::new();
        let every = Duration::from_millis(20);
        let running = learner.run(Some(client), every, || now(0), cancelled.clone());
        let is_read = || {
            let asked = server.asked();
            let lists = asked.iter().filter(|call| call.path.contains("usagecheckpoints")).count();
            let usage = asked.iter().filter(|call| call.get("query") == "cpu").count();
            let weights = state.weights.load();
            lists == 1 && usage > 2 && weights.workloads.len() == 1 + usize::from(restored)
        };
        let waiting = async {
            while !is_read() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            cancelled.cancel();
        };
        let both = async { tokio::join!(running, waiting) };
        tokio::time::timeout(Duration::from_secs(30), both).await.expect(rule);
        let weights = state.weights.load_full();
        assert_eq!(weights.workloads[&key("web")].get(NodeResource::Cpu), 1.0, "{rule}: measured");
        let db = weights.workloads.get(&key("db")).map(|weights| weights.get(NodeResource::Disk));
        assert_eq!(db, restored.then_some(0.75), "{rule}");
        assert_eq!(weights.images.contains_key("db:1"), restored, "{rule}");
    }
}

#[tokio::test]
async fn metrics_server_tells_of_cpu_and_memory() {
    let list = json!({"items": [{
        "metadata": {"name": "web-0", "namespace": "shop"}, "timestamp": "2026-03-01T10:00:00Z", "window": "10s",
        "containers": [
            {"name": "app", "usage": {"cpu": "1", "memory": "2G"}}, {"name": "proxy", "usage": {"cpu": "500m", "memory": "0"}},
        ],
    }]})
    .to_string();
    let server = Server::start(move |asked| {
        assert_eq!(asked.path, "/apis/metrics.k8s.io/v1beta1/pods");
        Reply::ok(list.clone())
    })
    .await;
    let client = plimsoll::cluster::client(kube::Config::new(server.url().parse().unwrap())).unwrap();
    let options = MetricsServerOptions { per_namespace: false, timeout: Duration::from_millis(500) };
    let usage = Usage::metrics_server(MetricsServer::new(client, options), Duration::from_secs(60));
    let state = state(vec![pod("web-0", "web", "n1", &Value::Null)]);
    let metrics = Arc::new(Metrics::new("test"));
    Learner::new(usage, state.clone(), Arc::clone(&metrics)).look(now(0)).await;
    assert_eq!(
        found(&state),
        [
            ("shop/web-0/app".to_owned(), [Some(0.25), Some(0.25), None, None]),
            ("shop/web-0/proxy".to_owned(), [Some(0.125), Some(0.0), None, None]),
        ]
    );
    assert!(state.weights.load().workloads.contains_key(&key("web")));
}
