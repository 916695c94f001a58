//! CRDs that are not those of the program which is installed.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::harness::creates::Creates;
use crate::harness::helm::CHART;
use crate::harness::install::NAMESPACE;
use crate::harness::playground::{Look, Playground};
use crate::harness::{World, until};

const PROFILES: &str = "overcommitprofiles.plimsoll.dev";

/// Changes the definition of profiles, as an administrator may.
async fn patch(playground: &Playground, patch: &Value) -> Result<()> {
    let args = ["patch", "customresourcedefinition", PROFILES, "--type=json", "--patch", &patch.to_string()];
    playground.kubectl(&args).await.map(drop)
}

/// Waits until `plimsoll status` says this of the CRDs.
async fn told(playground: &Playground, state: &str, words: &[&str]) -> Result<Look> {
    until(format!("status to say that the CRDs are {state}"), async || {
        let look = playground.status(None).await?;
        let (is, problems) = look.part("crds")?;
        ensure!(is == state && words.iter().all(|word| problems.contains(word)), "crds: {is}: {problems}");
        Ok(Some(look))
    })
    .await
}

/// What `plimsoll status` says to do about what Helm has installed.
const REMEDY: &str =
    "`helm upgrade` the release with the chart of the server's version, with --force-conflicts";

async fn mended(playground: &Playground) -> Result<()> {
    let args = ["upgrade", "plimsoll", CHART, "--namespace", NAMESPACE, "--wait", "--force-conflicts"];
    playground.helm.run(&args).await?;
    told(playground, "Healthy", &[]).await.map(drop)
}

/// Of an older version a column and a field are missing; a newer one does not serve our version any more. Each is told with
/// what to do, pods are created as before, and what is told to do helps.
pub(in crate::scenarios) async fn of_another_version(world: &World) -> Result<()> {
    let playground = world.playground().await?;
    playground.release(&[]).await?;
    playground.halved("shop").await?;
    playground.lowers("shop", "500m").await?;
    told(playground, "Healthy", &[]).await?;

    let creates = Creates::start(playground, "shop");
    let outcome = async {
        for (path, words) in [
            ("/spec/versions/0/additionalPrinterColumns/1", "does not show the column"),
            (
                "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/basis",
                "spec.basis is missing",
            ),
        ] {
            patch(playground, &json!([{"op": "remove", "path": path}])).await?;
            told(playground, "Degraded", &[PROFILES, words, REMEDY]).await?;
            // What it reads of profiles is still what they say.
            playground.lowers("shop", "500m").await?;
        }
        mended(playground).await
    }
    .await;
    let made = creates.stop(10).await;
    outcome.with_context(|| playground.pods.last_words())?;
    println!("    {} lowered pods while the CRD was older", made?);

    let creates = Creates::either(playground, "shop");
    let outcome = async {
        let mut newer = crd(playground).await?["spec"]["versions"][0].clone();
        newer["name"] = "v1beta1".into();
        newer["storage"] = false.into();
        let versions = json!([
            {"op": "add", "path": "/spec/versions/-", "value": newer},
            {"op": "replace", "path": "/spec/versions/0/served", "value": false},
        ]);
        patch(playground, &versions).await?;
        let look =
            told(playground, "Degraded", &[PROFILES, "version v1alpha1 is not served", REMEDY]).await?;
        ensure!(look.part("profiles")?.0 == "Failed", "profiles that cannot be read: {look}");
        // Nobody can read profiles any more, and so there are none.
        playground.lowers("shop", "1").await?;
        mended(playground).await?;
        playground.lowers("shop", "500m").await
    }
    .await;
    let made = creates.stop(10).await;
    outcome.with_context(|| playground.pods.last_words())?;
    println!("    {} pods, none refused, while the version was not served", made?);
    playground.release(&[]).await.context("an upgrade afterwards").map(drop)
}

async fn crd(playground: &Playground) -> Result<Value> {
    playground.read("apiextensions.k8s.io/v1", "CustomResourceDefinition", PROFILES).await
}
