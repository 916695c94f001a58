//! The objects that tell the API server whom to trust: our webhook configurations, and the `APIService`s that point at
//! our Service.
//!
//! Only entries that name our Service are touched, and of them only `caBundle`. A patch says which state of the object it
//! is about, so that a leader that was slow cannot undo what the next one did.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::authority::Root;
use super::plan::{Bundle, BundleState};
use super::store::{CALL_TIMEOUT, MANAGER};
use crate::cluster::{Call, WriteError, send};

/// The name of the webhook configurations that are always there.
pub const WEBHOOKS: &str = "plimsoll";
/// What the annotations begin with by which cert-manager is told to write a `caBundle`.
pub(crate) const INJECTION: &str = "cert-manager.io/inject-";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    name: &'static str,
    plural: &'static str,
    group: &'static str,
}

const MUTATING: Kind = Kind {
    name: "MutatingWebhookConfiguration",
    plural: "mutatingwebhookconfigurations",
    group: "admissionregistration.k8s.io",
};
const VALIDATING: Kind = Kind {
    name: "ValidatingWebhookConfiguration",
    plural: "validatingwebhookconfigurations",
    group: "admissionregistration.k8s.io",
};
const API_SERVICE: Kind = Kind { name: "APIService", plural: "apiservices", group: "apiregistration.k8s.io" };

/// One object by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    kind: Kind,
    name: String,
}

impl Target {
    /// Both webhook configurations of a name.
    #[must_use]
    pub fn webhooks(name: &str) -> [Self; 2] {
        [MUTATING, VALIDATING].map(|kind| Self { kind, name: name.to_owned() })
    }

    /// An `APIService`.
    #[must_use]
    pub fn api_service(name: impl Into<String>) -> Self {
        Self { kind: API_SERVICE, name: name.into() }
    }
}

/// Our Service, by which our entries are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Service {
    fn is(&self, service: Option<&Value>) -> bool {
        let text = |key: &str| service.and_then(|service| service.get(key)).and_then(Value::as_str);
        text("namespace") == Some(&self.namespace) && text("name") == Some(&self.name)
    }
}

/// An object as it was read, and what it says about trust.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    target: Target,
    object: Value,
    /// What it says.
    pub bundle: Bundle,
}

/// All of them.
#[derive(Clone)]
pub struct Bundles {
    client: Client,
    service: Service,
    targets: Vec<Target>,
}

impl std::fmt::Debug for Bundles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bundles")
            .field("service", &self.service)
            .field("targets", &self.targets)
            .finish_non_exhaustive()
    }
}

impl Bundles {
    /// Those of a Service.
    #[must_use]
    pub fn new(client: Client, service: Service, targets: Vec<Target>) -> Self {
        Self { client, service, targets }
    }

    /// Whose they are.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// What each of them says now.
    pub async fn read(&self) -> Vec<Seen> {
        let mut all = Vec::with_capacity(self.targets.len());
        for target in &self.targets {
            all.push(self.read_one(target).await);
        }
        all
    }

    async fn read_one(&self, target: &Target) -> Seen {
        let at = format!("{} {}", target.kind.name, target.name);
        let (state, object) = match self.get(target).await {
            Ok(object) => match state_of(&object, &self.service) {
                BundleState::Closed(why, held) => (BundleState::Closed(format!("{at}: {why}"), held), object),
                state => (state, object),
            },
            Err(WriteError::NotFound { .. } | WriteError::NotInstalled { .. }) => {
                (BundleState::Absent, Value::Null)
            }
            Err(error @ WriteError::Forbidden { .. }) => {
                (BundleState::Closed(error.to_string(), Vec::new()), Value::Null)
            }
            Err(error) => (BundleState::Unknown(error.to_string()), Value::Null),
        };
        Seen { target: target.clone(), object, bundle: Bundle { at, state } }
    }

    async fn get(&self, target: &Target) -> Result<Value, WriteError> {
        let call = call("get", target);
        let request = request(target).get(&target.name, &GetParams::default());
        let text = send(&self.client, call, request, CALL_TIMEOUT).await?;
        serde_json::from_str(&text)
            .map_err(|error| call.unavailable(format!("the answer is no object: {error}")))
    }

    /// Writes an object that was read, if it says something else. Whether it was written.
    ///
    /// # Errors
    /// [`WriteError::Conflict`] if it was changed since it was read; [`WriteError::Refused`] if the API server does not take
    /// what is written.
    pub async fn publish(&self, seen: &Seen, wanted: &[Root]) -> Result<bool, WriteError> {
        let Some(operations) = patch_for(&seen.object, &self.service, wanted) else { return Ok(false) };
        let call = call("patch", &seen.target);
        let patch: json_patch::Patch = serde_json::from_value(Value::Array(operations))
            .map_err(|error| call.unavailable(format!("no patch could be made: {error}")))?;
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let request = request(&seen.target).patch(&seen.target.name, &parameters, &Patch::<()>::Json(patch));
        match send(&self.client, call, request, CALL_TIMEOUT).await {
            Ok(_) => Ok(true),
            // Either a test failed, since somebody changed it, or what would come of it is not taken. The answer does
            // not tell which; whether it was changed does.
            Err(error @ WriteError::Refused { code: 422, .. }) => {
                let now = self.get(&seen.target).await?;
                if version(&now) == version(&seen.object) {
                    return Err(error);
                }
                let WriteError::Refused { what, .. } = error else { return Err(error) };
                Err(WriteError::Conflict { what })
            }
            Err(error) => Err(error),
        }
    }
}

fn version(object: &Value) -> Option<&str> {
    object.pointer("/metadata/resourceVersion").and_then(Value::as_str)
}

fn request(target: &Target) -> Request {
    Request::new(format!("/apis/{}/v1/{}", target.kind.group, target.kind.plural))
}

fn call<'a>(verb: &'static str, target: &'a Target) -> Call<'a> {
    let Kind { name: kind, plural, group } = target.kind;
    Call { verb, kind, resource: plural, group, object: &target.name, bytes: 0 }
}

/// The paths of our entries in an object, and what stands before `caBundle` in each.
fn entries<'a>(object: &'a Value, service: &Service) -> Vec<(String, &'a Value)> {
    if let Some(spec) = object.get("spec") {
        // Who is trusted blindly must have no caBundle.
        let blindly = spec.get("insecureSkipTLSVerify").and_then(Value::as_bool) == Some(true);
        let ours = service.is(spec.get("service")) && !blindly;
        return ours.then(|| ("/spec".to_owned(), spec)).into_iter().collect();
    }
    let webhooks = object.get("webhooks").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let configs = webhooks.iter().enumerate().filter_map(|(index, webhook)| {
        let config = webhook.get("clientConfig")?;
        service.is(config.get("service")).then(|| (format!("/webhooks/{index}/clientConfig"), config))
    });
    configs.collect()
}

/// What an object says about trust.
#[must_use]
pub fn state_of(object: &Value, service: &Service) -> BundleState {
    let ours = entries(object, service);
    if ours.is_empty() {
        return BundleState::Absent;
    }
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    let entries: Vec<_> = ours.iter().map(|(_, config)| held(config)).collect();
    if let Some(injection) = annotations.and_then(|all| all.keys().find(|key| key.starts_with(INJECTION))) {
        let why = format!(
            "the annotation {injection} lets cert-manager write its caBundle too; take it away, or set tls.source to Files"
        );
        return BundleState::Closed(why, entries.concat());
    }
    BundleState::Holds(entries)
}

/// What one entry trusts; nothing where that cannot be read.
fn held(config: &Value) -> Vec<Root> {
    let text = config.get("caBundle").and_then(Value::as_str).unwrap_or_default();
    let pem = BASE64_STANDARD.decode(text).unwrap_or_default();
    Root::all_of_pem(&pem).unwrap_or_default()
}

/// The operations after which an object trusts exactly these; none if it does.
#[must_use]
pub fn patch_for(object: &Value, service: &Service, wanted: &[Root]) -> Option<Vec<Value>> {
    let pem: String = wanted.iter().map(Root::pem).collect();
    let bundle = BASE64_STANDARD.encode(pem);
    let test = |path: &str| {
        let value = object.pointer(path)?;
        Some(json!({ "op": "test", "path": path, "value": value }))
    };
    let mut operations: Vec<_> = test("/metadata/resourceVersion").into_iter().collect();
    let tests = operations.len();
    for (path, config) in entries(object, service) {
        if super::plan::same(&held(config), wanted) {
            continue;
        }
        let name = path
            .strip_suffix("/clientConfig")
            .map_or("/metadata/name".to_owned(), |webhook| format!("{webhook}/name"));
        operations.extend(test(&name));
        operations.extend(test(&format!("{path}/service")));
        operations.push(json!({ "op": "add", "path": format!("{path}/caBundle"), "value": bundle }));
    }
    (operations.len() > tests).then_some(operations)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Authority;
    use super::*;

    fn root() -> Root {
        let now = "2026-03-01T10:00:00Z".parse().unwrap();
        Authority::make("a", Duration::from_secs(3600), now).unwrap().root().clone()
    }

    fn service() -> Service {
        Service { namespace: "plimsoll-system".to_owned(), name: "plimsoll".to_owned() }
    }

    fn webhook(name: &str, service: &str, bundle: Option<&[Root]>) -> Value {
        let mut config = json!({"service": {"namespace": "plimsoll-system", "name": service, "port": 443}});
        if let Some(bundle) = bundle {
            let pem: String = bundle.iter().map(Root::pem).collect();
            config["caBundle"] = json!(BASE64_STANDARD.encode(pem));
        }
        json!({"name": name, "clientConfig": config})
    }

    #[test]
    fn only_our_entries_are_written() {
        let (old, new) = (root(), root());
        let wanted = [new.clone(), old.clone()];
        let object = json!({
            "metadata": {"name": "plimsoll", "resourceVersion": "7"},
            "webhooks": [
                webhook("theirs", "other", None),
                webhook("right", "plimsoll", Some(&[old.clone(), new.clone()])),
                webhook("old", "plimsoll", Some(std::slice::from_ref(&old))),
                webhook("bare", "plimsoll", None),
                {"name": "url", "clientConfig": {"url": "https://example.org"}},
            ],
        });
        let state = state_of(&object, &service());
        assert_eq!(state, BundleState::Holds(vec![vec![old.clone(), new.clone()], vec![old], vec![]]));
        let operations = patch_for(&object, &service(), &wanted).unwrap();
        let paths: Vec<_> = operations.iter().map(|one| format!("{} {}", one["op"], one["path"])).collect();
        let paths: Vec<_> = paths.iter().map(|path| path.replace('"', "")).collect();
        assert_eq!(
            paths,
            [
                "test /metadata/resourceVersion",
                "test /webhooks/2/name",
                "test /webhooks/2/clientConfig/service",
                "add /webhooks/2/clientConfig/caBundle",
                "test /webhooks/3/name",
                "test /webhooks/3/clientConfig/service",
                "add /webhooks/3/clientConfig/caBundle",
            ]
        );
        let mut after = object.clone();
        let patch: json_patch::Patch = serde_json::from_value(Value::Array(operations)).unwrap();
        json_patch::patch(&mut after, &patch).unwrap();
        assert_eq!(patch_for(&after, &service(), &wanted), None);
        assert_eq!(after["webhooks"][0], object["webhooks"][0]);
        assert_eq!(after["webhooks"][1], object["webhooks"][1]);
        assert_eq!(after["webhooks"][4], object["webhooks"][4]);
    }

    #[test]
    fn what_objects_say() {
        let theirs = json!({"webhooks": [webhook("a", "other", None)]});
        let injected = json!({
            "metadata": {"annotations": {"cert-manager.io/inject-ca-from": "a/b"}},
            "webhooks": [webhook("a", "plimsoll", None)],
        });
        let garbage = json!({"webhooks": [
            {"name": "a", "clientConfig": {"caBundle": "%", "service": {"namespace": "plimsoll-system", "name": "plimsoll"}}},
        ]});
        let api = json!({"spec": {"group": "metrics.k8s.io", "service": {"namespace": "plimsoll-system", "name": "plimsoll"}}});
        let mut blind = api.clone();
        blind["spec"]["insecureSkipTLSVerify"] = json!(true);
        let local = json!({"spec": {"group": "apps", "service": null}});
        for (rule, object, expected) in [
            ("theirs", theirs, BundleState::Absent),
            ("nothing", json!({}), BundleState::Absent),
            ("nonsense", json!({"webhooks": 5}), BundleState::Absent),
            ("cannot be read", garbage, BundleState::Holds(vec![vec![]])),
            ("an APIService of ours", api, BundleState::Holds(vec![vec![]])),
            ("one that is trusted blindly", blind, BundleState::Absent),
            ("one of the API server itself", local, BundleState::Absent),
        ] {
            assert_eq!(state_of(&object, &service()), expected, "{rule}");
        }
        let BundleState::Closed(why, _) = state_of(&injected, &service()) else {
            panic!("it is written by two")
        };
        assert!(why.contains("inject-ca-from") && why.contains("tls.source"), "{why}");
    }
}
