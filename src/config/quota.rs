//! The settings of quota.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::check::{Check, is_label, shown};
use super::checked::{HOUR, MILLISECOND, MINUTE, SECOND};
use super::raw::RawQuota;
use super::units::duration_text;

/// Elastic quota trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// Whether trees are looked at and have effect.
    pub enabled: bool,
    /// Whether a tree whose root has more than the nodes can allocate is refused; else there is a warning.
    pub refuse_above_cluster: bool,
    /// The most that a request waits for the ledger; at least a second shorter than
    /// [`webhook_timeout`](Self::webhook_timeout).
    pub admission_budget: Duration,
    /// The longest that the API server itself takes for a request; see [`old_after`](Self::old_after).
    pub reservation_age: Duration,
    /// `timeoutSeconds` of the webhook that checks pods; whole seconds.
    pub webhook_timeout: Duration,
    /// How often all pods are counted anew.
    pub recount_interval: Duration,
    /// How long a claim lives after its owner tried last, or its room became free.
    pub claim_expiry: Duration,
    /// The same for owners that cannot be told to try again.
    pub claim_expiry_unpatchable: Duration,
    /// The least time between two writes of the tree's status.
    pub status_interval: Duration,
    /// The name of the webhook configurations whose namespaces are kept.
    pub webhook_name: String,
    /// Whether there are metrics of what the tree uses.
    pub metrics_per_tree: bool,
    /// After this time without a sign of life of the leader another replica takes over; whole seconds.
    pub lease_duration: Duration,
    /// How often the leader gives a sign of life.
    pub renew_interval: Duration,
    /// Whether and how borrowers are evicted.
    pub reclaim: Reclaim,
}

/// How borrowers are evicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reclaim {
    /// Whether they are.
    pub enabled: bool,
    /// Where pods may say that they are not to be evicted.
    pub honour_do_not_evict: Namespaces,
}

/// Some namespaces, or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespaces {
    /// All.
    All,
    /// These.
    Named(BTreeSet<String>),
}

impl Namespaces {
    /// Whether a namespace is among them.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(namespace),
        }
    }
}

/// What answers take on their way.
const MARGIN: Duration = Duration::from_secs(5);

impl Quota {
    /// When a reservation without a pod is old: the request that it was made for has certainly ended by then.
    pub fn old_after(&self) -> Duration {
        self.reservation_age + self.webhook_timeout + MARGIN
    }

    /// What no setting shows on its own.
    fn check_together(&self, check: &mut Check<'_>) {
        let text = duration_text;
        if self.admission_budget + SECOND > self.webhook_timeout {
            let message = format!(
                "{} is not at least a second shorter than quota.webhookTimeout ({}): the answer would come too late",
                text(self.admission_budget),
                text(self.webhook_timeout)
            );
            check.refuse("quota.admissionBudget", message);
        }
        if self.renew_interval * 2 > self.lease_duration {
            let message = format!(
                "{} is more than half of quota.leaseDuration ({}): one call that fails would cost the lease",
                text(self.renew_interval),
                text(self.lease_duration)
            );
            check.refuse("quota.renewInterval", message);
        }
        for (path, value) in
            [("quota.leaseDuration", self.lease_duration), ("quota.webhookTimeout", self.webhook_timeout)]
        {
            if !value.as_millis().is_multiple_of(1000) {
                check
                    .refuse(path, format!("{} is not in whole seconds, as its object needs it", text(value)));
            }
        }
        if self.claim_expiry_unpatchable < self.claim_expiry {
            let message = format!(
                "{} is shorter than quota.claimExpiry ({}), but these owners take longer to try again",
                text(self.claim_expiry_unpatchable),
                text(self.claim_expiry)
            );
            check.refuse("quota.claimExpiryUnpatchable", message);
        }
    }
}

pub(super) fn check(check: &mut Check<'_>, raw: &RawQuota) -> Quota {
    let noted = check.count_noted();
    let mut duration = |key: &str, value: &Value, least: Duration, most: Duration| {
        check.duration(&format!("quota.{key}"), value, least..=most)
    };
    let admission_budget = duration("admissionBudget", &raw.admission_budget, 100 * MILLISECOND, 29 * SECOND);
    let reservation_age = duration("reservationAge", &raw.reservation_age, SECOND, HOUR);
    let webhook_timeout = duration("webhookTimeout", &raw.webhook_timeout, 2 * SECOND, 30 * SECOND);
    let recount_interval = duration("recountInterval", &raw.recount_interval, 10 * SECOND, 24 * HOUR);
    let claim_expiry = duration("claimExpiry", &raw.claim_expiry, 10 * SECOND, HOUR);
    let claim_expiry_unpatchable =
        duration("claimExpiryUnpatchable", &raw.claim_expiry_unpatchable, 10 * SECOND, 24 * HOUR);
    let status_interval = duration("statusInterval", &raw.status_interval, SECOND, HOUR);
    let lease_duration = duration("leaseDuration", &raw.lease_duration, 2 * SECOND, 5 * MINUTE);
    let renew_interval = duration("renewInterval", &raw.renew_interval, 500 * MILLISECOND, MINUTE);
    let quota = Quota {
        enabled: check.flag("quota.enabled", &raw.enabled),
        refuse_above_cluster: check.flag("quota.refuseAboveCluster", &raw.refuse_above_cluster),
        admission_budget,
        reservation_age,
        webhook_timeout,
        recount_interval,
        claim_expiry,
        claim_expiry_unpatchable,
        status_interval,
        webhook_name: object_name(check, "quota.webhookName", &raw.webhook_name),
        metrics_per_tree: check.flag("quota.metricsPerTree", &raw.metrics_per_tree),
        lease_duration,
        renew_interval,
        reclaim: Reclaim {
            enabled: check.flag("quota.reclaim.enabled", &raw.reclaim.enabled),
            honour_do_not_evict: namespaces(
                check,
                "quota.reclaim.honourDoNotEvict",
                &raw.reclaim.honour_do_not_evict,
            ),
        },
    };
    if check.count_noted() == noted {
        quota.check_together(check);
    }
    quota
}

fn namespaces(check: &mut Check<'_>, path: &str, value: &Value) -> Namespaces {
    let names = check.list(path, value, |check, path, item| match item.as_str() {
        Some("*") => "*".to_owned(),
        _ => check.namespace(path, item),
    });
    if names.iter().any(|name| name == "*") {
        if names.len() > 1 {
            check.refuse(
                path,
                "has \"*\", which is all namespaces, beside others; leave one or the other out",
            );
        }
        return Namespaces::All;
    }
    Namespaces::Named(names.into_iter().collect())
}

pub(super) fn object_name(check: &mut Check<'_>, path: &str, value: &Value) -> String {
    let name = value.as_str().unwrap_or_default();
    if name.len() > 253 || !name.split('.').all(is_label) {
        let right = "write lower-case letters, digits, '-' and '.', as in plimsoll-quota";
        check.refuse(path, format!("{} is not the name of an object; {right}", shown(value)));
    }
    name.to_owned()
}
