//! The server's own histogram of how long reviews take.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, ensure};
use serde::Serialize;

const BUCKET: &str = "plimsoll_admission_duration_seconds_bucket{";

/// How many reviews took how long, up to and including each bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Histogram(Vec<(f64, u64)>);

/// What a histogram says.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServerSide {
    pub(crate) reviews: u64,
    /// Shares in percent, by bound in milliseconds.
    pub(crate) within: Vec<(f64, f64)>,
    /// The bucket bound that 99 % of the reviews do not exceed, in milliseconds.
    pub(crate) p99_at_most: f64,
}

impl Histogram {
    /// Reads that of `/mutate`.
    pub(crate) fn read(probes: SocketAddr) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(probes)?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let buckets = text.lines().filter_map(|line| {
            let (labels, count) = line.strip_prefix(BUCKET)?.split_once("} ")?;
            let bound = labels.contains(r#"stage="mutate""#).then(|| labels.split_once(r#"le=""#))??.1;
            let bound = bound.split('"').next()?;
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
            Some((bound, count.split(' ').next()?.parse().ok()?))
        });
        let mut buckets: Vec<(f64, u64)> = buckets.collect();
        ensure!(!buckets.is_empty(), "/metrics has no admission durations");
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(Self(buckets))
    }

    /// What came in since `earlier`.
    #[expect(clippy::cast_precision_loss, reason = "counts of one leg")]
    pub(crate) fn since(&self, earlier: &Self) -> anyhow::Result<ServerSide> {
        let counts: Vec<(f64, u64)> = self
            .0
            .iter()
            .zip(&earlier.0)
            .map(|(now, before)| (now.0 * 1000.0, now.1.saturating_sub(before.1)))
            .collect();
        let reviews = counts.last().map_or(0, |(_, count)| *count);
        ensure!(reviews > 0, "the server counted no reviews");
        let share = |count: u64| 100.0 * count as f64 / reviews as f64;
        let p99 = counts.iter().find(|(_, count)| share(*count) >= 99.0).context("no bucket holds 99 %")?;
        Ok(ServerSide {
            reviews,
            p99_at_most: p99.0,
            within: counts
                .iter()
                .filter(|(bound, _)| *bound <= 10.0)
                .map(|(bound, count)| (*bound, share(*count)))
                .collect(),
        })
    }
}
