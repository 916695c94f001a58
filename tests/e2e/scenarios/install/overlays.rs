//! Each overlay of `webhook-config`: applied, it gets ready and does its one thing; removed, nothing of it is left.

use anyhow::Result;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::harness::World;
use crate::harness::certificates::Authority;
use crate::harness::install::{NAMESPACE, SERVER_NAME};
use crate::harness::objects::named;
use crate::harness::playground::Playground;

const INJECT: &str = "cert-manager.io/inject-ca-from";

/// What of cert-manager the API server must know.
fn cert_manager_kinds() -> Vec<Value> {
    let kinds = [("Certificate", "certificates"), ("Issuer", "issuers")];
    let definition = |(kind, plural): (&str, &str)| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.cert-manager.io")},
            "spec": {
                "group": "cert-manager.io",
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        })
    };
    kinds.map(definition).into()
}

/// What cert-manager does: it makes the Secret of the Certificate, and writes the CA where an annotation asks for it.
async fn play_cert_manager(playground: &Playground) -> Result<()> {
    let authority = Authority::new("cert-manager-e2e")?;
    let identity = authority.issue_serving(&[SERVER_NAME], 7)?;
    let encoded = |text: &str| BASE64_STANDARD.encode(text);
    playground
        .cluster
        .apply(&json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": "plimsoll-tls", "namespace": NAMESPACE},
            "data": {
                "ca.crt": encoded(&authority.pem()),
                "tls.crt": encoded(&identity.certificate),
                "tls.key": encoded(&identity.key),
            },
        }))
        .await?;
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let version = "admissionregistration.k8s.io/v1";
        for object in playground.cluster.list(version, kind, None, "").await? {
            if object["metadata"]["annotations"].get(INJECT).is_none() {
                continue;
            }
            let webhooks = object["webhooks"].as_array().map_or(0, Vec::len);
            let name = named(version, kind, &object)["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let patch: Vec<Value> = (0..webhooks)
                .map(|index| {
                    let path = format!("/webhooks/{index}/clientConfig/caBundle");
                    json!({"op": "add", "path": path, "value": encoded(&authority.pem())})
                })
                .collect();
            let patch = Value::from(patch).to_string();
            playground.kubectl(&["patch", kind, &name, "--type=json", "--patch", &patch]).await?;
        }
    }
    Ok(())
}

pub(in crate::scenarios) async fn cert_manager(world: &World) -> Result<()> {
    let playground = world.playground().await?;
    playground.clear().await?;
    for object in cert_manager_kinds() {
        playground.cluster.apply(&object).await?;
        crate::harness::install::established(&playground.cluster, &object).await?;
    }
    playground.kustomize("apply", "webhook-config/overlays/cert-manager").await?;
    play_cert_manager(playground).await?;
    playground.rolled_out().await?;
    playground.halved("cert-manager").await?;
    playground.lowers("cert-manager", "500m").await
}
