//! `QuotaLedger`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// What a quota tree's namespaces use and have been promised.
///
/// Everything is in the spec, and each write says which state it replaces: so that no two replicas promise the same
/// room.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "QuotaLedger",
    plural = "quotaledgers",
    shortname = "ql",
    category = "plimsoll",
    namespaced,
    derive = "PartialEq",
    doc = "What the namespaces of one quota tree use and have been promised. Written by Plimsoll; not to be edited.",
    printcolumn(name = "Tree", type_ = "string", json_path = ".spec.tree.name"),
    printcolumn(name = "Initialised", type_ = "boolean", json_path = ".spec.initialised"),
    printcolumn(name = "Pods", type_ = "integer", json_path = ".spec.counts.pods"),
    printcolumn(name = "Reservations", type_ = "integer", json_path = ".spec.counts.reservations"),
    printcolumn(name = "Claims", type_ = "integer", json_path = ".spec.counts.claims"),
    printcolumn(name = "Epoch", type_ = "integer", json_path = ".spec.epoch"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct QuotaLedgerSpec {
    /// Committed usage, reservations and claims, compressed; it begins with its version.
    #[schemars(schema_with = "schema::ledger_data")]
    pub data: String,
    /// How many leaders there have been; each writes only while it is the newest.
    #[schemars(range(min = 0))]
    pub epoch: i64,
    /// The tree whose leaves the content is about.
    pub tree: LedgerTree,
    /// Whether every pod has been counted; until then nothing is admitted.
    pub initialised: bool,
    /// How much is in data.
    pub counts: LedgerCounts,
}

/// Which tree, and which state of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerTree {
    /// Its name.
    #[schemars(schema_with = "schema::object_name")]
    pub name: String,
    /// Its uid.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// Its generation.
    #[schemars(range(min = 0))]
    pub generation: i64,
}

/// How much a ledger holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerCounts {
    /// Counted pods.
    #[schemars(range(min = 0))]
    pub pods: u64,
    /// Admitted, and not yet counted.
    #[schemars(range(min = 0))]
    pub reservations: u64,
    /// Room that owners are waiting for.
    #[schemars(range(min = 0))]
    pub claims: u64,
}
