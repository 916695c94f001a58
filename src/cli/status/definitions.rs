//! Whether the CRDs of the cluster are those of this program. What an older one does not know is dropped by the API server
//! before anybody of us sees it.

use kube::Client;
use serde_json::Value;

use super::cluster::unknown;
use super::report::Row;
use crate::cli::access::{Kind, Read, get};
use crate::cli::server::name;
use crate::crd;
use crate::status::State;

const DEFINITIONS: Kind =
    Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
const PART: &str = "crds";
const REMEDY: &str = "`plimsoll manifests crds | kubectl apply --server-side --force-conflicts -f -`, with the program of the server's version";
/// Whoever else writes to what Helm has installed is in the way of the next upgrade.
const REMEDY_BY_HELM: &str = "`helm upgrade` the release with the chart of the server's version, with --force-conflicts where \
                              somebody else has changed the CRD";

/// Asks for each, and compares.
pub(super) async fn row(client: &Client) -> Row {
    let ours = match crd::definitions() {
        Ok(ours) => ours,
        Err(error) => return unknown(PART, &error.to_string()),
    };
    let mut row = Row::new(PART, State::Healthy, format!("{} as this program has them", ours.len()));
    let asked = ours.iter().map(|own| get(client, DEFINITIONS, None, name(own)));
    let answers = futures_util::future::join_all(asked).await;
    let by_helm = answers.iter().any(|found| matches!(found, Read::Found(found) if is_of_helm(found)));
    let remedy = if by_helm { REMEDY_BY_HELM } else { REMEDY };
    for (own, found) in ours.iter().zip(answers) {
        let problem = match found {
            Read::Found(found) => difference(own, &found),
            Read::Absent => Some("it is not installed".to_owned()),
            Read::Unknown(why) => return unknown(PART, &why),
        };
        if let Some(problem) = problem {
            row = row.with(State::Degraded, format!("{}: {problem}; {remedy}", name(own)));
        }
    }
    if !row.problems.is_empty() {
        row.details = format!("{} of {} are not those of this program", row.problems.len(), ours.len());
    }
    row
}

fn is_of_helm(object: &Value) -> bool {
    let label = object.pointer("/metadata/labels/app.kubernetes.io~1managed-by");
    label.and_then(Value::as_str) == Some("Helm")
}

/// The first thing that the installed definition lacks, or has otherwise. It may have more: that of a newer version does.
fn difference(own: &Value, installed: &Value) -> Option<String> {
    let versions =
        |of: &Value| of.pointer("/spec/versions").and_then(Value::as_array).cloned().unwrap_or_default();
    let installed = versions(installed);
    versions(own).iter().find_map(|version| {
        let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
        let Some(there) = installed.iter().find(|there| there.get("name") == version.get("name")) else {
            return Some(format!("version {name} is missing in the cluster"));
        };
        if there.get("served") == Some(&Value::Bool(false)) {
            return Some(format!("version {name} is not served in the cluster, so that nobody can read or write it"));
        }
        let schema = |of: &Value| of.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_default();
        let Some(path) = lacking(&schema(version), &schema(there)) else {
            let column = missing_column(version, there)?;
            return Some(format!(
                "another version of it is installed, where `kubectl get` does not show the column {column}"
            ));
        };
        Some(format!(
            "another version of it is installed, where {} is missing or different; what it does not know is refused or lost",
            if path.is_empty() { "the schema" } else { &path }
        ))
    })
}

/// The first column of ours that the installed version does not have.
fn missing_column<'a>(own: &'a Value, installed: &Value) -> Option<&'a str> {
    fn names(of: &Value) -> impl Iterator<Item = &str> {
        let columns = of.get("additionalPrinterColumns").and_then(Value::as_array);
        columns.into_iter().flatten().filter_map(|column| column.get("name")?.as_str())
    }
    names(own).find(|name| names(installed).all(|there| there != *name))
}

/// Where the installed schema is not at least ours.
fn lacking(own: &Value, installed: &Value) -> Option<String> {
    match (own, installed) {
        (Value::Object(own), Value::Object(installed)) => own
            .iter()
            // Words change with every version, and mean nothing to the API server.
            .filter(|(key, value)| *key != "description" || !value.is_string())
            .find_map(|(key, value)| {
                let rest = lacking(value, installed.get(key).unwrap_or(&Value::Null))?;
                let words = [key.as_str(), &rest];
                let named = words.into_iter().filter(|word| !["", "properties"].contains(word));
                Some(named.collect::<Vec<_>>().join("."))
            }),
        (Value::Array(own), Value::Array(installed)) => own
            .iter()
            .any(|one| installed.iter().all(|there| lacking(one, there).is_some()))
            .then(String::new),
        // API servers leave out what is empty.
        (Value::Null | Value::Bool(false), Value::Null) => None,
        (Value::Array(own), Value::Null) if own.is_empty() => None,
        // and write 1.0 as 1.
        (Value::Number(own), Value::Number(installed)) if own.as_f64() == installed.as_f64() => None,
        (own, installed) => (own != installed).then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_at_least_ours() {
        let own = json!({"type": "object", "properties": {"spec": {"description": "new words", "properties": {
            "mode": {"enum": ["Off", "Static"], "nullable": false}, "priority": {"maximum": 10.0},
        }}}});
        for (rule, pointer, value, said) in [
            ("the same", "/type", json!("object"), None),
            ("other words", "/properties/spec/description", json!("old words"), None),
            (
                "a field more",
                "/properties/spec/properties",
                json!({"mode": {"enum": ["Off", "Static"]}, "priority": {"maximum": 10}, "new": {}}),
                None,
            ),
            ("a word more", "/properties/spec/properties/mode/enum", json!(["Off", "Static", "New"]), None),
            ("a word less", "/properties/spec/properties/mode/enum", json!(["Off"]), Some("spec.mode.enum")),
            ("a field less", "/properties/spec/properties/priority", Value::Null, Some("spec.priority")),
            (
                "another bound",
                "/properties/spec/properties/priority/maximum",
                json!(5),
                Some("spec.priority.maximum"),
            ),
            ("another type", "/type", json!("string"), Some("type")),
        ] {
            let mut installed = own.clone();
            *installed.pointer_mut(pointer).unwrap() = value;
            assert_eq!(lacking(&own, &installed).as_deref(), said, "{rule}");
        }
    }
}
