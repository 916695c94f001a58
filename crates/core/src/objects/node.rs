//! From a node's manifest to what decisions need of it.

use std::collections::BTreeMap;

use plimsoll_quantity::Quantity;
use serde_json::Value;

use crate::keys;
use crate::objects::manifest::strings;
use crate::objects::{Node, Taint};
use crate::quota::Amounts;

/// Taints of nodes that are about to go: of cluster-autoscaler, Karpenter and Kubernetes itself.
const LEAVING: [&str; 5] = [
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "node.kubernetes.io/out-of-service",
    "node.kubernetes.io/unschedulable",
];

impl Node {
    /// Reads everything but the name. What is of another form than Kubernetes gives it is absent.
    pub(super) fn read(manifest: &Value) -> Self {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let mut annotations = strings(manifest.pointer("/metadata/annotations"));
        annotations.retain(|key, _| key.starts_with(keys::PREFIX));
        Self {
            name: String::new(),
            uid: text("/metadata/uid").to_owned(),
            labels: strings(manifest.pointer("/metadata/labels")),
            annotations,
            allocatable: amounts(manifest.pointer("/status/allocatable")),
            capacity: amounts(manifest.pointer("/status/capacity")),
            taints: list(manifest, "/spec/taints").filter_map(taint).collect(),
            unschedulable: manifest.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false),
            ready: is_ready(manifest),
            addresses: list(manifest, "/status/addresses").filter_map(address).collect(),
        }
    }

    /// Whether new pods may be sent to it: it is ready, not cordoned, and no autoscaler is about to take it away. Other
    /// taints are another matter: a pod may tolerate them.
    pub fn takes_pods(&self) -> bool {
        let leaves =
            |taint: &Taint| LEAVING.contains(&taint.key.as_str()) && taint.effect != "PreferNoSchedule";
        self.ready && !self.unschedulable && !self.taints.iter().any(leaves)
    }
}

fn list<'a>(manifest: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    manifest.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn amounts(map: Option<&Value>) -> Amounts {
    let entries: BTreeMap<_, _> = map
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| {
            Some((name.as_str(), serde_json::from_value::<Quantity>(value.clone()).ok()?))
        })
        .collect();
    entries.into_iter().map(|(name, quantity)| (name, quantity.nanos())).collect()
}

fn taint(item: &Value) -> Option<Taint> {
    let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let taint = Taint { key: text("key"), value: text("value"), effect: text("effect") };
    (!taint.key.is_empty() && !taint.effect.is_empty()).then_some(taint)
}

fn is_ready(manifest: &Value) -> bool {
    let mut conditions = list(manifest, "/status/conditions").peekable();
    if conditions.peek().is_none() {
        return true;
    }
    let text = |condition: &Value, key: &str| condition.get(key).and_then(Value::as_str).map(str::to_owned);
    conditions
        .find(|condition| text(condition, "type").as_deref() == Some("Ready"))
        .is_some_and(|condition| text(condition, "status").as_deref() == Some("True"))
}

fn address(item: &Value) -> Option<Box<str>> {
    let text = |key: &str| item.get(key).and_then(Value::as_str);
    let ours = matches!(text("type"), Some("InternalIP" | "Hostname" | "InternalDNS"));
    text("address").filter(|address| ours && !address.is_empty()).map(Box::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::objects::{Fact, FactKey, FactKind, Node, Objects, Taint, read_manifest};

    fn read(manifest: &serde_json::Value) -> Node {
        let Ok(Some(Fact::Node(node))) = read_manifest(manifest) else { panic!("{manifest}") };
        node.as_ref().clone()
    }

    #[test]
    fn everything_is_read() {
        let manifest = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "n1", "uid": "u", "labels": {"zone": "a", "bad": 5},
                "annotations": {"plimsoll.dev/load": "x", "other.example/load": "y"},
            },
            "spec": {
                "unschedulable": true,
                "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}, {"key": "half"}, 5],
            },
            "status": {
                "capacity": {"cpu": "8", "memory": "32Gi", "odd": "x"},
                "allocatable": {"cpu": "7500m", "memory": "30Gi"},
                "conditions": [
                    {"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"},
                ],
                "addresses": [
                    {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "1.2.3.4"},
                    {"type": "Hostname", "address": "host-1"}, {"type": "InternalIP", "address": "fd00::1"}, {},
                ],
            },
        });
        let node = read(&manifest);
        assert_eq!((&*node.name, &*node.uid, node.unschedulable), ("n1", "u", true));
        assert_eq!(node.labels, [("zone".to_owned(), "a".to_owned())].into());
        assert_eq!(node.annotations.keys().collect::<Vec<_>>(), ["plimsoll.dev/load"]);
        assert_eq!(node.capacity.of("cpu"), 8_000_000_000);
        assert_eq!(node.allocatable.of("cpu"), 7_500_000_000);
        assert_eq!(node.capacity.get("odd"), None);
        let taint = Taint { key: "gpu".to_owned(), value: "yes".to_owned(), effect: "NoSchedule".to_owned() };
        assert_eq!(node.taints, [taint]);
        assert_eq!(node.addresses, ["10.0.0.1", "host-1", "fd00::1"].map(Box::from));
        assert!(node.ready && !node.takes_pods(), "cordoned");
        for (taint, effect, takes) in [
            ("ToBeDeletedByClusterAutoscaler", "NoSchedule", false),
            ("karpenter.sh/disrupted", "NoSchedule", false),
            ("DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule", true),
            ("example.org/dedicated", "NoSchedule", true),
        ] {
            let taints = vec![Taint { key: taint.to_owned(), effect: effect.to_owned(), ..Taint::default() }];
            let node = Node { taints, unschedulable: false, ..node.clone() };
            assert_eq!(node.takes_pods(), takes, "{taint}");
        }
    }

    #[test]
    fn readiness() {
        for (rule, status, ready) in [
            ("true", json!({"conditions": [{"type": "Ready", "status": "True"}]}), true),
            ("false", json!({"conditions": [{"type": "Ready", "status": "False"}]}), false),
            ("unknown", json!({"conditions": [{"type": "Ready", "status": "Unknown"}]}), false),
            ("not said yet", json!({"conditions": [{"type": "DiskPressure", "status": "False"}]}), false),
            ("nothing is said", json!({}), true),
            ("nonsense", json!(5), true),
        ] {
            let manifest =
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status});
            assert_eq!(read(&manifest).ready, ready, "{rule}");
        }
    }

    #[test]
    fn nodes_are_found_by_name() {
        let mut objects = Objects::default();
        for name in ["a", "b"] {
            let manifest = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
            objects.put(read_manifest(&manifest).unwrap().unwrap());
        }
        let mut names: Vec<_> = objects.nodes().map(|node| node.name.clone()).collect();
        names.sort();
        assert_eq!(names, ["a", "b"]);
        objects.remove(&FactKey { kind: FactKind::Node, namespace: String::new(), name: "a".to_owned() });
        assert_eq!((objects.node("a"), objects.node("b").map(|node| &*node.name)), (None, Some("b")));
    }
}
