//! The server under load, over TLS, next to bare servers that only echo the uid.
//!
//! `make bench-load`; what the figures mean is in `docs/benchmarks.md`. All servers run as processes of their own
//! with the same TLS and runtime settings, and take turns in short rounds, so that whatever else the
//! machine does meets all of them.

#[path = "../data/cluster.rs"]
mod cluster;
#[path = "../data/mod.rs"]
mod data;

mod client;
mod echo;
mod extender;
mod latencies;
mod legs;
mod long;
mod machine;
mod report;
mod scrape;
mod server;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;

/// As in the server, so that the echo has no disadvantage.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How hard, how long, and where the results go.
#[derive(Clone, Debug, Parser)]
#[command(about = "Load on the server and on bare echo servers, in turns")]
struct Options {
    /// Connections, each with one request at a time
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Rounds of each server
    #[arg(long, default_value_t = 6)]
    rounds: usize,
    /// Seconds of a round that are measured
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Seconds before that
    #[arg(long, default_value_t = 0.5)]
    warm_up: f64,
    /// Requests a second of the paced leg
    #[arg(long, default_value_t = 2000)]
    rate: u32,
    /// Seconds of the paced leg
    #[arg(long, default_value_t = 20.0)]
    paced_seconds: f64,
    /// The longest to wait before each round for the machine to be idle, in seconds
    #[arg(long, default_value_t = 30.0)]
    quiet_wait: f64,
    /// How often a round is tried again because others used the machine meanwhile; the quietest try counts
    #[arg(long, default_value_t = 3)]
    retries: usize,
    /// Where the results go as JSON [default: load.json in the target folder]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The server's program [default: plimsoll in the same target folder]
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// Only measure the scheduler extender
    #[arg(long, conflicts_with = "long")]
    extender: bool,
    /// Only see whether memory stays flat over many requests
    #[arg(long)]
    long: bool,
    /// How many requests that is
    #[arg(long, default_value_t = 2_000_000, requires = "long")]
    requests: u64,
    /// Be the echo server, and write CA and ports into this folder
    #[arg(long, value_name = "DIR", hide = true)]
    echo: Option<PathBuf>,
    /// As the echo server, read each body as JSON
    #[arg(long, hide = true, requires = "echo")]
    json_echo: bool,
    /// As the echo server, be an extender for this many nodes
    #[arg(long, hide = true, requires = "echo", value_name = "NODES")]
    nodes: Option<usize>,
    /// As the echo server, be an extender that gives this many nodes the same points whatever is asked
    #[arg(long, hide = true, requires = "echo", value_name = "NODES", conflicts_with = "nodes")]
    constant_nodes: Option<usize>,
}

impl Options {
    pub(crate) fn round(&self) -> (Duration, Duration) {
        (Duration::from_secs_f64(self.warm_up), Duration::from_secs_f64(self.seconds))
    }
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    if let Some(folder) = &options.echo {
        return match (options.nodes, options.constant_nodes) {
            (Some(nodes), _) => extender::serve(folder, nodes, false),
            (None, Some(nodes)) => extender::serve(folder, nodes, true),
            (None, None) => echo::run(folder, options.json_echo),
        };
    }
    let own = std::env::current_exe().context("the own program is not found")?;
    // target/release/examples/load
    let release = own.ancestors().nth(2).context("the target folder is not found")?;
    let programs = server::Programs {
        plimsoll: options.server.clone().unwrap_or_else(|| release.join("plimsoll")),
        load: own.clone(),
    };
    if options.extender {
        extender::print(&extender::run(&options, &programs)?);
        return Ok(());
    }
    anyhow::ensure!(
        programs.plimsoll.is_file(),
        "{} is not there; build it first: cargo build --release",
        programs.plimsoll.display()
    );
    if options.long {
        return long::run(&options, &programs);
    }
    let results = legs::run(&options, &programs)?;
    let json = options.json.clone().unwrap_or_else(|| release.join("load.json"));
    report::print(&results);
    let text = serde_json::to_string_pretty(&results)?;
    std::fs::write(&json, text + "\n").with_context(|| format!("{} cannot be written", json.display()))?;
    report::say(&format!("\nas JSON: {}", json.display()));
    Ok(())
}
