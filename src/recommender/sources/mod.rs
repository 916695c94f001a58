//! Where usage comes from.
//!
//! A source is asked once a scan and hands on what it found, sample by sample, without keeping it. What cannot be used is
//! counted, what failed is reported, and neither stops the rest: [`Scan`] tells of both. Whoever calls decides by
//! [`Attempts`] when to ask again.

mod attempts;
pub(crate) mod body;
pub mod file;
pub mod metrics_server;
pub mod prometheus;
mod sample;
mod scalar;

use std::fmt;
use std::time::Duration;

pub use self::attempts::Attempts;
pub use self::file::{File, FileOptions};
pub use self::metrics_server::{MetricsServer, MetricsServerOptions};
pub use self::prometheus::{Progress, Prometheus, PrometheusError, PrometheusOptions};
pub use self::sample::{Sample, Sink, Skipped};

/// What became of a scan besides its samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// How many were delivered.
    pub samples: u64,
    /// What was not.
    pub skipped: Skipped,
    /// What could not be asked or understood.
    pub failures: Vec<Failure>,
}

impl Scan {
    /// Whether nothing came because something failed. No samples without a failure are an answer.
    pub const fn failed(&self) -> bool {
        self.samples == 0 && !self.failures.is_empty()
    }
}

/// A part of a scan that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The part: a namespace, a query, or the source.
    pub scope: String,
    /// What failed and what can be done about it.
    pub message: String,
    /// For how long the source does not want to be asked.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.scope, self.message)
    }
}

/// One of the sources there are.
#[expect(clippy::large_enum_variant, reason = "there is one of it in a program")]
pub enum Source {
    /// `metrics.k8s.io`.
    MetricsServer(MetricsServer),
    /// Prometheus, or what speaks its API.
    Prometheus(Prometheus),
    /// A table of usage.
    File(File),
}

impl Source {
    /// Asks once. `now` is the clock in nanoseconds since 1970. Samples come in any order of containers, and in
    /// rising time for each.
    pub async fn scan(&mut self, now: i64, sink: &mut Sink<'_>) -> Scan {
        match self {
            Self::MetricsServer(source) => source.scan(sink).await,
            Self::Prometheus(source) => source.scan(now, sink).await,
            Self::File(source) => source.scan(now, sink).await,
        }
    }

    /// The namespaces of which usage is wanted, for the source that asks for each.
    pub fn set_namespaces(&mut self, namespaces: Vec<String>) {
        if let Self::MetricsServer(source) = self {
            source.set_namespaces(namespaces);
        }
    }
}
