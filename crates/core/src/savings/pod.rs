//! A pod as savings are counted.

use std::sync::Arc;

use serde_json::Value;

use super::Figures;
use crate::objects::Objects;
use crate::overcommit::Originals;
use crate::placement::WorkloadKey;
use crate::pod::{Container, PodView, Pruned, Workload, topmost_owner};
use crate::quota::{Amounts, ChargeError, as_written, charge};
use crate::resource::Resource;

/// The longest name that an object has, in bytes. Nobody checks the names in owner references.
const MOST_NAME: usize = 253;

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
    /// Whether a request of CPU or memory was lowered: of a container, or of the pod itself, as far as its record is
    /// believed. What the pod counts may be the same all the same, where something else of it counts more.
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
        let workload = bounded(topmost_owner(&view, namespace, objects));
        Ok(Some(Self {
            name: name.into(),
            workload: WorkloadKey { namespace: namespace.into(), workload: Arc::new(workload) },
            lowered: is_lowered(&view),
            before,
            now,
        }))
    }
}

fn is_lowered(view: &PodView<'_>) -> bool {
    let originals = Originals::of(view);
    [Resource::Cpu, Resource::Memory].into_iter().any(|resource| {
        let of_container = |container: &Container<'_>| {
            let found = originals.of_container(container, resource);
            found.is_some_and(|found| found.original.nanos > found.request.nanos)
        };
        originals.of_pod(resource).is_some() || view.containers.iter().any(of_container)
    })
}

/// A workload whose names are no longer than such that an object has; a longer one is cut, and marked as cut.
fn bounded(workload: Workload) -> Workload {
    let Workload { group, kind, name } = workload;
    Workload { group: cut(group), kind: cut(kind), name: cut(name) }
}

fn cut(text: String) -> String {
    if text.len() <= MOST_NAME {
        return text;
    }
    let end = (0..=MOST_NAME - 3).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}...", text.get(..end).unwrap_or_default())
}

fn figures(amounts: &Amounts) -> Figures {
    Figures { cpu: amounts.of("cpu"), memory: amounts.of("memory") }
}
