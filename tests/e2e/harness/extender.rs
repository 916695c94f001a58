//! A scheduler extender that does what a scenario says, to see what a scheduler sends and what it makes of answers.

use std::convert::Infallible;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::certificates::{Authority, Identity};

/// What it was asked.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

/// What it says to a call; `None`: nothing, ever.
type Answer = dyn Fn(&Call) -> Option<Value> + Send + Sync;

struct Shared {
    answer: Box<Answer>,
    calls: Mutex<Vec<Call>>,
}

/// A running extender that lets in whom the authority knows. It ends with the runtime.
#[derive(Clone)]
pub(crate) struct StandIn {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl StandIn {
    /// Serves on a free port of loopback.
    pub(crate) async fn listen(
        authority: &Authority,
        identity: &Identity,
        answer: impl Fn(&Call) -> Option<Value> + Send + Sync + 'static,
    ) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let chain =
            CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.der())?;
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build()?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let shared = Arc::new(Shared { answer: Box::new(answer), calls: Mutex::default() });
        let stand_in = Self { address: listener.local_addr()?, shared: Arc::clone(&shared) };
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                tokio::spawn(connection(stream, acceptor.clone(), Arc::clone(&shared)));
            }
        });
        Ok(stand_in)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// What it was asked so far, in order.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let answer = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(answer(request, &shared).await) }
    });
    // A caller that hangs up is no news.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}

async fn answer(request: Request<Incoming>, shared: &Shared) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let headers = request
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let body = match request.into_body().collect().await {
        Ok(body) => serde_json::from_slice(&body.to_bytes()).unwrap_or_default(),
        Err(_) => Value::Null,
    };
    let call = Call { path, headers, body };
    let said = (shared.answer)(&call);
    shared.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    match said {
        Some(said) => Response::new(Full::new(Bytes::from(said.to_string()))),
        None => pending().await,
    }
}
