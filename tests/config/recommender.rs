//! The settings of the recommender and of the API: what is refused, and what is taken together.

use std::path::Path;
use std::time::Duration;

use plimsoll::config::{ConfigWatcher, Poll, Sources, UsageSource, load};

use crate::support::{config, violations};

#[test]
fn defaults() {
    let config = load(&Sources::default()).unwrap().config;
    let recommender = &config.recommender;
    assert!(!recommender.enabled);
    assert_eq!(recommender.source, UsageSource::MetricsServer);
    assert_eq!(recommender.scan_interval, Duration::from_secs(60));
    assert_eq!((recommender.shards, recommender.writes_per_second), (1, 20));
    assert_eq!(recommender.lease_duration, Duration::from_secs(15));
    assert_eq!(recommender.prometheus.history, Duration::from_secs(8 * 86_400));
    assert!(recommender.prometheus.cpu_query.contains("container!=\"POD\""));
    assert_eq!(config.api.address, Some("127.0.0.1:8082".parse().unwrap()));
}

#[test]
fn without_a_cluster_only_sources_that_need_none_run() {
    for (text, in_cluster, standalone) in [
        ("recommender: {enabled: false}", false, false),
        ("recommender: {enabled: true}", true, false),
        ("recommender: {enabled: true, source: File, file: usage.csv}", true, true),
        ("recommender: {enabled: true, source: prometheus, prometheus: {address: 'http://p'}}", true, true),
    ] {
        let recommender = config(text).recommender;
        assert_eq!((recommender.runs(false), recommender.runs(true)), (in_cluster, standalone), "{text}");
    }
}

#[test]
fn everything_can_be_set() {
    let text = "
recommender:
  enabled: true
  source: Prometheus
  scanInterval: 30s
  shards: 4
  metricsServer: {perNamespace: true}
  prometheus:
    address: https://mimir.example:8443/prometheus/
    cpuQuery: cpu
    memoryQuery: memory
    podLabel: pod_name
    username: reader
    passwordFile: password
    caFile: ca.crt
    clientCertificate: tls.crt
    clientKey: tls.key
    headers: [{name: X-Scope-OrgID, value: team-a}]
    history: 0s
api: {address: '[::1]:0'}
";
    let taken = config(text);
    let recommender = taken.recommender;
    assert!(recommender.metrics_server.per_namespace);
    let prometheus = recommender.prometheus;
    assert_eq!(prometheus.access.address.as_deref(), Some("https://mimir.example:8443/prometheus"));
    assert_eq!(prometheus.access.headers, [("x-scope-orgid".to_owned(), "team-a".to_owned())]);
    assert_eq!(prometheus.access.password_file.as_deref(), Some(Path::new("password")));
    assert_eq!(prometheus.history, Duration::ZERO);
    assert_eq!(taken.api.address, Some("[::1]:0".parse().unwrap()));
    assert!(!format!("{prometheus:?}").contains("team-a"), "headers may be secrets");
    assert_eq!(config("api: {address: ''}").api.address, None);
}

#[test]
fn wrong_values_are_named_with_path_and_remedy() {
    let table = [
        (
            "API beyond loopback",
            "api: {address: '0.0.0.0:8082'}",
            "api.address",
            "is reached from other machines; the API asks nobody",
        ),
        (
            "API of IPv6 beyond loopback",
            "api: {address: '[::]:8082'}",
            "api.address",
            "is reached from other machines",
        ),
        ("API is no address", "api: {address: localhost}", "api.address", "\"localhost\" is not an address"),
        (
            "API where the probes are",
            "api: {address: '127.0.0.1:9'}\nprobes: {address: '127.0.0.1:9'}",
            "api.address",
            "127.0.0.1:9 is probes.address too",
        ),
        (
            "source",
            "recommender: {source: Kubelet}",
            "recommender.source",
            "is not one of MetricsServer, Prometheus, File",
        ),
        ("scan interval", "recommender: {scanInterval: 2h}", "recommender.scanInterval", "from 1s to 1h"),
        ("no shards", "recommender: {shards: 0}", "recommender.shards", "0 is not an integer from 1 to 64"),
        ("writes", "recommender: {writesPerSecond: 0}", "recommender.writesPerSecond", "from 1 to 1000"),
        (
            "Prometheus without address",
            "recommender: {enabled: true, source: Prometheus}",
            "recommender.prometheus.address",
            "is needed because recommender.source is Prometheus",
        ),
        (
            "file without a file",
            "recommender: {enabled: true, source: File}",
            "recommender.file",
            "is needed because recommender.source is File",
        ),
        (
            "renewal too seldom",
            "recommender: {leaseDuration: 15s, renewInterval: 8s}",
            "recommender.renewInterval",
            "8s is more than half of recommender.leaseDuration (15s)",
        ),
        (
            "lease in parts of a second",
            "recommender: {leaseDuration: 10500ms}",
            "recommender.leaseDuration",
            "is not in whole seconds",
        ),
        (
            "no URL",
            "recommender: {prometheus: {address: 'prometheus:9090'}}",
            "recommender.prometheus.address",
            "is not a URL; write http:// or https://",
        ),
        (
            "no host",
            "recommender: {prometheus: {address: 'http://'}}",
            "recommender.prometheus.address",
            "is not a URL",
        ),
        (
            "other scheme",
            "recommender: {prometheus: {address: 'ftp://host'}}",
            "recommender.prometheus.address",
            "is not a URL",
        ),
        (
            "query in the URL",
            "recommender: {prometheus: {address: 'http://host/?a=b'}}",
            "recommender.prometheus.address",
            "has more than a path",
        ),
        (
            "user in the URL",
            "recommender: {prometheus: {address: 'http://a:b@host'}}",
            "recommender.prometheus.address",
            "holds a user name",
        ),
        (
            "label",
            "recommender: {prometheus: {podLabel: 'pod-name'}}",
            "recommender.prometheus.podLabel",
            "is not the name of a label",
        ),
        (
            "query",
            "recommender: {prometheus: {cpuQuery: 5}}",
            "recommender.prometheus.cpuQuery",
            "5 is not a text",
        ),
        (
            "user without password",
            "recommender: {prometheus: {username: a}}",
            "recommender.prometheus.passwordFile",
            "because recommender.prometheus.username is given",
        ),
        (
            "password without user",
            "recommender: {prometheus: {passwordFile: a}}",
            "recommender.prometheus.username",
            "because recommender.prometheus.passwordFile is given",
        ),
        (
            "colon in a user name",
            "recommender: {prometheus: {username: 'a:b', passwordFile: a}}",
            "recommender.prometheus.username",
            "':' cannot be in one",
        ),
        (
            "certificate without key",
            "recommender: {prometheus: {clientCertificate: a}}",
            "recommender.prometheus.clientKey",
            "because recommender.prometheus.clientCertificate is given",
        ),
        (
            "token and user",
            "recommender: {prometheus: {bearerTokenFile: t, username: a, passwordFile: b}}",
            "recommender.prometheus.bearerTokenFile",
            "leave one out",
        ),
        (
            "CA without TLS",
            "recommender: {prometheus: {address: 'http://host', caFile: ca.crt}}",
            "recommender.prometheus.address",
            "only https:// uses",
        ),
        (
            "history shorter than its step",
            "recommender: {prometheus: {history: 1m}}",
            "recommender.prometheus.history",
            "1m is shorter than recommender.prometheus.historyStep (5m)",
        ),
        (
            "chunk with too many points",
            "recommender: {prometheus: {historyStep: 1s}}",
            "recommender.prometheus.historyChunk",
            "from once to 10000 times",
        ),
        (
            "chunk below a step",
            "recommender: {prometheus: {historyChunk: 2m}}",
            "recommender.prometheus.historyChunk",
            "2m must be from once",
        ),
        (
            "header as text",
            "recommender: {prometheus: {headers: ['a: b']}}",
            "recommender.prometheus.headers[0]",
            "is not a header; write {name",
        ),
        (
            "header with a blank",
            "recommender: {prometheus: {headers: [{name: a b, value: c}]}}",
            "recommender.prometheus.headers[0].name",
            "is not the name of a header",
        ),
        (
            "header of the request",
            "recommender: {prometheus: {headers: [{name: Host, value: c}]}}",
            "recommender.prometheus.headers[0].name",
            "is set by the request itself",
        ),
        (
            "header over two lines",
            "recommender: {prometheus: {headers: [{name: a, value: \"secret\\nb\"}]}}",
            "recommender.prometheus.headers[0].value",
            "characters that cannot stand",
        ),
        (
            "authorization twice",
            "recommender: {prometheus: {bearerTokenFile: t, headers: [{name: Authorization, value: c}]}}",
            "recommender.prometheus.headers",
            "leave one out",
        ),
        (
            "slip",
            "recommender: {promethues: {address: a}}",
            "recommender.promethues",
            "recommender.prometheus may be meant",
        ),
        ("section as text", "recommender: {prometheus: a}", "recommender.prometheus", "is not a section"),
    ];
    for (rule, text, path, part) in table {
        let found = violations(text);
        let [violation] = found.as_slice() else { panic!("{rule}: {found:?}") };
        assert_eq!(violation.path, path, "{rule}: {violation}");
        assert!(violation.message.contains(part), "{rule}: {violation}");
        assert!(!violation.message.contains("secret"), "{rule}: {violation}");
    }
}

#[test]
fn settings_of_inner_sections_wait_for_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    write("recommender: {prometheus: {address: 'http://old'}}\n");
    let sources = Sources { file: Some(path.clone()), ..Sources::default() };
    let loaded = load(&sources).unwrap();
    let (mut watcher, receiver) = ConfigWatcher::new(sources, loaded, ());
    write("recommender: {prometheus: {address: 'http://new'}}\nlog: {level: debug}\n");
    let Poll::Reloaded { changed, needs_restart } = watcher.poll_once() else { panic!("not taken over") };
    assert_eq!(
        (changed, needs_restart),
        (vec!["log.level".to_owned()], vec!["recommender.prometheus.address".to_owned()])
    );
    assert_eq!(receiver.borrow().recommender.prometheus.access.address.as_deref(), Some("http://old"));
}
