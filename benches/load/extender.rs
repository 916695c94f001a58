//! A scheduler that asks for points, one pod after the other, next to an extender that gives every node the same.
//!
//! Our extender is the server's own listener and decisions, over a cluster that is made up here in place of one that is
//! watched. The other one is hyper and rustls set up likewise: it reads the request and sends an answer that is ready.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use plimsoll::metrics::Metrics;
use plimsoll::placement::{PlacedPods, PlacementState, extender, now};
use plimsoll::server::tls::wall_clock;
use plimsoll::server::{
    CertificateSource, CertificateStore, ClientAuth, ServerOptions, Shutdown, TlsOptions,
};
use plimsoll_core::placement::extender::{EQUAL, priorities};
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::Options;
use crate::client::{Load, Target};
use crate::cluster::Cluster;
use crate::latencies::{Latencies, Percentiles};
use crate::legs::{Round, Side, measure, median, quietest, runtime, side};
use crate::report::{say, table};
use crate::server::{CA_FILE, Kind, PORTS_FILE, Programs, Server};

const NODES: [usize; 2] = [1000, 5000];

/// Both extenders, with one request at a time.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Prioritize {
    pub(crate) nodes: usize,
    pub(crate) request_bytes: usize,
    pub(crate) constant: Side,
    pub(crate) plimsoll: Side,
    /// Latency of ours by that of the other: the median of the rounds' ratios.
    pub(crate) latency_ratio: f64,
}

pub(crate) fn run(options: &Options, programs: &Programs) -> anyhow::Result<Vec<Prioritize>> {
    NODES.into_iter().map(|nodes| compare(options, programs, nodes)).collect()
}

fn compare(options: &Options, programs: &Programs, nodes: usize) -> anyhow::Result<Prioritize> {
    let servers = [Kind::Constant(nodes), Kind::Extender(nodes)];
    let [constant, ours] = servers.map(|kind| Server::start(programs, kind, None));
    let servers = [constant?, ours?];
    let runtime = runtime()?;
    let mut sides: [(Vec<Round>, Latencies); 2] = Default::default();
    for number in 1..=options.rounds {
        for (server, (rounds, latencies)) in servers.iter().zip(&mut sides) {
            let (round, noted) = quietest(options, || {
                runtime.block_on(async {
                    let load = Load::closed_loop(&Target::new(server)?, 1).await?;
                    let (warm_up, measured) = options.round();
                    measure(server, load, warm_up, measured).await
                })
            })?;
            say(&format!(
                "{nodes} nodes: round {number}, {}: {:.0} requests/s, {:.1} us of CPU each, others use {:.2} cores",
                server.kind.name(),
                round.requests_per_second,
                round.cpu_us_per_request,
                round.others_cores
            ));
            rounds.push(round);
            latencies.append(noted);
        }
    }
    let [constant, plimsoll] = sides.map(|(rounds, latencies)| side(rounds, latencies));
    let ratios = constant.rounds.iter().zip(&plimsoll.rounds);
    Ok(Prioritize {
        nodes,
        request_bytes: crate::cluster::request(nodes).len(),
        latency_ratio: median(
            ratios.map(|(constant, ours)| constant.requests_per_second / ours.requests_per_second).collect(),
        ),
        constant,
        plimsoll,
    })
}

pub(crate) fn print(results: &[Prioritize]) {
    say("\nA scheduler that asks for points, one request at a time over one connection\n");
    let mut table =
        table(&["nodes", "extender", "requests/s", "p50 us", "p99 us", "CPU us/request", "ratio"]);
    for result in results {
        let ratio = format!("{:.2} x", result.latency_ratio);
        for (name, side, ratio) in
            [("constant points", &result.constant, String::new()), ("plimsoll", &result.plimsoll, ratio)]
        {
            let Percentiles { p50, p99, .. } = side.latency_us;
            table.add_row([
                result.nodes.to_string(),
                name.to_owned(),
                format!("{:.0}", side.requests_per_second),
                format!("{p50:.0}"),
                format!("{p99:.0}"),
                format!("{:.0}", side.cpu_us_per_request),
                ratio,
            ]);
        }
    }
    say(&table.to_string());
}

/// Serves until it is killed.
pub(crate) fn serve(folder: &Path, nodes: usize, constant: bool) -> anyhow::Result<()> {
    let metrics = Arc::new(Metrics::new("load"));
    let tls = TlsOptions {
        source: CertificateSource::Ephemeral { names: vec!["localhost".to_owned()] },
        client_auth: ClientAuth::None,
        tls13_only: false,
        http2: false,
    };
    let certificates = CertificateStore::open_for(tls, wall_clock(), metrics.extender_listener().clone())?;
    std::fs::write(folder.join(CA_FILE), certificates.ca_pem().context("no CA")?)?;
    let cluster = Cluster::new(nodes, now(), false);
    runtime()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let ports = serde_json::json!({"admission": listener.local_addr()?.to_string()});
        let written = folder.join("ports.new");
        std::fs::write(&written, ports.to_string())?;
        std::fs::rename(written, folder.join(PORTS_FILE))?;
        if constant {
            return serve_constant(listener, &certificates, &cluster).await;
        }
        let engine: Arc<dyn extender::Engine> = Arc::new(state(cluster));
        let options = ServerOptions::default();
        extender::serve(listener, certificates, options, engine, metrics, Shutdown::new()).await?;
        Ok(())
    })
}

fn state(cluster: Cluster) -> PlacementState {
    let mut state = PlacementState::new(cluster.settings, Arc::default());
    state.objects.store(Arc::new(cluster.objects));
    state.load.store(Arc::new(cluster.load));
    state.weights.store(Arc::new(cluster.weights));
    state.pods = PlacedPods::of(cluster.placed);
    state
}

async fn serve_constant(
    listener: TcpListener,
    certificates: &CertificateStore,
    cluster: &Cluster,
) -> anyhow::Result<()> {
    let acceptor = TlsAcceptor::from(certificates.server_config().context("no certificate")?);
    let names: Vec<&str> = cluster.names.iter().map(String::as_str).collect();
    let answer = Bytes::from(priorities(&names, &vec![EQUAL; names.len()]));
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(connection(stream, acceptor.clone(), answer.clone()));
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, answer: Bytes) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let answer = |request: Request<Incoming>| {
        let answer = answer.clone();
        async move {
            let _ = request.into_body().collect().await;
            let mut response = Response::new(Full::new(answer));
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            Ok::<_, Infallible>(response)
        }
    };
    let _ = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service_fn(answer))
        .await;
}
