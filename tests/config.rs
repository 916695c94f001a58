//! The configuration: what is refused and how it is said, which source beats which, and what a reload does.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "helpers of tests and long tables; a panic is how a test fails"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll::config::{
    ClientAuth, Config, ConfigErrors, ConfigWatcher, Flag, Loaded, LogFormat, Observer, Origin, Poll,
    Sources, TlsSource, TlsVersion, Violation, defaults, environment_name, load,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory with one configuration file.
struct Workspace {
    directory: TempDir,
    name: &'static str,
}

impl Workspace {
    fn new(name: &'static str, text: &str) -> Self {
        let workspace = Self { directory: tempfile::tempdir().unwrap(), name };
        workspace.write(text);
        workspace
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join(self.name)
    }

    fn write(&self, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(), text).unwrap();
    }

    fn sources(&self) -> Sources {
        Sources { file: Some(self.path()), ..Sources::default() }
    }
}

fn load_yaml(text: &str) -> Result<Loaded, ConfigErrors> {
    load(&Workspace::new("config.yaml", text).sources())
}

fn environment(pairs: &[(&str, &str)]) -> Sources {
    let environment = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Sources { environment, ..Sources::default() }
}

fn violations(loaded: Result<Loaded, ConfigErrors>) -> Vec<Violation> {
    match loaded {
        Err(ConfigErrors::Violations(violations)) => violations,
        other => panic!("not refused: {other:?}"),
    }
}

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
        let found = violations(load_yaml(text));
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
    let paths: Vec<String> = violations(load(&sources)).into_iter().map(|violation| violation.path).collect();
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
        assert_eq!(load_yaml(text).unwrap().config, default, "{rule}");
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
    let from_yaml = load_yaml(yaml).unwrap().config;
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
    assert_eq!(load_yaml(text).unwrap().config.profiles, expected);
}

#[test]
fn each_source_beats_the_one_before() {
    let workspace =
        Workspace::new("config.yaml", "log: {level: warn, format: Text}\nserver: {http2: true}\n");
    let mut sources = workspace.sources();
    let setting = |sources: &Sources, path: &str| {
        let settings = load(sources).unwrap().settings();
        let setting = settings.into_iter().find(|setting| setting.path == path).unwrap();
        (setting.value, setting.origin)
    };
    assert_eq!(setting(&Sources::default(), "log.level"), (json!("info"), Origin::Default));
    assert_eq!(setting(&sources, "log.level"), (json!("warn"), Origin::File(workspace.path())));
    sources.environment = vec![("PLIMSOLL_LOG__LEVEL".into(), "debug".into())];
    assert_eq!(
        setting(&sources, "log.level"),
        (json!("debug"), Origin::Environment("PLIMSOLL_LOG__LEVEL".into()))
    );
    sources.flags = vec![Flag { name: "--log-level", setting: "log.level", value: "trace".into() }];
    assert_eq!(setting(&sources, "log.level"), (json!("trace"), Origin::Flag("--log-level".into())));
    // What a higher source does not say stays as the lower one has it.
    assert_eq!(setting(&sources, "log.format"), (json!("Text"), Origin::File(workspace.path())));
    assert_eq!(setting(&sources, "server.http2"), (json!(true), Origin::File(workspace.path())));
    assert_eq!(setting(&sources, "server.drainDelay"), (json!("10s"), Origin::Default));
}

#[test]
fn variables_are_read_in_several_spellings() {
    let table = [
        ("underscores", "PLIMSOLL_SERVER__DRAIN_DELAY", "5s", "server.drainDelay", json!("5s")),
        ("run together", "PLIMSOLL_SERVER__DRAINDELAY", "5s", "server.drainDelay", json!("5s")),
        ("as in the file", "PLIMSOLL_server__drainDelay", "5s", "server.drainDelay", json!("5s")),
        ("flag", "PLIMSOLL_SERVER__HTTP2", "TRUE", "server.http2", json!(true)),
        ("number", "PLIMSOLL_SERVER__MAX_CONNECTIONS", "12", "server.maxConnections", json!(12)),
        ("size", "PLIMSOLL_SERVER__BODY_BYTES", "1Mi", "server.bodyBytes", json!("1Mi")),
        ("number that stays text", "PLIMSOLL_TLS__MIN_VERSION", "1.3", "tls.minVersion", json!("1.3")),
        ("list", "PLIMSOLL_TLS__NAMES", "a, b", "tls.names", json!(["a", "b"])),
        ("list of one", "PLIMSOLL_TLS__NAMES", "a", "tls.names", json!(["a"])),
        ("list as JSON", "PLIMSOLL_TLS__NAMES", "[\"a\"]", "tls.names", json!(["a"])),
        (
            "empty list",
            "PLIMSOLL_ADMISSION__EXCLUDED_NAMESPACES",
            "",
            "admission.excludedNamespaces",
            json!([]),
        ),
        (
            "profiles",
            "PLIMSOLL_PROFILES",
            r#"[{"name":"a","spec":{}}]"#,
            "profiles",
            json!([{"name": "a", "spec": {}}]),
        ),
        ("pod namespace", "POD_NAMESPACE", "elsewhere", "admission.ownNamespace", json!("elsewhere")),
    ];
    for (rule, name, text, path, expected) in table {
        let settings =
            load(&environment(&[(name, text)])).unwrap_or_else(|error| panic!("{rule}: {error}")).settings();
        let setting = settings.into_iter().find(|setting| setting.path == path).unwrap();
        assert_eq!((setting.value, setting.origin), (expected, Origin::Environment(name.into())), "{rule}");
    }
}

#[test]
fn variables_that_are_not_ours_are_passed_over() {
    let default = load(&Sources::default()).unwrap();
    let sources = environment(&[
        ("PLIMSOLL_SERVICE_HOST", "10.0.0.1"),
        ("PLIMSOLL_SERVICE_PORT", "443"),
        ("PLIMSOLL_SERVICE_PORT_HTTPS", "443"),
        ("PLIMSOLL_PORT", "tcp://10.0.0.1:443"),
        ("PLIMSOLL_PORT_443_TCP_ADDR", "10.0.0.1"),
        ("PLIMSOLL_A__B_SERVICE_HOST", "10.0.0.1"),
        ("PLIMSOLL_A__B_PORT", "tcp://10.0.0.1:443"),
        ("PLIMSOLL_CONFIG", "elsewhere.yaml"),
        ("PLIMSOLLXLOG__LEVEL", "debug"),
        ("POD_NAMESPACE", ""),
        ("HOME", "/root"),
    ]);
    assert_eq!(load(&sources).unwrap(), default);
}

#[test]
fn variables_that_name_nothing_are_refused() {
    let table = [
        ("slip", "PLIMSOLL_SERVER__DRIAN_DELAY", "PLIMSOLL_SERVER__DRAIN_DELAY may be meant"),
        ("no such section", "PLIMSOLL_WEATHER__RAIN", "is not a setting"),
        ("section", "PLIMSOLL_SERVER__", "is not a setting"),
        ("too deep", "PLIMSOLL_SERVER__DRAIN__DELAY", "PLIMSOLL_SERVER__DRAIN_DELAY may be meant"),
        ("dots", "PLIMSOLL_SERVER.DRAINDELAY", "is not a setting"),
        ("port of ours", "PLIMSOLL_SERVER__PORT", "is not a setting"),
    ];
    for (rule, name, part) in table {
        let found = violations(load(&environment(&[(name, "5s")])));
        let [violation] = found.as_slice() else { panic!("{rule}: {found:?}") };
        assert_eq!(violation.path, name, "{rule}");
        assert_eq!(violation.origin, Origin::Environment(name.into()), "{rule}");
        assert!(violation.message.contains(part), "{rule}: {violation}");
    }
    let both = environment(&[("PLIMSOLL_LOG__LEVEL", "info"), ("PLIMSOLL_LOG__LEV_EL", "warn")]);
    assert!(violations(load(&both))[0].message.contains("is set by PLIMSOLL_LOG__LEVEL too"));
}

#[test]
fn violations_know_their_source() {
    let workspace = Workspace::new("config.yaml", "server: {drainDelay: 5x}\n");
    let mut sources = workspace.sources();
    sources.flags = vec![Flag { name: "--log-level", setting: "log.level", value: "loud".into() }];
    sources.environment = vec![("PLIMSOLL_TLS__NAMES".into(), "a,b_c".into())];
    let origins: Vec<Origin> =
        violations(load(&sources)).into_iter().map(|violation| violation.origin).collect();
    let expected = [
        Origin::Flag("--log-level".into()),
        Origin::File(workspace.path()),
        Origin::Environment("PLIMSOLL_TLS__NAMES".into()),
    ];
    assert_eq!(origins, expected);
}

/// Counts what a watcher tells.
#[derive(Debug, Clone, Default)]
struct Counter(Arc<[AtomicUsize; 2]>);

impl Counter {
    fn counts(&self) -> [usize; 2] {
        [0, 1].map(|index: usize| self.0[index].load(Ordering::Relaxed))
    }
}

impl Observer for Counter {
    fn reloaded(&self) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
    }

    fn refused(&self, _: &ConfigErrors) {
        self.0[1].fetch_add(1, Ordering::Relaxed);
    }
}

type Receiver = tokio::sync::watch::Receiver<Arc<Config>>;

fn watch(workspace: &Workspace) -> (ConfigWatcher<Counter>, Receiver, Counter) {
    let counter = Counter::default();
    let sources = workspace.sources();
    let loaded = load(&sources).unwrap();
    let (watcher, receiver) = ConfigWatcher::new(sources, loaded, counter.clone());
    (watcher, receiver, counter)
}

#[test]
fn a_changed_file_is_taken_over() {
    let workspace = Workspace::new("config.yaml", "log: {level: warn}\n");
    let (mut watcher, mut receiver, counter) = watch(&workspace);
    assert!(matches!(watcher.poll_once(), Poll::Unchanged));

    workspace.write("log: {level: debug}\nadmission: {excludedNamespaces: [a]}\n");
    let Poll::Reloaded { changed, needs_restart } = watcher.poll_once() else { panic!("not taken over") };
    assert_eq!(changed, ["admission.excludedNamespaces", "log.level"]);
    assert!(needs_restart.is_empty());
    assert!(receiver.has_changed().unwrap());
    assert_eq!(receiver.borrow_and_update().log.level, "debug");

    // A comment changes the content, not the configuration.
    workspace.write("# why\nlog: {level: debug}\nadmission: {excludedNamespaces: [a]}\n");
    assert!(matches!(watcher.poll_once(), Poll::Reloaded { changed, .. } if changed.is_empty()));
    assert!(!receiver.has_changed().unwrap());
    assert!(matches!(watcher.poll_once(), Poll::Unchanged));
    assert_eq!(counter.counts(), [2, 0]);
}

#[test]
fn the_last_good_configuration_stays() {
    let workspace = Workspace::new("config.yaml", "log: {level: warn}\n");
    let (mut watcher, receiver, counter) = watch(&workspace);
    for (rule, text) in [
        ("syntax", "log: {level: [\n"),
        ("violations", "log: {level: loud}\nserver: {drainDelay: 5x}\n"),
        ("unknown key", "lgo: {}\n"),
        ("not text", "\0"),
    ] {
        workspace.write(text);
        assert!(matches!(watcher.poll_once(), Poll::Refused(_)), "{rule}");
        // Said once, not every five seconds.
        assert!(matches!(watcher.poll_once(), Poll::Unchanged), "{rule}");
        assert!(!receiver.has_changed().unwrap(), "{rule}");
        assert_eq!(receiver.borrow().log.level, "warn", "{rule}");
    }
    std::fs::remove_file(workspace.path()).unwrap();
    assert!(matches!(watcher.poll_once(), Poll::Refused(ConfigErrors::File { .. })));
    assert!(matches!(watcher.poll_once(), Poll::Unchanged));
    assert_eq!(counter.counts(), [0, 5]);

    workspace.write("log: {level: warn}\n");
    assert!(matches!(watcher.poll_once(), Poll::Reloaded { changed, .. } if changed.is_empty()));
    assert_eq!(counter.counts(), [1, 5]);
}

#[test]
fn what_needs_a_restart_stays_and_is_named() {
    let workspace = Workspace::new("config.yaml", "tls: {source: Ephemeral}\n");
    let (mut watcher, receiver, _) = watch(&workspace);
    workspace.write(
        "server: {address: '127.0.0.1:1', drainDelay: 1s}\ncluster: {context: other}\nlog: {level: debug, format: Json}\n",
    );
    let Poll::Reloaded { changed, needs_restart } = watcher.poll_once() else { panic!("not taken over") };
    assert_eq!(changed, ["log.level"]);
    let expected = ["cluster.context", "log.format", "server.address", "server.drainDelay", "tls.source"];
    assert_eq!(needs_restart, expected);
    let config = receiver.borrow().clone();
    assert_eq!(config.server.address, "0.0.0.0:8443".parse().unwrap());
    assert_eq!(config.tls.source, TlsSource::Ephemeral);
    assert_eq!(config.cluster.context, None);
    assert_eq!(config.server.drain_delay, Duration::from_secs(10));
    assert_eq!(config.log.level, "debug");

    // Back to the values in force: nothing waits any more.
    workspace.write("tls: {source: Ephemeral}\nlog: {level: debug}\n");
    let Poll::Reloaded { changed, needs_restart } = watcher.poll_once() else { panic!("not taken over") };
    assert_eq!((changed.len(), needs_restart.len()), (0, 0));
}

#[test]
fn evictions_for_balance_are_stopped_by_a_reload() {
    let of = |text: &str| format!("placement: {{balance: {{{text}}}}}\n");
    let workspace = Workspace::new("config.yaml", &of("dryRun: false"));
    let (mut watcher, receiver, _) = watch(&workspace);
    workspace.write(of("dryRun: true, interval: 10s, excludedNamespaces: [a], evictionsPerHour: 1"));
    let Poll::Reloaded { changed, needs_restart } = watcher.poll_once() else { panic!("not taken over") };
    let expected = ["dryRun", "evictionsPerHour", "excludedNamespaces"];
    let expected = expected.map(|key| format!("placement.balance.{key}"));
    let sorted: std::collections::BTreeSet<_> = changed.into_iter().collect();
    assert_eq!(sorted.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(needs_restart, ["placement.balance.interval"]);
    let balance = receiver.borrow().placement.balance.clone();
    assert_eq!((balance.dry_run, balance.evictions_per_hour), (true, 1));
    assert_eq!(balance.interval, Duration::from_secs(60));
}

#[test]
fn a_mounted_config_map_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let generation = |name: &str, text: &str| {
        std::fs::create_dir(root.join(name)).unwrap();
        std::fs::write(root.join(name).join("config.yaml"), text).unwrap();
        std::os::unix::fs::symlink(name, root.join("..data_tmp")).unwrap();
        std::fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
    };
    generation("..1", "log: {level: warn}\n");
    std::os::unix::fs::symlink("..data/config.yaml", root.join("config.yaml")).unwrap();
    let sources = Sources { file: Some(root.join("config.yaml")), ..Sources::default() };
    let loaded = load(&sources).unwrap();
    let (mut watcher, receiver) = ConfigWatcher::new(sources, loaded, ());
    generation("..2", "log: {level: error}\n");
    assert!(matches!(watcher.poll_once(), Poll::Reloaded { .. }));
    assert_eq!(receiver.borrow().log.level, "error");
}

#[tokio::test]
async fn the_watcher_runs_until_it_is_cancelled() {
    let workspace = Workspace::new("config.yaml", "log: {level: warn}\n");
    let (watcher, mut receiver, _) = watch(&workspace);
    let cancel = tokio_util::sync::CancellationToken::new();
    // The first look is at once.
    workspace.write("log: {level: error}\n");
    let task = tokio::spawn(watcher.run(cancel.clone()));
    receiver.changed().await.unwrap();
    assert_eq!(receiver.borrow().log.level, "error");
    cancel.cancel();
    task.await.unwrap();
}

/// The rows of the tables of settings in the documentation: path and default.
fn documented() -> Vec<(String, Value)> {
    let text = include_str!("../docs/configuration.md");
    let settings = text.split("## Settings").nth(1).unwrap();
    let cell = |cell: &str| cell.trim().trim_matches('`').to_owned();
    let rows = settings.lines().filter(|line| line.starts_with("| `"));
    let mut rows: Vec<(String, Value)> = rows
        .map(|row| {
            // A bar within a cell is escaped.
            let row = row.replace("\\|", "\u{0}");
            let cells: Vec<String> = row.split('|').map(|cell| cell.replace('\u{0}', "|")).collect();
            let default = cell(&cells[2]);
            (cell(&cells[1]), serde_json::from_str(&default).unwrap_or_else(|_| panic!("default in {row}")))
        })
        .collect();
    rows.sort_by(|left, right| left.0.cmp(&right.0));
    rows
}

#[test]
fn the_documentation_lists_every_setting_with_its_default() {
    assert_eq!(documented(), defaults());
}

#[test]
fn the_documented_example_is_valid() {
    let text = include_str!("../docs/configuration.md");
    let example = text.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let config = load_yaml(example).unwrap().config;
    assert_eq!(config.server.drain_delay, Duration::from_secs(15));
    assert_eq!(config.profiles.len(), 1);
}

#[test]
fn variables_have_the_documented_names() {
    assert_eq!(environment_name("server.drainDelay"), "PLIMSOLL_SERVER__DRAIN_DELAY");
    assert_eq!(environment_name("profiles"), "PLIMSOLL_PROFILES");
}
