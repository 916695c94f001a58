//! A scheduler with a configuration of a scenario's own, beside that of the control plane.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::net::free_ports;
use super::process::Process;

/// The name by which pods choose it (`spec.schedulerName`).
pub(crate) const SCHEDULER: &str = "plimsoll-e2e";

/// Where to find what a scheduler needs.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// The folder of the programs.
    pub(crate) bin: PathBuf,
    /// That of the control plane's scheduler.
    pub(crate) kubeconfig: PathBuf,
}

/// How a scheduler reaches an extender.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) port: u16,
    /// The name in the extender's certificate.
    pub(crate) server_name: &'static str,
    pub(crate) ca: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// A running kube-scheduler. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Scheduler {
    process: Process,
}

impl Scheduler {
    /// Starts one with this `KubeSchedulerConfiguration`, whose profile is renamed to [`SCHEDULER`]. It may not have
    /// read the cluster yet: pods wait for it.
    pub(crate) fn start(setup: &Setup, dir: &Path, configuration: &Value) -> Result<Self> {
        let mut configuration = configuration.clone();
        configuration["clientConnection"]["kubeconfig"] = setup.kubeconfig.display().to_string().into();
        configuration["leaderElection"] = json!({"leaderElect": false});
        match configuration["profiles"].as_array_mut() {
            Some(profiles) => profiles.iter_mut().for_each(|one| one["schedulerName"] = SCHEDULER.into()),
            None => configuration["profiles"] = json!([{"schedulerName": SCHEDULER}]),
        }
        // JSON is YAML.
        let file = dir.join("scheduler.yaml");
        fs::write(&file, configuration.to_string())?;
        let [port] = free_ports()?;
        let kubeconfig = setup.kubeconfig.display();
        let mut command = Command::new(setup.bin.join("kube-scheduler"));
        command.args([
            format!("--config={}", file.display()),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".into(),
            // Says which plugin and which extender gave how many points.
            "-v=4".into(),
        ]);
        Ok(Self { process: Process::start("scheduler", &mut command, dir)? })
    }

    /// An error if it has ended by itself, as it does when it does not like its configuration.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    pub(crate) fn tail(&self) -> String {
        self.process.tail()
    }

    /// The lines of its log that have all of these words.
    pub(crate) fn said(&self, words: &[&str]) -> Vec<String> {
        self.process.lines(words)
    }
}

/// The configuration with its one extender at this place, and as who the scheduler calls it.
pub(crate) fn pointed(mut configuration: Value, caller: &Caller) -> Result<Value> {
    let extenders = configuration["extenders"].as_array_mut().context("no extenders")?;
    for extender in extenders {
        extender["urlPrefix"] = format!("https://127.0.0.1:{}/scheduler", caller.port).into();
        extender["tlsConfig"] = json!({
            "serverName": caller.server_name,
            "caFile": caller.ca,
            "certFile": caller.certificate,
            "keyFile": caller.key,
        });
    }
    Ok(configuration)
}

/// A configuration without extenders.
pub(crate) fn plain() -> Value {
    json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"})
}
