//! The last rounds, for whoever asks.

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::{Value, json};

use super::report::Report;
use crate::config;

/// So many rounds are kept.
const KEPT: usize = 20;

/// The last rounds. Clones share them.
#[derive(Clone, Debug)]
pub struct Rounds {
    /// The newest first.
    reports: Arc<ArcSwap<Vec<Arc<Report>>>>,
    holder: Arc<ArcSwap<String>>,
    identity: Arc<str>,
    config: Arc<ArcSwap<config::Balance>>,
}

impl Rounds {
    /// None yet. `holder` says who leads, `identity` is who we are then.
    pub fn new(holder: Arc<ArcSwap<String>>, identity: &str, config: Arc<ArcSwap<config::Balance>>) -> Self {
        Self { reports: Arc::default(), holder, identity: identity.into(), config }
    }

    /// Adds a round. Only the leader does.
    pub fn add(&self, report: Report) {
        let old = self.reports.load();
        let mut reports = Vec::with_capacity(KEPT);
        reports.push(Arc::new(report));
        reports.extend(old.iter().take(KEPT - 1).map(Arc::clone));
        self.reports.store(Arc::new(reports));
    }

    /// Forgets all: another replica leads.
    pub fn clear(&self) {
        self.reports.store(Arc::default());
    }

    /// The rounds, the newest first.
    pub fn all(&self) -> Arc<Vec<Arc<Report>>> {
        self.reports.load_full()
    }

    /// All of it as JSON. On a replica that does not lead it says who does.
    pub fn json(&self) -> Value {
        let holder = self.holder.load();
        let leads = !self.identity.is_empty() && **holder == *self.identity;
        let reports: Vec<Value> =
            self.all().iter().filter_map(|report| serde_json::to_value(&**report).ok()).collect();
        json!({
            "leads": leads,
            "leader": Some(holder.as_str()).filter(|holder| !holder.is_empty()),
            "dryRun": self.config.load().dry_run,
            "rounds": reports,
        })
    }
}
