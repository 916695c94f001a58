//! The age of each snapshot, computed when it is scraped so that it grows while nothing is heard.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::labels::KindLabel;

/// When each kind was last heard of.
#[derive(Clone, Debug, Default)]
pub(super) struct SnapshotAges(Arc<Mutex<BTreeMap<&'static str, Instant>>>);

impl SnapshotAges {
    pub(super) fn heard(&self, kind: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(kind, Instant::now());
    }

    pub(super) fn forget(&self, kind: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(kind);
    }

    /// The time since that kind was heard of that was heard of last.
    pub(super) fn oldest(&self) -> Option<Duration> {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.values().map(Instant::elapsed).max()
    }
}

impl Collector for SnapshotAges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if heard.is_empty() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor(
            "snapshot_age_seconds",
            "Time since the API server was last heard about the kind, by kind",
            None,
            MetricType::Gauge,
        )?;
        for (kind, at) in heard {
            let age = ConstGauge::new(at.elapsed().as_secs_f64());
            age.encode(family.encode_family(&KindLabel { kind })?)?;
        }
        Ok(())
    }
}
