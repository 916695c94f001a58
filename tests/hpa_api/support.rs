//! A world to ask in: who may, what is known, what metrics-server says.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use plimsoll::hpa::api::{Parts, PodTable, Served, Unkept, UpstreamOptions, World, serve};
use plimsoll::metrics::Metrics;
use plimsoll::server::tls::{TlsOptions, wall_clock};
use plimsoll::server::{
    CertificateSource, CertificateStore, ClientAuth, Readiness, ServerError, ServerOptions, Shutdown,
};
use plimsoll_core::admission::{AbsentNamespace, Settings};
use plimsoll_core::hpa::HpaPod;
use plimsoll_core::objects::{Objects, read_manifest};
use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::server::{Asked, Reply, Server};
use crate::tls::{self, Authority, Pair};
use crate::wait::{PATIENCE, until, within};

/// The controller of autoscalers.
pub(crate) const CONTROLLER: &str = "system:serviceaccount:kube-system:horizontal-pod-autoscaler";
/// With what metrics-server is asked.
pub(crate) const OUR_TOKEN: &str = "our-own-token";

/// What the API server knows.
#[derive(Default)]
pub(crate) struct Cluster {
    /// `data` of the ConfigMap; nothing: there is none.
    pub(crate) config_map: Option<Value>,
    /// User names by token.
    pub(crate) tokens: BTreeMap<String, String>,
    /// Users without rights.
    pub(crate) powerless: Vec<String>,
    /// Whether it does not answer.
    pub(crate) away: bool,
    /// The specs of reviews that were asked for.
    pub(crate) reviews: Vec<Value>,
}

impl Cluster {
    fn answer(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let failure = |code: u16, message: &str| {
            (
                code,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}),
            )
        };
        if self.away {
            return failure(503, "away on purpose");
        }
        if path.ends_with("/configmaps/extension-apiserver-authentication") {
            let Some(data) = &self.config_map else { return failure(404, "not found") };
            return (200, json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data}));
        }
        let spec = &body["spec"];
        self.reviews.push(spec.clone());
        let status = if path.ends_with("/tokenreviews") {
            match self.tokens.get(spec["token"].as_str().unwrap()) {
                Some(user) => {
                    json!({"authenticated": true, "user": {"username": user, "groups": ["system:authenticated"]}})
                }
                None => json!({"authenticated": false, "error": "token has expired"}),
            }
        } else if path.ends_with("/subjectaccessreviews") {
            let user = spec["user"].as_str().unwrap().to_owned();
            json!({"allowed": !self.powerless.contains(&user)})
        } else {
            return failure(404, path);
        };
        (201, json!({"status": status}))
    }
}

/// The pods that are known.
#[derive(Default)]
pub(crate) struct Pods {
    pub(crate) incomplete: bool,
    pods: BTreeMap<(String, String), HpaPod>,
}

impl Pods {
    pub(crate) fn put(&mut self, manifest: &Value) {
        let pod = HpaPod::read(manifest).unwrap();
        self.pods.insert((pod.namespace.to_string(), pod.name.to_string()), pod);
    }
}

#[derive(Clone, Default)]
pub(crate) struct Table(pub(crate) Arc<Mutex<Pods>>);

impl PodTable for Table {
    fn is_complete(&self) -> bool {
        !self.0.lock().unwrap().incomplete
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<HpaPod> {
        self.0.lock().unwrap().pods.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }
}

/// How to start a [`World`].
pub(crate) struct Setup {
    pub(crate) options: ServerOptions,
    pub(crate) served: Served,
    pub(crate) cluster: Cluster,
    pub(crate) upstream_timeout: Duration,
    /// Trust another authority than that of metrics-server's certificate.
    pub(crate) wrong_ca: bool,
    /// Do not check it.
    pub(crate) skip_verify: bool,
}

impl Setup {
    /// Somebody with the front proxy's authority `proxy`.
    pub(crate) fn new(proxy: &Authority) -> Self {
        let options =
            ServerOptions { drain_delay: Duration::ZERO, concurrency: 16, ..ServerOptions::default() };
        let cluster = Cluster {
            config_map: Some(config_map(proxy)),
            tokens: [("alice", "alice"), ("hpa", CONTROLLER), ("nobody", "nobody")]
                .map(|(token, user)| (token.to_owned(), user.to_owned()))
                .into(),
            powerless: vec!["nobody".to_owned()],
            ..Cluster::default()
        };
        Self {
            options,
            served: Served { metrics: true, external: true },
            cluster,
            upstream_timeout: PATIENCE,
            wrong_ca: false,
            skip_verify: false,
        }
    }
}

pub(crate) fn config_map(proxy: &Authority) -> Value {
    json!({
        "client-ca-file": "not of interest",
        "requestheader-client-ca-file": proxy.pem(),
        "requestheader-allowed-names": "[\"front-proxy-client\"]",
        "requestheader-username-headers": "[\"X-Remote-User\"]",
        "requestheader-group-headers": "[\"X-Remote-Group\"]",
        "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
    })
}

/// Everything around the server, and the server.
pub(crate) struct Running {
    address: SocketAddr,
    ca: String,
    pub(crate) cluster: Arc<Mutex<Cluster>>,
    pub(crate) pods: Table,
    pub(crate) objects: Arc<ArcSwap<Objects>>,
    pub(crate) upstream: Server,
    pub(crate) lost: Arc<Mutex<Vec<Unkept>>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) shutdown: Shutdown,
    pub(crate) readiness: Readiness,
    task: JoinHandle<Result<(), ServerError>>,
    _folder: tempfile::TempDir,
}

impl Running {
    pub(crate) async fn with(upstream: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(Setup::new(&Authority::new()), upstream).await
    }

    pub(crate) async fn start(
        setup: Setup,
        upstream: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let metrics = Arc::new(Metrics::new("test"));
        let source = CertificateSource::Ephemeral {
            names: vec!["localhost".to_owned(), "plimsoll.plimsoll-system.svc".to_owned()],
        };
        let tls = TlsOptions { source, client_auth: ClientAuth::Unjudged, tls13_only: false, http2: false };
        let certificates =
            CertificateStore::open_for(tls, wall_clock(), metrics.hpa_api_listener().clone()).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();

        let folder = tempfile::tempdir().unwrap();
        let (acceptor, upstream_ca) = server_tls();
        let upstream = Server::start_with(Some(acceptor), upstream).await;
        let ca = folder.path().join("ca.crt");
        std::fs::write(&ca, if setup.wrong_ca { Authority::new().pem() } else { upstream_ca }).unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, OUR_TOKEN).unwrap();

        let cluster = Arc::new(Mutex::new(setup.cluster));
        let mut credentials = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
        credentials.auth_info.token_file = Some(token.display().to_string());
        let pods = Table::default();
        let objects: Arc<ArcSwap<Objects>> = Arc::default();
        let settings = Settings { absent_namespace: AbsentNamespace::Exists, ..Settings::default() };
        let lost: Arc<Mutex<Vec<Unkept>>> = Arc::default();
        let told = Arc::clone(&lost);
        let shutdown = Shutdown::new();
        let readiness = Readiness::new(shutdown.clone());
        let parts = Parts {
            served: setup.served,
            options: setup.options,
            certificates: Arc::clone(&certificates),
            client: client_of(&cluster),
            credentials,
            upstream: UpstreamOptions {
                address: format!("https://localhost:{}", upstream.address.port()).parse().unwrap(),
                ca: (!setup.skip_verify).then_some(ca),
                insecure_skip_verify: setup.skip_verify,
                timeout: setup.upstream_timeout,
            },
            identities: vec![CONTROLLER.to_owned()],
            front_proxy_interval: Duration::from_millis(10),
            world: World {
                pods: Arc::new(pods.clone()),
                objects: Arc::clone(&objects),
                settings: Arc::new(ArcSwap::from_pointee(settings)),
            },
            tell: Arc::new(move |lost| told.lock().unwrap().push(lost)),
            readiness: readiness.condition("front proxy"),
            metrics: Arc::clone(&metrics),
        };
        let task = tokio::spawn(serve(listener, parts, shutdown.clone()));
        let ca = certificates.ca_pem().unwrap().to_owned();
        let running = Self {
            address,
            ca,
            cluster,
            pods,
            objects,
            upstream,
            lost,
            metrics,
            shutdown,
            readiness,
            task,
            _folder: folder,
        };
        until("the front proxy was looked for", || running.readiness.missing().is_empty()).await;
        running
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The authority of the server's certificate.
    pub(crate) fn ca(&self) -> &str {
        &self.ca
    }

    /// Puts objects into the snapshot.
    pub(crate) fn put(&self, manifests: &[Value]) {
        let mut objects = Objects::clone(&self.objects.load());
        for manifest in manifests {
            objects.put(read_manifest(manifest).unwrap().unwrap());
        }
        self.objects.store(Arc::new(objects));
    }

    /// Makes pods known.
    pub(crate) fn put_pods(&self, manifests: &[Value]) {
        let mut pods = self.pods.0.lock().unwrap();
        for manifest in manifests {
            pods.put(manifest);
        }
    }

    /// A connection, with a certificate or without.
    pub(crate) async fn connect(&self, pair: Option<&Pair>) -> Connection {
        let stream = tls::connect(self.address, &self.ca, pair).await.unwrap();
        let (send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Connection(send)
    }

    /// Asks with a token on a connection of its own.
    pub(crate) async fn get(&self, token: &str, path: &str) -> Answer {
        self.connect(None).await.get(path, &[("authorization", &format!("Bearer {token}"))]).await
    }

    /// The value of a series.
    pub(crate) fn metric(&self, series: &str) -> i64 {
        let text = self.metrics.encode();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
    }

    /// Ends the server and waits for its end.
    pub(crate) async fn stop(self) {
        self.shutdown.close();
        within(self.task).await.unwrap().unwrap();
    }
}

/// A certificate of metrics-server's, and its authority.
fn server_tls() -> (TlsAcceptor, String) {
    let authority = Authority::new();
    let (chain, key) = authority.server().parsed();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), authority.pem())
}

fn client_of(cluster: &Arc<Mutex<Cluster>>) -> kube::Client {
    let cluster = Arc::clone(cluster);
    let service = tower::service_fn(move |request: Request<Body>| {
        let cluster = Arc::clone(&cluster);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (code, answer) = cluster.lock().unwrap().answer(parts.uri.path(), &body);
            let response = Response::builder().status(code).body(Full::new(Bytes::from(answer.to_string())));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    kube::Client::new(service, "default")
}

/// A connection to the server.
pub(crate) struct Connection(SendRequest<Empty<Bytes>>);

impl Connection {
    pub(crate) async fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send("GET", path, headers).await
    }

    pub(crate) async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        within(self.0.ready()).await.unwrap();
        let response = within(self.0.send_request(request.body(Empty::new()).unwrap())).await.unwrap();
        let (head, body) = response.into_parts();
        let body = within(body.collect()).await.unwrap().to_bytes();
        let header = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        Answer {
            status: head.status.as_u16(),
            content_type: header("content-type"),
            server: header("server"),
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The message of a `v1 Status` with the answer's code.
    pub(crate) fn refusal(&self) -> String {
        let status = self.json();
        assert_eq!((&status["kind"], &status["apiVersion"]), (&json!("Status"), &json!("v1")), "{status}");
        assert_eq!(status["code"], json!(self.status), "{status}");
        assert_eq!(self.content_type.as_deref(), Some("application/json"));
        status["message"].as_str().unwrap().to_owned()
    }
}

/// A container: its name, CPU and memory.
pub(crate) type Container<'a> = (&'a str, &'a str, &'a str);

/// An answer of metrics-server about pods of namespace `shop`.
pub(crate) fn pod_metrics(pods: &[(&str, &[Container<'_>])]) -> Value {
    let items: Vec<_> = pods.iter().map(|(name, containers)| one_pod(name, containers)).collect();
    json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items})
}

pub(crate) fn one_pod(name: &str, containers: &[Container<'_>]) -> Value {
    let containers: Vec<_> = containers
        .iter()
        .map(|(name, cpu, memory)| json!({"name": name, "usage": {"cpu": cpu, "memory": memory}}))
        .collect();
    json!({"kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
        "timestamp": "2026-11-30T12:00:00Z", "window": "15.123s", "containers": containers})
}

/// A pod of a Deployment whose container was lowered from `original` to `set`.
pub(crate) fn lowered(app: &str, name: &str, original: &str, set: &str) -> Value {
    let record = json!({"basis": "request", "profile": "all",
        "containers": {"app": {"requests": {"cpu": original}, "set": {"cpu": set}}}});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}, "uid": name,
            "annotations": {"plimsoll.dev/original-resources": record.to_string()},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": app, "controller": true}]},
        "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": set, "memory": "1Gi"}}}]},
        "status": {"phase": "Running"}})
}

pub(crate) fn profile(mode: &str) -> Value {
    json!({"apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile", "metadata": {"name": "all"},
        "spec": {"mode": "Static", "static": {"factors": {"cpu": "0.5"}}, "hpa": {"mode": mode}}})
}

pub(crate) fn hpa(app: &str, metrics: &Value) -> Value {
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": app, "namespace": "shop", "uid": format!("hpa-{app}")},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": app},
            "maxReplicas": 20, "metrics": metrics}})
}

pub(crate) fn utilization(resource: &str) -> Value {
    json!({"type": "Resource", "resource": {"name": resource,
        "target": {"type": "Utilization", "averageUtilization": 80}}})
}
