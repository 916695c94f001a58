//! Nodes, a scheduler with the extender, and a replica that answers it, for one scenario at a time.

mod follow;
mod pods;

use std::cell::RefCell;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, ensure};
use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::{Client, Config};
use serde_json::{Value, json};

pub(crate) use self::follow::{USES, requests};
pub(crate) use self::pods::names;
use super::install::{self, Endpoint, SERVER_NAME};
use super::net::free_ports;
use super::scheduler::{Caller, Scheduler};
use super::server::Server;
use super::world::SCENARIO;
use super::{World, until};

const COMPONENTS: [&str; 4] = [
    "webhook-config/components/placement",
    "webhook-config/components/extender",
    "webhook-config/components/load-class",
    "webhook-config/components/balance",
];

/// What a scenario has for itself.
pub(crate) struct Placement<'w> {
    pub(crate) world: &'w World,
    /// Of the scenario's own.
    pub(crate) namespace: String,
    pub(crate) dir: PathBuf,
    /// How the scheduler reaches the extender, which keeps its port over restarts.
    pub(crate) caller: Caller,
    name: &'static str,
    nodes: Vec<String>,
    server: RefCell<Option<Server>>,
    scheduler: RefCell<Option<Scheduler>>,
}

/// How the nodes of a scenario are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nodes {
    /// They are called `NAME-n1`, `NAME-n2` ..
    pub(crate) count: usize,
    /// What each of them has.
    pub(crate) cpu: &'static str,
    pub(crate) memory: &'static str,
    /// All have the address of kwok, which metrics-server asks; else each has one of its own.
    pub(crate) at_kwok: bool,
}

impl Nodes {
    pub(crate) fn new(count: usize) -> Self {
        Self { count, cpu: "32", memory: "64Gi", at_kwok: false }
    }

    /// Of the size that [`USES`] is about.
    pub(crate) fn sized(count: usize) -> Self {
        Self { cpu: "16", memory: "32Gi", ..Self::new(count) }
    }
}

/// Runs a scenario on nodes that nobody else's pods are put on. Neither scheduler nor replica run yet.
pub(crate) async fn with_nodes<'w>(
    world: &'w World,
    name: &'static str,
    nodes: Nodes,
    scenario: impl AsyncFnOnce(&Placement<'w>) -> Result<()>,
) -> Result<()> {
    // A second scheduler is nothing for a cluster of somebody else.
    world.scheduler_setup()?;
    let dir = world.folder(&format!("placement-{name}"))?;
    let [port] = free_ports()?;
    let ca = dir.join("ca.crt");
    std::fs::write(&ca, world.authority.pem())?;
    let client = world.authority.issue("kube-scheduler", None, &[])?;
    let (certificate, key) = client.write(&dir, "scheduler")?;
    let caller = Caller { port, server_name: SERVER_NAME, ca, certificate, key };
    let names: Vec<String> = (1..=nodes.count).map(|number| format!("{name}-n{number}")).collect();
    for (index, node) in names.iter().enumerate() {
        world.create_for_now(&node_object(name, node, index, &nodes)).await?;
    }
    let placement = Placement {
        world,
        namespace: world.namespace(name).await?,
        dir,
        caller,
        name,
        nodes: names,
        server: RefCell::default(),
        scheduler: RefCell::default(),
    };
    let others = placement.others().await?;
    for node in &others {
        placement.cordon(node, true).await?;
    }
    let outcome = async {
        placement.ready().await?;
        scenario(&placement).await
    }
    .await;
    let outcome = outcome.map_err(|error| anyhow!("{error:#}\n\n{}", placement.logs()));
    drop(placement.server.take());
    let emptied = placement.emptied().await;
    drop(placement.scheduler.take());
    for node in &others {
        placement.cordon(node, false).await?;
    }
    outcome.and(emptied)
}

fn node_object(scenario: &str, name: &str, index: usize, nodes: &Nodes) -> Value {
    let size = json!({"cpu": nodes.cpu, "memory": nodes.memory, "pods": "110", "ephemeral-storage": "1Ti"});
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {
                "kwok.x-k8s.io/node": "fake",
                "metrics.k8s.io/resource-metrics-path": format!("/metrics/nodes/{name}/metrics/resource"),
            },
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", SCENARIO: scenario},
        },
        "status": {"allocatable": size, "capacity": size},
    });
    if !nodes.at_kwok {
        node["status"]["addresses"] = json!([
            {"type": "InternalIP", "address": address(index)}, {"type": "Hostname", "address": name},
        ]);
    }
    node
}

fn address(index: usize) -> String {
    format!("127.0.1.{}", index + 1)
}

impl Placement<'_> {
    /// The whole name of node `n1`, `n2` ..
    pub(crate) fn node(&self, short: &str) -> String {
        format!("{}-{short}", self.name)
    }

    pub(crate) fn node_names(&self) -> &[String] {
        &self.nodes
    }

    /// Where the exporters of the nodes are, in the order of the nodes.
    pub(crate) fn instances(&self) -> Vec<String> {
        (0..self.nodes.len()).map(|index| format!("{}:9100", address(index))).collect()
    }

    /// The nodes of the control plane.
    async fn others(&self) -> Result<Vec<String>> {
        let all = self.world.cluster.list("v1", "Node", None, "").await?;
        let names = all.iter().filter_map(|node| node["metadata"]["name"].as_str());
        Ok(names.filter(|name| !self.nodes.iter().any(|mine| mine == name)).map(Into::into).collect())
    }

    async fn ready(&self) -> Result<()> {
        until("the nodes to be ready", async || {
            let all = self.world.cluster.list("v1", "Node", None, "").await?;
            let ready = |node: &&Value| {
                let name = node["metadata"]["name"].as_str().unwrap_or_default();
                let conditions = node["status"]["conditions"].as_array();
                let up = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
                self.nodes.iter().any(|mine| mine == name)
                    && node["spec"].get("taints").is_none()
                    && conditions.is_some_and(|all| all.iter().any(up))
            };
            let count = all.iter().filter(ready).count();
            ensure!(count == self.nodes.len(), "{count} of {}", self.nodes.len());
            Ok(Some(()))
        })
        .await
    }

    /// Removes what is in the namespace, so that no pod is left when its node goes.
    async fn emptied(&self) -> Result<()> {
        let namespace = format!("--namespace={}", self.namespace);
        let kinds = "deployments,statefulsets,daemonsets,replicasets,poddisruptionbudgets";
        let kubectl = &self.world.cluster.kubectl;
        kubectl.run(["delete", kinds, "--all", "--wait=false", &namespace], None)?;
        until("the pods to be gone", async || {
            kubectl.run(
                ["delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false", &namespace],
                None,
            )?;
            let left = self.world.cluster.list("v1", "Pod", Some(&self.namespace), "").await?;
            ensure!(left.is_empty(), "{} are left", left.len());
            Ok(Some(()))
        })
        .await
    }

    fn logs(&self) -> String {
        let server = self.server.borrow().as_ref().map(Server::tail);
        let scheduler = self.scheduler.borrow().as_ref().map(Scheduler::tail);
        server.into_iter().chain(scheduler).collect::<Vec<_>>().join("\n\n")
    }

    /// Nothing new is put on the node, or it is again.
    pub(crate) async fn cordon(&self, node: &str, closed: bool) -> Result<()> {
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}});
        let closed = closed.then_some(true);
        self.world.cluster.merge(&object, &json!({"spec": {"unschedulable": closed}})).await.map(drop)
    }

    /// What `plimsoll manifests scheduler` says with this scenario's paths and these further flags.
    pub(crate) fn configuration(&self, flags: &[&str]) -> Result<Value> {
        let Caller { port, server_name, ca, certificate, key } = &self.caller;
        let own = [
            format!("--address=127.0.0.1:{port}"),
            format!("--server-name={server_name}"),
            format!("--certificate-authority={}", ca.display()),
            format!("--certificate={}", certificate.display()),
            format!("--key={}", key.display()),
        ];
        let own = own.iter().map(String::as_str);
        let whole: Vec<&str> =
            ["manifests", "scheduler"].into_iter().chain(own).chain(flags.iter().copied()).collect();
        let text = self.world.cluster.kubectl.plimsoll(&whole)?;
        let mut configuration: Value = serde_saphyr::from_str(&text).with_context(|| text)?;
        for extender in configuration["extenders"].as_array_mut().into_iter().flatten() {
            // A scheduler passes over who is slower, and then pods are where nobody expects them.
            extender["httpTimeout"] = "5s".into();
        }
        Ok(configuration)
    }

    /// Starts the scheduler, or starts it anew with another configuration.
    pub(crate) fn schedule_by(&self, configuration: &Value) -> Result<()> {
        drop(self.scheduler.take());
        let setup = self.world.scheduler_setup()?;
        *self.scheduler.borrow_mut() = Some(Scheduler::start(&setup, &self.dir, configuration)?);
        Ok(())
    }

    /// The lines of the scheduler's log that have all of these words.
    pub(crate) fn scheduler_said(&self, words: &[&str]) -> Vec<String> {
        self.scheduler.borrow().as_ref().map(|scheduler| scheduler.said(words)).unwrap_or_default()
    }

    /// The lines of the replica's log that have all of these words.
    pub(crate) fn server_said(&self, words: &[&str]) -> Result<Vec<String>> {
        Ok(self.server.borrow().as_ref().context("no replica")?.said(words))
    }

    fn check(&self) -> Result<()> {
        if let Some(scheduler) = self.scheduler.borrow_mut().as_mut() {
            scheduler.check()?;
        }
        if let Some(server) = self.server.borrow_mut().as_mut() {
            server.check()?;
        }
        Ok(())
    }

    /// Starts the replica that answers the scheduler, with `more` in the section `placement` of its configuration.
    pub(crate) async fn serve(&self, more: &Value) -> Result<()> {
        install(self.world).await?;
        drop(self.server.take());
        self.world.forget_leases().await?;
        self.serve_next(more).await
    }

    /// [`Placement::serve`] where the replica before has just died: what it left on its lease is there.
    pub(crate) async fn serve_next(&self, more: &Value) -> Result<()> {
        drop(self.server.take());
        let mut section = json!({
            "enabled": true,
            "address": format!("127.0.0.1:{}", self.caller.port),
            "clientAuth": "Required",
            "clientCa": self.caller.ca,
            "load": {"interval": "1s", "timeout": "900ms"},
            "usage": {"interval": "1s"},
            "leaseDuration": "4s",
            "renewInterval": "500ms",
        });
        json_patch::merge(&mut section, more);
        let server = self.world.start(Some(&json!({"placement": section}))).await?;
        *self.server.borrow_mut() = Some(server);
        Ok(())
    }

    /// The replica, which is out of this struct until it is put back.
    pub(crate) fn take_server(&self) -> Result<Server> {
        self.server.take().context("no replica")
    }

    pub(crate) fn put_server(&self, server: Server) {
        *self.server.borrow_mut() = Some(server);
    }

    /// What the replica answers to `GET path`.
    pub(crate) async fn ask(&self, path: &str) -> Result<Value> {
        let server = self.take_server()?;
        let answer = server.ask(path).await;
        self.put_server(server);
        answer
    }

    /// The sum of a metric's samples whose line has all of `labels`.
    pub(crate) async fn metric(&self, name: &str, labels: &[&str]) -> Result<f64> {
        let server = self.take_server()?;
        let value = server.metric(name, labels).await;
        self.put_server(server);
        value
    }

    /// What the extender answers somebody who calls it as the scheduler does, or without a certificate. An error means
    /// that there was no answer.
    pub(crate) async fn call(&self, path: &str, body: Option<&Value>, known: bool) -> Result<(u16, Value)> {
        let mut config = Config::new(format!("https://127.0.0.1:{}", self.caller.port).parse()?);
        config.root_cert = Some(vec![self.world.authority.der().to_vec()]);
        config.tls_server_name = Some(self.caller.server_name.to_owned());
        config.default_retry = false;
        if known {
            config.auth_info.client_certificate = Some(self.caller.certificate.display().to_string());
            config.auth_info.client_key = Some(self.caller.key.display().to_string());
        }
        let request = match body {
            Some(body) => Request::post(path)
                .header("content-type", "application/json")
                .body(Body::from(body.to_string().into_bytes()))?,
            None => Request::get(path).body(Body::empty())?,
        };
        let answer = Client::try_from(config)?.send(request).await?;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into());
        Ok((code, body))
    }

    /// Only this node takes pods, until [`Placement::all_open`].
    pub(crate) async fn only_open(&self, short: &str) -> Result<()> {
        let open = self.node(short);
        for node in self.nodes.iter().filter(|node| **node != open) {
            self.cordon(node, true).await?;
        }
        Ok(())
    }

    /// All nodes take pods.
    pub(crate) async fn all_open(&self) -> Result<()> {
        for node in &self.nodes {
            self.cordon(node, false).await?;
        }
        Ok(())
    }
}

/// Puts the components of placement in force. They stay: replicas without placement do not use the rights.
async fn install(world: &World) -> Result<()> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "plimsoll-placement"},
    });
    if world.cluster.get_opt(&role).await?.is_some() {
        return Ok(());
    }
    let dir = world.folder("placement-component")?;
    let objects = install::with_components(&world.cluster, &dir, &COMPONENTS)?;
    let ca = world.authority.pem();
    let endpoint = Endpoint { host: &world.host, port: world.service.port(), ca: &ca };
    world.install_more(objects, &endpoint).await
}
