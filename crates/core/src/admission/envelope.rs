//! Reads an `AdmissionReview` in one pass, of the object in it only what decisions need.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::hpa::is_hpa;
use crate::pod::{Json, Keep, POD, Prune, Pruned};

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

const KIND: Keep = Keep::Members(&[("group", Keep::All), ("kind", Keep::All)]);
const RESOURCE: Keep = Keep::Members(&[("resource", Keep::All)]);
const USER: Keep = Keep::Members(&[("groups", Keep::All)]);
/// The group that every node is in.
const NODES: &str = "system:nodes";

/// A review as received. Null, absent and empty text are the same.
#[derive(Debug)]
pub struct Review<'a> {
    /// The version to answer in.
    pub version: Version,
    /// The uid as raw JSON text.
    pub uid: &'a RawValue,
    /// `request.kind.group`.
    pub group: Cow<'a, str>,
    /// `request.kind.kind`.
    pub kind: Cow<'a, str>,
    /// `request.resource.resource`; empty if absent.
    pub resource: Cow<'a, str>,
    /// `request.subResource`.
    pub sub_resource: Cow<'a, str>,
    /// `request.operation`.
    pub operation: Cow<'a, str>,
    /// `request.name`.
    pub name: Cow<'a, str>,
    /// `request.namespace`, the only namespace that counts.
    pub namespace: Cow<'a, str>,
    /// `request.dryRun`.
    pub dry_run: bool,
    /// Whether `request.userInfo.groups` has the group of nodes.
    pub from_node: bool,
    /// At `/mutate` the parts of the object that are kept of a pod, but all of an autoscaler; at `/validate` all of it.
    pub object: Option<Pruned<'a>>,
    /// As `object`.
    pub old_object: Option<Pruned<'a>>,
}

/// Reads a body.
///
/// # Errors
/// It is no review that could be answered.
pub fn read(body: &[u8], stage: Stage) -> Result<Review<'_>, EnvelopeError> {
    match stage {
        Stage::Mutate => {
            let review = read_keeping(body, &POD)?;
            // What kind it is may stand behind the object. Of an autoscaler all is wanted; few of them are changed.
            if is_hpa(&review) { read_keeping(body, &Keep::All) } else { Ok(review) }
        }
        Stage::Validate => read_keeping(body, &Keep::All),
    }
}

fn read_keeping<'a>(body: &'a [u8], keep: &'static Keep) -> Result<Review<'a>, EnvelopeError> {
    let seed = EnvelopeSeed(keep);
    // One look at the whole body costs less than one at each of its texts. Where bytes are no UTF-8 it matters only
    // whether they stand in something that is read.
    let envelope = match std::str::from_utf8(body) {
        Ok(text) => seed.read(serde_json::Deserializer::from_str(text)),
        Err(_) => seed.read(serde_json::Deserializer::from_slice(body)),
    }?;
    let Envelope { api_version, kind, request } = envelope;
    let version = match (text(api_version).as_ref(), text(kind).as_ref()) {
        ("admission.k8s.io/v1", "AdmissionReview") => Version::V1,
        ("admission.k8s.io/v1beta1", "AdmissionReview") => Version::V1Beta1,
        (api_version, kind) => {
            let short = |t: &str| t.chars().take(80).collect();
            return Err(EnvelopeError::NotReview { api_version: short(api_version), kind: short(kind) });
        }
    };
    let request = request.ok_or(EnvelopeError::NoRequest)?;
    let uid = request.uid.filter(|uid| uid.get().starts_with('"')).ok_or(EnvelopeError::NoUid)?;
    Ok(Review {
        version,
        uid,
        group: member(&request.kind, "group"),
        kind: member(&request.kind, "kind"),
        resource: member(&request.resource, "resource"),
        sub_resource: text(request.sub_resource),
        operation: text(request.operation),
        name: text(request.name),
        namespace: text(request.namespace),
        dry_run: request.dry_run == Json::Bool(true),
        from_node: matches!(
            request.user_info.get("groups"),
            Some(Json::List(groups)) if groups.iter().any(|group| group.as_str() == Some(NODES))
        ),
        object: present(request.object),
        old_object: present(request.old_object),
    })
}

fn text(json: Json<'_>) -> Cow<'_, str> {
    if let Json::Text(text) = json { text } else { Cow::Borrowed("") }
}

fn member<'a>(json: &Json<'a>, key: &str) -> Cow<'a, str> {
    json.get(key).cloned().map_or(Cow::Borrowed(""), text)
}

fn present(json: Json<'_>) -> Option<Pruned<'_>> {
    match json {
        Json::Null => None,
        Json::Text(text) if text.is_empty() => None,
        json => Some(Pruned(json)),
    }
}

#[derive(Default)]
struct Envelope<'a> {
    api_version: Json<'a>,
    kind: Json<'a>,
    request: Option<Request<'a>>,
}

#[derive(Default)]
struct Request<'a> {
    uid: Option<&'a RawValue>,
    kind: Json<'a>,
    resource: Json<'a>,
    sub_resource: Json<'a>,
    operation: Json<'a>,
    name: Json<'a>,
    namespace: Json<'a>,
    dry_run: Json<'a>,
    user_info: Json<'a>,
    object: Json<'a>,
    old_object: Json<'a>,
}

struct EnvelopeSeed(&'static Keep);

impl EnvelopeSeed {
    fn read<'de, R: serde_json::de::Read<'de>>(
        self,
        mut deserializer: serde_json::Deserializer<R>,
    ) -> Result<Envelope<'de>, serde_json::Error> {
        // What is kept is bounded by what keeps it; what is passed over takes no stack.
        deserializer.disable_recursion_limit();
        let envelope = self.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(envelope)
    }
}

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
                "apiVersion" => envelope.api_version = access.next_value_seed(Prune::new(&Keep::All))?,
                "kind" => envelope.kind = access.next_value_seed(Prune::new(&Keep::All))?,
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
                "kind" => request.kind = access.next_value_seed(Prune::new(&KIND))?,
                "resource" => request.resource = access.next_value_seed(Prune::new(&RESOURCE))?,
                "subResource" => request.sub_resource = access.next_value_seed(Prune::new(&Keep::All))?,
                "operation" => request.operation = access.next_value_seed(Prune::new(&Keep::All))?,
                "name" => request.name = access.next_value_seed(Prune::new(&Keep::All))?,
                "namespace" => request.namespace = access.next_value_seed(Prune::new(&Keep::All))?,
                "dryRun" => request.dry_run = access.next_value_seed(Prune::new(&Keep::All))?,
                "userInfo" => request.user_info = access.next_value_seed(Prune::new(&USER))?,
                "object" => request.object = access.next_value_seed(Prune::new(self.0))?,
                "oldObject" => request.old_object = access.next_value_seed(Prune::new(self.0))?,
                _ => {
                    access.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Some(request))
    }
}
