//! Usage that a scenario sets, and the recommendations that come of it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::prometheus::{Past, Prometheus, ScrapeTarget};
use super::{World, until};

pub(crate) const CPU: &str = "e2e_cpu_cores";
pub(crate) const MEMORY: &str = "e2e_memory_bytes";

/// What containers use, by way of a Prometheus of the scenario's own.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(crate) target: ScrapeTarget,
    pub(crate) prometheus: Prometheus,
}

impl Usage {
    /// Nobody uses anything yet.
    pub(crate) async fn start(world: &World, scenario: &str) -> Result<Self> {
        Self::with_past(world, scenario, &Past::default()).await
    }

    pub(crate) async fn with_past(world: &World, scenario: &str, past: &Past) -> Result<Self> {
        let target = ScrapeTarget::listen().await?;
        let dir = world.folder(&format!("prometheus-{scenario}"))?;
        let prometheus = Prometheus::start(&dir, past, &[&target]).await?;
        Ok(Self { target, prometheus })
    }

    /// From now on container `app` of a pod uses so many cores and bytes.
    pub(crate) fn set(&self, namespace: &str, pod: &str, cpu: f64, memory: f64) {
        self.target.set(&series(CPU, namespace, pod), cpu);
        self.target.set(&series(MEMORY, namespace, pod), memory);
    }

    /// The same for all pods that run with the label `app: NAME`; there must be so many.
    pub(crate) async fn set_all(
        &self,
        world: &World,
        namespace: &str,
        name: &str,
        count: usize,
        (cpu, memory): (f64, f64),
    ) -> Result<()> {
        for pod in running_pods(world, namespace, name, count).await? {
            let pod = pod["metadata"]["name"].as_str().context("a pod without a name")?;
            self.set(namespace, pod, cpu, memory);
        }
        Ok(())
    }

    /// The section `recommender` that reads this; leases are short, and the past is not read.
    pub(crate) fn section(&self) -> Value {
        json!({
            "source": "Prometheus",
            "leaseDuration": "6s",
            "renewInterval": "1s",
            "prometheus": {
                "address": self.prometheus.url(), "cpuQuery": CPU, "memoryQuery": MEMORY, "history": "0s",
            },
        })
    }
}

/// The series of container `app` of a pod.
pub(crate) fn series(metric: &str, namespace: &str, pod: &str) -> String {
    format!(r#"{metric}{{namespace="{namespace}",pod="{pod}",container="app"}}"#)
}

/// Waits for exactly `count` running pods with the label `app: NAME`.
pub(crate) async fn running_pods(
    world: &World,
    namespace: &str,
    name: &str,
    count: usize,
) -> Result<Vec<Value>> {
    until(format!("{count} running pods of {name}"), async || {
        let pods = world.cluster.list("v1", "Pod", Some(namespace), &format!("app={name}")).await?;
        let up = pods.iter().filter(|pod| super::objects::is_running(pod)).count();
        ensure!(up == count && pods.len() == count, "{up} of {} run", pods.len());
        Ok(Some(pods))
    })
    .await
}

/// The recommendations of a namespace.
pub(crate) async fn recommendations(world: &World, namespace: &str) -> Result<Vec<Value>> {
    world.cluster.list("plimsoll.dev/v1alpha1", "Recommendation", Some(namespace), "").await
}

/// Waits until there is a recommendation for the target of this kind and name that `good` does not object to.
pub(crate) async fn recommended(
    world: &World,
    namespace: &str,
    (kind, name): (&str, &str),
    good: impl Fn(&Value) -> Result<()>,
) -> Result<Value> {
    until(format!("the recommendation for {kind} {name}"), async || {
        let all = recommendations(world, namespace).await?;
        let of_target = |rec: &&Value| {
            let target = &rec["spec"]["targetRef"];
            target["kind"] == kind && target["name"] == name
        };
        let mut found = all.iter().filter(of_target);
        let first = found.next().with_context(|| format!("there are {} others", all.len()))?;
        ensure!(found.next().is_none(), "there is more than one");
        good(first).with_context(|| format!("it says {}", first["status"]))?;
        Ok(Some(first.clone()))
    })
    .await
}

/// Fails unless the first container's targets are these.
pub(crate) fn targets(recommendation: &Value, cpu: &str, memory: &str) -> Result<()> {
    let container = &recommendation["status"]["containers"][0];
    let [got_cpu, got_memory] = ["cpu", "memory"].map(|resource| &container[resource]["target"]);
    ensure!(got_cpu == cpu && got_memory == memory, "targets {got_cpu} and {got_memory}");
    Ok(())
}

/// Fails unless a condition has this status.
pub(crate) fn condition(recommendation: &Value, kind: &str, status: &str) -> Result<()> {
    let conditions = recommendation["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
    let found = found.with_context(|| format!("no condition {kind}"))?;
    ensure!(found["status"] == status, "{kind} is {}: {}", found["status"], found["message"]);
    Ok(())
}
