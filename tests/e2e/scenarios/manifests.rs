//! `webhook-config` against a real API server.

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use crate::harness::install::{BASE, render};
use crate::harness::objects::{ORIGINAL, annotation, app, cpu, gated_pod};
use crate::harness::{World, check_eq};

/// Also what the harness replaces by processes of its own is valid in a cluster.
pub(super) async fn accepted_by_the_api_server(world: &World) -> Result<()> {
    for mut object in render(&world.cluster, BASE)? {
        if object["kind"] == "Service" {
            // The harness has put its own in this place, of a type that does not merge with this one.
            object["metadata"]["name"] = "plimsoll-as-shipped".into();
        }
        let args = [
            "apply",
            "--filename=-",
            "--dry-run=server",
            "--validate=strict",
            "--server-side",
            "--force-conflicts",
        ];
        world.cluster.kubectl.run(args, Some(&object.to_string()))?;
    }
    Ok(())
}

pub(super) async fn sample_profiles_accepted(world: &World) -> Result<()> {
    let profiles = Path::new(env!("CARGO_MANIFEST_DIR")).join("webhook-config/profiles");
    let args =
        ["apply".as_ref(), "--dry-run=server".as_ref(), "--validate=strict".as_ref(), "--kustomize".as_ref()];
    world.cluster.kubectl.run(args.into_iter().chain([profiles.as_os_str()]), None)?;
    Ok(())
}

/// Installing changes nothing by itself.
pub(super) async fn nothing_lowered_without_a_profile(world: &World) -> Result<()> {
    let namespace =
        world.namespace_with("no-profile", &json!({"labels": {"plimsoll.dev/pool": "shared"}})).await?;
    let created = world.cluster.create(&gated_pod(&namespace, "one", &[app()])).await?;
    check_eq!(cpu(&created, "app")?, "1", "cpu");
    check_eq!(annotation(&created, ORIGINAL), None, "originals");
    Ok(())
}
