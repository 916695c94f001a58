//! Installed as people install it, on a control plane for that alone: see [`crate::harness::playground`].

pub(super) mod certificates;
pub(super) mod definitions;
pub(super) mod helm;
pub(super) mod overlays;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::harness::hpa::{WEB, eighty, hpa, small, targets, usual};
use crate::harness::objects::{app, gated_pod};
use crate::harness::playground::Playground;
use crate::harness::quota::{TREE, TREES};
use crate::harness::until;

const WEBHOOKS: &str = "admissionregistration.k8s.io/v1";
const KINDS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// The `caBundle` of every webhook of our configurations `names`, each of which must have one.
async fn bundles(playground: &Playground, names: &[&str]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for name in names {
        for kind in KINDS {
            let object = playground.read(WEBHOOKS, kind, name).await?;
            for webhook in object["webhooks"].as_array().into_iter().flatten() {
                let bundle = webhook["clientConfig"]["caBundle"].as_str();
                found.push(bundle.with_context(|| format!("{kind} {name} has no caBundle"))?.to_owned());
            }
        }
    }
    Ok(found)
}

/// The namespaces about which quota is asked.
async fn bound(playground: &Playground) -> Result<Value> {
    let object = playground.read(WEBHOOKS, KINDS[1], "plimsoll-quota").await?;
    Ok(object["webhooks"][0]["namespaceSelector"].clone())
}

/// A tree whose one leaf, of 1000 cores or `pods` pods, is this namespace; waits until the API server asks about it.
async fn plant(playground: &Playground, namespace: &str, pods: u32) -> Result<Value> {
    let all = json!({"cpu": 1000, "pods": pods});
    let tree = json!({
        "apiVersion": TREES,
        "kind": TREE,
        "metadata": {"name": "e2e", "namespace": "kube-system"},
        "spec": {"root": {
            "name": "root", "max": all, "min": all,
            "children": [{"name": "leaf", "namespaces": [namespace], "max": all, "min": all}],
        }},
    });
    until("the tree to be taken", async || playground.cluster.apply(&tree).await.map(Some)).await?;
    until(format!("{namespace} to be bound"), async || {
        let selector = bound(playground).await?;
        ensure!(selector.to_string().contains(namespace), "asked about: {selector}");
        Ok(Some(()))
    })
    .await?;
    Ok(tree)
}

/// Waits until quota has counted what is used, and admits pods of this namespace.
async fn counted(playground: &Playground, namespace: &str) -> Result<()> {
    let pod = gated_pod(namespace, "counted", &[app()]);
    until(format!("quota to admit a pod in {namespace}"), async || {
        playground.cluster.create_dry(&pod).await.map(Some)
    })
    .await
    .map(drop)
}

/// An autoscaler at 80 % of a request that is halved, which we have converted.
async fn converted(playground: &Playground, namespace: &str) -> Result<()> {
    playground.cluster.apply(&small(namespace, &[usual()])).await?;
    playground.cluster.apply(&hpa(namespace, &[eighty()])).await?;
    has_target(playground, namespace, "cpu 800m").await
}

async fn has_target(playground: &Playground, namespace: &str, want: &str) -> Result<()> {
    until(format!("the target of {WEB} in {namespace} to be {want}"), async || {
        let stored = playground.cluster.get(&hpa(namespace, &[])).await?;
        let got = targets(&stored);
        ensure!(got == [want], "it is {got:?}; annotations: {}", stored["metadata"]["annotations"]);
        Ok(Some(()))
    })
    .await
}
