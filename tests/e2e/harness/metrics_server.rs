//! metrics-server, which reads from kwok what the annotations of pods say that they use.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::net::free_ports;
use super::process::Process;
use super::wait::until_within;

/// The annotations by which a pod says what each of its containers uses.
const USAGE_CPU: &str = "kwok.x-k8s.io/usage-cpu";
const USAGE_MEMORY: &str = "kwok.x-k8s.io/usage-memory";

/// The program refuses to look more often.
const RESOLUTION: &str = "10s";

/// A pod's usage is there after two looks, and the first of them may have just been missed.
const PATIENCE: Duration = Duration::from_secs(240);

/// A running metrics-server behind the API server. Dropping it ends the process; the API server then says that usage
/// is not available.
#[derive(Debug)]
pub(crate) struct MetricsServer {
    process: Process,
}

/// What is needed to start it, again and again on the same port.
#[derive(Debug)]
pub(crate) struct Setup {
    bin: PathBuf,
    kubeconfig: PathBuf,
    dir: PathBuf,
    port: u16,
    starts: Cell<u32>,
}

impl Setup {
    pub(crate) fn new(bin: &Path, kubeconfig: &Path, dir: &Path) -> Result<Self> {
        let [port] = free_ports()?;
        let (bin, kubeconfig) = (bin.join("metrics-server"), kubeconfig.to_owned());
        ensure!(
            bin.exists(),
            "{} is missing: build it with `tests/e2e/controlplane/build.sh metrics-server` (about 6 minutes the \
             first time; `make e2e` does it)",
            bin.display()
        );
        Ok(Self { bin, kubeconfig, dir: dir.to_owned(), port, starts: Cell::default() })
    }

    /// Where it is asked directly.
    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// Starts it and waits until the API server answers for it. The objects that lead there stay.
    pub(crate) async fn start(&self, cluster: &Cluster) -> Result<MetricsServer> {
        let kubeconfig = self.kubeconfig.display();
        let flags = [
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            format!("--cert-dir={}", self.dir.join("metrics-server").display()),
            format!("--secure-port={}", self.port),
            format!("--metric-resolution={RESOLUTION}"),
        ];
        let mut command = Command::new(&self.bin);
        command.args(flags).args([
            "--bind-address=127.0.0.1",
            "--kubelet-insecure-tls",
            "--kubelet-use-node-status-port",
            "--kubelet-preferred-address-types=InternalIP",
            "--kubelet-request-timeout=4s",
        ]);
        let number = self.starts.replace(self.starts.get() + 1);
        let mut process = Process::start(&format!("metrics-server-{number}"), &mut command, &self.dir)?;
        for object in self.objects() {
            cluster.apply(&object).await?;
        }
        until_within(PATIENCE, "metrics-server to answer", async || {
            if let Err(ended) = process.check() {
                return Ok(Some(Err(ended)));
            }
            cluster.get_path("/apis/metrics.k8s.io/v1beta1/nodes").await.map(|_| Some(Ok(())))
        })
        .await
        .with_context(|| process.tail())??;
        Ok(MetricsServer { process })
    }

    /// The Service and the `APIService`. They are removed together with the cluster.
    fn objects(&self) -> [Value; 2] {
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "metrics-server", "namespace": "kube-system"},
            "spec": {
                "type": "ExternalName",
                "externalName": "localhost",
                "ports": [{"port": self.port}],
            },
        });
        let api_service = json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": true,
                "service": {"name": "metrics-server", "namespace": "kube-system", "port": self.port},
            },
        });
        [service, api_service]
    }
}

impl MetricsServer {
    /// An error if it has ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.process.check()
    }
}

/// Lets a pod, or a pod template, say what each of its containers uses.
pub(crate) fn using(mut pod: Value, cpu: &str, memory: &str) -> Value {
    pod["metadata"]["annotations"][USAGE_CPU] = cpu.into();
    pod["metadata"]["annotations"][USAGE_MEMORY] = memory.into();
    pod
}
