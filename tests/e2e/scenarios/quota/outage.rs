//! No replica is there.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::run;
use crate::harness::objects::{is_running, pod};
use crate::harness::quota::{asks, cores, tree_t, with_quota, workload};
use crate::harness::{World, check_eq, until};

/// Pods of the tree are refused, all others start; when a replica is back everything goes on.
pub(in crate::scenarios) async fn nobody_there(world: &World) -> Result<()> {
    with_quota(world, "outage", 2, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        let tree = quota.plant(&tree_t(&namespaces), &namespaces).await?;
        let [first, second, ..] = namespaces.each_ref().map(String::as_str);
        let before = quota.admitted("15 of 20", &cores(first, "one", "15")).await?;
        quota.uses(&[(first, 15)]).await?;
        for server in quota.replicas.take() {
            server.kill();
        }
        let refused = world.cluster.attempt(&cores(first, "two", "1")).await?;
        let refused = refused.err().context("a pod of the tree is admitted by nobody")?;
        check_eq!(refused.code, 500, "the API server's answer: {}", refused.message);
        ensure!(refused.message.contains("failed calling webhook"), "{}", refused.message);
        let change = json!({"metadata": {"labels": {"team": "a"}}});
        world.cluster.merge(&before, &change).await.context("a label of a pod that is there")?;
        let root = json!({"spec": {"root": {"name": "other"}}});
        ensure!(
            world.cluster.merge(&tree, &root).await.is_err(),
            "a tree is changed and nobody looked at it"
        );
        let free = world.namespace("outage-free").await?;
        for namespace in [&free, "kube-system"] {
            let object = asks(pod(namespace, "e2e-outage", &[]), &json!({"cpu": "1"}));
            world.create_for_now(&object).await.with_context(|| format!("a pod in {namespace}"))?;
            until("it to run", async || Ok(is_running(&world.cluster.get(&object).await?).then_some(())))
                .await?;
        }
        // Their controllers try again by themselves.
        world.cluster.create(&workload("Deployment", second, "web", 2, "5")).await?;
        world.cluster.delete(&before).await?;
        quota.start_replica().await?;
        run(world, second, 2).await?;
        // What went while nobody looked counts no more.
        quota.uses(&[(second, 10)]).await?;
        quota.admitted("room that was freed meanwhile", &cores(first, "two", "20")).await.map(drop)
    })
    .await
}
