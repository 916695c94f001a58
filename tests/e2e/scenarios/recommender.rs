//! The recommender's own life: restarts, replicas, sources that come and go.

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::recommendations::{TARGETS, USED, dynamic, workload};
use crate::harness::net::http_get;
use crate::harness::prometheus::Past;
use crate::harness::server::Server;
use crate::harness::usage::{
    CPU, MEMORY, Usage, condition, recommendations, recommended, running_pods, series, targets,
};
use crate::harness::{World, check_eq, until};

/// Of the metric of who leads; other parts of the program have leaders of their own.
const LEADER: [&str; 1] = [r#"part="recommender""#];

fn samples(rec: &Value) -> u64 {
    rec["status"]["containers"][0]["samples"].as_u64().unwrap_or(0)
}

/// A namespace with the deployment `web`, measured.
async fn measured(world: &World, name: &str, usage: &Usage) -> Result<String> {
    let namespace = world.namespace(name).await?;
    world.profile(name, &dynamic(&json!({}))).await?;
    world.cluster.create(&workload("Deployment", &namespace, "web")).await?;
    usage.set_all(world, &namespace, "web", 1, USED).await?;
    Ok(namespace)
}

/// What was learnt outlives the process, and a source that is away when it comes back.
pub(super) async fn restart_forgets_nothing(world: &World) -> Result<()> {
    const NAME: &str = "restart";
    let mut usage = Usage::start(world, NAME).await?;
    let namespace = measured(world, NAME, &usage).await?;
    let server = world.start_recommender(&usage.section()).await?;
    let web = ("Deployment", "web");
    recommended(world, &namespace, web, |rec| targets(rec, TARGETS.0, TARGETS.1)).await?;
    server.stop().await?;
    let checkpoints = || world.cluster.list("plimsoll.dev/v1alpha1", "UsageCheckpoint", Some(&namespace), "");
    let stored = checkpoints().await?;
    check_eq!(stored.len(), 1, "checkpoints");
    usage.prometheus.kill();
    // Only the memory of before can make it anew.
    for rec in recommendations(world, &namespace).await? {
        let rec = crate::harness::objects::named("plimsoll.dev/v1alpha1", "Recommendation", &rec);
        world.cluster.delete(&rec).await?;
    }
    let server = world.start_recommender(&usage.section()).await?;
    let rec = recommended(world, &namespace, web, |rec| targets(rec, TARGETS.0, TARGETS.1)).await?;
    ensure!(samples(&rec) >= 1, "no samples: {}", rec["status"]);
    until("the source's failure to be counted", async || {
        let since = server.metric("plimsoll_recommender_source_failing_since_timestamp_seconds", &[]).await?;
        Ok((since > 0.0).then_some(()))
    })
    .await?;
    server.stop().await?;
    check_eq!(checkpoints().await?.len(), 1, "checkpoints after a time without a source");
    Ok(())
}

/// One replica works at a time; when it dies without a word, the other goes on where it was.
pub(super) async fn leader_dies(world: &World) -> Result<()> {
    const NAME: &str = "leader";
    let usage = Usage::start(world, NAME).await?;
    let namespace = measured(world, NAME, &usage).await?;
    world.forget_leases().await?;
    let first = world.start_recommender(&usage.section()).await?;
    leads(&first).await?;
    let second = world.start_recommender(&usage.section()).await?;
    let web = ("Deployment", "web");
    // It has lived long enough to have written its memory.
    until("a checkpoint", async || {
        let all =
            world.cluster.list("plimsoll.dev/v1alpha1", "UsageCheckpoint", Some(&namespace), "").await?;
        Ok((!all.is_empty()).then_some(()))
    })
    .await?;
    let before = recommended(world, &namespace, web, |rec| targets(rec, TARGETS.0, TARGETS.1)).await?;
    check_eq!(
        second.metric("plimsoll_leader", &LEADER).await?.to_string(),
        "0",
        "the second's lead while the first lives"
    );
    first.kill();
    leads(&second).await?;
    // Four times as much: only who works can know.
    usage.set_all(world, &namespace, "web", 1, (1.0, USED.1)).await?;
    let after = recommended(world, &namespace, web, |rec| targets(rec, "1017m", TARGETS.1)).await?;
    check_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "the recommendation's identity");
    let first_sample = |rec: &Value| rec["status"]["containers"][0]["firstSample"].clone();
    check_eq!(first_sample(&after), first_sample(&before), "what the first replica knew");
    second.stop().await
}

async fn leads(server: &Server) -> Result<()> {
    until(format!("{} to lead", server.name), async || {
        Ok((server.metric("plimsoll_leader", &LEADER).await? >= 1.0).then_some(()))
    })
    .await
}

/// A replica that leaves in order gives its lease back: the next one need not wait for it to run out.
pub(super) async fn leader_leaves(world: &World) -> Result<()> {
    const NAME: &str = "leaves";
    let usage = Usage::start(world, NAME).await?;
    let namespace = measured(world, NAME, &usage).await?;
    let mut section = usage.section();
    // Longer than any wait here.
    section["leaseDuration"] = "5m".into();
    let first = world.start_recommender(&section).await?;
    leads(&first).await?;
    first.stop().await?;
    let second = world.start_recommender(&section).await?;
    leads(&second).await?;
    recommended(world, &namespace, ("Deployment", "web"), |rec| targets(rec, TARGETS.0, TARGETS.1)).await?;
    second.stop().await
}

/// Two shards, two replicas: every namespace has one that works for it.
pub(super) async fn shards(world: &World) -> Result<()> {
    const NAME: &str = "shards";
    let usage = Usage::start(world, NAME).await?;
    world.profile(NAME, &dynamic(&json!({}))).await?;
    let mut namespaces = Vec::new();
    for number in 0..6 {
        let mut metadata = json!({"labels": {}});
        metadata["labels"][crate::harness::world::SCENARIO] = NAME.into();
        let name = format!("e2e-{NAME}-{number}-{}", std::process::id());
        metadata["name"] = name.clone().into();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        world.create_namespace(&namespace).await?;
        world.cluster.create(&workload("Deployment", &name, "web")).await?;
        namespaces.push(name);
    }
    for namespace in &namespaces {
        usage.set_all(world, namespace, "web", 1, USED).await?;
    }
    world.forget_leases().await?;
    let mut section = usage.section();
    section["shards"] = 2.into();
    let first = world.start_recommender(&section).await?;
    let second = world.start_recommender(&section).await?;
    for namespace in &namespaces {
        recommended(world, namespace, ("Deployment", "web"), |rec| targets(rec, TARGETS.0, TARGETS.1))
            .await?;
    }
    until("two shards to be led", async || {
        let led = first.metric("plimsoll_leader", &LEADER).await?
            + second.metric("plimsoll_leader", &LEADER).await?;
        check_eq!(led.to_string(), "2", "shards that are led");
        Ok(Some(()))
    })
    .await?;
    first.stop().await?;
    second.stop().await
}

/// While usage is away the last recommendations stay and are used; when it is back, so is everything.
pub(super) async fn source_away(world: &World) -> Result<()> {
    const NAME: &str = "away";
    let usage = Usage::start(world, NAME).await?;
    let namespace = measured(world, NAME, &usage).await?;
    let section = usage.section();
    let server = world.start_recommender(&section).await?;
    let web = ("Deployment", "web");
    let before = recommended(world, &namespace, web, |rec| targets(rec, TARGETS.0, TARGETS.1)).await?;
    let Usage { target, mut prometheus } = usage;
    prometheus.kill();
    let failing =
        async || server.metric("plimsoll_recommender_source_failing_since_timestamp_seconds", &[]).await;
    until("the failure to be seen", async || Ok((failing().await? > 0.0).then_some(()))).await?;
    let during = recommended(world, &namespace, web, |rec| targets(rec, TARGETS.0, TARGETS.1)).await?;
    check_eq!(during["metadata"]["uid"], before["metadata"]["uid"], "the recommendation");
    condition(&during, "Ready", "True")?;
    prometheus.start_again().await?;
    until("the failure to be over", async || Ok((failing().await? <= 0.0).then_some(()))).await?;
    drop(target);
    server.stop().await
}

/// Prometheus knows the past: a new installation need not wait a day.
pub(super) async fn history(world: &World) -> Result<()> {
    const NAME: &str = "history";
    const STEP: i64 = 60;
    let namespace = world.namespace(NAME).await?;
    world.profile(NAME, &dynamic(&json!({"dynamic": {"minimumHistory": "24h"}}))).await?;
    world.cluster.create(&workload("StatefulSet", &namespace, "web")).await?;
    let now = Timestamp::now().as_second();
    let times = (1..3 * 1440).rev().map(|n| now - n * STEP);
    let (cpu, memory) = ("container_cpu_usage_seconds_total", "container_memory_working_set_bytes");
    let mut past = Past::default();
    // A counter that grows by 0.25 a second, seen each minute.
    let counted =
        times.clone().enumerate().map(|(n, time)| (time, 15.0 * f64::from(u32::try_from(n).unwrap_or(0))));
    past.add(&series(cpu, &namespace, "web-0"), counted);
    past.add(&series(memory, &namespace, "web-0"), times.clone().map(|time| (time, USED.1)));
    // A series of somebody else, without the label of a namespace.
    past.add(r#"container_memory_working_set_bytes{pod="x",container="y"}"#, times.map(|time| (time, 1e9)));
    let usage = Usage::with_past(world, NAME, &past).await?;
    let mut section = usage.section();
    section["prometheus"] = json!({"address": usage.prometheus.url(), "history": "4d"});
    let server = world.start_recommender(&section).await?;
    let rec = recommended(world, &namespace, ("StatefulSet", "web"), |rec| {
        targets(rec, TARGETS.0, TARGETS.1)?;
        condition(rec, "Ready", "True")
    })
    .await?;
    let first = rec["status"]["containers"][0]["firstSample"].as_str().context("no first sample")?;
    let age = now - first.parse::<Timestamp>()?.as_second();
    ensure!((2 * 86_400..4 * 86_400).contains(&age), "the first sample is {age} s old");
    ensure!(samples(&rec) > 2 * 288, "{} samples of three days", samples(&rec));
    // So does the page of the workload, of which nobody has looked at anything yet.
    let path = format!("/workloads/{namespace}/StatefulSet/web");
    until("the page to show the last day", async || {
        let (code, page) = http_get(server.api, &path).await?;
        ensure!(code == 200, "{code}: {page}");
        for words in ["is what Prometheus says", "In cores, at the end: requested before", "used 0.25 (at "] {
            ensure!(page.contains(words), "{words:?} is not in {page}");
        }
        Ok(Some(()))
    })
    .await?;
    server.stop().await
}

/// `plimsoll explain` says of the live cluster what admission would do, and why.
pub(super) async fn explained(world: &World) -> Result<()> {
    const NAME: &str = "explained";
    let usage = Usage::start(world, NAME).await?;
    let namespace = measured(world, NAME, &usage).await?;
    let server = world.start_recommender(&usage.section()).await?;
    let web = ("Deployment", "web");
    let rec = recommended(world, &namespace, web, |rec| targets(rec, TARGETS.0, TARGETS.1)).await?;
    let effective = &rec["status"]["containers"][0]["cpu"]["effective"];
    let explain = |what: &str, name: &str, form: &str| {
        world.cluster.kubectl.plimsoll(&["explain", what, name, "-n", &namespace, "-o", form])
    };
    let answer: Value = serde_json::from_str(&explain("workload", "deployment/web", "json")?)?;
    check_eq!(
        answer["recommendations"][0]["status"]["containers"][0]["cpu"]["effective"],
        *effective,
        "effective"
    );
    check_eq!(answer["next"]["outcome"], json!("applied"), "the decision: {answer:#}");
    check_eq!(answer["next"]["requests"][0]["result"], *effective, "the next pod's request");
    let text = explain("workload", "web", "text")?;
    ensure!(text.contains("Ready") && text.contains("deployment-web"), "{text}");
    let pods = world.cluster.list("v1", "Pod", Some(&namespace), "").await?;
    let pod = pods.first().and_then(|pod| pod["metadata"]["name"].as_str()).context("a pod")?;
    let text = explain("pod", pod, "text")?;
    ensure!(text.contains("deployment-web"), "{text}");
    for (rule, what, name) in
        [("no such workload", "workload", "none"), ("no such kind", "workload", "sofa/web")]
    {
        ensure!(explain(what, name, "text").is_err(), "{rule}");
    }
    server.stop().await
}

/// A container with another name begins anew; what was learnt of the old one stays beside it for a while.
pub(super) async fn container_renamed(world: &World) -> Result<()> {
    const NAME: &str = "renamed";
    let usage = Usage::start(world, NAME).await?;
    let namespace = measured(world, NAME, &usage).await?;
    let server = world.start_recommender(&usage.section()).await?;
    let web = ("Deployment", "web");
    recommended(world, &namespace, web, |rec| targets(rec, TARGETS.0, TARGETS.1)).await?;
    let deployment = workload("Deployment", &namespace, "web");
    let mut containers = deployment["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["name"] = "main".into();
    let change = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    world.cluster.merge(&deployment, &change).await?;
    let pod = until("the new pod alone", async || {
        let pods = running_pods(world, &namespace, "web", 1).await?;
        let pod = pods.into_iter().find(|pod| pod["spec"]["containers"][0]["name"] == "main");
        Ok(pod.and_then(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)))
    })
    .await?;
    for (metric, value) in [(CPU, 1.0), (MEMORY, USED.1)] {
        usage.target.set(&series(metric, &namespace, &pod).replace("\"app\"", "\"main\""), value);
    }
    let rec = recommended(world, &namespace, web, |rec| targets(rec, "1017m", TARGETS.1)).await?;
    let names: Vec<_> =
        rec["status"]["containers"].as_array().into_iter().flatten().map(|one| one["name"].clone()).collect();
    check_eq!(names, [json!("main"), json!("app")], "containers");
    server.stop().await
}
