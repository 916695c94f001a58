//! The world of the model.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::quota::keeper::{Found, Keeper, KeeperOptions};
use plimsoll_core::quota::ledger::{
    Claimant, Ledger, Request, Reservation, ReservationKey, ReservationKind, Ruling, judge,
};
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

    /// Somebody creates a pod, or resizes one.
    fn ask(&mut self) {
        let request = match self.any_pod() {
            Some(pod) if self.random.one_in(2) && pod.counts() => {
                let to = 1 + self.random.below(6) as i128;
                let mut to = amounts(to);
                to.raise_to(&pod.charge);
                self.request(ReservationKind::Resize, &pod.uid, &pod.namespace, pod.charge.clone(), to)
            }
            _ => {
                self.next_uid += 1;
                let uid: Arc<str> = format!("uid-{}", self.next_uid).into();
                let namespace: Arc<str> = NAMESPACES[self.random.below(4)].into();
                let charge = amounts(1 + self.random.below(6) as i128);
                self.request(ReservationKind::Create, &uid, &namespace, Amounts::new(), charge)
            }
        };
        if request.key.kind == ReservationKind::Resize {
            self.resizes.push(request.clone());
        }
        self.waiting.push(Call { request, began: self.now });
        if self.random.one_in(3) && !self.resizes.is_empty() {
            let again = self.random.below(self.resizes.len());
            let request = self.resizes[again].clone();
            self.waiting.push(Call { request, began: self.now });
        }
    }

    fn request(
        &mut self,
        kind: ReservationKind,
        uid: &Arc<str>,
        namespace: &Arc<str>,
        from: Amounts,
        to: Amounts,
    ) -> Request {
        let kind = if self.fault == Some(Fault::KeyedByUid) { ReservationKind::Create } else { kind };
        Request {
            key: ReservationKey { uid: Arc::clone(uid), kind },
            namespace: Arc::clone(namespace),
            name: Arc::clone(uid),
            from,
            to,
            claimant: Claimant {
                namespace: namespace.to_string(),
                uid: format!("owner-{namespace}-{}", self.random.below(2)),
                api_version: "apps/v1".into(),
                kind: "ReplicaSet".into(),
                name: "web".into(),
            },
            dry_run: false,
        }
    }

    fn replica_step(&mut self) {
        let index = self.random.below(self.replicas.len());
        // It dies, whatever it was at; its callers are told nothing and create nothing.
        if self.random.one_in(30) {
            self.replicas[index] = Replica::Idle;
            return;
        }
        let replica = std::mem::replace(&mut self.replicas[index], Replica::Idle);
        self.replicas[index] = match replica {
            Replica::Idle => {
                let count = self.random.below(3) + 1;
                let calls: Vec<_> = (0..count).filter_map(|_| self.waiting.pop()).collect();
                match self.load() {
                    Some((version, ledger)) if !calls.is_empty() => Replica::Read { version, ledger, calls },
                    _ => Replica::Idle,
                }
            }
            Replica::Read { version, ledger, calls } => {
                // It may not have seen the newest tree.
                let behind = usize::from(self.random.one_in(6)).min(self.trees.len() - 1);
                let tree = &self.trees[self.trees.len() - 1 - behind];
                let requests: Vec<_> = calls.iter().map(|call| call.request.clone()).collect();
                match judge(&ledger, tree, &requests, (self.now / 1000) as i64) {
                    Ok(judged) => {
                        let admitted = calls
                            .iter()
                            .zip(&judged.rulings)
                            .filter(|(_, ruling)| **ruling == Ruling::Admitted)
                            .map(|(call, _)| call.clone());
                        Replica::Write {
                            version,
                            admitted: admitted.collect(),
                            ledger: judged.ledger.unwrap_or(ledger),
                        }
                    }
                    Err(_) => Replica::Idle,
                }
            }
            Replica::Write { version, ledger, admitted } => {
                if self.store(Some(version), &ledger) {
                    // The answer may be lost, or come too late for the API server.
                    if !self.random.one_in(8) {
                        let now = self.now;
                        let heard = admitted.into_iter().filter(|call| now - call.began <= WEBHOOK_MS);
                        let heard: Vec<_> = heard.collect();
                        self.admitted += heard.len() as u64;
                        self.allowed.extend(heard);
                    }
                    Replica::Idle
                } else {
                    self.waiting.extend(admitted);
                    Replica::Idle
                }
            }
        };
    }

    /// What was allowed is stored, or fails for another reason.
    fn api_server_step(&mut self) {
        if self.allowed.is_empty() {
            return;
        }
        let index = self.random.below(self.allowed.len());
        let call = self.allowed.swap_remove(index);
        if self.random.one_in(5) || self.now - call.began > WEBHOOK_MS + REQUEST_MS {
            return;
        }
        let Request { key, namespace, name, to, .. } = call.request;
        let known = self.pods.get(&key.uid).cloned();
        match known {
            // The second of two resizes conflicts; the pod that was judged must be the pod that is changed.
            Some(pod) if call.request.from == pod.charge => {
                let charge = to;
                self.put(QuotaPod { charge, ..QuotaPod::clone(&pod) });
            }
            None if call.request.from.is_empty() => self.put(QuotaPod {
                namespace,
                name,
                uid: key.uid,
                version: 0,
                charge: to,
                priority: 0,
                ready: true,
                created: 0,
                terminating: false,
                terminal: false,
                mirror: false,
                not_preemptible: false,
                do_not_evict: false,
                controller: None,
            }),
            _ => {}
        }
    }

    fn pod_step(&mut self) {
        let Some(pod) = self.any_pod() else { return };
        if self.random.one_in(3) && !pod.terminal {
            self.put(QuotaPod { terminal: true, ..QuotaPod::clone(&pod) });
        } else {
            self.delete(&pod.uid);
        }
    }

    fn list(&mut self) -> (Vec<Arc<QuotaPod>>, usize) {
        let behind = if self.fault == Some(Fault::StaleList) { self.random.below(12) } else { 0 };
        let position = self.events.len().saturating_sub(behind);
        let mut pods: BTreeMap<Arc<str>, Arc<QuotaPod>> = BTreeMap::new();
        for event in &self.events[..position] {
            match event {
                Event::Put(pod) => drop(pods.insert(Arc::clone(&pod.uid), Arc::clone(pod))),
                Event::Gone(uid) => drop(pods.remove(uid)),
            }
        }
        (pods.into_values().collect(), position)
    }

    fn new_leader(&mut self) {
        let early = (self.fault == Some(Fault::ListBeforeEpoch)).then(|| self.list());
        if early.is_some() {
            for _ in 0..12 {
                self.step_without_leaders();
            }
        }
        self.epochs += 1;
        let Some((version, ledger)) = self.load() else { return };
        let epoch = if self.fault == Some(Fault::NoEpoch) { ledger.epoch } else { ledger.epoch + 1 };
        self.store(Some(version), &Ledger { epoch, ..ledger });
        let age = if self.fault == Some(Fault::ShortAge) { 3_000 } else { AGE_MS };
        let mut keeper = Keeper::new(
            epoch,
            KeeperOptions { reservation_age: age, ..KeeperOptions::default() },
            Arc::clone(self.tree()),
        );
        let clock = self.random.next() % 1_000_000_000;
        let (pods, position) = match early {
            Some(early) => early,
            None => self.list(),
        };
        let version = (self.fault != Some(Fault::StaleList) && self.fault != Some(Fault::ListBeforeEpoch))
            .then_some(self.version);
        keeper.listed(pods, version, self.now + clock);
        let leader = Leader {
            keeper,
            position,
            writing: None,
            relisted: None,
            recount: None,
            read: Vec::new(),
            clock,
            count_at: None,
        };
        self.leaders.push(leader);
        // Those from before go on until they notice.
        if self.leaders.len() > 3 {
            self.leaders.remove(0);
        }
    }

    fn step_without_leaders(&mut self) {
        match self.random.below(4) {
            0 => self.ask(),
            1 | 2 => self.replica_step(),
            _ => self.api_server_step(),
        }
        // An old leader works on meanwhile.
        self.leader_step();
    }

    fn leader_step(&mut self) {
        if self.leaders.is_empty() {
            return;
        }
        let index = self.random.below(self.leaders.len());
        let mut leader = self.leaders.swap_remove(index);
        if self.leader_acts(&mut leader) {
            self.leaders.push(leader);
        } else if self.leaders.is_empty() {
            self.new_leader();
        }
    }

    /// Whether it leads on.
    fn leader_acts(&mut self, leader: &mut Leader) -> bool {
        let now = self.now + leader.clock;
        // The watch breaks, and lists anew; what comes of it is heard later.
        if self.random.one_in(25) && leader.relisted.is_none() {
            let (pods, position) = self.list();
            leader.relisted = Some((pods, self.version, position));
        }
        if self.random.one_in(20) {
            match leader.recount.take() {
                Some((pods, version)) => drop(leader.keeper.listed(pods, Some(version), now)),
                None => leader.recount = Some((self.list().0, self.version)),
            }
        }
        match self.random.below(6) {
            // Some are far behind.
            0 | 1 if leader.clock.is_multiple_of(3) && !self.random.one_in(8) => true,
            0 | 1 => {
                let count = self.random.below(5) + 1;
                self.hear(leader, count);
                true
            }
            2 => {
                if let Some((version, ledger)) = leader.writing.take() {
                    self.store(Some(version), &ledger);
                } else if leader.read.is_empty() {
                    if let Some((_, ledger)) = self.load() {
                        let suspects: Vec<_> = leader
                            .keeper
                            .suspects(&ledger, now)
                            .map(|(key, reservation)| (key.clone(), reservation.clone()))
                            .collect();
                        for (key, reservation) in suspects {
                            let found = self
                                .pods
                                .get(&key.uid)
                                .map_or(Found::Absent, |pod| Found::Pod(Arc::clone(pod)));
                            leader.read.push((key, reservation, found));
                        }
                    }
                } else {
                    for (key, reservation, found) in leader.read.drain(..) {
                        leader.keeper.checked(&key, &reservation, found, now);
                    }
                }
                true
            }
            _ => self.leader_judges(leader, now),
        }
    }

    fn hear(&mut self, leader: &mut Leader, count: usize) {
        let now = self.now + leader.clock;
        if let Some((pods, version, position)) = leader.relisted.take() {
            leader.keeper.listed(pods, Some(version), now);
            leader.position = position;
        }
        for event in self.events.iter().skip(leader.position).take(count) {
            leader.position += 1;
            match event {
                Event::Put(pod) => leader.keeper.put(Arc::clone(pod)),
                Event::Gone(uid) => leader.keeper.gone(uid, now),
            }
        }
    }

    fn leader_judges(&mut self, leader: &mut Leader, now: u64) -> bool {
        let Some((version, ledger)) = self.load() else {
            // It vanished: counted anew when whatever was promised has come or failed.
            let rebuilt = Ledger::unknown(self.tree(), leader.keeper.epoch());
            self.store(None, &rebuilt);
            let wait = if self.fault == Some(Fault::NoWait) { 0 } else { AGE_MS };
            leader.count_at = Some(now + wait);
            return true;
        };
        if !ledger.initialised && ledger.epoch == leader.keeper.epoch() {
            let at = *leader.count_at.get_or_insert(now + AGE_MS);
            if now < at {
                return true;
            }
            let (pods, position) = self.list();
            leader.keeper.listed(pods, Some(self.version), now);
            leader.position = position;
            leader.relisted = None;
            leader.count_at = None;
            let counted = Ledger { initialised: true, ..ledger };
            leader.keeper.set_tree(Arc::clone(self.tree()));
            let Ok((next, _)) = leader.keeper.next(&counted, now) else { return false };
            leader.writing = Some((version, next.unwrap_or(counted)));
            return true;
        }
        leader.keeper.set_tree(Arc::clone(self.tree()));
        match leader.keeper.next(&ledger, now) {
            Ok((next, _)) => {
                if let Some(next) = next {
                    leader.writing = Some((version, next));
                }
                let _ = leader.keeper.claims(&ledger, now);
                true
            }
            Err(_) => false,
        }
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
