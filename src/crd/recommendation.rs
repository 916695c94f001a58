//! `Recommendation`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// What a recommendation is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "Recommendation",
    plural = "recommendations",
    shortname = "rec",
    category = "plimsoll",
    namespaced,
    status = "RecommendationStatus",
    derive = "PartialEq",
    doc = "What the containers of one workload, pod or namespace need, from measured usage. Written by Plimsoll.",
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.targetRef.kind"),
    printcolumn(name = "Workload", type_ = "string", json_path = ".spec.targetRef.name"),
    printcolumn(
        name = "Pod",
        type_ = "string",
        json_path = ".spec.podName",
        priority = 1,
        description = "The pod, where each pod has an own recommendation"
    ),
    printcolumn(name = "Profile", type_ = "string", json_path = ".spec.profile"),
    printcolumn(
        name = "CPU",
        type_ = "string",
        json_path = ".status.containers[0].cpu.target",
        description = "What the first container needs, by the percentile of the profile"
    ),
    printcolumn(
        name = "Memory",
        type_ = "string",
        json_path = ".status.containers[0].memory.target",
        description = "What the first container needs, by the percentile of the profile"
    ),
    printcolumn(
        name = "Effective-CPU",
        type_ = "string",
        json_path = ".status.containers[0].cpu.effective",
        description = "What the first container of a new pod requests, after expansion and margin"
    ),
    printcolumn(
        name = "Effective-Memory",
        type_ = "string",
        json_path = ".status.containers[0].memory.effective",
        description = "What the first container of a new pod requests, after expansion and margin"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why it is ready, or not"
    ),
    printcolumn(
        name = "Last-Sample",
        type_ = "date",
        json_path = ".status.containers[0].lastSample",
        priority = 1,
        description = "When the first container was last measured"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct RecommendationSpec {
    /// The workload, or the namespace, whose usage was measured.
    pub target_ref: TargetReference,
    /// The profile it was made for; it is used only for pods that this profile matches.
    #[schemars(schema_with = "schema::object_name")]
    pub profile: String,
    /// The pod it is about, where the profile's granularity is Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object_name")]
    pub pod_name: Option<String>,
}

/// A workload, or a namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetReference {
    /// Its API version, such as apps/v1.
    #[schemars(schema_with = "schema::type_name")]
    pub api_version: String,
    /// Its kind, such as Deployment, or Namespace.
    #[schemars(schema_with = "schema::type_name")]
    pub kind: String,
    /// Its name.
    #[schemars(schema_with = "schema::object_name")]
    pub name: String,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecommendationStatus {
    /// By container; sidecars are containers too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"],
        "maxItems" = 1000,
    ))]
    pub containers: Vec<ContainerFigures>,
    /// Ready, LowHistory, Stale, NoPods, ConfigUnsupported; each message says what to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// What was found for one container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerFigures {
    /// The container's name.
    #[schemars(schema_with = "schema::object_name")]
    pub name: String,
    /// CPU, in cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Figures>,
    /// Memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Figures>,
    /// How many samples were taken in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub samples: Option<i64>,
    /// Time of the first sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub first_sample: Option<String>,
    /// Time of the last sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_sample: Option<String>,
}

/// Figures of one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// The model's value: the percentile that the profile asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub target: Option<IntOrString>,
    /// Half of the usage was below this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub lower: Option<IntOrString>,
    /// A value that is safe with the history there is; absent with too little of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub upper: Option<IntOrString>,
    /// The request before it was lowered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub original: Option<IntOrString>,
    /// What a new pod's request becomes, after expansion, margin and rounding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub effective: Option<IntOrString>,
}
