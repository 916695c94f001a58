//! An autoscaler, what it scales, and what is measured: of a cluster, or of files.

use jiff::Timestamp;
use kube::Client;
use kube::core::params::ListParams;
use plimsoll_core::admission::Context as Decisions;
use plimsoll_core::hpa::controller::PodUsage;
use plimsoll_core::hpa::{Hpa, Shape, WorkloadFacts};
use serde_json::{Value, json};

use crate::cli::CliError;
use crate::cli::explain::live::Live;
use crate::cluster::describe;
use crate::config::Config;
use crate::input;
use crate::kinds;
use crate::offline::{ClusterArgs, Offline};

/// Everything that is known.
pub(super) struct World {
    cluster: Cluster,
    /// The autoscaler as it stands.
    pub(super) manifest: Value,
    pub(super) hpa: Hpa,
    /// `spec.replicas` of the target.
    pub(super) replicas: i32,
    /// What its template makes, if it has one.
    pub(super) template: Option<Shape>,
    /// The pods that its selector finds.
    pub(super) pods: Vec<Value>,
    /// What is measured; or why nothing is.
    pub(super) usages: Result<Vec<PodUsage>, String>,
    pub(super) now: Timestamp,
    pub(super) notes: Vec<String>,
}

enum Cluster {
    Live(Box<Live>),
    Files(Box<Offline>),
}

impl World {
    pub(super) fn context(&self) -> Decisions<'_> {
        match &self.cluster {
            Cluster::Live(live) => live.context(),
            Cluster::Files(files) => files.context(),
        }
    }

    /// What an API server knows.
    pub(super) async fn live(
        client: Client,
        namespace: &str,
        name: &str,
        config: &Config,
    ) -> Result<Self, CliError> {
        let live = Live::read(client, namespace, config).await?;
        let path = format!("/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers");
        let manifest = live.get(&path, "autoscaling/v2", "HorizontalPodAutoscaler", name).await?;
        let manifest = manifest.ok_or_else(|| no_hpa(namespace, name))?;
        let hpa = read(&manifest)?;
        let (workload, scale) = target(&live, &hpa).await?;
        let selector = scale.pointer("/status/selector").and_then(Value::as_str).unwrap_or_default();
        if selector.is_empty() {
            let what = target_name(&hpa);
            return Err(undecided(&format!("the scale of its target {what} has no status.selector")));
        }
        let selected = || ListParams::default().labels(selector);
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let pods = live
            .try_list(&pods, "v1", "Pod", selected())
            .await
            .map_err(|error| CliError::Runtime(anyhow::anyhow!("list Pod: {}", describe(&error))))?;
        let measured = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
        let usages = match live.try_list(&measured, "metrics.k8s.io/v1beta1", "PodMetrics", selected()).await
        {
            Ok(list) => Ok(list.iter().filter_map(PodUsage::read).collect()),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                Err("metrics.k8s.io is not served; is metrics-server installed?".to_owned())
            }
            Err(error) => Err(format!("metrics.k8s.io: {}", describe(&error))),
        };
        let now = Timestamp::now();
        let notes = live.notes.clone();
        Ok(Self {
            cluster: Cluster::Live(Box::new(live)),
            // Go leaves a 0 out.
            replicas: replicas(&scale).unwrap_or(0),
            template: Shape::of_template(&workload),
            manifest,
            hpa,
            pods,
            usages,
            now,
            notes,
        })
    }

    /// What files say. `namespace` is that of the autoscaler, and of manifests that name none.
    pub(super) fn of_files(
        args: &ClusterArgs,
        namespace: &str,
        name: &str,
        config: &Config,
    ) -> Result<Self, CliError> {
        let mut documents = input::read_all(&args.objects)?;
        let in_namespaces =
            |document: &&mut input::Document| !kinds::is_cluster_scoped(text(&document.value, "/kind"));
        for document in documents.iter_mut().filter(in_namespaces) {
            if let Some(Value::Object(metadata)) = document.value.get_mut("metadata") {
                metadata.entry("namespace").or_insert_with(|| json!(namespace));
            }
        }
        let of = |group: &str, kind: &str| {
            let (group, kind) = (group.to_owned(), kind.to_owned());
            documents.iter().map(|document| &document.value).filter(move |object| {
                text(object, "/kind") == kind
                    && group_of(text(object, "/apiVersion")) == group
                    && text(object, "/metadata/namespace") == namespace
            })
        };
        let named = |object: &&Value, name: &str| text(object, "/metadata/name") == name;
        let manifest = of("autoscaling", "HorizontalPodAutoscaler").find(|object| named(object, name));
        let manifest = manifest.ok_or_else(|| no_hpa(namespace, name))?.clone();
        let hpa = read(&manifest)?;
        let workload = of(&hpa.target.group, &hpa.target.kind).find(|object| named(object, &hpa.target.name));
        let workload = workload.ok_or_else(|| {
            undecided(&format!("its target {} is not among the objects", target_name(&hpa)))
        })?;
        let selector = WorkloadFacts::read(workload).and_then(|facts| facts.selector).ok_or_else(|| {
            undecided(&format!("its target {} has no selector that can be read", target_name(&hpa)))
        })?;
        let pods = of("", "Pod").filter(|pod| Shape::of_pod(pod).selected_by(&selector)).cloned().collect();
        let usages: Vec<PodUsage> = of("metrics.k8s.io", "PodMetrics").filter_map(PodUsage::read).collect();
        let usages =
            if usages.is_empty() { Err("the objects have no PodMetrics".to_owned()) } else { Ok(usages) };
        let (template, replicas) = (Shape::of_template(workload), replicas(workload).unwrap_or(1));
        let files = Offline::of(documents, args.at, config);
        if !files.unreadable.is_empty() {
            return Err(CliError::Usage(files.unreadable.join("\n")));
        }
        let (now, notes) = (files.context().now, files.notes.clone());
        Ok(Self {
            cluster: Cluster::Files(Box::new(files)),
            manifest,
            hpa,
            replicas,
            template,
            pods,
            usages,
            now,
            notes,
        })
    }
}

/// The target and its scale, as the controller finds them: the kind's plural by discovery, then the subresource.
async fn target(live: &Live, hpa: &Hpa) -> Result<(Value, Value), CliError> {
    let version = match hpa.target_api_version.as_str() {
        "" => "v1",
        version => version,
    };
    let (root, of) = version
        .rsplit_once('/')
        .map_or_else(|| ("/api".to_owned(), version), |(group, version)| (format!("/apis/{group}"), version));
    let discovered = live.get(&root, "v1", "APIResourceList", of).await?;
    let resources = discovered.as_ref().and_then(|list| list.get("resources")?.as_array());
    let plural = resources.into_iter().flatten().find_map(|resource| {
        let name = text(resource, "/name");
        (text(resource, "/kind") == hpa.target.kind && !name.contains('/')).then_some(name)
    });
    let what = target_name(hpa);
    let plural = plural.ok_or_else(|| {
        undecided(&format!("the cluster has no kind {} of {version}, which it shall scale", hpa.target.kind))
    })?;
    let collection = format!("{root}/{of}/namespaces/{}/{plural}", hpa.namespace);
    let workload = live.get(&collection, version, &hpa.target.kind, &hpa.target.name).await?;
    let workload = workload.ok_or_else(|| undecided(&format!("its target {what} is not there")))?;
    let object = format!("{collection}/{}", hpa.target.name);
    let scale = live.get(&object, "autoscaling/v1", "Scale", "scale").await?;
    let scale = scale.ok_or_else(|| undecided(&format!("its target {what} has no scale subresource")))?;
    Ok((workload, scale))
}

/// What an autoscaler scales, in words.
pub(super) fn target_name(hpa: &Hpa) -> String {
    format!("{} {}/{}", hpa.target.kind, hpa.namespace, hpa.target.name)
}

fn read(manifest: &Value) -> Result<Hpa, CliError> {
    Hpa::read(manifest).map_err(|error| CliError::Usage(error.to_string()))
}

fn no_hpa(namespace: &str, name: &str) -> CliError {
    CliError::Usage(format!("there is no HorizontalPodAutoscaler {namespace}/{name}"))
}

fn undecided(why: &str) -> CliError {
    CliError::Usage(format!("the controller cannot decide: {why}"))
}

fn replicas(scale: &Value) -> Option<i32> {
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64);
    replicas.map(|replicas| i32::try_from(replicas).unwrap_or(i32::MAX))
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
