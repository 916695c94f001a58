//! The settings of placement: what is refused, and what is taken together.

use std::time::Duration;

use plimsoll::config::{ClientAuth, ConfigErrors, ConfigWatcher, LoadSource, Poll, Sources, load};
use plimsoll_core::placement::{
    FloodForm, HotSpotForm, Metric, NodeResource, PointsForm, Policies, Settings,
};

use crate::support::{config, violations};

#[test]
fn defaults() {
    let placement = config("{}").placement;
    assert_eq!(placement.settings, Settings::default(), "the configuration and the core agree");
    assert!(!placement.enabled && !placement.leads() && !placement.publishes());
    assert!(!placement.balance.enabled && placement.balance.dry_run);
    assert_eq!(placement.client_auth, ClientAuth::Required);
    assert_eq!(placement.address.unwrap().port(), 8444);
    assert_eq!(placement.load.source, LoadSource::Prometheus);
    assert_eq!(placement.load.node_labels, ["node", "nodename", "instance"]);
    assert!(placement.usage.queries.disk.is_some());
}

#[test]
fn everything_can_be_set() {
    let text = r"
placement:
  enabled: true
  address: 127.0.0.1:0
  clientAuth: Optional
  clientCa: ca.crt
  policies: {weights: 2, overcommit-risk: 0.5}
  points: absolute
  replicaPenalty: 0
  load:
    interval: 10s
    timeout: 5s
    maximumAge: 1m
    windows: {1h: 1, 5m: 2, 90m: null}
    metrics: {network: 0.5, cpu: 1}
    missing: 0.2
    queries: {cpu: 'cpu:$window', time: ''}
    nodeLabels: [host]
    prometheus: {address: 'https://prometheus.example/', bearerTokenFile: token}
  usage: {enabled: false, interval: 5m, queries: {bandwidth: '', disk: ''}}
  weights: {cpu: 1, memory: 2, bandwidth: 3, disk: 0.01}
  hotSpot: {window: 2m, bindings: 10, form: linear, penalty: 33.5}
  flood: {pendingPods: 0, window: 10m, nodeLost: 0s, form: fuse}
  filter: {cpu: 1, memory: 0.5}
  loadClass: {enabled: true, mid: 0.4, high: 0.6, hysteresis: 0.1, interval: 30s}
  craneAnnotations: true
  craneUtcOffset: '-03:30'
  balance: {enabled: true, dryRun: false, threshold: 0.2, rounds: 1, minReplicas: 0, cooldown: 0s}
  leaseDuration: 30s
  renewInterval: 10s
";
    let placement = config(text).placement;
    let settings = &placement.settings;
    assert_eq!(settings.policies, Policies { load: 0.0, weights: 2.0, overcommit_risk: 0.5 });
    assert_eq!((settings.points, settings.replica_penalty), (PointsForm::Absolute, 0));
    let windows: Vec<_> = settings.load.windows.iter().map(|w| (&*w.name, w.seconds, w.weight)).collect();
    assert_eq!(windows, [("5m", 300, 2.0), ("1h", 3600, 1.0)], "shortest first; the default ones are gone");
    assert_eq!(settings.load.metrics, [(Metric::Cpu, 1.0), (Metric::Network, 0.5)]);
    assert!((settings.default_weights.get(NodeResource::Bandwidth) - 3.0).abs() < 1e-12);
    assert_eq!((settings.hot_spot.window, settings.hot_spot.form), (120, HotSpotForm::Linear));
    assert_eq!((settings.flood.pending, settings.flood.form), (0, FloodForm::Fuse));
    assert_eq!(placement.load.prometheus.address.as_deref(), Some("https://prometheus.example"));
    assert_eq!((&*placement.load.queries.cpu, placement.load.queries.time), ("cpu:$window", None));
    assert_eq!((placement.usage.queries.bandwidth, placement.usage.queries.disk), (None, None));
    assert_eq!(placement.load_class.interval, Duration::from_secs(30));
    assert!(placement.balance.enabled && !placement.balance.dry_run);
    assert_eq!(placement.crane_utc_offset, -12_600);
}

#[test]
fn the_prometheus_of_the_recommender_is_taken_with_its_credentials() {
    let recommender = "recommender: {prometheus: {address: 'http://a:9090', bearerTokenFile: token}}";
    let on = "placement: {enabled: true, clientAuth: None";
    let prometheus = |text: &str| config(text).placement.load.prometheus;
    let same = prometheus(&format!("{recommender}\n{on}}}"));
    assert_eq!((same.address.as_deref(), same.bearer_token_file.is_some()), (Some("http://a:9090"), true));
    let own = prometheus(&format!("{recommender}\n{on}, load: {{prometheus: {{address: 'http://b'}}}}}}"));
    assert_eq!((own.address.as_deref(), own.bearer_token_file), (Some("http://b"), None));
}

#[test]
fn without_an_address_nobody_is_served_and_nobody_has_to_be_known() {
    const ON: &str = "enabled: true, load: {source: MetricsServer}";
    let placement = config(&format!("placement: {{{ON}, address: '', clientAuth: Required}}")).placement;
    assert_eq!((placement.address, placement.client_ca), (None, None));
    let environment = [("ENABLED", "true"), ("ADDRESS", ""), ("LOAD__SOURCE", "MetricsServer")]
        .map(|(name, value)| (format!("PLIMSOLL_PLACEMENT__{name}"), value.to_owned()));
    let loaded = load(&Sources { environment: environment.into(), ..Sources::default() }).unwrap();
    assert_eq!(loaded.config.placement.address, None, "from the environment");
}

#[test]
fn what_is_wrong_is_named() {
    const ON: &str = "enabled: true, clientAuth: None, load: {source: MetricsServer}";
    for (rule, inner, path, part) in [
        ("flag", "enabled: maybe", "enabled", "not true or false"),
        ("scheduler nobody knows", "enabled: true, load: {source: MetricsServer}", "clientCa", "Required"),
        (
            "load from nowhere",
            "enabled: true, clientAuth: None",
            "load.prometheus.address",
            "recommender.prometheus.address is null",
        ),
        ("no address", &format!("{ON}, address: nowhere"), "address", "not an address"),
        ("port of another", &format!("{ON}, address: '0.0.0.0:8443'"), "address", "server.address too"),
        ("certificate alone", "certificate: a", "key", "placement.certificate"),
        ("key alone", "key: a", "certificate", "placement.key"),
        ("no policy", "policies: {load: 0}", "policies", "no weight above 0"),
        ("empty policies", "policies: {}", "policies", "no weight above 0"),
        ("policies in a list", "policies: [load]", "policies", "not a mapping"),
        ("policy of another name", "policies: {loads: 1}", "policies.loads", "overcommit-risk"),
        ("weight below 0", "policies: {load: -1}", "policies.load", "not a number from 0"),
        ("weight in words", "policies: {load: much}", "policies.load", "not a number from 0"),
        ("points", "points: round", "points", "spread, absolute"),
        ("window without unit", "load: {windows: {15: 1}}", "load.windows.15", "write a duration"),
        ("window of seconds", "load: {windows: {30s: 1}}", "load.windows.30s", "from 1m to 90d"),
        ("one window twice", "load: {windows: {60m: 1, 1h: 1}}", "load.windows.60m", "as long as 1h"),
        ("windows without weight", "load: {windows: {1h: 0}}", "load.windows", "no weight above 0"),
        ("metric", "load: {metrics: {gpu: 1}}", "load.metrics.gpu", "cpu, memory, disk, load, network"),
        ("share", "load: {missing: 1.5}", "load.missing", "0 to 1"),
        ("query without window", "load: {queries: {cpu: up}}", "load.queries.cpu", "$window"),
        ("no label", "load: {nodeLabels: []}", "load.nodeLabels", "at least one"),
        ("label", "load: {nodeLabels: [a-b]}", "load.nodeLabels[0]", "not the name of a label"),
        (
            "samples that are too old at once",
            "load: {interval: 1m, maximumAge: 30s}",
            "load.maximumAge",
            "placement.load.interval",
        ),
        (
            "credentials for nobody",
            "load: {prometheus: {bearerTokenFile: t}}",
            "load.prometheus.address",
            "is needed",
        ),
        (
            "user name in the address",
            "load: {prometheus: {address: 'http://a@b'}}",
            "load.prometheus.address",
            "placement.load.prometheus.username",
        ),
        ("resource", "weights: {gpu: 1}", "weights.gpu", "cpu, memory, bandwidth, disk"),
        ("no binding", "hotSpot: {bindings: 0}", "hotSpot.bindings", "1 to 100000"),
        ("window in parts", "hotSpot: {window: 1500ms}", "hotSpot.window", "whole seconds"),
        ("penalty", "hotSpot: {penalty: 101}", "hotSpot.penalty", "0 to 100"),
        ("flood that narrows", "flood: {window: 30s}", "flood.window", "placement.hotSpot.window"),
        ("form", "flood: {form: stop}", "flood.form", "buffer, fuse"),
        ("filter", "filter: {cpu: 85}", "filter.cpu", "0 to 1"),
        ("bounds", "loadClass: {mid: 0.8}", "loadClass.high", "not above"),
        ("hysteresis", "loadClass: {hysteresis: 0.3}", "loadClass.hysteresis", "more than there is"),
        ("label alone", "loadClass: {enabled: true}", "loadClass.enabled", "needs placement.enabled"),
        ("offset", "craneUtcOffset: 8", "craneUtcOffset", "as in +08:00"),
        ("offset of a day", "craneUtcOffset: '+24:00'", "craneUtcOffset", "as in +08:00"),
        ("annotations alone", "craneAnnotations: true", "craneAnnotations", "needs placement.enabled"),
        ("balance alone", "balance: {enabled: true}", "balance.enabled", "needs placement.enabled"),
        ("threshold", "balance: {threshold: 10}", "balance.threshold", "0 to 1"),
        ("more than is remembered", "balance: {evictionsPerHour: 501}", "balance.evictionsPerHour", "500"),
        ("no threshold", "balance: {threshold: 0}", "balance.threshold", "always be above it"),
        ("renewed too seldom", "renewInterval: 10s", "renewInterval", "cost the lease"),
        ("lease", "leaseDuration: 10500ms", "leaseDuration", "whole seconds"),
        ("slip", "hotspot: {window: 1m}", "hotspot", "placement.hotSpot may be meant"),
    ] {
        let found = violations(&format!("placement: {{{inner}}}"));
        let [violation] = found.as_slice() else { panic!("{rule}: {found:?}") };
        assert_eq!(violation.path, format!("placement.{path}"), "{rule}: {violation}");
        assert!(violation.message.contains(part), "{rule}: {violation}");
    }
}

#[test]
fn everything_wrong_is_told_at_once() {
    let found = violations(
        "placement: {enabled: 1, load: {windows: {x: 1, 1h: -1}}, filter: {cpu: 2}, balance: {rounds: 0}}",
    );
    let paths: Vec<_> = found.iter().map(|violation| violation.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "placement.balance.rounds",
            "placement.enabled",
            "placement.filter.cpu",
            "placement.load.windows.1h",
            "placement.load.windows.x"
        ]
    );
}

#[test]
fn mappings_come_from_the_environment_too() {
    for (rule, value, expected) in [
        ("pairs", "load=0.5, weights=1", Ok((0.5, 1.0))),
        ("JSON", r#"{"weights": 2}"#, Ok((0.0, 2.0))),
        ("YAML", "{load: 1}", Ok((1.0, 0.0))),
        ("no mapping", "load", Err("placement.policies")),
        ("no number", "load=much", Err("placement.policies.load")),
    ] {
        let environment = vec![("PLIMSOLL_PLACEMENT__POLICIES".to_owned(), value.to_owned())];
        match (load(&Sources { environment, ..Sources::default() }), expected) {
            (Ok(loaded), Ok(weights)) => {
                let policies = loaded.config.placement.settings.policies;
                assert_eq!((policies.load, policies.weights), weights, "{rule}");
            }
            (Err(ConfigErrors::Violations(found)), Err(path)) => assert_eq!(found[0].path, path, "{rule}"),
            (other, _) => panic!("{rule}: {other:?}"),
        }
    }
}

#[test]
fn numbers_come_from_the_environment_too() {
    let environment = [("PENALTY", "12.5"), ("BINDINGS", "7")]
        .map(|(name, value)| (format!("PLIMSOLL_PLACEMENT__HOT_SPOT__{name}"), value.to_owned()));
    let loaded = load(&Sources { environment: environment.into(), ..Sources::default() }).unwrap();
    let hot_spot = loaded.config.placement.settings.hot_spot;
    assert_eq!((hot_spot.bindings, hot_spot.penalty.to_bits()), (7, 12.5_f64.to_bits()));
}

#[test]
fn how_nodes_are_scored_changes_while_the_server_runs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    std::fs::write(&path, "{}").unwrap();
    let sources = Sources { file: Some(path.clone()), ..Sources::default() };
    let loaded = load(&sources).unwrap();
    let (mut watcher, receiver) = ConfigWatcher::new(sources, loaded, ());
    let text = "placement: {load: {windows: {1h: 1}, metrics: {cpu: 1}}, hotSpot: {penalty: 30}, policies: {weights: 1}}";
    std::fs::write(&path, text).unwrap();
    let Poll::Reloaded { changed, needs_restart } = watcher.poll_once() else { panic!("not taken over") };
    assert_eq!(changed, ["placement.hotSpot.penalty", "placement.load.metrics", "placement.policies"]);
    assert_eq!(needs_restart, ["placement.load.windows"], "what was measured goes by the old ones");
    let settings = receiver.borrow().placement.settings.clone();
    assert_eq!(settings.load.metrics, [(Metric::Cpu, 1.0)]);
    assert_eq!(settings.load.windows.len(), 3);
}
