//! The server's pods, their configuration, and who reaches them.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{base, component};

#[test]
fn the_configuration_is_valid() {
    let text = base("ConfigMap")[0]["data"]["config.yaml"].as_str().unwrap().to_owned();
    let tree: Value = serde_saphyr::from_str(&text).unwrap();
    let source = tree["tls"]["source"].clone();
    let tree = tree.as_object().unwrap().clone();
    let config = plimsoll::config::check_tree(Path::new("config.yaml"), tree).unwrap().config;
    assert!(config.recommender.runs(false), "the shipped server recommends");
    assert!(config.api.address.is_some());
    assert_eq!(config.placement.address, None, "only the component extender opens a port");
    assert_eq!(source, "SelfManaged", "nothing need be installed before");
}

#[test]
fn pods_are_locked_down_and_outlive_the_drain() {
    let deployment = base("Deployment")[0].clone();
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    for (rule, got, want) in [
        ("two replicas", &deployment["spec"]["replicas"], json!(2)),
        ("not root", &pod["securityContext"]["runAsUser"], json!(65532)),
        ("never root", &pod["securityContext"]["runAsNonRoot"], json!(true)),
        ("seccomp", &pod["securityContext"]["seccompProfile"]["type"], json!("RuntimeDefault")),
        ("read-only root", &container["securityContext"]["readOnlyRootFilesystem"], json!(true)),
        ("no capability", &container["securityContext"]["capabilities"]["drop"], json!(["ALL"])),
        ("priority", &pod["priorityClassName"], json!("system-cluster-critical")),
    ] {
        assert_eq!(*got, want, "{rule}");
    }
    let config = base("ConfigMap")[0]["data"]["config.yaml"].as_str().unwrap().to_owned();
    let config: Value = serde_saphyr::from_str(&config).unwrap();
    let drain: i64 = config["server"]["drainDelay"].as_str().unwrap().trim_end_matches('s').parse().unwrap();
    assert!(
        pod["terminationGracePeriodSeconds"].as_i64().unwrap() > drain + 30,
        "killed while still serving"
    );
    let files =
        component("certificate-files", "Deployment")[0]["spec"]["template"]["spec"]["containers"][0].clone();
    for (container, volume, path) in
        [(&files, "tls", "/etc/plimsoll/tls/"), (container, "config", "/etc/plimsoll/config/")]
    {
        let mounts = container["volumeMounts"].as_array().unwrap();
        let mount = mounts.iter().find(|mount| mount["name"] == volume).unwrap();
        assert!(path.starts_with(mount["mountPath"].as_str().unwrap()), "{mount}");
        assert!(mount.get("subPath").is_none(), "a renewed file would never arrive: {mount}");
    }
}

#[test]
fn probes_and_metrics_are_not_for_every_pod() {
    let policy = base("NetworkPolicy")[0].clone();
    let rules = policy["spec"]["ingress"].as_array().unwrap();
    let of_port = |port: u16| {
        let has = |rule: &&Value| rule["ports"].as_array().unwrap().iter().any(|entry| entry["port"] == port);
        rules.iter().filter(has).collect::<Vec<_>>()
    };
    let monitoring =
        json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]);
    assert_eq!(of_port(8081).iter().map(|rule| &rule["from"]).collect::<Vec<_>>(), [&monitoring]);
    assert_eq!(of_port(8443).iter().map(|rule| &rule["from"]).collect::<Vec<_>>(), [&Value::Null]);
}

/// What a server needs that makes its own certificates, and what one that does not must not have.
#[test]
fn certificates_come_from_one_place() {
    let secret = base("Secret")[0].clone();
    assert_eq!(secret["metadata"]["name"], "plimsoll-ca");
    for content in ["data", "stringData"] {
        assert_eq!(secret[content], Value::Null, "an apply would wipe what the server wrote");
    }
    let deployment = component("certificate-files", "Deployment")[0].clone();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let variables: Vec<_> = container["env"].as_array().unwrap().iter().collect();
    let mount = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    for (setting, want) in [
        ("tls.source", "Files".to_owned()),
        ("tls.certificate", format!("{mount}/tls.crt")),
        ("tls.key", format!("{mount}/tls.key")),
    ] {
        let variable = json!({"name": plimsoll::config::environment_name(setting), "value": want});
        assert!(variables.contains(&&variable), "{variable} is not in {variables:?}");
    }
}
