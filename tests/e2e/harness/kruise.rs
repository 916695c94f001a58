//! Workloads of `OpenKruise`, as far as this project sees them: definitions without a controller. Scenarios make the pods.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::World;
use super::install::established;
use super::objects::pod_spec;

/// Kind and API version of each.
pub(crate) const KINDS: [(&str, &str); 4] = [
    ("CloneSet", "apps.kruise.io/v1alpha1"),
    ("StatefulSet", "apps.kruise.io/v1beta1"),
    ("DaemonSet", "apps.kruise.io/v1alpha1"),
    ("BroadcastJob", "apps.kruise.io/v1alpha1"),
];

/// Installs the definitions for the length of the scenario.
pub(crate) async fn install(world: &World) -> Result<()> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kruise");
    let mut definitions = Vec::new();
    for file in fs::read_dir(&dir).with_context(|| format!("read {}", dir.display()))? {
        let text = fs::read_to_string(file?.path())?;
        definitions.extend(serde_saphyr::from_multiple::<Value>(&text)?);
    }
    for definition in &definitions {
        world.create_for_now(definition).await?;
    }
    for definition in &definitions {
        established(&world.cluster, definition).await?;
    }
    Ok(())
}

/// A workload of one of [`KINDS`] whose pods have these containers. Not created yet.
pub(crate) fn workload(kind: &str, namespace: &str, name: &str, containers: &[Value]) -> Result<Value> {
    let (_, version) =
        KINDS.into_iter().find(|(known, _)| *known == kind).context("no kind of OpenKruise")?;
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": pod_spec(containers)});
    Ok(json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    }))
}

/// One more pod of a workload that is in the cluster (with its uid), as its controller would make it. Not created yet.
pub(crate) fn pod_of(workload: &Value, number: usize) -> Result<Value> {
    let name = workload["metadata"]["name"].as_str().context("no name")?;
    let mut pod = workload["spec"]["template"].clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = format!("{name}-{number}").into();
    pod["metadata"]["namespace"] = workload["metadata"]["namespace"].clone();
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "name": name,
        "uid": workload["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    }]);
    Ok(pod)
}
