//! Each overlay of `webhook-config`: applied, it gets ready and does its one thing; removed, nothing of it is left.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::helm::nothing_left;
use crate::harness::certificates::{Authority, Identity};
use crate::harness::install::{NAMESPACE, SERVER_NAME, established};
use crate::harness::objects::{app, cpu, gated_pod, named, pod, profile};
use crate::harness::playground::Playground;
use crate::harness::server::metric;
use crate::harness::{World, check_eq, metrics_server, until};

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
            let name =
                named(version, kind, &object)["metadata"]["name"].as_str().unwrap_or_default().to_owned();
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

/// Applies an overlay, waits until pods are lowered, lets `does` look at its one thing, and removes it as the documents say.
async fn overlay(
    playground: &Playground,
    name: &str,
    prepare: impl AsyncFnOnce() -> Result<()>,
    does: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    playground.clear().await?;
    let folder = format!("webhook-config/overlays/{name}");
    playground.kustomize("apply", &folder).await?;
    prepare().await?;
    playground.rolled_out().await?;
    playground.halved("shop").await?;
    playground.lowers("shop", "500m").await?;
    let outcome = async {
        does().await?;
        playground.plimsoll(&["uninstall"]).await.context("plimsoll uninstall")?;
        playground.lowers("shop", "1").await.context("after `plimsoll uninstall`")?;
        playground.kustomize("delete", &folder).await?;
        nothing_left(playground).await
    }
    .await;
    outcome.with_context(|| format!("overlay {name}: {}", playground.pods.last_words()))
}

async fn nothing() -> Result<()> {
    Ok(())
}

pub(in crate::scenarios) async fn self_managed(world: &World) -> Result<()> {
    overlay(world.playground().await?, "self-managed", nothing, nothing).await
}

pub(in crate::scenarios) async fn cert_manager(world: &World) -> Result<()> {
    let playground = world.playground().await?;
    for object in cert_manager_kinds() {
        playground.cluster.apply(&object).await?;
        established(&playground.cluster, &object).await?;
    }
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "plimsoll-ca", "namespace": NAMESPACE}});
    overlay(
        playground,
        "cert-manager",
        async || play_cert_manager(playground).await,
        async || {
            // It has no Secret of a CA that it would make itself.
            check_eq!(
                playground.cluster.get_opt(&secret).await?,
                None,
                "the Secret of self-managed certificates"
            );
            Ok(())
        },
    )
    .await
}

/// Three replicas on three nodes, of which a drain may take one.
pub(in crate::scenarios) async fn ha(world: &World) -> Result<()> {
    let playground = world.playground().await?;
    overlay(playground, "ha", nothing, async || {
        let pods = playground.replicas().await?;
        let nodes: BTreeSet<&str> = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
        check_eq!((pods.len(), nodes.len()), (3, 3), "replicas, and the nodes that they are on");
        let budget = json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "plimsoll", "namespace": NAMESPACE},
        });
        until("the budget to allow one disruption", async || {
            let status = playground.cluster.get(&budget).await?["status"].clone();
            ensure!(status["disruptionsAllowed"] == 1 && status["currentHealthy"] == 3, "{status}");
            Ok(Some(()))
        })
        .await
    })
    .await
}

/// A profile that nobody could check is refused; pods start.
pub(in crate::scenarios) async fn fail_closed(world: &World) -> Result<()> {
    let playground = world.playground().await?;
    overlay(playground, "fail-closed", nothing, async || {
        playground
            .kubectl(&["scale", "deployment/plimsoll", "--namespace", NAMESPACE, "--replicas=0"])
            .await?;
        until("the end of every replica", async || {
            let left = playground.cluster.list("v1", "Pod", Some(NAMESPACE), "").await?;
            ensure!(left.is_empty(), "there are {}", left.len());
            Ok(Some(()))
        })
        .await?;
        let unchecked = profile("unchecked", &json!({"mode": "Off"}));
        let said = playground.cluster.attempt(&unchecked).await?;
        let said = said.err().context("a profile was taken that nobody could check")?.message;
        ensure!(said.contains("overcommitprofiles.plimsoll.dev"), "{said}");
        let created = playground.cluster.create_dry(&gated_pod("shop", "alone", &[app()])).await?;
        check_eq!(cpu(&created, "app")?, "1", "cpu");
        Ok(())
    })
    .await
}

/// A leaf of two pods takes two.
pub(in crate::scenarios) async fn quota(world: &World) -> Result<()> {
    let playground = world.playground().await?;
    overlay(playground, "quota", nothing, async || {
        playground.namespace("leaf").await?;
        super::plant(playground, "leaf", 2).await?;
        for (name, fits) in [("one", true), ("two", true), ("three", false)] {
            let pod = gated_pod("leaf", name, &[app()]);
            let admitted = until(format!("a decision about {name}"), async || {
                match playground.cluster.attempt(&pod).await? {
                    Ok(_) => Ok(Some(true)),
                    Err(refused) if refused.message.contains("exceeded quota") => Ok(Some(false)),
                    // It is counted first.
                    Err(refused) => Err(refused.into()),
                }
            })
            .await?;
            check_eq!(admitted, fits, "whether {name} was admitted");
        }
        // Gated by a name of ours.
        playground.remove_namespace("leaf").await
    })
    .await
}

/// The API server asks us for usage, by our Service, and gets what metrics-server says; afterwards it asks that again.
pub(in crate::scenarios) async fn hpa_shim(world: &World) -> Result<()> {
    const PATH: &str = "/apis/metrics.k8s.io/v1beta1/nodes";
    let playground = world.playground().await?;
    let setup = metrics_server::Setup::new(playground.bin(), playground.kubeconfig(), &playground.dir)?;
    let mut metrics_server = setup.start(&playground.cluster).await?;
    // Nobody here resolves the names of Services for pods.
    playground.pods.set("PLIMSOLL_HPA__API__UPSTREAM", &setup.url());
    let who = async || {
        let api =
            playground.read("apiregistration.k8s.io/v1", "APIService", "v1beta1.metrics.k8s.io").await?;
        Ok::<_, anyhow::Error>(api["spec"]["service"]["name"].as_str().unwrap_or_default().to_owned())
    };
    let outcome = overlay(playground, "hpa-shim", nothing, async || {
        let service = format!("{NAMESPACE}/plimsoll:8445");
        playground.plimsoll(&["hpa", "apiservice", "install", "metrics", "--service", &service]).await?;
        check_eq!(who().await?, "plimsoll", "who is asked for usage");
        until("usage by way of us", async || {
            // Kwok has figures for nodes with pods, once metrics-server has looked twice.
            let nodes = playground.cluster.get_path(PATH).await?;
            ensure!(nodes["items"].as_array().is_some_and(|items| !items.is_empty()), "nodes: {nodes}");
            let asked = async |pod: &Value| {
                metric(playground.pods.reach(pod, 8081)?, "plimsoll_hpa_api_requests_total", &[]).await
            };
            let mut all = 0.0;
            for pod in playground.replicas().await? {
                all += asked(&pod).await?;
            }
            ensure!(all > 0.0, "we were asked {all} times");
            Ok(Some(()))
        })
        .await
    })
    .await;
    playground.pods.unset();
    let back = async {
        outcome?;
        check_eq!(who().await?, "metrics-server", "who is asked for usage afterwards");
        playground.cluster.get_path(PATH).await?;
        metrics_server.check()
    }
    .await;
    // While it leads nowhere, namespaces cannot end.
    let api = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
    });
    playground.cluster.delete(&api).await?;
    back
}

/// A scheduler with a certificate is told how good nodes are, and nobody else is.
pub(in crate::scenarios) async fn placement(world: &World) -> Result<()> {
    let playground = world.playground().await?;
    let schedulers = Authority::new("schedulers")?;
    let prepare = async || {
        let ca = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "plimsoll-scheduler-ca", "namespace": NAMESPACE},
            "data": {"ca.crt": schedulers.pem()},
        });
        playground.cluster.apply(&ca).await.map(drop)
    };
    overlay(playground, "placement", prepare, async || {
        let bundle = super::bundles(playground, &["plimsoll"]).await?.swap_remove(0);
        let authority = CertificateDer::from_pem_slice(&BASE64_STANDARD.decode(bundle)?)?;
        let pods = playground.replicas().await?;
        let address = playground.pods.reach(&pods[0], 8444)?;
        let ask = async |client: Option<Identity>| {
            let mut config = kube::Config::new(format!("https://{address}").parse()?);
            config.root_cert = Some(vec![authority.to_vec()]);
            config.tls_server_name = Some(SERVER_NAME.to_owned());
            config.default_retry = false;
            if let Some(client) = client {
                config.auth_info.client_certificate_data = Some(BASE64_STANDARD.encode(client.certificate));
                config.auth_info.client_key_data = Some(BASE64_STANDARD.encode(client.key).into());
            }
            let asked =
                json!({"Pod": pod("shop", "new", &[app()]), "NodeNames": ["e2e-node-0", "e2e-node-1"]});
            let request = http::Request::post("/scheduler/prioritize")
                .header("content-type", "application/json")
                .body(serde_json::to_vec(&asked)?)?;
            Ok::<Value, anyhow::Error>(kube::Client::try_from(config)?.request(request).await?)
        };
        let scores = ask(Some(schedulers.issue("system:kube-scheduler", None, &[])?)).await?;
        check_eq!(scores.as_array().map(Vec::len), Some(2), "scores: {scores}");
        ensure!(ask(None).await.is_err(), "somebody without a certificate was told");
        // Made by hand, and so removed by hand.
        let ca = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "plimsoll-scheduler-ca", "namespace": NAMESPACE},
        });
        playground.cluster.delete(&ca).await
    })
    .await
}
