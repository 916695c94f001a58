//! Which pods of the source may go, and which goes first.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::balance::claims::Claim;
use crate::balance::fit::{Fitter, Target};
use crate::balance::node::BalanceNode;
use crate::balance::selector::{items, text};
use crate::balance::spared::{Misfit, Pause, Spared, Unsettled};
use crate::balance::{Input, Move, PodName};
use crate::placement::{Figures, PlacedPod, WorkloadKey};
use crate::pod::Json;

/// `system-cluster-critical` has this priority, `system-node-critical` 1000 more.
const CRITICAL: i32 = 2_000_000_000;
/// A pod that is less than this part of what is to be moved is left: the node would stay as it is.
const NEXT_TO_NOTHING: f64 = 0.01;
/// But not one that is more of the node than this: much that is to go may be nothing but small pods.
const SMALL: f64 = 0.001;
/// Sums of shares are not exact.
const ROUNDING: f64 = 1e-9;
const SECOND: i64 = 1_000_000_000;

/// What is to be moved, and where it could go.
#[derive(Debug)]
pub(super) struct Search<'i, 'a> {
    pub(super) input: &'i Input<'a>,
    /// How busy the source is, and how much of it is to go.
    pub(super) expected: f64,
    pub(super) excess: f64,
    /// The mean of what is expected of the nodes.
    pub(super) mean: f64,
    /// How busy the busiest two other nodes are, with their names.
    pub(super) busiest: [Option<(&'a str, f64)>; 2],
    /// The weights of CPU and memory in how busy a node is.
    pub(super) parts: Figures,
    /// For how long workloads must be left alone.
    pub(super) cooldowns: &'i BTreeMap<&'i str, Pause>,
    /// Least busy first.
    pub(super) targets: &'i [Target<'a>],
}

/// What was found of the pods of the source.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Who goes, the first one first.
    pub(super) moves: Vec<Move>,
    pub(super) spared: Vec<(PodName, Spared)>,
    /// Claims that must be read to know more, those of the first ones to go first.
    pub(super) unread: Vec<(Arc<str>, Box<str>)>,
}

impl<'a> Search<'_, 'a> {
    /// Judges every pod of the source.
    pub(super) fn run(&self, fitter: &mut Fitter<'_, 'a>) -> Found {
        let mut found = Found::default();
        let mut moves: Vec<(Arc<PlacedPod>, Move)> = Vec::new();
        let mut unread: Vec<(f64, Vec<Box<str>>, Arc<str>)> = Vec::new();
        let siblings = self.siblings(fitter);
        let pods = self.input.pods.on(fitter.source.name()).map_or(&[][..], |on| on.pods());
        for pod in pods {
            let judged = self.spared(pod, &siblings).map_or_else(|| self.judge(pod, fitter), Err);
            match judged {
                Ok(found) => moves.push((Arc::clone(pod), found)),
                Err(spared) => {
                    if let Spared::VolumeNotRead(_) = spared {
                        let claims = claims_of(pod).map(Box::from).collect();
                        let uses = (self.input.usage)(pod).unwrap_or_default();
                        let part = self.part_on(uses, &fitter.source).unwrap_or(0.0);
                        unread.push((part, claims, Arc::clone(pod.namespace())));
                    }
                    found.spared.push((PodName::of(pod), spared));
                }
            }
        }
        moves.sort_by(|(a, part_a), (b, part_b)| {
            let class = |pod: &PlacedPod| (pod.shape.priority, pod.shape.qos);
            class(a)
                .cmp(&class(b))
                .then_with(|| self.nearer(part_a.part, part_b.part))
                .then_with(|| part_a.pod.cmp(&part_b.pod))
        });
        found.moves = moves.into_iter().map(|(_, found)| found).collect();
        found.spared.sort_by(|(a, _), (b, _)| a.cmp(b));
        unread.sort_by(|(a, ..), (b, ..)| self.nearer(*a, *b));
        let names = unread.into_iter().flat_map(|(_, claims, namespace)| {
            claims.into_iter().map(move |claim| (Arc::clone(&namespace), claim))
        });
        found.unread = names.filter(|name| !self.input.claims.contains_key(name)).collect();
        found
    }

    /// From below the largest first, then from above the smallest.
    fn nearer(&self, a: f64, b: f64) -> Ordering {
        let above = |part: f64| part > self.excess + ROUNDING;
        above(a).cmp(&above(b)).then_with(|| if above(a) { a.total_cmp(&b) } else { b.total_cmp(&a) })
    }

    /// Why a pod stays, whatever the other nodes look like.
    fn spared(&self, pod: &PlacedPod, siblings: &Siblings<'_>) -> Option<Spared> {
        let (shape, settings) = (&pod.shape, self.input.settings);
        if pod.terminal {
            return Some(Spared::Terminal);
        }
        if pod.terminating {
            return Some(Spared::Terminating);
        }
        if shape.mirror {
            return Some(Spared::Mirror);
        }
        let Some(controller) = &shape.controller else { return Some(Spared::NotControlled) };
        match (controller.workload.group.as_str(), controller.workload.kind.as_str()) {
            ("", "Node") => return Some(Spared::Static),
            // Those of OpenKruise too.
            (_, "DaemonSet") => return Some(Spared::DaemonSet),
            ("batch", "Job") | ("apps.kruise.io", "BroadcastJob") => return Some(Spared::Job),
            _ => {}
        }
        if shape.priority >= CRITICAL {
            return Some(Spared::Critical(shape.priority));
        }
        if settings.excluded_namespaces.contains(pod.namespace().as_ref()) {
            return Some(Spared::Namespace);
        }
        if let Some(key) = shape.stays.first() {
            return Some(Spared::Annotation(key));
        }
        if !settings.evict_local_storage
            && let Some(volume) = items(shape.spec.0.get("volumes")).iter().find(|volume| is_local(volume))
        {
            return Some(Spared::LocalStorage(text(volume, "name").to_owned()));
        }
        // One without any time is in a file that somebody wrote.
        let age = self.input.now.saturating_sub(pod.bound.max(pod.created)) / SECOND;
        if age < settings.minimum_age {
            return Some(Spared::TooYoung(age));
        }
        let ready = owner_key(pod).and_then(|key| siblings.ready.get(&key)).copied().unwrap_or(0);
        if ready <= settings.min_replicas {
            return Some(Spared::FewReplicas { ready, min: settings.min_replicas });
        }
        if let Some(unsettled) = siblings.beside(pod) {
            return Some(Spared::Unsettled(unsettled));
        }
        if let Some(pause) = self.cooldowns.get(shape.workload.to_string().as_str()) {
            return Some(Spared::Cooldown(*pause));
        }
        self.input.quota?.shortage(pod.namespace(), &shape.requests).map(Spared::Quota)
    }

    /// Where a pod could go.
    fn judge(&self, pod: &'a Arc<PlacedPod>, fitter: &mut Fitter<'_, 'a>) -> Result<Move, Spared> {
        if !fitter.allows_another(pod, self.input.nodes) {
            return Err(Spared::BoundToNode);
        }
        let uses = (self.input.usage)(pod).ok_or(Spared::UsageUnknown)?;
        let Some(part) = self.part_on(uses, &fitter.source) else { return Err(Spared::UsageUnknown) };
        if part < (self.excess * NEXT_TO_NOTHING).min(SMALL) {
            return Err(Spared::UsesNothing);
        }
        let mut claims = Vec::new();
        for claim in claims_of(pod) {
            match self.input.claims.get(&(Arc::clone(pod.namespace()), Box::from(claim))) {
                None => return Err(Spared::VolumeNotRead(claim.to_owned())),
                Some(Claim::Here) => return Err(Spared::LocalVolume(claim.to_owned())),
                Some(Claim::Unknown(why)) => {
                    return Err(Spared::VolumeUnknown { claim: claim.to_owned(), why: why.clone() });
                }
                Some(found) => claims.push(found),
            }
        }
        let accepts = |target: &Target<'a>| {
            let more = self.part_on(uses, &target.node).ok_or(Misfit::Capacity)?;
            if self.is_too_much(target, more, part) { Err(Misfit::Maximum) } else { Ok(()) }
        };
        let target = fitter.target(pod, &claims, self.targets, accepts).map_err(Spared::NoTarget)?;
        Ok(Move {
            pod: PodName::of(pod),
            uid: Arc::clone(&pod.uid),
            workload: pod.shape.workload.clone(),
            priority: pod.shape.priority,
            qos: pod.shape.qos,
            uses,
            part,
            share: fitter.source.shares(uses),
            target: target.node.name().into(),
        })
    }

    /// Whether a target would be the busiest node then, or be too busy itself, or as busy as the source was: then the two
    /// would only change places.
    fn is_too_much(&self, target: &Target<'_>, more: f64, less: f64) -> bool {
        let then = target.expected + more;
        let name = target.node.name();
        let others = self.busiest.iter().flatten().find(|(other, _)| *other != name).map(|(_, busy)| *busy);
        let busiest = others.unwrap_or(0.0).max(self.expected - less);
        then > busiest || then > self.expected - ROUNDING || then - self.mean > self.input.settings.threshold
    }

    /// How much of a node's business what a pod uses is there.
    fn part_on(&self, uses: Figures, node: &BalanceNode<'_>) -> Option<f64> {
        node.capacity()?;
        let shares = node.shares(uses);
        Some(self.parts.cpu * shares.cpu + self.parts.memory * shares.memory)
    }

    /// How the owners and workloads of the source's pods are, on all nodes.
    fn siblings(&self, fitter: &Fitter<'_, 'a>) -> Siblings<'a> {
        let on_source = self.input.pods.on(fitter.source.name()).map_or(&[][..], |on| on.pods());
        let mut ready: HashMap<OwnerKey<'a>, u32> =
            on_source.iter().filter_map(|pod| Some((owner_key(pod)?, 0))).collect();
        let mut unsettled: HashMap<&WorkloadKey, Unsettled> = HashMap::new();
        for pod in self.input.pods.pods().filter(|pod| !pod.terminal) {
            if pod.ready
                && !pod.terminating
                && let Some(count) = owner_key(pod).and_then(|key| ready.get_mut(&key))
            {
                *count += 1;
            }
            let one = Unsettled::of(pod);
            if one != Unsettled::default() {
                let sum = unsettled.entry(&pod.shape.workload).or_default();
                sum.pending += one.pending;
                sum.not_ready += one.not_ready;
                sum.terminating += one.terminating;
            }
        }
        Siblings { ready, unsettled }
    }
}

/// What matters of other pods.
#[derive(Debug, Default)]
struct Siblings<'a> {
    /// How many pods of an owner are ready.
    ready: HashMap<OwnerKey<'a>, u32>,
    /// The pods of a workload that are not as they should be; also the candidate itself.
    unsettled: HashMap<&'a WorkloadKey, Unsettled>,
}

impl Siblings<'_> {
    /// What of its workload is not settled beside this pod.
    fn beside(&self, pod: &PlacedPod) -> Option<Unsettled> {
        let (all, own) = (self.unsettled.get(&pod.shape.workload)?, Unsettled::of(pod));
        let others = Unsettled {
            pending: all.pending.saturating_sub(own.pending),
            not_ready: all.not_ready.saturating_sub(own.not_ready),
            terminating: all.terminating.saturating_sub(own.terminating),
        };
        (others != Unsettled::default()).then_some(others)
    }
}

impl Unsettled {
    /// What is not settled about a pod that has not finished: at most one of the three.
    fn of(pod: &PlacedPod) -> Self {
        let mut found = Self::default();
        if pod.terminating {
            found.terminating = 1;
        } else if pod.node.is_none() {
            found.pending = 1;
        } else if !pod.ready {
            found.not_ready = 1;
        }
        found
    }
}

/// Namespace, kind, name and uid of a controller.
type OwnerKey<'a> = (&'a str, &'a str, &'a str, &'a str);

fn owner_key(pod: &PlacedPod) -> Option<OwnerKey<'_>> {
    let controller = pod.shape.controller.as_ref()?;
    let workload = &controller.workload;
    Some((pod.namespace(), &workload.kind, &workload.name, &controller.uid))
}

/// Whether what is in a volume is lost with the pod.
fn is_local(volume: &Json<'_>) -> bool {
    ["emptyDir", "hostPath", "ephemeral"]
        .iter()
        .any(|kind| volume.get(kind).is_some_and(|kind| !kind.is_null()))
}

/// The claims that a pod names. Those that are made for the pod alone go with it.
pub fn claims_of(pod: &PlacedPod) -> impl Iterator<Item = &str> {
    let volumes = items(pod.shape.spec.0.get("volumes")).iter();
    volumes.filter_map(|volume| volume.get("persistentVolumeClaim")?.get("claimName")?.as_str())
}
