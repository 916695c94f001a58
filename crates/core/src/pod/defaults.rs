//! What the API server fills in before admission webhooks see a pod, for commands that work without one.

use serde_json::{Map, Value};

use crate::pod::{Json, Pruned};

/// Sets requests that are missing to the limits, in app and init containers, as the API server does.
pub fn default_requests(pod: &mut Value) {
    each_container(pod, |container| {
        let Some(limits) = container.pointer("/resources/limits").and_then(Value::as_object).cloned() else {
            return;
        };
        merge(container, "requests", &limits);
    });
}

/// Sets requests and limits that are missing to the defaults of `LimitRange` manifests, as the
/// `LimitRanger` admission plugin does. Call [`default_requests`] before: a container with a limit of its
/// own gets its request from that.
pub fn default_from_limit_ranges<'a>(pod: &mut Value, limit_ranges: impl IntoIterator<Item = &'a Value>) {
    let pod_level = pod.pointer("/spec/resources").is_some_and(|resources| {
        ["requests", "limits"].iter().any(|part| resources.get(part).is_some_and(|list| !list.is_null()))
    });
    if pod_level {
        return;
    }
    for range in limit_ranges {
        let items = range.pointer("/spec/limits").and_then(Value::as_array);
        for item in items.into_iter().flatten().filter(|item| item["type"] == "Container") {
            let (limits, requests) = item_defaults(item);
            each_container(pod, |container| {
                merge(container, "requests", &requests);
                merge(container, "limits", &limits);
            });
        }
    }
}

/// The kept parts of a pod after both kinds of defaulting.
pub fn defaulted<'a>(pod: &Pruned<'_>, limit_ranges: impl IntoIterator<Item = &'a Value>) -> Pruned<'static> {
    let mut pod = pod.0.to_value();
    default_requests(&mut pod);
    default_from_limit_ranges(&mut pod, limit_ranges);
    Pruned(Json::from(pod))
}

/// Default limits and requests of an item, completed as the API server completes a stored `LimitRange`:
/// the default limit is the maximum, the default request is the default limit, else the minimum.
fn item_defaults(item: &Value) -> (Map<String, Value>, Map<String, Value>) {
    let list = |key: &str| item.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    let complete = |mut into: Map<String, Value>, from: Map<String, Value>| {
        for (name, value) in from {
            into.entry(name).or_insert(value);
        }
        into
    };
    let limits = complete(list("default"), list("max"));
    let requests = complete(complete(list("defaultRequest"), limits.clone()), list("min"));
    (limits, requests)
}

fn each_container(pod: &mut Value, mut visit: impl FnMut(&mut Value)) {
    for list in ["containers", "initContainers"] {
        let containers = pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        containers.into_iter().flatten().filter(|container| container.is_object()).for_each(&mut visit);
    }
}

/// Adds what is missing in `resources.<part>`.
fn merge(container: &mut Value, part: &str, defaults: &Map<String, Value>) {
    if defaults.is_empty() {
        return;
    }
    let Some(container) = container.as_object_mut() else { return };
    let resources = container.entry("resources").or_insert(Value::Null);
    if resources.is_null() {
        *resources = Value::Object(Map::new());
    }
    let Some(resources) = resources.as_object_mut() else { return };
    let list = resources.entry(part).or_insert(Value::Null);
    if list.is_null() {
        *list = Value::Object(Map::new());
    }
    let Some(list) = list.as_object_mut() else { return };
    for (name, value) in defaults {
        list.entry(name.clone()).or_insert_with(|| value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::{default_from_limit_ranges, default_requests};
    use serde_json::{Value, json};

    fn resources(before: &Value, range: &Value) -> Value {
        let mut pod = json!({"spec": {"containers": [{"name": "a", "resources": before}]}});
        default_requests(&mut pod);
        default_from_limit_ranges(&mut pod, [range]);
        pod["spec"]["containers"][0]["resources"].clone()
    }

    #[test]
    fn defaults() {
        let none = json!({});
        let range = |item: Value| json!({"spec": {"limits": [item]}});
        for (rule, before, range, expected) in [
            (
                "request from limit",
                json!({"limits": {"cpu": "2"}}),
                none.clone(),
                json!({"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}),
            ),
            (
                "a request of its own stays",
                json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}),
                none,
                json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}),
            ),
            (
                "default and defaultRequest",
                Value::Null,
                range(json!({"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}})),
                json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}),
            ),
            (
                "the maximum is the default limit, and that the default request",
                json!({}),
                range(json!({"type": "Container", "max": {"cpu": "4"}})),
                json!({"limits": {"cpu": "4"}, "requests": {"cpu": "4"}}),
            ),
            (
                "the minimum is the last default request",
                json!({}),
                range(json!({"type": "Container", "min": {"cpu": "100m"}})),
                json!({"requests": {"cpu": "100m"}}),
            ),
            (
                "ranges for pods set nothing",
                Value::Null,
                range(json!({"type": "Pod", "max": {"cpu": "4"}})),
                Value::Null,
            ),
        ] {
            assert_eq!(resources(&before, &range), expected, "{rule}");
        }
    }
}
