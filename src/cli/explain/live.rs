//! What of a live cluster a decision about one namespace needs.

use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, ListParams};
use plimsoll_core::admission::{AbsentNamespace, Context, Decision, Settings, explain};
use plimsoll_core::objects::{Fact, Objects, read_manifest};
use plimsoll_core::pod::{Pruned, defaulted};
use serde_json::{Map, Value};

use crate::cli::CliError;
use crate::cluster::describe;
use crate::config::Config;
use crate::profiles;

/// Where workloads are looked for, in this order: `apiVersion`, kind, plural.
const WORKLOADS: [(&str, &str, &str); 10] = [
    ("apps/v1", "Deployment", "deployments"),
    ("apps/v1", "StatefulSet", "statefulsets"),
    ("apps/v1", "DaemonSet", "daemonsets"),
    ("batch/v1", "CronJob", "cronjobs"),
    ("batch/v1", "Job", "jobs"),
    ("apps/v1", "ReplicaSet", "replicasets"),
    ("apps.kruise.io/v1alpha1", "CloneSet", "clonesets"),
    ("apps.kruise.io/v1beta1", "StatefulSet", "statefulsets"),
    ("apps.kruise.io/v1alpha1", "DaemonSet", "daemonsets"),
    ("apps.kruise.io/v1alpha1", "BroadcastJob", "broadcastjobs"),
];

const OURS: &str = "plimsoll.dev/v1alpha1";
const OURS_LISTED: &str = "/apis/plimsoll.dev/v1alpha1";

/// The objects that decide about pods of one namespace.
pub(in crate::cli) struct Live {
    client: Client,
    pub(in crate::cli) namespace: String,
    objects: Objects,
    settings: Settings,
    limit_ranges: Vec<Value>,
    /// The recommendations of the namespace, whole.
    pub(in crate::cli) recommendations: Vec<Value>,
    /// Checkpoints' metadata is not of interest to anybody here; what cannot be used is.
    pub(in crate::cli) notes: Vec<String>,
}

impl Live {
    pub(in crate::cli) async fn read(
        client: Client,
        namespace: &str,
        config: &Config,
    ) -> Result<Self, CliError> {
        let mut live = Self {
            client,
            namespace: namespace.to_owned(),
            objects: Objects::default(),
            settings: profiles::settings(config, AbsentNamespace::Unknown),
            limit_ranges: Vec::new(),
            recommendations: Vec::new(),
            notes: Vec::new(),
        };
        live.objects.set_file_profiles(profiles::of_file(config));
        let found = live.get("/api/v1/namespaces", "v1", "Namespace", namespace).await?;
        let Some(found) = found else {
            return Err(CliError::Usage(format!("there is no namespace {namespace}")));
        };
        live.put(&found);
        for profile in
            live.list(&format!("{OURS_LISTED}/overcommitprofiles"), OURS, "OvercommitProfile").await?
        {
            live.put(&profile);
        }
        let of = |group: &str, plural: &str| format!("{group}/namespaces/{namespace}/{plural}");
        let all = ListParams::default;
        let without = "their defaults and bounds are left out";
        let path = of("/api/v1", "limitranges");
        live.limit_ranges = live.list_if_allowed(&path, "v1", "LimitRange", all(), without).await?;
        let without = "what was measured is left out";
        let path = of(OURS_LISTED, "recommendations");
        live.recommendations = live.list_if_allowed(&path, OURS, "Recommendation", all(), without).await?;
        let without = "pods are taken for those of their direct owner";
        let path = of("/apis/apps/v1", "replicasets");
        let replica_sets = live.list_if_allowed(&path, "apps/v1", "ReplicaSet", all(), without).await?;
        let path = of("/apis/batch/v1", "jobs");
        let jobs = live.list_if_allowed(&path, "batch/v1", "Job", all(), without).await?;
        let all = [live.limit_ranges.clone(), live.recommendations.clone(), replica_sets, jobs];
        for object in all.iter().flatten() {
            live.put(object);
        }
        Ok(live)
    }

    fn put(&mut self, manifest: &Value) {
        match read_manifest(manifest) {
            Ok(Some(fact)) => {
                if let Fact::BrokenProfile { name, problems } = &fact {
                    let notes = problems.iter().map(|problem| format!("profile {name:?}: {problem}"));
                    self.notes.extend(notes);
                }
                self.objects.put(fact);
            }
            Ok(None) => {}
            Err(error) => self.notes.push(error.to_string()),
        }
    }

    /// A pod by its name.
    pub(in crate::cli) async fn pod(&self, name: &str) -> Result<Value, CliError> {
        let namespace = &self.namespace;
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let found = self.get(&path, "v1", "Pod", name).await?;
        found.ok_or_else(|| CliError::Usage(format!("there is no pod {namespace}/{name}")))
    }

    /// A workload by `NAME` or `KIND/NAME`.
    pub(in crate::cli) async fn workload(&self, wanted: &str) -> Result<Value, CliError> {
        let (kind, name) = wanted.split_once('/').map_or((None, wanted), |(kind, name)| (Some(kind), name));
        let fits = |candidate: &str, plural: &str| {
            kind.is_none_or(|kind| kind.eq_ignore_ascii_case(candidate) || kind.eq_ignore_ascii_case(plural))
        };
        let candidates: Vec<_> = WORKLOADS.iter().filter(|(_, kind, plural)| fits(kind, plural)).collect();
        if candidates.is_empty() {
            let mut kinds: Vec<_> = WORKLOADS.iter().map(|(_, kind, _)| *kind).collect();
            kinds.dedup();
            return Err(CliError::Usage(format!(
                "{:?} is no kind of workload that is known here; these are: {}",
                kind.unwrap_or_default(),
                kinds.join(", ")
            )));
        }
        let namespace = &self.namespace;
        let mut found = Vec::new();
        for (api_version, kind, plural) in candidates {
            let path = format!("/apis/{api_version}/namespaces/{namespace}/{plural}");
            found.extend(self.get(&path, api_version, kind, name).await?);
        }
        let kinds: Vec<_> = found.iter().filter_map(|object| object.get("kind")?.as_str()).collect();
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(CliError::Usage(format!("there is no workload {wanted} in namespace {namespace}"))),
            [..] => Err(CliError::Usage(format!(
                "{name} is the name of a {}; write KIND/{name}",
                kinds.join(" and of a ")
            ))),
        }
    }

    /// The pods of the namespace that a workload selects, whoever their owner is.
    pub(in crate::cli) async fn pods_of(&mut self, workload: &Value) -> Result<Vec<Value>, CliError> {
        let labels = workload.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
        let Some(labels) = labels.filter(|labels| !labels.is_empty()) else { return Ok(Vec::new()) };
        let selector: Vec<_> =
            labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
        let path = format!("/api/v1/namespaces/{}/pods", self.namespace);
        let parameters = ListParams::default().labels(&selector.join(","));
        self.list_if_allowed(&path, "v1", "Pod", parameters, "its pods are not counted").await
    }

    /// What the server would decide about a pod, and with `apply: false` what would become of it.
    pub(in crate::cli) fn explain(&self, pod: &Pruned<'_>) -> Decision {
        let defaulted = defaulted(pod, self.limit_ranges.iter());
        explain(pod, &self.namespace, &Context { defaulted: Some(&defaulted), ..self.context() })
    }

    pub(in crate::cli) fn context(&self) -> Context<'_> {
        Context {
            objects: &self.objects,
            settings: &self.settings,
            namespace: None,
            now: jiff::Timestamp::now(),
            defaulted: None,
        }
    }

    pub(in crate::cli) const fn objects(&self) -> &Objects {
        &self.objects
    }

    /// An object by the path of its collection, if it is there.
    pub(in crate::cli) async fn get(
        &self,
        path: &str,
        api_version: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<Value>, CliError> {
        let request = Request::new(path).get(name, &GetParams::default()).map_err(kube::Error::BuildRequest);
        let answer = match request {
            Ok(request) => self.client.request::<Value>(request).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(object) => Ok(Some(typed(object, api_version, kind))),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(failed(&error, &format!("get {kind} {name}"))),
        }
    }

    async fn list(&self, path: &str, api_version: &str, kind: &str) -> Result<Vec<Value>, CliError> {
        self.list_with(path, api_version, kind, ListParams::default()).await
    }

    /// The same of what an answer can do without: where it is forbidden, the answer says what is missing in it.
    async fn list_if_allowed(
        &mut self,
        path: &str,
        api_version: &str,
        kind: &str,
        parameters: ListParams,
        without: &str,
    ) -> Result<Vec<Value>, CliError> {
        match self.try_list(path, api_version, kind, parameters).await {
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let group =
                    api_version.rsplit_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
                let plural = path.rsplit('/').next().unwrap_or_default();
                self.notes.push(format!(
                    "list {kind} in {}: not allowed; you lack the right to list on {plural}{group}; {without}",
                    self.namespace
                ));
                Ok(Vec::new())
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(failed(&error, &format!("list {kind}"))),
            Ok(list) => Ok(list),
        }
    }

    async fn list_with(
        &self,
        path: &str,
        api_version: &str,
        kind: &str,
        parameters: ListParams,
    ) -> Result<Vec<Value>, CliError> {
        match self.try_list(path, api_version, kind, parameters).await {
            Ok(list) => Ok(list),
            // The CRD is not installed.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(failed(&error, &format!("list {kind}"))),
        }
    }

    /// A collection, where it matters that it is not there.
    pub(in crate::cli) async fn try_list(
        &self,
        path: &str,
        api_version: &str,
        kind: &str,
        parameters: ListParams,
    ) -> Result<Vec<Value>, kube::Error> {
        let request = Request::new(path).list(&parameters).map_err(kube::Error::BuildRequest)?;
        let mut list = self.client.request::<Value>(request).await?;
        let items = list.get_mut("items").map(Value::take);
        let Some(Value::Array(items)) = items else { return Ok(Vec::new()) };
        Ok(items.into_iter().map(|item| typed(item, api_version, kind)).collect())
    }
}

fn failed(error: &kube::Error, what: &str) -> CliError {
    anyhow::anyhow!("{what}: {}", describe(error)).into()
}

/// Items of lists come without their type.
fn typed(mut object: Value, api_version: &str, kind: &str) -> Value {
    if let Some(map) = object.as_object_mut() {
        let mut with_type = Map::new();
        with_type.insert("apiVersion".to_owned(), api_version.into());
        with_type.insert("kind".to_owned(), kind.into());
        for (key, value) in with_type {
            map.entry(key).or_insert(value);
        }
    }
    object
}
