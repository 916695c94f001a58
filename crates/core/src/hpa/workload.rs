//! What an autoscaler scales.

use std::sync::Arc;

use serde_json::Value;

use crate::hpa::Shape;
use crate::objects::WorkloadKind;
use crate::pod::{Workload, group_of};
use crate::profile::{Selector, read_selector};

/// A workload, as far as its autoscaler is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadFacts {
    /// Its namespace.
    pub namespace: String,
    /// Which of the kinds.
    pub kind: WorkloadKind,
    /// Group, kind and name.
    pub workload: Workload,
    /// Which of all objects of that name, over time.
    pub uid: String,
    /// Which pods are its own; none if it cannot be read.
    pub selector: Option<Selector>,
    /// What its template makes; none if it has no template.
    pub template: Option<Arc<Shape>>,
}

impl WorkloadFacts {
    /// Reads a workload. `None` for what is none of the kinds, or has no name.
    pub fn read(manifest: &Value) -> Option<Self> {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let group = group_of(text("/apiVersion"));
        let known = WorkloadKind::of(group, kind).filter(|_| !name.is_empty())?;
        let selector = manifest.pointer("/spec/selector");
        Some(Self {
            namespace: text("/metadata/namespace").to_owned(),
            kind: known,
            workload: Workload { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned() },
            uid: text("/metadata/uid").to_owned(),
            // The empty selector selects everything, and is no workload's.
            selector: selector
                .and_then(|selector| read_selector(selector, "spec.selector").ok())
                .filter(|selector| !selector.requirements.is_empty()),
            template: Shape::of_template(manifest).map(Arc::new),
        })
    }
}
