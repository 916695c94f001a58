//! Pods of controllers: lowered, and alive on nodes.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::harness::objects::{annotation, app, cpu, is_running, originals, pod, pod_spec};
use crate::harness::{World, check_eq, until};

/// Waits for `count` running pods with the label `app: NAME`.
async fn running(world: &World, namespace: &str, name: &str, count: usize) -> Result<Vec<Value>> {
    until(format!("{count} running pods of {name}"), async || {
        let pods = world.cluster.list("v1", "Pod", Some(namespace), &format!("app={name}")).await?;
        let up = pods.iter().filter(|pod| is_running(pod)).count();
        ensure!(up == count, "{up} of {} run", pods.len());
        Ok(Some(pods))
    })
    .await
}

fn template(name: &str, more: &Value) -> Value {
    let mut spec = pod_spec(&[app()]);
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
        spec.extend(more.clone());
    }
    json!({"metadata": {"labels": {"app": name}}, "spec": spec})
}

fn workload(kind: &str, namespace: &str, more: &Value) -> Value {
    let mut spec = json!({
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template("web", &json!({})),
    });
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
        spec.extend(more.clone());
    }
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": namespace}, "spec": spec,
    })
}

fn check_lowered(pods: &[Value]) -> Result<()> {
    for pod in pods {
        check_eq!(cpu(pod, "app")?, "500m", "cpu of {}", pod["metadata"]["name"]);
        check_eq!(originals(pod)?["containers"]["app"]["requests"]["cpu"], "1", "the original");
    }
    Ok(())
}

/// The template keeps what its author wrote, whatever its pods get.
async fn check_template(world: &World, workload: &Value) -> Result<()> {
    let stored = world.cluster.get(workload).await?;
    let template = &stored["spec"]["template"];
    check_eq!(template["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1", "the template's cpu");
    ensure!(template["metadata"].get("annotations").is_none(), "annotations in the template: {template}");
    Ok(())
}

pub(super) async fn deployment(world: &World) -> Result<()> {
    let namespace = world.halved("deployment").await?;
    let deployment = workload("Deployment", &namespace, &json!({}));
    world.cluster.create(&deployment).await?;
    check_lowered(&running(world, &namespace, "web", 2).await?)?;
    check_template(world, &deployment).await
}

pub(super) async fn stateful_set(world: &World) -> Result<()> {
    let namespace = world.halved("stateful-set").await?;
    let set = workload("StatefulSet", &namespace, &json!({"serviceName": "web"}));
    world.cluster.create(&set).await?;
    check_lowered(&running(world, &namespace, "web", 2).await?)?;
    check_template(world, &set).await
}

/// Profiles can be for certain kinds of workload; the pods of a job that nothing owns are of kind `Job`.
pub(super) async fn job(world: &World) -> Result<()> {
    let namespace = world.halved("job").await?;
    world.profile("job-kind", &kinds("job", &["Job"], "0.3")).await?;
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once", "namespace": namespace},
        "spec": {"template": template("once", &json!({"restartPolicy": "Never"}))},
    });
    lowered_by_kind(world, &namespace, async || world.cluster.create(&job).await.map(drop), &job).await
}

/// A job that a `CronJob` made belongs to that: the job's owner is looked up.
pub(super) async fn cron_job(world: &World) -> Result<()> {
    let namespace = world.halved("cron-job").await?;
    world.profile("cron-kind", &kinds("cron-job", &["CronJob"], "0.3")).await?;
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly", "namespace": namespace},
        "spec": {
            // Never by itself: the test makes the job, as a person would.
            "schedule": "0 0 31 2 *",
            "suspend": true,
            "jobTemplate": {"spec": {"template": template("once", &json!({"restartPolicy": "Never"}))}},
        },
    });
    world.cluster.create(&cron_job).await?;
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once", "namespace": namespace},
    });
    let args = ["create", "job", "once", "--from=cronjob/nightly", "--namespace", &namespace];
    lowered_by_kind(world, &namespace, async || world.cluster.kubectl.run(args, None).map(drop), &job).await
}

/// A profile of higher priority for some workload kinds of the scenario's namespace.
fn kinds(scenario: &str, kinds: &[&str], factor: &str) -> Value {
    json!({
        "priority": 10,
        "match": {
            "namespaceSelector": {"matchLabels": {crate::harness::world::SCENARIO: scenario}},
            "workloadKinds": kinds,
        },
        "static": {"factors": {"cpu": factor}},
    })
}

/// Makes the job anew until the profile for its kind is seen by the server, then checks its pod to the end.
async fn lowered_by_kind(
    world: &World,
    namespace: &str,
    make: impl AsyncFn() -> Result<()>,
    job: &Value,
) -> Result<()> {
    until("the profile of the job's kind to be used", async || {
        make().await?;
        let pod = until("the job's pod", async || {
            let pods = world.cluster.list("v1", "Pod", Some(namespace), "app=once").await?;
            Ok(pods.into_iter().next())
        })
        .await?;
        if cpu(&pod, "app")? == "300m" {
            return Ok(Some(()));
        }
        world.cluster.delete(job).await?;
        until("the job's pod to be gone", async || {
            let pods = world.cluster.list("v1", "Pod", Some(namespace), "app=once").await?;
            Ok(pods.is_empty().then_some(()))
        })
        .await?;
        anyhow::bail!("the job's pod gets {}", cpu(&pod, "app")?)
    })
    .await?;
    until("the job to be complete", async || {
        let stored = world.cluster.get(job).await?;
        Ok((stored["status"]["succeeded"] == 1).then_some(()))
    })
    .await
}

/// A pod without a controller, by name.
pub(super) async fn bare_pod(world: &World) -> Result<()> {
    let namespace = world.halved("bare-pod").await?;
    let object = pod(&namespace, "alone", &[app()]);
    let created = world.cluster.create(&object).await?;
    check_eq!(cpu(&created, "app")?, "500m", "cpu");
    ensure!(annotation(&created, "plimsoll.dev/applied").is_some(), "nothing says what was done");
    until("the pod to run", async || Ok(is_running(&world.cluster.get(&object).await?).then_some(()))).await
}
