//! From usage to what new pods request.

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::harness::kubelet::{evicted_for_memory, oom_killed, running};
use crate::harness::metrics_server::using;
use crate::harness::objects::{container, cpu, figure, pod_spec};
use crate::harness::usage::{Usage, condition, recommendations, recommended, running_pods, targets};
use crate::harness::{World, check_eq, kruise, until};

/// What containers use here: 0.25 cores and 256 MiB. The ends of their buckets are 0.2584 cores and 281323846.7 bytes.
pub(super) const USED: (f64, f64) = (0.25, 268_435_456.0);
pub(super) const TARGETS: (&str, &str) = ("259m", "281323847");
/// Times 1.15 and rounded up: what new pods request.
const REQUESTS: (&str, &str) = ("298m", "309Mi");

/// A container that asks for far more than it uses.
pub(super) fn greedy() -> Value {
    container(
        "app",
        &json!({"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "4", "memory": "2Gi"}}),
    )
}

/// A workload whose pods have the label `app: NAME`.
pub(super) fn workload(kind: &str, namespace: &str, name: &str) -> Value {
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": pod_spec(&[greedy()])});
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    });
    match kind {
        "DaemonSet" => {}
        "StatefulSet" => object["spec"]["serviceName"] = name.into(),
        "Job" => {
            object["apiVersion"] = "batch/v1".into();
            object["spec"] = json!({"template": object["spec"]["template"]});
            object["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
        }
        _ => object["spec"]["replicas"] = 1.into(),
    }
    object
}

/// What all profiles here have in common; `more` is merged into it.
pub(super) fn dynamic(more: &Value) -> Value {
    let mut spec = json!({"mode": "Dynamic", "static": null, "dynamic": {"minimumHistory": "0s"}});
    json_patch::merge(&mut spec, more);
    spec
}

/// Fails unless a new pod of the deployment `web` would get these requests.
async fn new_pod_gets(
    world: &World,
    deployment: &Value,
    (want_cpu, want_memory): (&str, &str),
) -> Result<()> {
    let namespace = deployment["metadata"]["namespace"].as_str().unwrap_or_default();
    until(format!("new pods to get {want_cpu} and {want_memory}"), async || {
        let before = world.cluster.list("v1", "Pod", Some(namespace), "app=web").await?;
        let Some(oldest) = before.first() else { return Ok(None) };
        let oldest = crate::harness::objects::named("v1", "Pod", oldest);
        world.cluster.delete(&oldest).await?;
        let fresh = until("another pod", async || {
            let pods = world.cluster.list("v1", "Pod", Some(namespace), "app=web").await?;
            let known =
                |pod: &Value| before.iter().any(|old| old["metadata"]["uid"] == pod["metadata"]["uid"]);
            Ok(pods.into_iter().find(|pod| !known(pod)))
        })
        .await?;
        let got = (cpu(&fresh, "app")?, figure(&fresh, "app", "requests", "memory")?);
        ensure!(got == (want_cpu, want_memory), "the new pod got {got:?}");
        check_eq!(figure(&fresh, "app", "limits", "cpu")?, "4", "the limit");
        Ok(Some(()))
    })
    .await
}

/// The whole way, with the usage that Kubernetes itself serves; a time without; and the end of it.
pub(super) async fn from_metrics_server(world: &World) -> Result<()> {
    const NAME: &str = "from-metrics-server";
    world.metrics_server().await?;
    let namespace = world.namespace(NAME).await?;
    world.profile(NAME, &dynamic(&json!({}))).await?;
    let mut deployment = workload("Deployment", &namespace, "web");
    deployment["spec"]["template"] = using(deployment["spec"]["template"].take(), "250m", "256Mi");
    world.cluster.create(&deployment).await?;
    let section = json!({"source": "MetricsServer", "sourceTimeout": "2s"});
    let server = world.start_recommender(&section).await?;
    let rec = recommended(world, &namespace, ("Deployment", "web"), |rec| {
        // Usage of CPU is measured: it may be a bucket off.
        ensure!(rec["status"]["containers"][0]["memory"]["target"] == TARGETS.1, "no such target");
        condition(rec, "Ready", "True")
    })
    .await?;
    let owner = &rec["metadata"]["ownerReferences"][0];
    check_eq!(owner["name"], "web", "the owner");
    check_eq!(owner["kind"], "Deployment", "the owner's kind");
    let container = &rec["status"]["containers"][0];
    check_eq!(container["memory"]["effective"], REQUESTS.1, "what memory becomes");
    check_eq!(container["memory"]["original"], "1Gi", "what memory was");
    let effective = container["cpu"]["effective"].as_str().context("no effective CPU")?;
    let milli: u32 = effective.trim_end_matches('m').parse()?;
    ensure!((250..400).contains(&milli), "0.25 cores become a request of {effective}");
    world.stop_metrics_server().await;
    let failing =
        async || server.metric("plimsoll_recommender_source_failing_since_timestamp_seconds", &[]).await;
    until("the failure to be seen", async || Ok((failing().await? > 0.0).then_some(()))).await?;
    // What was learnt is used on.
    new_pod_gets(world, &deployment, (effective, REQUESTS.1)).await?;
    world.metrics_server().await?;
    until("the failure to be over", async || Ok((failing().await? <= 0.0).then_some(()))).await?;
    world.cluster.delete(&deployment).await?;
    until("the recommendation to go with its workload", async || {
        Ok(recommendations(world, &namespace).await?.is_empty().then_some(()))
    })
    .await?;
    server.stop().await
}

/// Until there is enough history, the static factors hold; then what was measured.
pub(super) async fn static_then_dynamic(world: &World) -> Result<()> {
    const NAME: &str = "then-dynamic";
    let usage = Usage::start(world, NAME).await?;
    let namespace = world.namespace(NAME).await?;
    let more = json!({
        "mode": "StaticThenDynamic", "static": {"factors": {"cpu": "0.5"}}, "dynamic": {"minimumHistory": "1h"},
    });
    let profile = world.profile(NAME, &dynamic(&more)).await?;
    world.lowers(&namespace, "500m").await?;
    let deployment = workload("Deployment", &namespace, "web");
    world.cluster.create(&deployment).await?;
    usage.set_all(world, &namespace, "web", 1, USED).await?;
    let server = world.start_recommender(&usage.section()).await?;
    recommended(world, &namespace, ("Deployment", "web"), |rec| {
        targets(rec, TARGETS.0, TARGETS.1)?;
        condition(rec, "LowHistory", "True")?;
        condition(rec, "Ready", "False")
    })
    .await?;
    new_pod_gets(world, &deployment, ("1", "1Gi")).await?;
    world.cluster.merge(&profile, &json!({"spec": {"dynamic": {"minimumHistory": "0s"}}})).await?;
    recommended(world, &namespace, ("Deployment", "web"), |rec| condition(rec, "Ready", "True")).await?;
    new_pod_gets(world, &deployment, REQUESTS).await?;
    server.stop().await
}

/// `apply: false`: everything can be asked, nothing changes; and `resources` without memory leaves memory alone.
pub(super) async fn asked_but_not_applied(world: &World) -> Result<()> {
    const NAME: &str = "not-applied";
    let usage = Usage::start(world, NAME).await?;
    let namespace = world.namespace(NAME).await?;
    let more = json!({"apply": false, "dynamic": {"resources": ["cpu"]}});
    let profile = world.profile(NAME, &dynamic(&more)).await?;
    let deployment = workload("Deployment", &namespace, "web");
    world.cluster.create(&deployment).await?;
    usage.set_all(world, &namespace, "web", 1, USED).await?;
    let server = world.start_recommender(&usage.section()).await?;
    recommended(world, &namespace, ("Deployment", "web"), |rec| targets(rec, TARGETS.0, TARGETS.1)).await?;
    let answer = until("the answer of the API", async || {
        let answer = server.ask(&format!("/api/v1/recommendations/{namespace}/deployment/web")).await?;
        Ok(Some(answer).filter(|answer| answer["items"][0]["containers"][0]["cpu"]["target"] == TARGETS.0))
    })
    .await?;
    check_eq!(answer["items"][0]["targetRef"]["name"], "web", "the target of {answer}");
    let printed =
        world.cluster.kubectl.run(["get", "rec", "--namespace", &namespace, "--no-headers"], None)?;
    ensure!(printed.contains("Deployment") && printed.contains(TARGETS.0), "kubectl get rec says {printed}");
    new_pod_gets(world, &deployment, ("2", "1Gi")).await?;
    world.cluster.merge(&profile, &json!({"spec": {"apply": true}})).await?;
    new_pod_gets(world, &deployment, (REQUESTS.0, "1Gi")).await?;
    server.stop().await
}

/// Each kind of workload gets one recommendation, owned by the topmost owner, and so do `OpenKruise`'s.
pub(super) async fn kinds_of_workload(world: &World) -> Result<()> {
    const NAME: &str = "kinds";
    let usage = Usage::start(world, NAME).await?;
    kruise::install(world).await?;
    let namespace = world.namespace(NAME).await?;
    world.profile(NAME, &dynamic(&json!({}))).await?;
    let mut wanted = Vec::new();
    for kind in ["Deployment", "StatefulSet", "ReplicaSet"] {
        let name = kind.to_lowercase();
        world.cluster.create(&workload(kind, &namespace, &name)).await?;
        usage.set_all(world, &namespace, &name, 1, USED).await?;
        wanted.push((kind, name));
    }
    world.cluster.create(&workload("DaemonSet", &namespace, "daemonset")).await?;
    let nodes = world.cluster.list("v1", "Node", None, "").await?.len();
    usage.set_all(world, &namespace, "daemonset", nodes, USED).await?;
    wanted.push(("DaemonSet", "daemonset".into()));
    for (kind, version) in kruise::KINDS {
        let name = format!("kruise-{}", kind.to_lowercase());
        let stored = world.cluster.create(&kruise::workload(kind, &namespace, &name, &[greedy()])?).await?;
        let object = kruise::pod_of(&stored, 0)?;
        world.cluster.create(&object).await?;
        running(world, &object).await?;
        usage.set_all(world, &namespace, &name, 1, USED).await?;
        ensure!(version.starts_with("apps.kruise.io/"), "{version}");
        wanted.push((kind, name));
    }
    let server = world.start_recommender(&usage.section()).await?;
    for (kind, name) in &wanted {
        let rec =
            recommended(world, &namespace, (kind, name), |rec| targets(rec, TARGETS.0, TARGETS.1)).await?;
        check_eq!(rec["metadata"]["ownerReferences"][0]["name"], name.as_str(), "the owner of {kind}");
    }
    check_eq!(recommendations(world, &namespace).await?.len(), wanted.len(), "recommendations");
    server.stop().await
}

/// A rollout changes hashes and pods, and nothing about whose usage it is.
pub(super) async fn rollout_adds_nothing(world: &World) -> Result<()> {
    const NAME: &str = "rollout";
    let usage = Usage::start(world, NAME).await?;
    let namespace = world.namespace(NAME).await?;
    world.profile(NAME, &dynamic(&json!({}))).await?;
    let deployment = workload("Deployment", &namespace, "web");
    world.cluster.create(&deployment).await?;
    usage.set_all(world, &namespace, "web", 1, USED).await?;
    let server = world.start_recommender(&usage.section()).await?;
    let samples = |rec: &Value| rec["status"]["containers"][0]["samples"].as_u64().unwrap_or(0);
    recommended(world, &namespace, ("Deployment", "web"), |rec| targets(rec, TARGETS.0, TARGETS.1)).await?;
    let aggregates = async || server.metric("plimsoll_recommender_aggregates", &[]).await;
    let before = aggregates().await?;
    let old = running_pods(world, &namespace, "web", 1).await?[0]["metadata"]["name"].clone();
    let change = json!({"spec": {"template": {"metadata": {"annotations": {"e2e": "again"}}}}});
    world.cluster.merge(&deployment, &change).await?;
    until("the new pod alone", async || {
        let pods = running_pods(world, &namespace, "web", 1).await?;
        Ok((pods[0]["metadata"]["name"] != old).then_some(()))
    })
    .await?;
    // Four times as much: the figure of the same recommendation follows, as it is far above all before.
    usage.set_all(world, &namespace, "web", 1, (1.0, USED.1)).await?;
    let rec =
        recommended(world, &namespace, ("Deployment", "web"), |rec| targets(rec, "1017m", TARGETS.1)).await?;
    ensure!(samples(&rec) > 1, "samples were lost: {}", rec["status"]);
    // Those of a scenario that is over may go meanwhile.
    let after = aggregates().await?;
    ensure!(after <= before, "{after} aggregates, {before} before");
    check_eq!(recommendations(world, &namespace).await?.len(), 1, "recommendations");
    server.stop().await
}

/// One for the whole namespace; and one for each pod of a set whose pods keep their names.
pub(super) async fn granularities(world: &World) -> Result<()> {
    const NAME: &str = "granularity";
    let usage = Usage::start(world, NAME).await?;
    let namespace = world.namespace(NAME).await?;
    let profile = world.profile(NAME, &dynamic(&json!({"dynamic": {"granularity": "Namespace"}}))).await?;
    let mut set = workload("StatefulSet", &namespace, "web");
    set["spec"]["replicas"] = 2.into();
    world.cluster.create(&set).await?;
    running_pods(world, &namespace, "web", 2).await?;
    usage.set(&namespace, "web-0", USED.0, USED.1);
    usage.set(&namespace, "web-1", 1.0, USED.1);
    let server = world.start_recommender(&usage.section()).await?;
    let whole = ("Namespace", namespace.as_str());
    recommended(world, &namespace, whole, |rec| targets(rec, "1017m", TARGETS.1)).await?;
    world.cluster.merge(&profile, &json!({"spec": {"dynamic": {"granularity": "Pod"}}})).await?;
    until("one for each pod and no other", async || {
        let all = recommendations(world, &namespace).await?;
        let mut seen: Vec<_> = all
            .iter()
            .map(|rec| {
                let target = &rec["status"]["containers"][0]["cpu"]["target"];
                (rec["spec"]["podName"].as_str().unwrap_or_default(), target.as_str().unwrap_or_default())
            })
            .collect();
        seen.sort_unstable();
        ensure!(seen == [("web-0", TARGETS.0), ("web-1", "1017m")], "there are {seen:?}");
        Ok(Some(()))
    })
    .await?;
    server.stop().await
}

/// A kill for memory, and an eviction, raise the figure above what was ever measured.
pub(super) async fn kills_raise_memory(world: &World) -> Result<()> {
    const NAME: &str = "oom";
    let usage = Usage::start(world, NAME).await?;
    let namespace = world.namespace(NAME).await?;
    world.profile(NAME, &dynamic(&json!({}))).await?;
    for name in ["killed", "evicted"] {
        world.cluster.create(&workload("StatefulSet", &namespace, name)).await?;
        usage.set_all(world, &namespace, name, 1, USED).await?;
    }
    let server = world.start_recommender(&usage.section()).await?;
    for name in ["killed", "evicted"] {
        recommended(world, &namespace, ("StatefulSet", name), |rec| targets(rec, TARGETS.0, TARGETS.1))
            .await?;
    }
    let [killed, evicted] = ["killed-0", "evicted-0"].map(
        |name| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}}),
    );
    oom_killed(world, &killed, "app", Timestamp::now()).await?;
    evicted_for_memory(world, &evicted, Timestamp::now()).await?;
    for name in ["killed", "evicted"] {
        recommended(world, &namespace, ("StatefulSet", name), |rec| {
            let target = rec["status"]["containers"][0]["memory"]["target"].as_str().context("no target")?;
            // The request was 1Gi: 1.2 times that at least.
            let bytes: u64 = target.parse()?;
            ensure!(bytes >= 1_288_490_188, "{name}: a target of {target}");
            Ok(())
        })
        .await?;
    }
    let kills = server.metric("plimsoll_recommender_kills_total", &[]).await?;
    ensure!(kills >= 2.0, "{kills} kills were counted");
    server.stop().await
}
