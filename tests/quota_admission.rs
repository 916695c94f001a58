//! Pods that wait for the ledger: several replicas, one ledger, and everything that can go wrong between them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use plimsoll::metrics::Metrics;
use plimsoll::quota::admission::{Queue, Verdict, queue};
use plimsoll::quota::{Faults, LedgerStore, MemoryLedgerStore, content};
use plimsoll_core::objects::{Objects, read_manifest};
use plimsoll_core::quota::Amounts;
use plimsoll_core::quota::ledger::{
    Busy, Claimant, Ledger, Request, ReservationKey, ReservationKind, Ruling,
};
use serde_json::json;

const UNIT: i128 = 1_000_000_000;
const TREE: &str = "tree";
const BUDGET: Duration = Duration::from_secs(20);

/// A tree with one leaf of 20 CPUs, and one beside it that owns the other 20.
fn objects(generation: i64) -> Objects {
    let manifest = json!({
        "apiVersion": "scheduling.sigs.k8s.io/v1beta1", "kind": "ElasticQuotaTree",
        "metadata": { "name": TREE, "namespace": "kube-system", "uid": "tree-uid", "generation": generation },
        "spec": { "root": {
            "name": "root", "min": { "cpu": 40 }, "max": { "cpu": 40 },
            "children": [
                { "name": "a", "namespaces": ["one"], "min": { "cpu": 20 }, "max": { "cpu": 20 } },
                { "name": "b", "namespaces": ["two"], "min": { "cpu": 20 }, "max": { "cpu": 40 } },
            ],
        } },
    });
    let mut objects = Objects::default();
    objects.put(read_manifest(&manifest).unwrap().unwrap());
    assert!(matches!(objects.quota_tree(), Some(tree) if tree.problems.is_empty()));
    objects
}

struct Cluster {
    store: MemoryLedgerStore,
    objects: Arc<ArcSwap<Objects>>,
}

impl Cluster {
    /// A counted ledger in which `two` uses so many CPUs.
    async fn with(used: i128) -> Self {
        let cluster = Self {
            store: MemoryLedgerStore::default(),
            objects: Arc::new(ArcSwap::from_pointee(objects(1))),
        };
        let tree = Arc::clone(&cluster.objects.load().quota_tree().unwrap().tree);
        let mut ledger = Ledger { initialised: true, ..Ledger::unknown(&tree, 1) };
        if used > 0 {
            ledger.committed.insert("two".into(), cpu(used));
        }
        cluster.store.create(TREE, &content::write(&ledger).unwrap()).await.unwrap();
        cluster
    }

    fn replica(&self) -> Queue {
        self.replica_within(BUDGET)
    }

    fn replica_within(&self, budget: Duration) -> Queue {
        let metrics = Arc::new(Metrics::new("test"));
        let (queue, decider) =
            queue(self.store.clone(), Arc::clone(&self.objects), metrics, Arc::default(), budget);
        tokio::spawn(decider.run());
        queue
    }

    async fn ledger(&self) -> Ledger {
        content::read(&self.store.read(TREE).await.unwrap().unwrap().spec).unwrap()
    }
}

fn cpu(units: i128) -> Amounts {
    [("cpu", units * UNIT), ("pods", UNIT)].into_iter().collect()
}

fn pod(namespace: &str, uid: &str, units: i128) -> Request {
    Request {
        key: ReservationKey { uid: uid.into(), kind: ReservationKind::Create },
        namespace: namespace.into(),
        name: uid.into(),
        from: Amounts::new(),
        to: cpu(units),
        claimant: Claimant {
            namespace: namespace.to_owned(),
            uid: format!("{namespace}-owner"),
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: "web".to_owned(),
        },
        dry_run: false,
    }
}

fn admitted(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Ruled(Ruling::Admitted, _))
}

async fn all(asked: impl IntoIterator<Item = (Queue, Request)>) -> Vec<Verdict> {
    let asked: Vec<_> = asked
        .into_iter()
        .map(|(queue, request)| tokio::spawn(async move { queue.ask(request).await }))
        .collect();
    let mut verdicts = Vec::new();
    for one in asked {
        verdicts.push(one.await.unwrap());
    }
    verdicts
}

#[tokio::test(start_paused = true)]
async fn n1_one_slot_and_two_replicas() {
    let cluster = Cluster::with(0).await;
    let (first, second) = (cluster.replica(), cluster.replica());
    assert!(admitted(&first.ask(pod("one", "filler", 19)).await));
    let verdicts = all([(first, pod("one", "x", 1)), (second, pod("one", "y", 1))]).await;
    assert_eq!(verdicts.iter().filter(|verdict| admitted(verdict)).count(), 1, "{verdicts:?}");
}

#[tokio::test(start_paused = true)]
async fn n2_eight_replicas_and_twenty_pods_each() {
    let cluster = Cluster::with(0).await;
    cluster.store.set_faults(Faults { delay: Duration::from_millis(3), ..Faults::default() });
    let replicas: Vec<_> = (0..8).map(|_| cluster.replica()).collect();
    let asked = (0..160).map(|i| (replicas[i % 8].clone(), pod("one", &format!("pod-{i}"), 1)));
    let verdicts = all(asked).await;
    assert_eq!(verdicts.iter().filter(|verdict| admitted(verdict)).count(), 20);
    assert_eq!(cluster.ledger().await.reservations.len(), 20, "and only they hold something");
    assert!(cluster.store.writes() < 40, "many are decided by one write: {}", cluster.store.writes());
}

#[tokio::test(start_paused = true)]
async fn n3_dry_runs_change_nothing() {
    let cluster = Cluster::with(0).await;
    let replica = cluster.replica();
    let before = (cluster.ledger().await, cluster.store.writes());
    for (units, fits) in [(20, true), (21, false)] {
        let request = Request { dry_run: true, ..pod("one", "dry", units) };
        for _ in 0..100 {
            assert_eq!(admitted(&replica.ask(request.clone()).await), fits, "{units}");
        }
    }
    assert_eq!((cluster.ledger().await, cluster.store.writes()), before);
}

#[tokio::test(start_paused = true)]
async fn n10_one_uid_twice_is_charged_once() {
    let cluster = Cluster::with(0).await;
    let (first, second) = (cluster.replica(), cluster.replica());
    for replica in [&first, &second, &first] {
        assert!(admitted(&replica.ask(pod("one", "same", 15)).await));
    }
    assert_eq!(cluster.ledger().await.reservations.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn n11_a_denial_stays_one_when_the_write_beside_it_conflicts() {
    let cluster = Cluster::with(0).await;
    cluster.store.set_faults(Faults { conflicts: 3, ..Faults::default() });
    let replica = cluster.replica();
    let verdicts =
        all([(replica.clone(), pod("one", "fits", 5)), (replica, pod("one", "too-large", 21))]).await;
    assert!(admitted(&verdicts[0]), "{verdicts:?}");
    assert!(
        matches!(&verdicts[1], Verdict::Ruled(Ruling::Refused { entitled: false, .. }, _)),
        "{verdicts:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_promises_nothing_twice() {
    let cluster = Cluster::with(0).await;
    cluster.store.set_faults(Faults { lost_answers: 2, ..Faults::default() });
    let replica = cluster.replica();
    assert!(admitted(&replica.ask(pod("one", "x", 20)).await), "found again by its UID");
    assert_eq!(
        cluster
            .ledger()
            .await
            .used(&cluster.objects.load().quota_tree().unwrap().tree)
            .at(cluster.objects.load().quota_tree().unwrap().tree.leaf_of("one").unwrap())
            .of("cpu"),
        20 * UNIT
    );
}

#[tokio::test(start_paused = true)]
async fn an_entitled_pod_leaves_a_claim_that_others_respect() {
    let cluster = Cluster::with(40).await;
    let replica = cluster.replica();
    for _ in 0..3 {
        let verdict = replica.ask(pod("one", "first", 5)).await;
        assert!(matches!(&verdict, Verdict::Ruled(Ruling::Refused { entitled: true, .. }, _)), "{verdict:?}");
    }
    let ledger = cluster.ledger().await;
    assert_eq!(ledger.claims.len(), 1, "one for an owner and charge");
    // Room becomes free, and the borrower wants it back.
    let freed = Ledger { committed: [("two".into(), cpu(35))].into(), ..ledger };
    let version = cluster.store.read(TREE).await.unwrap().unwrap().version;
    cluster.store.replace(TREE, &version, &content::write(&freed).unwrap()).await.unwrap();
    let verdict = replica.ask(pod("two", "borrower", 5)).await;
    let Verdict::Ruled(Ruling::Refused { blocks, entitled: false, .. }, _) = &verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(blocks[0].claimed, 5 * UNIT);
    assert!(admitted(&replica.ask(pod("one", "second", 5)).await), "the owner gets it");
    assert!(cluster.ledger().await.claims.is_empty(), "and the claim ends");
}

#[tokio::test(start_paused = true)]
async fn n16_a_ledger_that_is_gone_or_not_counted_refuses() {
    let cluster = Cluster::with(0).await;
    let replica = cluster.replica();
    cluster.store.vanish(TREE);
    assert_eq!(replica.ask(pod("one", "x", 1)).await, Verdict::NotReady(Busy::NotInitialised));
    let tree = Arc::clone(&cluster.objects.load().quota_tree().unwrap().tree);
    let spec = content::write(&Ledger::unknown(&tree, 2)).unwrap();
    cluster.store.create(TREE, &spec).await.unwrap();
    assert_eq!(replica.ask(pod("one", "x", 1)).await, Verdict::NotReady(Busy::NotInitialised));
}

#[tokio::test(start_paused = true)]
async fn generations_that_differ_are_waited_for_and_never_judged_by() {
    let cluster = Cluster::with(0).await;
    let replica = cluster.replica_within(Duration::from_secs(2));
    cluster.objects.store(Arc::new(objects(2)));
    assert_eq!(replica.ask(pod("one", "x", 1)).await, Verdict::Late, "the ledger is behind");
    let asked = tokio::spawn({
        let replica = replica.clone();
        async move { replica.ask(pod("one", "y", 1)).await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let stored = cluster.store.read(TREE).await.unwrap().unwrap();
    let mut ledger = content::read(&stored.spec).unwrap();
    ledger.tree.generation = 2;
    cluster.store.replace(TREE, &stored.version, &content::write(&ledger).unwrap()).await.unwrap();
    assert!(admitted(&asked.await.unwrap()), "as soon as it has followed");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_waited_for_no_longer_than_the_budget() {
    let cluster = Cluster::with(0).await;
    let replica = cluster.replica_within(Duration::from_secs(2));
    cluster.store.set_faults(Faults { down: true, ..Faults::default() });
    let began = tokio::time::Instant::now();
    assert_eq!(replica.ask(pod("one", "x", 1)).await, Verdict::Late);
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    cluster.store.set_faults(Faults::default());
    assert!(admitted(&replica.ask(pod("one", "y", 1)).await), "and asked again afterwards");
    assert_eq!(
        cluster.ledger().await.reservations.len(),
        1,
        "nothing is promised to who was told to come again"
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_tree_nothing_is_bound() {
    let cluster = Cluster::with(40).await;
    let replica = cluster.replica();
    cluster.objects.store(Arc::default());
    let verdict = replica.ask(pod("one", "x", 500)).await;
    assert!(matches!(&verdict, Verdict::Ruled(Ruling::NotBound, _)), "{verdict:?}");
}
