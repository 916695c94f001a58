//! The servers: as long as they run, they convert autoscalers again and write on nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{Ending, Job, Line};
use crate::cli::calls::{Collection, is_ours, name_of};
use crate::cli::progress::{Progress, Unit};
use crate::cluster::WriteError;

const STEP: &str = "servers";
/// The Deployment of the manifests.
const NAME: &str = "plimsoll";
/// The pause between two looks whether they have ended.
const PAUSE: Duration = Duration::from_millis(500);

/// Whether it is known that no server runs any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    Yes,
    /// There is none where they should be. One that runs by another name, elsewhere, is found by what it does.
    NotThere,
    Unknown,
}

/// Stops them, unless something still `stands` that needs them.
pub(super) async fn stop(job: &Job, stands: &[String]) -> (Vec<Line>, Stopped) {
    let kind = Collection {
        group: "apps",
        version: "v1",
        kind: "Deployment",
        plural: "deployments",
        namespace: &job.own,
    };
    let line = |result, message: String| Line { step: STEP, object: kind.object(NAME), result, message };
    let (line, stopped) = match job.calls.get(kind, NAME).await {
        Ok(None) => match ended(job).await {
            Ok(()) => (line(Ending::Nothing, "not there".to_owned()), Stopped::NotThere),
            Err(why) => (line(Ending::Left, format!("not there, but {why}")), Stopped::Unknown),
        },
        Ok(Some(found)) if !is_ours(&found) => {
            let why = "left, since it is not ours: it has no label app.kubernetes.io/name: plimsoll";
            (line(Ending::Left, why.to_owned()), Stopped::Unknown)
        }
        Ok(Some(_)) if !stands.is_empty() => {
            let why = format!(
                "not stopped, since without them nobody would answer what still calls them, and what it is about would \
                 be refused: {}",
                stands.join(", ")
            );
            (line(Ending::Failed, why), Stopped::Unknown)
        }
        // As if they were: nothing is written anyway.
        Ok(Some(_)) if job.dry_run => (line(job.ending(), job.words("stopped")), Stopped::Yes),
        Ok(Some(_)) => match scale_down(job, kind).await {
            Ok(()) => (line(Ending::Done, "stopped".to_owned()), Stopped::Yes),
            Err(why) => (line(Ending::Failed, why), Stopped::Unknown),
        },
        Err(error) => (line(Ending::Failed, error.to_string()), Stopped::Unknown),
    };
    (vec![line], stopped)
}

async fn scale_down(job: &Job, kind: Collection<'_>) -> Result<(), String> {
    let none = json!({"spec": {"replicas": 0}});
    job.calls.merge(kind, Some("scale"), NAME, &none).await.map_err(|error| error.to_string())?;
    ended(job).await
}

/// Waits until no pod of theirs runs.
async fn ended(job: &Job) -> Result<(), String> {
    let deadline = Instant::now() + if job.dry_run { Duration::ZERO } else { job.wait };
    let progress = Progress::new("waiting for the servers to end", Unit::Objects);
    loop {
        let running = running(job).await.map_err(|error| error.to_string())?;
        if running.is_empty() {
            return Ok(());
        }
        if Instant::now() + PAUSE > deadline {
            return Err(still_run(&running, job));
        }
        progress.say(&format!("{} pods run", running.len()));
        sleep(PAUSE).await;
    }
}

/// Which pods are left, and what can be done about them.
fn still_run(pods: &[Value], job: &Job) -> String {
    let node = |pod: &Value| pod.pointer("/spec/nodeName").and_then(Value::as_str).map(str::to_owned);
    let each: Vec<_> = pods
        .iter()
        .map(|pod| match node(pod) {
            Some(node) => format!("{} on node {node}", name_of(pod)),
            None => name_of(pod).to_owned(),
        })
        .collect();
    let what = format!("{} of its pods still run after {:?} ({})", pods.len(), job.wait, each.join(", "));
    if !pods.iter().all(|pod| pod.pointer("/metadata/deletionTimestamp").is_some()) {
        return format!("{what}: whoever scales it up again must be stopped first");
    }
    // The kubelet says that they ended; on a node that is away nobody does.
    let names: Vec<_> = pods.iter().map(name_of).collect();
    let nodes: BTreeSet<_> = pods.iter().filter_map(node).collect();
    let remove = if nodes.is_empty() {
        String::new()
    } else {
        let nodes: Vec<_> = nodes.into_iter().collect();
        format!(" (kubectl delete node {})", nodes.join(" "))
    };
    format!(
        "{what}: they are deleted, and their node does not say that they ended; if it is only slow give it more time by \
         --wait, if it is gone for good remove it{remove}, or say kubectl -n {} delete pod {} --force, and run this again",
        job.own,
        names.join(" ")
    )
}

async fn running(job: &Job) -> Result<Vec<Value>, WriteError> {
    let pods = Collection { group: "", version: "v1", kind: "Pod", plural: "pods", namespace: &job.own };
    let mut pods = job.calls.list(pods, Some("app.kubernetes.io/name=plimsoll")).await?;
    let phase = |pod: &Value| pod.pointer("/status/phase").and_then(Value::as_str).map(str::to_owned);
    pods.retain(|pod| !matches!(phase(pod).as_deref(), Some("Succeeded" | "Failed")));
    Ok(pods)
}
