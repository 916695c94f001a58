//! What leaders do.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::quota::QuotaPod;
use plimsoll_core::quota::keeper::{Found, Keeper, KeeperOptions};
use plimsoll_core::quota::ledger::Ledger;

use super::{AGE_MS, Event, Fault, Leader, World};

impl World {
    pub(super) fn list(&mut self) -> (Vec<Arc<QuotaPod>>, usize) {
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

    pub(super) fn new_leader(&mut self) {
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

    pub(super) fn step_without_leaders(&mut self) {
        match self.random.below(4) {
            0 => self.ask(),
            1 | 2 => self.replica_step(),
            _ => self.api_server_step(),
        }
        // An old leader works on meanwhile.
        self.leader_step();
    }

    pub(super) fn leader_step(&mut self) {
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
    pub(super) fn leader_acts(&mut self, leader: &mut Leader) -> bool {
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

    pub(super) fn hear(&mut self, leader: &mut Leader, count: usize) {
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

    pub(super) fn leader_judges(&mut self, leader: &mut Leader, now: u64) -> bool {
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
}
