//! What a kubelet would report and kwok does not: kills for memory, evictions, pods that failed.

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::World;
use super::objects::is_running;
use super::until;

/// How a container ends whose memory ran out.
fn killed(at: Timestamp) -> Value {
    json!({"terminated": {
        "reason": "OOMKilled",
        "exitCode": 137,
        "startedAt": stamp(at),
        "finishedAt": stamp(at),
    }})
}

/// As the API server writes times: whole seconds.
pub(crate) fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Waits until a pod runs, and gives its stored state.
pub(crate) async fn running(world: &World, pod: &Value) -> Result<Value> {
    until(format!("{} to run", pod["metadata"]["name"]), async || {
        Ok(Some(world.cluster.get(pod).await?).filter(is_running))
    })
    .await
}

/// The container was killed for memory and is running again; its status says so as `lastState`.
pub(crate) async fn oom_killed(world: &World, pod: &Value, container: &str, at: Timestamp) -> Result<()> {
    change_container(world, pod, container, |status| {
        status["lastState"] = killed(at);
        status["restartCount"] = (status["restartCount"].as_i64().unwrap_or(0) + 1).into();
    })
    .await
}

/// The container was killed for memory and is not running again: its status says so as `state`.
pub(crate) async fn oom_killed_for_good(
    world: &World,
    pod: &Value,
    container: &str,
    at: Timestamp,
) -> Result<()> {
    change_container(world, pod, container, |status| {
        status["state"] = killed(at);
        status["ready"] = false.into();
        status["started"] = false.into();
    })
    .await?;
    world.cluster.merge_status(pod, &json!({"phase": "Failed"})).await.map(drop)
}

/// The pod was evicted because its node ran out of memory: its status says so, and an event.
pub(crate) async fn evicted_for_memory(world: &World, pod: &Value, at: Timestamp) -> Result<()> {
    let stored = world.cluster.get(pod).await?;
    let message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 52Mi. Container app was \
                   using 1Gi, request is 1Gi, has larger consumption of memory. ";
    let mut conditions = stored["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.push(json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "TerminationByKubelet",
        "message": message,
        "lastTransitionTime": stamp(at),
    }));
    let change =
        json!({"phase": "Failed", "reason": "Evicted", "message": message, "conditions": conditions});
    world.cluster.merge_status(pod, &change).await?;
    let metadata = &stored["metadata"];
    let name = metadata["name"].as_str().context("no name")?;
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{name}.evicted"), "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": name,
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "reason": "Evicted",
        "message": message,
        "type": "Warning",
        "count": 1,
        "firstTimestamp": stamp(at),
        "lastTimestamp": stamp(at),
        "source": {"component": "kubelet"},
    });
    world.cluster.create(&event).await.map(drop)
}

async fn change_container(
    world: &World,
    pod: &Value,
    container: &str,
    change: impl FnOnce(&mut Value),
) -> Result<()> {
    let mut stored = running(world, pod).await?;
    // A merge replaces lists as a whole.
    let mut statuses = stored["status"]["containerStatuses"].take();
    let mine = statuses.as_array_mut().into_iter().flatten().find(|status| status["name"] == container);
    change(mine.with_context(|| format!("no status of container {container}"))?);
    let patched = world.cluster.merge_status(pod, &json!({"containerStatuses": statuses})).await?;
    let kept = &patched["status"]["containerStatuses"];
    ensure!(kept.to_string().contains("OOMKilled"), "the API server kept {kept}");
    Ok(())
}
