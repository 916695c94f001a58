//! `ResourceFlavor` of Kueue, for clusters that do not have Kueue.

use serde_json::{Value, json};

/// The definition as it is installed: the version that Kueue stores and the one before it, which do not differ.
pub(super) fn definition() -> Value {
    let version = |name: &str, storage: bool| {
        json!({
            "name": name,
            "served": true,
            "storage": storage,
            "additionalPrinterColumns": [
                {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            ],
            "schema": {"openAPIV3Schema": schema()},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "resourceflavors.kueue.x-k8s.io"},
        "spec": {
            "group": "kueue.x-k8s.io",
            "names": {
                "kind": "ResourceFlavor", "listKind": "ResourceFlavorList", "plural": "resourceflavors",
                "singular": "resourceflavor", "shortNames": ["flavor", "flavors", "rf"],
            },
            "scope": "Cluster",
            "versions": [version("v1beta1", false), version("v1beta2", true)],
        },
    })
}

fn schema() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    json!({
        "type": "object",
        "description": "A kind of nodes, told by their labels.",
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of the schema."},
            "kind": {"type": "string", "description": "Kind of the object."},
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "description": "Which nodes.",
                "properties": {
                    "nodeLabels": {
                        "type": "object", "maxProperties": 8, "x-kubernetes-map-type": "atomic",
                        "description": "Labels that a node of this flavor has. Pods of a quota with this flavor run on such nodes only.",
                        "additionalProperties": {"type": "string"},
                    },
                    "nodeTaints": {
                        "type": "array", "maxItems": 8, "x-kubernetes-list-type": "atomic",
                        "description": "Taints that a node of this flavor has. Read by Kueue only.",
                        "items": {
                            "type": "object",
                            "required": ["key", "effect"],
                            "properties": {
                                "key": text("The taint's key."),
                                "value": text("The taint's value."),
                                "effect": {
                                    "type": "string", "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
                                    "description": "What becomes of pods that do not tolerate it.",
                                },
                                "timeAdded": {
                                    "type": "string", "format": "date-time",
                                    "description": "When it was added; for NoExecute only.",
                                },
                            },
                        },
                    },
                    "tolerations": {
                        "type": "array", "maxItems": 8, "x-kubernetes-list-type": "atomic",
                        "description": "Tolerations that pods of this flavor get. Read by Kueue only.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "key": text("The taint's key; none stands for all."),
                                "operator": text("Exists, or Equal, which is the default; newer Kubernetes knows more."),
                                "value": text("The taint's value."),
                                "effect": {
                                    "type": "string", "enum": ["", "NoSchedule", "PreferNoSchedule", "NoExecute"],
                                    "description": "Which effect is tolerated; none stands for all.",
                                },
                                "tolerationSeconds": {
                                    "type": "integer", "format": "int64",
                                    "description": "For how long; for NoExecute only.",
                                },
                            },
                        },
                    },
                    "topologyName": {
                        "type": "string", "maxLength": 253,
                        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
                        "description": "The topology of these nodes. Read by Kueue only.",
                    },
                },
            },
        },
    })
}
