//! The JSON API of servers: at an address, or through a port-forward that is made here.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Pod;
use kube::core::params::ListParams;
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::timeout;

use super::CliError;
use super::access::{self, Kind, Read};
use crate::config::Config;

/// The longest that an answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// More than 100,000 nodes are.
const LARGEST: usize = 128 << 20;
/// The port where the configuration does not say another.
const PORT: u16 = 8082;
/// What our pods have.
const SELECTOR: &str = "app.kubernetes.io/name=plimsoll";

/// Pods.
pub(super) const PODS: Kind = Kind::new("", "v1", "Pod", "pods");

/// The URL of a path at an address that a person gave.
///
/// # Errors
/// It is no URL.
pub(super) fn url(server: &str, path: &str) -> Result<Uri, CliError> {
    let base = server.trim_end_matches('/');
    format!("{base}{path}")
        .parse()
        .ok()
        .filter(|url: &Uri| url.scheme_str() == Some("http") && url.host().is_some())
        .ok_or_else(|| {
            CliError::Usage(format!(
                "--server {server:?} is not the URL of a JSON API; write it as in http://127.0.0.1:8082"
            ))
        })
}

/// What is answered at a URL.
pub(super) async fn by_url(url: &Uri, config: &Config) -> anyhow::Result<Bytes> {
    let client: HttpClient<HttpConnector, Full<Bytes>> =
        HttpClient::builder(TokioExecutor::new()).build_http();
    let asked = async { Ok(client.get(url.clone()).await?) };
    let namespace = &config.admission.own_namespace;
    let port = url.port_u16().unwrap_or(80);
    let answer = in_time(asked).await.with_context(|| {
        format!(
            "{url}: the server cannot be asked; without --server a port-forward is made, or in another shell run \
             `kubectl -n {namespace} port-forward deployment/plimsoll {port}:8082`"
        )
    })?;
    // It was reached, so that no other way to it is of any help.
    in_time(body(answer)).await.with_context(|| url.to_string())
}

/// Our pods.
pub(super) async fn pods(client: &Client, config: &Config) -> Read<Vec<Value>> {
    let parameters = ListParams::default().labels(SELECTOR);
    access::list_with(client, PODS, Some(&config.admission.own_namespace), parameters, false).await
}

/// Whether a pod takes requests.
pub(super) fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let is =
        |condition: &Value, key: &str, value: &str| condition.get(key).and_then(Value::as_str) == Some(value);
    let ready = |condition: &&Value| is(condition, "type", "Ready") && is(condition, "status", "True");
    !has_ended(pod) && conditions.into_iter().flatten().any(|c| ready(&c))
}

/// Whether a pod is over, or will be soon: it is none of the replicas any more.
pub(super) fn has_ended(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    pod.pointer("/metadata/deletionTimestamp").is_some() || matches!(phase, Some("Succeeded" | "Failed"))
}

/// The name of an object.
pub(super) fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// What a pod answers on its loopback, through the API server.
pub(super) async fn by_pod(client: &Client, config: &Config, pod: &str, path: &str) -> anyhow::Result<Bytes> {
    let namespace = &config.admission.own_namespace;
    let port =
        config.api.address.map_or(PORT, |address| if address.port() == 0 { PORT } else { address.port() });
    let asked = async {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let mut forwarded = pods.portforward(pod, &[port]).await.map_err(|error| match error {
            kube::Error::Api(status) if status.code == 403 => anyhow::anyhow!(
                "create Pod {namespace}/{pod}: not allowed; you lack the right to create on pods/portforward"
            ),
            kube::Error::UpgradeConnection(error) => {
                anyhow::anyhow!("{error}; the right to create on pods/portforward may be missing")
            }
            error => anyhow::Error::new(error),
        })?;
        let stream = forwarded.take_stream(port).context("the port-forward has no stream")?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let request = Request::get(path).header(header::HOST, "localhost").body(Full::<Bytes>::default())?;
        let answer = body(sender.send_request(request).await?).await;
        connection.abort();
        answer
    };
    in_time(asked).await.with_context(|| format!("pod {namespace}/{pod}, port {port}"))
}

/// What one of our pods answers: the first that is ready.
pub(super) async fn by_any_pod(client: &Client, config: &Config, path: &str) -> anyhow::Result<Bytes> {
    let namespace = &config.admission.own_namespace;
    let pods = pods(client, config).await.needed("namespace")?;
    let ready = pods.iter().find(|pod| is_ready(pod)).with_context(|| {
        format!("no pod with {SELECTOR} is ready in {namespace}; `plimsoll status` says why, --server names another place")
    })?;
    by_pod(client, config, name(ready), path).await
}

async fn in_time<T>(asked: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    timeout(TIMEOUT, asked)
        .await
        .map_err(|_| anyhow::anyhow!("no answer within {} s", TIMEOUT.as_secs()))
        .and_then(|answer| answer)
}

async fn body(answer: http::Response<Incoming>) -> anyhow::Result<Bytes> {
    let status = answer.status();
    let body = Limited::new(answer.into_body(), LARGEST).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("{error}"))?.to_bytes();
    if status.is_success() {
        return Ok(body);
    }
    let said = serde_json::from_slice::<Value>(&body).ok();
    let said = said.as_ref().and_then(|answer| answer.get("message")).and_then(Value::as_str);
    anyhow::bail!("{status}: {}", said.unwrap_or("no reason is given"))
}
