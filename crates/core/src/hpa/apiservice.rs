//! How an `APIService` comes to point at us, and back.
//!
//! `v1beta1.metrics.k8s.io` is metrics-server's. It is taken over only from the Service that we ask for the true values,
//! and what stood there is kept in an annotation on it, so that it can be put back without knowing more.

use std::fmt;

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::keys;

/// Annotations by which cert-manager writes `caBundle`. One that was meant for another Service would overwrite ours.
const INJECTIONS: [&str; 3] =
    [INJECT_CA_FROM, "cert-manager.io/inject-ca-from-secret", "cert-manager.io/inject-apiserver-ca"];
/// The one that we write ourselves.
const INJECT_CA_FROM: &str = "cert-manager.io/inject-ca-from";

/// A group of metrics that we can answer for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsGroup {
    /// `metrics.k8s.io`
    Metrics,
    /// `custom.metrics.k8s.io`
    Custom,
    /// `external.metrics.k8s.io`
    External,
}

impl MetricsGroup {
    /// The name of the group.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metrics => "metrics.k8s.io",
            Self::Custom => "custom.metrics.k8s.io",
            Self::External => "external.metrics.k8s.io",
        }
    }

    /// Its versions, the preferred one last.
    pub const fn versions(self) -> &'static [&'static str] {
        match self {
            Self::Custom => &["v1beta1", "v1beta2"],
            Self::Metrics | Self::External => &["v1beta1"],
        }
    }
}

/// A Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its port; 443 where an `APIService` does not say.
    pub port: u16,
}

impl ServiceRef {
    /// Whether it is the same Service, at whatever port.
    fn is(&self, other: &Self) -> bool {
        self.namespace == other.namespace && self.name == other.name
    }

    fn of(api_service: &Value) -> Option<Self> {
        let service = api_service.pointer("/spec/service")?;
        let text = |key: &str| service.get(key)?.as_str().map(str::to_owned);
        let port = service.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
        Some(Self { namespace: text("namespace")?, name: text("name")?, port: port.unwrap_or(443) })
    }
}

impl fmt::Display for ServiceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What an `APIService` is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Our Service.
    pub service: ServiceRef,
    /// The Service from which `metrics.k8s.io` may be taken over: the one that we ask ourselves.
    pub upstream: ServiceRef,
    /// The authority of our certificate: PEM in base64.
    pub ca_bundle: String,
    /// The Certificate, as `namespace/name`, from which cert-manager keeps that up to date.
    pub inject_ca_from: Option<String>,
}

/// What is to be done about one `APIService`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: it is as it should be.
    Nothing,
    /// It is made.
    Create(Value),
    /// It is replaced, if it has not changed since it was read.
    Replace(Value),
    /// It is deleted, if it has not changed since it was read.
    Delete,
}

/// Why nothing is done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ApiServiceError {
    /// It is somebody else's.
    #[error(
        "APIService {name} belongs to {found}, not to Service {upstream}; if that is whom hpa.api.upstream asks, name it by \
         --upstream-service, else remove it first"
    )]
    NotKnown {
        /// The `APIService`.
        name: String,
        /// Whose it is.
        found: String,
        /// Whose it may be.
        upstream: ServiceRef,
    },
    /// It is an adapter's, beside which we cannot be.
    #[error(
        "APIService {name} belongs to {found}; there is one for each group and version in a cluster, so leave that one out, \
         or do without this group of ours"
    )]
    Taken {
        /// The `APIService`.
        name: String,
        /// Whose it is.
        found: String,
    },
    /// It was asked to be given back, but does not point at us.
    #[error("APIService {name} belongs to {found}; it is not ours to remove")]
    NotOurs {
        /// The `APIService`.
        name: String,
        /// Whose it is.
        found: String,
    },
    /// It points at us, and what was there before is not recorded.
    #[error(
        "APIService {name} is ours, but its annotation {} {problem}; delete it (kubectl delete apiservice {name}) and apply \
         the manifest of metrics-server, which makes its own",
        keys::APISERVICE_ORIGINAL
    )]
    NoRecord {
        /// The `APIService`.
        name: String,
        /// What is wrong with the record.
        problem: String,
    },
}

/// The name of an `APIService`.
pub fn api_service_name(group: MetricsGroup, version: &str) -> String {
    format!("{version}.{}", group.name())
}

/// What makes the `APIService` of a group and version point at us.
///
/// # Errors
/// It is somebody's of whom we do not know.
pub fn install(
    group: MetricsGroup,
    version: &str,
    found: Option<&Value>,
    wanted: &Wanted,
) -> Result<Step, ApiServiceError> {
    let name = api_service_name(group, version);
    let Some(found) = found else { return Ok(Step::Create(fresh(group, version, wanted))) };
    let service = ServiceRef::of(found);
    let is_ours = service.as_ref().is_some_and(|service| service.is(&wanted.service));
    let mut changed = found.clone();
    if !is_ours {
        if group != MetricsGroup::Metrics {
            return Err(ApiServiceError::Taken { name, found: owner(service.as_ref()) });
        }
        if !service.as_ref().is_some_and(|service| service.is(&wanted.upstream)) {
            let upstream = wanted.upstream.clone();
            return Err(ApiServiceError::NotKnown { name, found: owner(service.as_ref()), upstream });
        }
        // Also where there is a record already: whoever put this one in place meant it.
        annotate(&mut changed, keys::APISERVICE_ORIGINAL, Some(&record(found, wanted)));
    }
    let keeps_bundle = is_ours && wanted.inject_ca_from.is_some() && bundle(found).is_some();
    let ca_bundle = if keeps_bundle { bundle(found).unwrap_or_default() } else { &wanted.ca_bundle };
    point_at(&mut changed, &wanted.service, ca_bundle);
    for key in INJECTIONS {
        let value = wanted.inject_ca_from.as_deref().filter(|_| key == INJECT_CA_FROM);
        annotate(&mut changed, key, value);
    }
    Ok(if changed == *found { Step::Nothing } else { Step::Replace(changed) })
}

/// What gives the `APIService` of a group and version back.
///
/// # Errors
/// It is somebody else's, or it is not known what was there.
pub fn remove(
    group: MetricsGroup,
    version: &str,
    found: Option<&Value>,
    ours: &ServiceRef,
) -> Result<Step, ApiServiceError> {
    let name = api_service_name(group, version);
    let Some(found) = found else { return Ok(Step::Nothing) };
    let service = ServiceRef::of(found);
    let recorded = annotation(found, keys::APISERVICE_ORIGINAL);
    if !service.as_ref().is_some_and(|service| service.is(ours)) {
        let record: Value = recorded.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        // Else it may point at us in another namespace, and without the record it could not be given back.
        let is_back =
            ServiceRef::of(&record).is_some_and(|theirs| service.as_ref().is_some_and(|now| now.is(&theirs)));
        if !is_back {
            return Err(ApiServiceError::NotOurs { name, found: owner(service.as_ref()) });
        }
        // Somebody put theirs back already; our record is all that is left of us.
        let mut changed = found.clone();
        annotate(&mut changed, keys::APISERVICE_ORIGINAL, None);
        let injected = record.get("injected").and_then(Value::as_str);
        if injected.is_some() && annotation(found, INJECT_CA_FROM) == injected {
            // Else its CA would be replaced by ours for ever.
            let value = record.get("annotations").and_then(|kept| kept.get(INJECT_CA_FROM)?.as_str());
            annotate(&mut changed, INJECT_CA_FROM, value);
        }
        return Ok(Step::Replace(changed));
    }
    let Some(recorded) = recorded else {
        if group == MetricsGroup::Metrics {
            return Err(ApiServiceError::NoRecord { name, problem: "is gone".to_owned() });
        }
        return Ok(Step::Delete);
    };
    let no_record =
        |problem: &str| ApiServiceError::NoRecord { name: name.clone(), problem: problem.to_owned() };
    let record: Value = serde_json::from_str(recorded).map_err(|_| no_record("is no JSON"))?;
    if record.get("created") == Some(&Value::Bool(true)) {
        return Ok(Step::Delete);
    }
    let spec = record.get("spec").filter(|spec| ServiceRef::of(&json!({ "spec": spec })).is_some());
    let spec = spec.ok_or_else(|| no_record("has no spec with a service"))?;
    let mut changed = found.clone();
    if let Some(object) = changed.as_object_mut() {
        object.insert("spec".to_owned(), spec.clone());
    }
    annotate(&mut changed, keys::APISERVICE_ORIGINAL, None);
    for key in INJECTIONS {
        let value = record.get("annotations").and_then(|annotations| annotations.get(key)?.as_str());
        annotate(&mut changed, key, value);
    }
    Ok(Step::Replace(changed))
}

/// Whose an `APIService` is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// There is none.
    Nobody,
    /// Ours; with whose it was, if it was somebody's.
    Ours(Option<ServiceRef>),
    /// Somebody else's: a Service, or the API server itself.
    Other(Option<ServiceRef>),
}

/// Whose an `APIService` is, and whether the API server reaches it, with what it says about that.
pub fn holder(found: Option<&Value>, ours: &ServiceRef) -> (Holder, Option<(bool, String)>) {
    let Some(found) = found else { return (Holder::Nobody, None) };
    let service = ServiceRef::of(found);
    let holder = if service.as_ref().is_some_and(|service| service.is(ours)) {
        let record = annotation(found, keys::APISERVICE_ORIGINAL);
        let record: Option<Value> = record.and_then(|text| serde_json::from_str(text).ok());
        Holder::Ours(record.and_then(|record| ServiceRef::of(&record)))
    } else {
        Holder::Other(service)
    };
    let conditions = found.pointer("/status/conditions").and_then(Value::as_array);
    let available = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some("Available"));
    let available = available.map(|condition| {
        let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default();
        (text("status") == "True", text("message").to_owned())
    });
    (holder, available)
}

fn owner(service: Option<&ServiceRef>) -> String {
    service.map_or_else(|| "the API server itself".to_owned(), |service| format!("Service {service}"))
}

fn fresh(group: MetricsGroup, version: &str, wanted: &Wanted) -> Value {
    let preference = group.versions().iter().position(|known| *known == version).unwrap_or_default();
    let mut made = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {
            "name": api_service_name(group, version),
            "labels": {"app.kubernetes.io/name": "plimsoll"},
            "annotations": {keys::APISERVICE_ORIGINAL: json!({"created": true}).to_string()},
        },
        "spec": {
            "group": group.name(), "version": version, "groupPriorityMinimum": 100,
            "versionPriority": 100 * (preference + 1),
        },
    });
    point_at(&mut made, &wanted.service, &wanted.ca_bundle);
    annotate(&mut made, INJECT_CA_FROM, wanted.inject_ca_from.as_deref());
    made
}

fn record(found: &Value, wanted: &Wanted) -> String {
    // What we wrote is left over where somebody put their own spec back; it is nobody's original.
    let is_ours =
        |key: &str, value: &str| key == INJECT_CA_FROM && wanted.inject_ca_from.as_deref() == Some(value);
    let kept: Map<String, Value> = INJECTIONS
        .iter()
        .filter_map(|key| Some((*key, annotation(found, key)?)))
        .filter(|(key, value)| !is_ours(key, value))
        .map(|(key, value)| (key.to_owned(), Value::from(value)))
        .collect();
    let mut record = json!({"spec": found.get("spec"), "annotations": kept});
    if let (Some(record), Some(injected)) = (record.as_object_mut(), &wanted.inject_ca_from) {
        record.insert("injected".to_owned(), injected.as_str().into());
    }
    record.to_string()
}

fn bundle(api_service: &Value) -> Option<&str> {
    api_service.pointer("/spec/caBundle").and_then(Value::as_str).filter(|bundle| !bundle.is_empty())
}

fn point_at(api_service: &mut Value, service: &ServiceRef, ca_bundle: &str) {
    let Some(spec) = api_service.get_mut("spec").and_then(Value::as_object_mut) else { return };
    spec.remove("insecureSkipTLSVerify");
    spec.insert("caBundle".to_owned(), ca_bundle.into());
    let service = json!({"namespace": service.namespace, "name": service.name, "port": service.port});
    spec.insert("service".to_owned(), service);
}

fn annotation<'a>(api_service: &'a Value, key: &str) -> Option<&'a str> {
    api_service.pointer("/metadata/annotations")?.get(key)?.as_str()
}

fn annotate(api_service: &mut Value, key: &str, value: Option<&str>) {
    let Some(metadata) = api_service.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if let Some(value) = value {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if !annotations.is_object() {
            *annotations = json!({});
        }
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(key.to_owned(), value.into());
        }
    } else if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(key);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}
