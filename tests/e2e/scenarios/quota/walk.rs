//! What the tree is for: four teams, one after the other, each with more than its share.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{condition, next_second_of_pods, run};
use crate::harness::quota::{Quota, TREES, tree_t, with_quota, workload};
use crate::harness::{World, check_eq, until};

/// Who comes first borrows what is idle, and gives it back, newest pods first, when its owner comes.
pub(in crate::scenarios) async fn four_deployments(world: &World) -> Result<()> {
    with_quota(world, "walk", 2, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        let tree = quota.plant(&tree_t(&namespaces), &namespaces).await?;
        let watch = quota.watch(&namespaces).await?;
        let [first, second, third, fourth] = namespaces.each_ref().map(String::as_str);
        let steps = [
            ("W1-W5", first, [20, 0, 0, 0]),
            ("W6-W10", second, [20, 20, 0, 0]),
            ("W11-W13", third, [15, 15, 10, 0]),
            ("W14-W16", fourth, [10, 10, 10, 10]),
        ];
        for (rule, namespace, used) in steps {
            let deployment = workload("Deployment", namespace, "web", 5, "5");
            world.cluster.create(&deployment).await?;
            quota.uses(&pairs(&namespaces, used)).await.context(rule)?;
            shown(quota, &tree, used.iter().sum()).await.context(rule)?;
            refused(world, namespace).await.context(rule)?;
            next_second_of_pods(world, namespace).await?;
        }
        for namespace in &namespaces {
            run(world, namespace, 2).await?;
        }
        let evicted = watch.evicted().await?;
        let from: Vec<&str> = evicted.iter().map(|pod| pod.namespace.as_str()).collect();
        check_eq!(from, [second, first, second, first], "the namespaces of the victims");
        for namespace in [first, second] {
            let oldest: Vec<_> = watch.pods(namespace).await?.into_iter().map(|pod| pod.created).collect();
            let newest = evicted.iter().filter(|pod| pod.namespace == *namespace).map(|pod| &pod.created);
            ensure!(
                newest.min() >= oldest.iter().max(),
                "{namespace}: an older pod went: {oldest:?}, {evicted:?}"
            );
        }
        check_eq!(watch.most_together().await?, 40_000, "thousandths of a core in use at most");
        check_eq!(watch.created().await?, 12, "pods ever made: no victim came back");
        // What is not to be had is not claimed.
        quota.claims(0).await
    })
    .await
}

fn pairs(namespaces: &[String; 4], used: [i64; 4]) -> Vec<(&str, i64)> {
    namespaces.iter().map(String::as_str).zip(used).collect()
}

/// Waits until the tree's status says what is used.
async fn shown(quota: &Quota<'_>, tree: &Value, cores: i64) -> Result<()> {
    until(format!("the status of the tree to say {cores}"), async || {
        let stored = quota.world.cluster.get(tree).await?;
        check_eq!(stored["apiVersion"], TREES, "the version");
        let used = &stored["status"]["root"]["used"]["cpu"];
        ensure!(*used == json!(cores.to_string()), "it says {used}");
        Ok(Some(()))
    })
    .await
}

/// Waits until the deployment says that it has not all its pods, and why.
async fn refused(world: &World, namespace: &str) -> Result<()> {
    let deployment = workload("Deployment", namespace, "web", 5, "5");
    until("the deployment to say why", async || {
        let stored = world.cluster.get(&deployment).await?;
        let (status, message) = condition(&stored, "ReplicaFailure").context("no condition yet")?;
        ensure!(status == "True" && message.contains("exceeded quota"), "{status}: {message}");
        Ok(Some(()))
    })
    .await
}
