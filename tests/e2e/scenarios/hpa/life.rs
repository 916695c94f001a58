//! A workload at its target through the whole life of a profile: nobody scales it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::harness::autoscaling::{RECORD, group_profile, grouped, with_autoscalers};
use crate::harness::hpa::{
    PODS, WEB, condition, deployment, eighty, has_targets, hpa, measured, rescales, rolled, usual,
};
use crate::harness::objects::{annotation, cpu};
use crate::harness::{World, check_eq, until};

const GROUP: &str = "hpa-life";
const OFF: &str = "hpa-life-off";

/// Ten pods at 80 % of what was asked for, before a profile, while it comes, with it, and when it has gone.
pub(in crate::scenarios) async fn never_scaled(world: &World) -> Result<()> {
    world.metrics_server().await?;
    with_autoscalers(world, &json!({}), async |_| {
        let ours = grouped(world, "hpa-life", GROUP).await?;
        let left = grouped(world, "hpa-life-left", OFF).await?;
        for namespace in [&ours, &left] {
            world.cluster.create(&deployment(namespace, &[usual()], "800m")).await?;
            world.cluster.create(&hpa(namespace, &[eighty()])).await?;
            rolled(world, namespace).await?;
        }
        measured(world, &[&ours, &left], PODS).await?;
        has_targets(world, &ours, &["cpu 80%"]).await.context("before")?;
        at_its_target(world, &ours).await.context("before")?;

        let profile = group_profile(world, GROUP, &json!({})).await?;
        group_profile(world, OFF, &json!({"hpa": {"mode": "Off"}})).await?;
        has_targets(world, &ours, &["cpu 800m"]).await.context("the profile is there, no pod is lowered")?;
        for namespace in [&ours, &left] {
            world.lowers(namespace, "500m").await?;
            restart(world, namespace).await?;
        }
        measured(world, &[&ours], PODS).await?;
        requests(world, &ours, "500m").await?;
        at_its_target(world, &ours).await.context("all pods are lowered")?;
        has_targets(world, &ours, &["cpu 800m"]).await.context("all pods are lowered")?;
        explained(world, &ours)?;
        // Half-way through its rollout or at the end of it: more than there are.
        until("the workload that is left alone to be scaled up", async || {
            let sizes = rescales(world, &left).await?;
            ensure!(sizes.iter().any(|size| *size > PODS), "{sizes:?}");
            Ok(Some(()))
        })
        .await?;

        world.cluster.delete(&profile).await?;
        world.lowers(&ours, "1").await?;
        let stored = has_targets(world, &ours, &["cpu 800m"]).await.context("lowered pods live")?;
        ensure!(annotation(&stored, RECORD).is_some(), "the record while lowered pods live");
        restart(world, &ours).await?;
        let stored =
            has_targets(world, &ours, &["cpu 80%"]).await.context("no lowered pod lives any more")?;
        check_eq!(annotation(&stored, RECORD), None, "the record when all is over");
        measured(world, &[&ours], PODS).await?;
        requests(world, &ours, "1").await?;
        at_its_target(world, &ours).await.context("after")
    })
    .await
}

/// What the autoscaler makes of it, what it would make of it without us, and what was meant.
fn explained(world: &World, namespace: &str) -> Result<()> {
    let explain = |form: &str| {
        world.cluster.kubectl.plimsoll(&["hpa", "explain", WEB, "--namespace", namespace, "--output", form])
    };
    let answer: Value = serde_json::from_str(&explain("json")?)?;
    for (view, want) in [("now", PODS), ("meant", PODS)] {
        check_eq!(answer[view]["replicas"], json!(want), "replicas {view}: {answer:#}");
    }
    // Exactly twice as much: a thousandth of a core more in what was measured is a pod more.
    let untouched = answer["untouched"]["replicas"].as_u64().unwrap_or_default();
    ensure!((19..=21).contains(&untouched), "replicas without us: {answer:#}");
    let text = explain("table")?;
    ensure!(text.contains("untouched") && text.contains("800m"), "{text}");
    Ok(())
}

async fn restart(world: &World, namespace: &str) -> Result<()> {
    world.cluster.kubectl.run(["rollout", "restart", "deployment", WEB, "--namespace", namespace], None)?;
    rolled(world, namespace).await
}

async fn requests(world: &World, namespace: &str, want: &str) -> Result<()> {
    for pod in world.cluster.list("v1", "Pod", Some(namespace), "").await? {
        check_eq!(cpu(&pod, "app")?, want, "cpu of {}", pod["metadata"]["name"]);
    }
    Ok(())
}

/// The controller reads usage, and has not scaled at all so far.
async fn at_its_target(world: &World, namespace: &str) -> Result<()> {
    let object = hpa(namespace, &[]);
    until("the controller to read what is used", async || {
        let stored = world.cluster.get(&object).await?;
        let active = condition(&stored, "ScalingActive").context("no condition")?;
        ensure!(active["status"] == "True", "{active}");
        let used = stored["status"]["currentMetrics"][0]["resource"]["current"]["averageValue"].clone();
        let used: u32 = used.as_str().unwrap_or_default().trim_end_matches('m').parse()?;
        ensure!((750..850).contains(&used), "{used}m");
        Ok(Some(()))
    })
    .await?;
    check_eq!(rescales(world, namespace).await?, Vec::<usize>::new(), "new numbers of replicas");
    Ok(())
}
