//! `helm install`, `upgrade`, `test`, `uninstall`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{KINDS, WEBHOOKS, bound, bundles, converted, counted, has_target, plant};
use crate::harness::creates::Creates;
use crate::harness::helm::CHART;
use crate::harness::install::NAMESPACE;
use crate::harness::objects::{ORIGINAL, annotation, app, cpu, gated_pod};
use crate::harness::playground::Playground;
use crate::harness::{World, check_eq, until};

/// What may not change when something is refused, by version, kind and name.
const WATCHED: [(&str, &str, &str); 4] = [
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "plimsoll"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "plimsoll"),
    (WEBHOOKS, KINDS[0], "plimsoll"),
    (WEBHOOKS, KINDS[1], "plimsoll"),
];

/// With the defaults, and without anything else in the cluster: within a minute a pod gets a lowered request.
pub(in crate::scenarios) async fn defaults(world: &World) -> Result<()> {
    let playground = world.playground().await?;
    playground.clear().await?;
    let start = Instant::now();
    let args = ["install", "plimsoll", CHART, "--namespace", NAMESPACE, "--create-namespace"];
    let said = playground.helm.run(&args).await?;
    playground.halved("shop").await?;
    let created = until("a pod to be lowered", async || {
        let pod = gated_pod("shop", "first", &[app()]);
        let created = playground.cluster.create(&pod).await?;
        if cpu(&created, "app")? == "500m" {
            return Ok(Some(created));
        }
        playground.cluster.delete(&pod).await?;
        Ok(None)
    })
    .await
    .with_context(|| playground.pods.last_words())?;
    let took = start.elapsed();
    playground.cluster.delete(&created).await?;
    ensure!(took < Duration::from_secs(60), "it took {took:?} from helm install to a lowered pod");
    ensure!(annotation(&created, ORIGINAL).is_some(), "no originals: {created}");
    println!("    {:.1} s from `helm install` to a pod with a lowered request", took.as_secs_f64());
    // It says what to do next.
    ensure!(said.contains("helm test") || said.contains("kubectl"), "the notes say nothing: {said}");
    let bundles = bundles(playground, &["plimsoll"]).await?;
    ensure!(bundles.iter().all(|bundle| *bundle == bundles[0]), "caBundles differ: {bundles:?}");
    playground.release(&["test.namespace=shop"]).await.context("the same again")?;
    playground
        .helm
        .run(&["test", "plimsoll", "--namespace", NAMESPACE, "--timeout", "180s"])
        .await
        .with_context(|| playground.pods.last_words())?;
    Ok(())
}

/// A second release in the cluster is refused in a sentence, whatever its name and namespace, and nothing is changed.
pub(in crate::scenarios) async fn second_release(world: &World) -> Result<()> {
    let playground = world.playground().await?;
    playground.release(&[]).await?;
    let state = async || {
        let mut versions = Vec::new();
        for (version, kind, name) in WATCHED {
            let object = playground.read(version, kind, name).await?;
            versions.push(object["metadata"]["resourceVersion"].clone());
        }
        Ok::<_, anyhow::Error>(versions)
    };
    let before = state().await?;
    for (name, namespace) in [("another", "elsewhere"), ("plimsoll", "elsewhere"), ("another", NAMESPACE)] {
        let args = ["install", name, CHART, "--namespace", namespace, "--create-namespace"];
        let said = playground.helm.refused(&args).await?;
        ensure!(
            said.contains("Plimsoll is in this cluster already")
                && said.contains(&format!("release plimsoll in namespace {NAMESPACE}")),
            "{name} in {namespace}: {said}"
        );
    }
    check_eq!(state().await?, before, "what is installed");
    let list = playground.helm.run(&["list", "--all-namespaces", "--output", "json"]).await?;
    let list: Vec<Value> = serde_json::from_str(&list)?;
    check_eq!(list.len(), 1, "releases: {list:?}");
    let found = playground.cluster.list("v1", "ServiceAccount", Some("elsewhere"), "").await?;
    ensure!(!found.iter().any(|one| one["metadata"]["name"] == "plimsoll"), "something was made: {found:?}");
    crds_are_left(playground).await
}

/// An upgrade that would have Helm delete CRDs with all that is in them is refused, until they are marked to stay.
async fn crds_are_left(playground: &Playground) -> Result<()> {
    const OURS: &str = "overcommitprofiles.plimsoll.dev";
    const FLAVORS: &str = "resourceflavors.kueue.x-k8s.io";
    playground.halved("shop").await?;
    playground.release(&["crds.resourceFlavor=true"]).await?;
    let uid = async |name: &str| {
        let crd = playground.read("apiextensions.k8s.io/v1", "CustomResourceDefinition", name).await?;
        Ok::<_, anyhow::Error>(crd["metadata"]["uid"].clone())
    };
    let before = [uid(OURS).await?, uid(FLAVORS).await?];
    let profiles = playground.profiles().await?.len();
    ensure!(profiles > 0, "there is a profile");
    let upgrade = ["upgrade", "plimsoll", CHART, "--namespace", NAMESPACE, "--set"];
    for (value, name) in
        [("crds.install=false,crds.resourceFlavor=true", OURS), ("crds.resourceFlavor=false", FLAVORS)]
    {
        let said = playground.helm.refused(&[&upgrade[..], &[value]].concat()).await?;
        ensure!(said.contains("crds.keep=true first") && said.contains(name), "{value}: {said}");
    }
    playground.release(&["crds.resourceFlavor=true", "crds.keep=true"]).await?;
    playground.release(&["crds.install=false"]).await.context("they are marked to stay")?;
    check_eq!([uid(OURS).await?, uid(FLAVORS).await?], before, "CRDs");
    check_eq!(playground.profiles().await?.len(), profiles, "profiles");
    // As it was, for whoever comes next.
    playground.release(&[]).await?;
    let crds = "apiextensions.k8s.io/v1";
    let flavors = playground.read(crds, "CustomResourceDefinition", FLAVORS).await?;
    playground
        .cluster
        .delete(&crate::harness::objects::named(crds, "CustomResourceDefinition", &flavors))
        .await
}

/// The chart as it might have been a version ago: a column of a CRD was not there yet.
fn previous_chart(dir: &Path) -> Result<String> {
    const COLUMN: &str =
        "    - jsonPath: .spec.basis\n      name: Basis\n      priority: 1\n      type: string\n";
    let chart = dir.join("previous-chart");
    if chart.exists() {
        fs::remove_dir_all(&chart)?;
    }
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join(CHART), &chart)?;
    for (file, from, to) in
        [("Chart.yaml", "version: 0.1.0", "version: 0.0.9"), ("files/crds.yaml", COLUMN, "")]
    {
        let text = fs::read_to_string(chart.join(file))?;
        ensure!(text.contains(from), "{file} has no {from:?}");
        fs::write(chart.join(file), text.replace(from, to))?;
    }
    Ok(chart.display().to_string())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// Whether the CRD of profiles has the column that the previous version did not.
async fn has_column(playground: &Playground) -> Result<bool> {
    let crds = "apiextensions.k8s.io/v1";
    let crd = playground.read(crds, "CustomResourceDefinition", "overcommitprofiles.plimsoll.dev").await?;
    Ok(crd["spec"]["versions"][0]["additionalPrinterColumns"].to_string().contains("Basis"))
}

/// From the version before, then with other values, while pods are created without a pause: none fails, none is missed.
/// CRDs are upgraded; what the program has written into webhook configurations stays.
pub(in crate::scenarios) async fn upgrade(world: &World) -> Result<()> {
    const QUOTA: [&str; 1] = ["quota.enabled=true"];
    let playground = world.playground().await?;
    let previous = previous_chart(&playground.dir)?;
    playground.release_of(&previous, &QUOTA).await?;
    ensure!(!has_column(playground).await?, "the previous version has the new column");
    playground.halved("shop").await?;
    playground.namespace("leaf").await?;
    let tree = plant(playground, "leaf", 1000).await?;
    playground.lowers("shop", "500m").await?;
    let names = ["plimsoll", "plimsoll-quota"];
    let before = until("every caBundle", async || bundles(playground, &names).await.map(Some)).await?;
    let asked = bound(playground).await?;
    counted(playground, "leaf").await?;

    let creates = Creates::start(playground, "shop");
    let bound_creates = Creates::unchanged(playground, "leaf");
    let outcome = async {
        playground.release(&QUOTA).await.context("to this version")?;
        let more =
            [&QUOTA[..], &["replicas=3", "config.log.level=debug", "podAnnotations.e2e=again"]].concat();
        playground.release(&more).await.context("with other values")
    }
    .await;
    let made = creates.stop(10).await;
    let made_bound = bound_creates.stop(10).await;
    outcome?;
    let (made, made_bound) = (made?, made_bound?);
    println!("    {made} lowered pods meanwhile, and {made_bound} that a quota bounds");
    ensure!(has_column(playground).await?, "the CRD was not upgraded");
    check_eq!(bundles(playground, &names).await?, before, "caBundles");
    check_eq!(bound(playground).await?, asked, "the namespaces that quota is asked about");
    check_eq!(playground.replicas().await?.len(), 3, "replicas");
    // The pods that were created are gone, but may be counted for a moment yet.
    let force = json!({"metadata": {"annotations": {"plimsoll.dev/force": "true"}}});
    playground.cluster.merge(&tree, &force).await?;
    playground.cluster.delete(&tree).await
}

/// Nothing of the release is left, autoscalers are as their authors wrote them, and no create was blocked on the way,
/// not even in a namespace that quota fails closed for.
pub(in crate::scenarios) async fn uninstall(world: &World) -> Result<()> {
    let playground = world.playground().await?;
    playground.release(&["quota.enabled=true", "replicas=2"]).await?;
    playground.halved("shop").await?;
    playground.lowers("shop", "500m").await?;
    playground.namespace("leaf").await?;
    plant(playground, "leaf", 1000).await?;
    counted(playground, "leaf").await?;
    converted(playground, "shop").await?;
    let creates = Creates::unchanged(playground, "leaf");
    let outcome = playground.helm.run(&["uninstall", "plimsoll", "--namespace", NAMESPACE, "--wait"]).await;
    let made = creates.stop(5).await;
    outcome.with_context(|| playground.pods.last_words())?;
    println!("    {} pods were created in a bound namespace meanwhile", made?);
    has_target(playground, "shop", "cpu 80%").await?;
    playground.lowers("shop", "1").await.context("afterwards")?;
    nothing_left(playground).await
}

/// Nothing of ours is in the cluster any more, but for what pods that were lowered say about that, and the namespace, which
/// Helm makes and does not delete.
pub(super) async fn nothing_left(playground: &Playground) -> Result<()> {
    let by_kubernetes = [
        "Namespace /plimsoll-system:",
        "ConfigMap plimsoll-system/kube-root-ca.crt:",
        "ServiceAccount plimsoll-system/default:",
    ];
    until("everything of ours to be gone", async || {
        let mut left = playground.leftovers().await?;
        left.retain(|one| !one.contains(": /metadata/annotations/plimsoll.dev/"));
        left.retain(|one| !by_kubernetes.iter().any(|theirs| one.starts_with(theirs)));
        ensure!(left.is_empty(), "there is still {left:#?}");
        Ok(Some(()))
    })
    .await
}
