//! A pod that exists, as far as quota is concerned.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use thiserror::Error;

use crate::keys;
use crate::pod::{Owner, controller};
use crate::quota::{Amounts, ChargeError, counted};

/// A pod of the cluster. There may be a hundred thousand of them.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "facts that are independent of each other")]
pub struct QuotaPod {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Which of all pods of that name, over time; empty offline.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`, by which states of it are put in order; 0 offline.
    pub version: u64,
    /// What it counts, see [`counted`].
    pub charge: Amounts,
    /// `spec.priority`; 0 if it has none.
    pub priority: i32,
    /// Whether its condition `Ready` is true.
    pub ready: bool,
    /// When it was created, in seconds since 1970; 0 if that is not known.
    pub created: i64,
    /// Whether it has a deletion timestamp: it counts until it is gone.
    pub terminating: bool,
    /// Whether its phase is Succeeded or Failed: it counts no more.
    pub terminal: bool,
    /// A copy of a static pod: its annotation says so and a Node is its controller. It does not count.
    pub mirror: bool,
    /// Whether a label says that it is not preemptible.
    pub not_preemptible: bool,
    /// Whether the annotation [`keys::DO_NOT_EVICT`] is set.
    pub do_not_evict: bool,
    /// Its controller.
    pub controller: Option<Owner>,
}

/// Why a pod cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuotaPodError {
    /// It has no name or no namespace.
    #[error("a Pod without {missing}")]
    Nameless {
        /// What is missing.
        missing: &'static str,
    },
    /// What it requests cannot be read.
    #[error("pod {namespace}/{name}: {error}")]
    Charge {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why not.
        error: ChargeError,
    },
}

impl QuotaPod {
    /// Reads a pod as the API server has it.
    ///
    /// # Errors
    /// It has no name, no namespace, or something in it that is no quantity.
    pub fn read(pod: &Value) -> Result<Self, QuotaPodError> {
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        for (value, missing) in [(namespace, "metadata.namespace"), (name, "metadata.name")] {
            if value.is_empty() {
                return Err(QuotaPodError::Nameless { missing });
            }
        }
        let charge = counted(pod).map_err(|error| QuotaPodError::Charge {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            error,
        })?;
        let entry = |map: &str, key: &str| pod.pointer(map)?.get(key)?.as_str();
        let references = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let controller = references.and_then(|references| controller(references));
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        let is = |condition: &Value, key: &str, text: &str| {
            condition.get(key).and_then(Value::as_str) == Some(text)
        };
        Ok(Self {
            namespace: namespace.into(),
            name: name.into(),
            uid: text("/metadata/uid").into(),
            version: text("/metadata/resourceVersion").parse().unwrap_or(0),
            charge,
            priority: pod
                .pointer("/spec/priority")
                .and_then(Value::as_i64)
                .map_or(0, |priority| i32::try_from(priority).unwrap_or(i32::MAX)),
            ready: conditions
                .into_iter()
                .flatten()
                .any(|condition| is(condition, "type", "Ready") && is(condition, "status", "True")),
            created: text("/metadata/creationTimestamp").parse::<Timestamp>().map_or(0, Timestamp::as_second),
            terminating: pod.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()),
            terminal: matches!(text("/status/phase"), "Succeeded" | "Failed"),
            mirror: entry("/metadata/annotations", keys::MIRROR).is_some()
                && controller
                    .as_ref()
                    .is_some_and(|owner| owner.workload.kind == "Node" && owner.workload.group.is_empty()),
            not_preemptible: keys::PREEMPTIBLE
                .iter()
                .any(|label| entry("/metadata/labels", label) == Some("false")),
            do_not_evict: entry("/metadata/annotations", keys::DO_NOT_EVICT) == Some("true"),
            controller,
        })
    }

    /// Whether it counts where its namespace is bound.
    pub const fn counts(&self) -> bool {
        !self.terminal && !self.mirror
    }
}
