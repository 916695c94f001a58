//! What people write into autoscalers, by whichever way, is what counts.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::harness::autoscaling::{
    Autoscaling, RECORD, SYNC, group_profile, grouped, told, with_autoscalers,
};
use crate::harness::hpa::{
    asking, average, deployment, eighty, has_targets, hpa, hpa_v1, rolled, small, targets, usual, utilization,
};
use crate::harness::objects::{OPT_OUT, annotation, container};
use crate::harness::{World, check_eq, until};

/// The group of these scenarios' namespaces.
const GROUP: &str = "hpa-intent";

/// A namespace with one lowered pod, for whose load nobody scales.
pub(super) async fn settled(world: &World, name: &str, group: &str) -> Result<String> {
    let namespace = grouped(world, name, group).await?;
    world.lowers(&namespace, "500m").await?;
    world.cluster.create(&small(&namespace, &[usual()])).await?;
    rolled(world, &namespace).await?;
    Ok(namespace)
}

/// A change of the pod template's CPU request.
pub(super) fn requesting(cpu: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [asking("app", cpu, "4")]}}}})
}

/// Targets are edited again and again; what is not ours is left alone.
pub(in crate::scenarios) async fn edits(world: &World) -> Result<()> {
    with_autoscalers(world, &json!({}), async |_| {
        group_profile(world, GROUP, &json!({})).await?;
        let namespace = settled(world, "hpa-edits", GROUP).await?;
        let object = hpa(&namespace, &[eighty()]);
        world.cluster.create(&object).await?;
        let stored = has_targets(world, &namespace, &["cpu 800m"]).await?;
        ensure!(annotation(&stored, RECORD).is_some(), "nothing is recorded: {}", stored["metadata"]);
        check_eq!(annotation(&stored, SYNC), None, "the keeper's annotation");
        let write = async |metrics: &[Value]| {
            world.cluster.merge(&object, &json!({"spec": {"metrics": metrics}})).await
        };

        let answer = write(&[utilization("cpu", 60)]).await?;
        check_eq!(targets(&answer), ["cpu 600m"], "60 % instead of 80 %, in the answer");
        let answer = write(&[utilization("cpu", 60), average("memory", "1Gi")]).await?;
        check_eq!(targets(&answer), ["cpu 600m", "memory 1Gi"], "a target of the user's own beside it");
        let answer = write(&[average("memory", "1Gi"), average("cpu", "600m")]).await?;
        check_eq!(targets(&answer), ["memory 1Gi", "cpu 600m"], "in another order");
        // A base that changes is followed: the second is no longer what its author wrote.
        let deployment = deployment(&namespace, &[], "");
        world.cluster.merge(&deployment, &requesting("2")).await?;
        has_targets(world, &namespace, &["memory 1Gi", "cpu 1200m"]).await.context("twice the request")?;

        let answer = write(&[average("cpu", "123m")]).await?;
        check_eq!(targets(&answer), ["cpu 123m"], "the user's own");
        world.cluster.merge(&deployment, &requesting("1")).await?;
        rolled(world, &namespace).await?;
        // The keeper has seen that rollout when another autoscaler of the same workload has changed.
        let mut other = hpa(&namespace, &[eighty()]);
        other["metadata"]["name"] = "other".into();
        world.cluster.create(&other).await?;
        until("the other autoscaler to be converted", async || {
            let stored = world.cluster.get(&other).await?;
            ensure!(targets(&stored) == ["cpu 800m"], "{:?}", targets(&stored));
            Ok(Some(()))
        })
        .await?;
        let stored = has_targets(world, &namespace, &["cpu 123m"]).await.context("left alone for good")?;
        ensure!(
            annotation(&stored, RECORD).is_none_or(|text| !text.contains("60")),
            "what is no more is still recorded: {}",
            stored["metadata"]
        );
        let answer = write(&[utilization("cpu", 50)]).await?;
        check_eq!(targets(&answer), ["cpu 500m"], "in per cent again");
        Ok(())
    })
    .await
}

/// How a manifest is applied.
const WAYS: [(&str, bool, bool); 4] = [
    ("v2, server side", true, true),
    ("v2, client side", true, false),
    ("v1, server side", false, true),
    ("v1, client side", false, false),
];

/// A manifest that is applied again, unchanged, changes nothing, also after the keeper wrote another target.
pub(in crate::scenarios) async fn applied_again(world: &World) -> Result<()> {
    with_autoscalers(world, &json!({}), async |_| {
        group_profile(world, GROUP, &json!({})).await?;
        let mut all = Vec::new();
        for (number, (rule, v2, server_side)) in WAYS.into_iter().enumerate() {
            let namespace = settled(world, &format!("hpa-applied-{number}"), GROUP).await?;
            let manifest = if v2 { hpa(&namespace, &[eighty()]) } else { hpa_v1(&namespace, 80) };
            let how = if server_side { "--server-side" } else { "--server-side=false" };
            all.push((rule, namespace, manifest.to_string(), how));
        }
        let apply = |rule: &str, manifest: &str, how: &str| {
            let output = world.cluster.kubectl.run(["apply", how, "--filename=-"], Some(manifest));
            output.map(drop).with_context(|| format!("{rule}: apply"))
        };
        for (rule, namespace, manifest, how) in &all {
            apply(rule, manifest, how)?;
            has_targets(world, namespace, &["cpu 800m"]).await.with_context(|| (*rule).to_owned())?;
            apply(rule, manifest, how)?;
            has_targets(world, namespace, &["cpu 800m"]).await.with_context(|| format!("{rule}: again"))?;
            world.cluster.merge(&deployment(namespace, &[], ""), &requesting("2")).await?;
        }
        for (rule, namespace, manifest, how) in &all {
            let stored = has_targets(world, namespace, &["cpu 1600m"]).await;
            let stored = stored.with_context(|| format!("{rule}: twice the request"))?;
            check_eq!(annotation(&stored, SYNC), None, "{rule}: the keeper's annotation");
            apply(rule, manifest, how).context("after the keeper")?;
            has_targets(world, namespace, &["cpu 1600m"])
                .await
                .with_context(|| format!("{rule}: after the keeper"))?;
            let edited = manifest.replace(":80", ":60");
            apply(rule, &edited, how)?;
            has_targets(world, namespace, &["cpu 1200m"]).await.with_context(|| format!("{rule}: 60 %"))?;
        }
        Ok(())
    })
    .await
}

/// A container without a request: an event names it. When it has one, the target is converted.
pub(in crate::scenarios) async fn request_missing(world: &World) -> Result<()> {
    with_autoscalers(world, &json!({}), async |_| {
        group_profile(world, GROUP, &json!({})).await?;
        let namespace = grouped(world, "hpa-missing", GROUP).await?;
        world.lowers(&namespace, "500m").await?;
        world.cluster.create(&small(&namespace, &[usual(), container("bare", &json!({}))])).await?;
        rolled(world, &namespace).await?;
        world.cluster.create(&hpa(&namespace, &[eighty()])).await?;
        told(world, &namespace, &["bare", "cpu"]).await?;
        has_targets(world, &namespace, &["cpu 80%"]).await?;
        let containers =
            json!({"spec": {"template": {"spec": {"containers": [usual(), asking("bare", "200m", "")]}}}});
        world.cluster.merge(&deployment(&namespace, &[], ""), &containers).await?;
        has_targets(world, &namespace, &["cpu 960m"]).await.context("it has a request now").map(drop)
    })
    .await
}

/// With no replica there, targets stay as they were last written; what was edited meanwhile is picked up.
pub(in crate::scenarios) async fn nobody_there(world: &World) -> Result<()> {
    with_autoscalers(world, &json!({}), async |run: &Autoscaling<'_>| {
        group_profile(world, GROUP, &json!({})).await?;
        let kept = settled(world, "hpa-outage-kept", GROUP).await?;
        let edited = settled(world, "hpa-outage-edited", GROUP).await?;
        let made = settled(world, "hpa-outage-made", GROUP).await?;
        for namespace in [&kept, &edited] {
            world.cluster.create(&hpa(namespace, &[eighty()])).await?;
            has_targets(world, namespace, &["cpu 800m"]).await?;
        }
        run.kill_replicas();
        let sixty = json!({"spec": {"metrics": [utilization("cpu", 60)]}});
        let answer = world.cluster.merge(&hpa(&edited, &[]), &sixty).await?;
        check_eq!(targets(&answer), ["cpu 60%"], "edited while nobody looked");
        let answer = world.cluster.create(&hpa(&made, &[eighty()])).await?;
        check_eq!(targets(&answer), ["cpu 80%"], "made while nobody looked");
        has_targets(world, &kept, &["cpu 800m"]).await.context("as it was last written")?;
        // What its pods were asked for changes meanwhile too.
        world.cluster.merge(&deployment(&kept, &[], ""), &requesting("2")).await?;
        rolled(world, &kept).await?;
        run.start_replica().await?;
        has_targets(world, &edited, &["cpu 600m"]).await.context("edited")?;
        has_targets(world, &made, &["cpu 800m"]).await.context("made")?;
        has_targets(world, &kept, &["cpu 1600m"]).await.context("another request").map(drop)
    })
    .await
}

/// The record is cut off by hand: the target is put back or left, and never guessed.
pub(in crate::scenarios) async fn record_cut_off(world: &World) -> Result<()> {
    with_autoscalers(world, &json!({}), async |run: &Autoscaling<'_>| {
        group_profile(world, GROUP, &json!({})).await?;
        let watched = settled(world, "hpa-cut-watched", GROUP).await?;
        let unseen = settled(world, "hpa-cut-unseen", GROUP).await?;
        let mut without = json!({"metadata": {"annotations": {}}});
        without["metadata"]["annotations"][RECORD] = Value::Null;
        for namespace in [&watched, &unseen] {
            world.cluster.create(&hpa(namespace, &[eighty()])).await?;
            has_targets(world, namespace, &["cpu 800m"]).await?;
        }
        let answer = world.cluster.merge(&hpa(&watched, &[]), &without).await?;
        check_eq!(targets(&answer), ["cpu 800m"], "with us there: the target");
        ensure!(
            annotation(&answer, RECORD).is_some(),
            "with us there the record is put back: {}",
            answer["metadata"]
        );

        run.kill_replicas();
        let answer = world.cluster.merge(&hpa(&unseen, &[]), &without).await?;
        check_eq!(annotation(&answer, RECORD), None, "the record, with nobody there");
        run.start_replica().await?;
        // What it is a part of is not known any more: a change of the request is not followed.
        for namespace in [&watched, &unseen] {
            world.cluster.merge(&deployment(namespace, &[], ""), &requesting("2")).await?;
        }
        has_targets(world, &watched, &["cpu 1600m"]).await.context("the record was put back")?;
        rolled(world, &unseen).await?;
        has_targets(world, &unseen, &["cpu 800m"])
            .await
            .context("without a record it is the user's own")
            .map(drop)
    })
    .await
}

/// Opting an autoscaler out gives its author's target back at once; opting in again converts it.
pub(in crate::scenarios) async fn opted_out(world: &World) -> Result<()> {
    with_autoscalers(world, &json!({}), async |_| {
        let profile = group_profile(world, GROUP, &json!({})).await?;
        let namespace = settled(world, "hpa-opt-out", GROUP).await?;
        let object = hpa(&namespace, &[eighty()]);
        world.cluster.create(&object).await?;
        has_targets(world, &namespace, &["cpu 800m"]).await?;
        let opted = async |text: Value| {
            let mut change = json!({"metadata": {"annotations": {}}});
            change["metadata"]["annotations"][OPT_OUT] = text;
            world.cluster.merge(&object, &change).await
        };
        opted("disabled".into()).await?;
        let stored = has_targets(world, &namespace, &["cpu 80%"]).await.context("opted out")?;
        check_eq!(annotation(&stored, RECORD), None, "the record of one that is opted out");
        opted(Value::Null).await?;
        has_targets(world, &namespace, &["cpu 800m"]).await.context("opted in again")?;

        world.cluster.merge(&profile, &json!({"spec": {"hpa": {"mode": "Off"}}})).await?;
        let stored = has_targets(world, &namespace, &["cpu 80%"]).await.context("the profile says Off")?;
        check_eq!(annotation(&stored, RECORD), None, "the record under mode Off");
        world.cluster.merge(&profile, &json!({"spec": {"hpa": {"mode": "Convert"}}})).await?;
        has_targets(world, &namespace, &["cpu 800m"])
            .await
            .context("the profile says Convert again")
            .map(drop)
    })
    .await
}
