//! Which pods are admitted, one at a time.

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use serde_json::{Value, json};

use crate::harness::objects::{container, gated_pod, pod};
use crate::harness::quota::{Quota, asking, asks, cores, tree_t, with_quota};
use crate::harness::{World, check_eq};

/// What is there before, by namespace: requests of one pod each.
type Before = [(usize, Value)];

struct Row {
    rule: &'static str,
    before: Vec<(usize, Value)>,
    namespace: usize,
    requests: Value,
    /// Nothing: it is admitted.
    refused: &'static [&'static str],
}

fn rows() -> Vec<Row> {
    let row = |rule, before: &Before, namespace, requests: Value, refused| Row {
        rule,
        before: before.to_vec(),
        namespace,
        requests,
        refused,
    };
    let (cpu, memory) = (|cpu: &str| json!({"cpu": cpu}), |memory: &str| json!({"memory": memory}));
    vec![
        row("P1 all of the leaf", &[], 0, cpu("20"), &[]),
        row(
            "P2 a thousandth more than the leaf ever has",
            &[],
            0,
            cpu("20001m"),
            &["exceeded quota", "exceeds max of the leaf", "root.a.a1: cpu requested 20001m, used 0, max 20"],
        ),
        row(
            "P3 one resource of two",
            &[],
            0,
            json!({"cpu": "5", "memory": "21Gi"}),
            &["exceeded quota", "root.a.a1: memory requested 21Gi", "exceeds max of the leaf"],
        ),
        row("P4 a leaf with more memory", &[], 1, memory("40Gi"), &[]),
        row(
            "P8 room in the leaf and none above",
            &[(1, memory("30Gi"))],
            0,
            memory("11Gi"),
            &["exceeded quota", "root.a: memory", "root: memory", "waits until"],
        ),
        row(
            "P9 what is not asked for never blocks",
            &[(1, memory("30Gi")), (0, memory("10Gi"))],
            2,
            cpu("20"),
            &[],
        ),
        row("P10 no requests in a full leaf", &[(0, cpu("20"))], 0, json!({}), &[]),
        row("P24 the last byte", &[], 0, memory("21474836480"), &[]),
        row(
            "P24 a byte too much",
            &[],
            0,
            memory("21474836481"),
            &["exceeded quota", "exceeds max of the leaf"],
        ),
        row(
            "any resource counts",
            &[(0, json!({"example.com/gpu": "2"}))],
            0,
            json!({"example.com/gpu": "1"}),
            &["exceeded quota", "root.a.a1: example.com/gpu requested 1, used 2, max 2"],
        ),
    ]
}

/// The vectors of admission; after each pod the ledger says exactly what is there.
pub(in crate::scenarios) async fn vectors(world: &World) -> Result<()> {
    with_quota(world, "verdicts", 1, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        quota.plant(&tree_t(&namespaces), &namespaces).await?;
        for row in rows() {
            one(quota, &namespaces, row).await?;
        }
        charges(quota, &namespaces[0]).await?;
        let mut mirror = asks(pod(&namespaces[0], "mirror", &[]), &json!({"cpu": "21"}));
        mirror["spec"]["nodeName"] = "e2e-node-0".into();
        mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "e2e"});
        quota.refused("anybody can say that it is a mirror pod", &mirror, &["exceeded quota"]).await?;
        let free = world.namespace("verdicts-free").await?;
        quota.admitted("P14 a namespace in no leaf", &cores(&free, "one", "100")).await?;
        let system = cores("kube-system", "plimsoll-e2e", "100");
        quota.admitted("kube-system", &system).await?;
        world.cluster.delete(&system).await?;
        quota.unused().await
    })
    .await
}

async fn one(quota: &Quota<'_>, namespaces: &[String; 4], row: Row) -> Result<()> {
    let Row { rule, before, namespace, requests, refused } = row;
    let mut made = Vec::new();
    for (index, (namespace, requests)) in before.iter().enumerate() {
        let pod = asking(&namespaces[*namespace], &format!("before-{index}"), requests);
        made.push(quota.admitted(rule, &pod).await?);
    }
    let pod = asking(&namespaces[namespace], "one", &requests);
    if refused.is_empty() {
        made.push(quota.admitted(rule, &pod).await?);
    } else {
        quota.refused(rule, &pod, refused).await?;
    }
    check_eq!(held(quota).await?, made.len(), "{rule}: pods counted or promised");
    for pod in &made {
        quota.world.cluster.delete(pod).await?;
    }
    quota.unused().await.context(rule)
}

/// Pods in the ledger, counted or promised.
async fn held(quota: &Quota<'_>) -> Result<usize> {
    let sums = quota.ledger().await?.by_namespace();
    let nanos: i128 = sums.values().map(|amounts| amounts.of("pods")).sum();
    Ok(usize::try_from(nanos / 1_000_000_000)?)
}

/// What a pod counts, told by how much is left of a leaf of 20.
async fn charges(quota: &Quota<'_>, namespace: &str) -> Result<()> {
    let part = |name: &str, cpu: &str| container(name, &json!({"requests": {"cpu": cpu}}));
    let sidecar = |name: &str, cpu: &str| {
        let mut container = part(name, cpu);
        container["restartPolicy"] = "Always".into();
        container
    };
    let with_init = |init: &[Value]| {
        let mut pod = gated_pod(namespace, "one", &[part("one", "2"), part("two", "2")]);
        pod["spec"]["initContainers"] = json!(init);
        pod
    };
    let pod_level = {
        let mut pod = gated_pod(namespace, "one", &[part("one", "300m")]);
        pod["spec"]["resources"] = json!({"requests": {"cpu": "500m"}});
        pod
    };
    let rows = [
        (
            "P18 an init container beside a sidecar",
            "15",
            with_init(&[sidecar("s", "500m"), part("i", "6")]),
            None,
        ),
        (
            "P19 the containers beside a sidecar",
            "15",
            with_init(&[sidecar("s", "500m"), part("i", "4")]),
            Some(4500),
        ),
        (
            "an init container before the sidecar",
            "15",
            with_init(&[part("i", "5"), sidecar("s", "500m")]),
            Some(5000),
        ),
        ("a request of the pod's own", "19500m", pod_level.clone(), Some(500)),
        ("more than that", "19501m", pod_level, None),
    ];
    for (rule, before, pod, charge) in rows {
        let before = quota.admitted(rule, &cores(namespace, "before", before)).await?;
        match charge {
            Some(charge) => {
                let pod = quota.admitted(rule, &pod).await?;
                let before = crate::harness::pod_watch::milli(
                    before["spec"]["containers"][0]["resources"]["requests"]["cpu"]
                        .as_str()
                        .context("cpu")?,
                )?;
                quota.uses_of("cpu", &[(namespace, before + charge)]).await.context(rule)?;
                quota.world.cluster.delete(&pod).await?;
            }
            None => quota.refused(rule, &pod, &["exceeded quota", "root.a.a1: cpu"]).await.map(drop)?,
        }
        quota.world.cluster.delete(&before).await?;
        quota.unused().await.context(rule)?;
    }
    overhead(quota, namespace).await
}

/// P20: what the pod's sandbox takes, which its `RuntimeClass` says.
async fn overhead(quota: &Quota<'_>, namespace: &str) -> Result<()> {
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "e2e-verdicts"},
        "handler": "sandboxed", "overhead": {"podFixed": {"cpu": "250m"}},
    });
    quota.world.create_for_now(&class).await?;
    let before = quota.admitted("P20", &cores(namespace, "before", "19")).await?;
    let mut pod = cores(namespace, "one", "751m");
    pod["spec"]["runtimeClassName"] = "e2e-verdicts".into();
    quota.refused("P20 a thousandth more", &pod, &["exceeded quota"]).await?;
    let mut pod = cores(namespace, "one", "750m");
    pod["spec"]["runtimeClassName"] = "e2e-verdicts".into();
    let pod = quota.admitted("P20 exactly all", &pod).await?;
    quota.uses(&[(namespace, 20)]).await?;
    for pod in [&before, &pod] {
        quota.world.cluster.delete(pod).await?;
    }
    quota.unused().await
}

/// P22: namespaces of one leaf share its maximum.
pub(in crate::scenarios) async fn two_namespaces_in_a_leaf(world: &World) -> Result<()> {
    with_quota(world, "shared", 1, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["a", "b"]).await?;
        let all = json!({"cpu": "10"});
        let root = json!({
            "name": "root", "max": all, "min": all,
            "children": [{"name": "leaf", "namespaces": namespaces, "max": all, "min": all}],
        });
        quota.plant(&root, &namespaces).await?;
        let [first, second] = &namespaces;
        quota.admitted("6 of 10", &cores(first, "one", "6")).await?;
        let words = ["exceeded quota", "root.leaf: cpu requested 5, used 6, max 10"];
        quota.refused("P22", &cores(second, "one", "5"), &words).await?;
        quota.admitted("the rest", &cores(second, "one", "4")).await?;
        quota.uses(&[(first, 6), (second, 4)]).await
    })
    .await
}

/// N3: who only asks gets the answer of now, and changes nothing.
pub(in crate::scenarios) async fn dry_runs(world: &World) -> Result<()> {
    let patient = json!({"webhookTimeout": "20s", "admissionBudget": "15s"});
    with_quota(world, "dry", 1, &patient, async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        quota.plant(&tree_t(&namespaces), &namespaces).await?;
        let [first, _, third, _] = &namespaces;
        quota.admitted("15 of 20", &cores(first, "one", "15")).await?;
        quota.uses(&[(first, 15)]).await?;
        let version = async || {
            let ledger = world.cluster.get(&quota.ledger_object()).await?;
            anyhow::Ok(ledger["metadata"]["resourceVersion"].clone())
        };
        let before = version().await?;
        let ask = async |number: u32| {
            let (namespace, cpu, fits) = match number % 4 {
                0 => (first, "5", true),
                1 => (first, "6", false),
                2 => (third, "20", true),
                _ => (third, "21", false),
            };
            let answer = world.cluster.create_dry(&cores(namespace, &format!("dry-{number}"), cpu)).await;
            check_eq!(answer.is_ok(), fits, "dry run {number}: {:?}", answer.err());
            Ok(())
        };
        try_join_all((0..100).map(ask)).await?;
        check_eq!(version().await?, before, "the ledger's version after 100 dry runs");
        quota.uses(&[(first, 15)]).await?;
        quota.admitted("for real", &cores(first, "two", "5")).await?;
        ensure!(
            world.cluster.create_dry(&cores(first, "dry", "1m")).await.is_err(),
            "a dry run in a full leaf"
        );
        Ok(())
    })
    .await
}
