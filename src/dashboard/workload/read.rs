//! What is read from the API server and from Prometheus for the page of one workload.

use std::time::Duration;

use serde_json::Value;

use super::super::query::Query;
use super::history::Day;
use super::{Address, recommendations};
use crate::api::Sources;
use crate::recommender::object_name;

/// What was read. `None`: there is no cluster, or nothing to ask for.
#[derive(Clone, Debug, Default)]
pub(in crate::dashboard) struct Read {
    /// Its checkpoint, if there is one, or why it could not be read.
    pub(super) checkpoint: Option<Result<Option<Value>, String>>,
    /// One of its pods, or why it could not be read.
    pub(super) pod: Option<Result<Option<Value>, String>>,
    /// What Prometheus knows of the last day.
    pub(super) day: Day,
}

/// How long a page waits for Prometheus, which goes on answering when the page is there.
const PATIENCE: Duration = Duration::from_millis(60);

/// Asks for the checkpoint of a workload, for one of its pods, and for its last day, at the same time.
pub(in crate::dashboard) async fn read(address: &Address, query: &Query, known: &Sources) -> Read {
    let Some(key) = address.find(known, query.text("group")) else { return Read::default() };
    let day = async {
        match &known.pasts {
            Some(pasts) => pasts.look(&key, PATIENCE).await.map_or(Day::Asked, Day::Known),
            None => Day::Elsewhere,
        }
    };
    let Some(cluster) = &known.cluster else { return Read { day: day.await, ..Read::default() } };
    let namespace = key.namespace.to_string();
    // Where usage is kept for the whole namespace, that is what the recommendation is about.
    let target = recommendations(known, &key)
        .first()
        .map_or_else(|| (*key.workload).clone(), |found| found.target.clone());
    let name = object_name(&target, None);
    let survey = known.surveys.as_ref().and_then(crate::survey::Surveys::look);
    let example = survey.and_then(|survey| survey.examples.get(&key).cloned());
    let pod = async {
        match &example {
            Some(pod) => Some(cluster.pod(&namespace, pod).await.map_err(|error| error.to_string())),
            None => None,
        }
    };
    let checkpoint = async { cluster.checkpoint(&namespace, &name).await.map_err(|error| error.to_string()) };
    let (checkpoint, pod, day) = tokio::join!(checkpoint, pod, day);
    Read { checkpoint: Some(checkpoint), pod, day }
}
