//! A second webhook that injects a sidecar after us.

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::harness::objects::{ORIGINAL, annotation, app, container, cpu, gated_pod, originals};
use crate::harness::webhook::TestWebhook;
use crate::harness::world::SCENARIO;
use crate::harness::{World, check_eq, until};

const NAME: &str = "injector";

/// Inserts a container before all others, once: every index of ours moves.
fn inject(request: &Value) -> Vec<Value> {
    let there = request["object"]["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|c| c["name"] == "sidecar");
    let sidecar = container("sidecar", &json!({"requests": {"cpu": "200m"}, "limits": {"cpu": "1"}}));
    if there { vec![] } else { vec![json!({"op": "add", "path": "/spec/containers/0", "value": sidecar})] }
}

/// The sidecar is lowered by a second call, and the app is not lowered a second time.
pub(super) async fn injected_sidecar(world: &World) -> Result<()> {
    let namespace = world.halved(NAME).await?;
    let identity = world.authority.issue_serving(&[&world.host], 1)?;
    let injector = TestWebhook::listen(world.listen, &identity, inject).await?;
    // Configurations are called in the order of their names: this one comes after ours.
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "plimsoll-e2e-injector"},
        "webhooks": [{
            "name": "injector.e2e.plimsoll.dev",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "url": format!("https://{}:{}/", world.host, injector.port()),
                "caBundle": BASE64_STANDARD.encode(world.authority.pem()),
            },
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "namespaceSelector": {"matchLabels": {SCENARIO: NAME}},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
            }],
        }],
    });
    world.create_for_now(&configuration).await?;
    until("the injector to be called", async || {
        let seen = world.cluster.create_dry(&gated_pod(&namespace, "probe", &[app()])).await?;
        Ok((seen["spec"]["containers"][0]["name"] == "sidecar").then_some(()))
    })
    .await?;

    let before = injector.seen().len();
    let answered = answered_by_server(world).await?;
    let created = world.cluster.create(&gated_pod(&namespace, "one", &[app()])).await?;

    let seen = injector.seen();
    let [request] = seen.get(before..).unwrap_or_default() else {
        anyhow::bail!("the injector was called {} times for one pod", seen.len() - before);
    };
    let shown = &request["object"];
    check_eq!(cpu(shown, "app")?, "500m", "what the injector saw: we were called before it");
    ensure!(annotation(shown, ORIGINAL).is_some(), "the injector saw no originals");
    check_eq!(created["spec"]["containers"][0]["name"], "sidecar", "the first container");
    check_eq!(cpu(&created, "sidecar")?, "100m", "the sidecar: we were called again after the injector");
    check_eq!(cpu(&created, "app")?, "500m", "the app: lowered once");
    let recorded = originals(&created)?;
    check_eq!(recorded["containers"]["sidecar"]["requests"]["cpu"], "200m", "the sidecar's original");
    check_eq!(recorded["containers"]["app"]["requests"]["cpu"], "1", "the app's original");
    let answered = answered_by_server(world).await? - answered;
    ensure!(answered >= 2.0, "the server answered {answered} times for one pod: it was not called again");
    Ok(())
}

/// How many pods the server has changed so far.
async fn answered_by_server(world: &World) -> Result<f64> {
    let server = world.server.lock().await;
    let server = server.as_ref().context("no server")?;
    server.metric("plimsoll_admission_requests_total", &["stage=\"mutate\"", "outcome=\"applied\""]).await
}
