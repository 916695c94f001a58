//! A pod as savings are counted.

use std::sync::Arc;

use serde_json::Value;

use super::Figures;
use crate::objects::Objects;
use crate::placement::WorkloadKey;
use crate::pod::{PodView, Pruned, topmost_owner};
use crate::quota::{Amounts, ChargeError, as_written, charge};

/// What of a pod is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavingsPod {
    /// Its name.
    pub name: Arc<str>,
    /// Its workload, with its namespace.
    pub workload: WorkloadKey,
    /// What it would request if nothing had been lowered.
    pub before: Figures,
    /// What it requests.
    pub now: Figures,
    /// Whether a request of CPU or memory was lowered.
    pub lowered: bool,
}

impl SavingsPod {
    /// Reads a pod as the API server has it; `None` for one that has ended, or has no name or namespace. `objects` has
    /// the `ReplicaSet`s and `Job`s by which its workload is found.
    ///
    /// # Errors
    /// It is no pod that the API server would store.
    pub fn read(pod: &Value, objects: &Objects) -> Result<Option<Self>, ChargeError> {
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let has_ended = matches!(text("/status/phase"), "Succeeded" | "Failed");
        if namespace.is_empty() || name.is_empty() || has_ended {
            return Ok(None);
        }
        let pruned = Pruned::of(pod);
        let view = PodView::read(&pruned)?;
        let (before, now) = (figures(&as_written(pod)?), figures(&charge(&view)?));
        let workload = topmost_owner(&view, namespace, objects);
        Ok(Some(Self {
            name: name.into(),
            workload: WorkloadKey { namespace: namespace.into(), workload: Arc::new(workload) },
            lowered: before != now,
            before,
            now,
        }))
    }
}

fn figures(amounts: &Amounts) -> Figures {
    Figures { cpu: amounts.of("cpu"), memory: amounts.of("memory") }
}
