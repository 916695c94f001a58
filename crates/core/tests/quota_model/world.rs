//! The world of the model.

mod leaders;
mod replicas;

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::quota::keeper::{Found, Keeper};
use plimsoll_core::quota::ledger::{Ledger, Request, Reservation, ReservationKey};
use plimsoll_core::quota::{Amounts, Node, QuotaPod, Tree, Used};

const UNIT: i128 = 1_000_000_000;
/// The webhook's timeout: the API server waits no longer for an answer.
const WEBHOOK_MS: u64 = 10_000;
/// The API server's request timeout: later no pod is stored.
const REQUEST_MS: u64 = 60_000;
const AGE_MS: u64 = WEBHOOK_MS + REQUEST_MS + 5_000;
const NAMESPACES: [&str; 4] = ["ns1", "ns2", "ns3", "ns4"];

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A new leader lists from a cache that is behind.
    StaleList,
    /// A new leader lists before it raises the epoch.
    ListBeforeEpoch,
    /// A create and a resize of one pod are one reservation.
    KeyedByUid,
    /// Reservations are taken for dead too early.
    ShortAge,
    /// A ledger that vanished is made anew at once.
    NoWait,
    /// The ledger is written without comparing versions.
    NoCompare,
    /// The leader does not look at the epoch.
    NoEpoch,
}

impl Fault {
    pub(crate) const ALL: [Self; 7] = [
        Self::StaleList,
        Self::ListBeforeEpoch,
        Self::KeyedByUid,
        Self::ShortAge,
        Self::NoWait,
        Self::NoCompare,
        Self::NoEpoch,
    ];
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone)]
enum Event {
    Put(Arc<QuotaPod>),
    Gone(Arc<str>),
}

/// A request that the API server has in hand.
#[derive(Clone)]
struct Call {
    request: Request,
    began: u64,
}

enum Replica {
    Idle,
    Read { version: u64, ledger: Ledger, calls: Vec<Call> },
    Write { version: u64, ledger: Ledger, admitted: Vec<Call> },
}

struct Leader {
    keeper: Keeper,
    /// How far it has read the events.
    position: usize,
    /// What it is about to write, over which version.
    writing: Option<(u64, Ledger)>,
    /// A list that the watch has made anew, and where it goes on from; heard before anything else.
    relisted: Option<(Vec<Arc<QuotaPod>>, u64, usize)>,
    /// A list for the recount that is not compared yet.
    recount: Option<(Vec<Arc<QuotaPod>>, u64)>,
    /// Reads of single pods that were answered and not yet told.
    read: Vec<(ReservationKey, Reservation, Found)>,
    /// Its clock shows another time than everybody else's.
    clock: u64,
    /// Not before this time is what is used counted anew.
    count_at: Option<u64>,
}

pub(crate) struct World {
    random: Random,
    fault: Option<Fault>,
    now: u64,
    trees: Vec<Arc<Tree>>,
    /// The stored ledger and its version.
    stored: Option<(u64, Ledger)>,
    version: u64,
    pods: BTreeMap<Arc<str>, Arc<QuotaPod>>,
    events: Vec<Event>,
    replicas: Vec<Replica>,
    waiting: Vec<Call>,
    /// Resizes that were asked for before; somebody may ask again.
    resizes: Vec<Request>,
    allowed: Vec<Call>,
    leaders: Vec<Leader>,
    next_uid: u64,
    epochs: u64,
    pub(crate) admitted: u64,
}

fn amounts(cpu: i128) -> Amounts {
    [("cpu", cpu * UNIT), ("pods", UNIT)].into_iter().collect()
}

fn tree(generation: i64) -> Tree {
    let bounds = |min: i128, max: i128| -> (Amounts, Amounts) {
        ([("cpu", min * UNIT)].into_iter().collect(), [("cpu", max * UNIT)].into_iter().collect())
    };
    let make = |name: &str, parent: Option<usize>, min, max, namespaces: &[&str]| {
        let (min, max) = bounds(min, max);
        (
            parent,
            Node {
                name: name.into(),
                min,
                max,
                namespaces: namespaces.iter().map(|n| (*n).into()).collect(),
                ..Node::default()
            },
        )
    };
    let nodes = [
        make("root", None, 40, 40, &[]),
        make("a", Some(0), 20, 40, &[]),
        make("b", Some(0), 20, 30, &[]),
        make("a1", Some(1), 10, 20, &["ns1"]),
        make("a2", Some(1), 10, 20, &["ns2"]),
        make("b1", Some(2), 20, 20, &["ns3", "ns4"]),
    ];
    // Ids are places in the list; a first tree without links gives them.
    let flat = Tree::new("t", "u", generation, nodes.iter().map(|(_, node)| node.clone()));
    let linked =
        nodes.into_iter().map(|(parent, node)| Node { parent: parent.and_then(|p| flat.id(p)), ..node });
    Tree::new("t", "u", generation, linked)
}

impl World {
    pub(crate) fn new(seed: u64, fault: Option<Fault>) -> Self {
        let mut world = Self {
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            fault,
            now: 1_000_000,
            trees: vec![Arc::new(tree(1))],
            stored: None,
            version: 0,
            pods: BTreeMap::new(),
            events: Vec::new(),
            replicas: (0..3).map(|_| Replica::Idle).collect(),
            waiting: Vec::new(),
            resizes: Vec::new(),
            allowed: Vec::new(),
            leaders: Vec::new(),
            next_uid: 0,
            epochs: 0,
            admitted: 0,
        };
        let ledger = Ledger { initialised: true, ..Ledger::unknown(world.tree(), 0) };
        world.store(None, &ledger);
        world.new_leader();
        world
    }

    fn tree(&self) -> &Arc<Tree> {
        self.trees.last().unwrap()
    }

    fn load(&self) -> Option<(u64, Ledger)> {
        self.stored.clone()
    }

    /// Compare-and-swap. `None` creates.
    fn store(&mut self, before: Option<u64>, ledger: &Ledger) -> bool {
        let matches = self.stored.as_ref().map(|(version, _)| *version) == before;
        let unseen = self.fault == Some(Fault::NoCompare) && self.stored.is_some();
        if !matches && !unseen {
            return false;
        }
        self.version += 1;
        self.stored = Some((self.version, ledger.clone()));
        true
    }

    fn put(&mut self, mut pod: QuotaPod) {
        self.version += 1;
        pod.version = self.version;
        let pod = Arc::new(pod);
        self.events.push(Event::Put(Arc::clone(&pod)));
        self.pods.insert(Arc::clone(&pod.uid), pod);
    }

    fn delete(&mut self, uid: &Arc<str>) {
        if self.pods.remove(uid).is_some() {
            self.version += 1;
            self.events.push(Event::Gone(Arc::clone(uid)));
        }
    }

    pub(crate) fn step(&mut self) {
        match self.random.below(22) {
            0..=3 if self.waiting.len() < 12 => self.ask(),
            4..=9 => self.replica_step(),
            10..=11 if self.allowed.len() > 5 || self.random.one_in(4) => self.api_server_step(),
            12 | 18 if self.pods.len() > 7 => self.pod_step(),
            13..=17 => self.leader_step(),
            19 if self.random.one_in(4) => self.new_leader(),
            20 if self.random.one_in(60) => self.stored = None,
            20 if self.random.one_in(16) => {
                let next = tree(self.tree().generation + 1);
                self.trees.push(Arc::new(next));
            }
            21 => self.pass_time(),
            _ => {}
        }
    }

    fn any_pod(&mut self) -> Option<Arc<QuotaPod>> {
        let index = self.random.below(self.pods.len());
        self.pods.values().nth(index).cloned()
    }

    fn pass_time(&mut self) {
        // Mostly a little, now and then long enough that something runs out.
        let counting = self.stored.as_ref().is_none_or(|(_, ledger)| !ledger.initialised);
        let most = if self.random.one_in(if counting { 2 } else { 15 }) { 40_000 } else { 600 };
        self.now += 1 + self.random.next() % most;
        let now = self.now;
        self.waiting.retain(|call| now - call.began <= WEBHOOK_MS);
        self.allowed.retain(|call| now - call.began <= WEBHOOK_MS + REQUEST_MS);
    }

    /// Whether every node is within its maximum.
    pub(crate) fn check(&self) -> Result<(), String> {
        let tree = self.tree();
        let mut used = Used::new(tree);
        for pod in self.pods.values().filter(|pod| pod.counts()) {
            used.add(tree, tree.leaf_of(&pod.namespace).unwrap(), &pod.charge);
        }
        for (id, node) in tree.ids().zip(tree.nodes()) {
            if used.at(id).of("cpu") > node.max.of("cpu") {
                return Err(format!("{} has {} of {}", node.path, used.at(id), node.max));
            }
        }
        Ok(())
    }

    /// Everything under way comes to its end: then nothing is promised, and what is committed is what is there.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        self.waiting.clear();
        self.replicas.iter_mut().for_each(|replica| *replica = Replica::Idle);
        while !self.allowed.is_empty() {
            self.api_server_step();
            self.check()?;
        }
        self.leaders.clear();
        if self.stored.is_none() {
            let unknown = Ledger::unknown(self.tree(), 0);
            self.store(None, &unknown);
        }
        self.new_leader();
        let mut leader = self.leaders.pop().unwrap();
        for _ in 0..200 {
            self.now += 5_000;
            self.hear(&mut leader, usize::MAX);
            let now = self.now + leader.clock;
            if !self.leader_judges(&mut leader, now) {
                return Err("the only leader was superseded".to_owned());
            }
            if let Some((version, ledger)) = leader.writing.take() {
                self.store(Some(version), &ledger);
            }
            let (_, ledger) = self.load().unwrap();
            let suspects: Vec<_> =
                leader.keeper.suspects(&ledger, now).map(|(k, r)| (k.clone(), r.clone())).collect();
            for (key, reservation) in suspects {
                let found = self.pods.get(&key.uid).map_or(Found::Absent, |pod| Found::Pod(Arc::clone(pod)));
                leader.keeper.checked(&key, &reservation, found, now);
            }
        }
        let (_, ledger) = self.load().unwrap();
        if !ledger.reservations.is_empty() {
            return Err(format!("reservations are left: {:?}", ledger.reservations));
        }
        if !ledger.claims.is_empty() {
            return Err(format!("claims are left: {:?}", ledger.claims));
        }
        let mut truth: BTreeMap<Arc<str>, Amounts> = BTreeMap::new();
        for pod in self.pods.values().filter(|pod| pod.counts()) {
            truth.entry(Arc::clone(&pod.namespace)).or_default().add(&pod.charge);
        }
        if ledger.committed != truth {
            return Err(format!("committed {:?}, there is {truth:?}", ledger.committed));
        }
        Ok(())
    }
}
