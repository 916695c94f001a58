//! What the API server does with autoscalers and a webhook that rewrites them: what the design rests on.

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::harness::hpa::{average, condition, eighty, hpa, hpa_v1, targets};
use crate::harness::objects::annotation;
use crate::harness::webhook::TestWebhook;
use crate::harness::world::SCENARIO;
use crate::harness::{World, check_eq, until};

const SYNC: &str = "e2e.plimsoll.dev/sync";
const MANAGER: &str = "e2e-keeper";
const USER: &str = "e2e-user";

/// Where the annotation asks for it, the target in cores in the place of all targets, and the annotation is gone.
fn rewrite(request: &Value) -> Vec<Value> {
    if annotation(&request["object"], SYNC).is_none_or(|text| text == "probe") {
        return vec![];
    }
    vec![
        json!({"op": "replace", "path": "/spec/metrics", "value": [average("cpu", "800m")]}),
        json!({"op": "remove", "path": format!("/metadata/annotations/{}", SYNC.replace('/', "~1"))}),
    ]
}

/// A namespace whose autoscalers are shown to a webhook like ours.
async fn watched(world: &World, name: &str) -> Result<(String, TestWebhook)> {
    let mut metadata = json!({"labels": {}});
    // Not to ours.
    metadata["labels"][crate::harness::objects::OPT_OUT] = "disabled".into();
    let namespace = world.namespace_with(name, &metadata).await?;
    let identity = world.authority.issue_serving(&[&world.host], 1)?;
    let webhook = TestWebhook::listen(world.listen, &identity, rewrite).await?;
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": format!("plimsoll-e2e-{name}")},
        "webhooks": [{
            "name": "hpas.e2e.plimsoll.dev",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "url": format!("https://{}:{}/", world.host, webhook.port()),
                "caBundle": BASE64_STANDARD.encode(world.authority.pem()),
            },
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchLabels": {SCENARIO: name}},
            "rules": [{
                "apiGroups": ["autoscaling"], "apiVersions": ["v2"],
                "resources": ["horizontalpodautoscalers"], "operations": ["CREATE", "UPDATE"],
            }],
        }],
    });
    world.create_for_now(&configuration).await?;
    until("the webhook to be called", async || {
        world.cluster.create_dry(&hpa(&namespace, &[eighty()])).await?;
        Ok((!webhook.seen().is_empty()).then_some(()))
    })
    .await?;
    Ok((namespace, webhook))
}

/// Who owns what, as `manager operation: fields`.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array();
    let line = |entry: &Value| {
        format!(
            "{} {}: {}",
            entry["manager"].as_str().unwrap_or_default(),
            entry["operation"].as_str().unwrap_or_default(),
            entry["fieldsV1"]
        )
    };
    entries.into_iter().flatten().map(line).collect()
}

/// What is owned by a manager, as text.
fn owned(object: &Value, manager: &str) -> String {
    let start = format!("{manager} ");
    owners(object).into_iter().filter(|line| line.starts_with(&start)).collect::<Vec<_>>().join("\n")
}

async fn keeper(world: &World, object: &Value, text: &str) -> Result<Value> {
    let mut annotations = json!({});
    annotations[SYNC] = text.into();
    let change = json!({"metadata": {"annotations": annotations}});
    Ok(world.cluster.merge_as(MANAGER, object, &change).await??)
}

/// A webhook that changes the targets, in a request by which somebody else sets an annotation only, takes nothing away
/// from who wrote them.
pub(in crate::scenarios) async fn ownership(world: &World) -> Result<()> {
    let (namespace, webhook) = watched(world, "hpa-owners").await?;
    let object = hpa(&namespace, &[eighty()]);
    let written = world.cluster.apply_as(USER, &object).await??;
    check_eq!(targets(&written), ["cpu 80%"], "as the user wrote it");
    ensure!(owned(&written, USER).contains("f:metrics"), "{:?}", owners(&written));

    // Its controller has said all it can say: it writes no more.
    until("the controller's word", async || {
        let stored = world.cluster.get(&object).await?;
        Ok(condition(&stored, "AbleToScale").map(drop))
    })
    .await?;

    let kept = keeper(world, &object, "one").await?;
    check_eq!(targets(&kept), ["cpu 800m"], "rewritten in the request that set the annotation");
    check_eq!(annotation(&kept, SYNC), None, "the annotation, which the webhook removed");
    ensure!(owned(&kept, USER).contains("f:metrics"), "the user lost the targets: {:?}", owners(&kept));
    let ours = owned(&kept, MANAGER);
    ensure!(!ours.contains("f:metrics"), "the keeper owns the targets: {ours}");
    ensure!(ours.contains(SYNC), "what the keeper set stays in its name although it is gone: {ours}");

    let calls = webhook.seen().len();
    let again = keeper(world, &object, "one").await?;
    check_eq!(webhook.seen().len(), calls + 1, "calls for the same annotation again");
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    check_eq!(version(&again), version(&kept), "nothing changed, and nothing was written");

    // The same PATCH where the stored object has the annotation already.
    let probe = keeper(world, &object, "probe").await?;
    check_eq!(annotation(&probe, SYNC), Some("probe"), "an annotation that the webhook leaves");
    let calls = webhook.seen().len();
    let same = keeper(world, &object, "probe").await?;
    check_eq!(webhook.seen().len(), calls + 1, "calls for a PATCH that changes nothing");
    check_eq!(version(&same), version(&probe), "and nothing was written");

    let applied = world.cluster.apply_as(USER, &object).await?;
    let applied = applied.context("the user applies the same manifest again")?;
    check_eq!(targets(&applied), ["cpu 80%"], "the user's intent, for the webhook to convert again");

    // What the design does not do, and why.
    let change = json!({"spec": {"metrics": [average("cpu", "800m")]}});
    world.cluster.merge_as(MANAGER, &object, &change).await??;
    let refused = world.cluster.apply_as(USER, &object).await?.err().context("no conflict")?;
    check_eq!(refused.code, 409, "the keeper wrote the targets itself: {}", refused.message);
    ensure!(
        refused.message.contains(MANAGER) && refused.message.contains(".spec.metrics"),
        "{}",
        refused.message
    );
    Ok(())
}

/// `autoscaling/v1` comes to a webhook for `v2` as `v2`; what it cannot say stays beside what it says.
pub(in crate::scenarios) async fn versions(world: &World) -> Result<()> {
    let (namespace, webhook) = watched(world, "hpa-versions").await?;
    let manifest = hpa_v1(&namespace, 80);
    for client_side in [false, true] {
        let apply = |manifest: &Value| {
            let how = if client_side { "--server-side=false" } else { "--server-side" };
            world.cluster.kubectl.run(["apply", how, "--filename=-"], Some(&manifest.to_string()))
        };
        apply(&manifest)?;
        let last = webhook.seen().last().cloned().unwrap_or_default();
        check_eq!(last["object"]["apiVersion"], "autoscaling/v2", "what the webhook is shown");
        check_eq!(last["requestKind"]["version"], "v1", "what was asked for");
        check_eq!(targets(&last["object"]), ["cpu 80%"], "the target in v2");
        let object = hpa(&namespace, &[]);
        keeper(world, &object, "one").await?;
        apply(&manifest)?;
        let stored = world.cluster.get(&object).await?;
        let mut both = targets(&stored);
        both.sort_unstable();
        check_eq!(both, ["cpu 80%", "cpu 800m"], "applied again, unchanged (client side: {client_side})");
        world.cluster.delete(&object).await?;
    }
    Ok(())
}
