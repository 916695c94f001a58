//! An API server without a socket that refuses what it is told to, and replicas with real listeners.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{Request, Response};
use kube::client::Body;
use plimsoll::certificates::Held;
use plimsoll::certificates::bundles::{Bundles, Service, Target};
use plimsoll::certificates::keeper::{Parts, keep};
use plimsoll::certificates::leaf::Follower;
use plimsoll::certificates::plan::Timing;
use plimsoll::certificates::store::SecretStore;
use plimsoll::metrics::Metrics;
use plimsoll::server::tls::{Clock, wall_clock};
use plimsoll::server::{CertificateSource, ClientAuth, Readiness, SelfManaged, Shutdown, TlsOptions};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::fake::FakeApi;
use super::support::{Server, Setup};

pub(crate) const SECRET: &str = "/api/v1/namespaces/plimsoll-system/secrets/plimsoll-ca";
pub(crate) const MUTATING: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/plimsoll";
pub(crate) const VALIDATING: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/plimsoll";
pub(crate) const API_SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io";

pub(crate) const TIMING: Timing = Timing {
    authority_lifetime: Duration::from_secs(3600),
    certificate_lifetime: Duration::from_secs(3),
    publish_for: Duration::from_millis(300),
};

const INTERVAL: Duration = Duration::from_millis(20);

/// A cluster. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Cluster {
    pub(crate) api: FakeApi,
    forbidden: Arc<Mutex<Vec<Rule>>>,
}

/// A method of HTTP, a part of a path, and why such calls come to nothing.
type Rule = (&'static str, &'static str, Forbidden);

/// Why a call comes to nothing.
#[derive(Clone, Copy)]
enum Forbidden {
    NoRight,
    Invalid,
    Outrun,
}

impl Cluster {
    /// As the manifests leave it.
    pub(crate) fn installed() -> Self {
        let cluster = Self::default();
        cluster.put_secret(Value::Null);
        let ours = |name: &str| json!({"name": name, "clientConfig": {"service": service()}});
        let theirs =
            json!({"name": "theirs", "clientConfig": {"caBundle": "dGhlaXJz", "url": "https://example.org"}});
        let webhooks = [ours("pods.plimsoll.dev"), theirs, ours("hpas.plimsoll.dev")];
        cluster.api.put(MUTATING, json!({"metadata": {"name": "plimsoll"}, "webhooks": webhooks}));
        cluster.api.put(
            VALIDATING,
            json!({"metadata": {"name": "plimsoll"}, "webhooks": [ours("overcommitprofiles.plimsoll.dev")]}),
        );
        cluster.api.put(
            API_SERVICE,
            json!({"metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": {"service": service()}}),
        );
        cluster
    }

    pub(crate) fn put_secret(&self, data: Value) {
        let mut secret = json!({"metadata": {"name": "plimsoll-ca"}, "type": "Opaque"});
        if !data.is_null() {
            secret["data"] = data;
        }
        self.api.put(SECRET, secret);
    }

    /// From now on `verb` (a method of HTTP) on what has `path` in its own is forbidden.
    pub(crate) fn forbid(&self, verb: &'static str, path: &'static str) {
        self.forbidden.lock().unwrap().push((verb, path, Forbidden::NoRight));
    }

    /// From now on it is not taken, by a policy or because it would not be valid.
    pub(crate) fn refuse(&self, verb: &'static str, path: &'static str) {
        self.forbidden.lock().unwrap().push((verb, path, Forbidden::Invalid));
    }

    /// From now on somebody else is faster each time.
    pub(crate) fn outrun(&self, verb: &'static str, path: &'static str) {
        self.forbidden.lock().unwrap().push((verb, path, Forbidden::Outrun));
    }

    pub(crate) fn allow_all(&self) {
        self.forbidden.lock().unwrap().clear();
    }

    pub(crate) fn client(&self) -> kube::Client {
        let (cluster, inner) = (self.clone(), self.api.client());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (cluster, inner) = (cluster.clone(), inner.clone());
            async move {
                let path = request.uri().path().to_owned();
                let method = request.method().to_string();
                let forbidden = cluster.forbidden.lock().unwrap().clone();
                let found = forbidden.iter().find(|(verb, part, _)| *verb == method && path.contains(part));
                let (code, reason, message) = match found {
                    Some((_, _, Forbidden::NoRight)) => {
                        (403, "Forbidden", "User \"plimsoll\" cannot do that")
                    }
                    Some((_, _, Forbidden::Invalid)) => (422, "Invalid", "a policy does not take it"),
                    Some((_, _, Forbidden::Outrun)) => {
                        let object = cluster.api.object(&path).unwrap();
                        cluster.api.put(&path, object);
                        (422, "Invalid", "the server rejected our request due to an error in our request")
                    }
                    None => return Ok::<_, Infallible>(inner.send(request).await.unwrap()),
                };
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code,
                    "message": message, "details": {"name": "x"},
                });
                let mut response = Response::new(Body::from(status.to_string().into_bytes()));
                *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
                Ok(response)
            }
        });
        kube::Client::new(service, "default")
    }

    pub(crate) fn data(&self) -> Value {
        self.api.object(SECRET).unwrap()["data"].clone()
    }

    /// A value of the Secret.
    pub(crate) fn value(&self, key: &str) -> Option<String> {
        let text = self.data()[key].as_str()?.to_owned();
        Some(String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap())
    }

    /// What one of our webhooks is verified with, PEM.
    pub(crate) fn bundle(&self, path: &str, pointer: &str) -> String {
        let object = self.api.object(path).unwrap_or_default();
        let text = object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap()
    }

    /// That of the pods' webhook.
    pub(crate) fn trusted(&self) -> String {
        self.bundle(MUTATING, "/webhooks/0/clientConfig/caBundle")
    }

    pub(crate) fn store(&self) -> SecretStore {
        SecretStore::new(self.client(), "plimsoll-system".to_owned(), "plimsoll-ca".to_owned())
    }
}

fn service() -> Value {
    json!({"namespace": "plimsoll-system", "name": "plimsoll", "port": 443})
}

pub(crate) fn certificates_in(pem: &str) -> usize {
    pem.matches("BEGIN CERTIFICATE").count()
}

/// Who leads.
pub(crate) struct Leader {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) readiness: Readiness,
    pub(crate) stop: CancellationToken,
    pub(crate) task: tokio::task::JoinHandle<()>,
}

impl Leader {
    pub(crate) fn start(cluster: &Cluster) -> Self {
        Self::start_with(cluster, wall_clock())
    }

    pub(crate) fn start_with(cluster: &Cluster, clock: Clock) -> Self {
        Self::start_as(cluster, clock, TIMING, INTERVAL)
    }

    pub(crate) fn start_as(cluster: &Cluster, clock: Clock, timing: Timing, interval: Duration) -> Self {
        let metrics = Arc::new(Metrics::new("test"));
        let readiness = Readiness::new(Shutdown::new());
        let service = Service { namespace: "plimsoll-system".to_owned(), name: "plimsoll".to_owned() };
        let mut targets = Target::webhooks("plimsoll").to_vec();
        targets.extend(Target::webhooks("plimsoll-quota"));
        targets.push(Target::api_service("v1beta1.metrics.k8s.io"));
        let parts = Parts {
            store: cluster.store(),
            bundles: Bundles::new(cluster.client(), service, targets),
            timing,
            interval,
            clock,
            condition: readiness.condition("certificate authority"),
            metrics: Arc::clone(&metrics),
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(keep(parts, stop.clone()));
        Self { metrics, readiness, stop, task }
    }

    /// What `/readyz` says of it.
    pub(crate) fn said(&self) -> String {
        format!("{:?}", self.readiness)
    }

    pub(crate) fn metric(&self, series: &str) -> i64 {
        metric(&self.metrics, series)
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

pub(crate) fn metric(metrics: &Metrics, series: &str) -> i64 {
    let text = metrics.encode();
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
}

/// A replica that serves.
pub(crate) struct Replica {
    pub(crate) server: Server,
    pub(crate) readiness: Readiness,
    stop: CancellationToken,
}

impl Replica {
    pub(crate) async fn start(cluster: &Cluster) -> Self {
        Self::start_with(cluster, wall_clock(), ClientAuth::None, None).await
    }

    pub(crate) async fn start_with(
        cluster: &Cluster,
        clock: Clock,
        client_auth: ClientAuth,
        client_ca: Option<std::path::PathBuf>,
    ) -> Self {
        let held = Held::new(TIMING.publish_for);
        let own = SelfManaged {
            held: held.clone(),
            names: vec!["localhost".to_owned(), "plimsoll.plimsoll-system.svc".to_owned()],
            lifetime: TIMING.certificate_lifetime,
            client_ca,
        };
        let source = CertificateSource::SelfManaged(own);
        let tls = TlsOptions { source, client_auth, tls13_only: false, http2: false };
        let server = Server::start(Setup { tls, clock: Arc::clone(&clock), ..Setup::default() }).await;
        let readiness = Readiness::new(Shutdown::new());
        let store = Arc::clone(&server.store);
        readiness.check("certificate", move || store.check());
        let follower = Follower {
            store: cluster.store(),
            held,
            interval: INTERVAL,
            margin: TIMING.margin(),
            clock,
            condition: readiness.condition("self-managed certificates"),
            metrics: Arc::clone(&server.metrics),
        };
        let stop = CancellationToken::new();
        tokio::spawn(follower.run(stop.clone()));
        tokio::spawn(Arc::clone(&server.store).watch(INTERVAL, server.shutdown.clone()));
        Self { server, readiness, stop }
    }

    pub(crate) fn said(&self) -> String {
        format!("{:?}", self.readiness)
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.server.shutdown.finish();
        self.server.stop().await;
    }
}
