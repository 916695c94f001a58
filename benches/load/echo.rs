//! The yardsticks: hyper and rustls set up as in the server, and no more done than reading the body and answering
//! with its uid. One looks for the uid in the bytes; the other reads the body as generic JSON, which a server that
//! knows nothing of pods would have to do at least.

use std::convert::Infallible;
use std::path::Path;

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use plimsoll::metrics::Metrics;
use plimsoll::server::tls::wall_clock;
use plimsoll::server::{CertificateSource, CertificateStore, ClientAuth, TlsOptions};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::server::{CA_FILE, PORTS_FILE};

/// Serves until it is killed.
pub(crate) fn run(folder: &Path, json: bool) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(folder, json))
}

async fn serve(folder: &Path, json: bool) -> anyhow::Result<()> {
    let tls = TlsOptions {
        source: CertificateSource::Ephemeral { names: vec!["localhost".to_owned()] },
        client_auth: ClientAuth::None,
        tls13_only: false,
        http2: false,
    };
    let certificates = CertificateStore::open(tls, wall_clock(), &Metrics::new("echo"))?;
    std::fs::write(folder.join(CA_FILE), certificates.ca_pem().context("no CA")?)?;
    let acceptor = TlsAcceptor::from(certificates.server_config().context("no certificate")?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let ports = serde_json::json!({"admission": listener.local_addr()?.to_string()});
    let written = folder.join("ports.new");
    std::fs::write(&written, ports.to_string())?;
    std::fs::rename(written, folder.join(PORTS_FILE))?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(connection(stream, acceptor.clone(), json));
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, json: bool) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let _ = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service_fn(move |request| answer(request, json)))
        .await;
}

async fn answer(request: Request<Incoming>, json: bool) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    let body = body.as_deref().unwrap_or_default();
    let uid = if json { json_uid(body) } else { uid(body).map(str::to_owned) };
    let mut response = match &uid {
        Some(uid) => Response::new(Full::new(Bytes::from(format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{{"uid":"{uid}","allowed":true}}}}"#
        )))),
        None => Response::new(Full::default()),
    };
    if uid.is_none() {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn json_uid(body: &[u8]) -> Option<String> {
    let review: serde_json::Value = serde_json::from_slice(body).ok()?;
    Some(review.get("request")?.get("uid")?.as_str()?.to_owned())
}

/// The first uid in the body, which is the request's.
fn uid(body: &[u8]) -> Option<&str> {
    let key = br#""uid":""#;
    let start = body.windows(key.len()).position(|window| window == key)? + key.len();
    let rest = body.get(start..)?;
    let end = rest.iter().position(|&byte| byte == b'"')?;
    std::str::from_utf8(rest.get(..end)?).ok()
}
