//! A server that answers as a test says, and samples that are kept.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use plimsoll::recommender::sources::Sample;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A call as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// From the URL or the body.
    pub(crate) form: BTreeMap<String, String>,
    pub(crate) headers: HeaderMap,
}

impl Asked {
    pub(crate) fn get(&self, name: &str) -> &str {
        self.form.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(crate) fn is_cpu(&self) -> bool {
        self.get("query").contains("cpu")
    }
}

/// What to do with a call.
pub(crate) enum Reply {
    /// Status, headers, body.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// Never answer.
    Hang,
    /// Promise more than this and close.
    CutOff(String),
}

impl Reply {
    pub(crate) fn ok(body: impl Into<String>) -> Self {
        Self::status(200, body)
    }

    pub(crate) fn status(code: u16, body: impl Into<String>) -> Self {
        Self::Answer(code, Vec::new(), body.into())
    }
}

type Handler = dyn Fn(&Asked) -> Reply + Send + Sync;

/// A server on loopback that lives as long as the runtime of the test.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    handler: Arc<Handler>,
}

impl Server {
    pub(crate) async fn start(handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with(None, handler).await
    }

    pub(crate) async fn start_with(
        tls: Option<TlsAcceptor>,
        handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let this = Self { address, asked: Arc::default(), handler: Arc::new(handler) };
        let clone = this.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (clone, tls) = (clone.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => clone.serve(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                clone.serve(stream).await;
                            }
                        }
                    }
                });
            }
        });
        this
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service_fn(move |request| {
            let served = self.clone();
            async move { Ok::<_, Infallible>(served.answer(request).await) }
        });
        let _ =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<BoxBody<Bytes, io::Error>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let mut form = decoded(parts.uri.query().unwrap_or_default());
        form.extend(decoded(std::str::from_utf8(&body).unwrap()));
        let asked =
            Asked { method: parts.method, path: parts.uri.path().to_owned(), form, headers: parts.headers };
        let reply = (self.handler)(&asked);
        self.asked.lock().unwrap().push(asked);
        match reply {
            Reply::Answer(code, headers, body) => {
                let mut response = Response::builder().status(code);
                for (name, value) in headers {
                    response = response.header(name, value);
                }
                response.body(Full::from(body).map_err(|never| match never {}).boxed()).unwrap()
            }
            Reply::Hang => std::future::pending().await,
            Reply::CutOff(text) => {
                let length = text.len() + 100;
                let frames = futures_util::stream::unfold(Some(text), |text| async move {
                    let Some(text) = text else {
                        // The beginning is sent when there is nothing more for a moment.
                        tokio::task::yield_now().await;
                        return Some((Err(io::Error::other("cut off on purpose")), None));
                    };
                    Some((Ok(Frame::data(Bytes::from(text))), None))
                });
                let body = http_body_util::BodyExt::boxed(StreamBody::new(Box::pin(frames)));
                Response::builder().header("content-length", length).body(body).unwrap()
            }
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn decoded(form: &str) -> BTreeMap<String, String> {
    let text = |part: &str| {
        let mut bytes = Vec::new();
        let mut rest = part.as_bytes();
        while let Some((first, after)) = rest.split_first() {
            if *first == b'%' {
                let hex = std::str::from_utf8(&after[..2]).unwrap();
                bytes.push(u8::from_str_radix(hex, 16).unwrap());
                rest = &after[2..];
            } else {
                bytes.push(if *first == b'+' { b' ' } else { *first });
                rest = after;
            }
        }
        String::from_utf8(bytes).unwrap()
    };
    let pairs = form.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (text(name), text(value))).collect()
}

/// A sample that was kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    pub(crate) name: String,
    pub(crate) nanos: i64,
    pub(crate) cpu: Option<f64>,
    pub(crate) memory: Option<f64>,
}

/// `namespace/pod/container` at so many seconds.
pub(crate) fn kept(name: &str, seconds: i64, cpu: Option<f64>, memory: Option<f64>) -> Kept {
    Kept { name: name.to_owned(), nanos: seconds * SECOND, cpu, memory }
}

pub(crate) const SECOND: i64 = 1_000_000_000;

/// A sink that keeps.
pub(crate) fn keep(all: &mut Vec<Kept>) -> impl FnMut(&Sample<'_>) + Send {
    |sample| {
        all.push(Kept {
            name: [sample.namespace, sample.pod, sample.container].join("/"),
            nanos: sample.nanos,
            cpu: sample.cpu,
            memory: sample.memory,
        });
    }
}
