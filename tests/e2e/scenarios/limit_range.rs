//! A lowered pod must still pass the namespace's LimitRange: it is admitted, never refused because of us.

use anyhow::Result;
use serde_json::{Value, json};

use crate::harness::objects::{app, cpu, gated_pod, originals};
use crate::harness::{World, check_eq};

async fn bounded(world: &World, name: &str, bounds: &Value, want: &str) -> Result<()> {
    let namespace = world.namespace(name).await?;
    let mut limit = bounds.clone();
    limit["type"] = "Container".into();
    let object = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "bounds", "namespace": namespace},
        "spec": {"limits": [limit]},
    });
    world.cluster.create(&object).await?;
    world.profile(name, &json!({"static": {"factors": {"cpu": "0.1"}}})).await?;
    world.lowers(&namespace, want).await?;
    let created = world.cluster.create(&gated_pod(&namespace, "one", &[app()])).await?;
    check_eq!(cpu(&created, "app")?, want, "cpu");
    check_eq!(originals(&created)?["containers"]["app"]["requests"]["cpu"], "1", "the original");
    Ok(())
}

pub(super) async fn container_minimum(world: &World) -> Result<()> {
    bounded(world, "limit-minimum", &json!({"min": {"cpu": "600m"}}), "600m").await
}

/// The limit is 2: with a ratio of 3 the request may not be below two thirds, rounded up.
pub(super) async fn container_ratio(world: &World) -> Result<()> {
    bounded(world, "limit-ratio", &json!({"maxLimitRequestRatio": {"cpu": "3"}}), "667m").await
}
