//! The JSON Patch: `add` and `remove` only, on paths that we own.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::keys;
use crate::overcommit::{Line, Plan, Target};
use crate::pod::{Json, PodView, Presence, Resources};

/// One operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Operation {
    /// Adds a member, or sets one that is there.
    Add {
        /// JSON pointer.
        path: String,
        /// The value.
        value: Value,
    },
    /// Removes a member that is there.
    Remove {
        /// JSON pointer.
        path: String,
    },
}

impl Operation {
    /// Where it applies.
    pub fn path(&self) -> &str {
        match self {
            Self::Add { path, .. } | Self::Remove { path } => path,
        }
    }
}

/// The annotations a pod should have: `None` removes one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// `plimsoll.dev/original-resources`
    pub record: Option<String>,
    /// `plimsoll.dev/applied`
    pub applied: Option<String>,
}

/// The operations that make a pod what a plan says: containers by index, init containers by index, the
/// pod's resources, annotations. A missing parent is added whole; one that is there is never replaced.
pub fn build(pod: &PodView<'_>, plan: &Plan, annotations: &Annotations) -> Vec<Operation> {
    let mut operations = Vec::new();
    let changed: Vec<&Line> = plan.lines.iter().filter(|line| line.changes()).collect();
    for lines in changed.chunk_by(|a, b| a.target == b.target) {
        let Some(first) = lines.first() else { continue };
        let (base, resources) = locate(pod, &first.target);
        requests(&mut operations, &base, resources, lines);
    }
    annotate(&mut operations, pod, annotations);
    operations
}

/// The JSON text of a patch.
pub fn to_json(operations: &[Operation]) -> Vec<u8> {
    serde_json::to_vec(operations).unwrap_or_else(|_| b"[]".to_vec())
}

fn locate<'p>(pod: &'p PodView<'_>, target: &Target) -> (String, Option<&'p Resources<'p>>) {
    let of = |place| pod.container(place).map(|container| &container.resources);
    match target {
        Target::Container { index, .. } => {
            (format!("/spec/containers/{index}/resources"), of(crate::pod::Place::App(*index)))
        }
        Target::InitContainer { index, .. } => {
            (format!("/spec/initContainers/{index}/resources"), of(crate::pod::Place::Init(*index)))
        }
        Target::Pod => ("/spec/resources".to_owned(), Some(&pod.pod_level)),
    }
}

fn requests(operations: &mut Vec<Operation>, base: &str, resources: Option<&Resources<'_>>, lines: &[&Line]) {
    let value = |line: &&Line| Value::String(line.result.text.clone());
    let whole =
        || lines.iter().map(|line| (line.resource.name().to_owned(), value(line))).collect::<Map<_, _>>();
    let add = |path: String, value: Value| Operation::Add { path, value };
    match resources {
        Some(Resources { requests: Some(_), .. }) => {
            operations.extend(
                lines.iter().map(|line| add(format!("{base}/requests/{}", line.resource), value(line))),
            );
        }
        Some(Resources { resources: Presence::Present, .. }) => {
            operations.push(add(format!("{base}/requests"), Value::Object(whole())));
        }
        _ => {
            let mut object = Map::new();
            object.insert("requests".to_owned(), Value::Object(whole()));
            operations.push(add(base.to_owned(), Value::Object(object)));
        }
    }
}

fn annotate(operations: &mut Vec<Operation>, pod: &PodView<'_>, wanted: &Annotations) {
    let wanted = [(keys::APPLIED, &wanted.applied), (keys::ORIGINAL_RESOURCES, &wanted.record)];
    let Some(present) = pod.annotations else {
        let map: Map<_, _> = wanted
            .into_iter()
            .filter_map(|(key, text)| Some((key.to_owned(), Value::String(text.clone()?))))
            .collect();
        if !map.is_empty() {
            operations
                .push(Operation::Add { path: "/metadata/annotations".to_owned(), value: Value::Object(map) });
        }
        return;
    };
    for (key, text) in wanted {
        let path = || format!("/metadata/annotations/{}", escape(key));
        match (text, present.get(key)) {
            (Some(text), found) if found.and_then(Json::as_str) != Some(text) => {
                operations.push(Operation::Add { path: path(), value: Value::String(text.clone()) });
            }
            (None, Some(_)) => operations.push(Operation::Remove { path: path() }),
            _ => {}
        }
    }
}

/// Escapes a member's name for a JSON pointer.
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
