//! Every latency of a leg, and their percentiles.

use std::time::Duration;

use serde::Serialize;

/// Latencies in nanoseconds; what is above 4.29 s counts as that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Vec<u32>);

/// Percentiles, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Latencies {
    pub(crate) fn push(&mut self, latency: Duration) {
        self.0.push(u32::try_from(latency.as_nanos()).unwrap_or(u32::MAX));
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// The smallest value that at least the share of all values does not exceed.
    pub(crate) fn percentiles(mut self) -> Percentiles {
        self.0.sort_unstable();
        let at = |per_mille: usize| {
            let rank = (self.0.len() * per_mille).div_ceil(1000).max(1);
            f64::from(self.0.get(rank - 1).copied().unwrap_or_default()) / 1000.0
        };
        Percentiles { p50: at(500), p99: at(990), p999: at(999), max: at(1000) }
    }
}
