//! Workloads at a known load, autoscalers for them, and what the HPA controller decides.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::metrics_server::using;
use super::objects::{container, is_running, pod_spec};
use super::wait::until_within;
use super::{World, until};

/// The name of the workload and of its autoscaler.
pub(crate) const WEB: &str = "web";
pub(crate) const V2: &str = "autoscaling/v2";
pub(crate) const V1: &str = "autoscaling/v1";
pub(crate) const KIND: &str = "HorizontalPodAutoscaler";

/// How many pods a workload starts with.
pub(crate) const PODS: usize = 10;

/// From a pod's start to usage of it two looks of metrics-server may go by.
const MEASURED: Duration = Duration::from_secs(240);

/// Container `name` with this CPU request and limit, either "" for none.
pub(crate) fn asking(name: &str, request: &str, limit: &str) -> Value {
    let mut resources = json!({});
    for (part, cpu) in [("requests", request), ("limits", limit)] {
        if !cpu.is_empty() {
            resources[part] = json!({"cpu": cpu});
        }
    }
    container(name, &resources)
}

/// The usual container: 1000m of at most 2000m.
pub(crate) fn usual() -> Value {
    asking("app", "1", "2")
}

/// [`PODS`] pods, each of whose containers uses so much CPU.
pub(crate) fn deployment(namespace: &str, containers: &[Value], usage: &str) -> Value {
    let template = json!({"metadata": {"labels": {"app": WEB}}, "spec": pod_spec(containers)});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": WEB, "namespace": namespace},
        "spec": {
            "replicas": PODS,
            "selector": {"matchLabels": {"app": WEB}},
            "template": using(template, usage, "64Mi"),
        },
    })
}

/// A single pod that uses next to nothing.
pub(crate) fn small(namespace: &str, containers: &[Value]) -> Value {
    let mut deployment = deployment(namespace, containers, "1m");
    deployment["spec"]["replicas"] = 1.into();
    deployment
}

/// What an autoscaler without metrics of its own has in common with all others here.
fn hpa_of(version: &str, namespace: &str, more: &Value) -> Value {
    let mut spec = json!({
        "minReplicas": 1,
        "maxReplicas": 30,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": WEB},
    });
    json_patch::merge(&mut spec, more);
    json!({
        "apiVersion": version, "kind": KIND, "metadata": {"name": WEB, "namespace": namespace}, "spec": spec,
    })
}

/// An autoscaler that acts on its first decision, up or down.
pub(crate) fn hpa(namespace: &str, metrics: &[Value]) -> Value {
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 0}});
    hpa_of(V2, namespace, &json!({"metrics": metrics, "behavior": behavior}))
}

/// An autoscaler as `autoscaling/v1` knows it, with a target for CPU in per cent.
pub(crate) fn hpa_v1(namespace: &str, percent: u32) -> Value {
    hpa_of(V1, namespace, &json!({"targetCPUUtilizationPercentage": percent}))
}

/// The metric of 80 % of the CPU request, as most here have it.
pub(crate) fn eighty() -> Value {
    utilization("cpu", 80)
}

pub(crate) fn utilization(resource: &str, percent: u32) -> Value {
    metric(resource, &json!({"type": "Utilization", "averageUtilization": percent}))
}

pub(crate) fn average(resource: &str, value: &str) -> Value {
    metric(resource, &json!({"type": "AverageValue", "averageValue": value}))
}

fn metric(resource: &str, target: &Value) -> Value {
    json!({"type": "Resource", "resource": {"name": resource, "target": target}})
}

/// The metric of one container's CPU.
pub(crate) fn of_container(container: &str, target: &Value) -> Value {
    json!({
        "type": "ContainerResource",
        "containerResource": {"name": "cpu", "container": container, "target": target},
    })
}

/// The targets of an autoscaler in short, such as `cpu 80%`, `cpu 800m`, `app/cpu 80%`.
pub(crate) fn targets(hpa: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let short = |metric: &Value| {
        let source = match metric["type"].as_str() {
            Some("Resource") => &metric["resource"],
            Some("ContainerResource") => &metric["containerResource"],
            _ => return metric.to_string(),
        };
        let container = source["container"].as_str().map(|name| format!("{name}/")).unwrap_or_default();
        let target = &source["target"];
        let figure = match target["type"].as_str() {
            Some("Utilization") => format!("{}%", target["averageUtilization"]),
            Some("AverageValue") => text(&target["averageValue"]),
            _ => target.to_string(),
        };
        format!("{container}{} {figure}", text(&source["name"]))
    };
    hpa["spec"]["metrics"].as_array().into_iter().flatten().map(short).collect()
}

/// Waits until the autoscaler of a namespace has exactly these targets (see [`targets`]), and gives it.
pub(crate) async fn has_targets(world: &World, namespace: &str, want: &[&str]) -> Result<Value> {
    until(format!("the targets of {namespace} to be {want:?}"), async || {
        let stored = world.cluster.get(&hpa(namespace, &[])).await?;
        let got = targets(&stored);
        ensure!(got == want, "they are {got:?}; annotations: {}", stored["metadata"]["annotations"]);
        Ok(Some(stored))
    })
    .await
}

/// Waits until usage of exactly `count` pods with the label `app: web`, which all run, is served in each namespace.
pub(crate) async fn measured(world: &World, namespaces: &[&str], count: usize) -> Result<()> {
    let mut left: Vec<&str> = namespaces.to_vec();
    until_within(MEASURED, "the usage of every pod", async || {
        while let Some(namespace) = left.last() {
            let pods = world.cluster.list("v1", "Pod", Some(namespace), &format!("app={WEB}")).await?;
            let mut names: Vec<&str> = pods.iter().filter(|pod| is_running(pod)).map(name_of).collect();
            ensure!(names.len() == count && pods.len() == count, "{} run in {namespace}", names.len());
            let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
            let usage = world.cluster.get_path(&path).await?;
            let mut known: Vec<&str> = usage["items"].as_array().into_iter().flatten().map(name_of).collect();
            known.sort_unstable();
            names.sort_unstable();
            ensure!(names == known, "{} of {count} are measured in {namespace}", known.len());
            left.pop();
        }
        Ok(Some(()))
    })
    .await
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// What the HPA controller did with the workload of a namespace, in order: each time the new number of replicas.
pub(crate) async fn rescales(world: &World, namespace: &str) -> Result<Vec<usize>> {
    let all = world.cluster.list("v1", "Event", Some(namespace), "").await?;
    let mut sizes = BTreeMap::new();
    for event in all.iter().filter(|event| event["reason"] == "SuccessfulRescale") {
        let message = event["message"].as_str().unwrap_or_default();
        let size = message.strip_prefix("New size: ").and_then(|rest| rest.split(';').next());
        let size =
            size.and_then(|size| size.parse().ok()).with_context(|| format!("no size in {message:?}"))?;
        // An event's name ends with the time in nanoseconds; its other times are whole seconds.
        let name = event["metadata"]["name"].as_str().unwrap_or_default();
        let time = name.rsplit('.').next().and_then(|time| u64::from_str_radix(time, 16).ok());
        sizes.insert(time.with_context(|| format!("no time in {name}"))?, size);
    }
    Ok(sizes.into_values().collect())
}

/// The number of replicas of the controller's first decision on figures that it could read; `None` if there was none
/// yet. That nothing is to change is no event: it is read from the status, where `unchanged` asks for it.
async fn first_decision(world: &World, namespace: &str, unchanged: bool) -> Result<Option<usize>> {
    if let Some(first) = rescales(world, namespace).await?.first() {
        return Ok(Some(*first));
    }
    if !unchanged {
        return Ok(None);
    }
    let stored = world.cluster.get(&hpa(namespace, &[])).await?;
    let status = &stored["status"];
    let active = condition(&stored, "ScalingActive").is_some_and(|active| active["status"] == "True");
    let read = status["currentMetrics"].as_array().is_some_and(|all| !all.is_empty());
    let stays = status["desiredReplicas"] == status["currentReplicas"];
    let count = status["desiredReplicas"].as_u64().and_then(|count| usize::try_from(count).ok());
    Ok(count.filter(|_| active && read && stays))
}

/// A condition of an autoscaler's status.
pub(crate) fn condition<'a>(hpa: &'a Value, kind: &str) -> Option<&'a Value> {
    hpa["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// What the HPA controller is to decide first: the rule, the namespace, the number of replicas; [`UNCHANGED`] for that
/// which is there.
pub(crate) type Expected<'a> = (&'a str, &'a str, usize);

pub(crate) const UNCHANGED: usize = 0;

/// Waits for the first decision in every namespace and compares them all.
pub(crate) async fn decided(world: &World, expected: &[Expected<'_>]) -> Result<()> {
    let mut left = expected.to_vec();
    let mut wrong = Vec::new();
    let outcome = until("every first decision", async || {
        let mut still = Vec::new();
        for (rule, namespace, want) in left.drain(..) {
            let unchanged = want == UNCHANGED;
            match first_decision(world, namespace, unchanged).await {
                Ok(Some(got)) if got == want => {}
                Ok(Some(_)) if unchanged && rescales(world, namespace).await?.is_empty() => {}
                Ok(Some(got)) => wrong.push(format!("{rule}: {got} replicas, not {want}")),
                Ok(None) | Err(_) => still.push((rule, namespace, want)),
            }
        }
        left = still;
        Ok(left.is_empty().then_some(()))
    })
    .await;
    for (rule, namespace, _) in left {
        let stored = world.cluster.get(&hpa(namespace, &[])).await?;
        wrong.push(format!("{rule}: no decision; {}; {}", stored["spec"]["metrics"], stored["status"]));
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    outcome
}

/// Changes the pod template and lets the rollout go on until half of the pods are of the new one, where it stops: new
/// pods do not become available.
pub(crate) async fn roll_half(world: &World, namespace: &str, template: &Value) -> Result<()> {
    let change = json!({"spec": {
        "minReadySeconds": 3600,
        "progressDeadlineSeconds": 7200,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "50%"}},
        "template": template,
    }});
    // A template that is changed before its first pods were made would never have had any.
    rolled(world, namespace).await?;
    world.cluster.merge(&deployment(namespace, &[], ""), &change).await?;
    until(format!("half of the pods in {namespace} to be new"), async || {
        let pods = world.cluster.list("v1", "Pod", Some(namespace), &format!("app={WEB}")).await?;
        let mut revisions = BTreeMap::<&str, usize>::new();
        for pod in pods.iter().filter(|pod| is_running(pod)) {
            let revision = pod["metadata"]["labels"]["pod-template-hash"].as_str().unwrap_or_default();
            *revisions.entry(revision).or_default() += 1;
        }
        let counts: Vec<usize> = revisions.into_values().collect();
        ensure!(counts == [PODS / 2, PODS / 2] && pods.len() == PODS, "{counts:?} of {}", pods.len());
        Ok(Some(()))
    })
    .await
}

/// Waits until all pods of the workload are of its template.
pub(crate) async fn rolled(world: &World, namespace: &str) -> Result<()> {
    let object = deployment(namespace, &[], "");
    until(format!("the rollout in {namespace} to be over"), async || {
        let stored = world.cluster.get(&object).await?;
        let status = &stored["status"];
        let all = &stored["spec"]["replicas"];
        let done = status["observedGeneration"] == stored["metadata"]["generation"]
            && status["updatedReplicas"] == *all
            && status["replicas"] == *all
            && status["readyReplicas"] == *all;
        ensure!(done, "{status}");
        Ok(Some(()))
    })
    .await
}
