//! `/api/v1/savings`.

use std::time::Duration;

use http::StatusCode;
use plimsoll_core::quota::shown;
use plimsoll_core::savings::{Figures, Row, Used};
use serde_json::{Map, Value, json};

use super::Answer;
use crate::survey::Surveys;

/// When to ask again while the cluster is read for the first time.
const SOON: Duration = Duration::from_secs(2);

/// What is saved, whole and by namespace and workload. The first question has the cluster read, which takes a moment.
pub(super) fn all(surveys: Option<&Surveys>) -> Answer {
    let surveys = surveys.ok_or_else(|| {
        let message =
            "there is no cluster whose pods could be counted; the server was started with --standalone";
        (StatusCode::NOT_FOUND, message.to_owned())
    })?;
    let Some(survey) = surveys.look() else {
        let why = surveys.problem().map_or_else(
            || format!("the pods of the cluster are being read; ask again in {} s", SOON.as_secs()),
            |problem| (*problem).clone(),
        );
        return Err((StatusCode::SERVICE_UNAVAILABLE, why));
    };
    let namespaces = survey.savings.namespaces();
    let namespaces: Vec<Value> =
        namespaces.iter().map(|(name, row)| with(json!({ "namespace": &**name }), row)).collect();
    let workloads = survey.savings.workloads.iter().map(|(key, row)| {
        let named = json!({
            "namespace": &*key.namespace, "kind": key.workload.kind, "name": key.workload.name,
        });
        with(named, row)
    });
    Ok(json!({
        "taken": survey.taken.to_string(),
        "stale": surveys.problem().as_deref(),
        "problems": survey.problems,
        "total": with(json!({}), &survey.savings.total()),
        "workloads": workloads.collect::<Vec<_>>(),
        "namespaces": namespaces,
    })
    .to_string())
}

/// Adds the figures of a row to its names.
pub(crate) fn with(named: Value, row: &Row) -> Value {
    let mut object = match named {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    object.insert("pods".to_owned(), row.pods.into());
    object.insert("lowered".to_owned(), row.lowered.into());
    let measured = json!({ "cpu": row.measured.cpu, "memory": row.measured.memory });
    object.insert("measured".to_owned(), measured);
    object.insert("before".to_owned(), figures(row.before));
    object.insert("now".to_owned(), figures(row.now));
    object.insert("saved".to_owned(), figures(row.saved()));
    object.insert("used".to_owned(), known(row.used()));
    object.insert("requestedByMeasured".to_owned(), known(row.now_of_measured()));
    Value::Object(object)
}

fn figures(figures: Figures) -> Value {
    json!({ "cpu": shown("cpu", figures.cpu), "memory": shown("memory", figures.memory) })
}

/// Null is not known, which is not 0.
fn known(used: Used) -> Value {
    let known = |resource, nanos: Option<i128>| nanos.map(|nanos| shown(resource, nanos));
    json!({ "cpu": known("cpu", used.cpu), "memory": known("memory", used.memory) })
}

#[cfg(test)]
mod tests {
    use plimsoll_core::savings::Measured;

    use super::*;
    use crate::survey::Survey;

    #[test]
    fn each_resource_on_its_own() {
        let (cpu, memory) = (500_000_000, (1 << 30) * 1_000_000_000);
        let now = Figures { cpu, memory };
        let row = Row {
            pods: 1,
            measured: Measured { cpu: 1, memory: 0 },
            before: now,
            now,
            now_of_measured: Figures { cpu, memory: 0 },
            ..Row::default()
        };
        let expected = json!({
            "namespace": "shop", "pods": 1, "lowered": 0, "measured": {"cpu": 1, "memory": 0},
            "before": {"cpu": "500m", "memory": "1Gi"}, "now": {"cpu": "500m", "memory": "1Gi"},
            "saved": {"cpu": "0", "memory": "0"}, "used": {"cpu": "0", "memory": null},
            "requestedByMeasured": {"cpu": "500m", "memory": null},
        });
        assert_eq!(with(json!({ "namespace": "shop" }), &row), expected);
    }

    #[test]
    fn a_stale_survey_says_so() {
        let surveys = Surveys::default();
        surveys.put(Survey::default());
        let answer = |surveys| serde_json::from_str::<Value>(&all(Some(surveys)).unwrap()).unwrap();
        assert_eq!(answer(&surveys)["stale"], Value::Null);
        surveys.failed("list Pod: not allowed");
        assert_eq!(answer(&surveys)["stale"], "list Pod: not allowed");
    }
}
