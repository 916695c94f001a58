//! A score in words.

use std::fmt::Write as _;

use super::{Decision, NodeScore};
use crate::placement::{FloodForm, Settings};

impl NodeScore {
    /// Why the node has this score: the policies with a part in it, then what was taken off.
    pub fn why(&self, decision: &Decision, settings: &Settings) -> String {
        let mut text = String::new();
        let mut say = |words: String| {
            if !text.is_empty() {
                text.push_str("; ");
            }
            text.push_str(&words);
        };
        let is_fused = decision.flood.is_some() && settings.flood.form == FloodForm::Fuse;
        if let Some(cause) = decision.flood {
            let what = if is_fused { "only bindings count" } else { "bindings count longer" };
            say(format!("flood ({cause}): {what}"));
        }
        if let (Some(usage), Some(score)) = (self.usage, self.load) {
            let mut parts = String::new();
            for (metric, share) in self.by_metric.iter() {
                if let Some(share) = share {
                    let comma = if parts.is_empty() { "" } else { ", " };
                    let _ = write!(parts, "{comma}{metric} {share:.3}");
                }
            }
            say(format!("load {score:.2}: {usage:.4} used ({parts})"));
        }
        if let (Some(priority), Some((weights, from))) = (self.weighted, decision.weights) {
            let mut parts = String::new();
            for (resource, weight) in weights.iter().filter(|(_, weight)| *weight > 0.0) {
                let comma = if parts.is_empty() { "" } else { ", " };
                let _ = write!(parts, "{comma}{} {weight:.3}", resource.name());
            }
            say(format!("weights {:.2}: idle by {parts} (from: {})", 100.0 * priority, from.name()));
        }
        if let Some(risk) = self.risk {
            say(format!("overcommit-risk {risk:.2}"));
        }
        if self.is_unknown {
            say("nothing fresh is known of it: the median of the others".to_owned());
        }
        if self.bindings > 0 {
            let price =
                if self.penalty > 0.0 { format!(", which costs {:.0}", self.penalty) } else { String::new() };
            let pods = if self.bindings == 1 { "pod" } else { "pods" };
            let expected = match self.expected {
                0 => String::new(),
                all if all == self.bindings => " (expected by what was answered)".to_owned(),
                some => format!(" ({some} of them expected by what was answered)"),
            };
            say(format!("{} {pods} bound lately{expected}{price}", self.bindings));
        }
        if self.replicas > 0 {
            let cost = u64::from(self.replicas) * u64::from(settings.replica_penalty);
            say(format!("{} more of the same workload than elsewhere: {cost} points less", self.replicas));
        }
        text
    }
}
