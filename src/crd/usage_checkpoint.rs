//! `UsageCheckpoint`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::recommendation::TargetReference;
use super::schema;

/// The usage of a workload's containers, as it is kept over a restart.
///
/// Everything is in the spec: there is one writer, and nobody whose wishes a status would answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "UsageCheckpoint",
    plural = "usagecheckpoints",
    shortname = "ucp",
    category = "plimsoll",
    namespaced,
    derive = "PartialEq",
    doc = "The measured usage of one workload's containers, so that a restart loses nothing. Written by Plimsoll.",
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.targetRef.kind"),
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.targetRef.name"),
    printcolumn(name = "Containers", type_ = "integer", json_path = ".spec.containerCount"),
    printcolumn(name = "Last-Sample", type_ = "date", json_path = ".spec.lastSample"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct UsageCheckpointSpec {
    /// The version of the content; a program that does not know it sets the object aside.
    #[schemars(range(min = 1))]
    pub version: u32,
    /// The workload, or the namespace, whose usage was measured.
    pub target_ref: TargetReference,
    /// How many entries containers has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub container_count: Option<u32>,
    /// Time of the newest sample of all containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_sample: Option<String>,
    /// By container, and by pod where usage is kept for each pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "maxItems" = 4000))]
    pub containers: Vec<ContainerUsage>,
    /// The peaks of running containers, one line each, for the program alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::peaks")]
    pub peaks: Vec<String>,
    /// What share of the whole cluster's resources the workload uses, in proportion, as placement learnt it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<ResourceWeights>,
}

/// Weights by resource, with the sum 1; texts, so that nobody rounds them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceWeights {
    /// CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number_text")]
    pub cpu: Option<String>,
    /// Memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number_text")]
    pub memory: Option<String>,
    /// Network bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number_text")]
    pub bandwidth: Option<String>,
    /// Disk space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number_text")]
    pub disk: Option<String>,
}

/// The usage of one container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerUsage {
    /// The container's name.
    #[schemars(schema_with = "schema::object_name")]
    pub name: String,
    /// The pod, where usage is kept for each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object_name")]
    pub pod: Option<String>,
    /// The version of this entry.
    #[schemars(range(min = 1))]
    pub version: u32,
    /// How many samples were taken in.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub samples: u64,
    /// Time of the first sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub first_sample: Option<String>,
    /// Time of the last sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_sample: Option<String>,
    /// Time of the last kill for memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_oom: Option<String>,
    /// CPU, in cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<HistogramUsage>,
    /// Memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<HistogramUsage>,
}

/// A histogram whose weights decay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistogramUsage {
    /// In which time a weight halves, in seconds.
    #[schemars(range(min = 1))]
    pub half_life_seconds: i64,
    /// The time at which the weights are stated.
    #[schemars(schema_with = "schema::far_time")]
    pub reference: String,
    /// The sum of the weights; text, so that nobody rounds it.
    #[schemars(schema_with = "schema::number_text")]
    pub total_weight: String,
    /// Weights relative to the largest, which is 10000: `8:7071 25:10000,20` is bucket 8 and buckets 25 and 26.
    #[schemars(schema_with = "schema::weights")]
    pub weights: String,
}
