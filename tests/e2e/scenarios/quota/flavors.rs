//! Pods of a leaf run on the nodes that its flavors name, and nowhere else.

use std::slice::from_ref;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::harness::kubelet::running;
use crate::harness::objects::{OPT_OUT, named, pod};
use crate::harness::quota::{Quota, asking, asks, with_quota};
use crate::harness::{World, check_eq, until};

const TYPE: &str = "instance-type";
const LEAVES: usize = 7;

fn flavor(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor", "metadata": {"name": name},
        "spec": {"nodeLabels": labels},
    })
}

fn root(namespaces: &[String; LEAVES]) -> Value {
    let all = json!({"cpu": 100});
    let leaf = |name: &str, namespace: &String, flavors: &str| {
        json!({
            "name": name, "namespaces": [namespace], "max": all, "min": {"cpu": 0},
            "attributes": {"resourceflavors": flavors},
        })
    };
    let [spot, both, mixed, ghost, below, none, any] = namespaces.each_ref();
    json!({
        "name": "root", "max": all, "min": all,
        "children": [
            leaf("spot", spot, "spot"), leaf("both", both, " spot,, od ,spot"), leaf("mixed", mixed, "spot,za"),
            leaf("ghost", ghost, "ghost"),
            {"name": "zone", "max": all, "min": {"cpu": 0}, "attributes": {"resourceflavors": "za"},
             "children": [leaf("below", below, "spot")]},
            leaf("none", none, " , "), leaf("any", any, "any"),
        ],
    })
}

fn one_in(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

fn terms(terms: &[&[Value]]) -> Value {
    terms.iter().map(|expressions| json!({"matchExpressions": expressions})).collect()
}

fn required(terms: &Value) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

/// Labels for the nodes of this cluster, and three that only this scenario has.
async fn node(world: &World, name: &str, labels: &Value) -> Result<()> {
    let size = json!({"cpu": "64", "memory": "512Gi", "pods": "500"});
    let mut all = json!({"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"});
    json_patch::merge(&mut all, labels);
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": all},
        "status": {"allocatable": size, "capacity": size},
    });
    world.create_for_now(&node).await?;
    until(format!("node {name} to be ready"), async || {
        let stored = world.cluster.get(&node).await?;
        let ready = super::condition(&stored, "Ready").is_some_and(|(status, _)| status == "True");
        Ok((ready && stored["spec"].get("taints").is_none()).then_some(()))
    })
    .await
}

struct Fixture<'q, 'w> {
    quota: &'q Quota<'w>,
    namespaces: [String; LEAVES],
}

/// Runs `scenario` with the flavors spot, od, za and any, a node for each, and a tree of leaves that use them.
async fn with_flavors(
    world: &World,
    name: &'static str,
    scenario: impl AsyncFnOnce(&Fixture<'_, '_>) -> Result<()>,
) -> Result<()> {
    with_quota(world, name, 1, &json!({}), async |quota| {
        for (name, labels) in [
            ("spot", json!({TYPE: "spot"})),
            ("od", json!({TYPE: "ondemand"})),
            ("za", json!({"zone": "a", "disk": "ssd"})),
            ("any", json!({})),
        ] {
            world.create_for_now(&flavor(name, &labels)).await?;
        }
        for (name, labels) in [
            ("e2e-spot", json!({TYPE: "spot"})),
            ("e2e-ondemand", json!({TYPE: "ondemand"})),
            ("e2e-zone", json!({TYPE: "spot", "zone": "a", "disk": "ssd"})),
        ] {
            node(world, name, &labels).await?;
        }
        let namespaces = quota.namespaces(["spot", "both", "mixed", "ghost", "below", "none", "any"]).await?;
        let root = root(&namespaces);
        world.cluster.create(&quota.tree(&root)).await?;
        quota.in_force(&[namespaces[0].clone(), namespaces[5].clone()]).await?;
        let [spot, _, _, ghost, ..] = namespaces.each_ref();
        let fixture = Fixture { quota, namespaces: namespaces.clone() };
        until("flavors to be applied", async || {
            let seen = world.cluster.create_dry(&asking(spot, "probe", &json!({}))).await?;
            ensure!(seen["spec"]["affinity"].is_object(), "no affinity");
            let seen = world.cluster.create_dry(&asking(ghost, "probe", &json!({}))).await;
            ensure!(seen.is_err(), "a flavor that is not there is not missed");
            Ok(Some(()))
        })
        .await?;
        scenario(&fixture).await
    })
    .await
}

/// The affinity that pods get; every row is done again with its own result, and with a pod that opted out of lower
/// requests.
pub(in crate::scenarios) async fn affinity(world: &World) -> Result<()> {
    with_flavors(world, "affinity", async |fixture| {
        let [spot, both, mixed, _, below, none, any] = fixture.namespaces.each_ref();
        let (x, y) = (one_in("x", &["1"]), one_in("y", &["2"]));
        let on_spot = one_in(TYPE, &["spot"]);
        let zone = [one_in("disk", &["ssd"]), one_in("zone", &["a"])];
        let field = json!([{"matchFields": [one_in("metadata.name", &["e2e-spot"])]}]);
        let mut field_on_spot = field.clone();
        field_on_spot[0]["matchExpressions"] = json!([on_spot]);
        let rows = [
            ("A1", spot, Value::Null, terms(&[from_ref(&on_spot)])),
            (
                "A2",
                spot,
                terms(&[from_ref(&x), from_ref(&y)]),
                terms(&[&[x.clone(), on_spot.clone()], &[y.clone(), on_spot.clone()]]),
            ),
            ("A5", both, Value::Null, terms(&[&[one_in(TYPE, &["spot", "ondemand"])]])),
            (
                "A6",
                mixed,
                terms(&[from_ref(&x)]),
                terms(&[&[x.clone(), on_spot.clone()], &[x.clone(), zone[0].clone(), zone[1].clone()]]),
            ),
            ("A13", spot, field, field_on_spot),
            ("A17", below, Value::Null, terms(&[&[zone[0].clone(), on_spot.clone(), zone[1].clone()]])),
            ("a list of empties", none, Value::Null, Value::Null),
            ("a flavor of any node", any, Value::Null, Value::Null),
        ];
        for (rule, namespace, before, after) in rows {
            let mut object = asking(namespace, "one", &json!({"cpu": "1"}));
            if !before.is_null() {
                object["spec"]["affinity"] = required(&before);
            }
            let want = if after.is_null() { Value::Null } else { required(&after) };
            for times in ["once", "A7 again"] {
                for opted_out in [false, true] {
                    if opted_out {
                        object["metadata"]["annotations"] = json!({OPT_OUT: "disabled"});
                    }
                    let got = world.cluster.create_dry(&object).await.with_context(|| rule.to_owned())?;
                    check_eq!(got["spec"]["affinity"], want, "{rule}, {times}, opted out: {opted_out}");
                }
                if !want.is_null() {
                    object["spec"]["affinity"] = want.clone();
                }
            }
        }
        Ok(())
    })
    .await
}

/// What cannot be placed, or would run elsewhere, is refused with a text that says why.
pub(in crate::scenarios) async fn refused(world: &World) -> Result<()> {
    with_flavors(world, "misplaced", async |fixture| {
        let [spot, _, _, ghost, ..] = fixture.namespaces.each_ref();
        let quota = fixture.quota;
        quota.refused("A15", &asking(ghost, "one", &json!({})), &["\"ghost\"", "does not exist"]).await?;
        let mut selecting = asking(spot, "one", &json!({}));
        selecting["spec"]["nodeSelector"] = json!({TYPE: "ondemand"});
        quota.refused("A10", &selecting, &["nodeSelector", "instance-type: ondemand", "root.spot"]).await?;

        world.create_for_now(&flavor("ghost", &json!({TYPE: "ghost"}))).await?;
        until("the flavor to be seen", async || {
            let seen = world.cluster.create_dry(&asking(ghost, "one", &json!({}))).await?;
            check_eq!(
                seen["spec"]["affinity"],
                required(&terms(&[&[one_in(TYPE, &["ghost"])]])),
                "the affinity of a flavor that came later"
            );
            Ok(Some(()))
        })
        .await?;

        // Nobody adds anything any more: what would run anywhere is refused, what is right by itself is not.
        let saved = take_injection(world).await?;
        let outcome = async {
            let mut free = asking(spot, "one", &json!({"cpu": "1"}));
            free["metadata"]["annotations"] = json!({OPT_OUT: "disabled"});
            let message = until("the pod not to be changed", async || {
                Ok(Some(quota.refused("bypassed", &free, &["outside of quota leaf root.spot"]).await?))
            })
            .await?;
            ensure!(message.contains(TYPE), "{message}");
            free["spec"]["affinity"] = required(&terms(&[&[one_in(TYPE, &["spot"])]]));
            quota.admitted("by itself", &free).await?;
            let mut selecting = asking(spot, "two", &json!({"cpu": "1"}));
            selecting["metadata"]["annotations"] = json!({OPT_OUT: "disabled"});
            selecting["spec"]["nodeSelector"] = json!({TYPE: "spot"});
            quota.admitted("by its node selector", &selecting).await
        }
        .await;
        world.cluster.create(&saved).await?;
        outcome.map(drop)
    })
    .await
}

/// Removes the webhook that adds affinity to pods that opted out, and gives it to be created again.
async fn take_injection(world: &World) -> Result<Value> {
    let mut saved = named(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        &json!({"metadata": {"name": "plimsoll-quota"}}),
    );
    let stored = world.cluster.get(&saved).await?;
    saved["webhooks"] = stored["webhooks"].clone();
    world.cluster.delete(&saved).await?;
    Ok(saved)
}

/// The scheduler puts pods on the nodes that are meant.
pub(in crate::scenarios) async fn scheduled(world: &World) -> Result<()> {
    with_flavors(world, "scheduled", async |fixture| {
        let [spot, both, _, _, below, ..] = fixture.namespaces.each_ref();
        for (namespace, nodes) in [
            (spot, &["e2e-spot", "e2e-zone"][..]),
            (both, &["e2e-spot", "e2e-zone", "e2e-ondemand"]),
            (below, &["e2e-zone"]),
        ] {
            for number in 0..5 {
                let object = asks(pod(namespace, &format!("pod-{number}"), &[]), &json!({"cpu": "1"}));
                fixture.quota.admitted("one of five", &object).await?;
                let node = running(world, &object).await?["spec"]["nodeName"].clone();
                ensure!(nodes.iter().any(|name| node == **name), "{namespace}: on {node}, not on {nodes:?}");
            }
        }
        let mut narrow = asks(pod(both, "narrow", &[]), &json!({"cpu": "1"}));
        narrow["spec"]["nodeSelector"] = json!({TYPE: "ondemand"});
        fixture.quota.admitted("one of the alternatives", &narrow).await?;
        check_eq!(running(world, &narrow).await?["spec"]["nodeName"], "e2e-ondemand", "the node");
        Ok(())
    })
    .await
}
