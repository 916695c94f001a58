//! How loaded each node is, at one moment.

use std::collections::HashMap;
use std::sync::Arc;

use crate::placement::metric::{ByMetric, Metric};
use crate::placement::settings::LoadSettings;

/// What was measured of the nodes. Whoever reads the sources builds one anew each time and puts it in the place of the last.
#[derive(Clone, Debug, Default)]
pub struct LoadSnapshot {
    /// By node name. A node without any fresh sample is not in it.
    pub nodes: HashMap<Arc<str>, NodeLoad>,
    /// When it was taken, in nanoseconds since 1970.
    pub taken: i64,
}

/// What was measured of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeLoad {
    /// Means by window, in the order of [`LoadSettings::windows`], as measured: not clamped. What a window does not have
    /// is `None`.
    pub means: Vec<ByMetric<Option<f64>>>,
    /// The time of the newest sample, in nanoseconds since 1970.
    pub sampled: i64,
    /// What the node has, by resource: cores, bytes, bits a second, bytes. `None` where nobody told.
    pub totals: Totals,
    /// Idle shares that are given instead of 1 - the mean of the shortest window.
    pub idle: Totals,
}

/// A figure for each resource of [`NodeResource`](crate::placement::NodeResource).
pub type Totals = crate::placement::weights::ByResource<Option<f64>>;

impl LoadSnapshot {
    /// What is known of a node, unless its newest sample is too old at `now` (nanoseconds since 1970): nobody may have read
    /// the sources since.
    pub fn fresh(&self, node: &str, now: i64, settings: &LoadSettings) -> Option<&NodeLoad> {
        let age = settings.maximum_age.saturating_mul(1_000_000_000);
        // What is far in the future is so by a clock that was set back; since when, nobody knows.
        let believed = now.saturating_sub(age)..=now.saturating_add(age);
        self.nodes.get(node).filter(|node| believed.contains(&node.sampled))
    }
}

impl NodeLoad {
    /// The weighted mean over the windows, each clamped to 0..1: U(n,m) of the documents. Windows that are missing are
    /// bridged by the others.
    pub fn usage(&self, metric: Metric, settings: &LoadSettings) -> Option<f64> {
        let (mut sum, mut weights) = (0.0, 0.0);
        for (means, window) in self.means.iter().zip(&settings.windows) {
            if let Some(mean) = means.get(metric)
                && window.weight > 0.0
            {
                sum += window.weight * mean.clamp(0.0, 1.0);
                weights += window.weight;
            }
        }
        (weights > 0.0).then(|| sum / weights)
    }

    /// The mean of the shortest window, clamped to 0..1.
    pub fn newest(&self, metric: Metric, settings: &LoadSettings) -> Option<f64> {
        let windows = self.means.iter().zip(&settings.windows);
        let (means, _) = windows.min_by_key(|(_, window)| window.seconds)?;
        means.get(metric).map(|mean| mean.clamp(0.0, 1.0))
    }
}
