//! Which source beats which.

use plimsoll::config::{Flag, Origin, Sources, load};
use serde_json::json;

use crate::support::{Workspace, environment, refused};

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
        let found = refused(load(&environment(&[(name, "5s")])));
        let [violation] = found.as_slice() else { panic!("{rule}: {found:?}") };
        assert_eq!(violation.path, name, "{rule}");
        assert_eq!(violation.origin, Origin::Environment(name.into()), "{rule}");
        assert!(violation.message.contains(part), "{rule}: {violation}");
    }
    let both = environment(&[("PLIMSOLL_LOG__LEVEL", "info"), ("PLIMSOLL_LOG__LEV_EL", "warn")]);
    assert!(refused(load(&both))[0].message.contains("is set by PLIMSOLL_LOG__LEVEL too"));
}

#[test]
fn violations_know_their_source() {
    let workspace = Workspace::new("config.yaml", "server: {drainDelay: 5x}\n");
    let mut sources = workspace.sources();
    sources.flags = vec![Flag { name: "--log-level", setting: "log.level", value: "loud".into() }];
    sources.environment = vec![("PLIMSOLL_TLS__NAMES".into(), "a,b_c".into())];
    let origins: Vec<Origin> =
        refused(load(&sources)).into_iter().map(|violation| violation.origin).collect();
    let expected = [
        Origin::Flag("--log-level".into()),
        Origin::File(workspace.path()),
        Origin::Environment("PLIMSOLL_TLS__NAMES".into()),
    ];
    assert_eq!(origins, expected);
}
