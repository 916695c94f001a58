//! Prometheus with a past that a scenario writes, and with a present that it sets.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::net::{free_ports, http_get};
use super::process::Process;
use super::{tools, until};

const CONFIG: &str = "prometheus.yaml";
const DATA: &str = "data";

/// Samples of the past in the text format of OpenMetrics.
#[derive(Debug, Default)]
pub(crate) struct Past(String);

impl Past {
    /// Adds a series such as `up{job="a"}`: seconds since 1970, rising, and values.
    pub(crate) fn add(&mut self, series: &str, samples: impl IntoIterator<Item = (i64, f64)>) -> &mut Self {
        for (seconds, value) in samples {
            // Writing to a String cannot fail.
            let _ = writeln!(self.0, "{series} {value} {seconds}");
        }
        self
    }

    fn text(&self) -> String {
        format!("{}# EOF\n", self.0)
    }
}

/// A running Prometheus. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Prometheus {
    program: PathBuf,
    dir: PathBuf,
    address: SocketAddr,
    process: Process,
}

impl Prometheus {
    /// Starts one that knows the `past` and looks at `targets` every second, with its data in `dir`.
    pub(crate) async fn start(dir: &Path, past: &Past, targets: &[&ScrapeTarget]) -> Result<Self> {
        Self::start_every(1, dir, past, targets).await
    }

    /// [`Prometheus::start`], but it looks after so many seconds each.
    pub(crate) async fn start_every(
        seconds: u32,
        dir: &Path,
        past: &Past,
        targets: &[&ScrapeTarget],
    ) -> Result<Self> {
        let [program, promtool] = tools::prometheus()?;
        fs::create_dir_all(dir)?;
        let data = dir.join(DATA);
        if !past.0.is_empty() {
            let text = dir.join("past.txt");
            fs::write(&text, past.text())?;
            let mut command = Command::new(promtool);
            command.args(["tsdb", "create-blocks-from", "openmetrics"]).arg(&text).arg(&data);
            let output = command.output().context("run promtool")?;
            ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let targets: Vec<_> = targets.iter().map(|target| target.address.to_string()).collect();
        let config = json!({
            "global": {"scrape_interval": format!("{seconds}s"), "scrape_timeout": "1s"},
            "scrape_configs": [{
                "job_name": "e2e", "honor_labels": true, "static_configs": [{"targets": targets}],
            }],
        });
        // JSON is YAML.
        fs::write(dir.join(CONFIG), config.to_string())?;
        let [port] = free_ports()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let process = launch(&program, dir, address).await?;
        Ok(Self { program, dir: dir.to_owned(), address, process })
    }

    /// Starts it once more after it was killed; it knows what it knew.
    pub(crate) async fn start_again(&mut self) -> Result<()> {
        self.process = launch(&self.program, &self.dir, self.address).await?;
        Ok(())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The results of an instant query; the query must not need escaping beyond spaces, braces and quotes.
    pub(crate) async fn query(&self, query: &str) -> Result<Vec<Value>> {
        let mut escaped = String::new();
        for byte in query.bytes() {
            let _ = write!(escaped, "%{byte:02X}");
        }
        let (code, body) = http_get(self.address, &format!("/api/v1/query?query={escaped}")).await?;
        ensure!(code == 200, "query {query}: {code}: {body}");
        let mut answer: Value = serde_json::from_str(&body)?;
        Ok(answer["data"]["result"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Waits until a query has results.
    pub(crate) async fn answers(&self, query: &str) -> Result<Vec<Value>> {
        until(format!("Prometheus to know of {query}"), async || {
            Ok(Some(self.query(query).await?).filter(|results| !results.is_empty()))
        })
        .await
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }
}

/// With the configuration and the data in `dir`.
async fn launch(program: &Path, dir: &Path, address: SocketAddr) -> Result<Process> {
    let mut command = Command::new(program);
    command
        .arg(format!("--config.file={}", dir.join(CONFIG).display()))
        .arg(format!("--storage.tsdb.path={}", dir.join(DATA).display()))
        // What a scenario puts in the past stays there, however far.
        .arg("--storage.tsdb.retention.time=10y")
        .arg(format!("--web.listen-address={address}"));
    let mut process = Process::start("prometheus", &mut command, dir)?;
    until("Prometheus to be ready", async || {
        if let Err(ended) = process.check() {
            return Ok(Some(Err(ended)));
        }
        let (code, body) = http_get(address, "/-/ready").await?;
        ensure!(code == 200, "{code}: {body}");
        Ok(Some(Ok(())))
    })
    .await
    .with_context(|| process.tail())??;
    Ok(process)
}

/// What a series says now.
#[derive(Debug, Clone, Copy)]
enum Reading {
    Gauge(f64),
    /// It was `base` at `since` and grows from there.
    Counter {
        base: f64,
        since: Instant,
        per_second: f64,
    },
}

impl Reading {
    fn value(self) -> f64 {
        match self {
            Self::Gauge(value) => value,
            Self::Counter { base, since, per_second } => base + since.elapsed().as_secs_f64() * per_second,
        }
    }
}

/// Series for Prometheus to scrape. It ends with the runtime.
#[derive(Debug, Clone)]
pub(crate) struct ScrapeTarget {
    address: SocketAddr,
    series: Arc<Mutex<BTreeMap<String, Reading>>>,
}

impl ScrapeTarget {
    /// Serves on a free port of loopback.
    pub(crate) async fn listen() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let target = Self { address: listener.local_addr()?, series: Arc::default() };
        let served = target.clone();
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let target = served.clone();
                let answer = service_fn(move |_| {
                    let response = Response::builder()
                        .header("content-type", "text/plain; version=0.0.4")
                        .body(Full::new(Bytes::from(target.text())));
                    async move { Ok::<_, Infallible>(response.unwrap_or_default()) }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                // A scraper that hangs up is no news.
                tokio::spawn(
                    async move { drop(connection.serve_connection(TokioIo::new(stream), answer).await) },
                );
            }
        });
        Ok(target)
    }

    /// A series such as `container_memory_working_set_bytes{pod="a"}` has this value from now on.
    pub(crate) fn set(&self, series: &str, value: f64) {
        self.with(|all| all.insert(series.into(), Reading::Gauge(value)));
    }

    /// A series such as `container_cpu_usage_seconds_total{pod="a"}` grows so fast from now on.
    pub(crate) fn grow(&self, series: &str, per_second: f64) {
        self.with(|all| {
            let base = all.get(series).map_or(0.0, |reading| reading.value());
            all.insert(series.into(), Reading::Counter { base, since: Instant::now(), per_second })
        });
    }

    /// A series goes on from `base`, growing so fast.
    pub(crate) fn grow_from(&self, series: &str, base: f64, per_second: f64) {
        self.with(|all| {
            all.insert(series.into(), Reading::Counter { base, since: Instant::now(), per_second })
        });
    }

    /// A series is there no more.
    pub(crate) fn remove(&self, series: &str) {
        self.with(|all| all.remove(series));
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, Reading>) -> T) -> T {
        act(&mut self.series.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn text(&self) -> String {
        let mut text = String::new();
        self.with(|all| {
            for (name, reading) in all {
                let _ = writeln!(text, "{name} {}", reading.value());
            }
        });
        text
    }
}
