//! `ElasticQuotaTree`, which is not a kind of ours: others write it, and have it in their clusters already.
//!
//! The schema is open on purpose. A closed one would drop a field that nobody knows before the webhook sees it, and a
//! quantity as a number with a fraction would be refused; whether the tree makes sense is for the checks in
//! [`plimsoll_core::quota`] to say, all at once. A schema cannot recurse, so that levels are written out.

use plimsoll_core::quota::{TREE_GROUP, TREE_KIND, TREE_VERSION};
use serde_json::{Map, Value, json};

/// So many levels `kubectl explain` knows; a tree may be deeper.
const LEVELS: usize = 8;
const OPEN: &str = "x-kubernetes-preserve-unknown-fields";

/// The definition as it is installed.
pub(super) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("elasticquotatrees.{TREE_GROUP}"),
            // Groups of k8s.io need it. The kind comes from schedulers of the field, not from Kubernetes.
            "annotations": {"api-approved.kubernetes.io": "unapproved, the kind is an established one outside of Kubernetes"},
        },
        "spec": {
            "group": TREE_GROUP,
            "names": {
                "kind": TREE_KIND, "listKind": format!("{TREE_KIND}List"), "plural": "elasticquotatrees",
                "singular": "elasticquotatree", "shortNames": ["eqtree"],
            },
            "scope": "Namespaced",
            "versions": [{
                "name": TREE_VERSION,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    column("CPU", ".status.root.used.cpu", "CPU in use by pods below the root"),
                    column("Borrowed-CPU", ".status.borrowed.cpu", "CPU that leaves use beyond their minimum"),
                    column("Max-CPU", ".spec.root.max.cpu", "CPU that all pods below the root may use"),
                    column("Memory", ".status.root.used.memory", "Memory in use by pods below the root"),
                    column("Borrowed-Memory", ".status.borrowed.memory", "Memory that leaves use beyond their minimum"),
                    column("Max-Memory", ".spec.root.max.memory", "Memory that all pods below the root may use"),
                    column("Ready", ".status.conditions[?(@.type==\"Ready\")].status", "Whether usage is counted and borrowers give way"),
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": schema()},
            }],
        },
    })
}

fn column(name: &str, path: &str, description: &str) -> Value {
    json!({"name": name, "type": "string", "jsonPath": path, "description": description})
}

fn schema() -> Value {
    json!({
        "type": "object",
        "description": "Says what namespaces are guaranteed of a cluster and what they may borrow. It counts in kube-system, and there is one.",
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of the schema."},
            "kind": {"type": "string", "description": "Kind of the object."},
            "metadata": {"type": "object"},
            "spec": {
                "type": "object", OPEN: true, "nullable": true,
                "description": "The tree.",
                "properties": {"root": node(1, false)},
            },
            "status": {
                "type": "object", OPEN: true,
                "description": "What is in use. Written by the server.",
                "properties": {
                    "observedGeneration": {
                        "type": "integer", "format": "int64",
                        "description": "The generation of the tree that this is about.",
                    },
                    "conditions": conditions(),
                    "borrowed": {
                        "type": "object", "additionalProperties": {OPEN: true},
                        "description": "By resource: what all leaves together use beyond their minimum.",
                    },
                    "root": node(1, true),
                },
            },
        },
    })
}

/// A node and the levels below it. Only the first has descriptions: the others are the same.
fn node(level: usize, in_status: bool) -> Value {
    let amounts = || json!({"type": "object", "nullable": true, "additionalProperties": {OPEN: true}});
    let below =
        if level < LEVELS { node(level + 1, in_status) } else { json!({"type": "object", OPEN: true}) };
    let mut properties = Map::from_iter([
        ("name".to_owned(), json!({"type": "string", "nullable": true})),
        ("namespaces".to_owned(), json!({"type": "array", "nullable": true, "items": {"type": "string"}})),
        ("min".to_owned(), amounts()),
        ("max".to_owned(), amounts()),
        ("attributes".to_owned(), json!({"type": "object", "nullable": true, OPEN: true})),
        ("children".to_owned(), json!({"type": "array", "nullable": true, "items": below})),
    ]);
    if in_status {
        properties.extend(["used", "request"].map(|field| (field.to_owned(), amounts())));
    }
    if level > 1 {
        return json!({"type": "object", OPEN: true, "nullable": true, "properties": properties});
    }
    for (field, text) in FIELDS {
        if let Some(Value::Object(part)) = properties.get_mut(field) {
            part.insert("description".to_owned(), json!(text));
        }
    }
    json!({
        "type": "object", OPEN: true, "nullable": true, "properties": properties,
        "description": "The node that all others are below.",
    })
}

/// What the fields of a node are.
const FIELDS: [(&str, &str); 8] = [
    ("name", "A name that no other node of the tree has."),
    ("namespaces", "The namespaces that belong here; at a leaf only, and each at one leaf."),
    ("min", "By resource: what is guaranteed. At the root the same as max; elsewhere 0 if absent."),
    ("max", "By resource: what may be used, capacity that others leave idle included. No bound if absent."),
    (
        "attributes",
        "resourceflavors: names of ResourceFlavors, separated by commas; pods below run on nodes of one of them.",
    ),
    ("children", "The nodes below, of the same form."),
    ("used", "By resource: what counted pods use below this node."),
    ("request", "By resource: what is used and what is claimed by pods that wait for their guarantee."),
];

fn conditions() -> Value {
    json!({
        "type": "array", "description": "What is to be said about the tree.",
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
                "message": {"type": "string", "maxLength": 32768},
            },
        },
    })
}
