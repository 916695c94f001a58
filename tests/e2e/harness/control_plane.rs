//! etcd, API server, controller manager, scheduler, and kwok's nodes, on loopback.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use rcgen::KeyPair;
use serde_json::{Value, json};

use super::certificates::Authority;
use super::cluster::Cluster;
use super::net::free_ports;
use super::process::Process;
use super::scheduler;
use super::tools::Kubectl;
use super::until;
use super::wait::until_within;

const NODES: usize = 3;

/// Who else plays a part of the cluster.
#[derive(Debug, Default)]
pub(crate) struct Others<'a> {
    /// Kwok leaves the pods of these namespaces to another kubelet.
    pub(crate) untouched: &'a [&'a str],
    /// The socket of the proxy through which the API server reaches Services and pods, as it does by Konnectivity where
    /// it has no route to them.
    pub(crate) egress: Option<&'a str>,
}

/// A running control plane. Dropping it ends its processes, the API server and etcd last.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    kwok: Process,
    scheduler: Process,
    controller_manager: Process,
    api_server: Process,
    etcd: Process,
    kubeconfig: PathBuf,
    bin: PathBuf,
}

impl ControlPlane {
    /// Starts everything with the programs in `bin` and its data in `dir`, and waits until the nodes are ready.
    pub(crate) async fn start(bin: &Path, dir: &Path, others: &Others<'_>) -> Result<(Self, Cluster)> {
        let layout = Layout::create(bin, dir, others)?;
        let etcd = layout.etcd()?;
        let mut api_server = layout.api_server()?;
        let kubeconfig = layout.kubeconfig("admin");
        let cluster =
            Cluster::connect(&kubeconfig, Kubectl::new(bin.join("kubectl"), kubeconfig.clone())).await?;
        // The first start on a cold disk reads a program of 120 MB.
        until_within(Duration::from_secs(180), "the API server", async || match api_server.check() {
            Ok(()) => cluster.ready().await.map(|()| Some(Ok(()))),
            Err(ended) => Ok(Some(Err(ended))),
        })
        .await
        .with_context(|| api_server.tail())??;
        let mut control_plane = Self {
            kwok: layout.kwok()?,
            scheduler: layout.scheduler()?,
            controller_manager: layout.controller_manager()?,
            api_server,
            etcd,
            kubeconfig,
            bin: bin.to_owned(),
        };
        for index in 0..NODES {
            cluster.create(&node(index)).await?;
        }
        until("every node to be ready", async || {
            control_plane.check()?;
            let nodes = cluster.list("v1", "Node", None, "").await?;
            let ready = nodes.iter().filter(|node| is_ready(node)).count();
            Ok((ready == NODES).then_some(()))
        })
        .await?;
        Ok((control_plane, cluster))
    }

    /// An error if a part has ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        [
            &mut self.etcd,
            &mut self.api_server,
            &mut self.controller_manager,
            &mut self.scheduler,
            &mut self.kwok,
        ]
        .into_iter()
        .try_for_each(Process::check)
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The folder of the programs.
    pub(crate) fn bin(&self) -> &Path {
        &self.bin
    }

    /// What a further scheduler needs.
    pub(crate) fn scheduler_setup(&self) -> scheduler::Setup {
        scheduler::Setup {
            bin: self.bin.clone(),
            kubeconfig: self.kubeconfig.with_file_name("scheduler.kubeconfig"),
        }
    }
}

/// Ports and files of one control plane.
struct Layout<'a> {
    bin: &'a Path,
    dir: PathBuf,
    pki: PathBuf,
    logs: PathBuf,
    etcd_port: u16,
    etcd_peer_port: u16,
    api_port: u16,
    controller_manager_port: u16,
    scheduler_port: u16,
    kwok_port: u16,
    others: &'a Others<'a>,
}

impl<'a> Layout<'a> {
    fn create(bin: &'a Path, dir: &Path, others: &'a Others<'a>) -> Result<Self> {
        let (pki, logs) = (dir.join("pki"), dir.join("log"));
        fs::create_dir_all(&pki)?;
        fs::create_dir_all(&logs)?;
        let [etcd_port, etcd_peer_port, api_port, controller_manager_port, scheduler_port, kwok_port] =
            free_ports()?;
        let layout = Self {
            bin,
            dir: dir.to_owned(),
            pki,
            logs,
            etcd_port,
            etcd_peer_port,
            api_port,
            controller_manager_port,
            scheduler_port,
            kwok_port,
            others,
        };
        layout.write_identities()?;
        Ok(layout)
    }

    fn write_identities(&self) -> Result<()> {
        let ca = Authority::new("e2e-cluster-ca")?;
        fs::write(self.pki("ca.crt"), ca.pem())?;
        let names = ["localhost", "kubernetes.default.svc", "127.0.0.1", "10.96.0.1"];
        ca.issue("kube-apiserver", None, &names)?.write(&self.pki, "apiserver")?;
        ca.issue("front-proxy-client", None, &[])?.write(&self.pki, "front-proxy")?;
        ca.issue("kwok", None, &["localhost", "127.0.0.1"])?.write(&self.pki, "kwok")?;
        let service_accounts = KeyPair::generate()?;
        fs::write(self.pki("sa.key"), service_accounts.serialize_pem())?;
        fs::write(self.pki("sa.pub"), service_accounts.public_key_pem())?;
        for (file, user, group) in [
            ("admin", "admin", Some("system:masters")),
            ("controller-manager", "system:kube-controller-manager", None),
            ("scheduler", "system:kube-scheduler", None),
        ] {
            let (certificate, key) = ca.issue(user, group, &[])?.write(&self.pki, file)?;
            let config = json!({
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "e2e", "cluster": {
                    "server": format!("https://127.0.0.1:{}", self.api_port),
                    "certificate-authority": self.pki("ca.crt"),
                }}],
                "users": [{"name": "e2e", "user": {"client-certificate": certificate, "client-key": key}}],
                "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
                "current-context": "e2e",
            });
            fs::write(self.kubeconfig(file), config.to_string())?;
        }
        Ok(())
    }

    fn pki(&self, file: &str) -> PathBuf {
        self.pki.join(file)
    }

    fn kubeconfig(&self, user: &str) -> PathBuf {
        self.dir.join(format!("{user}.kubeconfig"))
    }

    /// Starts `program` with `--name=value` flags; values that are paths or addresses come first.
    fn start(&self, program: &str, flags: &[(&str, String)], switches: &[&str]) -> Result<Process> {
        let mut command = Command::new(self.bin.join(program));
        command.args(flags.iter().map(|(name, value)| format!("--{name}={value}"))).args(switches);
        Process::start(program, &mut command, &self.logs)
    }

    fn etcd(&self) -> Result<Process> {
        let client = format!("http://127.0.0.1:{}", self.etcd_port);
        let peer = format!("http://127.0.0.1:{}", self.etcd_peer_port);
        self.start(
            "etcd",
            &[
                ("data-dir", text(&self.dir.join("etcd"))),
                ("listen-client-urls", client.clone()),
                ("advertise-client-urls", client),
                ("listen-peer-urls", peer.clone()),
                ("initial-advertise-peer-urls", peer.clone()),
                ("initial-cluster", format!("default={peer}")),
            ],
            // The data lives as long as the run.
            &["--unsafe-no-fsync"],
        )
    }

    fn api_server(&self) -> Result<Process> {
        let egress = match self.others.egress {
            Some(socket) => Some(("egress-selector-config-file", text(&self.egress(socket)?))),
            None => None,
        };
        let flags = [
            ("etcd-servers", format!("http://127.0.0.1:{}", self.etcd_port)),
            ("secure-port", self.api_port.to_string()),
            ("tls-cert-file", text(&self.pki("apiserver.crt"))),
            ("tls-private-key-file", text(&self.pki("apiserver.key"))),
            ("client-ca-file", text(&self.pki("ca.crt"))),
            ("service-account-key-file", text(&self.pki("sa.pub"))),
            ("service-account-signing-key-file", text(&self.pki("sa.key"))),
            ("requestheader-client-ca-file", text(&self.pki("ca.crt"))),
            ("proxy-client-cert-file", text(&self.pki("front-proxy.crt"))),
            ("proxy-client-key-file", text(&self.pki("front-proxy.key"))),
        ];
        let flags: Vec<_> = flags.into_iter().chain(egress).collect();
        self.start(
            "kube-apiserver",
            &flags,
            &[
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                // Endpoints may not hold a loopback address, and nothing here asks for the `kubernetes` Service.
                "--endpoint-reconciler-type=none",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--service-account-issuer=https://kubernetes.default.svc",
                "--authorization-mode=Node,RBAC",
                "--requestheader-allowed-names=front-proxy-client",
                "--requestheader-username-headers=X-Remote-User",
                "--requestheader-group-headers=X-Remote-Group",
                "--requestheader-extra-headers-prefix=X-Remote-Extra-",
                "--allow-privileged",
            ],
        )
    }

    /// What the API server is told of the proxy.
    fn egress(&self, socket: &str) -> Result<PathBuf> {
        let config = json!({
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": {
                "proxyProtocol": "HTTPConnect",
                "transport": {"uds": {"udsName": socket}},
            }}],
        });
        let file = self.dir.join("egress.yaml");
        fs::write(&file, config.to_string())?;
        Ok(file)
    }

    /// Kwok's stages; those of pods pass over the namespaces that are not kwok's.
    fn stages(&self) -> Result<PathBuf> {
        let shipped = self.bin.join("kwok-stages.yaml");
        if self.others.untouched.is_empty() {
            return Ok(shipped);
        }
        let mut stages: Vec<Value> = serde_saphyr::from_multiple(&fs::read_to_string(&shipped)?)?;
        let of_pods = stages.iter_mut().filter(|stage| stage["spec"]["resourceRef"]["kind"] == "Pod");
        for stage in of_pods {
            let conditions =
                stage.pointer_mut("/spec/selector/matchExpressions").and_then(Value::as_array_mut);
            conditions.context("a stage without conditions")?.push(json!({
                "key": ".metadata.namespace", "operator": "NotIn", "values": self.others.untouched,
            }));
        }
        let file = self.dir.join("kwok-stages.yaml");
        let text: Vec<String> = stages.iter().map(ToString::to_string).collect();
        fs::write(&file, text.join("\n---\n"))?;
        Ok(file)
    }

    fn controller_manager(&self) -> Result<Process> {
        let kubeconfig = text(&self.kubeconfig("controller-manager"));
        self.start(
            "kube-controller-manager",
            &[
                ("kubeconfig", kubeconfig.clone()),
                ("authentication-kubeconfig", kubeconfig.clone()),
                ("authorization-kubeconfig", kubeconfig),
                ("service-account-private-key-file", text(&self.pki("sa.key"))),
                ("root-ca-file", text(&self.pki("ca.crt"))),
                ("secure-port", self.controller_manager_port.to_string()),
            ],
            &[
                "--leader-elect=false",
                "--use-service-account-credentials",
                "--bind-address=127.0.0.1",
                // Autoscalers decide as soon as there is usage.
                "--horizontal-pod-autoscaler-sync-period=2s",
                "--horizontal-pod-autoscaler-cpu-initialization-period=1s",
                "--horizontal-pod-autoscaler-initial-readiness-delay=1s",
            ],
        )
    }

    fn scheduler(&self) -> Result<Process> {
        let kubeconfig = text(&self.kubeconfig("scheduler"));
        self.start(
            "kube-scheduler",
            &[
                ("kubeconfig", kubeconfig.clone()),
                ("authentication-kubeconfig", kubeconfig.clone()),
                ("authorization-kubeconfig", kubeconfig),
                ("secure-port", self.scheduler_port.to_string()),
            ],
            &["--leader-elect=false", "--bind-address=127.0.0.1"],
        )
    }

    fn kwok(&self) -> Result<Process> {
        self.start(
            "kwok",
            &[
                ("kubeconfig", text(&self.kubeconfig("admin"))),
                ("config", text(&self.stages()?)),
                ("server-address", format!("127.0.0.1:{}", self.kwok_port)),
                ("node-port", self.kwok_port.to_string()),
                // Without a pair the nodes get no address.
                ("tls-cert-file", text(&self.pki("kwok.crt"))),
                ("tls-private-key-file", text(&self.pki("kwok.key"))),
            ],
            &[
                "--node-ip=127.0.0.1",
                "--manage-all-nodes=true",
                // Without leases nodes turn NotReady every 50 seconds.
                "--node-lease-duration-seconds=40",
            ],
        )
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn node(index: usize) -> Value {
    let name = format!("e2e-node-{index}");
    let size = json!({
        "cpu": "256", "memory": "512Gi", "pods": "500", "ephemeral-storage": "1Ti", "example.com/gpu": "8",
    });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {
                "kwok.x-k8s.io/node": "fake",
                // Where metrics-server finds what kwok says of this node's pods.
                "metrics.k8s.io/resource-metrics-path": format!("/metrics/nodes/{name}/metrics/resource"),
            },
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
        },
        "status": {"allocatable": size, "capacity": size},
    })
}

fn is_ready(node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let untainted = node.pointer("/spec/taints").is_none();
    untainted
        && conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
}
