//! What happens to a single pod.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::harness::objects::{
    APPLIED, ORIGINAL, annotation, app, container, cpu, figure, gated_pod, is_running, originals, pod,
    profile,
};
use crate::harness::world::SCENARIO;
use crate::harness::{World, check_eq, until};

pub(super) async fn originals_recorded_and_limits_kept(world: &World) -> Result<()> {
    let namespace = world.halved("originals").await?;
    let created = world.cluster.create(&gated_pod(&namespace, "one", &[app()])).await?;
    for (rule, part, resource, want) in [
        ("the request is halved", "requests", "cpu", "500m"),
        ("a resource without a factor stays", "requests", "memory", "64Mi"),
        ("the limit stays", "limits", "cpu", "2"),
        ("the other limit stays", "limits", "memory", "128Mi"),
    ] {
        check_eq!(figure(&created, "app", part, resource)?, want, "{rule}");
    }
    let recorded = originals(&created)?;
    check_eq!(recorded["basis"], "request", "basis");
    check_eq!(recorded["profile"], "e2e-originals", "profile");
    check_eq!(recorded["containers"]["app"]["requests"], json!({"cpu": "1"}), "originals");
    check_eq!(recorded["containers"]["app"]["set"], json!({"cpu": "500m"}), "what was set");
    check_eq!(
        annotation(&created, APPLIED).unwrap_or_default(),
        "static(e2e-originals): app cpu 1 -> 500m",
        "the text for people"
    );
    Ok(())
}

/// `spec.resources` counts instead of the containers: it has to come down as well.
pub(super) async fn pod_level_resources(world: &World) -> Result<()> {
    let namespace = world.namespace("pod-level").await?;
    world.profile("pod-level", &json!({"static": {"factors": {"cpu": "0.333"}}})).await?;
    world.lowers(&namespace, "333m").await?;
    let request = |name, cpu| container(name, &json!({"requests": {"cpu": cpu}}));
    let mut object = gated_pod(&namespace, "whole", &[request("a", "500m"), request("b", "300m")]);
    object["spec"]["resources"] = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}});
    let created = world.cluster.create(&object).await?;
    check_eq!(cpu(&created, "a")?, "166m", "container a, rounded down");
    check_eq!(cpu(&created, "b")?, "99m", "container b, rounded down");
    check_eq!(created["spec"]["resources"]["requests"]["cpu"], "333m", "the pod");
    check_eq!(created["spec"]["resources"]["limits"]["cpu"], "2", "the pod's limit");
    check_eq!(originals(&created)?["pod"]["requests"]["cpu"], "1", "the pod's original");
    Ok(())
}

pub(super) async fn init_container_and_sidecar(world: &World) -> Result<()> {
    let namespace = world.halved("init").await?;
    let mut sidecar = container("proxy", &json!({"requests": {"cpu": "400m"}}));
    sidecar["restartPolicy"] = "Always".into();
    let mut object = pod(&namespace, "one", &[app()]);
    object["spec"]["initContainers"] =
        json!([container("setup", &json!({"requests": {"cpu": "3"}})), sidecar]);
    let created = world.cluster.create(&object).await?;
    for (rule, name, want) in [
        ("the app container", "app", "500m"),
        ("the init container", "setup", "1500m"),
        ("the native sidecar", "proxy", "200m"),
    ] {
        check_eq!(cpu(&created, name)?, want, "{rule}");
    }
    let recorded = originals(&created)?;
    check_eq!(recorded["initContainers"]["setup"]["requests"]["cpu"], "3", "the init container's original");
    check_eq!(recorded["initContainers"]["proxy"]["requests"]["cpu"], "400m", "the sidecar's original");
    until("the pod to run", async || Ok(is_running(&world.cluster.get(&object).await?).then_some(()))).await
}

/// What must be equal to its limit is never lowered.
pub(super) async fn extended_resource_untouched(world: &World) -> Result<()> {
    let namespace = world.halved("extended").await?;
    let gpu = json!({
        "requests": {"cpu": "1", "example.com/gpu": "1"},
        "limits": {"cpu": "1", "example.com/gpu": "1"},
    });
    let object = pod(&namespace, "one", &[container("app", &gpu)]);
    let created = world.cluster.create(&object).await?;
    check_eq!(cpu(&created, "app")?, "500m", "cpu");
    check_eq!(figure(&created, "app", "requests", "example.com/gpu")?, "1", "the request for a device");
    check_eq!(originals(&created)?["containers"]["app"]["requests"], json!({"cpu": "1"}), "originals");
    until("the pod to run", async || Ok(is_running(&world.cluster.get(&object).await?).then_some(()))).await
}

/// `kubectl --dry-run=server` shows what would be, and nothing is.
pub(super) async fn server_side_dry_run(world: &World) -> Result<()> {
    let namespace = world.halved("dry-run").await?;
    let object = pod(&namespace, "one", &[app()]);
    let args = ["create", "--filename=-", "--dry-run=server", "--output=json"];
    let shown = world.cluster.kubectl.run(args, Some(&object.to_string()))?;
    let shown = serde_json::from_str(&shown)?;
    check_eq!(cpu(&shown, "app")?, "500m", "cpu");
    check_eq!(originals(&shown)?["containers"]["app"]["requests"]["cpu"], "1", "the original");
    ensure!(world.cluster.get_opt(&object).await?.is_none(), "the pod was stored");
    Ok(())
}

/// The cluster's own pods are not touched, even by a profile that matches everywhere.
pub(super) async fn kube_system_untouched(world: &World) -> Result<()> {
    let namespace = world.namespace("everywhere").await?;
    let object = profile(
        "e2e-everywhere",
        &json!({
            "match": {"podSelector": {"matchLabels": {SCENARIO: "everywhere"}}},
            "mode": "Static",
            "static": {"factors": {"cpu": "0.5"}},
        }),
    );
    world.create_for_now(&object).await?;
    let labelled = |namespace: &str| {
        let mut pod = gated_pod(namespace, "e2e-everywhere", &[app()]);
        pod["metadata"]["labels"] = json!({SCENARIO: "everywhere"});
        pod
    };
    until("the profile to be used elsewhere", async || {
        let seen = world.cluster.create_dry(&labelled(&namespace)).await?;
        Ok((cpu(&seen, "app")? == "500m").then_some(()))
    })
    .await?;
    let created = world.create_for_now(&labelled("kube-system")).await?;
    check_eq!(cpu(&created, "app")?, "1", "cpu in kube-system");
    check_eq!(annotation(&created, ORIGINAL), None, "originals");
    Ok(())
}

/// A pod that exists is not changed any more, whatever profile comes.
pub(super) async fn update_untouched(world: &World) -> Result<()> {
    let namespace = world.namespace("update").await?;
    let object = gated_pod(&namespace, "older", &[app()]);
    world.cluster.create(&object).await?;
    world.profile("update", &json!({})).await?;
    world.lowers(&namespace, "500m").await?;
    let updated = world.cluster.merge(&object, &json!({"metadata": {"labels": {"touched": "yes"}}})).await?;
    check_eq!(updated["metadata"]["labels"]["touched"], "yes", "the label");
    check_eq!(cpu(&updated, "app")?, "1", "cpu");
    check_eq!(annotation(&updated, ORIGINAL), None, "originals");
    Ok(())
}

/// The server learns of a namespace and of its first pod at the same time.
pub(super) async fn namespace_of_the_same_second(world: &World) -> Result<()> {
    let known = world.halved("same-second").await?;
    for number in 0..5 {
        let name = format!("{known}-{number}");
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {SCENARIO: "same-second"}},
        });
        world.create_namespace(&namespace).await?;
        let created = world.cluster.create(&gated_pod(&name, "first", &[app()])).await?;
        check_eq!(cpu(&created, "app")?, "500m", "cpu of the first pod in {name}");
    }
    Ok(())
}
