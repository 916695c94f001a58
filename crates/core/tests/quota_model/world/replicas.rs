//! What replicas, the API server and pods do.

use std::sync::Arc;

use plimsoll_core::quota::ledger::{Claimant, Request, ReservationKey, ReservationKind, Ruling, judge};
use plimsoll_core::quota::{Amounts, QuotaPod};

use super::{Call, Fault, NAMESPACES, REQUEST_MS, Replica, WEBHOOK_MS, World, amounts};

impl World {
    /// Somebody creates a pod, or resizes one.
    pub(super) fn ask(&mut self) {
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

    pub(super) fn request(
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

    pub(super) fn replica_step(&mut self) {
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
    pub(super) fn api_server_step(&mut self) {
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

    pub(super) fn pod_step(&mut self) {
        let Some(pod) = self.any_pod() else { return };
        if self.random.one_in(3) && !pod.terminal {
            self.put(QuotaPod { terminal: true, ..QuotaPod::clone(&pod) });
        } else {
            self.delete(&pod.uid);
        }
    }
}
