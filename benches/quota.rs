//! A decision and a reclaim plan in a tree of 10,000 leaves with 100,000 pods.
//!
//! `sorting after each pick` finds the same victims the plain way, for scale.

#![allow(clippy::unwrap_used, reason = "what is measured is right, or the run is worth nothing")]

use std::cmp::Reverse;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion};
use plimsoll_core::pod::{PodView, Pruned};
use plimsoll_core::quota::{
    Amounts, Block, Candidates, Honour, Node, NodeId, PodNames, QuotaPod, Situation, Tree, Used, blocks,
    charge, is_entitled, plan,
};
use serde_json::json;

/// As in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const UNIT: i128 = 1_000_000_000;
const GROUPS: usize = 100;
const LEAVES_OF_A_GROUP: usize = 100;
const PODS_OF_A_LEAF: usize = 10;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let world = World::new();
    decisions(&mut criterion, &world);
    plans(&mut criterion, &world);
    criterion.final_summary();
}

struct World {
    pods: Vec<Arc<QuotaPod>>,
    candidates: Candidates,
    used: Used,
    nothing: Used,
    /// The one leaf that has no pods.
    leaf: NodeId,
}

fn cpu(cpu: i128, memory: i128) -> Amounts {
    [("cpu", cpu * UNIT), ("memory", memory * UNIT), ("pods", UNIT)].into_iter().collect()
}

fn whole(cpu: usize) -> i128 {
    i128::try_from(cpu).unwrap()
}

impl World {
    /// Every leaf owns 5 CPUs of the 10 that its pods have; all of the root is in use.
    fn new() -> Self {
        let leaves = GROUPS * LEAVES_OF_A_GROUP;
        let ids = Tree::new("", "", 0, (0..=GROUPS).map(|_| Node::default()));
        let pods = whole((leaves - 1) * PODS_OF_A_LEAF);
        let node =
            |name: String, parent: Option<usize>, min: i128, max: i128, namespace: Option<String>| Node {
                name: name.into(),
                parent: parent.map(|index| ids.id(index).unwrap()),
                min: cpu(min, min),
                max: [("cpu", max * UNIT), ("memory", 4 * max * UNIT)].into_iter().collect(),
                namespaces: namespace.into_iter().map(Into::into).collect(),
                ..Node::default()
            };
        let mut nodes = vec![node("root".to_owned(), None, pods, pods, None)];
        let per_group = whole(LEAVES_OF_A_GROUP);
        nodes.extend(
            (0..GROUPS).map(|group| node(format!("group-{group}"), Some(0), 5 * per_group, pods, None)),
        );
        nodes.extend((0..leaves).map(|leaf| {
            let above = 1 + leaf / LEAVES_OF_A_GROUP;
            node(format!("leaf-{leaf}"), Some(above), 5, pods, Some(format!("namespace-{leaf}")))
        }));
        let tree = Arc::new(Tree::new("t", "", 1, nodes));
        let pods: Vec<Arc<QuotaPod>> = (1..leaves)
            .flat_map(|leaf| (0..PODS_OF_A_LEAF).map(move |pod| (leaf, pod)))
            .map(|(leaf, pod)| {
                Arc::new(QuotaPod {
                    namespace: format!("namespace-{leaf}").into(),
                    name: format!("web-5d8f7c6b4-{pod}").into(),
                    uid: "".into(),
                    version: 0,
                    charge: cpu(1, 1),
                    priority: 0,
                    ready: true,
                    created: i64::try_from(leaf * 7919 % 10_007 + pod).unwrap(),
                    terminating: false,
                    terminal: false,
                    mirror: false,
                    not_preemptible: false,
                    do_not_evict: false,
                    controller: None,
                })
            })
            .collect();
        let mut candidates = Candidates::new(Arc::clone(&tree));
        let mut used = Used::new(&tree);
        for pod in &pods {
            used.add(&tree, tree.leaf_of(&pod.namespace).unwrap(), &pod.charge);
            candidates.put(Arc::clone(pod));
        }
        let leaf = tree.leaf_of("namespace-0").unwrap();
        Self { pods, nothing: Used::new(&tree), candidates, used, leaf }
    }

    fn tree(&self) -> &Tree {
        self.candidates.tree()
    }

    fn blocks(&self, charge: &Amounts) -> Vec<Block> {
        blocks(self.tree(), &self.used, &self.nothing, self.leaf, charge)
    }
}

fn decisions(criterion: &mut Criterion, world: &World) {
    let container = |name: &str| json!({"name": name, "image": "i", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}});
    let pod = json!({"metadata": {"name": "p", "namespace": "namespace-77"},
        "spec": {"containers": [container("app"), container("proxy")], "initContainers": [container("init")]}});
    let pruned = Pruned::of(&pod);
    let view = PodView::read(&pruned).unwrap();
    let tree = world.tree();
    criterion.bench_function("quota/decision, with what the pod counts", |b| {
        b.iter(|| {
            let charge = charge(black_box(&view)).unwrap();
            let leaf = tree.leaf_of("namespace-77").unwrap();
            let blocks = blocks(tree, &world.used, &world.nothing, leaf, &charge);
            let entitled = is_entitled(tree, &world.used, &world.nothing, leaf, &charge, &blocks);
            assert!(!blocks.is_empty() && !entitled, "refused, and already a borrower");
            blocks
        });
    });
}

fn plans(criterion: &mut Criterion, world: &World) {
    let mut group = criterion.benchmark_group("quota/plan");
    group.sample_size(20);
    for victims in [1_usize, 5] {
        let charge = cpu(whole(victims), 0);
        let blocks = world.blocks(&charge);
        let planned = || {
            plan(&Situation {
                pods: &world.candidates,
                used: &world.used,
                claimed: &world.nothing,
                unseen: &world.nothing,
                leaf: world.leaf,
                charge: &charge,
                blocks: &blocks,
                honour: &Honour::Nowhere,
                excluded: &PodNames::new(),
            })
        };
        let found: Vec<_> = planned().victims().iter().map(|victim| Arc::clone(&victim.pod)).collect();
        assert_eq!(found, naive(world, victims), "both find the same");
        group.bench_function(BenchmarkId::new("indexed", victims), |b| b.iter(planned));
        group.bench_function(BenchmarkId::new("sorting after each pick", victims), |b| {
            b.iter(|| naive(world, victims));
        });
    }
    // 20 CPUs more than the leaf owns cannot be asked for; what no pod may be evicted for costs most.
    let charge = cpu(5, 0);
    let blocks = world.blocks(&charge);
    let all: PodNames =
        world.pods.iter().map(|pod| (Arc::clone(&pod.namespace), Arc::clone(&pod.name))).collect();
    let none = Situation {
        pods: &world.candidates,
        used: &world.used,
        claimed: &world.nothing,
        unseen: &world.nothing,
        leaf: world.leaf,
        charge: &charge,
        blocks: &blocks,
        honour: &Honour::Nowhere,
        excluded: &all,
    };
    group.bench_function("indexed, nobody can be evicted", |b| b.iter(|| plan(black_box(&none))));
    group.finish();
    criterion.bench_function("quota/a pod changes", |b| {
        let mut candidates = world.candidates.clone();
        let pod = world.pods.last().unwrap();
        b.iter(|| candidates.put(Arc::clone(pod)));
    });
}

/// All pods sorted anew for each pick.
fn naive(world: &World, victims: usize) -> Vec<Arc<QuotaPod>> {
    let tree = world.tree();
    let mut used = world.used.clone();
    let mut found: Vec<Arc<QuotaPod>> = Vec::new();
    while found.len() < victims {
        let mut pods: Vec<&Arc<QuotaPod>> = world
            .pods
            .iter()
            .filter(|pod| {
                let leaf = tree.leaf_of(&pod.namespace).unwrap();
                used.at(leaf).of("cpu") - pod.charge.of("cpu") >= tree.node(leaf).unwrap().min.of("cpu")
                    && !found.iter().any(|victim| Arc::ptr_eq(victim, pod))
            })
            .collect();
        pods.sort_by_cached_key(|pod| {
            let leaf = tree.leaf_of(&pod.namespace).unwrap();
            let excess = used.at(leaf).of("cpu") - tree.node(leaf).unwrap().min.of("cpu");
            let names = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
            (pod.priority, pod.ready, Reverse(excess), Reverse(pod.created), names)
        });
        let victim = Arc::clone(pods.first().unwrap());
        used.subtract(tree, tree.leaf_of(&victim.namespace).unwrap(), &victim.charge);
        found.push(victim);
    }
    found
}
