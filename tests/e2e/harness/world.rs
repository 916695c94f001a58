//! Everything a scenario has at hand, shared by all scenarios of a run.

use std::cell::{Cell, RefCell};
use std::env;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};

use super::certificates::{Authority, MountedSecret};
use super::cluster::{Cluster, Refused};
use super::control_plane::{ControlPlane, Others};
use super::install::{self, Endpoint, NAMESPACE, SERVER_NAME};
use super::metrics_server::{self, MetricsServer};
use super::objects::{app, cpu, named, pod, profile};
use super::playground::Playground;
use super::scheduler;
use super::server::{Server, ServerSetup, kubeconfig_of};
use super::service::Service;
use super::tools::{self, Kubectl};
use super::until;

/// The label by which a scenario's profile finds its namespace.
pub(crate) const SCENARIO: &str = "plimsoll.dev/e2e";

/// A scenario that cannot run here; it is not counted as failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unsuited(&'static str);

/// metrics-server, from the first scenario on that asks for it.
#[derive(Default)]
struct Usage {
    setup: Option<metrics_server::Setup>,
    server: Option<MetricsServer>,
}

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) service: Service,
    pub(crate) setup: ServerSetup,
    /// Issues the certificates of the server and of other webhooks.
    pub(crate) authority: Authority,
    /// The replica that is there unless a scenario says otherwise.
    pub(crate) server: Mutex<Option<Server>>,
    /// Where the API server finds this machine, and where to listen for it.
    pub(crate) host: String,
    pub(crate) listen: Ipv4Addr,
    control_plane: RefCell<Option<ControlPlane>>,
    usage: Mutex<Usage>,
    playground: OnceCell<Playground>,
    installed: RefCell<Vec<Value>>,
    /// To be removed after the scenario, last first.
    litter: RefCell<Vec<Value>>,
    started: Cell<u32>,
    dir: PathBuf,
}

impl World {
    pub(crate) async fn create() -> Result<Self> {
        let dir =
            Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("e2e").join(std::process::id().to_string());
        fs::create_dir_all(&dir)?;
        let (control_plane, cluster) = control_plane(&dir).await?;
        let host = env::var("PLIMSOLL_E2E_HOST").unwrap_or_else(|_| "localhost".into());
        let listen = if host == "localhost" { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
        let authority = Authority::new("plimsoll-e2e")?;
        let service = Service::listen(listen).await?;
        let tls = MountedSecret::create(dir.join("tls"), &authority.issue_serving(&[SERVER_NAME], 1)?)?;
        let ca = authority.pem();
        let endpoint = Endpoint { host: &host, port: service.port(), ca: &ca };
        let installed = install::install(&cluster, &endpoint).await.context("install webhook-config/base")?;
        let kubeconfig = dir.join("plimsoll.kubeconfig");
        server_kubeconfig(&cluster, &kubeconfig).context("make the server's kubeconfig")?;
        let setup = ServerSetup { dir: dir.clone(), kubeconfig, tls };
        Ok(Self {
            cluster,
            service,
            setup,
            authority,
            server: Mutex::default(),
            host,
            listen,
            control_plane: RefCell::new(control_plane),
            usage: Mutex::default(),
            playground: OnceCell::new(),
            installed: RefCell::new(installed),
            litter: RefCell::default(),
            started: Cell::default(),
            dir,
        })
    }

    /// Starts a replica under a name of its own, and waits until it gets connections.
    pub(crate) async fn start_server(&self) -> Result<Server> {
        self.start(None).await
    }

    /// [`World::start_server`], with recommendations as often as the checks allow and with `more` in the section
    /// `recommender` of its configuration.
    pub(crate) async fn start_recommender(&self, more: &Value) -> Result<Server> {
        let mut section = json!({"enabled": true, "scanInterval": "1s", "checkpointInterval": "10s"});
        json_patch::merge(&mut section, more);
        self.start(Some(&json!({"recommender": section}))).await
    }

    /// [`World::start_server`] with further sections of its configuration.
    pub(crate) async fn start(&self, more: Option<&Value>) -> Result<Server> {
        let number = self.started.replace(self.started.get() + 1);
        let name = format!("server-{number}");
        let mut server = Server::start(&self.setup, &self.service, &name, more)?;
        server.routed().await?;
        Ok(server)
    }

    /// A second control plane, for what is installed as people install it; from the first scenario on that asks for it.
    pub(crate) async fn playground(&self) -> Result<&Playground> {
        if self.control_plane.borrow().is_none() {
            return Err(Unsuited("pods run as processes beside our own control plane only").into());
        }
        let start = async || Playground::start(&tools::control_plane()?, &self.dir.join("playground")).await;
        self.playground.get_or_try_init(start).await
    }

    /// A folder of the scenario's own, for files.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir)?;
        Ok(dir)
    }

    /// Usage is served from now on (`metrics.k8s.io`); see [`metrics_server`] for what pods use. It stays for the
    /// scenarios that follow. A cluster of somebody else has usage of its own: scenarios that need to set it are not
    /// for that.
    pub(crate) async fn metrics_server(&self) -> Result<()> {
        let mut usage = self.usage.lock().await;
        if usage.setup.is_none() {
            let control_plane = self.control_plane.borrow();
            let Some(control_plane) = control_plane.as_ref() else {
                return Err(Unsuited("only kwok lets a test say what pods use").into());
            };
            let setup =
                metrics_server::Setup::new(control_plane.bin(), control_plane.kubeconfig(), &self.dir)?;
            usage.setup = Some(setup);
        }
        let Usage { setup: Some(setup), server } = &mut *usage else { return Ok(()) };
        if let Some(server) = server {
            return server.check();
        }
        *server = Some(setup.start(&self.cluster).await?);
        Ok(())
    }

    /// What a scheduler of the scenario's own needs. Nodes of somebody else's cluster cannot be had to oneself.
    pub(crate) fn scheduler_setup(&self) -> Result<scheduler::Setup> {
        match self.control_plane.borrow().as_ref() {
            Some(control_plane) => Ok(control_plane.scheduler_setup()),
            None => Err(Unsuited("a second scheduler is started beside our own control plane only").into()),
        }
    }

    /// Where metrics-server is asked directly.
    pub(crate) async fn usage_url(&self) -> Result<String> {
        let usage = self.usage.lock().await;
        Ok(usage.setup.as_ref().context("no metrics-server")?.url())
    }

    /// metrics-server dies; the API server says that usage is not available until [`World::metrics_server`] is
    /// called again.
    pub(crate) async fn stop_metrics_server(&self) {
        drop(self.usage.lock().await.server.take());
    }

    /// What each scenario starts from: a control plane that lives and one replica.
    pub(crate) async fn before(&self) -> Result<()> {
        if let Some(control_plane) = self.control_plane.borrow_mut().as_mut() {
            control_plane.check()?;
        }
        let mut server = self.server.lock().await;
        let alive = server.as_mut().is_some_and(|server| server.check().is_ok());
        if !alive {
            *server = Some(self.start_server().await?);
        }
        Ok(())
    }

    /// Removes what the scenario left.
    pub(crate) async fn after(&self) -> Result<()> {
        let litter = self.litter.take();
        for object in litter.iter().rev() {
            self.cluster.delete(object).await?;
        }
        Ok(())
    }

    /// Makes as if no replica had ever led: who starts next need not wait for a lease that nobody gave back.
    pub(crate) async fn forget_leases(&self) -> Result<()> {
        for lease in self.cluster.list("coordination.k8s.io/v1", "Lease", Some(NAMESPACE), "").await? {
            self.cluster.delete(&named("coordination.k8s.io/v1", "Lease", &lease)).await?;
        }
        Ok(())
    }

    /// Ends everything. The folder stays if something failed, for a look at the logs.
    pub(crate) async fn close(self, failed: bool) -> Result<()> {
        drop(self.server.lock().await.take());
        self.stop_metrics_server().await;
        drop(self.playground.into_inner());
        if self.control_plane.borrow().is_none() {
            // Somebody else's cluster is left as it was found.
            for object in self.installed.take().iter().rev() {
                self.cluster.delete(object).await?;
            }
        }
        drop(self.control_plane.borrow_mut().take());
        if failed {
            eprintln!("logs: {}", self.dir.display());
        } else {
            fs::remove_dir_all(&self.dir)?;
        }
        Ok(())
    }

    /// The end of the replica's log.
    pub(crate) async fn server_log(&self) -> String {
        self.server.lock().await.as_ref().map(Server::tail).unwrap_or_default()
    }

    /// Creates an object that is removed after the scenario.
    pub(crate) async fn create_for_now(&self, object: &Value) -> Result<Value> {
        // Before the call: one that fails half way may have created it.
        self.litter.borrow_mut().push(object.clone());
        self.cluster.create(object).await
    }

    /// Has an object removed after the scenario that it creates by other ways.
    pub(crate) fn remove_later(&self, object: Value) {
        self.litter.borrow_mut().push(object);
    }

    /// Puts the webhook configuration of another folder in force, or that of the base again.
    pub(crate) async fn webhook_from(&self, folder: &str) -> Result<()> {
        let ca = self.authority.pem();
        let endpoint = Endpoint { host: &self.host, port: self.service.port(), ca: &ca };
        install::reinstall_webhook(&self.cluster, &endpoint, folder).await
    }

    /// Installs these objects too, until the end of the run.
    pub(crate) async fn install_more(&self, objects: Vec<Value>, endpoint: &Endpoint<'_>) -> Result<()> {
        let more = install::apply(&self.cluster, endpoint, objects).await?;
        let mut installed = self.installed.borrow_mut();
        for object in more {
            let is =
                |there: &Value| there["kind"] == object["kind"] && there["metadata"] == object["metadata"];
            if !installed.iter().any(is) {
                installed.push(object);
            }
        }
        Ok(())
    }

    /// A namespace of the scenario's own, with the label `SCENARIO: name`.
    pub(crate) async fn namespace(&self, name: &str) -> Result<String> {
        self.namespace_with(name, &json!({})).await
    }

    /// [`World::namespace`] with more of `metadata`.
    pub(crate) async fn namespace_with(&self, name: &str, metadata: &Value) -> Result<String> {
        let full = format!("e2e-{name}-{}", std::process::id());
        let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        namespace["metadata"]["name"] = full.clone().into();
        namespace["metadata"]["labels"][SCENARIO] = name.into();
        self.create_namespace(&namespace).await?;
        Ok(full)
    }

    /// Creates a namespace together with the service account that its pods need, which a controller would make a
    /// little later.
    pub(crate) async fn create_namespace(&self, namespace: &Value) -> Result<()> {
        self.create_for_now(namespace).await?;
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": namespace["metadata"]["name"]},
        });
        match self.cluster.create(&account).await {
            Err(error) if error.downcast_ref::<Refused>().is_some_and(|refused| refused.code == 409) => {
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// A profile for the namespaces labelled `SCENARIO: name`, with `more` merged into its spec. It is created, but
    /// the server may not have seen it yet.
    pub(crate) async fn profile(&self, name: &str, more: &Value) -> Result<Value> {
        let mut spec = json!({
            "match": {"namespaceSelector": {"matchLabels": {SCENARIO: name}}},
            "mode": "Static",
            "static": {"factors": {"cpu": "0.5"}},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            match (&mut spec[key], value) {
                (Value::Object(old), Value::Object(new)) => old.extend(new.clone()),
                (old, new) => *old = new.clone(),
            }
        }
        let object = profile(&format!("e2e-{name}"), &spec);
        self.create_for_now(&object).await?;
        Ok(object)
    }

    /// A namespace whose pods get half their CPU, from now on.
    pub(crate) async fn halved(&self, name: &str) -> Result<String> {
        let namespace = self.namespace(name).await?;
        self.profile(name, &json!({})).await?;
        self.lowers(&namespace, "500m").await?;
        Ok(namespace)
    }

    /// Waits until a pod with CPU 1 would be admitted in `namespace` with the CPU request `want`.
    pub(crate) async fn lowers(&self, namespace: &str, want: &str) -> Result<()> {
        until(format!("a pod in {namespace} to get cpu {want} of 1"), async || {
            let seen = self.cluster.create_dry(&pod(namespace, "probe", &[app()])).await?;
            ensure!(cpu(&seen, "app")? == want, "it gets {}", cpu(&seen, "app")?);
            Ok(Some(()))
        })
        .await
    }
}

/// The cluster of KUBECONFIG, else a new one.
async fn control_plane(dir: &Path) -> Result<(Option<ControlPlane>, Cluster)> {
    if let Some(kubeconfig) =
        env::var_os("KUBECONFIG").map(PathBuf::from).filter(|path| !path.as_os_str().is_empty())
    {
        eprintln!("using the cluster of {}", kubeconfig.display());
        let kubectl = tools::control_plane().map_or_else(|_| "kubectl".into(), |bin| bin.join("kubectl"));
        let cluster = Cluster::connect(&kubeconfig, Kubectl::new(kubectl, kubeconfig.clone())).await?;
        let ours = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "plimsoll"},
        });
        ensure!(
            cluster.get_opt(&ours).await?.is_none(),
            "plimsoll is installed in the cluster of KUBECONFIG; the tests would replace it: uninstall it first"
        );
        return Ok((None, cluster));
    }
    let (control_plane, cluster) =
        ControlPlane::start(&tools::control_plane()?, &dir.join("cluster"), &Others::default()).await?;
    eprintln!("control plane ready: KUBECONFIG={}", control_plane.kubeconfig().display());
    Ok((Some(control_plane), cluster))
}

/// The server gets its own service account's rights and no more: a missing verb in the manifests fails here.
fn server_kubeconfig(cluster: &Cluster, file: &Path) -> Result<()> {
    let token = cluster
        .kubectl
        .run(["create", "token", "plimsoll", "--namespace", NAMESPACE, "--duration=8h"], None)?;
    let admin =
        cluster.kubectl.run(["config", "view", "--raw", "--minify", "--flatten", "-o", "json"], None)?;
    kubeconfig_of(&serde_json::from_str(&admin)?, token.trim(), file)
}
