//! Reads an `AdmissionReview` in one pass, of the object in it only what decisions need.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::pod::{Keep, POD, Prune, Pruned};

/// Which of the two webhooks was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// `/mutate`
    Mutate,
    /// `/validate`
    Validate,
}

/// The version of the envelope; the answer has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `admission.k8s.io/v1`
    V1,
    /// `admission.k8s.io/v1beta1`
    V1Beta1,
}

impl Stage {
    /// In lower case, as in paths and labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        }
    }
}

impl Version {
    /// As it stands in `apiVersion`.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// Why a body cannot be answered in an `AdmissionReview`: there is no uid to echo. It is HTTP 400,
/// never "allowed".
#[derive(Debug, Error)]
pub enum EnvelopeError {
    /// The body is no JSON.
    #[error("the body is not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// `apiVersion` or `kind` is something else.
    #[error(
        "this is {api_version:?} {kind:?}; an AdmissionReview of admission.k8s.io/v1 or v1beta1 is needed"
    )]
    NotReview {
        /// What `apiVersion` says.
        api_version: String,
        /// What `kind` says.
        kind: String,
    },
    /// There is no request.
    #[error("request is missing; an AdmissionReview with a request is needed")]
    NoRequest,
    /// There is no uid.
    #[error("request.uid is missing or not a string")]
    NoUid,
}

/// A review as received. Null, absent and empty text are the same.
#[derive(Debug)]
pub struct Review<'a> {
    /// The version to answer in.
    pub version: Version,
    /// The uid as raw JSON text.
    pub uid: &'a RawValue,
    /// `request.kind.group`.
    pub group: String,
    /// `request.kind.kind`.
    pub kind: String,
    /// `request.resource.resource`; empty if absent.
    pub resource: String,
    /// `request.subResource`.
    pub sub_resource: String,
    /// `request.operation`.
    pub operation: String,
    /// `request.name`.
    pub name: String,
    /// `request.namespace`, the only namespace that counts.
    pub namespace: String,
    /// `request.dryRun`.
    pub dry_run: bool,
    /// At `/mutate` the parts of the object that are kept of a pod; at `/validate` all of it.
    pub object: Option<Pruned>,
    /// As `object`.
    pub old_object: Option<Pruned>,
}

/// Reads a body.
///
/// # Errors
/// It is no review that could be answered.
pub fn read(body: &[u8], stage: Stage) -> Result<Review<'_>, EnvelopeError> {
    let keep: &'static Keep = match stage {
        Stage::Mutate => &POD,
        Stage::Validate => &Keep::All,
    };
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let envelope = EnvelopeSeed(keep).deserialize(&mut deserializer)?;
    deserializer.end()?;
    let Envelope { api_version, kind, request } = envelope;
    let version = match (text(&api_version), text(&kind)) {
        ("admission.k8s.io/v1", "AdmissionReview") => Version::V1,
        ("admission.k8s.io/v1beta1", "AdmissionReview") => Version::V1Beta1,
        (api_version, kind) => {
            let short = |t: &str| t.chars().take(80).collect();
            return Err(EnvelopeError::NotReview { api_version: short(api_version), kind: short(kind) });
        }
    };
    let request = request.ok_or(EnvelopeError::NoRequest)?;
    let uid = request.uid.filter(|uid| uid.get().starts_with('"')).ok_or(EnvelopeError::NoUid)?;
    let part = |value: &Value, key: &str| text(value.get(key).unwrap_or(&Value::Null)).to_owned();
    Ok(Review {
        version,
        uid,
        group: part(&request.kind, "group"),
        kind: part(&request.kind, "kind"),
        resource: part(&request.resource, "resource"),
        sub_resource: text(&request.sub_resource).to_owned(),
        operation: text(&request.operation).to_owned(),
        name: text(&request.name).to_owned(),
        namespace: text(&request.namespace).to_owned(),
        dry_run: request.dry_run == Value::Bool(true),
        object: present(request.object),
        old_object: present(request.old_object),
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn present(value: Value) -> Option<Pruned> {
    match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        value => Some(Pruned(value)),
    }
}

#[derive(Default)]
struct Envelope<'a> {
    api_version: Value,
    kind: Value,
    request: Option<Request<'a>>,
}

#[derive(Default)]
struct Request<'a> {
    uid: Option<&'a RawValue>,
    kind: Value,
    resource: Value,
    sub_resource: Value,
    operation: Value,
    name: Value,
    namespace: Value,
    dry_run: Value,
    object: Value,
    old_object: Value,
}

struct EnvelopeSeed(&'static Keep);

impl<'de> DeserializeSeed<'de> for EnvelopeSeed {
    type Value = Envelope<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Envelope<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EnvelopeSeed {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an AdmissionReview")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Envelope<'de>, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(key) = access.next_key::<crate::pod::Key<'de>>()? {
            match key.0.as_ref() {
                "apiVersion" => envelope.api_version = access.next_value()?,
                "kind" => envelope.kind = access.next_value()?,
                "request" => envelope.request = access.next_value_seed(RequestSeed(self.0))?,
                _ => {
                    access.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(envelope)
    }
}

struct RequestSeed(&'static Keep);

impl<'de> DeserializeSeed<'de> for RequestSeed {
    type Value = Option<Request<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for RequestSeed {
    type Value = Option<Request<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an admission request")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut request = Request::default();
        while let Some(key) = access.next_key::<crate::pod::Key<'de>>()? {
            match key.0.as_ref() {
                "uid" => request.uid = Some(access.next_value()?),
                "kind" => request.kind = access.next_value()?,
                "resource" => request.resource = access.next_value()?,
                "subResource" => request.sub_resource = access.next_value()?,
                "operation" => request.operation = access.next_value()?,
                "name" => request.name = access.next_value()?,
                "namespace" => request.namespace = access.next_value()?,
                "dryRun" => request.dry_run = access.next_value()?,
                "object" => request.object = access.next_value_seed(Prune(self.0))?,
                "oldObject" => request.old_object = access.next_value_seed(Prune(self.0))?,
                _ => {
                    access.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Some(request))
    }
}
