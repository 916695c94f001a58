//! A pod as placement and balance see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use plimsoll_quantity::Quantity;
use serde_json::Value;

use crate::hpa::OF_ONE_POD;
use crate::keys;
use crate::objects::Objects;
use crate::placement::estimate::{self, Figures};
use crate::pod::{
    Json, Keep, Members, Owner, Part, Place, PodView, Pruned, Workload, controller, is_guaranteed,
    topmost_controller,
};
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

/// Annotations by which a pod's owner says that it shall not be evicted, and the value that says so; without one, the
/// annotation alone does, as the descheduler has it.
pub const STAYS: [(&str, Option<&str>); 3] = [
    (keys::DO_NOT_EVICT, Some("true")),
    ("descheduler.alpha.kubernetes.io/prefer-no-eviction", None),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", Some("false")),
];

const LIST: Keep = Keep::Members(&[("cpu", Keep::All), ("memory", Keep::All)]);
const CONTAINER: Keep = Keep::Members(&[
    ("name", Keep::All),
    ("image", Keep::All),
    ("restartPolicy", Keep::All),
    ("resources", Keep::Members(&[("requests", Keep::All), ("limits", LIST)])),
    ("ports", Keep::Items(&PORT)),
]);
const PORT: Keep = Keep::Members(&[("hostPort", Keep::All), ("hostIP", Keep::All), ("protocol", Keep::All)]);
const VOLUME: Keep = Keep::Members(&[
    ("name", Keep::All),
    ("emptyDir", Keep::All),
    ("hostPath", Keep::All),
    ("persistentVolumeClaim", Keep::All),
    ("ephemeral", Keep::Members(&[])),
]);
const OWNER: Keep = Keep::Members(&[
    ("apiVersion", Keep::All),
    ("kind", Keep::All),
    ("name", Keep::All),
    ("uid", Keep::All),
    ("controller", Keep::All),
]);
const SPREAD: Keep = Keep::Members(&[
    ("maxSkew", Keep::All),
    ("topologyKey", Keep::All),
    ("whenUnsatisfiable", Keep::All),
    ("labelSelector", Keep::All),
    ("matchLabelKeys", Keep::All),
    ("minDomains", Keep::All),
    ("nodeAffinityPolicy", Keep::All),
    ("nodeTaintsPolicy", Keep::All),
]);

/// What of a pod placement reads; the rest of a pod that a scheduler sends need not be kept.
pub const PLACED_POD: Keep = Keep::Members(&[
    (
        "metadata",
        Keep::Members(&[
            ("name", Keep::All),
            ("generateName", Keep::All),
            ("namespace", Keep::All),
            ("uid", Keep::All),
            ("labels", Keep::All),
            (
                "annotations",
                Keep::Members(&[
                    (keys::MIRROR, Keep::All),
                    (keys::DO_NOT_EVICT, Keep::All),
                    ("descheduler.alpha.kubernetes.io/prefer-no-eviction", Keep::All),
                    ("cluster-autoscaler.kubernetes.io/safe-to-evict", Keep::All),
                ]),
            ),
            ("ownerReferences", Keep::Items(&OWNER)),
        ]),
    ),
    (
        "spec",
        Keep::Members(&[
            ("containers", Keep::Items(&CONTAINER)),
            ("initContainers", Keep::Items(&CONTAINER)),
            ("resources", Keep::Members(&[("requests", Keep::All), ("limits", LIST)])),
            ("overhead", Keep::All),
            ("priority", Keep::All),
            ("nodeSelector", Keep::All),
            ("affinity", Keep::All),
            ("tolerations", Keep::All),
            ("topologySpreadConstraints", Keep::Items(&SPREAD)),
            ("volumes", Keep::Items(&VOLUME)),
            ("resourceClaims", Keep::All),
            ("hostNetwork", Keep::All),
        ]),
    ),
]);

impl<'a> Pruned<'a> {
    /// The parts of a pod that placement reads.
    pub fn of_placed(pod: &'a Value) -> Self {
        Self::borrowed_parts(pod, &PLACED_POD)
    }
}

/// What of the spec a [`PlacedShape`] keeps.
const ON_WHICH_NODES: [&str; 7] = [
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
    "resourceClaims",
    "hostNetwork",
];

/// A pod that a scheduler wants a node for.
#[derive(Clone, Debug, PartialEq)]
pub struct Incoming {
    /// Its name.
    pub name: Arc<str>,
    /// Which of all pods of that name, over time; empty if it is not said.
    pub uid: Arc<str>,
    /// What it is expected to use.
    pub estimate: Figures,
    /// All else.
    pub shape: PlacedShape,
}

impl Incoming {
    /// Reads the parts [`PLACED_POD`] of a pod. What is of another form than Kubernetes gives it is absent: a scheduler
    /// that waits must get an answer.
    pub fn read(pod: &Pruned<'_>, objects: &Objects) -> Self {
        let text = |key: &str| member(&pod.0, &["metadata", key]).and_then(Json::as_str).unwrap_or_default();
        let shape = PlacedShape::read(pod, objects);
        let estimate = estimate::estimate(&shape.workload, text("name"), &shape.containers, objects);
        Self { name: text("name").into(), uid: text("uid").into(), estimate, shape }
    }
}

impl PlacedPod {
    /// Reads a pod as the API server has it. `None` for what has no name.
    pub fn read(pod: &Value, objects: &Objects) -> Option<Self> {
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = text("/metadata/name");
        if name.is_empty() {
            return None;
        }
        let shape = PlacedShape::read(&Pruned::of_placed(pod), objects);
        let conditions = || pod.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let condition = |kind: &str| {
            conditions().find(|condition| {
                condition.get("type").and_then(Value::as_str) == Some(kind)
                    && condition.get("status").and_then(Value::as_str) == Some("True")
            })
        };
        let bound = condition("PodScheduled")
            .and_then(|condition| condition.get("lastTransitionTime")?.as_str().map(nanos))
            .unwrap_or(0);
        let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
        Some(Self {
            name: name.into(),
            uid: text("/metadata/uid").into(),
            node: Some(text("/spec/nodeName")).filter(|node| !node.is_empty()).map(Arc::from),
            bound,
            created: nanos(text("/metadata/creationTimestamp")),
            ready: condition("Ready").is_some(),
            terminating: pod.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()),
            terminal: matches!(text("/status/phase"), "Succeeded" | "Failed"),
            gated: gates.is_some_and(|gates| !gates.is_empty()),
            estimate: estimate::estimate(&shape.workload, name, &shape.containers, objects),
            shape: Arc::new(shape),
        })
    }

    /// Its namespace.
    pub fn namespace(&self) -> &Arc<str> {
        &self.shape.workload.namespace
    }

    /// Whether it is neither terminating nor finished.
    pub const fn runs(&self) -> bool {
        !self.terminating && !self.terminal
    }

    /// Whether its binding counts for hot spots: neither a daemon set's nor a static pod's, which go to each node by
    /// themselves.
    pub fn counts_as_binding(&self) -> bool {
        self.node.is_some() && !self.shape.is_daemon()
    }
}

impl PlacedShape {
    /// Reads the parts [`PLACED_POD`] of a pod.
    pub fn read(pod: &Pruned<'_>, objects: &Objects) -> Self {
        let at = |path: &[&str]| member(&pod.0, path);
        let namespace = at(&["metadata", "namespace"]).and_then(Json::as_str).unwrap_or("default");
        let view = PodView::read(pod).ok();
        let references = at(&["metadata", "ownerReferences"]).map(Json::to_value);
        let owner = references.as_ref().and_then(Value::as_array).and_then(|list| controller(list));
        let annotation = |key: &str| at(&["metadata", "annotations", key]).and_then(Json::as_str);
        let is_mirror = annotation(keys::MIRROR).is_some();
        let containers: Vec<_> = view.as_ref().map(|view| containers(view, pod)).unwrap_or_default();
        let requests = view.as_ref().and_then(|view| charge(view).ok()).unwrap_or_default();
        let qos = match &view {
            Some(view) if is_guaranteed(view) => Qos::Guaranteed,
            Some(_) if is_burstable(&containers, &requests) => Qos::Burstable,
            _ => Qos::BestEffort,
        };
        Self {
            workload: workload_of(pod, namespace, owner.as_ref(), objects),
            controller: owner
                .map(|owner| ControllerRef { workload: owner.workload, uid: owner.uid.into_boxed_str() }),
            labels: labels(at(&["metadata", "labels"])),
            limits: view.as_ref().map_or([0, 0], |view| limits(view, &containers, &requests)),
            requests,
            containers,
            priority: match at(&["spec", "priority"]) {
                Some(Json::Number(number)) => {
                    let priority = number.as_i64().unwrap_or(0);
                    i32::try_from(priority).unwrap_or(if priority > 0 { i32::MAX } else { i32::MIN })
                }
                _ => 0,
            },
            qos,
            mirror: is_mirror,
            stays: STAYS
                .iter()
                .filter(|(key, value)| {
                    annotation(key).is_some_and(|found| value.is_none_or(|value| found == value))
                })
                .map(|(key, _)| *key)
                .collect(),
            spec: spec_of(pod),
        }
    }

    /// Whether it goes to its node by itself: a daemon set's pod, or a static one's copy.
    pub fn is_daemon(&self) -> bool {
        let kind = self.controller.as_ref().map(|owner| owner.workload.kind.as_str());
        self.mirror || matches!(kind, Some("DaemonSet" | "Node"))
    }
}

fn member<'p, 'j>(json: &'p Json<'j>, path: &[&str]) -> Option<&'p Json<'j>> {
    path.iter().try_fold(json, |json, key| json.get(key)).filter(|json| !json.is_null())
}

/// A time of the API in nanoseconds since 1970; 0 for what is none.
fn nanos(text: &str) -> i64 {
    let time = text.parse::<Timestamp>().map(Timestamp::as_nanosecond).unwrap_or_default();
    i64::try_from(time).unwrap_or_default()
}

fn labels(json: Option<&Json<'_>>) -> BTreeMap<Box<str>, Box<str>> {
    let Some(Json::Object(members)) = json else { return BTreeMap::new() };
    let texts = members.iter().filter_map(|(key, value)| Some((key, value.as_str()?)));
    texts
        .filter(|(key, _)| !OF_ONE_POD.contains(key))
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

fn workload_of(pod: &Pruned<'_>, namespace: &str, owner: Option<&Owner>, objects: &Objects) -> WorkloadKey {
    let text = |path: &[&str]| member(&pod.0, path).and_then(Json::as_str);
    let workload = owner.map_or_else(
        || Workload {
            group: String::new(),
            kind: "Pod".to_owned(),
            name: text(&["metadata", "name"]).unwrap_or_default().to_owned(),
        },
        |owner| {
            let hash = text(&["metadata", "labels", keys::POD_TEMPLATE_HASH]);
            topmost_controller(owner, hash, namespace, objects).workload
        },
    );
    WorkloadKey { namespace: namespace.into(), workload: Arc::new(workload) }
}

/// The containers that run as long as the pod does.
fn containers(view: &PodView<'_>, pod: &Pruned<'_>) -> Vec<ContainerFigures> {
    let amount = |list: Option<&Members<'_>>, name: &str| {
        let value = list?.get(name)?;
        serde_json::from_value::<Quantity>(value.to_value()).ok().map(|quantity| quantity.nanos())
    };
    let image = |place: Place| {
        let (list, index) = match place {
            Place::App(index) => ("containers", index),
            Place::Init(index) => ("initContainers", index),
        };
        let Some(Json::List(list)) = member(&pod.0, &["spec", list]) else { return "" };
        list.get(index).and_then(|container| container.get("image")?.as_str()).unwrap_or_default()
    };
    let lasting = view.containers.iter().filter(|container| container.part() != Part::Init);
    lasting
        .map(|container| ContainerFigures {
            name: container.name.into(),
            image: image(container.place).into(),
            requests: ["cpu", "memory"].map(|name| amount(container.resources.requests, name)),
            limits: ["cpu", "memory"].map(|name| amount(container.resources.limits, name)),
        })
        .collect()
}

/// The sums of the containers' limits, or the pod's own; what has no limit counts its request, and nothing counts less
/// than what the scheduler reserves.
fn limits(view: &PodView<'_>, containers: &[ContainerFigures], requests: &Amounts) -> [i128; 2] {
    [("cpu", 0), ("memory", 1)].map(|(name, index)| {
        let of_container = |container: &ContainerFigures| {
            let limit = container.limits.get(index).copied().flatten();
            limit.or(container.requests.get(index).copied().flatten()).unwrap_or(0).max(0)
        };
        let sum = containers.iter().map(of_container).fold(0_i128, i128::saturating_add);
        let of_pod = view
            .pod_level
            .limits
            .and_then(|list| serde_json::from_value::<Quantity>(list.get(name)?.to_value()).ok())
            .map(|quantity| quantity.nanos());
        of_pod.unwrap_or(sum).max(requests.of(name))
    })
}

fn is_burstable(containers: &[ContainerFigures], requests: &Amounts) -> bool {
    let is_set = |amount: &Option<i128>| amount.is_some_and(|amount| amount > 0);
    ["cpu", "memory"].iter().any(|name| requests.of(name) > 0)
        || containers.iter().any(|container| container.limits.iter().any(is_set))
}

fn spec_of(pod: &Pruned<'_>) -> Pruned<'static> {
    let Some(Json::Object(spec)) = pod.0.get("spec") else { return Pruned(Json::Null) };
    let mut kept: serde_json::Map<String, Value> = spec
        .iter()
        .filter(|(key, value)| ON_WHICH_NODES.contains(key) && !value.is_null())
        .map(|(key, value)| (key.to_owned(), value.to_value()))
        .collect();
    let ports = ["containers", "initContainers"].into_iter().filter_map(|list| match spec.get(list) {
        Some(Json::List(containers)) => Some(containers),
        _ => None,
    });
    let ports = ports.flatten().filter_map(|container| match container.get("ports") {
        Some(Json::List(ports)) => Some(ports),
        _ => None,
    });
    let ports: Vec<_> =
        ports.flatten().filter(|port| port.get("hostPort").is_some()).map(Json::to_value).collect();
    if !ports.is_empty() {
        kept.insert("hostPorts".to_owned(), Value::Array(ports));
    }
    Pruned(Json::from(Value::Object(kept)))
}
