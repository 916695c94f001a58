//! A control plane in which Plimsoll is installed as people install it: by helm, or by `kubectl apply -k`.
//!
//! No object is changed on the way. What the pods of its namespaces say runs as processes (see [`super::pods`]), and the
//! API server reaches them by their Services (see [`super::network`]).

use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::control_plane::{ControlPlane, Others};
use super::helm::{CHART, Helm};
use super::install::NAMESPACE;
use super::net::Forward;
use super::network::Network;
use super::objects::{app, cpu, pod, profile};
use super::pods::{Pods, ready};
use super::until;

/// The namespaces whose pods run: that of the manifests, and one for a release that is somewhere else.
const INSTALLED_IN: [&str; 2] = [NAMESPACE, "elsewhere"];
/// The label by which a scenario's profile finds its namespace. Our own labels are looked for after a removal.
const GROUP: &str = "e2e/group";

pub(crate) struct Playground {
    // Dropped in this order: pods before the API server.
    pub(crate) pods: Pods,
    pub(crate) helm: Helm,
    pub(crate) cluster: Cluster,
    control_plane: ControlPlane,
    pub(crate) dir: PathBuf,
}

impl Playground {
    pub(crate) async fn start(bin: &Path, dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir.join("pods"))?;
        let network = Network::listen()?;
        let others = Others { untouched: &INSTALLED_IN, egress: Some(network.socket()) };
        let (control_plane, cluster) = ControlPlane::start(bin, &dir.join("cluster"), &others).await?;
        network.connect(&cluster);
        let helm = Helm::new(bin, control_plane.kubeconfig(), dir)?;
        let pods = Pods::play(&cluster, network.pods(), &INSTALLED_IN, &dir.join("pods"))?;
        eprintln!(
            "control plane for installations ready: KUBECONFIG={}",
            control_plane.kubeconfig().display()
        );
        Ok(Self { pods, helm, cluster, control_plane, dir: dir.to_owned() })
    }

    /// The folder of the control plane's programs.
    pub(crate) fn bin(&self) -> &Path {
        self.control_plane.bin()
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        self.control_plane.kubeconfig()
    }

    /// `helm upgrade --install` of this repository's chart with these values (`key=value`), until all is ready.
    pub(crate) async fn release(&self, values: &[&str]) -> Result<String> {
        self.release_of(CHART, values).await
    }

    /// [`Playground::release`] of another chart.
    pub(crate) async fn release_of(&self, chart: &str, values: &[&str]) -> Result<String> {
        let mut args = vec!["upgrade", "--install", "plimsoll", chart, "--namespace", NAMESPACE];
        args.extend(["--create-namespace", "--wait", "--timeout", "240s"]);
        args.extend(values.iter().flat_map(|value| ["--set", value]));
        self.helm.run(&args).await.with_context(|| self.pods.last_words())
    }

    /// Nothing is installed, however it was installed before.
    pub(crate) async fn clear(&self) -> Result<()> {
        for profile in self.profiles().await? {
            self.cluster.delete(&profile).await?;
        }
        let releases: Vec<Value> =
            serde_json::from_str(&self.helm.run(&["list", "-A", "-o", "json"]).await?)?;
        for release in &releases {
            let [name, namespace] =
                [&release["name"], &release["namespace"]].map(|v| v.as_str().unwrap_or_default());
            self.helm.run(&["uninstall", name, "--namespace", namespace, "--wait"]).await?;
        }
        // Where a scenario was cut short, this is what the program's own way out is for.
        self.plimsoll(&["uninstall"]).await?;
        for (version, kind) in CLUSTER_WIDE {
            for object in self.cluster.list(version, kind, None, "app.kubernetes.io/name=plimsoll").await? {
                self.cluster.delete(&super::objects::named(version, kind, &object)).await?;
            }
        }
        for namespace in INSTALLED_IN {
            self.remove_namespace(namespace).await?;
        }
        Ok(())
    }

    pub(crate) async fn profiles(&self) -> Result<Vec<Value>> {
        // Without the CRD there are none.
        let all = self
            .cluster
            .list("plimsoll.dev/v1alpha1", "OvercommitProfile", None, "")
            .await
            .unwrap_or_default();
        Ok(all
            .iter()
            .map(|one| super::objects::named("plimsoll.dev/v1alpha1", "OvercommitProfile", one))
            .collect())
    }

    /// Deletes a namespace, and waits until it is gone.
    pub(crate) async fn remove_namespace(&self, name: &str) -> Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.cluster.delete(&namespace).await?;
        until(format!("the end of the namespace {name}"), async || {
            let Some(there) = self.cluster.get_opt(&namespace).await? else { return Ok(Some(())) };
            bail!("{}", there["status"])
        })
        .await
    }

    /// `kubectl VERB -k FOLDER`.
    pub(crate) async fn kustomize(&self, verb: &str, folder: &str) -> Result<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let folder = folder.display().to_string();
        // What `plimsoll uninstall` has deleted is not there any more.
        let more: &[&str] = if verb == "delete" { &["--ignore-not-found"] } else { &[] };
        self.kubectl(&[&[verb, "-k", &folder], more].concat()).await
    }

    pub(crate) async fn rolled_out(&self) -> Result<()> {
        let args = ["rollout", "status", "deployment/plimsoll", "--namespace", NAMESPACE, "--timeout=180s"];
        self.kubectl(&args).await.map(drop).with_context(|| self.pods.last_words())
    }

    /// [`super::tools::Kubectl::run`], while other things go on.
    pub(crate) async fn kubectl(&self, args: &[&str]) -> Result<String> {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        let kubectl = self.cluster.kubectl.clone();
        tokio::task::spawn_blocking(move || kubectl.run(args, None)).await?
    }

    /// [`super::tools::Kubectl::plimsoll`], while other things go on.
    pub(crate) async fn plimsoll(&self, args: &[&str]) -> Result<String> {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        let kubectl = self.cluster.kubectl.clone();
        tokio::task::spawn_blocking(move || {
            kubectl.plimsoll(&args.iter().map(String::as_str).collect::<Vec<_>>())
        })
        .await?
    }

    /// What `plimsoll status` says of the cluster, or of the server at this address only.
    pub(crate) async fn status(&self, server: Option<SocketAddr>) -> Result<Look> {
        let kubectl = self.cluster.kubectl.clone();
        // The server answers only who calls it by the name of this machine.
        let forward = match server {
            Some(address) => Some(Forward::to(address).await?),
            None => None,
        };
        let server = forward.as_ref().map(|forward| format!("http://{}", forward.address));
        let said = tokio::task::spawn_blocking(move || {
            let more = server.iter().flat_map(|server| ["--server", server]);
            kubectl.attempt(&["status", "-o", "json"].into_iter().chain(more).collect::<Vec<_>>())
        })
        .await??;
        let healthy = match said.code {
            Some(0) => true,
            Some(1) => false,
            _ => bail!("plimsoll status: {said:?}"),
        };
        let look = Look(serde_json::from_str(&said.stdout).with_context(|| format!("{said:?}"))?);
        ensure!(healthy == (look.0["state"] == "Healthy"), "the exit code says something else: {said:?}");
        Ok(look)
    }

    /// A namespace of this name whose pods get half their CPU by a profile. Both may be there already.
    pub(crate) async fn halved(&self, name: &str) -> Result<()> {
        self.namespace(name).await?;
        let spec = json!({
            "match": {"namespaceSelector": {"matchLabels": {GROUP: name}}},
            "mode": "Static",
            "static": {"factors": {"cpu": "0.5"}},
        });
        until("a profile to be taken", async || self.cluster.apply(&profile(name, &spec)).await.map(Some))
            .await
            .map(drop)
    }

    /// A namespace of this name, with the service account that its pods need.
    pub(crate) async fn namespace(&self, name: &str) -> Result<()> {
        for object in [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {GROUP: name}}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}),
        ] {
            self.cluster.apply(&object).await?;
        }
        Ok(())
    }

    /// Waits until a pod with CPU 1 would be admitted in `namespace` with the CPU request `want`.
    pub(crate) async fn lowers(&self, namespace: &str, want: &str) -> Result<()> {
        until(format!("a pod to get cpu {want} of 1"), async || {
            let seen = self.cluster.create_dry(&pod(namespace, "probe", &[app()])).await?;
            ensure!(cpu(&seen, "app")? == want, "it gets {}", cpu(&seen, "app")?);
            Ok(Some(()))
        })
        .await
        .with_context(|| self.pods.last_words())
    }

    /// The replicas that are ready.
    pub(crate) async fn replicas(&self) -> Result<Vec<Value>> {
        ready(&self.cluster, NAMESPACE).await
    }

    /// An object of the cluster.
    pub(crate) async fn read(&self, version: &str, kind: &str, name: &str) -> Result<Value> {
        self.cluster.get(&json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}})).await
    }

    /// Every object of the cluster in which our name occurs: `kind namespace/name: where`.
    pub(crate) async fn leftovers(&self) -> Result<Vec<String>> {
        let kinds =
            self.kubectl(&["api-resources", "--verbs=list", "--output=name", "--cached=false"]).await?;
        // What happened stays for an hour, whatever happened.
        let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
        ensure!(kinds.len() > 30, "only these can be listed: {kinds:?}");
        let text = self.kubectl(&["get", &kinds.join(","), "--all-namespaces", "--output=json"]).await?;
        let all: Value = serde_json::from_str(&text)?;
        let mut found = Vec::new();
        for object in all["items"].as_array().into_iter().flatten() {
            let metadata = &object["metadata"];
            let [name, namespace] =
                [&metadata["name"], &metadata["namespace"]].map(|v| v.as_str().unwrap_or_default());
            let kind = object["kind"].as_str().unwrap_or_default();
            let mut object = object.clone();
            // Who wrote what once stays as long as the object.
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("managedFields");
            }
            if let Some(place) = mention(&object, "") {
                found.push(format!("{kind} {namespace}/{name}: {place}"));
            }
        }
        Ok(found)
    }
}

/// An answer of `plimsoll status`.
#[derive(Debug)]
pub(crate) struct Look(Value);

impl Look {
    /// How everything is together.
    pub(crate) fn state(&self) -> &str {
        self.0["state"].as_str().unwrap_or_default()
    }

    /// How a part is, and what is wrong with it.
    pub(crate) fn part(&self, name: &str) -> Result<(&str, String)> {
        let mut parts = self.0["parts"].as_array().into_iter().flatten();
        let part = parts.find(|part| part["part"] == name).with_context(|| format!("no {name}: {self}"))?;
        let problems = part["problems"].as_array().into_iter().flatten();
        let problems: Vec<&str> = problems.filter_map(Value::as_str).collect();
        Ok((part["state"].as_str().unwrap_or_default(), problems.join("\n")))
    }
}

impl Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0["parts"])
    }
}

/// What is ours and in no namespace.
const CLUSTER_WIDE: [(&str, &str); 5] = [
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
];

/// Where our name occurs in an object.
fn mention(value: &Value, path: &str) -> Option<String> {
    const NAMES: [&str; 2] = ["plimsoll", "elasticquotatree"];
    let is_ours = |text: &str| NAMES.iter().any(|name| text.to_lowercase().contains(name));
    match value {
        Value::String(text) if is_ours(text) => Some(format!("{path}: {text:?}")),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| mention(item, &format!("{path}/{index}")))
        }
        Value::Object(fields) => fields.iter().find_map(|(key, field)| {
            let path = format!("{path}/{key}");
            if is_ours(key) { Some(path) } else { mention(field, &path) }
        }),
        _ => None,
    }
}
