//! What the cluster sees while servers come, go, and change certificates.

use std::cell::{Cell, RefCell};
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::{join, join_all};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::json;

use crate::harness::certificates::Identity;
use crate::harness::install::{BASE, SERVER_NAME};
use crate::harness::net::serving_serial;
use crate::harness::objects::{ORIGINAL, annotation, app, cpu, gated_pod, is_running, pod};
use crate::harness::{World, check_eq, until};

/// With no replica left pods start as if we were not there.
pub(super) async fn server_gone(world: &World) -> Result<()> {
    let namespace = world.halved("gone").await?;
    world.server.lock().await.take().context("no server")?.kill();
    let object = pod(&namespace, "one", &[app()]);
    let created = world.cluster.create(&object).await?;
    check_eq!(cpu(&created, "app")?, "1", "cpu");
    check_eq!(annotation(&created, ORIGINAL), None, "originals");
    until("the pod to run", async || Ok(is_running(&world.cluster.get(&object).await?).then_some(())))
        .await?;
    world.before().await?;
    world.lowers(&namespace, "500m").await
}

/// A Secret's volume is swapped twice; each time the new certificate is served by the same process.
pub(super) async fn certificate_replaced_twice(world: &World) -> Result<()> {
    let namespace = world.halved("certificate").await?;
    let address = world.server.lock().await.as_ref().context("no server")?.admission;
    let ca = world.authority.der();
    for serial in [1001_u64, 1002] {
        world.setup.tls.update(&world.authority.issue_serving(&[SERVER_NAME], serial)?)?;
        until(format!("the certificate with the serial number {serial}"), async || {
            let served = serving_serial(address, SERVER_NAME, &ca).await?;
            ensure!(served == serial.to_string(), "{served} is served");
            Ok(Some(()))
        })
        .await?;
        let created =
            world.cluster.create(&gated_pod(&namespace, &format!("pod-{serial}"), &[app()])).await?;
        check_eq!(cpu(&created, "app")?, "500m", "cpu with certificate {serial}");
    }
    world.server.lock().await.as_mut().context("no server")?.check()
}

/// The way without cert-manager, as `webhook-config/base/mutating-webhook.yaml` describes it: a certificate of
/// `plimsoll certs`, and its CA patched into the webhook configuration.
pub(super) async fn certificate_of_our_own_making(world: &World) -> Result<()> {
    let namespace = world.halved("own-making").await?;
    let outcome = use_our_own(world, &namespace).await;
    // The other scenarios have the harness's certificate again, whatever came of this.
    world.setup.tls.update(&world.authority.issue_serving(&[SERVER_NAME], 1)?)?;
    world.webhook_from(BASE).await?;
    outcome?;
    served(world, &world.authority.der()).await?;
    world.lowers(&namespace, "500m").await
}

async fn use_our_own(world: &World, namespace: &str) -> Result<()> {
    let dir = world.setup.dir.join("made");
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.arg("certs").arg("--dir").arg(&dir).args(["--name", SERVER_NAME]);
    let made = command.output().context("plimsoll certs")?;
    ensure!(made.status.success(), "plimsoll certs: {}", String::from_utf8_lossy(&made.stderr));
    let ca = fs::read(dir.join("ca.crt"))?;
    world.setup.tls.update(&Identity::read(&dir.join("tls.crt"), &dir.join("tls.key"))?)?;
    served(world, &CertificateDer::from_pem_slice(&ca)?).await?;
    let patch = json!([
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": BASE64_STANDARD.encode(ca)},
    ]);
    let args =
        ["patch", "mutatingwebhookconfiguration", "plimsoll", "--type=json", "--patch", &patch.to_string()];
    world.cluster.kubectl.run(args, None)?;
    world.lowers(namespace, "500m").await
}

/// Waits until the server shows a certificate of this authority.
async fn served(world: &World, ca: &CertificateDer<'static>) -> Result<()> {
    let address = world.server.lock().await.as_ref().context("no server")?.admission;
    until("a certificate of the authority in force", async || {
        serving_serial(address, SERVER_NAME, ca).await.map(Some)
    })
    .await
    .map(drop)
}

/// Two replicas are replaced one after the other while pods are created without a pause: none fails, none is missed.
pub(super) async fn rolling_restart(world: &World) -> Result<()> {
    const WORKERS: usize = 4;
    let namespace = world.halved("rolling").await?;
    // Long enough for the Service to notice, on a machine that others keep busy.
    let patient = json!({"server": {"drainDelay": "8s"}});
    let start = async || world.start(Some(&patient)).await;
    let first = start().await?;
    let second = start().await?;
    world.server.lock().await.take().context("no server")?.stop().await?;
    let done = Cell::new(false);
    let missed = RefCell::new(Vec::new());
    let worker = async |worker: usize| {
        let mut made = 0;
        while !done.get() {
            let name = format!("pod-{worker}-{made}");
            match world.cluster.create(&gated_pod(&namespace, &name, &[app()])).await {
                Ok(created) if cpu(&created, "app").is_ok_and(|cpu| cpu == "500m") => {}
                Ok(created) => missed.borrow_mut().push(format!("{name}: {:?} of 1", cpu(&created, "app"))),
                Err(error) => missed.borrow_mut().push(format!("{name}: {error:#}")),
            }
            made += 1;
        }
        made
    };
    let rollout = async {
        let outcome = async {
            let third = start().await?;
            first.stop().await?;
            let fourth = start().await?;
            second.stop().await?;
            anyhow::Ok((third, fourth))
        }
        .await;
        done.set(true);
        outcome
    };
    let (made, rolled) = join(join_all((0..WORKERS).map(worker)), rollout).await;
    let (third, fourth) = rolled?;
    *world.server.lock().await = Some(third);
    drop(fourth);
    let made: usize = made.into_iter().sum();
    let missed = missed.into_inner();
    ensure!(missed.is_empty(), "{} of {made} pods: {missed:?}", missed.len());
    ensure!(made >= 5 * WORKERS, "only {made} pods were made meanwhile: this says nothing");
    Ok(())
}
