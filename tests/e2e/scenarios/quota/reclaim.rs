//! Who gives room back when its owner comes, and that the owner gets it.

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join;
use serde_json::{Value, json};

use super::{next_second, next_second_of_pods, run};
use crate::harness::objects::{named, pod};
use crate::harness::pod_watch::PodWatch;
use crate::harness::quota::{Quota, asks, cores, tree_t, with_quota, workload};
use crate::harness::{World, check_eq, until};

/// A pod that runs.
fn running(namespace: &str, name: &str, cpu: &str, class: &str) -> Value {
    let mut pod = asks(pod(namespace, name, &[]), &json!({"cpu": cpu}));
    if !class.is_empty() {
        pod["spec"]["priorityClassName"] = class.into();
    }
    pod
}

/// What a pod and those before it need: four pods of 5 cores, all but the first two of a second of their own.
async fn four(quota: &Quota<'_>, namespace: &str, prefix: &str, class: impl Fn(u32) -> String) -> Result<()> {
    for number in 1..=4 {
        let pod = running(namespace, &format!("{prefix}-{number}"), "5", &class(number));
        let pod = quota.admitted("five of twenty", &pod).await?;
        if number > 1 {
            next_second(&pod).await?;
        }
    }
    Ok(())
}

/// The owner of guaranteed room is refused once, and admitted when borrowers have gone. A pod without a controller
/// tries again by the hand of whoever made it.
async fn reclaimed(quota: &Quota<'_>, rule: &str, pod: &Value) -> Result<Value> {
    quota.refused(rule, pod, &["exceeded quota", "reclaim started, retry"]).await?;
    until(format!("{rule}: {} to be admitted", pod["metadata"]["name"]), async || {
        Ok(quota.ask(pod).await?.map(Some)?)
    })
    .await
}

async fn names(watch: &PodWatch) -> Result<Vec<String>> {
    Ok(watch.evicted().await?.into_iter().map(|pod| pod.name).collect())
}

async fn delete_pods(quota: &Quota<'_>, namespaces: &[String]) -> Result<()> {
    for namespace in namespaces {
        for item in quota.world.cluster.list("v1", "Pod", Some(namespace), "").await? {
            quota.world.cluster.delete(&named("v1", "Pod", &item)).await?;
        }
    }
    Ok(())
}

/// Deletes all pods of the namespaces and waits until nothing is counted.
async fn clear(quota: &Quota<'_>, namespaces: &[String]) -> Result<()> {
    delete_pods(quota, namespaces).await?;
    quota.unused().await
}

/// M1, M2, M3, M20: whom it hits.
pub(in crate::scenarios) async fn victims(world: &World) -> Result<()> {
    with_quota(world, "victims", 2, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        quota.plant(&tree_t(&namespaces), &namespaces).await?;
        for value in [1, 10, 100] {
            let class = json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": format!("e2e-victims-{value}")}, "value": value,
            });
            world.create_for_now(&class).await?;
        }
        let [first, second, third, fourth] = namespaces.each_ref().map(String::as_str);
        let watch = quota.watch(&namespaces).await?;
        let critical = "system-cluster-critical";

        let rule = "M3 a leaf that one pod fills";
        for (namespace, cpu) in [(first, "12"), (second, "18"), (fourth, "10")] {
            quota.admitted(rule, &running(namespace, &format!("of-{cpu}"), cpu, "")).await?;
        }
        reclaimed(quota, rule, &cores(third, "m3", "5")).await?;
        check_eq!(names(&watch).await?, ["of-18"], "{rule}");
        clear(quota, &namespaces).await?;

        let rule = "M2 none may be evicted";
        for namespace in [first, second] {
            quota.admitted(rule, &running(namespace, "critical", "20", critical)).await?;
        }
        impossible(quota, &namespaces, third, "m2", "5").await.context(rule)?;

        let rule = "M20 five of the ten that are short";
        for (namespace, name, cpu, class) in [
            (first, "critical", "20", critical),
            (second, "critical", "15", critical),
            (second, "plain", "5", ""),
        ] {
            quota.admitted(rule, &running(namespace, name, cpu, class)).await?;
        }
        impossible(quota, &namespaces, third, "m20", "10").await.context(rule)?;
        check_eq!(names(&watch).await?, ["of-18"], "evicted by M2 and M20");

        let rule = "M1 by priority, then the newest";
        four(quota, first, "1", |_| "e2e-victims-10".into()).await?;
        let class = |number| format!("e2e-victims-{}", if number == 1 { 1 } else { 100 });
        four(quota, second, "2", class).await?;
        reclaimed(quota, rule, &cores(third, "m1", "10")).await?;
        check_eq!(names(&watch).await?, ["of-18", "2-1", "1-4"], "{rule}");
        ensure!(
            watch.most_together().await? <= 40_000,
            "{} thousandths of a core",
            watch.most_together().await?
        );
        Ok(())
    })
    .await
}

/// A set asks for what it owns and nobody can make room: it is told so, what becomes free is held for it, and its claim
/// ends when it has got it.
async fn impossible(
    quota: &Quota<'_>,
    namespaces: &[String],
    namespace: &str,
    name: &str,
    cpu: &str,
) -> Result<()> {
    let set = workload("ReplicaSet", namespace, name, 1, cpu);
    quota.world.cluster.create(&set).await?;
    super::event(quota.world, namespace, "ReplicaSet", name, &["QuotaReclaimImpossible"]).await?;
    quota.claims(1).await?;
    let others: Vec<_> = namespaces.iter().filter(|other| *other != namespace).cloned().collect();
    delete_pods(quota, &others).await?;
    run(quota.world, namespace, 1).await?;
    quota.claims(0).await.context("when all are served")?;
    quota.world.cluster.delete(&set).await?;
    clear(quota, namespaces).await
}

/// Both borrowers of a tree are full, and each pod is of a second of its own; the pods of the second are labelled
/// `all: yes` and `number: 1` to 4.
async fn full(quota: &Quota<'_>, first: &str, second: &str) -> Result<()> {
    four(quota, first, "1", |_| String::new()).await?;
    four(quota, second, "2", |_| String::new()).await?;
    run(quota.world, first, 4).await?;
    for (number, item) in run(quota.world, second, 4).await?.iter().enumerate() {
        let labels = json!({"metadata": {"labels": {"all": "yes", "number": format!("{}", number + 1)}}});
        quota.world.cluster.merge(&named("v1", "Pod", item), &labels).await?;
    }
    quota.uses(&[(first, 20), (second, 20)]).await
}

/// M13: a budget of a whole namespace.
pub(in crate::scenarios) async fn budget_of_all(world: &World) -> Result<()> {
    with_quota(world, "budget", 2, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        quota.plant(&tree_t(&namespaces), &namespaces).await?;
        let [first, second, third, _] = namespaces.each_ref().map(String::as_str);
        let watch = quota.watch(&namespaces).await?;
        full(quota, first, second).await?;
        budget(world, second, &json!({"all": "yes"}), 4).await?;
        reclaimed(quota, "M13", &cores(third, "3-1", "5")).await?;
        check_eq!(names(&watch).await?, ["1-4"], "M13 a budget of all of namespace 2");
        quota.uses(&[(first, 15), (second, 20), (third, 5)]).await
    })
    .await
}

/// M13, M14, M15: budgets hold, who is not ready goes first, and who asks often gets one victim.
pub(in crate::scenarios) async fn disruption_budgets(world: &World) -> Result<()> {
    with_quota(world, "budgets", 2, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        quota.plant(&tree_t(&namespaces), &namespaces).await?;
        let [first, second, third, fourth] = namespaces.each_ref().map(String::as_str);
        let watch = quota.watch(&namespaces).await?;
        full(quota, first, second).await?;

        budget(world, second, &json!({"number": "4"}), 1).await?;
        reclaimed(quota, "M13 a budget of 2-4", &cores(third, "3-1", "5")).await?;
        check_eq!(names(&watch).await?, ["2-3"], "M13 a budget of 2-4");

        let unready = pod(first, "1-2", &[]);
        let conditions = json!({"conditions": [{"type": "Ready", "status": "False"}]});
        world.cluster.merge_status(&unready, &conditions).await?;
        reclaimed(quota, "M14 not ready", &cores(third, "3-2", "5")).await?;
        check_eq!(names(&watch).await?, ["2-3", "1-2"], "M14 not ready");

        // Both borrow as much, so the newest goes that may; of two of one second the first by name.
        let slow = pod(second, "2-1", &[]);
        let finalizer = json!({"metadata": {"finalizers": ["plimsoll.dev/e2e"]}});
        world.cluster.merge(&slow, &finalizer).await?;
        let claimant = cores(fourth, "4-1", "5");
        quota.refused("M15", &claimant, &["reclaim started"]).await?;
        until("2-1 to be asked to end", async || {
            let stored = world.cluster.get(&slow).await?;
            Ok(stored["metadata"]["deletionTimestamp"].is_string().then_some(()))
        })
        .await?;
        for _ in 0..3 {
            quota.refused("M15 room that is not free yet", &claimant, &["exceeded quota"]).await?;
        }
        world.cluster.merge(&slow, &json!({"metadata": {"finalizers": null}})).await?;
        until("M15: 4-1 to be admitted", async || Ok(quota.ask(&claimant).await?.map(Some)?)).await?;
        quota.uses(&[(first, 15), (second, 10), (third, 10), (fourth, 5)]).await?;
        check_eq!(names(&watch).await?, ["2-3", "1-2", "2-1"], "M15 one victim");
        Ok(())
    })
    .await
}

/// A budget that allows no disruption, from now on: its controller has counted `pods` pods.
async fn budget(world: &World, namespace: &str, labels: &Value, pods: usize) -> Result<()> {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": format!("of-{pods}"), "namespace": namespace},
        "spec": {"minAvailable": pods, "selector": {"matchLabels": labels}},
    });
    world.cluster.create(&budget).await?;
    until("the budget to be counted", async || {
        let stored = world.cluster.get(&budget).await?;
        let status = &stored["status"];
        ensure!(
            status["currentHealthy"] == pods && status["disruptionsAllowed"] == 0,
            "its status is {status}"
        );
        Ok(Some(()))
    })
    .await
}

/// Two owners come at once and one slot is free: both are served, by as few evictions as can be, and nobody is evicted
/// again and again.
pub(in crate::scenarios) async fn two_owners_at_once(world: &World) -> Result<()> {
    with_quota(world, "owners", 2, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        quota.plant(&tree_t(&namespaces), &namespaces).await?;
        let [first, second, third, fourth] = namespaces.each_ref().map(String::as_str);
        let watch = quota.watch(&namespaces).await?;
        // The borrowers' owners try to get back what they lose.
        world.cluster.create(&workload("ReplicaSet", first, "web", 4, "5")).await?;
        quota.uses(&[(first, 20)]).await?;
        world.cluster.create(&workload("ReplicaSet", second, "web", 3, "5")).await?;
        quota.uses(&[(first, 20), (second, 15)]).await?;
        let sets = [third, fourth].map(|namespace| workload("ReplicaSet", namespace, "web", 2, "5"));
        let [one, other] = sets.each_ref();
        try_join(world.cluster.create(one), world.cluster.create(other)).await?;
        for namespace in [third, fourth] {
            run(world, namespace, 2).await?;
        }
        quota.uses(&[(first, 10), (second, 10), (third, 10), (fourth, 10)]).await?;
        check_eq!(watch.evicted().await?.len(), 3, "evictions: {:?}", names(&watch).await?);
        check_eq!(watch.created().await?, 11, "pods ever made");
        ensure!(
            watch.most_together().await? <= 40_000,
            "{} thousandths of a core",
            watch.most_together().await?
        );
        quota.claims(0).await
    })
    .await
}

/// M16: room that was made for its owner is not taken by the borrower that had it.
pub(in crate::scenarios) async fn freed_room_is_held(world: &World) -> Result<()> {
    with_quota(world, "held", 2, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        quota.plant(&tree_t(&namespaces), &namespaces).await?;
        let [first, second, third, _] = namespaces.each_ref().map(String::as_str);
        let watch = quota.watch(&namespaces).await?;
        world.cluster.create(&workload("ReplicaSet", first, "web", 4, "5")).await?;
        quota.uses(&[(first, 20)]).await?;
        next_second_of_pods(world, first).await?;
        world.cluster.create(&workload("ReplicaSet", second, "web", 4, "5")).await?;
        quota.uses(&[(first, 20), (second, 20)]).await?;
        let claimant = cores(third, "owner", "5");
        quota.refused("the owner", &claimant, &["reclaim started"]).await?;
        // The set of namespace 2 wants its fourth pod back as soon as it is gone.
        let refused = async || quota.metric("plimsoll_quota_decisions_total", &["outcome=\"refused\""]).await;
        let before = refused().await?;
        quota.uses(&[(first, 20), (second, 15)]).await?;
        until("the borrower to try again", async || Ok((refused().await? > before).then_some(()))).await?;
        for number in 0..3 {
            let pod = cores(second, &format!("late-{number}"), "5");
            quota.refused("M16", &pod, &["exceeded quota", "claimed by others 5"]).await?;
        }
        quota.uses(&[(first, 20), (second, 15)]).await?;
        quota.admitted("the owner comes back", &claimant).await?;
        quota.uses(&[(first, 20), (second, 15), (third, 5)]).await?;
        check_eq!(watch.evicted().await?.len(), 1, "evictions");
        check_eq!(watch.created().await?, 9, "pods ever made");
        Ok(())
    })
    .await
}

/// What a pod says of itself does not protect it, but where that is allowed.
pub(in crate::scenarios) async fn labels_of_borrowers(world: &World) -> Result<()> {
    let honoured = format!("e2e-labels-2-{}", std::process::id());
    let more = json!({"reclaim": {"honourDoNotEvict": [honoured]}});
    with_quota(world, "labels", 1, &more, async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        quota.plant(&tree_t(&namespaces), &namespaces).await?;
        let [first, second, third, fourth] = namespaces.each_ref().map(String::as_str);
        check_eq!(second, honoured, "the namespace that may");
        let watch = quota.watch(&namespaces).await?;
        for (namespace, name) in [(first, "1-1"), (second, "2-1")] {
            for (suffix, label) in [
                ("a", "quota.scheduling.alibabacloud.com/preemptible"),
                ("b", "quota.scheduling.koordinator.sh/preemptible"),
            ] {
                let mut pod = running(namespace, &format!("{name}{suffix}"), "10", "");
                pod["metadata"]["labels"][label] = "false".into();
                let pod = quota.admitted("borrower", &pod).await?;
                next_second(&pod).await?;
            }
        }
        reclaimed(quota, "the protected are newer", &cores(third, "3-1", "10")).await?;
        check_eq!(names(&watch).await?, ["1-1b"], "evicted");
        impossible(quota, &namespaces, fourth, "none-is-left", "10").await?;
        check_eq!(names(&watch).await?, ["1-1b"], "evicted in the end");
        watch.most_together().await.map(drop).context("the watch")
    })
    .await
}
