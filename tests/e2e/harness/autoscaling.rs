//! Replicas that keep autoscalers, for one scenario at a time.

use std::cell::RefCell;

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use super::objects::profile;
use super::server::Server;
use super::{World, until};

/// The annotation in which we record what an autoscaler's author wrote.
pub(crate) const RECORD: &str = "plimsoll.dev/hpa-original";
/// The annotation by which the keeper has targets written.
pub(crate) const SYNC: &str = "plimsoll.dev/hpa-sync";

/// As fast as the checks allow.
fn settings() -> Value {
    json!({"leaseDuration": "4s", "renewInterval": "500ms", "syncInterval": "200ms"})
}

/// The replicas of a scenario.
pub(crate) struct Autoscaling<'w> {
    pub(crate) world: &'w World,
    config: Value,
    pub(crate) replicas: RefCell<Vec<Server>>,
}

/// Runs a scenario with one replica, which has `more` in its configuration.
pub(crate) async fn with_autoscalers<'w>(
    world: &'w World,
    more: &Value,
    scenario: impl AsyncFnOnce(&Autoscaling<'w>) -> Result<()>,
) -> Result<()> {
    let mut config = json!({"hpa": settings()});
    json_patch::merge(&mut config, more);
    // The replica that is there has other settings; the runner starts one again.
    drop(world.server.lock().await.take());
    world.forget_leases().await?;
    let run = Autoscaling { world, config, replicas: RefCell::default() };
    run.start_replica().await?;
    let outcome = scenario(&run).await;
    outcome.map_err(|error| anyhow!("{error:#}\n\n{}", run.logs()))
}

impl Autoscaling<'_> {
    /// A further replica, which gets connections.
    pub(crate) async fn start_replica(&self) -> Result<()> {
        let server = self.world.start(Some(&self.config)).await?;
        self.replicas.borrow_mut().push(server);
        Ok(())
    }

    /// All replicas die.
    pub(crate) fn kill_replicas(&self) {
        for server in self.replicas.take() {
            server.kill();
        }
    }

    fn logs(&self) -> String {
        let replicas = self.replicas.borrow();
        let tails = replicas.iter().map(|server| format!("{}: {}", server.name, server.tail()));
        tails.collect::<Vec<_>>().join("\n\n")
    }
}

/// The label by which the profiles of [`group_profile`] find their namespaces.
const GROUP: &str = "plimsoll.dev/e2e-group";

/// A namespace of the scenario's own for the profile of a group.
pub(crate) async fn grouped(world: &World, name: &str, group: &str) -> Result<String> {
    let mut labels = json!({});
    labels[GROUP] = group.into();
    world.namespace_with(name, &json!({"labels": labels})).await
}

/// A profile that halves CPU and memory in the namespaces of a group, with `more` in its spec.
pub(crate) async fn group_profile(world: &World, group: &str, more: &Value) -> Result<Value> {
    let mut labels = json!({});
    labels[GROUP] = group.into();
    let mut spec = json!({
        "match": {"namespaceSelector": {"matchLabels": labels}},
        "mode": "Static",
        "static": {"factors": {"cpu": "0.5", "memory": "0.5"}},
    });
    json_patch::merge(&mut spec, more);
    let object = profile(&format!("e2e-{group}"), &spec);
    world.create_for_now(&object).await?;
    Ok(object)
}

/// Waits for an event of ours about the autoscaler of a namespace, whose text has each of `words`.
pub(crate) async fn told(world: &World, namespace: &str, words: &[&str]) -> Result<()> {
    until(format!("an event about the autoscaler in {namespace} with {words:?}"), async || {
        let all = world.cluster.list("events.k8s.io/v1", "Event", Some(namespace), "").await?;
        let ours: Vec<String> = all
            .iter()
            .filter(|event| {
                event["regarding"]["kind"] == super::hpa::KIND
                    && event["reportingController"].as_str().is_some_and(|name| name.starts_with("plimsoll"))
            })
            .map(|event| format!("{} {}", event["reason"], event["note"]))
            .collect();
        ensure!(ours.iter().any(|text| words.iter().all(|word| text.contains(word))), "{ours:?}");
        Ok(Some(()))
    })
    .await
}
