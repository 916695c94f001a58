//! The settings of autoscalers: what is refused, and what is taken together.

use std::time::Duration;

use plimsoll::profiles;
use plimsoll_core::admission::AbsentNamespace;
use plimsoll_core::profile::HpaMode;

use crate::support::{config, violations};

#[test]
fn defaults() {
    let hpa = config("{}").hpa;
    assert!(hpa.enabled && !hpa.shim.enabled && !hpa.external.enabled && !hpa.serves_metrics());
    assert_eq!(hpa.mode, HpaMode::Convert);
    assert_eq!((hpa.sync_interval, hpa.writes_per_second), (Duration::from_secs(1), 10));
    for (mode, offered) in
        [(HpaMode::Convert, true), (HpaMode::Shim, false), (HpaMode::External, false), (HpaMode::Off, true)]
    {
        assert_eq!(hpa.offers(mode), offered, "{mode:?}");
    }
}

#[test]
fn everything_can_be_set() {
    let text = r"
hpa:
  enabled: true
  mode: Shim
  leaseDuration: 30s
  renewInterval: 10s
  syncInterval: 500ms
  writesPerSecond: 50
  shim: {enabled: true}
  external: {enabled: true}
  api: {upstreamInsecureSkipVerify: true}
";
    let taken = config(text);
    let hpa = &taken.hpa;
    assert!(hpa.enabled && hpa.serves_metrics());
    assert_eq!((hpa.lease_duration, hpa.renew_interval), (Duration::from_secs(30), Duration::from_secs(10)));
    assert_eq!((hpa.sync_interval, hpa.writes_per_second), (Duration::from_millis(500), 50));
    assert!(HpaMode::ALL.into_iter().all(|mode| hpa.offers(mode)));
    assert_eq!(profiles::settings(&taken, AbsentNamespace::Unknown).hpa_mode, HpaMode::Shim);
    let off = config("hpa: {enabled: false}").hpa;
    assert!(!off.offers(HpaMode::Convert), "nobody would keep it");
}

#[test]
fn what_is_wrong_is_named() {
    for (rule, text, path, part) in [
        ("flag", "hpa: {enabled: maybe}", "hpa.enabled", "not true or false"),
        ("mode", "hpa: {mode: Native}", "hpa.mode", "Convert, Shim, External, Off"),
        ("mode that YAML takes for false", "hpa: {mode: false}", "hpa.mode", "not one of"),
        ("shim that is not served", "hpa: {mode: Shim}", "hpa.mode", "needs hpa.shim.enabled"),
        ("metrics that are not served", "hpa: {mode: External}", "hpa.mode", "needs hpa.external.enabled"),
        (
            "shim that knows nothing",
            "hpa: {enabled: false, shim: {enabled: true}, api: {upstreamInsecureSkipVerify: true}}",
            "hpa.enabled",
            "need to know",
        ),
        (
            "renewed too seldom",
            "hpa: {leaseDuration: 15s, renewInterval: 8s}",
            "hpa.renewInterval",
            "cost the lease",
        ),
        (
            "lease in parts of a second",
            "hpa: {leaseDuration: 10500ms}",
            "hpa.leaseDuration",
            "not in whole seconds",
        ),
        ("looked at all the time", "hpa: {syncInterval: 1ms}", "hpa.syncInterval", "100ms to 1m"),
        ("no write", "hpa: {writesPerSecond: 0}", "hpa.writesPerSecond", "1 to 1000"),
        ("slip", "hpa: {shimm: {enabled: true}}", "hpa.shimm", "hpa.shim may be meant"),
    ] {
        let found = violations(text);
        let [violation] = found.as_slice() else { panic!("{rule}: {found:?}") };
        assert_eq!(violation.path, path, "{rule}: {violation}");
        assert!(violation.message.contains(part), "{rule}: {violation}");
    }
}

#[test]
fn everything_wrong_is_told_at_once() {
    let found =
        violations("hpa: {enabled: 1, mode: x, leaseDuration: 1s, syncInterval: soon, shim: {enabled: 1}}");
    let paths: Vec<_> = found.iter().map(|violation| violation.path.as_str()).collect();
    assert_eq!(
        paths,
        ["hpa.enabled", "hpa.leaseDuration", "hpa.mode", "hpa.shim.enabled", "hpa.syncInterval"]
    );
}
