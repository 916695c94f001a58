//! A stand-in for the kubelets of the namespaces that Plimsoll is installed in: its pods are processes of this machine.
//!
//! Each pod that the scheduler has placed gets an address, its volumes as folders, a token of its service account, and the
//! program under test with the arguments and the environment of its container. Its readiness probe decides about its
//! condition Ready; a deletion becomes SIGTERM, and SIGKILL when the grace period is over; how a process ends becomes the
//! phase of the pod, or a restart. Liveness probes, limits and what a container must not do are not played.

mod container;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::cluster::Cluster;
use super::kubelet::stamp;
use super::net::http_get;
use super::network::PodAddresses;
use super::objects::named;
use super::process::{Process, tail};
use super::server::kubeconfig_of;
use volumes::Volumes;

/// How often the API server is asked for news of a pod, and the pod whether it is ready.
const PERIOD: Duration = Duration::from_millis(150);
/// How long a container rests before it is started again.
const BACK_OFF: Duration = Duration::from_secs(1);

/// Plays until it is dropped, which ends every process that it started.
pub(crate) struct Pods {
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

struct Shared {
    cluster: Cluster,
    addresses: PodAddresses,
    /// Of the administrator, for where the API server is.
    admin: Value,
    dir: PathBuf,
    next: AtomicU16,
    /// What containers are told beside what their pods say.
    more: Mutex<BTreeMap<String, String>>,
    /// Pods whose process is to die.
    doomed: Mutex<BTreeSet<String>>,
}

impl Pods {
    /// Plays the pods of these namespaces. `dir` is for volumes and logs.
    pub(crate) fn play(
        cluster: &Cluster,
        addresses: PodAddresses,
        namespaces: &'static [&'static str],
        dir: &Path,
    ) -> Result<Self> {
        let admin =
            cluster.kubectl.run(["config", "view", "--raw", "--minify", "--flatten", "-o", "json"], None)?;
        let shared = Arc::new(Shared {
            cluster: cluster.clone(),
            addresses,
            admin: serde_json::from_str(&admin)?,
            dir: dir.to_owned(),
            next: AtomicU16::new(1),
            more: Mutex::default(),
            doomed: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(watch(Arc::clone(&shared), namespaces));
        Ok(Self { shared, _tasks: tasks })
    }

    /// The process of this pod dies at once, as in a crash; the container is started again.
    pub(crate) fn crash(&self, pod: &str) {
        self.shared.doomed().insert(pod.to_owned());
    }

    /// Containers that start from now on get this variable too, until [`Pods::unset`].
    pub(crate) fn set(&self, name: &str, value: &str) {
        self.shared.more().insert(name.to_owned(), value.to_owned());
    }

    /// Containers get only what their pods say again.
    pub(crate) fn unset(&self) {
        self.shared.more().clear();
    }

    /// Where a port of this pod is reached from here.
    pub(crate) fn reach(&self, pod: &Value, port: u16) -> Result<SocketAddr> {
        let ip = pod["status"]["podIP"].as_str().context("the pod has no address")?;
        let local = self.shared.addresses.local(ip.parse()?).context("not an address of ours")?;
        Ok((local, port).into())
    }

    /// The logs of all containers of a pod so far that have all of these words.
    pub(crate) fn said(&self, pod: &str, words: &[&str]) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for log in self.logs()? {
            if log.file_name().is_some_and(|name| name.to_string_lossy().starts_with(pod)) {
                let text = String::from_utf8_lossy(&fs::read(log)?).into_owned();
                let those = text.lines().filter(|line| words.iter().all(|word| line.contains(word)));
                lines.extend(those.map(str::to_owned));
            }
        }
        Ok(lines)
    }

    fn logs(&self) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(&self.shared.dir)?.collect::<Result<Vec<_>, _>>()?;
        let files = entries.into_iter().map(|entry| entry.path());
        let mut logs: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
        logs.sort_by_key(|log| log.metadata().and_then(|data| data.modified()).ok());
        Ok(logs)
    }

    /// The ends of the newest logs.
    pub(crate) fn last_words(&self) -> String {
        let logs = self.logs().unwrap_or_default();
        let newest: Vec<String> = logs.iter().rev().take(4).map(|log| tail(log, 15)).collect();
        newest.join("\n\n")
    }
}

impl Shared {
    fn doomed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.doomed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn more(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.more.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An address at which nobody listens yet.
    fn address(&self) -> Result<(Ipv4Addr, Ipv4Addr)> {
        for _ in 0..1000 {
            let in_cluster = PodAddresses::in_cluster(self.next.fetch_add(1, Ordering::Relaxed));
            let local = self.addresses.local(in_cluster).context("not an address of ours")?;
            if TcpListener::bind((local, 8443)).is_ok() {
                return Ok((in_cluster, local));
            }
        }
        bail!("no address of loopback is free; these tests need Linux, where all of 127.0.0.0/8 is")
    }
}

/// Begins with each pod once it has a node.
async fn watch(shared: Arc<Shared>, namespaces: &'static [&'static str]) {
    let mut known = BTreeSet::new();
    let mut tasks = JoinSet::new();
    loop {
        for namespace in namespaces {
            let pods = shared.cluster.list("v1", "Pod", Some(namespace), "").await.unwrap_or_default();
            for pod in pods {
                let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                if pod["spec"].get("nodeName").is_some() && known.insert(uid) {
                    let shared = Arc::clone(&shared);
                    tasks.spawn(async move {
                        let name = pod["metadata"]["name"].to_string();
                        if let Err(error) = live(&shared, pod).await {
                            eprintln!("the pod {name} is played no more: {error:#}");
                        }
                    });
                }
            }
        }
        sleep(PERIOD).await;
    }
}

/// One pod, from its place on a node to its end.
async fn live(shared: &Shared, mut pod: Value) -> Result<()> {
    let (in_cluster, local) = shared.address()?;
    let name = pod["metadata"]["name"].as_str().context("no name")?.to_owned();
    let mut one = Pod {
        target: named("v1", "Pod", &pod),
        dir: shared.dir.join(&name),
        volumes: Volumes::of(&pod, &shared.dir.join(&name))?,
        shared,
        name,
        in_cluster,
        local,
        process: None,
        restarts: 0,
        shown: Value::Null,
    };
    loop {
        if pod["metadata"].get("deletionTimestamp").is_some() {
            return one.end(&pod).await;
        }
        if let Err(error) = one.step(&pod).await {
            one.show(
                &pod,
                &json!({"waiting": {"reason": "ContainerCreating", "message": format!("{error:#}")}}),
                false,
            )
            .await?;
        }
        sleep(PERIOD).await;
        let uid = pod["metadata"]["uid"].clone();
        pod = match shared.cluster.get_opt(&one.target).await {
            Ok(Some(now)) if now["metadata"]["uid"] == uid => now,
            // Deleted without grace: dropping it ends the process.
            Ok(_) => return Ok(()),
            Err(_) => continue_with(pod),
        };
    }
}

/// The API server did not answer: what was known last still holds.
fn continue_with(pod: Value) -> Value {
    pod
}

struct Pod<'a> {
    shared: &'a Shared,
    target: Value,
    name: String,
    dir: PathBuf,
    volumes: Volumes,
    in_cluster: Ipv4Addr,
    local: Ipv4Addr,
    process: Option<Process>,
    restarts: u32,
    /// The state that was last written, without its times.
    shown: Value,
}

impl Pod<'_> {
    async fn step(&mut self, pod: &Value) -> Result<()> {
        if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
            return Ok(());
        }
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        self.volumes.refresh(&self.shared.cluster, namespace).await?;
        let Some(process) = &mut self.process else {
            self.start(pod).await?;
            return self.show(pod, &json!({"running": {}}), false).await;
        };
        if self.shared.doomed().remove(&self.name) {
            process.kill();
        }
        if let Some(status) = process.exited()? {
            return self.ended(pod, status).await;
        }
        let ready = match container::readiness(pod) {
            Some((port, path)) => {
                let probe = timeout(Duration::from_secs(1), http_get((self.local, port).into(), &path)).await;
                matches!(probe, Ok(Ok((200..=399, _))))
            }
            None => true,
        };
        self.show(pod, &json!({"running": {}}), ready).await
    }

    async fn start(&mut self, pod: &Value) -> Result<()> {
        fs::create_dir_all(&self.dir)?;
        let kubeconfig = if pod["spec"]["automountServiceAccountToken"] == false {
            None
        } else {
            let file = self.dir.join("kubeconfig");
            kubeconfig_of(&self.shared.admin, &self.shared.cluster.token(pod).await?, &file)?;
            Some(file)
        };
        let mut command = container::command(pod, &self.volumes, self.local, kubeconfig.as_deref())?;
        command.envs(self.shared.more().clone());
        let log = format!("{}-{}", self.name, self.restarts);
        self.process = Some(Process::start(&log, &mut command, &self.shared.dir)?);
        Ok(())
    }

    /// The process ended by itself.
    async fn ended(&mut self, pod: &Value, status: ExitStatus) -> Result<()> {
        // Killed by a signal: 128 and its number, of which only SIGKILL occurs.
        let code = status.code().unwrap_or(137);
        let again = match pod["spec"]["restartPolicy"].as_str() {
            Some("Never") => false,
            Some("OnFailure") => code != 0,
            _ => true,
        };
        let reason = if code == 0 { "Completed" } else { "Error" };
        let state = json!({"terminated": {"exitCode": code, "reason": reason}});
        self.show(pod, &state, false).await?;
        if again {
            sleep(BACK_OFF).await;
            self.process = None;
            self.restarts += 1;
        }
        Ok(())
    }

    /// Writes the status, if it says something new.
    async fn show(&mut self, pod: &Value, state: &Value, ready: bool) -> Result<()> {
        let news = json!([state, ready, self.restarts]);
        if self.shown == news {
            return Ok(());
        }
        let now = stamp(Timestamp::now());
        let never = pod["spec"]["restartPolicy"] == "Never" || pod["spec"]["restartPolicy"] == "OnFailure";
        let code = state["terminated"]["exitCode"].as_i64();
        let phase = match code {
            Some(0) if never => "Succeeded",
            Some(_) if pod["spec"]["restartPolicy"] == "Never" => "Failed",
            None if state.get("waiting").is_some() => "Pending",
            _ => "Running",
        };
        let mut state = state.clone();
        if let Some(running) = state.get_mut("running") {
            running["startedAt"] = now.clone().into();
        }
        if let Some(terminated) = state.get_mut("terminated") {
            terminated["startedAt"] = now.clone().into();
            terminated["finishedAt"] = now.clone().into();
        }
        let kept = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut conditions: Vec<Value> =
            kept.filter(|condition| condition["type"] == "PodScheduled").cloned().collect();
        for (kind, holds) in [("Initialized", true), ("ContainersReady", ready), ("Ready", ready)] {
            let status = if holds { "True" } else { "False" };
            conditions.push(json!({"type": kind, "status": status, "lastTransitionTime": now}));
        }
        let container = &pod["spec"]["containers"][0];
        let change = json!({
            "phase": phase,
            "podIP": self.in_cluster.to_string(),
            "podIPs": [{"ip": self.in_cluster.to_string()}],
            "startTime": pod["metadata"]["creationTimestamp"],
            "conditions": conditions,
            "containerStatuses": [{
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": ready,
                "started": state.get("running").is_some(),
                "restartCount": self.restarts,
                "state": state,
            }],
        });
        self.shared.cluster.merge_status(&self.target, &change).await?;
        self.shown = news;
        Ok(())
    }

    /// The pod was deleted: SIGTERM, then the grace period, then its object goes.
    async fn end(mut self, pod: &Value) -> Result<()> {
        if let Some(mut process) = self.process.take()
            && process.exited()?.is_none()
        {
            process.terminate()?;
            let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(30);
            let until = Instant::now() + Duration::from_secs(grace);
            while process.exited()?.is_none() {
                if Instant::now() >= until {
                    eprintln!("{} did not end within {grace} s of SIGTERM", self.name);
                    process.kill();
                }
                sleep(PERIOD).await;
            }
            let status = process.exited()?.context("it has ended")?;
            let finished = json!({"terminated": {"exitCode": status.code().unwrap_or(137)}});
            // The object may be gone already.
            self.show(pod, &finished, false).await.ok();
        }
        self.shared.cluster.delete(&self.target).await
    }
}

/// The pods of a Deployment's selector that are ready, by name.
pub(crate) async fn ready(cluster: &Cluster, namespace: &str) -> Result<Vec<Value>> {
    let mut pods = cluster.list("v1", "Pod", Some(namespace), "app.kubernetes.io/name=plimsoll").await?;
    pods.retain(|pod| {
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        ready && pod["metadata"].get("deletionTimestamp").is_none()
    });
    ensure!(!pods.is_empty(), "no pod of {namespace} is ready");
    Ok(pods)
}
