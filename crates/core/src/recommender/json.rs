//! A status as it stands in a `Recommendation`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::recommender::desired::{Condition, ContainerStatus, ResourceStatus, Status};

/// The status as JSON. `stored` is the one that stands there now: a condition that does not turn keeps the time when
/// it last did.
pub fn status_json(status: &Status, stored: &Value, now: Timestamp) -> Value {
    let containers: Vec<_> = status.containers.iter().map(container).collect();
    let conditions: Vec<_> = status.conditions.iter().map(|one| condition(one, stored, now)).collect();
    json!({ "containers": containers, "conditions": conditions })
}

fn container(container: &ContainerStatus) -> Value {
    let mut map = Map::new();
    map.insert("name".to_owned(), json!(container.name));
    for (name, figures) in [("cpu", &container.cpu), ("memory", &container.memory)] {
        map.extend(figures.as_ref().map(|figures| (name.to_owned(), resource(figures))));
    }
    map.insert("samples".to_owned(), json!(container.samples));
    for (name, time) in [("firstSample", container.first_sample), ("lastSample", container.last_sample)] {
        map.extend(time.map(|time| (name.to_owned(), json!(time.to_string()))));
    }
    Value::Object(map)
}

fn resource(figures: &ResourceStatus) -> Value {
    let all = [
        ("target", Some(&figures.target)),
        ("lower", Some(&figures.lower)),
        ("upper", figures.upper.as_ref()),
        ("original", figures.original.as_ref()),
        ("effective", figures.effective.as_ref()),
    ];
    let present = all.into_iter().filter_map(|(name, quantity)| {
        quantity.map(|quantity| (name.to_owned(), Value::String(quantity.to_string())))
    });
    Value::Object(present.collect())
}

fn condition(condition: &Condition, stored: &Value, now: Timestamp) -> Value {
    let kind = condition.kind.name();
    let status = if condition.holds { "True" } else { "False" };
    let before = stored.get("conditions").and_then(Value::as_array).and_then(|conditions| {
        conditions.iter().find(|found| found.get("type").and_then(Value::as_str) == Some(kind))
    });
    let since = before
        .filter(|before| before.get("status").and_then(Value::as_str) == Some(status))
        .and_then(|before| before.get("lastTransitionTime").and_then(Value::as_str))
        .map_or_else(|| format!("{now:.0}"), str::to_owned);
    json!({
        "type": kind,
        "status": status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": since,
    })
}
