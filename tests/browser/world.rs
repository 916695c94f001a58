//! A cluster as the pages know it: figures, recommendations, a quota tree, nodes, rounds, decisions, and an API server
//! that has the checkpoint and the pods of workloads.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use plimsoll::api::Sources;
use plimsoll::balance::{Candidate, Outcome, Report, Rounds, SparedPod};
use plimsoll::config;
use plimsoll::dashboard::Cluster;
use plimsoll::decisions::{Decided, Decisions};
use plimsoll::placement::{PlacedPods, PlacementState};
use plimsoll::quota::content::Known;
use plimsoll::server::{Readiness, Shutdown, Stage};
use plimsoll::survey::{Survey, Surveys};
use plimsoll_core::objects::{Objects, read_manifest};
use plimsoll_core::placement::{
    ByMetric, LoadSnapshot, Metric, NodeLoad, Placed, PlacedPod, Settings, WorkloadKey,
};
use plimsoll_core::pod::Workload;
use plimsoll_core::quota::ledger::{Claim, Claimant, Ledger};
use plimsoll_core::quota::{Amounts, Node, Tree};
use plimsoll_core::savings::{Figures, Measured, Row, Savings};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const CORE: i128 = 1_000_000_000;
const MIB: i128 = (1 << 20) * CORE;

/// A name that wants to be markup, and to turn the direction of writing.
pub(crate) const HOSTILE: &str = "<img src=x onerror=alert(1)>\u{202e}\"'&";

const NAMESPACES: [&str; 12] = [
    "shop",
    "payments",
    "search",
    "catalog",
    "media",
    "analytics",
    "ml-serving",
    "identity",
    "mail",
    "billing",
    "ci",
    "support",
];
const NAMES: [&str; 12] = [
    "web",
    "api",
    "worker",
    "cache",
    "gateway",
    "indexer",
    "scheduler",
    "reports",
    "queue",
    "thumbnails",
    "auth",
    "exporter",
];

/// Which node is above it, its name, minimum and maximum, and its namespaces.
type TreeNode<'a> = (Option<usize>, &'a str, Amounts, Amounts, &'a [&'a str]);
/// Namespace, name, outcome, where it was decided, the profile, and why.
type Words<'a> = (&'a str, &'a str, &'static str, Stage, Option<&'a str>, &'a str);

/// The same numbers at each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> i128 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i128::from((self.0 >> 33) % sides)
    }
}

/// A cluster with so many workloads.
pub(crate) async fn sources(workloads: usize) -> Sources {
    let now = Timestamp::now();
    let (survey, objects) = cluster(workloads, now);
    let surveys = Surveys::default();
    // An hour of looks at a few workloads; of many, one look is enough.
    let looks = if workloads > 1000 { 1 } else { 60 };
    for look in (0..looks).rev() {
        surveys.put(earlier(&survey, look, now));
    }
    let readiness = healthy();
    readiness
        .condition("pods of placement")
        .degraded("the list of pods is 40 s old; the API server answers slowly");
    let objects = Arc::new(ArcSwap::from_pointee(objects));
    let settings = plimsoll_core::admission::Settings::default();
    Sources {
        ledger: Arc::new(ArcSwapOption::from_pointee(quota(now))),
        placement: Some(placement(&objects, now)),
        balance: Some(rounds(now)),
        decisions: decisions(now),
        surveys: Some(surveys),
        readiness,
        settings: Arc::new(ArcSwap::from_pointee(settings)),
        cluster: Some(Cluster::new(api_server(now).await)),
        objects,
        ..Sources::default()
    }
}

/// A server of which nothing is wrong.
pub(crate) fn healthy() -> Readiness {
    let readiness = Readiness::new(Shutdown::new());
    readiness.condition("snapshots").ready();
    readiness.condition("certificate").ready();
    readiness
}

/// Workload `index`: its namespace, kind and name.
fn key(index: usize) -> WorkloadKey {
    let namespace = NAMESPACES[index % NAMESPACES.len()];
    let round = index / NAMESPACES.len();
    let name = NAMES[(round + index) % NAMES.len()];
    let name = if round < NAMES.len() { name.to_owned() } else { format!("{name}-{}", round / NAMES.len()) };
    let kind = if index % 5 == 3 { "StatefulSet" } else { "Deployment" };
    let workload = Workload { group: "apps".to_owned(), kind: kind.to_owned(), name };
    WorkloadKey { namespace: namespace.into(), workload: workload.into() }
}

fn cluster(workloads: usize, now: Timestamp) -> (Survey, Objects) {
    let mut dice = Dice(7);
    let mut objects = Objects::default();
    let mut put = |manifest: Value| objects.put(read_manifest(&manifest).unwrap().unwrap());
    for name in NAMESPACES {
        put(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"plimsoll.dev/pool": "shared"}}}),
        );
    }
    put(json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile", "metadata": {"name": "shared-pool"},
        "spec": {"mode": "StaticThenDynamic", "match": {"pools": ["shared"]}, "static": {"factors": {"cpu": "0.5"}}},
    }));
    for index in 0..24 {
        put(node(index));
    }
    let mut savings = Savings::default();
    let mut examples = std::collections::HashMap::new();
    for index in 0..workloads {
        let key = key(index);
        let pods = 1 + dice.roll(12);
        let before = (200 + 100 * dice.roll(18)) * CORE / 1000;
        let memory = (256 + 128 * dice.roll(30)) * MIB;
        let row = Row {
            pods: pods.unsigned_abs() as u64,
            lowered: pods.unsigned_abs() as u64,
            measured: Measured { cpu: pods.unsigned_abs() as u64, memory: pods.unsigned_abs() as u64 },
            before: Figures { cpu: pods * before, memory: pods * memory },
            now: Figures {
                cpu: pods * before * (35 + dice.roll(40)) / 100,
                memory: pods * memory * (60 + dice.roll(40)) / 100,
            },
            used: Figures {
                cpu: pods * before * (8 + dice.roll(25)) / 100,
                memory: pods * memory * (30 + dice.roll(28)) / 100,
            },
            now_of_measured: Figures::default(),
        };
        let row = Row { now_of_measured: row.now, ..row };
        examples.insert(key.clone(), format!("{}-7f9c-x2x", key.workload.name).into());
        put(recommendation(&key, now));
        savings.workloads.insert(key, row);
    }
    put(json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"namespace": "shop", "name": "web", "uid": "h"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 2, "maxReplicas": 20,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 160}}}],
        },
    }));
    let hostile =
        Workload { group: "apps".to_owned(), kind: "Deployment".to_owned(), name: HOSTILE.to_owned() };
    let hostile = WorkloadKey { namespace: "shop".into(), workload: hostile.into() };
    let row = Row {
        pods: 1,
        before: Figures { cpu: CORE, memory: MIB },
        now: Figures { cpu: CORE, memory: MIB },
        ..Row::default()
    };
    savings.workloads.insert(hostile, row);
    (Survey { savings, examples, taken: now, problems: Vec::new() }, objects)
}

/// The survey as it was so many half minutes ago.
fn earlier(survey: &Survey, look: i32, now: Timestamp) -> Survey {
    let mut past = survey.clone();
    past.taken = now - SignedDuration::from_secs(i64::from(look) * 30);
    for row in past.savings.workloads.values_mut() {
        let wave = 100 + (f64::from(look) / 5.0).sin().mul_add(14.0, f64::from(look % 7)) as i128;
        row.used.cpu = row.used.cpu * wave / 100;
        row.used.memory = row.used.memory * (100 - i128::from(look) / 8) / 100;
    }
    past
}

fn node(index: usize) -> Value {
    let class = ["low", "mid", "high"][index % 3];
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": format!("node-{index:02}"), "labels": {"plimsoll.dev/load-class": class}},
        "spec": {"unschedulable": index == 5},
        "status": {
            "capacity": {"cpu": "64", "memory": "256Gi", "pods": "110"}, "allocatable": {"cpu": "63", "memory": "250Gi"},
            "conditions": [{"type": "Ready", "status": if index == 11 { "False" } else { "True" }}],
        },
    })
}

fn recommendation(key: &WorkloadKey, now: Timestamp) -> Value {
    let ago = |seconds| (now - SignedDuration::from_secs(seconds)).to_string();
    json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "Recommendation",
        "metadata": {"namespace": &*key.namespace, "name": format!("{}-{}", key.workload.kind.to_lowercase(), key.workload.name)},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": key.workload.kind, "name": key.workload.name}, "profile": "shared-pool"},
        "status": {
            "containers": [{
                "name": "app", "samples": 11_520, "firstSample": ago(8 * 86_400), "lastSample": ago(45),
                "cpu": {"target": "410m", "lower": "180m", "upper": "760m", "original": "1", "effective": "472m"},
                "memory": {"target": "612Mi", "lower": "540Mi", "upper": "700Mi", "original": "1Gi", "effective": "704Mi"},
            }],
            "conditions": [{"type": "Ready", "status": "True", "reason": "Enough", "message": "8 days of samples"}],
        },
    })
}

fn quota(now: Timestamp) -> Known {
    let amounts = |cpu: i128, gib: i128| -> Amounts {
        [("cpu", cpu * CORE), ("memory", gib * 1024 * MIB)].into_iter().collect()
    };
    let nodes: [TreeNode<'_>; 7] = [
        (None, "company", Amounts::new(), amounts(800, 3200), &[]),
        (Some(0), "products", amounts(400, 1600), amounts(700, 2800), &[]),
        (Some(0), "platform", amounts(200, 800), amounts(400, 1600), &[]),
        (Some(1), "shop", amounts(200, 800), amounts(400, 1600), &["shop", "catalog"]),
        (Some(1), "payments", amounts(150, 600), amounts(300, 1200), &["payments", "billing"]),
        (Some(2), "ci", amounts(80, 300), amounts(240, 900), &["ci"]),
        (Some(2), "search", amounts(90, 400), amounts(200, 800), &["search"]),
    ];
    let make = |parent, name: &str, min: &Amounts, max: &Amounts, namespaces: &[&str]| Node {
        name: name.into(),
        parent,
        min: min.clone(),
        max: max.clone(),
        namespaces: namespaces.iter().map(|name| (*name).into()).collect(),
        ..Node::default()
    };
    let flat = Tree::new(
        "company",
        "u",
        1,
        nodes.iter().map(|(_, name, min, max, of)| make(None, name, min, max, of)),
    );
    let all = nodes.iter().map(|(parent, name, min, max, of)| {
        make(parent.and_then(|index| flat.id(index)), name, min, max, of)
    });
    let tree = Arc::new(Tree::new("company", "u", 1, all));
    let mut ledger = Ledger { initialised: true, ..Ledger::unknown(&tree, 7) };
    for (namespace, cpu, gib) in [
        ("shop", 231, 760),
        ("catalog", 62, 210),
        ("payments", 96, 420),
        ("ci", 171, 402),
        ("search", 41, 380),
    ] {
        ledger.committed.insert(namespace.into(), amounts(cpu, gib));
    }
    ledger.claims.push(Claim {
        number: 12,
        claimant: Claimant {
            namespace: "payments".to_owned(),
            uid: "o".to_owned(),
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: "settlement-6d4c".to_owned(),
        },
        charge: amounts(4, 16),
        created: now.as_second() - 42,
        retried: 0,
    });
    Known { tree, ledger, at: now - SignedDuration::from_secs(2) }
}

fn placement(objects: &Arc<ArcSwap<Objects>>, now: Timestamp) -> PlacementState {
    let mut dice = Dice(3);
    let mut state = PlacementState::new(Settings::default(), Arc::clone(objects));
    let pods = (0..240).map(|index| {
        let pod = json!({
            "metadata": {"namespace": "shop", "name": format!("web-{index}"), "uid": format!("u{index}")},
            "spec": {"nodeName": format!("node-{:02}", index % 24), "containers": [{"name": "app", "image": "shop/web:1", "resources": {"requests": {"cpu": "2", "memory": "6Gi"}}}]},
        });
        PlacedPod::read(&pod, &objects.load()).unwrap()
    });
    state.pods = PlacedPods::of(Placed::listed(pods));
    let nanos = i64::try_from(now.as_nanosecond()).unwrap();
    let mut nodes = std::collections::HashMap::new();
    for index in 0..24 {
        let base = if index == 7 { 86.0 } else { 24.0 + dice.roll(40) as f64 };
        let window = |add: f64| {
            let mut means = ByMetric::default();
            for (metric, factor) in
                [(Metric::Cpu, 1.0), (Metric::Memory, 0.8), (Metric::Disk, 0.4), (Metric::Load, 1.1)]
            {
                means.set(metric, Some((base + add) / 100.0 * factor));
            }
            means
        };
        let load = NodeLoad {
            means: vec![window(6.0), window(2.0), window(0.0)],
            sampled: nanos - 9_000_000_000,
            ..NodeLoad::default()
        };
        nodes.insert(Arc::from(format!("node-{index:02}")), load);
    }
    state
        .load
        .store(Arc::new(LoadSnapshot { nodes: nodes.into_iter().collect(), taken: nanos - 8_000_000_000 }));
    state
}

fn rounds(now: Timestamp) -> Rounds {
    let balance = config::Balance { dry_run: true, ..balance() };
    let holder = Arc::new(ArcSwap::from_pointee("plimsoll-a".to_owned()));
    let rounds = Rounds::new(holder, "plimsoll-a", Arc::new(ArcSwap::from_pointee(balance)));
    let candidate = |name: &str, outcome| Candidate {
        namespace: "search".to_owned(),
        name: name.to_owned(),
        workload: "Deployment/indexer".to_owned(),
        priority: 0,
        qos: "Burstable",
        cpu: 3.4,
        memory: 6.2e9,
        part: 0.11,
        target: "node-02".to_owned(),
        outcome,
        message: None,
    };
    for age in [600, 300, 0] {
        rounds.add(Report {
            at: now - SignedDuration::from_secs(age + 40),
            verdict: if age == 0 { "relieve" } else { "balanced" },
            why: if age == 0 {
                "node-07 is used by 0.8600, and nodes by 0.4300 on average".to_owned()
            } else {
                "no node is used much more than the others".to_owned()
            },
            mean: 0.43,
            source: None,
            nodes: Vec::new(),
            node_count: 23,
            target_count: if age == 0 { 9 } else { 0 },
            candidates: if age == 0 {
                vec![
                    candidate("indexer-5d8-abcde", Outcome::WouldBeEvicted),
                    candidate("indexer-5d8-fghij", Outcome::Later),
                ]
            } else {
                Vec::new()
            },
            spared: if age == 0 {
                vec![SparedPod {
                    namespace: "mail".to_owned(),
                    name: "queue-0".to_owned(),
                    reason: "storage",
                    why: "it has a volume on this node".to_owned(),
                }]
            } else {
                Vec::new()
            },
            stuck: Vec::new(),
            came_back: Vec::new(),
        });
    }
    rounds
}

fn balance() -> config::Balance {
    let loaded = config::load(&config::Sources::default()).unwrap();
    loaded.config.placement.balance
}

fn decisions(now: Timestamp) -> Decisions {
    let decisions = Decisions::default();
    let shared = Some("shared-pool");
    let words: [Words<'_>; 6] = [
        (
            "shop",
            "web-7f9c-x2x",
            "applied",
            Stage::Mutate,
            shared,
            "shared-pool: app cpu 1->472m dynamic(410m), memory 1Gi->704Mi dynamic(612Mi)",
        ),
        (
            "payments",
            "api-6c5d-k8s",
            "applied",
            Stage::Mutate,
            shared,
            "shared-pool: app cpu 500m->250m static(0.5)",
        ),
        (
            "ci",
            "build-4711…",
            "denied",
            Stage::Validate,
            None,
            "cpu of ci: 171 are used of at most 240, and 96 more are asked for",
        ),
        ("mail", "queue-0", "skipped_pod_opt_out", Stage::Mutate, shared, "the pod opts out"),
        ("search", "indexer-5d8-abcde", "unchanged", Stage::Mutate, shared, "shared-pool: nothing to lower"),
        ("shop", HOSTILE, "skipped_no_profile", Stage::Mutate, None, "no profile matches <b>this</b>"),
    ];
    for index in (0..180_usize).rev() {
        let (namespace, name, outcome, stage, profile, why) = words[index % words.len()];
        decisions.record(Decided {
            at: now - SignedDuration::from_secs(i64::try_from(index).unwrap() * 17 + 3),
            number: 0,
            stage,
            operation: "CREATE".into(),
            kind: "Pod".into(),
            namespace: namespace.into(),
            name: name.into(),
            dry_run: index % 17 == 4,
            outcome,
            profile: profile.map(Into::into),
            why: why.into(),
        });
    }
    decisions
}

/// An API server that has the checkpoint and the pod of every Deployment named `web`, may not show those of `api`, and
/// has nothing else.
async fn api_server(now: Timestamp) -> kube::Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(move |request: Request<Incoming>| async move {
                Ok::<_, Infallible>(answer(&request, now))
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    plimsoll::cluster::client(kube::Config::new(format!("http://{address}").parse().unwrap())).unwrap()
}

fn answer(request: &Request<Incoming>, now: Timestamp) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let (code, body) = if path.ends_with("/usagecheckpoints/deployment-web") {
        (200, checkpoint(now))
    } else if path.contains("/usagecheckpoints/deployment-api") {
        (
            403,
            json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "usagecheckpoints is forbidden"}),
        )
    } else if path.ends_with("/pods") {
        let query = request.uri().query().unwrap_or_default();
        let is_web = query.contains("metadata.name%3Dweb-") || query.contains("metadata.name=web-");
        let items = if is_web { vec![pod(path)] } else { Vec::new() };
        (200, json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}))
    } else {
        (
            404,
            json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not found"}),
        )
    };
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = code.try_into().unwrap();
    response
}

fn pod(path: &str) -> Value {
    let namespace = path.split('/').nth(4).unwrap_or_default();
    json!({
        "metadata": {
            "namespace": namespace, "name": "web-7f9c-x2x", "uid": "p",
            "annotations": {
                "plimsoll.dev/applied": "shared-pool: app cpu 1->472m dynamic(410m), memory 1Gi->704Mi dynamic(612Mi)",
                "plimsoll.dev/original-resources": json!({"containers": {"app": {"requests": {"cpu": "1", "memory": "1Gi"}, "set": {"cpu": "472m", "memory": "704Mi"}}}}).to_string(),
            },
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true}],
        },
        "spec": {"containers": [{"name": "app", "image": "shop/web:1", "resources": {"requests": {"cpu": "472m", "memory": "704Mi"}, "limits": {"cpu": "2", "memory": "2Gi"}}}]},
        "status": {"phase": "Running"},
    })
}

fn checkpoint(now: Timestamp) -> Value {
    let day = 86_400;
    let midnight = Timestamp::from_second(now.as_second() / day * day).unwrap().to_string();
    let ago = |seconds| (now - SignedDuration::from_secs(seconds)).to_string();
    let histogram = |weights: &str| json!({"halfLifeSeconds": day, "reference": midnight, "totalWeight": "900.5", "weights": weights});
    json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "UsageCheckpoint", "metadata": {"name": "deployment-web"},
        "spec": {
            "version": 1, "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "containers": [{
                "name": "app", "version": 1, "samples": 11_520, "firstSample": ago(8 * 86_400), "lastSample": ago(45),
                "cpu": histogram("8:900,2400,5200,8600,10000,9100,7000,5100,3300,2100,1300,800,450,260,140,80"),
                "memory": histogram("16:300,1500,4200,10000,8800,3600,1200,380,90"),
            }],
        },
    })
}

/// Pages by what they are about, with their heading.
pub(crate) fn pages() -> BTreeMap<&'static str, &'static str> {
    [
        ("/", "Overview"),
        ("/namespaces", "Namespaces"),
        ("/workloads", "Workloads"),
        ("/workloads/shop/Deployment/web", "web"),
        ("/quota", "Quota"),
        ("/nodes", "Nodes"),
        ("/decisions", "Decisions"),
        ("/status", "Status"),
    ]
    .into()
}
