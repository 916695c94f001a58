//! Who does not want it does not get it.

use anyhow::Result;
use serde_json::{Value, json};

use crate::harness::install::BASE;
use crate::harness::objects::{APPLIED, OPT_OUT, ORIGINAL, annotation, app, cpu, gated_pod};
use crate::harness::{World, check_eq, until};

/// The values that mean "no".
const VALUES: [&str; 3] = ["disabled", "false", "off"];

fn check_untouched(pod: &Value, rule: &str) -> Result<()> {
    check_eq!(cpu(pod, "app")?, "1", "cpu, {rule}");
    check_eq!(annotation(pod, ORIGINAL), None, "originals, {rule}");
    check_eq!(annotation(pod, APPLIED), None, "the text for people, {rule}");
    Ok(())
}

pub(super) async fn pod_annotation(world: &World) -> Result<()> {
    let namespace = world.halved("opt-out-pod").await?;
    for value in VALUES {
        let mut object = gated_pod(&namespace, value, &[app()]);
        object["metadata"]["annotations"] = json!({OPT_OUT: value});
        check_untouched(&world.cluster.create(&object).await?, value)?;
    }
    Ok(())
}

pub(super) async fn namespace_label(world: &World) -> Result<()> {
    in_namespace(world, "opt-out-label", "labels").await
}

/// The API server cannot see a namespace's annotations for us: the server reads them.
pub(super) async fn namespace_annotation(world: &World) -> Result<()> {
    in_namespace(world, "opt-out-annotation", "annotations").await
}

/// A namespace whose pods are lowered opts out, by each value, and comes back.
async fn in_namespace(world: &World, name: &str, place: &str) -> Result<()> {
    let namespace = world.halved(name).await?;
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    for value in VALUES {
        world.cluster.merge(&object, &json!({"metadata": {place: {OPT_OUT: value}}})).await?;
        world.lowers(&namespace, "1").await?;
        let created = world.cluster.create(&gated_pod(&namespace, value, &[app()])).await?;
        check_untouched(&created, value)?;
        world.cluster.merge(&object, &json!({"metadata": {place: {OPT_OUT: null}}})).await?;
        world.lowers(&namespace, "500m").await?;
    }
    Ok(())
}

/// Where profiles say `optOut: None` and the API server asks about everybody, an opt-out changes nothing.
pub(super) async fn refused_where_enforced(world: &World) -> Result<()> {
    let namespace = world.namespace("opt-out-none").await?;
    world.profile("opt-out-none", &json!({"optOut": "None"})).await?;
    world.lowers(&namespace, "500m").await?;
    let mut object = gated_pod(&namespace, "one", &[app()]);
    object["metadata"]["annotations"] = json!({OPT_OUT: "disabled"});
    check_eq!(
        cpu(&world.cluster.create_dry(&object).await?, "app")?,
        "1",
        "cpu, the API server not asking us"
    );

    world.webhook_from("tests/fixtures/kustomize/enforce").await?;
    let lowered = until("the opted-out pod to be lowered", async || {
        let seen = world.cluster.create_dry(&object).await?;
        Ok((cpu(&seen, "app")? == "500m").then_some(()))
    })
    .await;
    world.webhook_from(BASE).await?;
    lowered?;
    until("the opt-out to hold again", async || {
        let seen = world.cluster.create_dry(&object).await?;
        Ok((cpu(&seen, "app")? == "1").then_some(()))
    })
    .await
}

/// A misspelt opt-out is none, and kubectl shows its user why.
pub(super) async fn unknown_value_warns(world: &World) -> Result<()> {
    let namespace = world.halved("opt-out-unknown").await?;
    let mut object = gated_pod(&namespace, "one", &[app()]);
    object["metadata"]["annotations"] = json!({OPT_OUT: "nonsense"});
    let warnings = until("the pod to be created with a warning", async || {
        let args = ["create", "--filename=-", "--warnings-as-errors"];
        match world.cluster.kubectl.run(args, Some(&object.to_string())) {
            Ok(output) => anyhow::bail!("kubectl had no warning: {output}"),
            Err(said) => Ok(Some(said.to_string())),
        }
    })
    .await?;
    anyhow::ensure!(warnings.contains("nonsense"), "the warning does not name the value: {warnings}");
    check_eq!(cpu(&world.cluster.get(&object).await?, "app")?, "500m", "cpu");
    Ok(())
}
