//! What a scheduler was told and no watch tells of yet.
//!
//! A scheduler asks for the next pod before the binding of the last one comes back by the watch. Whoever counts only what is
//! seen gives the same answer to a whole burst, and the burst goes to one node. So the answer counts as a binding until
//! the pod is seen bound, on whatever node, or is gone, or is asked about again, or [`Answered::AGE`] has passed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::placement::estimate::Figures;
use crate::placement::pod::{Incoming, WorkloadKey};
use crate::placement::score::Decision;

/// Answers that are not seen to have come true, by pod. A guess is only made of who is best by our points; the scheduler
/// has more to go by, but the watch corrects it.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    /// Oldest first.
    by_time: BTreeMap<(i64, Arc<str>), Answer>,
    /// When it was answered, by uid of the pod.
    times: HashMap<Arc<str>, i64>,
}

#[derive(Clone, Debug)]
struct Answer {
    node: Arc<str>,
    /// Of the pod.
    name: Arc<str>,
    workload: WorkloadKey,
    estimate: Figures,
}

/// What is expected on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Expected {
    /// Pods.
    pub pods: u32,
    /// Those of the workload that was asked for.
    pub replicas: u32,
    /// What they are expected to use.
    pub estimate: Figures,
}

impl Answered {
    /// How long an answer counts at most, in nanoseconds. A scheduler is behind its own decisions by as many bindings as its
    /// limit of calls holds back: 15 s are 750 of them at the 50 a second that it has by default. An answer that comes to
    /// nothing (a volume that is not attached, a plugin that refuses) is asked for again within 10 s, its first backoffs.
    pub const AGE: i64 = 15_000_000_000;
    /// So many answers are kept at most; the oldest go first.
    pub const MOST: usize = 2_048;

    /// Notes that a pod was told `node` at `now`, in nanoseconds since 1970. Of one pod the latest answer counts. What has
    /// no uid cannot be seen again and is passed over, and so is a pod whose binding would not count: a daemon set's.
    pub fn note(&mut self, pod: &Incoming, node: &str, now: i64) {
        if pod.uid.is_empty() || pod.shape.is_daemon() {
            return;
        }
        if self.times.get(&pod.uid).is_some_and(|known| *known > now) {
            return;
        }
        self.forget(&pod.uid);
        while let Some((at, _)) = self.by_time.first_key_value().map(|(key, _)| key)
            && (now.saturating_sub(*at) >= Self::AGE || self.by_time.len() >= Self::MOST)
            && let Some(((_, uid), _)) = self.by_time.pop_first()
        {
            self.times.remove(&uid);
        }
        let answer = Answer {
            node: node.into(),
            name: Arc::clone(&pod.name),
            workload: pod.shape.workload.clone(),
            estimate: pod.estimate,
        };
        self.times.insert(Arc::clone(&pod.uid), now);
        self.by_time.insert((now, Arc::clone(&pod.uid)), answer);
    }

    /// The pod was seen bound, or is gone.
    pub fn forget(&mut self, uid: &str) {
        if let Some((uid, at)) = self.times.remove_entry(uid) {
            self.by_time.remove(&(at, uid));
        }
    }

    /// Forgets all but those that are `open`, by namespace, name and uid of the pod.
    pub fn retain(&mut self, open: impl Fn(&str, &str, &str) -> bool) {
        let times = &mut self.times;
        self.by_time.retain(|(_, uid), answer| {
            let stays = open(&answer.workload.namespace, &answer.name, uid);
            if !stays {
                times.remove(uid);
            }
            stays
        });
    }

    /// What is expected on the nodes at `now` by answers of the last `window` nanoseconds, but for the pod `except`, which is
    /// asked about. `workload` is the one whose replicas are counted.
    pub fn expected(
        &self,
        now: i64,
        window: i64,
        except: &str,
        workload: &WorkloadKey,
    ) -> HashMap<&str, Expected> {
        let window = window.min(Self::AGE);
        let mut expected: HashMap<&str, Expected> = HashMap::new();
        for ((at, uid), answer) in self.by_time.iter().rev() {
            let age = now.saturating_sub(*at);
            if age >= window {
                break;
            }
            // A clock that was set back does not keep an answer for as long.
            if age <= -Self::AGE || uid.as_ref() == except {
                continue;
            }
            let on = expected.entry(&answer.node).or_default();
            on.pods += 1;
            on.replicas += u32::from(answer.workload == *workload);
            on.estimate.add(answer.estimate, 1.0);
        }
        expected
    }

    /// Whether there is one for the pod of this uid.
    pub fn is_of(&self, uid: &str) -> bool {
        self.times.contains_key(uid)
    }

    /// How many answers are kept.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }
}

impl Decision {
    /// The node of `nodes`, which were offered, that a scheduler is taken to choose: one of those with the most points. Of
    /// several it takes any; here the uid of the pod decides, so that a burst is not counted on one of them.
    pub fn likely<'a>(&self, nodes: &[&'a str], uid: &str) -> Option<&'a str> {
        let most = self.nodes.iter().map(|node| node.points).max()?;
        let best =
            || nodes.iter().zip(&self.nodes).filter(|(_, node)| node.points == most).map(|(name, _)| *name);
        // FNV-1a: any that spreads.
        let hash = uid.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let count = u64::try_from(best().count()).unwrap_or(u64::MAX).max(1);
        // The upper bits: the lower ones of FNV hold less.
        best().nth(usize::try_from((hash >> 32) % count).unwrap_or(0))
    }
}
