//! `plimsoll hpa restore`: before we are gone, targets are as their authors wrote them.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::intent::settled;
use crate::harness::autoscaling::{Autoscaling, RECORD, SYNC, group_profile, with_autoscalers};
use crate::harness::hpa::{WEB, eighty, has_targets, hpa, hpa_v1, targets};
use crate::harness::objects::{OPT_OUT, annotation};
use crate::harness::{World, check_eq};

const GROUP: &str = "hpa-restore";
const USER: &str = "e2e-user";

/// How an author writes.
#[derive(Clone, Copy)]
enum Way {
    ServerSide,
    ClientSide,
    V1,
    Replace,
}

const WAYS: [Way; 4] = [Way::ServerSide, Way::ClientSide, Way::V1, Way::Replace];

impl Way {
    async fn write(self, world: &World, namespace: &str) -> Result<()> {
        let manifest = hpa(namespace, &[eighty()]);
        let client_side = |manifest: &Value| {
            let args = ["apply", "--server-side=false", "--filename=-"];
            world.cluster.kubectl.run(args, Some(&manifest.to_string())).map(drop)
        };
        match self {
            Self::ServerSide => world.cluster.apply_as(USER, &manifest).await?.map(drop)?,
            Self::ClientSide => client_side(&manifest)?,
            Self::V1 => client_side(&hpa_v1(namespace, 80))?,
            Self::Replace => {
                let how =
                    if world.cluster.get_opt(&manifest).await?.is_some() { "replace" } else { "create" };
                world.cluster.kubectl.run([how, "--filename=-"], Some(&manifest.to_string())).map(drop)?;
            }
        }
        Ok(())
    }
}

/// The server is gone, nobody's field is ours, and whoever applies a manifest again meets no conflict.
async fn as_written(world: &World, namespace: &str) -> Result<()> {
    let stored = has_targets(world, namespace, &["cpu 80%"]).await?;
    for key in [RECORD, SYNC] {
        check_eq!(annotation(&stored, key), None, "{key} in {namespace}");
    }
    let owners = stored["metadata"]["managedFields"].to_string();
    for entry in stored["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let manager = entry["manager"].as_str().unwrap_or_default();
        let fields = entry["fieldsV1"].to_string();
        ensure!(
            !(manager.contains("plimsoll") && fields.contains("f:spec")),
            "{manager} owns targets: {owners}"
        );
    }
    Ok(())
}

/// One that is named is left alone from then on.
pub(in crate::scenarios) async fn one(world: &World) -> Result<()> {
    with_autoscalers(world, &json!({}), async |_| {
        group_profile(world, GROUP, &json!({})).await?;
        let namespace = settled(world, "hpa-restore-one", GROUP).await?;
        Way::ServerSide.write(world, &namespace).await?;
        has_targets(world, &namespace, &["cpu 800m"]).await?;
        world.cluster.kubectl.plimsoll(&["hpa", "restore", WEB, "--namespace", &namespace])?;
        as_written(world, &namespace).await?;
        Way::ServerSide.write(world, &namespace).await.context("written again")?;
        as_written(world, &namespace).await.context("written again")?;
        let stored = world.cluster.get(&hpa(&namespace, &[])).await?;
        check_eq!(annotation(&stored, OPT_OUT), Some("disabled"), "the opt-out");
        Ok(())
    })
    .await
}

/// With a server that still works, and without any.
pub(in crate::scenarios) async fn all(world: &World) -> Result<()> {
    with_autoscalers(world, &json!({}), async |run: &Autoscaling<'_>| {
        group_profile(world, GROUP, &json!({})).await?;
        let mut namespaces = Vec::new();
        for (number, way) in WAYS.into_iter().enumerate() {
            let namespace = settled(world, &format!("hpa-restore-{number}"), GROUP).await?;
            way.write(world, &namespace).await?;
            namespaces.push((way, namespace));
        }
        for (_, namespace) in &namespaces {
            has_targets(world, namespace, &["cpu 800m"]).await?;
        }
        let restore = |more: &[&str]| {
            let args = [&["hpa", "restore"], more].concat();
            world.cluster.kubectl.plimsoll(&args)
        };
        restore(&["--all", "--dry-run"])?;
        for (_, namespace) in &namespaces {
            has_targets(world, namespace, &["cpu 800m"]).await.context("nothing is done on trial")?;
        }
        // A server still works: it is made to stand still.
        restore(&["--all"])?;
        for (_, namespace) in &namespaces {
            as_written(world, namespace).await.context("with a server there")?;
        }
        for (way, namespace) in &namespaces {
            way.write(world, namespace).await.context("written again")?;
        }
        // When the time is over, the keeper goes on as before.
        world.forget_leases().await?;
        for (_, namespace) in &namespaces {
            has_targets(world, namespace, &["cpu 800m"]).await.context("the keeper works again")?;
        }

        run.kill_replicas();
        restore(&["--all"])?;
        for (way, namespace) in &namespaces {
            as_written(world, namespace).await.context("with nobody there")?;
            way.write(world, namespace).await.context("written again")?;
            check_eq!(targets(&world.cluster.get(&hpa(namespace, &[])).await?), ["cpu 80%"], "written again");
        }
        let said = restore(&["--all"])?;
        ensure!(said.contains("nothing to restore"), "{said}");
        // The lease is taken still.
        world.forget_leases().await
    })
    .await
}
