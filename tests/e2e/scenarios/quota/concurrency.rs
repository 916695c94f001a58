//! Many pods at once, several replicas, and replicas that die: no maximum is ever passed.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::{join, join_all, try_join_all};
use serde_json::{Value, json};

use crate::harness::objects::named;
use crate::harness::quota::{Quota, cores, with_quota};
use crate::harness::{World, check_eq, until};

/// One leaf, `root.leaf`, of so many cores, with one namespace.
async fn one_leaf(quota: &Quota<'_>, cpu: u32) -> Result<String> {
    let namespaces = quota.namespaces(["one"]).await?;
    let all = json!({"cpu": cpu});
    let root = json!({
        "name": "root", "max": all, "min": all,
        "children": [{"name": "leaf", "namespaces": namespaces, "max": all, "min": all}],
    });
    quota.plant(&root, &namespaces).await?;
    let [namespace] = namespaces;
    Ok(namespace)
}

/// N1: two pods at once for one slot, by way of two replicas.
pub(in crate::scenarios) async fn last_slot(world: &World) -> Result<()> {
    with_quota(world, "slot", 2, &json!({}), async |quota| {
        let namespace = one_leaf(quota, 20).await?;
        quota.admitted("19 of 20", &cores(&namespace, "before", "19")).await?;
        quota.uses(&[(&namespace, 19)]).await?;
        let decisions = async || quota.metrics("plimsoll_quota_decisions_total", &[]).await;
        let before = decisions().await?;
        for round in 0..10 {
            let pods = ["a", "b"].map(|name| cores(&namespace, &format!("{name}-{round}"), "1"));
            let [first, second] = pods.each_ref();
            // The two then come by connections of their own, which go to the replicas in turn.
            world.service.cut_connections();
            let (first, second) = join(quota.ask(first), quota.ask(second)).await;
            let admitted: Vec<Value> = [first?, second?].into_iter().filter_map(Result::ok).collect();
            check_eq!(admitted.len(), 1, "round {round}: admitted of two");
            quota.uses(&[(&namespace, 20)]).await?;
            world.cluster.delete(&admitted[0]).await?;
            quota.uses(&[(&namespace, 19)]).await?;
        }
        for (before, after) in before.into_iter().zip(decisions().await?) {
            ensure!(after > before, "a replica decided nothing: this says little");
        }
        Ok(())
    })
    .await
}

/// N2: 160 pods at once for 20 slots. Each is decided; the API server never says that something failed.
pub(in crate::scenarios) async fn burst(world: &World) -> Result<()> {
    // A denial that says "try again" may leave a reservation behind, and then there are fewer than 20 for a while.
    let patient = json!({"webhookTimeout": "20s", "admissionBudget": "15s"});
    with_quota(world, "burst", 2, &patient, async |quota| {
        let namespace = one_leaf(quota, 20).await?;
        let watch = quota.watch(std::slice::from_ref(&namespace)).await?;
        let pods: Vec<_> = (0..160).map(|number| cores(&namespace, &format!("pod-{number}"), "1")).collect();
        let answers = try_join_all(pods.iter().map(|pod| quota.ask(pod))).await?;
        let refused: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
        for refused in &refused {
            ensure!(refused.code == 403 && refused.message.contains("exceeded quota"), "{refused}");
        }
        check_eq!(answers.len() - refused.len(), 20, "admitted of 160");
        quota.uses(&[(&namespace, 20)]).await?;
        check_eq!(watch.most_together().await?, 20_000, "thousandths of a core in use at most");
        check_eq!(watch.created().await?, 20, "pods");
        Ok(())
    })
    .await
}

/// N5: a pod that is admitted and then cannot be stored gives its room back.
pub(in crate::scenarios) async fn twice_the_same_name(world: &World) -> Result<()> {
    with_quota(world, "twice", 1, &json!({"webhookTimeout": "2s", "admissionBudget": "1s"}), async |quota| {
        let namespace = one_leaf(quota, 20).await?;
        let pod = cores(&namespace, "p", "5");
        quota.admitted("the first", &pod).await?;
        quota.uses(&[(&namespace, 5)]).await?;
        let again = quota.ask(&pod).await?;
        check_eq!(again.err().context("the second is admitted")?.code, 409, "the second");
        let ledger = quota.ledger().await?;
        let held: Vec<_> = ledger.reservations.values().map(|held| held.name.as_ref()).collect();
        check_eq!(held, ["p"], "reservations");
        quota.nothing_reserved().await?;
        quota.uses(&[(&namespace, 5)]).await
    })
    .await
}

/// Replicas die in the middle of a burst, the one that leads last: no maximum is passed, what they promised and nobody
/// took is free again, and the others go on.
pub(in crate::scenarios) async fn replicas_die(world: &World) -> Result<()> {
    const WORKERS: usize = 8;
    with_quota(world, "die", 3, &json!({}), async |quota| {
        let namespace = one_leaf(quota, 20).await?;
        let watch = quota.watch(std::slice::from_ref(&namespace)).await?;
        let done = Cell::new(false);
        let made = Cell::new(0_u32);
        // Pods come and go all the time, more than fit.
        let worker = async |worker: usize| {
            let mut number = 0;
            while !done.get() {
                let pod = cores(&namespace, &format!("pod-{worker}-{number}"), "3");
                number += 1;
                // While a replica dies the API server refuses: that is not what is looked at here.
                if let Ok(Ok(pod)) = world.cluster.attempt(&pod).await {
                    made.set(made.get() + 1);
                    world.cluster.delete(&pod).await?;
                }
            }
            anyhow::Ok(())
        };
        let go_on = async |what: &str| {
            let before = made.get();
            until(format!("pods to be made {what}"), async || Ok((made.get() > before + 10).then_some(())))
                .await
        };
        let deaths = async {
            let outcome = async {
                go_on("by three replicas").await?;
                quota.take_replica(false).await?.kill();
                go_on("by two replicas").await?;
                quota.take_replica(true).await?.kill();
                quota.leader().await?;
                go_on("by the last replica").await
            }
            .await;
            done.set(true);
            outcome
        };
        let (workers, deaths) = join(join_all((0..WORKERS).map(worker)), deaths).await;
        deaths?;
        workers.into_iter().collect::<Result<()>>()?;
        ensure!(
            watch.most_together().await? <= 20_000,
            "{} thousandths of 20 cores were in use",
            watch.most_together().await?
        );
        for item in world.cluster.list("v1", "Pod", Some(&namespace), "").await? {
            world.cluster.delete(&named("v1", "Pod", &item)).await?;
        }
        quota.nothing_reserved().await?;
        quota.unused().await?;
        quota.admitted("all of it", &cores(&namespace, "all", "20")).await.map(drop)
    })
    .await
}

/// A refusal is no reason to keep others waiting: pods elsewhere start at once while twenty sets are refused.
pub(in crate::scenarios) async fn others_are_not_slowed(world: &World) -> Result<()> {
    with_quota(world, "elsewhere", 2, &json!({}), async |quota| {
        let namespace = one_leaf(quota, 20).await?;
        for number in 0..20 {
            let name = format!("refused-{number}");
            world
                .cluster
                .create(&crate::harness::quota::workload("ReplicaSet", &namespace, &name, 5, "21"))
                .await?;
        }
        let refused = async || quota.metric("plimsoll_quota_decisions_total", &["outcome=\"refused\""]).await;
        until("every set to be refused", async || Ok((refused().await? >= 20.0).then_some(()))).await?;
        let free = world.namespace("elsewhere-free").await?;
        for (rule, namespace) in [("a namespace in no leaf", &free), ("the same namespace", &namespace)] {
            let mut fastest = Duration::MAX;
            for number in 0..10 {
                let start = tokio::time::Instant::now();
                world.cluster.create_dry(&cores(namespace, &format!("quick-{number}"), "1")).await?;
                fastest = fastest.min(start.elapsed());
            }
            // The fastest of ten: what else this machine has to do is not looked at.
            ensure!(fastest < Duration::from_secs(1), "{rule}: {fastest:?}");
            world
                .cluster
                .create(&crate::harness::quota::workload("Deployment", namespace, "quick", 2, "1"))
                .await?;
            super::run(world, namespace, 2).await.context(rule)?;
        }
        Ok(())
    })
    .await
}
