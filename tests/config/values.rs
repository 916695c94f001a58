//! What is refused, and how it is said.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll::config::{ClientAuth, ConfigErrors, LogFormat, Sources, TlsSource, TlsVersion, load};
use serde_json::json;

use crate::support::{Workspace, config, refused, violations};

#[test]
fn defaults_are_as_documented() {
    let config = load(&Sources::default()).unwrap().config;
    assert_eq!(config.server.address, "0.0.0.0:8443".parse().unwrap());
    assert!(!config.server.http2);
    assert_eq!(config.server.concurrency, 0);
    assert!(config.server.concurrency_limit() >= 4);
    assert_eq!(config.server.queue_deadline, Duration::from_secs(1));
    assert_eq!(config.server.header_bytes, 16 * 1024);
    assert_eq!(config.server.body_bytes, 7 * 1024 * 1024);
    assert_eq!(config.server.idle_timeout, Duration::from_secs(120));
    assert_eq!(config.server.client_auth, ClientAuth::None);
    assert_eq!(config.tls.source, TlsSource::Files);
    assert_eq!(config.tls.certificate, Path::new("/etc/plimsoll/tls/tls.crt"));
    assert_eq!(config.tls.client_ca, None);
    assert_eq!(config.tls.min_version, TlsVersion::Tls12);
    assert_eq!(config.tls.names, ["localhost", "127.0.0.1"]);
    assert_eq!(config.admission.namespace_read_timeout, Duration::from_millis(200));
    assert!(config.admission.excludes("kube-system"));
    assert!(config.admission.excludes("plimsoll-system"));
    assert!(!config.admission.excludes("default"));
    assert_eq!(config.cluster.kubeconfig, None);
    assert_eq!(config.log.format, LogFormat::Auto);
    assert!(config.profiles.is_empty());
}

#[test]
fn wrong_values_are_named_with_path_and_remedy() {
    let table = [
        (
            "duration unit",
            "server: {drainDelay: 5x}",
            "server.drainDelay",
            "\"5x\" is not a duration; write an integer and s, m, h or d, as in 10s",
        ),
        ("duration without unit", "server: {drainDelay: 10}", "server.drainDelay", "10 is not a duration"),
        (
            "duration with a fraction",
            "server: {drainDelay: 1.5s}",
            "server.drainDelay",
            "\"1.5s\" is not a duration",
        ),
        ("negative duration", "server: {drainDelay: -1s}", "server.drainDelay", "\"-1s\" is not a duration"),
        (
            "duration too small",
            "server: {queueDeadline: 0s}",
            "server.queueDeadline",
            "out of range; write a duration from 1ms to 30s",
        ),
        ("duration too large", "tls: {pollInterval: 2h}", "tls.pollInterval", "from 100ms to 1h"),
        (
            "duration beyond all bounds",
            "server: {idleTimeout: 99999999999999999999d}",
            "server.idleTimeout",
            "is not a duration",
        ),
        (
            "duration as a list",
            "server: {drainDelay: [10s]}",
            "server.drainDelay",
            "a list is not a duration",
        ),
        (
            "size unit",
            "server: {headerBytes: 16kb}",
            "server.headerBytes",
            "\"16kb\" is not a size; write an integer and Ki, Mi or Gi",
        ),
        (
            "size too small",
            "server: {headerBytes: 4Ki}",
            "server.headerBytes",
            "write a size from 8Ki to 1Mi",
        ),
        ("size too large", "server: {bodyBytes: 1Gi}", "server.bodyBytes", "from 64Ki to 256Mi"),
        (
            "address without port",
            "server: {address: 0.0.0.0}",
            "server.address",
            "\"0.0.0.0\" is not an address; write an IP address and a port",
        ),
        ("address by name", "probes: {address: 'localhost:80'}", "probes.address", "is not an address"),
        ("port out of range", "server: {address: '0.0.0.0:70000'}", "server.address", "is not an address"),
        (
            "both listeners on one port",
            "server: {address: '0.0.0.0:8081'}",
            "probes.address",
            "is server.address too",
        ),
        ("text for a flag", "server: {http2: 'true'}", "server.http2", "\"true\" is not true or false"),
        ("number for a flag", "server: {http2: 1}", "server.http2", "1 is not true or false"),
        (
            "negative count",
            "server: {concurrency: -1}",
            "server.concurrency",
            "-1 is not an integer from 0 to 65536",
        ),
        (
            "fractional count",
            "server: {maxConnections: 1.5}",
            "server.maxConnections",
            "1.5 is not an integer",
        ),
        ("no connections", "server: {maxConnections: 0}", "server.maxConnections", "from 1 to 1000000"),
        (
            "unknown word",
            "server: {clientAuth: Maybe}",
            "server.clientAuth",
            "\"Maybe\" is not one of None, Optional, Required",
        ),
        (
            "client CA missing",
            "server: {clientAuth: Required}",
            "tls.clientCa",
            "is needed because server.clientAuth is Required",
        ),
        ("TLS version", "tls: {minVersion: 1.1}", "tls.minVersion", "1.1 is not one of 1.2, 1.3"),
        ("no file", "tls: {certificate: ''}", "tls.certificate", "\"\" is not the path of a file"),
        (
            "name in a certificate",
            "tls: {names: [ok, a_b]}",
            "tls.names[1]",
            "\"a_b\" is neither a DNS name nor an IP address",
        ),
        ("no names", "tls: {source: Ephemeral, names: []}", "tls.names", "needs at least one"),
        (
            "one namespace for a list",
            "admission: {excludedNamespaces: kube-system}",
            "admission.excludedNamespaces",
            "\"kube-system\" is not a list",
        ),
        (
            "name of a namespace",
            "admission: {excludedNamespaces: [kube-system, Kube]}",
            "admission.excludedNamespaces[1]",
            "\"Kube\" is not the name of a namespace",
        ),
        (
            "own namespace",
            "admission: {ownNamespace: a.b}",
            "admission.ownNamespace",
            "\"a.b\" is not the name of a namespace",
        ),
        (
            "log level",
            "log: {level: inof}",
            "log.level",
            "\"inof\" is not a log level; write error, warn, info",
        ),
        ("log level of a module", "log: {level: 'info,hyper=loud'}", "log.level", "is not a log level"),
        ("log format", "log: {format: xml}", "log.format", "\"xml\" is not one of Auto, Text, Json"),
        ("section as text", "server: yes please", "server", "\"yes please\" is not a section"),
        (
            "setting as a mapping",
            "server: {address: {host: a}}",
            "server.address",
            "is a mapping, but this setting has a single value",
        ),
        (
            "slip of the pen",
            "server: {drianDelay: 1s}",
            "server.drianDelay",
            "is not a setting; server.drainDelay may be meant",
        ),
        (
            "other spelling",
            "server: {drain_delay: 1s}",
            "server.drain_delay",
            "server.drainDelay may be meant",
        ),
        ("other section", "level: debug", "level", "log.level may be meant"),
        ("misspelt section", "sever: {http2: true}", "sever", "server may be meant"),
        ("dotted key", "server.address: '0.0.0.0:1'", "server.address", "is not a setting"),
        ("nothing near", "tls: {colour: red}", "tls.colour", "is not a setting"),
        ("profiles as a mapping", "profiles: {a: {}}", "profiles", "is a mapping, but this setting"),
        ("profile as text", "profiles: [shared]", "profiles[0]", "\"shared\" is not a profile"),
        ("profile without a name", "profiles: [{spec: {}}]", "profiles[0].name", "is missing"),
        (
            "profile with two names",
            "profiles: [{name: a, metadata: {name: b}, spec: {}}]",
            "profiles[0].name",
            "is given twice",
        ),
        (
            "profile name",
            "profiles: [{metadata: {name: A}, spec: {}}]",
            "profiles[0].metadata.name",
            "\"A\" is not a name",
        ),
        (
            "same name twice",
            "profiles: [{name: a, spec: {}}, {name: a, spec: {}}]",
            "profiles[1].name",
            "an earlier profile too",
        ),
        ("profile without a spec", "profiles: [{name: a}]", "profiles[0].spec", "is missing"),
        ("spec as text", "profiles: [{name: a, spec: x}]", "profiles[0].spec", "\"x\" is not a mapping"),
        (
            "field of a spec",
            "profiles: [{name: a, spec: {static: {factors: {cpu: 0.5}}}}]",
            "profiles[0].spec.static.factors.cpu",
            "0.5 is not a string",
        ),
        (
            "field of a profile",
            "profiles: [{name: a, spce: {}, spec: {}}]",
            "profiles[0].spce",
            "spec may be meant",
        ),
        (
            "other kind",
            "profiles: [{kind: Pod, name: a, spec: {}}]",
            "profiles[0].kind",
            "\"Pod\" is not OvercommitProfile",
        ),
    ];
    for (rule, text, path, part) in table {
        let found = violations(text);
        let [violation] = found.as_slice() else { panic!("{rule}: {found:?}") };
        assert_eq!(violation.path, path, "{rule}: {violation}");
        assert!(violation.message.contains(part), "{rule}: {violation}");
        assert!(violation.to_string().contains("(from "), "{rule}: {violation}");
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let workspace = Workspace::new(
        "config.yaml",
        "server: {drainDelay: 5x, http2: 1, nonsense: 1}\ntls: {names: [a_b, 'c d']}\nlog: {level: loud}\n",
    );
    let mut sources = workspace.sources();
    sources.environment = vec![("PLIMSOLL_SERVER__CONCURRENCY".into(), "many".into())];
    let paths: Vec<String> = refused(load(&sources)).into_iter().map(|violation| violation.path).collect();
    let expected = [
        "log.level",
        "server.concurrency",
        "server.drainDelay",
        "server.http2",
        "server.nonsense",
        "tls.names[0]",
        "tls.names[1]",
    ];
    assert_eq!(paths, expected);
}

#[test]
fn files_that_are_no_configuration_are_refused_as_a_whole() {
    let table: [(&str, &str, &[u8], &str); 9] = [
        ("syntax", "config.yaml", b"server:\n  http2: [\n", "line 2"),
        ("duplicate key", "config.yaml", b"log: {}\nlog: {}\n", "line 2: duplicate"),
        ("several documents", "config.yaml", b"log: {}\n---\nlog: {}\n", "holds several documents"),
        ("list", "config.yaml", b"- log\n", "is a list, not a mapping"),
        ("not UTF-8", "config.yaml", b"log: \xFF\n", "line 1: is not UTF-8"),
        ("NUL", "config.yaml", b"log: \0\n", "NUL"),
        ("TOML syntax", "config.toml", b"[log\n", "line 1"),
        ("extension", "config.ini", b"", "is neither YAML nor TOML by its name"),
        ("no extension", "config", b"", "call it *.yaml or *.toml"),
    ];
    for (rule, name, bytes, part) in table {
        let workspace = Workspace::new(name, "");
        workspace.write(bytes);
        let error = load(&workspace.sources()).unwrap_err();
        assert!(matches!(error, ConfigErrors::File { .. }), "{rule}: {error:?}");
        let message = error.to_string();
        assert!(message.contains(part) && message.contains(name), "{rule}: {message}");
    }
    let missing = Sources { file: Some(PathBuf::from("/nonexistent/config.yaml")), ..Sources::default() };
    assert!(load(&missing).unwrap_err().to_string().contains("cannot be read"));
}

#[test]
fn empty_files_and_null_mean_the_defaults() {
    let default = load(&Sources::default()).unwrap().config;
    for (rule, text) in [
        ("empty", ""),
        ("comment", "# nothing\n"),
        ("null section", "server:\n"),
        ("null setting", "server:\n  drainDelay:\n"),
        ("empty section", "server: {}\n"),
    ] {
        assert_eq!(config(text), default, "{rule}");
    }
}

#[test]
fn toml_and_yaml_say_the_same() {
    let yaml = "
server: {address: '127.0.0.1:1', http2: true, maxConnections: 7, bodyBytes: 65536}
tls: {minVersion: 1.3, names: [a, b], clientCa: ca.crt}
profiles: [{name: a, spec: {match: {namespaceSelector: {matchLabels: {plimsoll.dev/pool: shared}}}}}]
";
    let toml = r#"
[server]
address = "127.0.0.1:1"
http2 = true
maxConnections = 7
bodyBytes = 65536
[tls]
minVersion = 1.3
names = ["a", "b"]
clientCa = "ca.crt"
[[profiles]]
name = "a"
[profiles.spec.match.namespaceSelector.matchLabels]
"plimsoll.dev/pool" = "shared"
"#;
    let from_yaml = config(yaml);
    let from_toml = load(&Workspace::new("config.toml", toml).sources()).unwrap().config;
    assert_eq!(from_yaml, from_toml);
    assert_eq!(from_yaml.tls.min_version, TlsVersion::Tls13);
    assert_eq!(from_yaml.tls.client_ca.as_deref(), Some(Path::new("ca.crt")));
    let label = "/spec/match/namespaceSelector/matchLabels/plimsoll.dev~1pool";
    assert_eq!(from_yaml.profiles[0].pointer(label), Some(&json!("shared")));
}

#[test]
fn profiles_come_in_one_shape() {
    let text = "
profiles:
  - {apiVersion: plimsoll.dev/v1alpha1, kind: OvercommitProfile, metadata: {name: one, labels: {a: b}}, spec: {mode: 'Off'}}
  - {name: two, spec: {static: {factors: {cpu: '0.5'}}}}
";
    let expected = [
        json!({"metadata": {"name": "one"}, "spec": {"mode": "Off"}}),
        json!({"metadata": {"name": "two"}, "spec": {"static": {"factors": {"cpu": "0.5"}}}}),
    ];
    assert_eq!(config(text).profiles, expected);
}
