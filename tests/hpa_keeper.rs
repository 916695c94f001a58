//! The keeper of autoscalers against an API server that calls the webhook, or does not.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where; reading a JSON value that is not there gives null"
)]

#[path = "hpa/fake.rs"]
mod fake;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use plimsoll::admission::Engine;
use plimsoll::cluster::Snapshots;
use plimsoll::config::{self, Config};
use plimsoll::hpa::{Pods, run};
use plimsoll::metrics::Metrics;
use plimsoll::profiles;
use plimsoll_core::admission::{AbsentNamespace, Settings};
use plimsoll_core::objects::{FactKey, FactKind, WorkloadKind, read_manifest};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::fake::FakeApi;

/// A cluster, and a replica that leads. Time passes when nobody has anything to do.
struct World {
    fake: FakeApi,
    snapshots: Arc<Snapshots>,
    settings: Arc<ArcSwap<Settings>>,
    metrics: Arc<Metrics>,
    config: Config,
    leader: Option<(CancellationToken, JoinHandle<()>)>,
}

impl World {
    /// A namespace with a profile that halves, and a webhook.
    fn new() -> Self {
        Self::with("{}")
    }

    fn with(config: &str) -> Self {
        let tree = serde_saphyr::from_str(config).unwrap();
        let config = config::check_tree(Path::new("config.yaml"), tree).unwrap().config;
        let metrics = Arc::new(Metrics::new("test"));
        let snapshots = Arc::new(Snapshots::new(Arc::clone(&metrics)));
        let settings = profiles::settings(&config, AbsentNamespace::Unknown);
        let world = Self {
            fake: FakeApi::new(Arc::clone(&snapshots)),
            snapshots,
            settings: Arc::new(ArcSwap::from_pointee(settings)),
            metrics,
            config,
            leader: None,
        };
        world.put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
        world.put(&profile(&json!({})));
        world.webhook(true);
        world
    }

    fn put(&self, manifest: &Value) {
        self.snapshots.update(|objects| objects.put(read_manifest(manifest).unwrap().unwrap()));
    }

    fn remove(&self, kind: FactKind, namespace: &str, name: &str) {
        let key = FactKey { kind, namespace: namespace.to_owned(), name: name.to_owned() };
        self.snapshots.update(|objects| objects.remove(&key));
    }

    fn webhook(&self, up: bool) {
        let engine = Engine::new(
            self.snapshots.current(),
            Arc::clone(&self.settings),
            None,
            Arc::clone(&self.metrics),
        );
        self.fake.set_webhook(up.then(|| Arc::new(engine)));
    }

    fn lead(&mut self) {
        let parts = run::Parts {
            config: self.config.hpa.clone(),
            own_namespace: "plimsoll-system".to_owned(),
            snapshots: Arc::clone(&self.snapshots),
            settings: Arc::clone(&self.settings),
            pods: Pods::default(),
            metrics: Arc::clone(&self.metrics),
        };
        let cancelled = CancellationToken::new();
        let task = tokio::spawn(run::keep(self.fake.client(), parts, cancelled.clone()));
        self.leader = Some((cancelled, task));
    }

    async fn stop(&mut self) {
        let (cancelled, task) = self.leader.take().unwrap();
        cancelled.cancel();
        task.await.unwrap();
    }

    /// The target of the only metric, and whether the keeper's annotation stands there.
    fn target(&self) -> (Value, bool) {
        let hpa = self.fake.hpa("shop/web");
        let target = &hpa["spec"]["metrics"][0]["resource"]["target"];
        let value = target.get("averageValue").or_else(|| target.get("averageUtilization"));
        (
            value.cloned().unwrap_or_default(),
            hpa["metadata"]["annotations"].get("plimsoll.dev/hpa-sync").is_some(),
        )
    }

    async fn becomes(&self, what: &str, value: impl Into<Value>) {
        let value = (value.into(), false);
        eventually(what, || self.target() == value).await;
    }

    /// Whether nothing is written for a while.
    async fn is_quiet(&self) -> bool {
        let before = self.fake.patches().len();
        tokio::time::sleep(Duration::from_secs(30)).await;
        self.fake.patches().len() == before
    }

    fn told(&self, reason: &str) -> usize {
        self.fake.events().iter().filter(|(found, _)| found == reason).count()
    }

    fn metric(&self, series: &str) -> u64 {
        let text = self.metrics.encode();
        let line = text.lines().find(|line| line.starts_with(series)).unwrap_or_else(|| panic!("{series}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    fn states(&self, state: &str) -> u64 {
        self.metric(&format!("plimsoll_hpas{{state=\"{state}\"}}"))
    }

    fn writes(&self, result: &str) -> u64 {
        self.metric(&format!("plimsoll_hpa_sync_writes_total{{result=\"{result}\"}}"))
    }
}

async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(200), "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn profile(more: &Value) -> Value {
    let mut spec = json!({"mode": "Static", "static": {"factors": {"cpu": "0.5"}}});
    json_patch::merge(&mut spec, more);
    json!({"apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile", "metadata": {"name": "half"}, "spec": spec})
}

fn hpa(percent: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"namespace": "shop", "name": "web", "uid": "uid-web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    })
}

fn container(cpu: Option<&str>) -> Value {
    let requests = cpu.map_or(json!({}), |cpu| json!({ "cpu": cpu }));
    json!({"name": "app", "resources": {"requests": requests}})
}

fn deployment(cpu: Option<&str>) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container(cpu)]},
        }},
    })
}

/// A pod whose author asked for `original`, and whose request is half of it.
fn pod(name: &str, original: &str, now: &str) -> Value {
    let record = json!({"basis": "request", "profile": "half", "containers": {
        "app": {"requests": {"cpu": original}, "limits": {}, "set": {"cpu": now}},
    }});
    let annotations = if original == now {
        json!({})
    } else {
        json!({"plimsoll.dev/original-resources": record.to_string()})
    };
    json!({
        "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "labels": {"app": "web"},
            "annotations": annotations},
        "spec": {"containers": [container(Some(now))]}, "status": {"phase": "Running"},
    })
}

#[tokio::test(start_paused = true)]
async fn targets_follow_the_pods() {
    let mut world = World::new();
    world.put(&deployment(Some("1")));
    for name in ["a", "b"] {
        world.fake.put_pod(pod(name, "1", "500m"));
    }
    world.fake.put_hpa(hpa(80));
    world.lead();
    world.becomes("converted", "800m").await;
    assert!(world.is_quiet().await, "one write");
    assert_eq!((world.fake.patches().len(), world.writes("success")), (1, 1));
    assert_eq!((world.told("HpaConverted"), world.states("converted")), (1, 1));
    // Rolled out with twice the request: in the middle, and at the end.
    world.fake.put_pod(pod("c", "2", "1"));
    world.fake.put_pod(pod("d", "2", "1"));
    world.becomes("the mean of four", "1200m").await;
    world.fake.delete_pod("a");
    world.fake.delete_pod("b");
    world.becomes("the mean of two", "1600m").await;
    // The author changes his mind: at once, by the webhook.
    let mut edited = world.fake.hpa("shop/web");
    edited["spec"]["metrics"][0]["resource"]["target"] =
        json!({"type": "Utilization", "averageUtilization": 60});
    world.fake.apply(edited).await;
    assert_eq!(world.target(), (json!("1200m"), false));
    assert!(world.is_quiet().await);
    world.stop().await;
    assert_eq!(world.states("converted"), 0, "another replica tells of them");
}

#[tokio::test(start_paused = true)]
async fn what_the_webhook_does_by_itself_is_told_too() {
    let mut world = World::new();
    world.put(&deployment(Some("1")));
    world.fake.apply(hpa(80)).await;
    assert_eq!(world.target().0, "800m", "when it was created");
    world.lead();
    assert!(world.is_quiet().await);
    assert_eq!(world.told("HpaConverted"), 0, "no news: it was so before");
    let edit = |percent: i64| {
        let mut edited = world.fake.hpa("shop/web");
        edited["spec"]["metrics"] = hpa(percent)["spec"]["metrics"].clone();
        edited
    };
    world.fake.apply(edit(60)).await;
    eventually("told", || world.told("HpaConverted") == 1).await;
    assert_eq!(world.fake.events()[0].1, "cpu: 60 % as written is 600m");
    let mut out = edit(60);
    out["metadata"]["annotations"]["plimsoll.dev/overcommit"] = json!("off");
    world.fake.apply(out).await;
    eventually("told", || world.told("HpaRestored") == 1).await;
    let mut other = hpa(50);
    other["metadata"]["name"] = json!("other");
    world.fake.apply(other).await;
    eventually("a new one", || world.told("HpaConverted") == 2).await;
    assert!(world.is_quiet().await);
    assert!(world.fake.patches().is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_does_otherwise_is_not_fought() {
    let mut world = World::new();
    world.put(&deployment(Some("1")));
    world.fake.put_hpa(hpa(80));
    // One of another configuration: it leaves autoscalers alone.
    let lost = Arc::new(ArcSwap::from_pointee(Settings::default()));
    let other = Arc::new(ArcSwap::from_pointee(plimsoll_core::objects::Objects::default()));
    let engine = Engine::new(other, lost, None, Arc::new(Metrics::new("test"))).with_autoscalers(false);
    world.fake.set_webhook(Some(Arc::new(engine)));
    world.lead();
    eventually("tried", || world.writes("pending") > 1).await;
    let before = world.fake.patches().len();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(world.fake.patches().len() - before <= 12, "{}", world.fake.patches().len() - before);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_is_away_is_waited_for() {
    let mut world = World::new();
    world.webhook(false);
    world.put(&deployment(Some("1")));
    world.fake.put_hpa(hpa(80));
    world.lead();
    let waits = || world.writes("pending") >= 3;
    eventually("several times", waits).await;
    assert_eq!(world.target(), (json!(80), true), "the annotation waits");
    assert_eq!(world.states("pending"), 1);
    assert_eq!(world.told("HpaSyncPending"), 1);
    let before = world.fake.patches().len();
    tokio::time::sleep(Duration::from_secs(120)).await;
    let patches = world.fake.patches().len() - before;
    assert!((1..=8).contains(&patches), "with growing pauses: {patches}");
    world.webhook(true);
    world.becomes("converted", "800m").await;
    assert!(world.is_quiet().await);
    assert_eq!((world.states("pending"), world.states("converted")), (0, 1));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_finds_nothing_to_do() {
    let mut world = World::new();
    world.put(&deployment(Some("1")));
    world.fake.put_pod(pod("a", "1", "500m"));
    world.fake.put_hpa(hpa(80));
    world.lead();
    world.becomes("converted", "800m").await;
    world.stop().await;
    let before = world.fake.patches().len();
    world.lead();
    assert!(world.is_quiet().await);
    assert_eq!((world.fake.patches().len(), world.states("converted")), (before, 1));
    // What the one before left behind when the webhook was away.
    world.stop().await;
    let mut left = world.fake.hpa("shop/web");
    left["metadata"]["annotations"]["plimsoll.dev/hpa-sync"] = json!("{\"restore\":true}");
    world.fake.put_hpa(left);
    world.lead();
    world.becomes("taken off, and not acted upon", "800m").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_before_all_pods_are_known() {
    let mut world = World::new();
    world.put(&deployment(Some("2")));
    world.fake.put_pod(pod("a", "1", "500m"));
    world.fake.hold_pods(true);
    world.fake.put_hpa(hpa(80));
    world.lead();
    assert!(world.is_quiet().await);
    world.fake.hold_pods(false);
    world.becomes("by the pods, not the template", "800m").await;
    assert_eq!(world.fake.patches().len(), 1);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_changes_makes_few_writes() {
    let mut world = World::new();
    world.put(&deployment(Some("1")));
    for index in 0..50 {
        world.fake.put_pod(pod(&format!("old-{index}"), "1", "500m"));
    }
    world.fake.put_hpa(hpa(80));
    world.lead();
    world.becomes("converted", "800m").await;
    let before = world.fake.patches().len();
    // Restarted: other pods, the same bases; each changes its status several times.
    for index in 0..50 {
        let name = format!("new-{index}");
        world.fake.put_pod(pod(&name, "1", "500m"));
        world.fake.delete_pod(&format!("old-{index}"));
        for step in 0..3 {
            let mut again = pod(&name, "1", "500m");
            again["status"]["step"] = json!(step);
            world.fake.put_pod(again);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert!(world.is_quiet().await);
    assert_eq!(world.fake.patches().len(), before, "the mean is what it was");
    // Another request in a rollout of two seconds: at most one write a second.
    for index in 0..50 {
        world.fake.put_pod(pod(&format!("third-{index}"), "2", "1"));
        world.fake.delete_pod(&format!("new-{index}"));
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    world.becomes("followed", "1600m").await;
    assert!(world.fake.patches().len() - before <= 5, "{}", world.fake.patches().len() - before);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_got_over() {
    let mut world = World::new();
    world.put(&deployment(Some("1")));
    for (rule, code, reason, done, result) in [
        ("changed in the meantime", 409, "Conflict", false, "conflict"),
        ("not available", 503, "ServiceUnavailable", false, "failure"),
        ("refused by another webhook", 422, "Invalid", false, "failure"),
        ("answer lost", 504, "Timeout", true, "failure"),
    ] {
        let before =
            (if world.leader.is_some() { world.writes(result) } else { 0 }, world.fake.patches().len());
        world.fake.fail_next(code, reason, done);
        world.fake.put_hpa(hpa(80));
        if world.leader.is_none() {
            world.lead();
        }
        world.becomes(rule, "800m").await;
        eventually(rule, || world.writes(result) > before.0).await;
        assert!(world.is_quiet().await, "{rule}");
        let expected = if done { 1 } else { 2 };
        assert_eq!(world.fake.patches().len() - before.1, expected, "{rule}");
    }
    assert!(world.fake.gets() >= 2, "whether it arrived is asked for");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_deleted_is_no_error() {
    let mut world = World::new();
    world.put(&deployment(Some("1")));
    world.fake.put_hpa(hpa(80));
    // Before the watch tells so.
    world.fake.delete_hpa("shop", "web", false);
    world.lead();
    eventually("tried", || world.writes("gone") > 0).await;
    world.remove(FactKind::Hpa, "shop", "web");
    assert!(world.is_quiet().await);
    assert_eq!(world.writes("failure"), 0);
    // Another one of its name, which the watch tells late.
    let mut again = hpa(80);
    again["metadata"]["uid"] = json!("uid-other");
    world.fake.put_hpa(hpa(80));
    world.fake.apply(again.clone()).await;
    world.becomes("the other", "800m").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_it_scales_may_appear_later() {
    let mut world = World::new();
    world.lead();
    world.fake.apply(hpa(80)).await;
    assert!(world.is_quiet().await);
    assert_eq!((world.target(), world.states("unknown")), ((json!(80), false), 1));
    world.put(&deployment(Some("1")));
    world.becomes("by its template", "800m").await;
    world.fake.put_pod(pod("a", "2", "1"));
    world.becomes("by its pod", "1600m").await;
    // The workload is gone for a moment: nothing is undone.
    world.remove(FactKind::Workload(WorkloadKind::Deployment), "shop", "web");
    assert!(world.is_quiet().await);
    assert_eq!(world.target().0, "1600m");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn restored_when_nothing_is_lowered_any_more() {
    let mut world = World::new();
    world.put(&deployment(Some("1")));
    world.fake.put_pod(pod("a", "1", "500m"));
    world.fake.put_hpa(hpa(80));
    world.lead();
    world.becomes("converted", "800m").await;
    world.remove(FactKind::Profile, "", "half");
    assert!(world.is_quiet().await, "its pod is lowered still");
    assert_eq!(world.target().0, "800m");
    world.fake.put_pod(pod("b", "1", "1"));
    world.fake.delete_pod("a");
    world.becomes("restored", 80).await;
    assert_eq!(world.fake.hpa("shop/web")["metadata"]["annotations"], json!({}), "no trace");
    assert_eq!((world.told("HpaRestored"), world.states("native")), (1, 1));
    // And when the profile comes back.
    world.put(&profile(&json!({})));
    world.becomes("converted again", "800m").await;
    // Its author opts out.
    let mut out = world.fake.hpa("shop/web");
    out["metadata"]["annotations"]["plimsoll.dev/overcommit"] = json!("disabled");
    world.fake.apply(out).await;
    assert_eq!(world.target().0, 80);
    assert!(world.is_quiet().await);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_mode_of_others_restores_and_one_that_nobody_serves_converts_and_says_so() {
    let mut world = World::new();
    world.put(&deployment(Some("1")));
    world.fake.put_pod(pod("a", "1", "500m"));
    world.fake.put_hpa(hpa(80));
    world.lead();
    world.becomes("converted", "800m").await;
    world.put(&profile(&json!({"hpa": {"mode": "Off"}})));
    world.becomes("off", 80).await;
    assert_eq!(world.told("ModeNotOffered"), 0);
    let mut settings = Settings::clone(&world.settings.load());
    settings.hpa_unserved = vec![plimsoll_core::profile::HpaMode::Shim];
    world.settings.store(Arc::new(settings));
    world.put(&profile(&json!({"hpa": {"mode": "Shim"}})));
    world.becomes("nobody serves it", "800m").await;
    eventually("said", || world.told("ModeNotOffered") == 1).await;
    assert!(world.fake.events().iter().any(|(_, note)| note.contains("hpa.shim.enabled")));
    assert!(world.is_quiet().await);
    assert_eq!(world.told("ModeNotOffered"), 1, "once");
    // The configuration's mode, reloaded.
    world.put(&profile(&json!({})));
    world.becomes("converted", "800m").await;
    let mut settings = Settings::clone(&world.settings.load());
    settings.hpa_mode = plimsoll_core::profile::HpaMode::Off;
    world.settings.store(Arc::new(settings));
    world.becomes("off for all", 80).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_converted_is_told_once() {
    let mut world = World::new();
    world.put(&deployment(None));
    world.fake.put_hpa(hpa(80));
    world.lead();
    eventually("told", || world.told("HpaNotConverted") == 1).await;
    assert!(
        world.fake.events()[0].1.contains("container app has no cpu request"),
        "{:?}",
        world.fake.events()
    );
    for index in 0..5 {
        let mut unlike = pod(&format!("p-{index}"), "1", "500m");
        unlike["spec"]["containers"][0] = container(None);
        world.fake.put_pod(unlike);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert!(world.is_quiet().await);
    assert_eq!((world.told("HpaNotConverted"), world.states("incomplete")), (1, 1));
    assert_eq!(world.fake.patches().len(), 1, "the webhook is told to wait, and that once");
    assert_eq!(world.target(), (json!(80), false));
    // A record that somebody broke.
    let mut broken = hpa(80);
    broken["metadata"]["annotations"] = json!({"plimsoll.dev/hpa-original": "{"});
    broken["spec"]["metrics"][0]["resource"]["target"] = json!({"type": "AverageValue", "averageValue": "1"});
    world.fake.put_hpa(broken);
    eventually("told", || world.told("HpaRecordUnreadable") == 1).await;
    assert!(world.is_quiet().await);
    assert_eq!(world.states("unreadable"), 1);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn workloads_of_other_kinds_are_known_by_their_scale() {
    let mut world = World::new();
    let mut other = hpa(80);
    other["spec"]["scaleTargetRef"] =
        json!({"apiVersion": "example.org/v1", "kind": "Rollout", "name": "web"});
    world.fake.put_pod(pod("a", "1", "500m"));
    world.fake.put_hpa(other);
    world.lead();
    assert!(world.is_quiet().await, "the kind is not there");
    let resources =
        json!([{"name": "rollouts", "kind": "Rollout"}, {"name": "rollouts/scale", "kind": "Scale"}]);
    world.fake.put_other("/apis/example.org/v1", json!({"kind": "APIResourceList", "resources": resources}));
    let scale = json!({"kind": "Scale", "status": {"selector": "app=web"}});
    world.fake.put_other("/apis/example.org/v1/namespaces/shop/rollouts/web/scale", scale);
    world.becomes("by its pods", "800m").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_are_written_at_the_pace_that_is_set() {
    let mut world = World::with("hpa: {writesPerSecond: 5}");
    world.put(&deployment(Some("1")));
    for index in 0..30 {
        let mut one = hpa(80);
        one["metadata"]["name"] = json!(format!("web-{index}"));
        world.fake.put_hpa(one);
    }
    let started = Instant::now();
    world.lead();
    eventually("all", || world.states("converted") >= 30 && world.fake.patches().len() >= 30).await;
    assert!(started.elapsed() >= Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(world.is_quiet().await);
    assert_eq!(world.fake.patches().len(), 30, "each once");
    world.stop().await;
}
