//! End-to-end tests: the real program against a real control plane.
//!
//! `cargo test --features e2e --test e2e [-- FILTER...]`, or `make e2e`, which builds the control plane first.
//! With `KUBECONFIG` set, the cluster it names is used; `PLIMSOLL_E2E_HOST` is then the name under which its API server
//! reaches this machine.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "this is a test: it reports to a terminal, and reading a JSON value that is not there gives null"
)]

mod harness;
mod runner;
mod scenarios;

use std::process::ExitCode;

use runner::{Options, run};
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::rustls::crypto::ring;

#[tokio::main]
async fn main() -> ExitCode {
    // The client of the `kube` crate takes the process's provider.
    if ring::default_provider().install_default().is_err() {
        eprintln!("another TLS provider is installed already");
        return ExitCode::FAILURE;
    }
    let options = Options::parse(std::env::args().skip(1));
    let all = scenarios::all();
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return ExitCode::FAILURE };
    // An interrupted run drops what it holds, and with it every process it started.
    tokio::select! {
        code = run(&all, &options) => code,
        _ = terminate.recv() => ExitCode::from(143),
        _ = tokio::signal::ctrl_c() => ExitCode::from(130),
    }
}
