//! What is read of a `HorizontalPodAutoscaler`.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::hpa::MetricKey;
use crate::keys::{self, OPT_OUT_VALUES};
use crate::overcommit::Amount;
use crate::pod::Workload;

/// Where `autoscaling/v1` carries the metrics that it has no fields for.
const V1_METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";

/// An autoscaler, as far as its targets are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hpa {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which of all objects of that name, over time.
    pub uid: String,
    /// What it scales: `spec.scaleTargetRef`.
    pub target: Workload,
    /// The target's API version, as in `apps/v1`.
    pub target_api_version: String,
    /// `spec.minReplicas`; 1 if it is not set.
    pub min_replicas: i64,
    /// `spec.maxReplicas`.
    pub max_replicas: i64,
    /// `spec.metrics`, by index.
    pub metrics: Vec<Metric>,
    /// The annotation [`keys::HPA_ORIGINAL`].
    pub original: Option<String>,
    /// The annotation [`keys::HPA_SYNC`].
    pub sync: Option<String>,
    /// Whether the annotation [`keys::OVERCOMMIT`] opts it out.
    pub opted_out: bool,
}

/// One metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Which one, if it is of a kind that is converted.
    pub key: Option<MetricKey>,
    /// `type`; empty if there is none.
    pub type_name: String,
    /// What it is held against.
    pub target: MetricTarget,
}

/// The target of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricTarget {
    /// `averageUtilization`, in percent of the request.
    Utilization(i64),
    /// `averageValue`.
    AverageValue(Amount),
    /// Another one, or one that makes no sense.
    Other,
}

/// Why an autoscaler cannot be read. Whoever shows it says which one it is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HpaError {
    /// It has no name.
    #[error("the name is missing")]
    Nameless,
    /// It does not say what it scales.
    #[error("what is scaled is not said; kind and name are needed")]
    NoTarget,
    /// Its version is not known.
    #[error("{version:?} is not known; write autoscaling/v2 or autoscaling/v1")]
    Version {
        /// What `apiVersion` says.
        version: String,
    },
}

impl HpaError {
    /// Where in the object.
    pub const fn path(&self) -> &'static str {
        match self {
            Self::Nameless => "metadata.name",
            Self::NoTarget => "spec.scaleTargetRef",
            Self::Version { .. } => "apiVersion",
        }
    }
}

impl Hpa {
    /// Reads an autoscaler of `autoscaling/v2`, or of `v1` as the API server converts it.
    ///
    /// # Errors
    /// It has no name, no target, or another version.
    pub fn read(manifest: &Value) -> Result<Self, HpaError> {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (namespace, name) = (text("/metadata/namespace").to_owned(), text("/metadata/name").to_owned());
        if name.is_empty() && text("/metadata/generateName").is_empty() {
            return Err(HpaError::Nameless);
        }
        let metrics = match text("/apiVersion") {
            "autoscaling/v2" => Cow::Borrowed(list(manifest.pointer("/spec/metrics"))),
            "autoscaling/v1" => Cow::Owned(v1_metrics(manifest)),
            version => {
                let version = version.chars().take(80).collect();
                return Err(HpaError::Version { version });
            }
        };
        let target = manifest.pointer("/spec/scaleTargetRef").and_then(Workload::from_reference);
        let Some(target) = target.filter(|target| !target.kind.is_empty() && !target.name.is_empty()) else {
            return Err(HpaError::NoTarget);
        };
        let annotation = |key: &str| manifest.pointer("/metadata/annotations")?.get(key)?.as_str();
        let number = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_i64);
        Ok(Self {
            target,
            target_api_version: text("/spec/scaleTargetRef/apiVersion").to_owned(),
            uid: text("/metadata/uid").to_owned(),
            min_replicas: number("/spec/minReplicas").unwrap_or(1),
            max_replicas: number("/spec/maxReplicas").unwrap_or(0),
            metrics: metrics.iter().map(Metric::read).collect(),
            original: annotation(keys::HPA_ORIGINAL).map(str::to_owned),
            sync: annotation(keys::HPA_SYNC).map(str::to_owned),
            opted_out: annotation(keys::OVERCOMMIT).is_some_and(|value| OPT_OUT_VALUES.contains(&value)),
            namespace,
            name,
        })
    }

    /// The metrics that could be converted, each once.
    pub fn keys(&self) -> Vec<MetricKey> {
        let mut keys: Vec<_> = self.metrics.iter().filter_map(|metric| metric.key.clone()).collect();
        keys.sort();
        keys.dedup();
        keys
    }
}

impl Metric {
    fn read(metric: &Value) -> Self {
        let type_name = metric.get("type").and_then(Value::as_str).unwrap_or_default();
        let member = match type_name {
            "Resource" => "resource",
            "ContainerResource" => "containerResource",
            _ => return Self { key: None, type_name: type_name.to_owned(), target: MetricTarget::Other },
        };
        let source = metric.get(member);
        let text = |key: &str| source.and_then(|source| source.get(key)).and_then(Value::as_str);
        Self {
            key: MetricKey::of(type_name, text("name").unwrap_or_default(), text("container")),
            type_name: type_name.to_owned(),
            target: MetricTarget::read(source.and_then(|source| source.get("target"))),
        }
    }
}

impl MetricTarget {
    fn read(target: Option<&Value>) -> Self {
        let get = |key: &str| target.and_then(|target| target.get(key));
        match get("type").and_then(Value::as_str) {
            Some("Utilization") => {
                get("averageUtilization").and_then(Value::as_i64).map_or(Self::Other, Self::Utilization)
            }
            Some("AverageValue") => match get("averageValue") {
                Some(Value::String(text)) => Amount::parse(text).map_or(Self::Other, Self::AverageValue),
                Some(Value::Number(number)) => {
                    Amount::parse(&number.to_string()).map_or(Self::Other, Self::AverageValue)
                }
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The metrics of a `v1` autoscaler as `v2` has them: those of the annotation, then the one that has a field.
fn v1_metrics(manifest: &Value) -> Vec<Value> {
    let carried = manifest.pointer("/metadata/annotations").and_then(|map| map.get(V1_METRICS));
    let carried: Value =
        carried.and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut metrics: Vec<Value> = list(Some(&carried)).iter().map(v2_metric).collect();
    if let Some(percent) = manifest.pointer("/spec/targetCPUUtilizationPercentage").filter(|p| !p.is_null()) {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    metrics
}

/// A metric as the annotation of `v1` writes it: the target stands in members of the source.
fn v2_metric(carried: &Value) -> Value {
    let type_name = carried.get("type").and_then(Value::as_str).unwrap_or_default();
    let member = if type_name == "ContainerResource" { "containerResource" } else { "resource" };
    let Some(source) = carried.get(member) else { return carried.clone() };
    let mut target = Map::new();
    for (key, name, type_name) in [
        ("targetAverageUtilization", "averageUtilization", "Utilization"),
        ("targetAverageValue", "averageValue", "AverageValue"),
    ] {
        if let Some(value) = source.get(key).filter(|value| !value.is_null()) {
            target.insert(name.to_owned(), value.clone());
            target.insert("type".to_owned(), type_name.into());
        }
    }
    let mut into = Map::new();
    for key in ["name", "container"] {
        into.extend(source.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    into.insert("target".to_owned(), Value::Object(target));
    json!({"type": type_name, member: into})
}
