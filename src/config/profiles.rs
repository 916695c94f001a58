//! The profiles in the configuration: the frame is checked here, the spec by the rules of profiles anywhere.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::check::{Check, shown};
use super::keys::nearest;

const PATH: &str = "profiles";
const KEYS: [&str; 5] = ["apiVersion", "kind", "metadata", "name", "spec"];

/// Reads the list of profiles into one shape, `{metadata: {name}, spec}`.
pub(super) fn check(check: &mut Check<'_>, value: &Value) -> Vec<Value> {
    let mut names = BTreeSet::new();
    let profiles = check.list(PATH, value, |check, path, item| profile(check, path, item, &mut names));
    profiles.into_iter().flatten().collect()
}

fn profile(check: &mut Check<'_>, path: &str, item: &Value, names: &mut BTreeSet<String>) -> Option<Value> {
    let Value::Object(fields) = item else {
        check.refuse(path, format!("{} is not a profile; write a mapping with name and spec", shown(item)));
        return None;
    };
    for key in fields.keys().filter(|key| !KEYS.contains(&key.as_str())) {
        let meant =
            nearest(key, KEYS.into_iter()).map_or_else(String::new, |near| format!("; {near} may be meant"));
        check.refuse(&format!("{path}.{key}"), format!("is not a field of a profile{meant}"));
    }
    if let Some(kind) = fields.get("kind").filter(|kind| kind.as_str() != Some("OvercommitProfile")) {
        check.refuse(&format!("{path}.kind"), format!("{} is not OvercommitProfile", shown(kind)));
    }
    let name = name_of(check, path, fields)?;
    if !names.insert(name.clone()) {
        check.refuse(&format!("{path}.name"), format!("\"{name}\" is the name of an earlier profile too"));
    }
    match fields.get("spec") {
        Some(spec @ Value::Object(_)) => {
            for problem in plimsoll_core::profile::from_spec(&name, spec).err().unwrap_or_default() {
                check.refuse(&format!("{path}.{}", problem.path), problem.message);
            }
            Some(json!({"metadata": {"name": name}, "spec": spec}))
        }
        other => {
            let found = other.map_or_else(
                || "is missing".to_owned(),
                |other| format!("{} is not a mapping", shown(other)),
            );
            check.refuse(&format!("{path}.spec"), format!("{found}; write the spec of an OvercommitProfile"));
            None
        }
    }
}

fn name_of(check: &mut Check<'_>, path: &str, fields: &Map<String, Value>) -> Option<String> {
    let metadata = fields.get("metadata").and_then(|metadata| metadata.get("name"));
    let (field, name) = match (metadata, fields.get("name")) {
        (Some(name), None) => ("metadata.name", name),
        (None, Some(name)) => ("name", name),
        (Some(_), Some(_)) => {
            check.refuse(&format!("{path}.name"), "is given twice, here and in metadata; leave one out");
            return None;
        }
        (None, None) => {
            check.refuse(&format!("{path}.name"), "is missing; every profile has a name");
            return None;
        }
    };
    let Some(name) = name.as_str().filter(|name| is_object_name(name)) else {
        let right = "write lower-case letters, digits, '-' and '.', as in shared-pool";
        check.refuse(&format!("{path}.{field}"), format!("{} is not a name; {right}", shown(name)));
        return None;
    };
    Some(name.to_owned())
}

/// A DNS subdomain of RFC 1123, as names of cluster-scoped objects are.
fn is_object_name(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(super::check::is_label)
}
