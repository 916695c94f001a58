//! How components turn parts on and off, alone and together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{base, component, documents, files, root};

/// Whether the way in which the component turns quota on is one that works.
#[test]
fn the_component_turns_quota_on() {
    let folder = root().join("webhook-config/components/quota");
    let patch = &documents(&folder.join("enable.yaml"))[0][0]["value"];
    let variable = plimsoll::config::environment_name("quota.enabled");
    assert_eq!(*patch, json!({"name": variable, "value": "true"}));
}

/// The placement settings that the base and these components make in this order: of one variable the last counts.
fn placement_of(components: &[&str]) -> plimsoll::config::Placement {
    let mut variables = BTreeMap::new();
    for name in components {
        let deployment = component(name, "Deployment")[0].clone();
        let env = deployment["spec"]["template"]["spec"]["containers"][0]["env"].clone();
        for variable in env.as_array().unwrap() {
            let text = |key: &str| variable[key].as_str().unwrap().to_owned();
            variables.insert(text("name"), text("value"));
        }
    }
    let text = base("ConfigMap")[0]["data"]["config.yaml"].as_str().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, text).unwrap();
    let sources = plimsoll::config::Sources {
        file: Some(file),
        environment: variables.into_iter().collect(),
        ..Default::default()
    };
    plimsoll::config::load(&sources)
        .unwrap_or_else(|error| panic!("{components:?}: {error}"))
        .config
        .placement
}

/// Whether the way in which the components turn placement on is one that works.
#[test]
fn the_components_turn_placement_on() {
    for (rule, components, listens) in [
        ("a scheduler asks", &["placement", "extender"][..], true),
        ("none can be configured", &["placement", "load-class"], false),
        ("pods are moved after the fact", &["placement", "balance"], false),
        ("all of it", &["placement", "extender", "load-class", "balance"], true),
        ("in any order", &["extender", "placement"], true),
    ] {
        let placement = placement_of(components);
        assert!(placement.enabled, "{rule}");
        assert_eq!(placement.address.is_some(), listens, "{rule}");
        assert_eq!(placement.client_ca.is_some(), listens, "{rule}");
        assert_eq!(placement.load_class.enabled, components.contains(&"load-class"), "{rule}");
        assert_eq!(placement.balance.enabled, components.contains(&"balance"), "{rule}");
        assert!(placement.balance.dry_run, "nothing is evicted as shipped");
    }
}

/// What a scheduler needs is in the component `extender`, and nowhere else.
#[test]
fn the_extender_is_apart() {
    let deployment = component("extender", "Deployment")[0].clone();
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let placement = placement_of(&["placement", "extender"]);
    let mount = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    assert!(placement.client_ca.unwrap().starts_with(mount));
    assert_eq!(pod["volumes"][0]["name"], container["volumeMounts"][0]["name"]);
    let service = component("extender", "Service")[0].clone();
    let policy = component("extender", "NetworkPolicy")[0].clone();
    for (rule, got) in [
        ("container", &container["ports"][0]["containerPort"]),
        ("Service", &service["spec"]["ports"][0]["port"]),
        ("NetworkPolicy", &policy["spec"]["ingress"][0]["ports"][0]["port"]),
    ] {
        assert_eq!(*got, json!(placement.address.unwrap().port()), "{rule}");
    }
    assert_eq!(service["spec"]["ports"][0]["targetPort"], container["ports"][0]["name"]);

    for name in ["placement", "load-class", "balance"] {
        let deployment = component(name, "Deployment")[0].clone();
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        for (rule, got) in [
            ("no port", &container["ports"]),
            ("no file", &container["volumeMounts"]),
            ("no object that somebody has to make before", &pod["volumes"]),
        ] {
            assert_eq!(*got, Value::Null, "{name}: {rule}");
        }
    }
    let policy = component("placement", "NetworkPolicy")[0].clone();
    assert_eq!(policy["spec"]["policyTypes"], json!(["Egress"]), "it lets nobody in");
}

/// Components may be used together: what they bring has names of its own.
#[test]
fn components_do_not_get_in_each_others_way() {
    let components = ["placement", "extender", "load-class", "balance", "quota", "hpa-shim", "enforce"];
    let folder = |name: &str| root().join("webhook-config/components").join(name);
    let resources = |folder: PathBuf| {
        let kustomization = documents(&folder.join("kustomization.yaml"))[0].clone();
        let files = kustomization["resources"].as_array().cloned().unwrap_or_default();
        files.into_iter().flat_map(move |file| documents(&folder.join(file.as_str().unwrap())))
    };
    let mut objects = BTreeSet::new();
    let folders = [root().join("webhook-config/base")].into_iter().chain(components.map(folder));
    for object in folders.flat_map(resources) {
        let name = [&object["kind"], &object["metadata"]["namespace"], &object["metadata"]["name"]];
        assert!(objects.insert(name.map(ToString::to_string)), "{name:?} twice");
    }
    let patched = |kind: &str| {
        let of_components = components.into_iter().flat_map(|name| {
            let files = files().into_iter().filter(move |file| file.starts_with(folder(name)));
            files.flat_map(|file| documents(&file))
        });
        let all: Vec<_> = base(kind).into_iter().chain(of_components).collect();
        all.into_iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>()
    };
    let containers = patched("Deployment");
    let containers = containers.iter().map(|object| &object["spec"]["template"]["spec"]["containers"][0]);
    let services = patched("Service");
    let services = services.iter().map(|object| &object["spec"]);
    for (ports, number) in [
        (containers.map(|container| &container["ports"]).collect::<Vec<_>>(), "containerPort"),
        (services.map(|service| &service["ports"]).collect(), "port"),
    ] {
        for key in ["name", number] {
            let mut seen = BTreeSet::new();
            for port in ports.iter().filter_map(|ports| ports.as_array()).flatten() {
                assert!(seen.insert(port[key].to_string()), "{} twice", port[key]);
            }
        }
    }
}

/// Whether the way in which the components turn the aggregated API on is one that works.
#[test]
fn the_components_turn_the_aggregated_api_on() {
    for (name, setting) in [("hpa-shim", "hpa.shim.enabled"), ("hpa-external", "hpa.external.enabled")] {
        let deployment = component(name, "Deployment")[0].clone();
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let set =
            |setting: &str| json!({"name": plimsoll::config::environment_name(setting), "value": "true"});
        assert_eq!(
            container["env"],
            json!([set(setting), set("hpa.api.upstreamInsecureSkipVerify")]),
            "{name}"
        );
        let tree = json!({"hpa": {
            name.trim_start_matches("hpa-"): {"enabled": true}, "api": {"upstreamInsecureSkipVerify": true},
        }});
        let config = plimsoll::config::check_tree(Path::new("none"), tree.as_object().unwrap().clone());
        let port = config.unwrap().config.hpa.api.address.port();
        let service = component(name, "Service")[0].clone();
        let policy = component(name, "NetworkPolicy")[0].clone();
        for (rule, got) in [
            ("container", &container["ports"][0]["containerPort"]),
            ("Service", &service["spec"]["ports"][0]["port"]),
            ("NetworkPolicy", &policy["spec"]["ingress"][0]["ports"][0]["port"]),
        ] {
            assert_eq!(*got, json!(port), "{name}: {rule}");
        }
        assert_eq!(service["spec"]["ports"][0]["targetPort"], container["ports"][0]["name"]);
    }
}

/// Whether the component takes away all that is there for autoscalers.
#[test]
fn the_component_leaves_autoscalers_alone() {
    let folder = root().join("webhook-config/components/hpa-off");
    let patch = &documents(&folder.join("disable.yaml"))[0][0]["value"];
    let variable = plimsoll::config::environment_name("hpa.enabled");
    assert_eq!(*patch, json!({"name": variable, "value": "false"}));
    let of = |object: &Value| [&object["kind"], &object["metadata"]["name"]].map(ToString::to_string);
    let files = ["clusterrole", "clusterrolebinding", "role", "rolebinding"];
    let deleted: BTreeSet<_> = files
        .iter()
        .flat_map(|kind| {
            let documents = documents(&folder.join(format!("drop-{kind}.yaml")));
            assert_eq!(documents.len(), 1, "older kubectl fails on several deletions in one file");
            documents
        })
        .inspect(|object| assert_eq!(object["$patch"], "delete", "{object}"))
        .map(|object| of(&object))
        .collect();
    let kinds = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
    let granted: BTreeSet<_> = kinds
        .iter()
        .flat_map(|kind| base(kind))
        .filter(|object| object["metadata"]["name"] == "plimsoll-hpa")
        .map(|object| of(&object))
        .collect();
    assert_eq!(deleted, granted);
}
