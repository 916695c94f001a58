//! What pages show of the whole cluster: read while somebody looks, and only then.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use kube::client::Body;
use plimsoll::recommender::sources::{MetricsServer, MetricsServerOptions, Source};
use plimsoll::status::{Health, Part};
use plimsoll::survey::{Survey, SurveyParts, Surveys, take};
use plimsoll_core::objects::Objects;
use plimsoll_core::placement::WorkloadKey;
use plimsoll_core::resource::MILLI;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// An API server with two pages of pods and metrics of the first pod.
#[derive(Clone, Default)]
struct Fake {
    lists: Arc<AtomicUsize>,
    forbidden: Arc<AtomicBool>,
    without_metrics: Arc<AtomicBool>,
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running"},
    })
}

impl Fake {
    fn answer(&self, path: &str, query: &str) -> (StatusCode, Value) {
        let usage = json!({"cpu": "250m", "memory": "64Mi"});
        match path {
            "/api/v1/pods" if self.forbidden.load(Ordering::SeqCst) => (
                StatusCode::FORBIDDEN,
                json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "pods is forbidden"}),
            ),
            "/api/v1/pods" if query.contains("continue=next") => {
                (StatusCode::OK, json!({"metadata": {}, "items": [pod("b", "500m"), pod("broken", "much")]}))
            }
            "/api/v1/pods" => {
                self.lists.fetch_add(1, Ordering::SeqCst);
                (StatusCode::OK, json!({"metadata": {"continue": "next"}, "items": [pod("a", "1")]}))
            }
            "/apis/metrics.k8s.io/v1beta1/pods" if !self.without_metrics.load(Ordering::SeqCst) => (
                StatusCode::OK,
                json!({"items": [{
                    "metadata": {"namespace": "shop", "name": "a"}, "timestamp": "2026-01-01T00:00:00Z", "window": "10s",
                    "containers": [{"name": "app", "usage": usage}],
                }]}),
            ),
            _ => (StatusCode::NOT_FOUND, json!({"kind": "Status", "code": 404, "reason": "NotFound"})),
        }
    }

    fn client(&self) -> kube::Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (status, body) = fake.answer(request.uri().path(), request.uri().query().unwrap_or_default());
            let answer = Response::builder().status(status).body(Body::from(body.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(answer.unwrap()) }
        });
        kube::Client::new(service, "default")
    }

    fn source(&self) -> Source {
        let options = MetricsServerOptions { per_namespace: false, timeout: Duration::from_secs(1) };
        Source::MetricsServer(MetricsServer::new(self.client(), options))
    }

    fn surveys(&self) -> (Surveys, CancellationToken) {
        self.told(&Health::default())
    }

    fn told(&self, health: &Health) -> (Surveys, CancellationToken) {
        let (surveys, cancelled) = (Surveys::default(), CancellationToken::new());
        let parts = SurveyParts {
            client: self.client(),
            objects: Arc::default(),
            source: Some(self.source()),
            health: health.clone(),
        };
        tokio::spawn(surveys.clone().run(parts, cancelled.clone()));
        (surveys, cancelled)
    }
}

fn key(survey: &Survey, name: &str) -> WorkloadKey {
    survey.savings.workloads.keys().find(|key| key.workload.name == name).unwrap().clone()
}

#[tokio::test]
async fn all_pages_are_read_and_pods_that_make_no_sense_are_told() {
    let fake = Fake::default();
    let survey = take(&fake.client(), &Objects::default(), Some(&mut fake.source())).await.unwrap();
    let total = survey.savings.total();
    assert_eq!((total.pods, total.measured.both(), total.now.cpu), (2, 1, 1500 * MILLI));
    assert_eq!((total.used.cpu, total.now_of_measured.cpu), (250 * MILLI, 1000 * MILLI));
    let [problem] = survey.problems.as_slice() else { panic!("{:?}", survey.problems) };
    assert!(problem.contains("a pod cannot be counted") && problem.contains("much"), "{problem}");
}

#[tokio::test]
async fn without_usage_there_is_a_survey_that_says_why() {
    let fake = Fake::default();
    fake.without_metrics.store(true, Ordering::SeqCst);
    let survey = take(&fake.client(), &Objects::default(), Some(&mut fake.source())).await.unwrap();
    assert_eq!(survey.savings.total().measured.both(), 0);
    assert!(survey.problems.iter().any(|problem| problem.starts_with("usage: ")), "{:?}", survey.problems);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_until_somebody_looks_and_nothing_is_kept_when_nobody_does() {
    let fake = Fake::default();
    let (surveys, _cancelled) = fake.surveys();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(fake.lists.load(Ordering::SeqCst), 0, "nobody looks");

    let first = surveys.first(Duration::from_secs(5)).await.unwrap();
    assert_eq!(fake.lists.load(Ordering::SeqCst), 1);
    tokio::time::sleep(Duration::from_secs(65)).await;
    assert_eq!(fake.lists.load(Ordering::SeqCst), 3, "every 30 s");
    let (a, b) = (key(&first, "a"), key(&first, "b"));
    let points = surveys.history(&a);
    assert_eq!((points.len(), points[0].now[0], points[0].used[0]), (3, 1.0, Some(0.25)));
    assert_eq!(surveys.history(&b)[0].used, [None; 2], "not measured");

    tokio::time::sleep(Duration::from_secs(400)).await;
    let read = fake.lists.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(fake.lists.load(Ordering::SeqCst), read, "nobody looks any more");
    assert!(surveys.history(&a).is_empty(), "nothing is kept");
    assert!(surveys.look().is_none(), "an old one is not shown as if it were new");
    assert!(surveys.first(Duration::from_secs(5)).await.is_some(), "and it begins anew");
}

#[tokio::test(start_paused = true)]
async fn what_is_forbidden_is_named_and_read_when_it_is_allowed() {
    let fake = Fake::default();
    fake.forbidden.store(true, Ordering::SeqCst);
    let (surveys, cancelled) = fake.surveys();
    assert!(surveys.first(Duration::from_secs(5)).await.is_none());
    let problem = surveys.problem().unwrap();
    assert!(problem.contains("list") && problem.contains("pods"), "{problem}");

    fake.forbidden.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(surveys.look().is_some());
    assert_eq!(surveys.problem(), None);

    cancelled.cancel();
    let read = fake.lists.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fake.lists.load(Ordering::SeqCst), read);
}

#[tokio::test(start_paused = true)]
async fn that_pods_cannot_be_read_is_in_the_status_while_somebody_looks() {
    let (fake, health) = (Fake::default(), Health::default());
    // Those for which a right is missing, and others.
    let failing = |health: &Health| {
        let counts = health.counts();
        counts.into_iter().find(|(part, _)| *part == Part::Snapshots).unwrap().1
    };
    fake.forbidden.store(true, Ordering::SeqCst);
    let (surveys, _cancelled) = fake.told(&health);
    assert!(surveys.first(Duration::from_secs(5)).await.is_none());
    assert_eq!(failing(&health), [1, 0]);

    fake.forbidden.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(failing(&health), [0, 0], "it works again");

    fake.forbidden.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(failing(&health), [1, 0]);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(failing(&health), [0, 0], "nobody looks, so that nobody knows");
}

/// How much memory a look costs: `cargo test --release --test survey -- --ignored --nocapture large`.
#[tokio::test]
#[ignore = "a measurement, of a minute"]
#[allow(clippy::print_stdout, reason = "that is its answer")]
async fn what_a_look_at_a_large_cluster_costs() {
    const PODS: usize = 100_000;
    const PAGE: usize = 500;
    let rss = |key: &str| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned();
        format!("{key} {line}")
    };
    // As large as pods are that API servers have: most of it is read and thrown away.
    let env: Vec<Value> =
        (0..60).map(|i| json!({"name": format!("SETTING_{i}"), "value": "x".repeat(90)})).collect();
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let from = query
            .split("continue=")
            .nth(1)
            .map_or(0, |from| from.split('&').next().unwrap().parse().unwrap());
        let items: Vec<Value> = (from..from + PAGE)
            .map(|index| {
                let mut pod = pod(&format!("workload-{}-5d8f7c9b6-{index:05}", index / 10), "500m");
                pod["metadata"]["namespace"] = json!(format!("team-{}", index % 1000 / 10));
                pod["metadata"]["ownerReferences"] = json!([{
                    "apiVersion": "apps/v1", "kind": "StatefulSet", "name": format!("workload-{}", index / 10),
                    "uid": "u", "controller": true,
                }]);
                pod["spec"]["containers"][0]["env"] = json!(env);
                pod
            })
            .collect();
        let next = if from + PAGE < PODS { (from + PAGE).to_string() } else { String::new() };
        let text = json!({"metadata": {"continue": next}, "items": items}).to_string();
        async move { Ok::<_, Infallible>(Response::new(Body::from(text.into_bytes()))) }
    });
    let client = kube::Client::new(service, "default");
    println!("before: {}", rss("VmRSS:"));
    let surveys = Surveys::default();
    for look in 0..3 {
        let begun = std::time::Instant::now();
        let survey = take(&client, &Objects::default(), None).await.unwrap();
        assert_eq!(survey.savings.total().pods, PODS as u64);
        println!(
            "look {look}: {} workloads, {:?}, {}, {}",
            survey.savings.workloads.len(),
            begun.elapsed(),
            rss("VmRSS:"),
            rss("VmHWM:")
        );
        if look == 2 {
            (0..120).for_each(|_| surveys.put(survey.clone()));
        }
        surveys.put(survey);
    }
    println!("with an hour of history: {}, {}", rss("VmRSS:"), rss("VmHWM:"));
}
