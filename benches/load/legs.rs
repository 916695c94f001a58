//! What is measured, in which order.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::Options;
use crate::client::{Load, Target};
use crate::extender::{self, Prioritize};
use crate::latencies::{Latencies, Percentiles};
use crate::machine::{self, Machine};
use crate::report::say;
use crate::scrape::{Histogram, ServerSide};
use crate::server::{Kind, Programs, Server};

const STARTS: usize = 5;
/// A round counts as undisturbed if others used no more than this of a core.
const QUIET_CORES: f64 = 0.1;
/// What a server may still do after it said that it is ready.
const SETTLE: Duration = Duration::from_millis(500);

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) request_bytes: usize,
    pub(crate) connections: usize,
    pub(crate) closed_loop: Vec<Comparison>,
    pub(crate) paced: Vec<Paced>,
    pub(crate) start_to_ready_ms: Vec<f64>,
    pub(crate) resident_kib: Vec<Resident>,
    pub(crate) extender: Vec<Prioritize>,
}

/// The servers, with as many requests as they can answer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Comparison {
    /// Which cores the servers and the client had.
    pub(crate) cores: &'static str,
    pub(crate) echo: Side,
    pub(crate) json_echo: Side,
    pub(crate) plimsoll: Side,
    /// Throughput of Plimsoll by that of the echo: the median of the rounds' ratios.
    pub(crate) throughput_ratio: f64,
    /// CPU time per request of the echo by that of Plimsoll.
    pub(crate) cpu_ratio: f64,
}

/// One of the servers over all rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Side {
    /// Median of the rounds.
    pub(crate) requests_per_second: f64,
    /// As the client saw it.
    pub(crate) latency_us: Percentiles,
    pub(crate) cpu_us_per_request: f64,
    pub(crate) rounds: Vec<Round>,
}

/// One measured stretch of time.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Round {
    pub(crate) requests_per_second: f64,
    pub(crate) cpu_us_per_request: f64,
    /// Cores that everything but server and client used meanwhile: the noise.
    pub(crate) others_cores: f64,
    #[serde(skip)]
    requests: f64,
    #[serde(skip)]
    cpu: f64,
}

/// A fixed rate of requests.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Paced {
    pub(crate) server: &'static str,
    pub(crate) requests_per_second: f64,
    /// From when each request was due until its answer was read.
    pub(crate) latency_us: Percentiles,
    pub(crate) cpu_us_per_request: f64,
    pub(crate) others_cores: f64,
    /// By the server's own histogram.
    pub(crate) server_side: Option<ServerSide>,
}

/// Resident memory of a server.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Resident {
    pub(crate) server: &'static str,
    pub(crate) idle: u64,
    pub(crate) after: u64,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Echo => "bare echo",
            Self::JsonEcho => "echo that reads JSON",
            Self::Plimsoll => "plimsoll",
            Self::Extender(_) => "plimsoll's extender",
            Self::Constant(_) => "extender with constant points",
        }
    }
}

pub(crate) fn run(options: &Options, programs: &Programs) -> anyhow::Result<Results> {
    let mut start_to_ready_ms = Vec::new();
    for _ in 0..STARTS {
        let server = Server::start(programs, Kind::Plimsoll, None)?;
        start_to_ready_ms.push(server.start_to_ready.as_secs_f64() * 1000.0);
    }
    let mut closed_loop = Vec::new();
    let last = machine::cores() - 1;
    if last > 0 && machine::pin(&last.to_string()) {
        let servers = start_all(programs, Some(0))?;
        let cores = "server on one core, client on another";
        closed_loop.push(compare(options, cores, &servers, &runtime()?)?);
        machine::pin(&format!("0-{last}"));
    } else {
        say("no second core, or no taskset: servers and client share what there is");
    }
    let servers = start_all(programs, None)?;
    std::thread::sleep(SETTLE);
    let idle = resident(&servers)?;
    let runtime = runtime()?;
    let mut paced = Vec::new();
    for server in &servers {
        say(&format!("{}: {} requests a second", server.kind.name(), options.rate));
        let (_, leg) = quietest(options, || runtime.block_on(pace(options, server)))?;
        paced.push(leg);
    }
    closed_loop.push(compare(options, "server and client share all cores", &servers, &runtime)?);
    let after = resident(&servers)?;
    let resident_kib = servers.iter().zip(idle.iter().zip(after)).map(|(server, (idle, after))| Resident {
        server: server.kind.name(),
        idle: idle / 1024,
        after: after / 1024,
    });
    Ok(Results {
        machine: Machine::read(),
        request_bytes: crate::data::review().len(),
        connections: options.connections,
        closed_loop,
        paced,
        start_to_ready_ms,
        resident_kib: resident_kib.collect(),
        extender: extender::run(options, programs)?,
    })
}

fn start_all(programs: &Programs, core: Option<usize>) -> anyhow::Result<[Server; 3]> {
    let start = |kind| Server::start(programs, kind, core);
    Ok([start(Kind::Echo)?, start(Kind::JsonEcho)?, start(Kind::Plimsoll)?])
}

fn resident(servers: &[Server; 3]) -> anyhow::Result<Vec<u64>> {
    servers.iter().map(Server::resident).collect()
}

/// As the servers' own: a thread for each core that there is for this process now.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

fn compare(
    options: &Options,
    cores: &'static str,
    servers: &[Server; 3],
    runtime: &Runtime,
) -> anyhow::Result<Comparison> {
    let mut sides: [(Vec<Round>, Latencies); 3] = Default::default();
    for number in 1..=options.rounds {
        for (server, (rounds, latencies)) in servers.iter().zip(&mut sides) {
            let (round, noted) = quietest(options, || {
                runtime.block_on(async {
                    let load = Load::closed_loop(&Target::new(server)?, options.connections).await?;
                    let (warm_up, measured) = options.round();
                    measure(server, load, warm_up, measured).await
                })
            })?;
            say(&format!(
                "{cores}: round {number}, {}: {:.0} requests/s, {:.1} us of CPU each, others use {:.2} cores",
                server.kind.name(),
                round.requests_per_second,
                round.cpu_us_per_request,
                round.others_cores
            ));
            rounds.push(round);
            latencies.append(noted);
        }
    }
    let [echo, json_echo, plimsoll] = sides.map(|(rounds, latencies)| side(rounds, latencies));
    let ratios = plimsoll.rounds.iter().zip(&echo.rounds);
    Ok(Comparison {
        cores,
        throughput_ratio: median(
            ratios.map(|(plimsoll, echo)| plimsoll.requests_per_second / echo.requests_per_second).collect(),
        ),
        cpu_ratio: echo.cpu_us_per_request / plimsoll.cpu_us_per_request,
        echo,
        json_echo,
        plimsoll,
    })
}

/// Measures, and measures again where something else used the machine; what was disturbed least counts.
pub(crate) fn quietest<T>(
    options: &Options,
    mut measure: impl FnMut() -> anyhow::Result<(Round, T)>,
) -> anyhow::Result<(Round, T)> {
    let mut best = None;
    for _ in 0..=options.retries {
        machine::wait_until_quiet(Duration::from_secs_f64(options.quiet_wait))?;
        let (round, rest) = measure()?;
        let others = round.others_cores;
        if best.as_ref().is_none_or(|(best, _): &(Round, T)| others < best.others_cores) {
            best = Some((round, rest));
        }
        if others < QUIET_CORES {
            break;
        }
    }
    best.context("nothing was measured")
}

pub(crate) fn side(rounds: Vec<Round>, latencies: Latencies) -> Side {
    let sum = |of: fn(&Round) -> f64| rounds.iter().map(of).sum::<f64>();
    Side {
        requests_per_second: median(rounds.iter().map(|round| round.requests_per_second).collect()),
        latency_us: latencies.percentiles(),
        cpu_us_per_request: sum(|round| round.cpu) * 1e6 / sum(|round| round.requests),
        rounds,
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    if values.len() % 2 == 1 { at(middle) } else { f64::midpoint(at(middle.saturating_sub(1)), at(middle)) }
}

/// Lets a load run, and measures after a warm-up.
pub(crate) async fn measure(
    server: &Server,
    load: Load,
    warm_up: Duration,
    measured: Duration,
) -> anyhow::Result<(Round, Latencies)> {
    tokio::time::sleep(warm_up).await;
    load.record(true);
    let sample = || anyhow::Ok((server.cpu()?, machine::own_cpu()?, machine::busy()?, load.done()));
    let (cpu, own, busy, done) = sample()?;
    let began = Instant::now();
    tokio::time::sleep(measured).await;
    let seconds = began.elapsed().as_secs_f64();
    let (cpu_after, own_after, busy_after, done_after) = sample()?;
    load.record(false);
    let latencies = load.stop().await?;
    #[expect(clippy::cast_precision_loss, reason = "a count of one round")]
    let requests = (done_after - done) as f64;
    let cpu = (cpu_after.saturating_sub(cpu)).as_secs_f64();
    let others =
        (busy_after.saturating_sub(busy)).as_secs_f64() - cpu - (own_after.saturating_sub(own)).as_secs_f64();
    let round = Round {
        requests_per_second: requests / seconds,
        cpu_us_per_request: cpu * 1e6 / requests,
        others_cores: (others / seconds).max(0.0),
        requests,
        cpu,
    };
    Ok((round, latencies))
}

async fn pace(options: &Options, server: &Server) -> anyhow::Result<(Round, Paced)> {
    let load = Load::paced(&Target::new(server)?, options.connections, options.rate).await?;
    let warm_up = options.round().0;
    tokio::time::sleep(warm_up).await;
    let histogram = || server.probes.map(Histogram::read).transpose();
    let before = histogram()?;
    let measured = Duration::from_secs_f64(options.paced_seconds);
    let (round, latencies) = measure(server, load, Duration::ZERO, measured).await?;
    let server_side = match (before, histogram()?) {
        (Some(before), Some(after)) => Some(after.since(&before)?),
        _ => None,
    };
    let paced = Paced {
        server: server.kind.name(),
        requests_per_second: round.requests_per_second,
        latency_us: latencies.percentiles(),
        cpu_us_per_request: round.cpu_us_per_request,
        others_cores: round.others_cores,
        server_side,
    };
    Ok((round, paced))
}
