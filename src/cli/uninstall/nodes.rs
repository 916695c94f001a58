//! Nodes: what placement wrote on them says nothing any more.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, stream};
use plimsoll_core::keys;
use serde_json::{Map, Value, json};

use super::{Ending, Job, Line};
use crate::cli::calls::{Collection, name_of};
use crate::cli::progress::{Progress, Unit, count};
use crate::placement::publish::calls::MANAGER;

const STEP: &str = "nodes";
/// How many nodes are written at a time.
const AT_ONCE: usize = 8;
const NODES: Collection<'static> =
    Collection { group: "", version: "v1", kind: "Node", plural: "nodes", namespace: "" };

pub(super) async fn clean(job: &Job) -> Vec<Line> {
    let line = |result, message: String| Line { step: STEP, object: "Nodes".to_owned(), result, message };
    let progress = Progress::new("freeing nodes of labels and annotations", Unit::Objects);
    let nodes = match job.calls.list(NODES, None).await {
        Ok(nodes) => nodes,
        Err(error) => return vec![line(Ending::Failed, error.to_string())],
    };
    let marked: Vec<_> = nodes.iter().filter_map(|node| Some((name_of(node), without_ours(node)?))).collect();
    progress.expect(count(marked.len()));
    let progress = &progress;
    let cleaned: Vec<Line> = stream::iter(marked)
        .map(|(name, patch)| async move {
            let line = one(job, name, patch).await;
            progress.add();
            line
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    if cleaned.is_empty() {
        vec![line(Ending::Nothing, "none carries anything of ours".to_owned())]
    } else {
        cleaned
    }
}

async fn one(job: &Job, name: &str, patch: Value) -> Line {
    let line = |result, message: String| Line { step: STEP, object: NODES.object(name), result, message };
    let done = job.words("freed of our labels and annotations");
    if job.dry_run {
        return line(job.ending(), done);
    }
    match job.calls.merge(NODES, None, name, &patch).await {
        Ok(true) => line(Ending::Done, done),
        Ok(false) => line(Ending::Nothing, "not there any more".to_owned()),
        Err(error) => line(Ending::Failed, error.to_string()),
    }
}

/// The patch that takes away what is ours; nothing if there is nothing.
///
/// The label is ours by its name. Annotations have the names of Crane, who may write them too: ours are those that the API
/// server has from us.
fn without_ours(node: &Value) -> Option<Value> {
    let mut metadata = Map::new();
    for (field, by_name) in [("labels", Some(keys::LOAD_CLASS)), ("annotations", None)] {
        let there = node.pointer(&format!("/metadata/{field}")).and_then(Value::as_object);
        let Some(there) = there else { continue };
        let mut ours = written(node, field);
        ours.extend(by_name);
        let gone: Map<_, _> = ours
            .into_iter()
            .filter(|key| there.contains_key(*key))
            .map(|key| (key.to_owned(), Value::Null))
            .collect();
        if !gone.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(gone));
        }
    }
    (!metadata.is_empty()).then(|| json!({ "metadata": metadata }))
}

/// The keys of labels or annotations that the server was the last to write.
fn written<'a>(node: &'a Value, field: &str) -> BTreeSet<&'a str> {
    let entries = node.pointer("/metadata/managedFields").and_then(Value::as_array);
    let ours = entries
        .into_iter()
        .flatten()
        .filter(|entry| entry.get("manager").and_then(Value::as_str) == Some(MANAGER));
    ours.filter_map(|entry| entry.pointer(&format!("/fieldsV1/f:metadata/f:{field}"))?.as_object())
        .flat_map(Map::keys)
        .filter_map(|key| key.strip_prefix("f:"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_goes() {
        let crane = "node-load/cpu";
        let managed = |manager: &str| json!([{"manager": manager, "fieldsV1": {"f:metadata": {"f:annotations": {".": {}, "f:node-load/cpu": {}}}}}]);
        let gone = json!({"metadata": {"annotations": {crane: null}}});
        for (rule, metadata, want) in [
            ("nothing on it", json!({}), None),
            ("others' labels stay", json!({"labels": {"zone": "a"}}), None),
            (
                "the label is ours by its name",
                json!({"labels": {"zone": "a", keys::LOAD_CLASS: "cool"}}),
                Some(json!({"metadata": {"labels": {keys::LOAD_CLASS: null}}})),
            ),
            (
                "annotations that we wrote",
                json!({"annotations": {crane: "1", "x": "2"}, "managedFields": managed(MANAGER)}),
                Some(gone),
            ),
            (
                "annotations that Crane wrote",
                json!({"annotations": {crane: "1"}, "managedFields": managed("crane")}),
                None,
            ),
            ("what is gone already", json!({"annotations": {}, "managedFields": managed(MANAGER)}), None),
        ] {
            assert_eq!(without_ours(&json!({ "metadata": metadata })), want, "{rule}");
        }
    }
}
