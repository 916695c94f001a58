//! The usage model at the size of large clusters, and next to the histogram of the Vertical Pod Autoscaler.
//!
//! `make bench-histogram`; what the figures mean is in `docs/benchmarks.md`. Values are those of real containers and
//! machines, scaled. Times are CPU time of the one thread that works, so that other processes on the machine
//! hardly count; where both sides are measured they get the same samples and take turns.

mod containers;
mod samples;
mod table;
mod vpa;
mod work;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;

use crate::samples::Traces;

/// As in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What is measured.
#[derive(Clone, Debug, Parser)]
#[command(
    about = "Histograms next to those of the Vertical Pod Autoscaler, and scans of a million containers"
)]
struct Options {
    /// The program built from benches/vpa; without it that side is left out
    #[arg(long, value_name = "FILE")]
    vpa: Option<PathBuf>,
    /// Histograms on each side
    #[arg(long, default_value_t = 100_000)]
    histograms: usize,
    /// Scans, a minute apart; the last 100 are measured
    #[arg(long, default_value_t = 1_500)]
    scans: i64,
    /// Sizes of clusters, in containers
    #[arg(long, value_delimiter = ',', default_values_t = [100_000, 1_000_000])]
    containers: Vec<usize>,
    /// Scans before those that are measured, spread over ten days
    #[arg(long, default_value_t = 200)]
    fill: u32,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let traces = Traces::read().context("the usage in tests/fixtures")?;
    if let Some(program) = &options.vpa {
        vpa::compare(program, &traces, options.histograms, options.scans)?;
    }
    for count in options.containers {
        containers::measure(&traces, count, options.fill)?;
    }
    Ok(())
}
