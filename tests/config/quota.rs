//! The settings of quota: what is refused, and what is taken together.

use std::time::Duration;

use plimsoll::config::Namespaces;

use crate::support::{config, violations};

#[test]
fn defaults() {
    let quota = config("{}").quota;
    assert!(!quota.enabled && !quota.refuse_above_cluster);
    assert!(quota.reclaim.enabled && quota.metrics_per_tree);
    assert_eq!(quota.old_after(), Duration::from_secs(75));
    assert_eq!(quota.webhook_name, "plimsoll-quota");
    assert!(!quota.reclaim.honour_do_not_evict.contains("shop"), "a borrower writes its own pods");
}

#[test]
fn everything_can_be_set() {
    let text = r"
quota:
  enabled: true
  refuseAboveCluster: true
  admissionBudget: 500ms
  reservationAge: 90s
  webhookTimeout: 5s
  recountInterval: 1m
  claimExpiry: 1m
  claimExpiryUnpatchable: 1h
  statusInterval: 10s
  webhookName: other.name
  metricsPerTree: false
  leaseDuration: 30s
  renewInterval: 10s
  reclaim: {enabled: false, honourDoNotEvict: [shop]}
";
    let quota = config(text).quota;
    assert!(quota.enabled && quota.refuse_above_cluster && !quota.metrics_per_tree && !quota.reclaim.enabled);
    assert_eq!(quota.admission_budget, Duration::from_millis(500));
    assert_eq!(quota.old_after(), Duration::from_secs(100));
    assert_eq!(quota.claim_expiry_unpatchable, Duration::from_secs(3600));
    assert_eq!(quota.webhook_name, "other.name");
    let honoured = &quota.reclaim.honour_do_not_evict;
    assert!(honoured.contains("shop") && !honoured.contains("team"));
    let all = config(r#"quota: {reclaim: {honourDoNotEvict: ["*"]}}"#).quota;
    assert_eq!(all.reclaim.honour_do_not_evict, Namespaces::All);
    assert!(all.reclaim.honour_do_not_evict.contains("team"));
}

#[test]
fn what_is_wrong_is_named() {
    for (rule, text, path, part) in [
        ("flag", "quota: {enabled: maybe}", "quota.enabled", "not true or false"),
        (
            "budget as long as the timeout",
            "quota: {admissionBudget: 10s}",
            "quota.admissionBudget",
            "a second shorter",
        ),
        (
            "budget within the last second",
            "quota: {admissionBudget: 2s, webhookTimeout: 2s}",
            "quota.admissionBudget",
            "too late",
        ),
        (
            "timeout beyond what the API server takes",
            "quota: {webhookTimeout: 31s}",
            "quota.webhookTimeout",
            "to 30s",
        ),
        (
            "part of a second",
            "quota: {webhookTimeout: 5500ms}",
            "quota.webhookTimeout",
            "not in whole seconds",
        ),
        (
            "renewed too seldom",
            "quota: {leaseDuration: 15s, renewInterval: 8s}",
            "quota.renewInterval",
            "cost the lease",
        ),
        (
            "lease in parts of a second",
            "quota: {leaseDuration: 10500ms}",
            "quota.leaseDuration",
            "not in whole seconds",
        ),
        (
            "expiries the wrong way round",
            "quota: {claimExpiry: 30m}",
            "quota.claimExpiryUnpatchable",
            "is shorter than quota.claimExpiry",
        ),
        ("name", "quota: {webhookName: A_b}", "quota.webhookName", "not the name of an object"),
        (
            "namespace",
            "quota: {reclaim: {honourDoNotEvict: [A]}}",
            "quota.reclaim.honourDoNotEvict[0]",
            "not the name of a namespace",
        ),
        (
            "all and one",
            r#"quota: {reclaim: {honourDoNotEvict: ["*", a]}}"#,
            "quota.reclaim.honourDoNotEvict",
            "beside others",
        ),
        ("slip", "quota: {reclame: {enabled: true}}", "quota.reclame", "quota.reclaim may be meant"),
    ] {
        let found = violations(text);
        let [violation] = found.as_slice() else { panic!("{rule}: {found:?}") };
        assert_eq!(violation.path, path, "{rule}: {violation}");
        assert!(violation.message.contains(part), "{rule}: {violation}");
    }
}

#[test]
fn everything_wrong_is_told_at_once() {
    let found = violations("quota: {enabled: 1, webhookTimeout: soon, leaseDuration: 1s, webhookName: ''}");
    let paths: Vec<_> = found.iter().map(|violation| violation.path.as_str()).collect();
    assert_eq!(paths, ["quota.enabled", "quota.leaseDuration", "quota.webhookName", "quota.webhookTimeout"]);
}
