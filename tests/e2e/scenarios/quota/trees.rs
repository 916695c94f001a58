//! Trees that change while pods come and go, and trees that are wrong.

use std::cell::Cell;

use anyhow::{Context, Result, ensure};
use futures_util::future::{join, join_all};
use serde_json::{Value, json};

use crate::harness::cluster::Refused;
use crate::harness::quota::{FORCE, Quota, TREE, TREES, cores, tree_t, with_quota};
use crate::harness::{World, check_eq, until};

/// A tree `root` with the leaves `x` and `y` of these maxima.
fn two_leaves(x: (&[&str], u32), y: (&[&str], u32)) -> Value {
    let leaf = |name: &str, (namespaces, max): (&[&str], u32)| json!({"name": name, "namespaces": namespaces, "max": {"cpu": max}, "min": {"cpu": 0}});
    json!({
        "name": "root", "max": {"cpu": 100}, "min": {"cpu": 100}, "children": [leaf("x", x), leaf("y", y)],
    })
}

async fn change(quota: &Quota<'_>, root: &Value, namespaces: &[String]) -> Result<()> {
    quota
        .world
        .cluster
        .merge(&quota.tree(root), &json!({"spec": {"root": root}}))
        .await
        .context("change the tree")?;
    quota.in_force(namespaces).await
}

/// Maxima go down and up, a namespace moves, and one is bound that has pods already: what is counted follows, while
/// pods are created and deleted without a pause.
pub(in crate::scenarios) async fn edited_under_load(world: &World) -> Result<()> {
    with_quota(world, "edited", 2, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["one", "two", "late"]).await?;
        let [one, two, late] = namespaces.each_ref().map(String::as_str);
        let (bound, all) = (namespaces[..2].to_vec(), namespaces.to_vec());
        let watch = quota.watch(&namespaces).await?;
        let elsewhere = quota.admitted("before it is bound", &cores(late, "early", "4")).await?;
        quota.plant(&two_leaves((&[one], 10), (&[two], 10)), &bound).await?;
        let done = Cell::new(false);
        let worker = async |namespace: &str| {
            let mut number = 0;
            while !done.get() {
                number += 1;
                if let Ok(pod) =
                    world.cluster.attempt(&cores(namespace, &format!("load-{number}"), "1")).await?
                {
                    world.cluster.delete(&pod).await?;
                }
            }
            anyhow::Ok(())
        };
        let edits = async {
            let outcome = edits(quota, &all, &bound).await;
            done.set(true);
            outcome
        };
        let (workers, edits) = join(join_all([worker(one), worker(two)]), edits).await;
        edits?;
        workers.into_iter().collect::<Result<()>>()?;
        quota.nothing_reserved().await?;
        quota.uses(&[(one, 9), (two, 2), (late, 4)]).await?;
        ensure!(watch.most_in(one).await? <= 10_000, "{} thousandths in {one}", watch.most_in(one).await?);
        world.cluster.delete(&elsewhere).await?;
        quota.uses(&[(one, 9), (two, 2)]).await
    })
    .await
}

async fn edits(quota: &Quota<'_>, all: &[String], bound: &[String]) -> Result<()> {
    let [one, two, late] = all else { anyhow::bail!("three namespaces") };
    let (one, two, late) = (one.as_str(), two.as_str(), late.as_str());
    let get = async |rule: &str, pod: &Value| {
        // The load takes room for a moment.
        until(rule, async || Ok(quota.ask(pod).await?.map(Some)?)).await
    };
    get("9 of 10", &cores(one, "nine", "9")).await?;
    get("2 of 10", &cores(two, "two", "2")).await?;

    change(quota, &two_leaves((&[one], 5), (&[two], 10)), bound).await?;
    let words = ["exceeded quota", "root.x: cpu requested 1, used", "max 5"];
    quota.refused("the maximum is below what is used", &cores(one, "more", "1"), &words).await?;
    change(quota, &two_leaves((&[one], 10), (&[two], 10)), bound).await?;
    let more = get("the maximum is as it was", &cores(one, "more", "1")).await?;
    quota.world.cluster.delete(&more).await?;

    // 9 of the one and 2 of the other are too much together: nothing more is admitted, nobody is evicted.
    change(quota, &two_leaves((&[], 10), (&[two, one], 10)), bound).await?;
    let words = ["exceeded quota", "root.y: cpu requested 1"];
    quota.refused("moved with its pods", &cores(one, "more", "1"), &words).await?;
    quota.refused("and for the others there", &cores(two, "more", "1"), &words).await?;
    change(quota, &two_leaves((&[one], 10), (&[two], 10)), bound).await?;
    let more = get("moved back", &cores(one, "more", "1")).await?;
    quota.world.cluster.delete(&more).await?;

    change(quota, &two_leaves((&[one], 10), (&[two, late], 7)), all).await?;
    quota
        .refused("bound with its pods", &cores(late, "more", "2"), &["root.y: cpu requested 2", "max 7"])
        .await?;
    let more = get("6 of 7 are used", &cores(late, "more", "1")).await?;
    quota.world.cluster.delete(&more).await
}

/// What is wrong is said at once, all of it, and nothing of it is stored.
pub(in crate::scenarios) async fn wrong_ones_refused(world: &World) -> Result<()> {
    with_quota(world, "wrong", 1, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        let good = tree_t(&namespaces);
        let changed = |pointers: &[(&str, Value)]| {
            let mut root = good.clone();
            for (pointer, value) in pointers {
                let (parent, key) = pointer.rsplit_once('/').unwrap_or_default();
                if let Some(parent) = root.pointer_mut(parent) {
                    parent[key] = value.clone();
                }
            }
            root
        };
        let leaf = "/children/0/children/0";
        let at = |end: &str| format!("{leaf}/{end}");
        let one = json!([namespaces[0]]);
        let rows: Vec<(&str, Value, &[&str])> = vec![
            ("Y2", changed(&[(&at("min/cpu"), json!(21))]), &["T1", "T2", "root.a.a1", "21", "20"]),
            ("Y4", changed(&[("/min/cpu", json!(39))]), &["T3", "T2", "39", "40"]),
            ("Y7", changed(&[("/children/1/children/0/namespaces", one)]), &["T5", "root.a.a1", "root.b.b1"]),
            ("T6", changed(&[("/children/0/namespaces", json!(["elsewhere"]))]), &["T6", "root.a"]),
            ("T7", changed(&[(&at("name"), json!("b2"))]), &["T7", "b2"]),
            (
                "T7 and T12 and T1 together",
                changed(&[
                    (&at("name"), json!("")),
                    (&at("min/cpu"), json!(21)),
                    ("/children/1/children/0/namespaces", json!(["kube-system", "plimsoll-system"])),
                ]),
                &["T7", "T12", "T1", "T2", "kube-system", "plimsoll-system"],
            ),
            ("Y15 negative", changed(&[(&at("min/cpu"), json!("-1"))]), &["T11", "-1"]),
            ("Y15 no number", changed(&[(&at("min/cpu"), json!("abc"))]), &["T11", "abc"]),
            ("Y15 a part of a card", changed(&[(&at("min/example.com~1gpu"), json!("1.5"))]), &["T11"]),
            ("Y15 too large", changed(&[(&at("max/cpu"), json!("1e400"))]), &["T11"]),
            (
                "Y15 a fraction that is a number",
                changed(&[(&at("min/cpu"), json!(10.5)), (&at("max/cpu"), json!(10.25))]),
                &["T1"],
            ),
            (
                "Y17",
                changed(&[(&at("min/memory"), json!("40Gi")), (&at("max/memory"), json!("40G"))]),
                &["T1", "T2"],
            ),
            ("an unknown field", changed(&[(&at("maximum"), json!({"cpu": 1}))]), &["T11", "maximum"]),
            ("no root", Value::Null, &["T11", "root"]),
        ];
        for (rule, root, words) in rows {
            // As JSON pointers write a slash in a name.
            let root =
                serde_json::from_str(&root.to_string().replace("example.com~1gpu", "example.com/gpu"))?;
            let message = world.cluster.create_refused(&quota.tree(&root)).await.context(rule)?;
            for word in words {
                ensure!(message.contains(word), "{rule}: {word:?} is not in: {message}");
            }
        }
        // T15
        let tolerated = changed(&[
            (&at("children"), Value::Null),
            (&at("attributes"), Value::Null),
            (&at("min"), Value::Null),
        ]);
        quota.plant(&tolerated, &namespaces).await?;
        let stored = world.cluster.get(&quota.tree(&Value::Null)).await?;
        ensure!(stored["spec"]["root"]["max"]["cpu"] == 40, "what was written is stored: {stored}");
        let refused = world
            .cluster
            .merge(&quota.tree(&Value::Null), &json!({"spec": {"root": {"min": {"cpu": 39}}}}))
            .await;
        let message = refused.err().context("a bad change is taken")?.downcast::<Refused>()?.message;
        ensure!(message.contains("T3"), "{message}");
        let mut second = quota.tree(&good);
        second["metadata"]["name"] = "second".into();
        let message = world.cluster.create_refused(&second).await?;
        ensure!(message.contains("T8"), "{message}");
        check_eq!(world.cluster.list(TREES, TREE, Some("kube-system"), "").await?.len(), 1, "trees");
        Ok(())
    })
    .await
}

/// T14: pods do not fall out of their quota by mistake.
pub(in crate::scenarios) async fn not_from_under_its_pods(world: &World) -> Result<()> {
    with_quota(world, "under", 1, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["one", "two"]).await?;
        let [one, two] = namespaces.each_ref().map(String::as_str);
        let tree = quota.plant(&two_leaves((&[one], 10), (&[two], 10)), &namespaces).await?;
        let pod = quota.admitted("one pod", &cores(one, "pod", "1")).await?;
        quota.uses(&[(one, 1)]).await?;
        let t14 = |rule: &str, result: Result<()>| {
            let message = result
                .err()
                .with_context(|| format!("{rule}: it is allowed"))?
                .downcast::<Refused>()?
                .message;
            ensure!(message.contains("T14") && message.contains(one), "{rule}: {message}");
            anyhow::Ok(())
        };
        let without = json!({"spec": {"root": two_leaves((&[], 10), (&[two], 10))}});
        t14("its namespace leaves", world.cluster.merge(&tree, &without).await.map(drop))?;
        t14("the tree is deleted", world.cluster.delete(&tree).await)?;
        // Of what is changed it does not count: whoever changes a tree would always bring it along.
        let mut forced = without.clone();
        forced["metadata"] = json!({"annotations": {FORCE: "true"}});
        t14("an annotation that comes with the change", world.cluster.merge(&tree, &forced).await.map(drop))?;
        let renamed = json!({"spec": {"root": two_leaves((&[], 10), (&[two, one], 10))}});
        world.cluster.merge(&tree, &renamed).await.context("a move is allowed")?;
        quota.in_force(&namespaces).await?;
        quota.uses(&[(one, 1)]).await?;
        let other = json!({"spec": {"root": two_leaves((&[one], 10), (&[], 10))}});
        world.cluster.merge(&tree, &other).await.context("a namespace without pods leaves")?;
        quota.in_force(&namespaces[..1]).await?;
        check_eq!(quota.bound().await?, [one], "the namespaces that are asked about");
        world.cluster.merge(&tree, &json!({"metadata": {"annotations": {FORCE: "true"}}})).await?;
        world.cluster.delete(&tree).await.context("a stored annotation allows it")?;
        until("nobody to be asked", async || Ok(quota.bound().await?.is_empty().then_some(()))).await?;
        quota.admitted("no tree, no limit", &cores(one, "large", "1000")).await?;
        world.cluster.delete(&pod).await
    })
    .await
}

/// A bad tree that was stored while nobody looked: whom it concerns is refused, all others go on, and nobody is evicted.
pub(in crate::scenarios) async fn wrong_one_stored(world: &World) -> Result<()> {
    with_quota(world, "stored", 1, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        let [first, second, third, _] = namespaces.each_ref().map(String::as_str);
        let mut root = tree_t(&namespaces);
        // T5 for the first, and T1 and T2 for the third, which could reclaim.
        root["children"][1]["children"][1]["namespaces"] = json!([namespaces[3], first]);
        root["children"][1]["children"][0]["min"]["cpu"] = 21.into();
        let tree = quota.tree(&root);
        let object = Quota::webhook_configuration();
        let mut webhooks = world.cluster.get(&object).await?["webhooks"].clone();
        let mut lenient = webhooks.clone();
        for webhook in lenient.as_array_mut().context("no webhooks")? {
            if webhook["name"] == "trees.quota.plimsoll.dev" {
                webhook["namespaceSelector"]["matchExpressions"][0]["values"] = json!(["nowhere"]);
            }
        }
        world.cluster.merge(&object, &json!({"webhooks": lenient})).await?;
        let stored =
            until("the tree to be stored", async || world.cluster.create(&tree).await.map(Some)).await;
        // The namespaces of pods are the leader's to keep.
        if let (Some(old), Some(new)) =
            (webhooks.as_array_mut(), world.cluster.get(&object).await?["webhooks"].as_array())
        {
            for (old, new) in
                old.iter_mut().zip(new).filter(|(old, _)| old["name"] == "pods.quota.plimsoll.dev")
            {
                *old = new.clone();
            }
        }
        world.cluster.merge(&object, &json!({"webhooks": webhooks})).await?;
        stored?;
        quota.in_force(&[second.to_owned(), third.to_owned()]).await?;
        let words = ["is wrong about the namespace", first, "T5"];
        until("the namespace to be refused", async || {
            quota.refused("T5", &cores(first, "one", "1"), &words).await.map(Some)
        })
        .await?;
        quota.admitted("20 of 20", &cores(second, "one", "20")).await?;
        quota.admitted("20 of 20", &cores(third, "one", "20")).await?;
        let watch = quota.watch(&namespaces).await?;
        let fourth = cores(&namespaces[3], "one", "5");
        quota.refused("room of its own", &fourth, &["exceeded quota", "nothing is reclaimed"]).await?;
        until("the tree to say so", async || {
            let stored = world.cluster.get(&tree).await?;
            let conditions = stored["status"]["conditions"].to_string();
            ensure!(conditions.contains("T5") && conditions.contains("T1"), "{conditions}");
            Ok(Some(()))
        })
        .await?;
        check_eq!(watch.evicted().await?.len(), 0, "evictions");
        Ok(())
    })
    .await
}
