//! What people see: the status of the tree, events, the webhooks.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{event, run};
use crate::harness::quota::{Quota, cores, tree_t, with_quota, workload};
use crate::harness::{World, check_eq, until};

/// The tree's status and the table of `kubectl get` say what is used.
pub(in crate::scenarios) async fn used(world: &World) -> Result<()> {
    with_quota(world, "used", 1, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        let tree = quota.plant(&tree_t(&namespaces), &namespaces).await?;
        let [first, _, third, _] = namespaces.each_ref().map(String::as_str);
        quota.admitted("13 of 20", &cores(first, "one", "13")).await?;
        quota.admitted("1.5 of 20", &cores(third, "one", "1500m")).await?;
        let generation = world.cluster.get(&tree).await?["metadata"]["generation"].clone();
        until("the status", async || {
            let stored = world.cluster.get(&tree).await?;
            let root = &stored["status"]["root"];
            let [a, b] = [&root["children"][0], &root["children"][1]];
            let rows = [
                (root, "root", "14500m"),
                (a, "a", "13"),
                (&a["children"][0], "a1", "13"),
                (b, "b", "1500m"),
                (&b["children"][0], "b1", "1500m"),
            ];
            for (node, name, cpu) in rows {
                ensure!(node["name"] == name && node["used"]["cpu"] == cpu, "{name}: {node}");
                ensure!(node["request"]["cpu"] == cpu, "{name}: request: {node}");
            }
            ensure!(stored["metadata"]["generation"] == generation, "the status changed the generation");
            Ok(Some(()))
        })
        .await?;
        let table = world.cluster.kubectl.run(["get", "elasticquotatrees", "-n", "kube-system"], None)?;
        let (head, row) = table.split_once('\n').context("two lines")?;
        ensure!(head.contains("BORROWED-CPU") && head.contains("READY") && row.contains("14500m"), "{table}");
        let table =
            world.cluster.kubectl.run(["get", "ql", "-n", "plimsoll-system", "plimsoll-used"], None)?;
        ensure!(table.contains("true") && table.contains("used"), "{table}");
        Ok(())
    })
    .await
}

/// Who was evicted for whom is said at both.
pub(in crate::scenarios) async fn events(world: &World) -> Result<()> {
    with_quota(world, "events", 1, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        quota.plant(&tree_t(&namespaces), &namespaces).await?;
        let [first, second, third, _] = namespaces.each_ref().map(String::as_str);
        let watch = quota.watch(&namespaces).await?;
        for namespace in [first, second] {
            world.cluster.create(&workload("ReplicaSet", namespace, "borrower", 4, "5")).await?;
            quota_of(quota, namespace).await?;
        }
        world.cluster.create(&workload("ReplicaSet", third, "owner", 1, "5")).await?;
        run(world, third, 1).await?;
        let victim = watch.evicted().await?.pop().context("nobody was evicted")?;
        event(world, &victim.namespace, "Pod", &victim.name, &[third]).await?;
        event(world, third, "ReplicaSet", "owner", &[&victim.name]).await
    })
    .await
}

/// Waits until the namespace has its 20 cores.
async fn quota_of(quota: &Quota<'_>, namespace: &str) -> Result<()> {
    until("20 cores in use", async || {
        let used = quota.ledger().await?.committed.get(namespace).map_or(0, |amounts| amounts.of("cpu"));
        Ok((used == 20_000_000_000).then_some(()))
    })
    .await
}

/// The webhooks ask about exactly the bound namespaces, and say so again when somebody edited them.
pub(in crate::scenarios) async fn selectors(world: &World) -> Result<()> {
    with_quota(world, "selectors", 2, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        check_eq!(quota.bound().await?.len(), 0, "without a tree");
        let mut root = tree_t(&namespaces);
        root["children"][1]["attributes"] = json!({"resourceflavors": "spot"});
        let tree = quota.tree(&root);
        world.cluster.create(&tree).await?;
        let kept = async |rule: &str, bound: &[String], flavored: &[String]| {
            until(rule, async || {
                check_eq!(quota.bound().await?, bound, "pods");
                check_eq!(quota.flavored().await?, flavored, "flavors");
                Ok(Some(()))
            })
            .await
        };
        kept("all of the tree", &namespaces, &namespaces[2..]).await?;
        let mut configuration = world.cluster.get(&Quota::webhook_configuration()).await?;
        for webhook in configuration["webhooks"].as_array_mut().context("no webhooks")? {
            if webhook["name"] == "pods.quota.plimsoll.dev" {
                webhook["namespaceSelector"]["matchExpressions"][0]["values"] = json!([namespaces[0]]);
            }
        }
        let change = json!({"webhooks": configuration["webhooks"]});
        world.cluster.merge(&Quota::webhook_configuration(), &change).await?;
        kept("what was edited", &namespaces, &namespaces[2..]).await?;
        root["children"][1]["children"].as_array_mut().context("two leaves")?.pop();
        world.cluster.merge(&tree, &json!({"spec": {"root": root}})).await?;
        kept("three of four", &namespaces[..3], &namespaces[2..3]).await
    })
    .await
}
