//! How many things fail now, by part, computed when it is scraped.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::status::Health;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProblemLabels {
    part: &'static str,
    reason: &'static str,
}

/// What parts told of themselves.
#[derive(Clone, Debug)]
pub(super) struct Problems(pub(super) Health);

impl Collector for Problems {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut family = encoder.encode_descriptor(
            "part_problems",
            "Things that fail now, by part of the program and by whether a right is missing",
            None,
            MetricType::Gauge,
        )?;
        for (part, counts) in self.0.counts() {
            for (reason, count) in ["forbidden", "other"].into_iter().zip(counts) {
                let labels = ProblemLabels { part: part.name(), reason };
                let count = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
                count.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
