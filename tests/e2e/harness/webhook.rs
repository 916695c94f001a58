//! A second mutating webhook, to see how the server under test gets on with others.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use super::certificates::Identity;

/// From the request under review (`operation`, `object`, `oldObject` ..) to JSON patch operations.
type Mutate = dyn Fn(&Value) -> Vec<Value> + Send + Sync;

struct Shared {
    mutate: Box<Mutate>,
    seen: Mutex<Vec<Value>>,
}

/// A running webhook. It ends with the runtime.
#[derive(Clone)]
pub(crate) struct TestWebhook {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl TestWebhook {
    /// Serves on a free port of `address`.
    pub(crate) async fn listen(
        address: Ipv4Addr,
        identity: &Identity,
        mutate: impl Fn(&Value) -> Vec<Value> + Send + Sync + 'static,
    ) -> Result<Self> {
        let chain =
            CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((address, 0)).await?;
        let shared = Arc::new(Shared { mutate: Box::new(mutate), seen: Mutex::default() });
        let webhook = Self { address: listener.local_addr()?, shared: Arc::clone(&shared) };
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                tokio::spawn(connection(stream, acceptor.clone(), Arc::clone(&shared)));
            }
        });
        Ok(webhook)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// The requests that it was shown, in order.
    pub(crate) fn seen(&self) -> Vec<Value> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let answer = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move {
            Ok::<_, Infallible>(match review(request, &shared).await {
                Ok(body) => Response::new(Full::new(Bytes::from(body.to_string()))),
                Err(error) => {
                    let mut response = Response::new(Full::new(Bytes::from(format!("{error:#}"))));
                    *response.status_mut() = http::StatusCode::BAD_REQUEST;
                    response
                }
            })
        }
    });
    // A caller that hangs up is no news.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}

async fn review(request: Request<Incoming>, shared: &Shared) -> Result<Value> {
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body)?;
    let request = review.get("request").context("no request")?;
    let uid = request.get("uid").context("no uid")?;
    shared.seen.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
    let patch = (shared.mutate)(request);
    let mut response = json!({"uid": uid, "allowed": true});
    if !patch.is_empty() {
        response["patchType"] = "JSONPatch".into();
        response["patch"] = BASE64_STANDARD.encode(Value::from(patch).to_string()).into();
    }
    Ok(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}
