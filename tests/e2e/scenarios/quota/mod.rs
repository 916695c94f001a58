//! Elastic quota. Each scenario has the cluster's one tree while it runs.

pub(super) mod concurrency;
pub(super) mod flavors;
pub(super) mod input;
pub(super) mod ledger;
pub(super) mod load;
pub(super) mod outage;
pub(super) mod reclaim;
pub(super) mod resize;
pub(super) mod status;
pub(super) mod trees;
pub(super) mod verdicts;
pub(super) mod walk;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::Value;

use crate::harness::objects::is_running;
use crate::harness::{World, until};

/// Waits until an object that is made now is younger than this one: times of creation are whole seconds.
async fn next_second(object: &Value) -> Result<()> {
    let created = object["metadata"]["creationTimestamp"].as_str().context("not created")?;
    let created: Timestamp = created.parse()?;
    until("the next second", async || Ok((Timestamp::now().as_second() > created.as_second()).then_some(())))
        .await
}

/// Waits until a pod that is made now is younger than all of a namespace.
async fn next_second_of_pods(world: &World, namespace: &str) -> Result<()> {
    for pod in world.cluster.list("v1", "Pod", Some(namespace), "").await? {
        next_second(&pod).await?;
    }
    Ok(())
}

/// Waits for an event of ours about an object, whose text has each of `words`.
async fn event(world: &World, namespace: &str, kind: &str, name: &str, words: &[&str]) -> Result<()> {
    until(format!("an event about {kind} {namespace}/{name}"), async || {
        let all = world.cluster.list("events.k8s.io/v1", "Event", Some(namespace), "").await?;
        let ours: Vec<&Value> = all
            .iter()
            .filter(|event| {
                event["reportingController"] == "plimsoll-quota"
                    && event["regarding"]["kind"] == kind
                    && event["regarding"]["name"] == name
            })
            .collect();
        let says = |event: &&Value| {
            let text = format!("{} {}", event["reason"], event["note"]);
            words.iter().all(|word| text.contains(word))
        };
        ensure!(ours.iter().any(says), "{ours:?}");
        Ok(Some(()))
    })
    .await
}

/// Waits until so many pods of a namespace run, and gives them.
async fn run(world: &World, namespace: &str, count: usize) -> Result<Vec<Value>> {
    until(format!("{count} running pods in {namespace}"), async || {
        let mut pods = world.cluster.list("v1", "Pod", Some(namespace), "").await?;
        pods.retain(is_running);
        Ok((pods.len() == count).then_some(pods))
    })
    .await
}

/// The conditions of an object's status that say `kind`, as `status: message`.
fn condition<'a>(object: &'a Value, kind: &str) -> Option<(&'a str, &'a str)> {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = all.find(|condition| condition["type"] == kind)?;
    Some((found["status"].as_str()?, found["message"].as_str().unwrap_or_default()))
}
