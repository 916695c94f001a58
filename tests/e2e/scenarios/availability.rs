//! What the cluster sees while servers come, go, and change certificates.

use std::cell::{Cell, RefCell};

use anyhow::{Context, Result, ensure};
use futures_util::future::{join, join_all};

use crate::harness::install::SERVER_NAME;
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
    for serial in [1001, 1002] {
        world.setup.tls.update(&world.authority.issue_serving(&[SERVER_NAME], serial)?)?;
        until(format!("the certificate with the serial number {serial}"), async || {
            let served = serving_serial(address, SERVER_NAME, &ca).await?;
            ensure!(served == serial, "{served} is served");
            Ok(Some(()))
        })
        .await?;
        let created =
            world.cluster.create(&gated_pod(&namespace, &format!("pod-{serial}"), &[app()])).await?;
        check_eq!(cpu(&created, "app")?, "500m", "cpu with certificate {serial}");
    }
    world.server.lock().await.as_mut().context("no server")?.check()
}

/// Two replicas are replaced one after the other while pods are created without a pause: none fails, none is missed.
pub(super) async fn rolling_restart(world: &World) -> Result<()> {
    const WORKERS: usize = 4;
    let namespace = world.halved("rolling").await?;
    let first = world.server.lock().await.take().context("no server")?;
    let second = world.start_server().await?;
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
            let third = world.start_server().await?;
            first.stop().await?;
            let fourth = world.start_server().await?;
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
    ensure!(made >= 10 * WORKERS, "only {made} pods were made meanwhile: this says nothing");
    Ok(())
}
