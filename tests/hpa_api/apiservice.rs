//! An `APIService` is written, and what it points at is asked.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use kube::client::Body;
use plimsoll::hpa::apiservice::{InstallError, Installer, probe_address};
use plimsoll_core::hpa::{ApiServiceError, MetricsGroup, ServiceRef, Step, Wanted, install, remove};
use serde_json::{Value, json};

use crate::server::Reply;
use crate::support::Running;
use crate::tls::Authority;

const NAME: &str = "v1beta1.metrics.k8s.io";

/// An API server with one `APIService`.
#[derive(Default)]
struct Fake {
    stored: Option<Value>,
    version: u64,
    /// Who comes in between, before the next writes.
    meddlers: VecDeque<Value>,
    /// Whether the group is answered by us.
    ours: bool,
    seen: Vec<(String, String, Value)>,
}

impl Fake {
    fn store(&mut self, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.stored = Some(object);
    }

    fn answer(&mut self, method: &str, path: &str, query: &str, body: Value) -> (u16, Value) {
        let status = |code: u16, message: &str| (code, json!({"kind": "Status", "message": message}));
        if path.starts_with("/apis/metrics.k8s.io/") {
            return (200, json!({"kind": "APIResourceList"}));
        }
        if path.starts_with("/api/v1/namespaces/plimsoll-system/services/https:plimsoll:8445/proxy/") {
            return status(401, "Unauthorized");
        }
        if path.ends_with("/mutatingwebhookconfigurations/plimsoll") {
            return (
                200,
                json!({
                    "metadata": {"annotations": {"cert-manager.io/inject-ca-from": "a/b"}},
                    "webhooks": [{"clientConfig": {"caBundle": "b3Vycw=="}}],
                }),
            );
        }
        if !path.starts_with("/apis/apiregistration.k8s.io/v1/apiservices") {
            return status(404, "not found");
        }
        if method != "GET" {
            self.seen.push((method.to_owned(), query.to_owned(), body.clone()));
            if let Some(object) = self.meddlers.pop_front() {
                self.store(object);
            }
        }
        let dry = query.contains("dryRun=All") || body["dryRun"] == json!(["All"]);
        match method {
            "GET" => self.stored.clone().map_or_else(|| status(404, "not found"), |found| (200, found)),
            "PUT" if body["metadata"]["resourceVersion"] != json!(self.version.to_string()) => {
                status(409, "the object has been modified")
            }
            "DELETE" if body["preconditions"]["resourceVersion"] != json!(self.version.to_string()) => {
                status(409, "the object has been modified")
            }
            "DELETE" if !dry => {
                self.stored = None;
                (200, json!({}))
            }
            "PUT" | "POST" if !dry => {
                self.store(body);
                (200, json!({}))
            }
            _ => (200, json!({})),
        }
    }
}

fn client(fake: &Arc<Mutex<Fake>>) -> kube::Client {
    let fake = Arc::clone(fake);
    let service = tower::service_fn(move |request: Request<Body>| {
        let fake = Arc::clone(&fake);
        async move {
            let (parts, body) = request.into_parts();
            let body = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap_or_default();
            let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
            let mut fake = fake.lock().unwrap();
            let (code, answer) = fake.answer(parts.method.as_str(), path, query, body);
            let mut response = Response::builder().status(code);
            if fake.ours {
                response = response.header("server", "plimsoll/1.2.3");
            }
            Ok::<_, Infallible>(response.body(Full::new(Bytes::from(answer.to_string()))).unwrap())
        }
    });
    kube::Client::new(service, "default")
}

fn metrics_server() -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": NAME, "uid": "u"},
        "spec": {"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true, "service": {"namespace": "kube-system", "name": "metrics-server", "port": 443}},
    })
}

fn wanted() -> Wanted {
    let service = |namespace: &str, name: &str, port| ServiceRef {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        port,
    };
    Wanted {
        service: service("plimsoll-system", "plimsoll", 8445),
        upstream: service("kube-system", "metrics-server", 443),
        ca_bundle: "b3Vycw==".to_owned(),
        inject_ca_from: None,
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Judged(#[from] ApiServiceError),
    #[error(transparent)]
    Failed(#[from] InstallError),
}

fn put(found: Option<&Value>) -> Result<Step, Failure> {
    Ok(install(MetricsGroup::Metrics, "v1beta1", found, &wanted())?)
}

fn put_back(found: Option<&Value>) -> Result<Step, Failure> {
    Ok(remove(MetricsGroup::Metrics, "v1beta1", found, &wanted().service)?)
}

#[tokio::test]
async fn there_and_back() {
    let fake = Arc::new(Mutex::new(Fake::default()));
    fake.lock().unwrap().store(metrics_server());
    let before = fake.lock().unwrap().stored.clone().unwrap()["spec"].clone();
    let dry = Installer::new(client(&fake), true);
    dry.apply(NAME, put).await.unwrap();
    assert_eq!(fake.lock().unwrap().stored.as_ref().unwrap()["spec"], before, "dry run");
    let installer = Installer::new(client(&fake), false);
    // Somebody changes it after it was read, twice.
    let mut other = metrics_server();
    other["spec"]["versionPriority"] = json!(7);
    fake.lock().unwrap().meddlers = [metrics_server(), other.clone()].into();
    installer.apply(NAME, put).await.unwrap();
    let stored = fake.lock().unwrap().stored.clone().unwrap();
    assert_eq!(stored["spec"]["service"]["name"], "plimsoll");
    assert_eq!(installer.apply(NAME, put).await.unwrap(), Step::Nothing);
    installer.apply(NAME, put_back).await.unwrap();
    assert_eq!(fake.lock().unwrap().stored.as_ref().unwrap()["spec"], other["spec"], "the newest");
    let seen = fake.lock().unwrap().seen.clone();
    let calls: Vec<_> = seen.iter().map(|(method, query, _)| format!("{method} {query}")).collect();
    let put = "PUT fieldManager=plimsoll";
    assert_eq!(calls, ["PUT dryRun=All&fieldManager=plimsoll", put, put, put, put]);
}

#[tokio::test]
async fn made_and_deleted() {
    let fake = Arc::new(Mutex::new(Fake::default()));
    let installer = Installer::new(client(&fake), false);
    assert!(matches!(installer.apply(NAME, put).await.unwrap(), Step::Create(_)));
    let dry = Installer::new(client(&fake), true);
    assert_eq!(dry.apply(NAME, put_back).await.unwrap(), Step::Delete);
    assert!(fake.lock().unwrap().stored.is_some(), "dry run");
    assert_eq!(installer.apply(NAME, put_back).await.unwrap(), Step::Delete);
    assert_eq!(installer.get(NAME).await.unwrap(), None);
    assert_eq!(installer.apply(NAME, put_back).await.unwrap(), Step::Nothing);
}

#[tokio::test]
async fn somebody_who_never_stops() {
    let fake = Arc::new(Mutex::new(Fake::default()));
    fake.lock().unwrap().store(metrics_server());
    fake.lock().unwrap().meddlers = std::iter::repeat_n(metrics_server(), 100).collect();
    let installer = Installer::new(client(&fake), false);
    let error = installer.apply(NAME, put).await.unwrap_err();
    assert_eq!(error.to_string(), format!("update APIService {NAME}: the object has been modified"));
    assert_eq!(fake.lock().unwrap().seen.len(), 5);
}

#[tokio::test]
async fn what_answers_is_asked() {
    let fake = Arc::new(Mutex::new(Fake { ours: true, ..Fake::default() }));
    let installer = Installer::new(client(&fake), false);
    let group = MetricsGroup::Metrics;
    installer.probe_service(&wanted().service, group, "v1beta1").await.unwrap();
    assert_eq!(installer.bundle("plimsoll").await.unwrap(), ("b3Vycw==".to_owned(), Some("a/b".to_owned())));
    let error = installer.bundle("other").await.unwrap_err().to_string();
    assert!(error.contains("--ca-file"), "{error}");

    let mut ours = metrics_server();
    let available =
        |status: &str| json!([{"type": "Available", "status": status, "message": "connection refused"}]);
    ours["status"] = json!({"conditions": available("False")});
    fake.lock().unwrap().store(ours.clone());
    let error = installer.wait_for(group, "v1beta1", Duration::ZERO).await.unwrap_err().to_string();
    assert!(error.contains("not available yet: connection refused"), "{error}");
    ours["status"] = json!({"conditions": available("True")});
    fake.lock().unwrap().store(ours);
    installer.wait_for(group, "v1beta1", Duration::ZERO).await.unwrap();

    fake.lock().unwrap().ours = false;
    for error in [
        installer.probe_service(&wanted().service, group, "v1beta1").await.unwrap_err(),
        installer.wait_for(group, "v1beta1", Duration::ZERO).await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("not this server that answers"), "{error}");
    }
}

#[tokio::test]
async fn a_server_is_asked_as_the_api_server_would() {
    let running = Running::with(|_| Reply::ok("{}")).await;
    let address = running.url().parse().unwrap();
    let ca = base64::engine::general_purpose::STANDARD.encode(running.ca());
    let probe = async |ca: &str, service: &ServiceRef| {
        let probed = probe_address(&address, service, ca, MetricsGroup::Metrics, "v1beta1").await;
        probed.map_err(|error| error.to_string())
    };
    probe(&ca, &wanted().service).await.unwrap();
    let other = base64::engine::general_purpose::STANDARD.encode(Authority::new().pem());
    assert!(probe(&other, &wanted().service).await.unwrap_err().contains("certificate"));
    let service = ServiceRef { name: "other".to_owned(), ..wanted().service };
    assert!(probe(&ca, &service).await.unwrap_err().contains("certificate"), "not valid for it");
    assert!(probe("b3Vycw==", &wanted().service).await.unwrap_err().contains("no PEM text"));
    running.stop().await;
}
