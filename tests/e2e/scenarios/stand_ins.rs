//! What stands in for kubelets, exporters and controllers says what scenarios have it say.

use anyhow::{Result, ensure};
use jiff::Timestamp;
use serde_json::Value;

use crate::harness::kubelet::{evicted_for_memory, oom_killed, oom_killed_for_good, running, stamp};
use crate::harness::objects::{app, is_running, pod};
use crate::harness::prometheus::{Past, Prometheus, ScrapeTarget};
use crate::harness::{World, check_eq, kruise, until};

/// Series of days ago and of now, from one server.
pub(super) async fn prometheus(world: &World) -> Result<()> {
    let now = Timestamp::now().as_second();
    let series = r#"container_memory_working_set_bytes{namespace="a",pod="p",container="c"}"#;
    let mut past = Past::default();
    past.add(series, (0..24 * 12).map(|n| (now - 3 * 86_400 + n * 300, 1e8)));
    let target = ScrapeTarget::listen().await?;
    target.set(series, 2e8);
    let counter = r#"container_cpu_usage_seconds_total{namespace="a",pod="p",container="c"}"#;
    target.grow(counter, 0.5);
    let mut server = Prometheus::start(&world.folder("stand-in-prometheus")?, &past, &[&target]).await?;
    let present = server.answers("container_memory_working_set_bytes").await?;
    check_eq!(present[0]["value"][1], "200000000", "what is scraped");
    let of_old = server.query("max_over_time(container_memory_working_set_bytes[60h] offset 24h)").await?;
    check_eq!(of_old[0]["value"][1], "100000000", "what is of old");
    until("half a core", async || {
        let rate = server.query("rate(container_cpu_usage_seconds_total[10s])").await?;
        let rate = rate.first().map(|series| &series["value"][1]);
        let cores: f64 = rate.and_then(Value::as_str).unwrap_or_default().parse()?;
        ensure!((0.4..0.6).contains(&cores), "{cores} cores");
        Ok(Some(()))
    })
    .await?;
    target.remove(series);
    until("the series to be gone", async || {
        Ok(server.query("container_memory_working_set_bytes").await?.is_empty().then_some(()))
    })
    .await?;
    server.kill();
    ensure!(server.query("up").await.is_err(), "it answers although it was killed");
    Ok(())
}

/// Workloads of `OpenKruise` own pods that run.
pub(super) async fn kruise_workloads(world: &World) -> Result<()> {
    kruise::install(world).await?;
    let namespace = world.namespace("kruise").await?;
    for (kind, _) in kruise::KINDS {
        let name = kind.to_lowercase();
        let stored = world.cluster.create(&kruise::workload(kind, &namespace, &name, &[app()])?).await?;
        let object = kruise::pod_of(&stored, 0)?;
        world.cluster.create(&object).await?;
        let pod = running(world, &object).await?;
        check_eq!(pod["metadata"]["ownerReferences"][0]["kind"], kind, "the owner");
    }
    let args = ["scale", "--replicas=3", "clonesets/cloneset", "--namespace", &namespace];
    world.cluster.kubectl.run(args, None).map(drop)
}

/// Statuses stay as they were patched.
pub(super) async fn kills_for_memory(world: &World) -> Result<()> {
    let namespace = world.namespace("kills").await?;
    let at = Timestamp::now();
    let [lived, died, evicted] = ["lived", "died", "evicted"].map(|name| pod(&namespace, name, &[app()]));
    for object in [&lived, &died, &evicted] {
        world.cluster.create(object).await?;
        running(world, object).await?;
    }
    oom_killed(world, &lived, "app", at).await?;
    oom_killed_for_good(world, &died, "app", at).await?;
    evicted_for_memory(world, &evicted, at).await?;
    let [lived, died, evicted] = [
        world.cluster.get(&lived).await?,
        world.cluster.get(&died).await?,
        world.cluster.get(&evicted).await?,
    ];
    let finished = &lived["status"]["containerStatuses"][0]["lastState"]["terminated"]["finishedAt"];
    check_eq!(finished.as_str(), Some(&*stamp(at)), "when the container was killed");
    ensure!(is_running(&lived), "it runs no more");
    check_eq!(died["status"]["phase"], "Failed", "the phase of a pod whose container stays dead");
    check_eq!(evicted["status"]["reason"], "Evicted", "why a pod failed");
    Ok(())
}
