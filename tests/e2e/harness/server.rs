//! The program under test, started as a pod would start it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::certificates::MountedSecret;
use super::net::{free_ports, http_get};
use super::process::Process;
use super::service::Service;
use super::until;

/// How long a server goes on serving after SIGTERM. Shorter than in production, several probe periods long.
const DRAIN_DELAY: &str = "2s";

/// What all replicas share.
#[derive(Debug, Clone)]
pub(crate) struct ServerSetup {
    pub(crate) dir: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) tls: MountedSecret,
}

/// A replica. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) admission: SocketAddr,
    pub(crate) probes: SocketAddr,
    /// Where it answers questions about recommendations, if it was told to.
    pub(crate) api: SocketAddr,
    process: Process,
    service: Service,
}

impl Server {
    /// Starts a replica and adds it to the Service, which sends it connections once it is ready. `more` are further
    /// sections of its configuration; with them it also answers questions at `api`.
    pub(crate) fn start(
        setup: &ServerSetup,
        service: &Service,
        name: &str,
        more: Option<&Value>,
    ) -> Result<Self> {
        let [admission, probes, api] =
            free_ports()?.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let mut config = json!({
            "server": {"address": admission, "drainDelay": DRAIN_DELAY},
            "tls": {
                "source": "Files",
                "certificate": setup.tls.certificate(),
                "key": setup.tls.key(),
                "pollInterval": "1s",
            },
            "probes": {"address": probes},
            "api": {"address": "127.0.0.1:0"},
            // What is not known in time is taken for unknown: not a question of how busy this machine is.
            "admission": {"namespaceReadTimeout": "1s"},
            "log": {"level": "info,plimsoll=debug"},
        });
        if let Some(more) = more {
            config["api"] = json!({"address": api});
            json_patch::merge(&mut config, more);
        }
        // JSON is YAML.
        let file = setup.dir.join(format!("{name}.yaml"));
        fs::write(&file, config.to_string())?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.arg("serve").arg("--config").arg(&file).arg("--kubeconfig").arg(&setup.kubeconfig);
        command.env("POD_NAMESPACE", super::install::NAMESPACE).env("POD_NAME", name).env("HOSTNAME", name);
        let process = Process::start(name, &mut command, &setup.dir)?;
        service.add(name, admission, probes);
        Ok(Self { name: name.into(), admission, probes, api, process, service: service.clone() })
    }

    /// Waits until the Service sends connections here.
    pub(crate) async fn routed(&mut self) -> Result<()> {
        until(format!("{} to be ready", self.name), async || {
            if let Err(ended) = self.process.check() {
                return Ok(Some(Err(ended)));
            }
            let said = http_get(self.probes, "/readyz").await;
            if self.service.routes_to(&self.name) {
                return Ok(Some(Ok(())));
            }
            said.map(|(code, body)| anyhow::bail!("readyz: {code}: {body}"))?
        })
        .await
        .with_context(|| self.process.tail())?
    }

    pub(crate) fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    /// Ends it as a kubelet would, and checks that it leaves with 0.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.process.terminate()?;
        let status = self.process.ended(Duration::from_secs(60)).await?;
        ensure!(status.success(), "{} left with {status}:\n{}", self.name, self.process.tail());
        Ok(())
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(mut self) {
        self.process.kill();
    }

    pub(crate) fn tail(&self) -> String {
        self.process.tail()
    }

    /// The lines of its log that have all of these words.
    pub(crate) fn said(&self, words: &[&str]) -> Vec<String> {
        self.process.lines(words)
    }

    /// It stands still: connections stay open, and nobody answers. The Service sends it no more.
    pub(crate) async fn pause(&self) -> Result<()> {
        self.process.pause()?;
        until(format!("{} to be out of service", self.name), async || {
            Ok((!self.service.routes_to(&self.name)).then_some(()))
        })
        .await?;
        self.service.cut_connections();
        Ok(())
    }

    /// It goes on where it stood still.
    pub(crate) fn resume(&self) -> Result<()> {
        self.process.resume()
    }

    /// What it answers to `GET path` at its address for questions about recommendations.
    pub(crate) async fn ask(&self, path: &str) -> Result<Value> {
        let (code, text) = http_get(self.api, path).await?;
        ensure!(code == 200, "{path}: {code}: {text}");
        serde_json::from_str(&text).with_context(|| format!("{path} answers {text:?}"))
    }

    /// The sum of a metric's samples whose line has all of `labels`.
    pub(crate) async fn metric(&self, name: &str, labels: &[&str]) -> Result<f64> {
        metric(self.probes, name, labels).await
    }
}

/// [`Server::metric`] of the replica with these probes.
pub(crate) async fn metric(probes: SocketAddr, name: &str, labels: &[&str]) -> Result<f64> {
    let (code, text) = http_get(probes, "/metrics").await?;
    ensure!(code == 200, "/metrics: {code}");
    let of_name = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|label| line.contains(label))
    };
    let values = text.lines().filter(of_name).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    Ok(values.sum())
}

impl Drop for Server {
    fn drop(&mut self) {
        self.service.remove(&self.name);
    }
}

/// The kubeconfig of a service account, with the cluster's address and CA from `admin`.
pub(crate) fn kubeconfig_of(admin: &serde_json::Value, token: &str, file: &Path) -> Result<()> {
    let cluster = admin.pointer("/clusters/0/cluster").context("no cluster in the kubeconfig")?;
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": cluster}],
        "users": [{"name": "plimsoll", "user": {"token": token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "plimsoll"}}],
        "current-context": "e2e",
    });
    Ok(fs::write(file, config.to_string())?)
}
