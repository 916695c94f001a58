//! Nodes to which much was bound lately, and times in which much is bound everywhere.

use std::collections::HashMap;
use std::fmt;

use super::View;
use crate::placement::{Expected, HotSpot, HotSpotForm, Incoming};

const SECOND: i64 = 1_000_000_000;

/// Why it is taken that much is bound at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloodCause {
    /// More new pods than this wait for a node.
    Pending(usize),
    /// A node was lost: its pods come back elsewhere.
    NodeLost,
}

impl fmt::Display for FloodCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending(most) => write!(f, "more than {most} new pods wait for a node"),
            Self::NodeLost => f.write_str("a node was lost"),
        }
    }
}

impl View<'_> {
    /// Why it is taken that much is bound at once, if it is.
    pub fn flood(&self) -> Option<FloodCause> {
        let flood = &self.settings.flood;
        let lost_for = self.now.saturating_sub(self.node_lost);
        // A clock that was set back must not make a flood until it comes there again.
        if self.node_lost > 0 && (0..flood.node_lost.saturating_mul(SECOND)).contains(&lost_for) {
            return Some(FloodCause::NodeLost);
        }
        let most = usize::try_from(flood.pending).unwrap_or(usize::MAX);
        // What has been waiting for long is not about to come: nothing has room for it.
        let since = self.now.saturating_sub(flood.window.saturating_mul(SECOND));
        let pending = self.placed.pending_since(since, most.saturating_add(1));
        (most > 0 && pending > most).then_some(FloodCause::Pending(most))
    }

    /// The window in which bindings count, in seconds: a wider one in a flood.
    pub fn hot_spot_window(&self, flood: Option<FloodCause>) -> i64 {
        let usual = self.settings.hot_spot.window;
        if flood.is_some() { self.settings.flood.window.max(usual) } else { usual }
    }

    /// What other pods than `pod` are expected on nodes, since a scheduler was told so in the last `window` seconds.
    pub(super) fn expected(&self, pod: &Incoming, window: i64) -> HashMap<&str, Expected> {
        let answered = self.placed.answered();
        // Bindings that are given by hand are all there are.
        if answered.is_empty() || self.bindings.is_some() {
            return HashMap::new();
        }
        answered.expected(self.now, window.saturating_mul(SECOND), &pod.uid, &pod.shape.workload)
    }

    /// How many pods were seen bound to a node in the last `window` seconds.
    pub fn bindings(&self, node: &str, window: i64) -> u32 {
        if let Some(given) = self.bindings {
            return given.get(node).copied().unwrap_or(0);
        }
        self.placed.on(node).map_or(0, |on| on.bindings(self.now, window.saturating_mul(SECOND)))
    }
}

impl HotSpot {
    /// What so many bindings cost, of a score of 100.
    pub fn cost(&self, bindings: u32) -> f64 {
        match self.form {
            HotSpotForm::Step if bindings > self.bindings => self.penalty,
            HotSpotForm::Step => 0.0,
            HotSpotForm::Linear => 10.0 * f64::from(bindings / self.bindings.max(1)),
        }
    }
}
