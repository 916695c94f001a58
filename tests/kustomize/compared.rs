//! The chart has the objects of `webhook-config`: overlay by overlay, component by component.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::rendered::{chart, kustomize, notes, objects, with_components};
use crate::support::root;
use crate::{chart as files, rights};

const PROMETHEUS: &str = "prometheus: {address: 'http://prometheus.monitoring.svc:9090'}";

/// Labels by which Helm's users know what is whose.
const HELMS: [&str; 4] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
];

type Objects = BTreeMap<[String; 3], Value>;

/// Objects by what they are, without what only the one way of installing has.
fn known(objects: Vec<Value>) -> Objects {
    let key = |object: &Value| {
        let metadata = &object["metadata"];
        [&object["kind"], &metadata["namespace"], &metadata["name"]]
            .map(|text| text.as_str().unwrap_or_default().to_owned())
    };
    let kept = |object: &Value| {
        // Helm makes the namespace itself.
        object["kind"] != "Namespace" && object["metadata"]["annotations"]["helm.sh/hook"] == Value::Null
    };
    objects.into_iter().filter(kept).map(|object| (key(&object), plain(object))).collect()
}

/// Without labels that are Helm's own, and without order where none is meant.
fn plain(mut object: Value) -> Value {
    let is_definition = object["kind"] == "CustomResourceDefinition";
    if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
        labels.retain(|key, _| {
            !HELMS.contains(&key.as_str()) && (key != "app.kubernetes.io/name" || !is_definition)
        });
    }
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.retain(|_, value| *value != json!({}) && !value.is_null());
    if object["data"]["config.yaml"].is_string() {
        let text = object["data"]["config.yaml"].as_str().unwrap();
        object["data"] = serde_saphyr::from_str(text).unwrap();
    }
    if let Some(text) = object["data"]["plimsoll.json"].as_str() {
        object["data"] = serde_json::from_str(text).unwrap();
    }
    let by_name = |list: &mut Value| {
        if let Some(list) = list.as_array_mut() {
            list.sort_by_key(|entry| entry["name"].as_str().unwrap().to_owned());
        }
    };
    match object["kind"].as_str().unwrap() {
        "Deployment" => {
            let pod = &mut object["spec"]["template"]["spec"];
            by_name(&mut pod["volumes"]);
            for list in ["env", "ports", "volumeMounts"] {
                by_name(&mut pod["containers"][0][list]);
            }
        }
        "Service" => by_name(&mut object["spec"]["ports"]),
        _ => {}
    }
    object
}

fn same(rule: &str, kustomized: &str, values: &str) {
    let of_chart = chart(values).unwrap_or_else(|error| panic!("{rule}: {error}"));
    rights::check(&of_chart, rule);
    let (left, right) = (known(objects(kustomized)), known(of_chart));
    assert_eq!(
        left.keys().collect::<Vec<_>>(),
        right.keys().collect::<Vec<_>>(),
        "{rule}: webhook-config, and the chart"
    );
    for (key, left) in &left {
        let text = |object: &Value| serde_json::to_string_pretty(object).unwrap();
        let (left, right) = (text(left), text(&right[key]));
        let line = left.lines().zip(right.lines()).find(|(left, right)| left != right);
        assert!(left == right, "{rule}: {key:?} differs: webhook-config, and the chart: {line:?}");
    }
}

#[test]
fn overlays_are_the_values_of_their_name() {
    let names = |folder: &str| {
        let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<_> =
            entries.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let overlays = names("webhook-config/overlays");
    assert_eq!(overlays, names("chart/ci"), "each overlay has values");
    for name in overlays {
        let values = fs::read_to_string(root().join(format!("chart/ci/{name}.yaml"))).unwrap();
        same(&name, &kustomize(&format!("webhook-config/overlays/{name}")), &values);
    }
}

#[test]
fn components_are_values() {
    let on = |parts: &[&str]| {
        let parts =
            parts.iter().map(|part| format!("{part}: {{enabled: true}}\n")).collect::<Vec<_>>().concat();
        format!("{PROMETHEUS}\nplacement: {{enabled: true}}\n{parts}")
    };
    for (components, values) in [
        (&["certificate-files"][..], "certificates: {source: files}".to_owned()),
        (&["enforce"], "enforce: true".to_owned()),
        (&["hpa-off"], "hpa: {enabled: false}".to_owned()),
        (&["hpa-external"], "hpaExternal: {enabled: true}".to_owned()),
        (
            &["hpa-external", "hpa-shim", "cert-manager"],
            "{hpaExternal: {enabled: true}, hpaShim: {enabled: true}, certificates: {source: certManager}}"
                .to_owned(),
        ),
        (
            &["quota", "ha", "resourceflavor-crd"],
            "{quota: {enabled: true}, crds: {resourceFlavor: true}, replicas: 3, \
            podDisruptionBudget: {minAvailable: 2}, topologySpread: {nodes: DoNotSchedule}}"
                .to_owned(),
        ),
        (
            &["quota", "cert-manager"],
            "{quota: {enabled: true}, certificates: {source: certManager}}".to_owned(),
        ),
        (
            &["monitoring"],
            "monitoring: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}, grafanaDashboard: {enabled: true}}"
                .to_owned(),
        ),
        (&["placement"], on(&[])),
        (&["extender", "placement"], on(&["extender"])),
        (&["placement", "load-class"], on(&["loadClass"])),
        (&["placement", "balance"], on(&["balance"])),
        (&["placement", "extender", "load-class", "balance"], on(&["extender", "loadClass", "balance"])),
    ] {
        same(&components.join(" + "), &with_components(components), &values);
    }
}

/// A value that changes nothing is one that somebody sets in vain.
#[test]
fn every_value_changes_something() {
    // What a value needs before it can matter.
    let needs = |path: &str| match path {
        "certificates.secretName" => "certificates: {source: files}",
        "prometheus.address" => "recommender: {source: Prometheus}",
        "networkPolicy.prometheus.namespace" | "networkPolicy.prometheus.port" | "recommender.source" => {
            "{recommender: {source: Prometheus}, prometheus: {address: 'http://a:1'}}"
        }
        "podDisruptionBudget.minAvailable" => "replicas: 3",
        "metricsServer.namespace" => "hpaShim: {enabled: true}",
        "metricsServer.insecureSkipVerify" => {
            "{hpaShim: {enabled: true}, config: {hpa: {api: {upstreamCa: /ca.crt}}}}"
        }
        "placement.enabled" | "placement.source" | "extender.enabled" | "loadClass.enabled"
        | "balance.enabled" => "{placement: {enabled: true}, prometheus: {address: 'http://a:1'}}",
        "extender.clientCaConfigMap" => {
            "{placement: {enabled: true}, extender: {enabled: true}, prometheus: {address: 'http://a:1'}}"
        }
        path if path.starts_with("monitoring.serviceMonitor.") => {
            "monitoring: {serviceMonitor: {enabled: true}}"
        }
        path if path.starts_with("monitoring.prometheusRule.") => {
            "monitoring: {prometheusRule: {enabled: true}}"
        }
        path if path.starts_with("monitoring.grafanaDashboard.") => {
            "monitoring: {grafanaDashboard: {enabled: true}}"
        }
        _ => "{}",
    };
    let mut rendered = BTreeMap::new();
    for (path, default) in files::leaves() {
        let needed: Value = serde_saphyr::from_str(needs(&path)).unwrap();
        let pointer = format!("/{}", path.replace('.', "/"));
        let now = needed.pointer(&pointer).unwrap_or(&default).clone();
        let other = other(&path, &now);
        let mut changed = needed.clone();
        put(&mut changed, &path, other.clone());
        let mut unchanged = needed;
        if path == "prometheus.address" {
            put(&mut unchanged, &path, json!("http://b:2"));
        }
        let render =
            |values: &Value| chart(&values.to_string()).unwrap_or_else(|error| panic!("{path}: {error}"));
        let before = rendered.entry(unchanged.to_string()).or_insert_with(|| render(&unchanged));
        assert!(render(&changed) != *before, "{path}: {other} changes nothing");
    }
}

/// Another value that is allowed.
fn other(path: &str, now: &Value) -> Value {
    match (path, now) {
        ("image.digest", _) => json!(format!("sha256:{}", "0".repeat(64))),
        ("image.pullPolicy", _) => json!("Always"),
        ("certificates.source", _) => json!("files"),
        ("prometheus.address", _) => json!("http://a:1"),
        ("recommender.source" | "placement.source", _) => json!("MetricsServer"),
        ("topologySpread.nodes" | "topologySpread.zones", _) => json!("DoNotSchedule"),
        ("monitoring.serviceMonitor.interval", _) => json!("7s"),
        ("resources.limits", _) => json!({"cpu": "2"}),
        ("config", _) => json!({"log": {"level": "debug"}}),
        ("imagePullSecrets" | "extraEnv" | "extraVolumes", _) => json!([{"name": "other"}]),
        ("extraVolumeMounts", _) => json!([{"name": "other", "mountPath": "/other"}]),
        (_, Value::Bool(now)) => json!(!now),
        (_, Value::Number(now)) => json!(now.as_u64().unwrap() + 1),
        (_, Value::String(_)) => json!("1"),
        (_, Value::Array(_)) => json!([{"key": "other"}]),
        (_, _) => json!({"other": "other"}),
    }
}

fn put(values: &mut Value, path: &str, value: Value) {
    let mut place = values;
    for key in path.split('.') {
        place = &mut place[key];
    }
    *place = value;
}

#[test]
fn settings_are_merged_into_the_configuration() {
    let values =
        "config: {log: {level: debug}, server: {drainDelay: 20s}, hpa: {api: {upstream: 'https://a'}}}";
    let objects = known(chart(values).unwrap());
    let config = &objects[&["ConfigMap", "plimsoll-system", "plimsoll"].map(str::to_owned)]["data"];
    for (rule, pointer, want) in [
        ("replaced", "/log/level", json!("debug")),
        ("added", "/hpa/api/upstream", json!("https://a")),
        ("in a map that stays", "/server/address", json!("0.0.0.0:8443")),
        ("in it", "/server/drainDelay", json!("20s")),
    ] {
        assert_eq!(config.pointer(pointer), Some(&want), "{rule}: {config}");
    }
}

/// What was set right by whoever runs it must not be overwritten by an upgrade.
#[test]
fn what_the_program_writes_is_not_in_the_chart() {
    let values = format!(
        "{PROMETHEUS}\nquota: {{enabled: true}}\nhpaShim: {{enabled: true}}\nhpaExternal: {{enabled: true}}"
    );
    for object in chart(&values).unwrap() {
        assert!(!object.to_string().contains("caBundle"), "{object}");
        assert_ne!(object["kind"], "APIService", "an upgrade would take it from metrics-server, or back");
        if object["kind"] == "Secret" {
            assert_eq!((&object["data"], &object["stringData"]), (&Value::Null, &Value::Null), "{object}");
        }
    }
}

#[test]
fn definitions_stay_when_that_is_asked_for() {
    for (values, policy) in [("{}", Value::Null), ("crds: {keep: true}", json!("keep"))] {
        let objects = chart(values).unwrap();
        let definitions: Vec<_> =
            objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition").collect();
        assert_eq!(definitions.len(), 5, "{values}");
        for definition in definitions {
            assert_eq!(definition["metadata"]["annotations"]["helm.sh/resource-policy"], policy, "{values}");
        }
    }
    assert!(
        chart("crds: {install: false}")
            .unwrap()
            .iter()
            .all(|object| object["kind"] != "CustomResourceDefinition")
    );
}

#[test]
fn hooks_leave_nothing_but_what_failed() {
    let objects = chart("test: {namespace: shop}").unwrap();
    let hooks: Vec<_> = objects
        .iter()
        .filter(|object| !object["metadata"]["annotations"]["helm.sh/hook"].is_null())
        .collect();
    let run: Vec<_> =
        hooks.iter().filter(|hook| ["Job", "Pod"].contains(&hook["kind"].as_str().unwrap())).collect();
    assert_eq!(run.len(), 2, "uninstall and test");
    for hook in &hooks {
        let annotations = &hook["metadata"]["annotations"];
        let runs = run.contains(&hook);
        let name = hook["metadata"]["name"].as_str().unwrap();
        // What failed is kept for its log, but not the rights that it had.
        let policy = if name.ends_with("-uninstall") && !runs {
            "before-hook-creation,hook-succeeded,hook-failed"
        } else {
            "before-hook-creation,hook-succeeded"
        };
        assert_eq!(annotations["helm.sh/hook-delete-policy"], policy, "{hook}");
        assert_eq!(
            annotations["helm.sh/hook-weight"],
            if runs { "0" } else { "-1" },
            "rights come first: {hook}"
        );
    }
    let job = run.iter().find(|hook| hook["kind"] == "Job").unwrap();
    let pod = run.iter().find(|hook| hook["kind"] == "Pod").unwrap();
    for (rule, labels) in
        [("Job", &job["spec"]["template"]["metadata"]["labels"]), ("Pod", &pod["metadata"]["labels"])]
    {
        assert_ne!(
            labels["app.kubernetes.io/name"], "plimsoll",
            "{rule}: the Service would send requests there"
        );
    }
    assert!(chart("uninstall: {hook: false}").unwrap().iter().all(|object| object["kind"] != "Job"));
}

#[test]
fn notes_say_what_to_do_next() {
    let placement = format!("{PROMETHEUS}\nplacement: {{enabled: true}}");
    for (values, said, not_said) in [
        (
            "{}",
            &[
                "kind: OvercommitProfile",
                "mode: StaticThenDynamic",
                "top namespaces",
                "docs/kubectl-plugin.md",
                "--timeout of 270s or more",
                "recommender.source=Prometheus",
            ][..],
            "apiservice",
        ),
        (
            "recommender: {enabled: false}",
            &["mode: Static\n", "The recommender is off"],
            "recommender.source",
        ),
        (
            "certificates: {source: files}",
            &["create secret tls plimsoll-tls", "docs/certificates.md"],
            "cert-manager issues",
        ),
        ("certificates: {source: certManager}", &["get certificate plimsoll"], "create secret"),
        ("hpaShim: {enabled: true}", &["apiservice install metrics"], "apiservice install custom"),
        ("quota: {enabled: true}", &["ElasticQuotaTree", "replicas=3"], "One server"),
        ("{quota: {enabled: true}, replicas: 3}", &["ElasticQuotaTree"], "replicas=3"),
        ("replicas: 1", &["One server", "no PodDisruptionBudget"], "Quota"),
        (&placement, &["extender.enabled, loadClass.enabled or balance.enabled"], "dryRun"),
        ("crds: {install: false}", &["plimsoll manifests crds"], "apiservice"),
        ("uninstall: {hook: false}", &["plimsoll uninstall --namespace plimsoll-system"], "crds.keep"),
    ] {
        let notes = notes(values);
        for said in said {
            assert!(notes.contains(said), "{values}: {said:?} is not in {notes}");
        }
        assert!(!notes.contains(not_said), "{values}: {not_said:?} is in {notes}");
    }
}

#[test]
fn the_profile_of_the_notes_is_the_shipped_one() {
    let file = fs::read_to_string(root().join("webhook-config/profiles/shared-pool.yaml")).unwrap();
    let shipped: Value = serde_saphyr::from_str(&file).unwrap();
    let mut without_recommender = shipped.clone();
    without_recommender["spec"]["mode"] = json!("Static");
    without_recommender["spec"].as_object_mut().unwrap().remove("dynamic");
    for (values, want) in [("{}", shipped), ("recommender: {enabled: false}", without_recommender)] {
        let notes = notes(values);
        let (_, rest) = notes.split_once("<<'EOF'\n").unwrap();
        let (profile, _) = rest.split_once("\nEOF\n").expect("EOF where a shell sees it");
        assert_eq!(serde_saphyr::from_str::<Value>(profile).unwrap(), want, "{values}");
    }
}

#[test]
fn one_replica_has_no_budget() {
    for (replicas, budgets) in [(1, 0), (2, 1)] {
        let objects = chart(&format!("replicas: {replicas}")).unwrap();
        let found = objects.iter().filter(|object| object["kind"] == "PodDisruptionBudget").count();
        assert_eq!(found, budgets, "{replicas}");
    }
}

/// Else the Job is killed before the program can say what did not end.
#[test]
fn the_waits_of_uninstall_fit_into_its_job() {
    for seconds in [60, 270, 3600] {
        let objects = chart(&format!("uninstall: {{timeoutSeconds: {seconds}}}")).unwrap();
        let job = objects.iter().find(|object| object["kind"] == "Job").unwrap();
        assert_eq!(job["spec"]["activeDeadlineSeconds"], seconds);
        let args = job["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
        let of = |flag: &str| {
            let place = args.iter().position(|arg| arg == flag).unwrap();
            let text = args[place + 1].as_str().unwrap().strip_suffix('s').unwrap();
            text.parse::<u64>().unwrap()
        };
        let waits = of("--wait") + of("--timeout");
        assert!(waits <= seconds * 4 / 5 && waits * 2 > seconds, "{seconds}: {args:?}");
    }
}
