//! Installs what `webhook-config/base` says, pointed at this process instead of pods.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::until;

pub(crate) const BASE: &str = "webhook-config/base";
pub(crate) const NAMESPACE: &str = "plimsoll-system";
/// The name that the API server expects in the certificate.
pub(crate) const SERVER_NAME: &str = "plimsoll.plimsoll-system.svc";

/// Where the API server finds the webhook.
pub(crate) struct Endpoint<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    pub(crate) ca: &'a str,
}

/// What a folder of this repository says, as kubectl renders it.
pub(crate) fn render(cluster: &Cluster, folder: &str) -> Result<Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let text = cluster.kubectl.run(["kustomize".as_ref(), folder.as_os_str()], None)?;
    Ok(serde_saphyr::from_multiple(&text)?)
}

/// What the base says together with these components, rendered by way of the folder `dir`.
pub(crate) fn with_components(cluster: &Cluster, dir: &Path, components: &[&str]) -> Result<Vec<Value>> {
    // kustomize takes relative paths only.
    let mut up = PathBuf::new();
    for part in dir.canonicalize()?.components() {
        if matches!(part, Component::Normal(_)) {
            up.push("..");
        }
    }
    let folder = |path: &str| {
        let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        Ok::<_, anyhow::Error>(up.join(whole.canonicalize()?.strip_prefix("/")?))
    };
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [folder(BASE)?],
        "components": components.iter().map(|path| folder(path)).collect::<Result<Vec<_>>>()?,
    });
    fs::write(dir.join("kustomization.yaml"), kustomization.to_string())?;
    let text = cluster.kubectl.run(["kustomize".as_ref(), dir.as_os_str()], None)?;
    Ok(serde_saphyr::from_multiple(&text)?)
}

/// The objects that were applied, in order.
pub(crate) async fn install(cluster: &Cluster, endpoint: &Endpoint<'_>) -> Result<Vec<Value>> {
    let objects = render(cluster, BASE)?;
    apply(cluster, endpoint, objects).await
}

/// Applies what a manifest says; webhooks last, when their objects can be made.
pub(crate) async fn apply(
    cluster: &Cluster,
    endpoint: &Endpoint<'_>,
    objects: Vec<Value>,
) -> Result<Vec<Value>> {
    let mut applied = Vec::new();
    let mut webhooks = Vec::new();
    for mut object in objects {
        match object["kind"].as_str().unwrap_or_default() {
            // The replicas are processes of this run, configured by it; scenario `manifests` checks these kinds.
            "Deployment" | "PodDisruptionBudget" | "NetworkPolicy" | "ConfigMap" => continue,
            "Service" => {
                object["spec"] = json!({
                    "type": "ExternalName",
                    "externalName": endpoint.host,
                    "ports": [{"port": endpoint.port}],
                });
            }
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
                point(&mut object, endpoint)?;
                webhooks.push(object);
                continue;
            }
            _ => {}
        }
        cluster.apply(&object).await?;
        applied.push(object);
    }
    for object in &applied {
        if object["kind"] == "CustomResourceDefinition" {
            established(cluster, object).await?;
        }
    }
    for object in webhooks {
        cluster.apply(&object).await?;
        applied.push(object);
    }
    Ok(applied)
}

fn point(object: &mut Value, endpoint: &Endpoint<'_>) -> Result<()> {
    for webhook in object["webhooks"].as_array_mut().context("no webhooks")? {
        webhook["clientConfig"]["caBundle"] = BASE64_STANDARD.encode(endpoint.ca).into();
        // Nobody here tests how little time there is; where it runs out pods stay as they are.
        webhook["timeoutSeconds"] = 10.into();
        // For a Service of type ExternalName the API server takes the port from here.
        webhook["clientConfig"]["service"]["port"] = endpoint.port.into();
    }
    Ok(())
}

/// Applies the `MutatingWebhookConfiguration` of a folder in the place of the one that is there.
pub(crate) async fn reinstall_webhook(
    cluster: &Cluster,
    endpoint: &Endpoint<'_>,
    folder: &str,
) -> Result<()> {
    let mut all = render(cluster, folder)?.into_iter();
    let mut object =
        all.find(|object| object["kind"] == "MutatingWebhookConfiguration").context("no webhook there")?;
    point(&mut object, endpoint)?;
    cluster.apply(&object).await.map(drop)
}

/// Waits until the objects of a definition can be made.
pub(crate) async fn established(cluster: &Cluster, object: &Value) -> Result<()> {
    until(format!("{} to be served", object["metadata"]["name"]), async || {
        let stored = cluster.get(object).await?;
        for condition in stored["status"]["conditions"].as_array().into_iter().flatten() {
            match (condition["type"].as_str(), condition["status"].as_str()) {
                (Some("Established"), Some("True")) => return Ok(Some(())),
                (Some("NonStructuralSchema"), Some("True")) => bail!("{}", condition["message"]),
                _ => {}
            }
        }
        Ok(None)
    })
    .await
}
