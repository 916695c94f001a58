//! The ledger is lost, or edited by hand.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::harness::cluster::Refused;
use crate::harness::quota::{Quota, cores, tree_t, with_quota};
use crate::harness::{World, check_eq, until};

async fn uid(quota: &Quota<'_>) -> Result<Value> {
    let stored = quota.world.cluster.get_opt(&quota.ledger_object()).await?;
    Ok(stored.map_or(Value::Null, |ledger| ledger["metadata"]["uid"].clone()))
}

/// Waits until there is another ledger than before.
async fn made_anew(quota: &Quota<'_>, before: &Value) -> Result<()> {
    until("a new ledger", async || {
        let now = uid(quota).await?;
        Ok((now.is_string() && now != *before).then_some(()))
    })
    .await
}

/// `kubectl delete` by mistake: what was promised is carried over.
pub(in crate::scenarios) async fn deleted(world: &World) -> Result<()> {
    // The promise must outlive all that happens meanwhile.
    with_quota(world, "deleted", 2, &json!({"reservationAge": "25s"}), async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        quota.plant(&tree_t(&namespaces), &namespaces).await?;
        let [first, _, third, _] = namespaces.each_ref().map(String::as_str);
        quota.admitted("15 of 20", &cores(first, "one", "15")).await?;
        quota.uses(&[(first, 15)]).await?;
        // A promise that nobody takes: the pod's name is taken.
        check_eq!(quota.ask(&cores(first, "one", "5")).await?.is_err(), true, "the same name");
        check_eq!(quota.ledger().await?.reservations.len(), 1, "reservations");
        let before = uid(quota).await?;
        world
            .cluster
            .kubectl
            .run(["delete", "ql", "plimsoll-deleted", "-n", "plimsoll-system", "--wait=false"], None)?;
        made_anew(quota, &before).await?;
        let ledger = quota.ledger().await?;
        ensure!(ledger.initialised, "nobody needs to wait");
        check_eq!(ledger.reservations.len(), 1, "reservations that were carried over");
        quota.refused("the promise holds", &cores(first, "two", "1"), &["exceeded quota"]).await?;
        quota.admitted("others go on", &cores(third, "one", "5")).await?;
        quota.nothing_reserved().await?;
        quota.admitted("and then it is free", &cores(first, "two", "5")).await?;
        quota.uses(&[(first, 20), (third, 5)]).await
    })
    .await
}

/// N16: it is gone at once, with all promises: nothing is admitted until everybody who was promised something has
/// either come or never will.
pub(in crate::scenarios) async fn vanished(world: &World) -> Result<()> {
    with_quota(
        world,
        "vanished",
        2,
        &json!({"webhookTimeout": "2s", "admissionBudget": "1s"}),
        async |quota| {
            let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
            quota.plant(&tree_t(&namespaces), &namespaces).await?;
            let [first, second, ..] = namespaces.each_ref().map(String::as_str);
            quota.admitted("15 of 20", &cores(first, "one", "15")).await?;
            quota.uses(&[(first, 15)]).await?;
            let object = quota.ledger_object();
            let before = uid(quota).await?;
            let gone = tokio::time::Instant::now();
            // As fast as can be, or it is carried over: the leader sees the deletion too.
            world.cluster.merge(&object, &json!({"metadata": {"finalizers": null}})).await?;
            world.cluster.delete(&object).await?;
            made_anew(quota, &before).await?;
            let mut refusals = 0;
            let pod = cores(second, "one", "20");
            until("pods to be admitted again", async || match world.cluster.attempt(&pod).await? {
                Ok(_) => Ok(Some(())),
                Err(Refused { code: 429, message, .. }) if !message.contains("exceeded quota") => {
                    refusals += 1;
                    Ok(None)
                }
                Err(refused) => Err(refused.into()),
            })
            .await?;
            ensure!(refusals > 0, "it was never refused");
            let waited = gone.elapsed();
            ensure!(waited >= std::time::Duration::from_secs(8), "only {waited:?} have passed");
            quota.uses(&[(first, 15), (second, 20)]).await?;
            quota.refused("it counts right", &cores(first, "two", "6"), &["exceeded quota"]).await?;
            quota.admitted("the rest", &cores(first, "two", "5")).await.map(drop)
        },
    )
    .await
}

/// Somebody writes nonsense in it: nothing is admitted by it, and when it is deleted it is counted anew.
pub(in crate::scenarios) async fn damaged(world: &World) -> Result<()> {
    with_quota(
        world,
        "damaged",
        1,
        &json!({"webhookTimeout": "8s", "admissionBudget": "1s"}),
        async |quota| {
            let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
            quota.plant(&tree_t(&namespaces), &namespaces).await?;
            let [first, ..] = namespaces.each_ref().map(String::as_str);
            quota.admitted("15 of 20", &cores(first, "one", "15")).await?;
            quota.uses(&[(first, 15)]).await?;
            world
                .cluster
                .merge(&quota.ledger_object(), &json!({"spec": {"data": "v1:bm9uc2Vuc2U="}}))
                .await?;
            for number in 0..3 {
                let refused =
                    world.cluster.attempt(&cores(first, &format!("meanwhile-{number}"), "1")).await?;
                let refused = refused.err().context("nobody knows what is in use")?;
                ensure!(refused.code == 429 && !refused.message.contains("exceeded quota"), "{refused}");
            }
            let delete = ["delete", "ql", "plimsoll-damaged", "-n", "plimsoll-system", "--wait=false"];
            world.cluster.kubectl.run(delete, None)?;
            quota.uses(&[(first, 15)]).await?;
            quota.refused("it counts right", &cores(first, "two", "6"), &["exceeded quota"]).await?;
            quota.admitted("the rest", &cores(first, "two", "5")).await.map(drop)
        },
    )
    .await
}
