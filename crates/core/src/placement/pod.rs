//! A pod as placement and balance see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::keys;
use crate::objects::Objects;
use crate::placement::estimate::{self, Figures};
use crate::pod::{Json, Keep, Owner, PodView, Pruned, Workload, controller, is_guaranteed, topmost_controller};
use crate::quota::{Amounts, charge};

/// Which workload a pod belongs to: its topmost controller, or itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkloadKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Group, kind and name.
    pub workload: Arc<Workload>,
}

impl std::fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.workload.kind, self.workload.name)
    }
}

/// A pod of the cluster. There may be a hundred thousand of them, and far fewer shapes.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "facts that are independent of each other")]
pub struct PlacedPod {
    /// Its name.
    pub name: Arc<str>,
    /// Which of all pods of that name, over time.
    pub uid: Arc<str>,
    /// The node it is bound to; `None` while it is pending.
    pub node: Option<Arc<str>>,
    /// When it was bound (`PodScheduled` turned true), in nanoseconds since 1970; 0 if that is not known.
    pub bound: i64,
    /// When it was created, in nanoseconds since 1970; 0 if that is not known.
    pub created: i64,
    /// Whether its condition `Ready` is true.
    pub ready: bool,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// Whether its phase is Succeeded or Failed: it uses nothing, and needs no node any more.
    pub terminal: bool,
    /// Whether it waits for something other than a node: scheduling gates.
    pub gated: bool,
    /// What it is expected to use.
    pub estimate: Figures,
    /// What it has in common with the other pods of its template.
    pub shape: Arc<PlacedShape>,
}

/// What all pods of a template have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlacedShape {
    /// Its workload, with its namespace.
    pub workload: WorkloadKey,
    /// Its controller, if it has one.
    pub controller: Option<ControllerRef>,
    /// Labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// What it requests, as the scheduler counts it; with one of `pods`.
    pub requests: Amounts,
    /// CPU and memory of its limits in nano-units: a container without limit counts its request.
    pub limits: [i128; 2],
    /// CPU and memory by container: app containers and sidecars.
    pub containers: Vec<ContainerFigures>,
    /// `spec.priority`; 0 if it has none.
    pub priority: i32,
    /// Its QoS class.
    pub qos: Qos,
    /// Whether it is a copy of a static pod.
    pub mirror: bool,
    /// The annotations that say that it shall stay, by key, where they have the value that says so.
    pub stays: Vec<&'static str>,
    /// What of its spec decides on which nodes it may run: `nodeSelector`, the required `affinity`, `tolerations`, host
    /// ports, topology spread that is hard, and volumes.
    pub spec: Pruned<'static>,
}

/// A controller, as far as evictions are concerned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControllerRef {
    /// Group, kind and name.
    pub workload: Workload,
    /// Which of all objects of that name, over time.
    pub uid: Box<str>,
}

/// What a container asks for, in nano-units.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContainerFigures {
    /// Its name.
    pub name: Box<str>,
    /// Its image.
    pub image: Box<str>,
    /// Requests of CPU and memory.
    pub requests: [Option<i128>; 2],
    /// Limits of CPU and memory.
    pub limits: [Option<i128>; 2],
}

/// A QoS class, the first to go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Qos {
    /// Nothing is requested.
    BestEffort,
    /// Something is.
    Burstable,
    /// Limits equal requests.
    Guaranteed,
}

/// Annotations by which a pod's owner says that it shall not be evicted, and the value that says so.
pub const STAYS: [(&str, &str); 3] = [
    (keys::DO_NOT_EVICT, "true"),
    ("descheduler.alpha.kubernetes.io/prefer-no-eviction", "true"),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
];
