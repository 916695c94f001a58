//! Profiles: refused when wrong, reported when wrong all the same, followed when changed.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::harness::objects::{app, cpu, gated_pod, profile};
use crate::harness::{World, check_eq, until};

/// Above 1 by less than a floating-point number can tell: only exact arithmetic sees it.
const BARELY_ABOVE_ONE: &str = "1.000000000000000001";

/// Three mistakes that the schema lets through, and the path of each.
fn wrong_in_three_ways(name: &str) -> (Value, [&'static str; 3]) {
    let object = profile(
        name,
        &json!({
            "match": {"namespaceSelector": {"matchLabels": {"no key!": "a"}}},
            "mode": "Static",
            "static": {"factors": {"cpu": BARELY_ABOVE_ONE, "memory": "0.5"}},
            "dynamic": {"expansion": {"cpu": "1000.000000000000000001"}},
        }),
    );
    (object, ["match.namespaceSelector.matchLabels.no key!", "static.factors.cpu", "dynamic.expansion.cpu"])
}

pub(super) async fn every_error_in_one_refusal(world: &World) -> Result<()> {
    let (object, paths) = wrong_in_three_ways("e2e-wrong");
    world.remove_later(object.clone());
    let message = world.cluster.create_refused(&object).await?;
    for path in paths {
        ensure!(message.contains(path), "{path} is not named in: {message}");
    }
    let right = world.profile("right", &json!({})).await?;
    let change = json!({"spec": {"static": {"factors": {"cpu": BARELY_ABOVE_ONE}}}});
    ensure!(world.cluster.merge(&right, &change).await.is_err(), "a bad change was accepted");
    Ok(())
}

pub(super) async fn schema_refuses(world: &World) -> Result<()> {
    for (rule, spec, path) in [
        ("an unknown mode", json!({"mode": "Sometimes"}), "spec.mode"),
        ("a factor as a number", json!({"static": {"factors": {"cpu": 0.5}}}), "spec.static.factors.cpu"),
    ] {
        let object = profile("e2e-wrong", &spec);
        world.remove_later(object.clone());
        let message = world.cluster.create_refused(&object).await?;
        ensure!(message.contains(path), "{rule}: {path} is not named in: {message}");
    }
    Ok(())
}

/// A rule in CEL works without a server of ours.
pub(super) async fn rule_of_the_schema_refuses(world: &World) -> Result<()> {
    if let Some(server) = world.server.lock().await.take() {
        server.kill();
    }
    let spec = json!({"mode": "Static", "static": {"factors": {"example.com/gpu": "0.5"}}});
    let object = profile("e2e-wrong", &spec);
    world.remove_later(object.clone());
    let message = world.cluster.create_refused(&object).await?;
    ensure!(message.contains("factors"), "the field is not named in: {message}");
    Ok(())
}

/// With no server there is nobody to refuse; the next one says what is wrong and does not use it.
pub(super) async fn bad_one_says_so_in_its_status(world: &World) -> Result<()> {
    if let Some(server) = world.server.lock().await.take() {
        server.kill();
    }
    let (object, paths) = wrong_in_three_ways("e2e-slipped-in");
    world.create_for_now(&object).await?;
    world.before().await?;
    let message = until("a condition that says what is wrong", async || {
        let stored = world.cluster.get(&object).await?;
        let conditions = stored["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let bad = conditions.iter().find(|c| c["status"] == "False").map(|c| c["message"].to_string());
        ensure!(bad.is_some(), "status: {}", stored["status"]);
        Ok(bad)
    })
    .await?;
    for path in paths {
        ensure!(message.contains(path), "{path} is not named in: {message}");
    }
    Ok(())
}

/// The next pod follows an edited profile; the server is not restarted.
pub(super) async fn edit_is_followed(world: &World) -> Result<()> {
    let namespace = world.namespace("edit").await?;
    let object = world.profile("edit", &json!({})).await?;
    for (factor, want) in [("0.5", "500m"), ("0.25", "250m"), ("0.75", "750m")] {
        world.cluster.merge(&object, &json!({"spec": {"static": {"factors": {"cpu": factor}}}})).await?;
        world.lowers(&namespace, want).await?;
    }
    world.cluster.merge(&object, &json!({"spec": {"mode": "Off"}})).await?;
    world.lowers(&namespace, "1").await?;
    world.cluster.merge(&object, &json!({"spec": {"mode": "Static"}})).await?;
    world.lowers(&namespace, "750m").await?;
    let created = world.cluster.create(&gated_pod(&namespace, "one", &[app()])).await?;
    check_eq!(cpu(&created, "app")?, "750m", "cpu");
    world.cluster.delete(&object).await?;
    world.lowers(&namespace, "1").await
}
