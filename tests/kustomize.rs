//! What `webhook-config` says.
//!
//! The plain tests read the files. The snapshots need kubectl, so they run with the end-to-end tests:
//! `cargo test --features e2e --test kustomize`; `UPDATE_SNAPSHOTS=1` writes them anew.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "all of this file is a test; reading a JSON value that is not there gives null"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use plimsoll::cluster::{Part, WATCHED};
use plimsoll::quota::webhooks;
use serde_json::{Value, json};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All YAML files below `webhook-config`.
fn files() -> Vec<PathBuf> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "yaml") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join("webhook-config"), &mut found);
    found.sort();
    found
}

fn documents(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The objects of a kind in the base.
fn base(kind: &str) -> Vec<Value> {
    let in_base = |file: &PathBuf| file.parent().unwrap().ends_with("base");
    let all = files().into_iter().filter(in_base).flat_map(|file| documents(&file));
    let found: Vec<Value> = all.filter(|object| object["kind"] == kind).collect();
    assert!(!found.is_empty(), "no {kind} in webhook-config/base");
    found
}

fn webhook(kind: &str) -> Value {
    base(kind)[0]["webhooks"][0].clone()
}

#[test]
fn every_file_is_yaml() {
    assert!(files().len() > 15, "{:?}", files());
    for file in files() {
        assert!(!documents(&file).is_empty(), "{} is empty", file.display());
    }
}

#[test]
fn every_file_of_the_base_is_listed() {
    let kustomization = &documents(&root().join("webhook-config/base/kustomization.yaml"))[0];
    for file in files().iter().filter(|file| file.parent().unwrap().ends_with("base")) {
        let name = file.file_name().unwrap().to_str().unwrap();
        let listed = kustomization["resources"].as_array().unwrap().iter().any(|entry| entry == name);
        assert!(listed || name == "kustomization.yaml", "{name} is not in the base's resources");
    }
}

#[test]
fn webhooks_are_as_specified() {
    let mutating = webhook("MutatingWebhookConfiguration");
    let autoscalers = &base("MutatingWebhookConfiguration")[0]["webhooks"][1];
    let validating = webhook("ValidatingWebhookConfiguration");
    for (rule, got, want) in [
        ("pods start without us", &mutating["failurePolicy"], json!("Ignore")),
        ("a slow answer costs at most 3 s", &mutating["timeoutSeconds"], json!(3)),
        ("other versions are converted", &mutating["matchPolicy"], json!("Equivalent")),
        ("injected sidecars come again", &mutating["reinvocationPolicy"], json!("IfNeeded")),
        ("dry runs are allowed", &mutating["sideEffects"], json!("None")),
        ("pods only", &mutating["rules"][0]["resources"], json!(["pods"])),
        ("creation only", &mutating["rules"][0]["operations"], json!(["CREATE"])),
        ("one rule", &mutating["rules"][1], Value::Null),
        ("the CA is not in the repository", &mutating["clientConfig"]["caBundle"], Value::Null),
        ("by its name it is taken away", &autoscalers["name"], json!("hpas.plimsoll.dev")),
        ("autoscalers are stored without us", &autoscalers["failurePolicy"], json!("Ignore")),
        ("v1 is converted", &autoscalers["matchPolicy"], json!("Equivalent")),
        ("from the version that has everything", &autoscalers["rules"][0]["apiVersions"], json!(["v2"])),
        ("dry runs are allowed", &autoscalers["sideEffects"], json!("None")),
        (
            "not their status, which is written all the time",
            &autoscalers["rules"][0]["resources"],
            json!(["horizontalpodautoscalers"]),
        ),
        ("whenever they change", &autoscalers["rules"][0]["operations"], json!(["CREATE", "UPDATE"])),
        ("one rule", &autoscalers["rules"][1], Value::Null),
        ("all that match", &autoscalers["matchConditions"], Value::Null),
        (
            "also where pods opt out: what was converted is restored",
            &autoscalers["namespaceSelector"]["matchExpressions"],
            json!([{
                "key": "kubernetes.io/metadata.name", "operator": "NotIn",
                "values": ["kube-system", "plimsoll-system"],
            }]),
        ),
        ("the CA is not in the repository", &autoscalers["clientConfig"]["caBundle"], Value::Null),
        ("profiles can be stored without us", &validating["failurePolicy"], json!("Ignore")),
        ("a slow answer costs at most 3 s", &validating["timeoutSeconds"], json!(3)),
        ("dry runs are allowed", &validating["sideEffects"], json!("None")),
        ("profiles only", &validating["rules"][0]["resources"], json!(["overcommitprofiles"])),
        ("whenever they change", &validating["rules"][0]["operations"], json!(["CREATE", "UPDATE"])),
        ("the CA is not in the repository", &validating["clientConfig"]["caBundle"], Value::Null),
    ] {
        assert_eq!(*got, want, "{rule}");
    }
}

#[test]
fn our_own_pods_start_without_us() {
    let namespace = base("Namespace")[0]["metadata"]["name"].clone();
    let selector = webhook("MutatingWebhookConfiguration")["namespaceSelector"]["matchExpressions"].clone();
    let by_name = json!({
        "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", namespace],
    });
    assert!(selector.as_array().unwrap().contains(&by_name), "{selector}");
}

#[test]
fn opt_out_has_the_three_documented_values() {
    let webhook = webhook("MutatingWebhookConfiguration");
    let labels = json!({
        "key": "plimsoll.dev/overcommit", "operator": "NotIn", "values": ["disabled", "false", "off"],
    });
    let selector = &webhook["namespaceSelector"]["matchExpressions"];
    assert!(selector.as_array().unwrap().contains(&labels), "{selector}");
    let condition =
        webhook["matchConditions"].as_array().unwrap().iter().find(|c| c["name"] == "not-opted-out");
    let expression = condition.unwrap()["expression"].as_str().unwrap();
    let words = "object.metadata.annotations['plimsoll.dev/overcommit'] in ['disabled', 'false', 'off']";
    assert!(expression.contains(words), "{expression}");
}

#[test]
fn rights_are_listed_one_by_one() {
    for role in files().iter().flat_map(|file| documents(file)) {
        if !matches!(role["kind"].as_str(), Some("ClusterRole" | "Role")) || role["$patch"] == "delete" {
            continue;
        }
        for rule in role["rules"].as_array().unwrap() {
            // An autoscaler may name a kind of any group; its scale is read and nothing else.
            let is_scale = rule["resources"] == json!(["*/scale"]) && rule["verbs"] == json!(["get"]);
            for part in ["verbs", "resources", "apiGroups"] {
                let list = rule[part].as_array().unwrap_or_else(|| panic!("no {part} in {rule}"));
                assert!(!list.is_empty(), "{part} in {rule}");
                let any_group = part == "apiGroups" && is_scale;
                assert!(any_group || !list.contains(&json!("*")), "{part} in {rule}");
            }
            let secrets = rule["resources"].as_array().unwrap().contains(&json!("secrets"));
            assert!(!secrets, "Secrets are mounted, never read through the API: {rule}");
        }
    }
}

/// What the code calls is what the manifests grant, in both directions.
#[test]
fn rights_are_those_in_use() {
    let right = |group: &str, resource: &str, verb: &str| [group, resource, verb].map(str::to_owned);
    let mut used = BTreeSet::from([
        // A namespace that the snapshot does not hold yet.
        right("", "namespaces", "get"),
        // What the server thinks of a profile; an event repeated is an event patched.
        right("plimsoll.dev", "overcommitprofiles/status", "patch"),
        right("events.k8s.io", "events", "create"),
        right("events.k8s.io", "events", "patch"),
    ]);
    for kind in WATCHED.iter().filter(|kind| matches!(kind.part, Part::Always | Part::Hpa)) {
        let group = kind.api_version.split_once('/').map_or("", |(group, _)| group);
        used.extend(["list", "watch"].map(|verb| right(group, kind.plural, verb)));
    }
    // The recommender. Usage from metrics-server; recommendations and checkpoints are its own.
    for (group, resource, verbs) in [
        ("", "pods", &["list", "watch"][..]),
        ("metrics.k8s.io", "pods", &["list"]),
        ("plimsoll.dev", "recommendations", &["create", "delete", "list", "patch"]),
        ("plimsoll.dev", "recommendations/status", &["patch"]),
        ("plimsoll.dev", "usagecheckpoints", &["create", "delete", "get", "list", "update"]),
        // The keeper of autoscalers.
        ("autoscaling", "horizontalpodautoscalers", &["get", "list", "patch", "watch"]),
        ("*", "*/scale", &["get"]),
    ] {
        used.extend(verbs.iter().map(|verb| right(group, resource, verb)));
    }
    let mut granted = BTreeSet::new();
    for rule in base("ClusterRole").iter().flat_map(|role| role["rules"].as_array().unwrap()) {
        let texts = |part: &str| rule[part].as_array().unwrap().iter().map(|text| text.as_str().unwrap());
        for group in texts("apiGroups") {
            for resource in texts("resources") {
                granted.extend(texts("verbs").map(|verb| right(group, resource, verb)));
            }
        }
    }
    assert_eq!(granted, used);

    let roles = base("Role");
    let names: Vec<_> = roles.iter().map(|role| role["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["plimsoll-recommender", "plimsoll-hpa"]);
    let leases = json!([{
        "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"],
    }]);
    for role in roles {
        assert_eq!(role["metadata"]["namespace"], "plimsoll-system", "leases of our own namespace only");
        assert_eq!(role["rules"], leases);
    }
}

/// The objects of a kind in a component.
fn component(name: &str, kind: &str) -> Vec<Value> {
    let folder = root().join("webhook-config/components").join(name);
    let all = files().into_iter().filter(|file| file.starts_with(&folder)).flat_map(|file| documents(&file));
    let found: Vec<Value> = all.filter(|object| object["kind"] == kind).collect();
    assert!(!found.is_empty(), "no {kind} in {}", folder.display());
    found
}

/// Group, resource and verb of each right, where it is for some objects only with their names.
fn rights(role: &Value) -> BTreeSet<[String; 4]> {
    let mut rights = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        let texts = |part: &str| {
            rule[part].as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned())
        };
        let names = texts("resourceNames").collect::<Vec<_>>().join(",");
        for group in texts("apiGroups") {
            for resource in texts("resources") {
                rights.extend(
                    texts("verbs").map(|verb| [group.clone(), resource.clone(), verb, names.clone()]),
                );
            }
        }
    }
    rights
}

/// What quota calls is what its component grants, in both directions.
#[test]
fn rights_of_quota_are_those_in_use() {
    let webhooks = "plimsoll-quota";
    let used = [
        ("", "pods", &["get", "list", "watch"][..], ""),
        ("", "pods/eviction", &["create"], ""),
        ("", "replicationcontrollers", &["patch"], ""),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", &["get", "patch"], webhooks),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", &["get", "patch"], webhooks),
        ("apps", "daemonsets", &["patch"], ""),
        ("apps", "replicasets", &["patch"], ""),
        ("apps", "statefulsets", &["patch"], ""),
        ("batch", "jobs", &["patch"], ""),
        ("scheduling.sigs.k8s.io", "elasticquotatrees", &["get"], ""),
        ("scheduling.sigs.k8s.io", "elasticquotatrees/status", &["patch"], ""),
    ];
    let right = |group: &str, resource: &str, verb: &str, names: &str| {
        [group, resource, verb, names].map(str::to_owned)
    };
    let mut used: BTreeSet<_> = used
        .iter()
        .flat_map(|(group, resource, verbs, names)| {
            verbs.iter().map(move |verb| right(group, resource, verb, names))
        })
        .collect();
    for kind in WATCHED.iter().filter(|kind| matches!(kind.part, Part::Quota | Part::QuotaOrPlacement)) {
        used.extend(["list", "watch"].map(|verb| right(kind.group(), kind.plural, verb, "")));
    }
    assert_eq!(rights(&component("quota", "ClusterRole")[0]), used);
    let role = component("quota", "Role")[0].clone();
    assert_eq!(role["metadata"]["namespace"], "plimsoll-system");
    let leases = ["create", "get", "update"].map(|verb| right("coordination.k8s.io", "leases", verb, ""));
    let ledgers =
        ["create", "get", "list", "update"].map(|verb| right("plimsoll.dev", "quotaledgers", verb, ""));
    assert_eq!(rights(&role), leases.into_iter().chain(ledgers).collect());
}

#[test]
fn quota_webhooks_are_as_specified() {
    let validating = component("quota", "ValidatingWebhookConfiguration")[0].clone();
    let mutating = component("quota", "MutatingWebhookConfiguration")[0].clone();
    let names = |object: &Value| -> Vec<String> {
        let webhooks = object["webhooks"].as_array().unwrap();
        webhooks.iter().map(|webhook| webhook["name"].as_str().unwrap().to_owned()).collect()
    };
    let trees = ["trees.quota.plimsoll.dev", "stray-trees.quota.plimsoll.dev"].map(str::to_owned);
    assert_eq!(names(&validating), [&[webhooks::PODS_WEBHOOK.to_owned()], &trees[..]].concat());
    assert_eq!(names(&mutating), [webhooks::FLAVORS_WEBHOOK]);
    let (pods, tree, stray) =
        (&validating["webhooks"][0], &validating["webhooks"][1], &validating["webhooks"][2]);
    let flavors = &mutating["webhooks"][0];
    let nothing = webhooks::namespace_selector(&BTreeSet::new());
    let config = plimsoll::config::check_tree(Path::new("none"), serde_json::Map::new()).unwrap().config;
    for (rule, got, want) in [
        ("the name that is looked up", &validating["metadata"]["name"], json!(config.quota.webhook_name)),
        ("the name that is looked up", &mutating["metadata"]["name"], json!(config.quota.webhook_name)),
        ("a bound that holds", &pods["failurePolicy"], json!("Fail")),
        ("as configured", &pods["timeoutSeconds"], json!(config.quota.webhook_timeout.as_secs())),
        ("dry runs reserve nothing", &pods["sideEffects"], json!("NoneOnDryRun")),
        ("creation", &pods["rules"][0]["operations"], json!(["CREATE"])),
        ("of pods", &pods["rules"][0]["resources"], json!(["pods"])),
        ("and resizes", &pods["rules"][1]["resources"], json!(["pods/resize"])),
        ("nothing else: a label must always go", &pods["rules"][2], Value::Null),
        ("nothing is bound yet", &pods["namespaceSelector"], nothing.clone()),
        ("nothing is bound yet", &flavors["namespaceSelector"], nothing),
        ("pods start, or are refused by name", &flavors["failurePolicy"], json!("Ignore")),
        ("injected affinity comes again", &flavors["reinvocationPolicy"], json!("IfNeeded")),
        ("the tree that counts", &tree["failurePolicy"], json!("Fail")),
        ("not its status", &tree["rules"][0]["resources"], json!(["elasticquotatrees"])),
        ("nor without us", &tree["rules"][0]["operations"], json!(["CREATE", "UPDATE", "DELETE"])),
        (
            "in its namespace",
            &tree["namespaceSelector"]["matchExpressions"][0]["values"],
            json!(["kube-system"]),
        ),
        ("others are only warned about", &stray["failurePolicy"], json!("Ignore")),
    ] {
        assert_eq!(*got, want, "{rule}");
    }
}

/// Whether the way in which the component turns quota on is one that works.
#[test]
fn the_component_turns_quota_on() {
    let folder = root().join("webhook-config/components/quota");
    let patch = &documents(&folder.join("enable.yaml"))[0][0]["value"];
    let variable = plimsoll::config::environment_name("quota.enabled");
    assert_eq!(*patch, json!({"name": variable, "value": "true"}));
}

/// What placement calls is what its components grant; the leader's rights are apart.
#[test]
fn rights_of_placement_are_those_in_use() {
    let right = |group: &str, resource: &str, verb: &str| [group, resource, verb, ""].map(str::to_owned);
    let mut watched: BTreeSet<_> = WATCHED
        .iter()
        .filter(|kind| kind.part == Part::QuotaOrPlacement)
        .flat_map(|kind| ["list", "watch"].map(|verb| right(kind.group(), kind.plural, verb)))
        .collect();
    watched.extend([
        right("", "pods", "list"),
        right("", "pods", "watch"),
        right("metrics.k8s.io", "nodes", "list"),
        right("metrics.k8s.io", "pods", "list"),
        right("plimsoll.dev", "usagecheckpoints", "list"),
    ]);
    let labels = BTreeSet::from([right("", "nodes", "patch")]);
    let evictions = BTreeSet::from([
        right("", "pods/eviction", "create"),
        right("", "persistentvolumeclaims", "get"),
        right("", "persistentvolumes", "get"),
    ]);
    for (name, used) in [("placement", watched), ("load-class", labels), ("balance", evictions)] {
        assert_eq!(rights(&component(name, "ClusterRole")[0]), used, "{name}");
        for kind in ["ClusterRole", "ClusterRoleBinding"] {
            assert_eq!(component(name, kind)[0]["metadata"]["name"], format!("plimsoll-{name}"), "{name}");
        }
    }
    let leases = ["create", "get", "update"].map(|verb| right("coordination.k8s.io", "leases", verb));
    for name in ["load-class", "balance"] {
        let role = component(name, "Role")[0].clone();
        assert_eq!(role["metadata"]["namespace"], "plimsoll-system", "{name}");
        assert_eq!(rights(&role), leases.clone().into(), "{name}");
    }
}

/// The placement settings that these components make in this order: of one variable the last counts.
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
    let sources =
        plimsoll::config::Sources { environment: variables.into_iter().collect(), ..Default::default() };
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
    ] {
        let placement = placement_of(components);
        assert!(placement.enabled, "{rule}");
        assert_eq!(placement.address.is_some(), listens, "{rule}");
        assert_eq!(placement.client_ca.is_some(), listens, "{rule}");
        assert_eq!(placement.load_class.enabled, components.contains(&"load-class"), "{rule}");
        assert_eq!(placement.balance.enabled, components.contains(&"balance"), "{rule}");
        assert!(placement.balance.dry_run, "nothing is evicted as shipped");
    }
    let overlay = &documents(&root().join("webhook-config/overlays/placement/kustomization.yaml"))[0];
    assert_eq!(
        overlay["components"],
        json!(["../../components/placement", "../../components/extender"]),
        "in the order in which the extender's address counts"
    );
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

/// What the aggregated API server calls is what its components grant; each is complete without the other.
#[test]
fn rights_of_the_aggregated_api_are_those_in_use() {
    let right = |group: &str, resource: &str, verb: &str| [group, resource, verb, ""].map(str::to_owned);
    let used = BTreeSet::from([
        right("", "pods", "list"),
        right("", "pods", "watch"),
        right("authentication.k8s.io", "tokenreviews", "create"),
        right("authorization.k8s.io", "subjectaccessreviews", "create"),
        right("metrics.k8s.io", "nodes", "get"),
        right("metrics.k8s.io", "nodes", "list"),
        right("metrics.k8s.io", "pods", "get"),
        right("metrics.k8s.io", "pods", "list"),
    ]);
    for name in ["hpa-shim", "hpa-external"] {
        assert_eq!(rights(&component(name, "ClusterRole")[0]), used, "{name}");
        let binding = component(name, "RoleBinding")[0].clone();
        assert_eq!(binding["metadata"]["namespace"], "kube-system", "{name}");
        assert_eq!(binding["roleRef"]["name"], "extension-apiserver-authentication-reader", "{name}");
        for kind in ["ClusterRole", "ClusterRoleBinding", "RoleBinding", "NetworkPolicy"] {
            assert_eq!(component(name, kind)[0]["metadata"]["name"], format!("plimsoll-{name}"), "{name}");
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

#[test]
fn the_configuration_is_valid() {
    let text = base("ConfigMap")[0]["data"]["config.yaml"].as_str().unwrap().to_owned();
    let tree: Value = serde_saphyr::from_str(&text).unwrap();
    let tree = tree.as_object().unwrap().clone();
    let config = plimsoll::config::check_tree(Path::new("config.yaml"), tree).unwrap().config;
    assert!(config.recommender.runs(false), "the shipped server recommends");
    assert!(config.api.address.is_some());
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
    for (volume, path) in [("tls", "/etc/plimsoll/tls/"), ("config", "/etc/plimsoll/config/")] {
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

#[cfg(feature = "e2e")]
mod snapshots {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::root;

    /// kubectl of the control plane, else the one in PATH.
    fn kubectl() -> String {
        let script = root().join("tests/e2e/controlplane/build.sh");
        let output = Command::new("bash").arg(script).arg("--dir").output().unwrap();
        let built = Path::new(String::from_utf8(output.stdout).unwrap().trim()).join("kubectl");
        if built.exists() { built.display().to_string() } else { "kubectl".into() }
    }

    fn compare(folder: &str, name: &str) {
        let output =
            Command::new(kubectl()).arg("kustomize").arg(root().join(folder)).output().unwrap_or_else(
                |error| {
                    panic!("kubectl: {error}; build it with tests/e2e/controlplane/build.sh or install it")
                },
            );
        assert!(output.status.success(), "{folder}: {}", String::from_utf8_lossy(&output.stderr));
        // The CRDs are a generated file that stands beside the base already.
        let rendered = String::from_utf8(output.stdout).unwrap();
        let kept = |document: &&str| !document.contains("\nkind: CustomResourceDefinition\n");
        let got = rendered.split("---\n").filter(kept).collect::<Vec<_>>().join("---\n");
        let file = root().join("tests/fixtures/kustomize").join(format!("{name}.yaml"));
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            fs::write(&file, &got).unwrap();
        }
        let want = fs::read_to_string(&file).unwrap_or_default();
        let line = got.lines().zip(want.lines()).position(|(got, want)| got != want);
        let line = line.unwrap_or_else(|| got.lines().count().min(want.lines().count()));
        assert!(
            got == want,
            "{folder} differs from {} in line {}:\n  rendered: {:?}\n  snapshot: {:?}\nif that is meant, run again \
             with UPDATE_SNAPSHOTS=1 and commit the file",
            file.display(),
            line + 1,
            got.lines().nth(line),
            want.lines().nth(line),
        );
    }

    #[test]
    fn base() {
        compare("webhook-config/base", "base");
    }

    #[test]
    fn cert_manager() {
        compare("webhook-config/overlays/cert-manager", "cert-manager");
    }

    #[test]
    fn fail_closed() {
        compare("webhook-config/overlays/fail-closed", "fail-closed");
    }

    #[test]
    fn enforce() {
        compare("tests/fixtures/kustomize/enforce", "enforce");
    }

    #[test]
    fn hpa_off() {
        compare("tests/fixtures/kustomize/hpa-off", "hpa-off");
    }

    #[test]
    fn aggregated_api() {
        compare("tests/fixtures/kustomize/hpa-shim", "hpa-shim");
    }

    #[test]
    fn placement_with_all_of_it() {
        compare("tests/fixtures/kustomize/placement", "placement");
    }

    #[test]
    fn placement_without_a_scheduler() {
        compare("tests/fixtures/kustomize/load-class", "load-class");
    }

    #[test]
    fn quota_and_cert_manager() {
        compare("tests/fixtures/kustomize/quota", "quota");
    }

    #[test]
    fn profiles() {
        compare("webhook-config/profiles", "profiles");
    }
}
