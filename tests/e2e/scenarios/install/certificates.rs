//! Certificates that the program makes for itself, in a real installation.

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::bundles;
use crate::harness::creates::Creates;
use crate::harness::install::{NAMESPACE, SERVER_NAME};
use crate::harness::net::serving_serial;
use crate::harness::playground::Playground;
use crate::harness::server::metric;
use crate::harness::wait::until_within;
use crate::harness::{World, until};

/// As fast as a machine can follow that others keep busy, and as many replicas as it takes to tell them apart.
const FAST: [&str; 6] = [
    "replicas=3",
    "config.tls.selfManaged.authorityLifetime=1h",
    "config.tls.selfManaged.certificateLifetime=20s",
    "config.tls.selfManaged.publishFor=4s",
    "config.tls.selfManaged.pollInterval=1s",
    "config.server.drainDelay=2s",
];

/// How long a rotation may take: it is published, waited for, and the last certificate of before must end.
const ROTATION: std::time::Duration = std::time::Duration::from_secs(240);

fn secret() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "plimsoll-ca", "namespace": NAMESPACE}})
}

/// The text behind a key of the Secret, "" if it is not there.
fn text(secret: &Value, key: &str) -> Result<String> {
    let bytes = BASE64_STANDARD.decode(secret["data"][key].as_str().unwrap_or_default())?;
    Ok(String::from_utf8(bytes)?)
}

/// Asks for a new authority.
async fn ask(playground: &Playground, why: &str) -> Result<()> {
    let change = json!({"metadata": {"annotations": {"plimsoll.dev/rotate": why}}});
    playground.cluster.merge(&secret(), &change).await.map(drop)
}

/// Waits until a rotation is all over: the new authority is the only one, and every `caBundle` holds it alone.
async fn rotated(playground: &Playground, why: &str) -> Result<String> {
    until_within(ROTATION, format!("the rotation {why:?} to be over"), async || {
        let stored = playground.cluster.get(&secret()).await?;
        let keys: Vec<&String> =
            stored["data"].as_object().into_iter().flatten().map(|(key, _)| key).collect();
        ensure!(
            text(&stored, "rotated")? == why,
            "the Secret is of the rotation {:?}",
            text(&stored, "rotated")?
        );
        ensure!(
            text(&stored, "previous.crt")?.is_empty() && text(&stored, "next.crt")?.is_empty(),
            "there are {keys:?}"
        );
        let authority = text(&stored, "ca.crt")?;
        for bundle in bundles(playground, &["plimsoll"]).await? {
            let bundle = String::from_utf8(BASE64_STANDARD.decode(bundle)?)?;
            ensure!(bundle.trim() == authority.trim(), "a caBundle holds {} bytes", bundle.len());
        }
        Ok(Some(authority))
    })
    .await
    .with_context(|| playground.pods.last_words())
}

/// A call that fails is a pod that fails, while this runs.
async fn failing_closed<T>(playground: &Playground, act: impl AsyncFnOnce() -> Result<T>) -> Result<T> {
    // With time enough: a call that is slow is none that fails.
    let policy = async |policy: &str, seconds: u32| {
        let patch = json!([
            {"op": "test", "path": "/webhooks/0/name", "value": "pods.plimsoll.dev"},
            {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": policy},
            {"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": seconds},
        ]);
        let patch = patch.to_string();
        let args = ["patch", "mutatingwebhookconfiguration", "plimsoll", "--type=json", "--patch", &patch];
        playground.kubectl(&args).await.map(drop)
    };
    policy("Fail", 10).await?;
    let outcome = act().await;
    policy("Ignore", 3).await?;
    outcome
}

/// The name of the pod that looks after the authority.
async fn leader(playground: &Playground) -> Result<String> {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "plimsoll-certs", "namespace": NAMESPACE},
    });
    let lease = playground.cluster.get(&lease).await?;
    let holder = lease["spec"]["holderIdentity"].as_str().context("nobody leads")?.to_owned();
    let pods = playground.replicas().await?;
    let names = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str());
    let mut leading = names.filter(|name| holder.starts_with(name));
    leading.next().map(str::to_owned).with_context(|| format!("{holder} is no ready pod"))
}

/// Two rotations, one after the other, while pods are created: no call fails. Then the leader dies in the middle of one.
pub(in crate::scenarios) async fn rotation(world: &World) -> Result<()> {
    let playground = world.playground().await?;
    playground.release(&FAST).await?;
    playground.halved("shop").await?;
    playground.lowers("shop", "500m").await?;
    let first = text(&playground.cluster.get(&secret()).await?, "ca.crt")?;
    let last = failing_closed(playground, async || {
        let creates = Creates::start(playground, "shop");
        let outcome = async {
            ask(playground, "one").await?;
            let second = rotated(playground, "one").await?;
            ensure!(second != first, "the authority is still the same");
            ask(playground, "two").await?;
            let third = rotated(playground, "two").await?;
            ensure!(third != second, "the authority is still the same");
            Ok(third)
        }
        .await;
        let made = creates.stop(40).await;
        let third = outcome?;
        println!("    {} pods meanwhile", made?);
        Ok::<_, anyhow::Error>(third)
    })
    .await?;

    ask(playground, "three").await?;
    until("the next authority to be there", async || {
        let next = text(&playground.cluster.get(&secret()).await?, "next.crt")?;
        Ok(Some(()).filter(|()| !next.is_empty()))
    })
    .await?;
    let dead = leader(playground).await?;
    playground.pods.crash(&dead);
    // What it was asked when it died is lost, whatever is in its certificate.
    playground.lowers("shop", "500m").await?;
    until("another leader", async || {
        let leads = leader(playground).await?;
        Ok(Some(()).filter(|()| leads != dead))
    })
    .await?;
    playground.rolled_out().await?;
    failing_closed(playground, async || {
        let creates = Creates::start(playground, "shop");
        let outcome = rotated(playground, "three").await;
        let made = creates.stop(10).await;
        ensure!(outcome? != last, "the authority is still the same");
        println!("    {} pods while another leader went on", made?);
        Ok(())
    })
    .await
}

/// The serial numbers of what the ready replicas serve, each checked against what the API server trusts.
async fn serials(playground: &Playground) -> Result<Vec<String>> {
    let bundle = bundles(playground, &["plimsoll"]).await?.swap_remove(0);
    let authority = CertificateDer::from_pem_slice(&BASE64_STANDARD.decode(bundle)?)?;
    let mut serials = Vec::new();
    for pod in playground.replicas().await? {
        let address = playground.pods.reach(&pod, 8443)?;
        serials.push(serving_serial(address, SERVER_NAME, &authority).await?);
    }
    serials.sort();
    Ok(serials)
}

/// Each replica has a certificate of its own, and the API server trusts each. That stays so when the Secret is deleted and
/// comes back empty, and for a replica that starts later.
pub(in crate::scenarios) async fn replicas(world: &World) -> Result<()> {
    let playground = world.playground().await?;
    playground.release(&FAST).await?;
    playground.halved("shop").await?;
    playground.lowers("shop", "500m").await?;
    let own = async |count: usize| {
        until(format!("{count} certificates"), async || {
            let mut found = serials(playground).await?;
            let all = found.len();
            found.dedup();
            ensure!(found.len() == count && all == count, "{all} replicas, certificates {found:?}");
            Ok(Some(()))
        })
        .await
    };
    own(3).await?;
    let before = text(&playground.cluster.get(&secret()).await?, "ca.crt")?;
    let creates = Creates::start(playground, "shop");
    let outcome = async {
        playground.cluster.delete(&secret()).await?;
        // As an upgrade brings it back.
        playground.release(&FAST).await?;
        until("a new authority in the Secret", async || {
            let now = text(&playground.cluster.get(&secret()).await?, "ca.crt")?;
            ensure!(!now.is_empty() && now != before, "it holds {} bytes", now.len());
            Ok(Some(()))
        })
        .await?;
        until_within(ROTATION, "the new authority to be the only one", async || {
            let now = text(&playground.cluster.get(&secret()).await?, "ca.crt")?;
            let bundle = bundles(playground, &["plimsoll"]).await?.swap_remove(0);
            let bundle = String::from_utf8(BASE64_STANDARD.decode(bundle)?)?;
            ensure!(bundle.trim() == now.trim(), "caBundle holds {} bytes", bundle.len());
            Ok(Some(()))
        })
        .await?;
        own(3).await?;
        playground.release(&[&FAST[..], &["replicas=4"]].concat()).await?;
        own(4).await.context("with one that started later")
    }
    .await;
    let made = creates.stop(20).await;
    outcome.with_context(|| playground.pods.last_words())?;
    println!("    {} pods meanwhile", made?);
    Ok(())
}

/// Without the right to write `caBundle` a rotation stands still, which is told with the right that is missing; calls go on,
/// and when the right is there again, so does the rotation.
pub(in crate::scenarios) async fn right_taken_away(world: &World) -> Result<()> {
    let playground = world.playground().await?;
    // There is no usage here, which is told as well.
    playground.release(&[&FAST[..], &["recommender.enabled=false"]].concat()).await?;
    playground.halved("shop").await?;
    playground.lowers("shop", "500m").await?;
    let verbs = async |verbs: &[&str]| {
        let patch = json!([{"op": "replace", "path": "/rules/0/verbs", "value": verbs}]).to_string();
        let args = ["patch", "clusterrole", "plimsoll-certs", "--type=json", "--patch", &patch];
        playground.kubectl(&args).await.map(drop)
    };
    verbs(&["get"]).await?;
    let creates = Creates::start(playground, "shop");
    let outcome = async {
        ask(playground, "without the right").await?;
        let leading = leader(playground).await?;
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": leading, "namespace": NAMESPACE}});
        let pod = playground.cluster.get(&pod).await?;
        let part = "certificate-authority";
        let look = async || playground.status(Some(playground.pods.reach(&pod, 8082)?)).await;
        until("the leader to say what it lacks", async || {
            let said = playground.pods.said(&leading, &["patch on mutatingwebhookconfigurations"])?;
            ensure!(!said.is_empty(), "{}", playground.pods.last_words());
            let labels = ["reason=\"certificate_authority\""];
            let degraded = metric(playground.pods.reach(&pod, 8081)?, "plimsoll_degraded", &labels).await?;
            ensure!(degraded > 0.0, "the metric says {degraded}");
            let status = look().await?;
            let (state, problems) = status.part(part)?;
            ensure!(
                state == "Degraded" && problems.contains("patch on mutatingwebhookconfigurations"),
                "status says {status}"
            );
            ensure!(status.state() == "Degraded", "status says all is {}", status.state());
            Ok(Some(()))
        })
        .await?;
        verbs(&["get", "patch"]).await?;
        rotated(playground, "without the right").await?;
        let labels = ["reason=\"certificate_authority\""];
        let degraded = metric(playground.pods.reach(&pod, 8081)?, "plimsoll_degraded", &labels).await?;
        ensure!(degraded < 0.5, "the metric says {degraded} afterwards");
        until("status to be content", async || {
            let status = look().await?;
            ensure!(status.part(part)?.0 == "Healthy" && status.state() == "Healthy", "status says {status}");
            Ok(Some(()))
        })
        .await
    }
    .await;
    let made = creates.stop(20).await;
    verbs(&["get", "patch"]).await?;
    outcome?;
    println!("    {} pods meanwhile", made?);
    Ok(())
}
