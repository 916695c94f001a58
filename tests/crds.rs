//! The CRDs that ship are those of the code, and say the same as the checks in core.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

use std::collections::BTreeSet;
use std::path::Path;

use plimsoll::crd::{self, OvercommitProfileSpec};
use plimsoll::input;
use plimsoll_core::profile::{self, SPEC_FIELDS};
use plimsoll_core::usage::{Checkpoint, HistogramCheckpoint, VERSION};
use regex::Regex;
use serde_json::{Map, Value, json};

const SHIPPED: &str = "webhook-config/base/crds.yaml";

fn schema(kind: &str) -> Value {
    let definitions = crd::definitions().unwrap();
    let definition =
        definitions.into_iter().find(|definition| definition["spec"]["names"]["kind"] == kind).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

fn at<'a>(schema: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(schema, |schema, part| &schema["properties"][part])
}

#[test]
fn the_shipped_file_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SHIPPED);
    let text = crd::yaml().unwrap();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let shipped = std::fs::read_to_string(&path).unwrap();
    assert!(shipped == text, "{SHIPPED} is out of date; run `UPDATE=1 cargo test --test crds`");
    let documents = input::parse_manifests(text.as_bytes(), SHIPPED).unwrap();
    let values: Vec<_> = documents.into_iter().map(|document| document.value).collect();
    assert_eq!(values, crd::definitions().unwrap(), "the YAML reads back as what was written");
}

#[test]
fn the_flavor_of_clusters_without_kueue_is_a_file_of_its_own() {
    let file = "webhook-config/components/resourceflavor-crd/crd.yaml";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = crd::resource_flavor_yaml().unwrap();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let shipped = std::fs::read_to_string(&path).unwrap();
    assert!(shipped == text, "{file} is out of date; run `UPDATE=1 cargo test --test crds`");
    let flavor = crd::resource_flavor();
    assert_eq!(flavor["spec"]["scope"], "Cluster");
    let versions = flavor["spec"]["versions"].as_array().unwrap();
    let named: Vec<(&str, bool)> = versions
        .iter()
        .map(|version| (version["name"].as_str().unwrap(), version["storage"].as_bool().unwrap()))
        .collect();
    assert_eq!(named, [("v1beta1", false), ("v1beta2", true)]);
    let spec = at(&versions[1]["schema"]["openAPIV3Schema"], "spec")["properties"].as_object().unwrap();
    let fields: Vec<&str> = spec.keys().map(String::as_str).collect();
    assert_eq!(fields, ["nodeLabels", "nodeTaints", "tolerations", "topologyName"]);
}

/// What a tree may say is for the webhook to judge: a closed schema would drop a field before anybody sees it.
#[test]
fn the_schema_of_quota_trees_is_open() {
    fn check(node: &Value, levels: usize) -> usize {
        assert_eq!(node["x-kubernetes-preserve-unknown-fields"], true, "level {levels}");
        assert_eq!(node["type"], "object", "level {levels}");
        if node.get("properties").is_none() {
            return levels;
        }
        for amounts in ["min", "max"] {
            let open = &node["properties"][amounts]["additionalProperties"];
            assert_eq!(*open, json!({"x-kubernetes-preserve-unknown-fields": true}), "level {levels}");
        }
        for field in ["name", "namespaces", "min", "max", "attributes", "children"] {
            assert_eq!(node["properties"][field]["nullable"], true, "{field} at level {levels}");
        }
        check(&node["properties"]["children"]["items"], levels + 1)
    }
    let schema = schema("ElasticQuotaTree");
    assert_eq!(check(at(&schema, "spec.root"), 0), 8);
    assert_eq!(check(at(&schema, "status.root"), 0), 8);
    for field in ["used", "request"] {
        assert_eq!(at(&schema, &format!("status.root.{field}"))["type"], "object");
    }
    let definitions = crd::definitions().unwrap();
    let tree = definitions.last().unwrap();
    assert_eq!(tree["metadata"]["name"], "elasticquotatrees.scheduling.sigs.k8s.io");
    let approved = tree["metadata"]["annotations"]["api-approved.kubernetes.io"].as_str().unwrap();
    assert!(approved.starts_with("unapproved"), "an API server refuses the group without it");
    assert!(tree.to_string().len() < 16_000, "{}", tree.to_string().len());
}

#[test]
fn the_schema_has_the_fields_that_core_reads() {
    let schema = schema("OvercommitProfile");
    for (path, fields) in SPEC_FIELDS {
        let properties: BTreeSet<&str> =
            at(&schema, path)["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(properties, fields.iter().copied().collect(), "{path}");
    }
}

#[test]
fn names_scopes_and_columns() {
    let definitions = crd::definitions().unwrap();
    let columns = |definition: &Value| -> Vec<String> {
        let version = &definition["spec"]["versions"][0];
        let columns = version["additionalPrinterColumns"].as_array().unwrap();
        columns.iter().map(|column| column["name"].as_str().unwrap().to_owned()).collect()
    };
    let [profile, recommendation, checkpoint, ledger, tree] = &definitions[..] else { panic!("five kinds") };
    assert_eq!(tree["spec"]["scope"], "Namespaced");
    assert_eq!(tree["spec"]["names"]["shortNames"], json!(["eqtree"]));
    assert_eq!(
        columns(tree),
        ["CPU", "Borrowed-CPU", "Max-CPU", "Memory", "Borrowed-Memory", "Max-Memory", "Ready", "Age"]
    );
    let has_status = |definition: &Value| {
        definition["spec"]["versions"][0]["subresources"].get("status") == Some(&json!({}))
    };
    assert!(
        has_status(profile) && has_status(recommendation) && !has_status(checkpoint) && !has_status(ledger)
    );
    assert_eq!(profile["metadata"]["name"], "overcommitprofiles.plimsoll.dev");
    assert_eq!(profile["spec"]["scope"], "Cluster");
    assert_eq!(profile["spec"]["names"]["shortNames"], json!(["ocp"]));
    assert_eq!(columns(profile), ["Priority", "Mode", "Apply", "Basis", "Valid", "Age"]);
    assert_eq!(recommendation["metadata"]["name"], "recommendations.plimsoll.dev");
    assert_eq!(recommendation["spec"]["scope"], "Namespaced");
    assert_eq!(recommendation["spec"]["names"]["shortNames"], json!(["rec"]));
    assert_eq!(
        columns(recommendation).join(" "),
        "Kind Workload Pod Profile CPU Memory Effective-CPU Effective-Memory Ready Reason Last-Sample Age"
    );
    assert_eq!(checkpoint["metadata"]["name"], "usagecheckpoints.plimsoll.dev");
    assert_eq!(checkpoint["spec"]["scope"], "Namespaced");
    assert_eq!(checkpoint["spec"]["names"]["shortNames"], json!(["ucp"]));
    assert_eq!(columns(checkpoint), ["Kind", "Target", "Containers", "Last-Sample", "Age"]);
    assert_eq!(ledger["metadata"]["name"], "quotaledgers.plimsoll.dev");
    assert_eq!(ledger["spec"]["scope"], "Namespaced");
    assert_eq!(ledger["spec"]["names"]["shortNames"], json!(["ql"]));
    assert_eq!(columns(ledger).join(" "), "Tree Initialised Pods Reservations Claims Epoch Age");
}

/// The defaults that the API server fills in are those that hold without it; only what `kubectl get` shows has one, so
/// that no cell is empty.
#[test]
fn what_kubectl_shows_has_its_default_in_the_schema() {
    fn defaults(path: &str, schema: &Value, found: &mut Map<String, Value>) {
        if let Some(default) = schema.get("default") {
            found.insert(path.to_owned(), default.clone());
        }
        for (name, property) in schema["properties"].as_object().unwrap_or(&Map::new()) {
            defaults(&format!("{path}.{name}"), property, found);
        }
        for part in ["items", "additionalProperties"] {
            if let Some(part) = schema.get(part) {
                defaults(&format!("{path}[]"), part, found);
            }
        }
    }
    let mut found = Map::new();
    defaults("", &schema("OvercommitProfile"), &mut found);
    assert_eq!(
        Value::Object(found),
        json!({".spec.apply": true, ".spec.basis": "Request", ".spec.mode": "Off", ".spec.priority": 0})
    );
    let mut found = Map::new();
    defaults("", &schema("Recommendation"), &mut found);
    defaults("", &schema("QuotaLedger"), &mut found);
    assert_eq!(found, Map::new());

    let filled = json!({"apply": true, "basis": "Request", "mode": "Off", "priority": 0});
    assert_eq!(profile::from_spec("same", &filled), profile::from_spec("same", &json!({})));
}

/// What the API server refuses in a structural schema, or cannot bound the cost of.
#[test]
fn schemas_are_structural_and_bounded() {
    fn check(path: &str, schema: &Value) {
        let has = |key: &str| schema.get(key).is_some();
        for key in ["nullable", "anyOf", "oneOf", "$ref", "x-kubernetes-preserve-unknown-fields"] {
            assert!(!has(key), "{path}: {key}");
        }
        let described = has("description") || path.ends_with("[]") || path.ends_with("{}");
        assert!(described, "{path}: no description");
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => {
                assert!(has("enum") || has("maxLength") || has("format"), "{path}: unbounded text");
            }
            Some("array") => {
                assert!(has("maxItems"), "{path}: unbounded list");
                check(&format!("{path}[]"), &schema["items"]);
            }
            Some("object") => {
                if let Some(value) = schema.get("additionalProperties") {
                    assert!(has("maxProperties"), "{path}: unbounded map");
                    check(&format!("{path}{{}}"), value);
                }
                for (name, property) in schema["properties"].as_object().unwrap_or(&Map::new()) {
                    check(&format!("{path}.{name}"), property);
                }
            }
            Some("integer" | "boolean") => {}
            None => assert_eq!(schema["x-kubernetes-int-or-string"], true, "{path}: no type"),
            other => panic!("{path}: {other:?}"),
        }
    }
    for kind in ["OvercommitProfile", "Recommendation", "UsageCheckpoint"] {
        let schema = schema(kind);
        for part in ["spec", "status"] {
            if let Some(schema) = schema["properties"].get(part) {
                check(part, schema);
            }
        }
    }
}

/// Texts that are tried wherever the schema takes text; those it refuses are left out.
const TEXTS: [&str; 34] = [
    "",
    "0",
    "0.0",
    "0.000000000000000001",
    "0.5",
    "00.50",
    "1",
    "1.0",
    "1.15",
    "999.999",
    "1000",
    "1001",
    "Request",
    "a",
    "a.b_c-d",
    "Z9",
    "shared",
    "plimsoll.dev/pool",
    "a.b/C",
    "Deployment",
    "X",
    "0s",
    "1s",
    "007m",
    "24h",
    "99999d",
    "+1",
    ".5",
    "5.",
    "100m",
    "1Mi",
    "2E",
    "1e3",
    "12e-2",
];

/// Values that the schema allows.
fn samples(schema: &Value) -> Vec<Value> {
    let limit = |key: &str| schema.get(key).and_then(Value::as_i64);
    let found: Vec<Value> = match schema.get("type").and_then(Value::as_str) {
        Some("boolean") => vec![json!(true), json!(false)],
        Some("integer") => {
            let (least, most) =
                (limit("minimum").unwrap_or(i32::MIN.into()), limit("maximum").unwrap_or(i32::MAX.into()));
            vec![json!(least), json!(most)]
        }
        Some("string") => texts(schema),
        Some("array") => lists(schema),
        Some("object") => objects(schema),
        _ => {
            let least = limit("minimum").unwrap();
            texts(schema).into_iter().chain([json!(least), json!(1_048_576)]).collect()
        }
    };
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    found
        .into_iter()
        .filter(|value| rules.into_iter().flatten().all(|rule| holds(&rule["rule"], value)))
        .collect()
}

fn texts(schema: &Value) -> Vec<Value> {
    if let Some(words) = schema.get("enum") {
        return words.as_array().unwrap().clone();
    }
    let pattern = Regex::new(schema["pattern"].as_str().unwrap()).unwrap();
    let longest = usize::try_from(schema["maxLength"].as_u64().unwrap()).unwrap();
    let long = ["a".repeat(longest), "9".repeat(longest), "1".repeat(18)];
    TEXTS
        .iter()
        .map(|text| (*text).to_owned())
        .chain(long)
        .filter(|text| text.len() <= longest && pattern.is_match(text))
        .map(Value::String)
        .collect()
}

fn lists(schema: &Value) -> Vec<Value> {
    let items = samples(&schema["items"]);
    assert!(!items.is_empty());
    let mut lists = vec![json!([])];
    lists.extend(items.iter().map(|item| json!([item])));
    let most = usize::try_from(schema["maxItems"].as_u64().unwrap()).unwrap();
    lists.push(json!(items.iter().take(most).collect::<Vec<_>>()));
    lists
}

/// Objects with none, each and all of their fields, with each value of each field.
fn objects(schema: &Value) -> Vec<Value> {
    let fields: Vec<(String, Vec<Value>)> = match schema.get("properties").and_then(Value::as_object) {
        Some(properties) => {
            properties.iter().map(|(name, property)| (name.clone(), samples(property))).collect()
        }
        None => keys(schema).into_iter().map(|key| (key, samples(&schema["additionalProperties"]))).collect(),
    };
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let needed: Map<String, Value> = fields
        .iter()
        .filter(|(name, _)| required.contains(&name.as_str()))
        .map(|(name, values)| (name.clone(), values[0].clone()))
        .collect();
    let mut objects = vec![Value::Object(needed.clone())];
    let mut all = needed.clone();
    for (name, values) in fields {
        assert!(!values.is_empty(), "no value is tried for {name}");
        for value in &values {
            let mut object = needed.clone();
            object.insert(name.clone(), value.clone());
            objects.push(Value::Object(object));
        }
        all.insert(name, values.last().unwrap().clone());
    }
    objects.push(Value::Object(all));
    objects
}

/// The keys that a map may have.
fn keys(schema: &Value) -> Vec<String> {
    let Some(rules) = schema.get("x-kubernetes-validations") else {
        return vec!["app".to_owned(), "plimsoll.dev/pool".to_owned()];
    };
    let rule = rules[0]["rule"].as_str().unwrap();
    let list = rule.strip_prefix("self.all(key, key in [").and_then(|rest| rest.strip_suffix("])")).unwrap();
    list.split(", ").map(|word| word.trim_matches('\'').to_owned()).collect()
}

/// The rules, by hand: a rule that is not known here fails the test that meets it.
fn holds(rule: &Value, value: &Value) -> bool {
    let number = || value.as_str().unwrap().parse::<f64>().unwrap();
    let operator = || matches!(value["operator"].as_str(), Some("In" | "NotIn"));
    let given = || value.get("values").and_then(Value::as_array).is_some_and(|values| !values.is_empty());
    match rule.as_str().unwrap() {
        "double(self) > 0.0 && double(self) <= 1.0" => number() > 0.0 && number() <= 1.0,
        "double(self) > 0.0 && double(self) <= 1000.0" => number() > 0.0 && number() <= 1000.0,
        "self == 'Request' || (double(self) > 0.0 && double(self) <= 1000.0)" => {
            value == "Request" || (number() > 0.0 && number() <= 1000.0)
        }
        "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)" => {
            !operator() || given()
        }
        "self.operator in ['In', 'NotIn'] || !has(self.values) || size(self.values) == 0" => {
            operator() || !given()
        }
        // The keys come from this very rule.
        rule if rule.starts_with("self.all(key, key in [") => true,
        other => panic!("an unknown rule: {other}"),
    }
}

#[test]
fn core_accepts_what_the_schema_allows() {
    let schema = schema("OvercommitProfile");
    let specs = samples(&schema["properties"]["spec"]);
    assert!(specs.len() > 200, "only {}", specs.len());
    for spec in specs {
        let checked = profile::from_spec("sample", &spec);
        assert!(checked.is_ok(), "{spec}: {checked:?}");
        let typed: OvercommitProfileSpec = serde_json::from_value(spec.clone()).unwrap();
        assert_eq!(serde_json::to_value(typed).unwrap(), spec, "the types hold all of it");
    }
}

/// What passes `plimsoll validate` should not fail `kubectl apply`.
#[test]
fn the_schema_allows_what_core_accepts() {
    let schema = schema("OvercommitProfile");
    let spec = &schema["properties"]["spec"]["properties"];
    let fixed = &spec["static"]["properties"];
    let rounding = Regex::new(fixed["roundingMemory"]["pattern"].as_str().unwrap()).unwrap();
    for amount in ["1", "64Mi", "1Ti", "1T", "999999999Pi", "1Ei", "999999999999999999Gi"] {
        let spec = json!({"static": {"roundingMemory": amount}});
        assert!(profile::from_spec("sample", &spec).is_ok(), "{amount}");
        assert!(rounding.is_match(amount), "{amount}");
    }
    let values = &spec["match"]["properties"]["podSelector"]["properties"]["matchExpressions"]["items"]["properties"]
        ["values"];
    assert_eq!(values["x-kubernetes-list-type"], "atomic", "a value may be given twice");
    let twice = json!({"key": "a", "operator": "In", "values": ["b", "b"]});
    let spec = json!({"match": {"podSelector": {"matchExpressions": [twice]}}});
    assert!(profile::from_spec("sample", &spec).is_ok());
}

#[test]
fn recommendations_that_the_schema_allows_are_read() {
    let schema = schema("Recommendation");
    let figures = &schema["properties"]["status"]["properties"]["containers"]["items"]["properties"]["cpu"];
    for figures in samples(figures) {
        let manifest = json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "Recommendation",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "profile": "shared"},
            "status": {"containers": [{
                "name": "app", "cpu": figures, "samples": 1440,
                "firstSample": "2026-03-01T10:00:00Z", "lastSample": "2026-03-02T10:00:00Z",
            }]},
        });
        let read = plimsoll_core::objects::read_manifest(&manifest);
        assert!(read.is_ok(), "{manifest}: {read:?}");
        let typed: crd::Recommendation = serde_json::from_value(manifest.clone()).unwrap();
        assert_eq!(serde_json::to_value(typed).unwrap(), manifest, "the types hold all of it");
    }
}

#[test]
fn shipped_profiles_are_valid_and_have_only_known_fields() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for folder in ["webhook-config/profiles", "examples/standalone"] {
        for document in input::read_manifests(&root.join(folder)).unwrap() {
            if document.value["kind"] != "OvercommitProfile" {
                continue;
            }
            seen += 1;
            let checked = profile::from_manifest(&document.value);
            assert!(checked.is_ok(), "{}: {checked:?}", document.origin);
            let typed: OvercommitProfileSpec =
                serde_json::from_value(document.value["spec"].clone()).unwrap();
            assert_eq!(serde_json::to_value(typed).unwrap(), document.value["spec"], "{}", document.origin);
        }
    }
    assert_eq!(seen, 3);
}

/// The API server drops what the schema does not know: a field that is missing here would be lost without a word.
#[test]
fn the_schema_has_every_field_of_a_checkpoint() {
    let schema = schema("UsageCheckpoint");
    let container = &at(&schema, "spec.containers")["items"];
    let fields = |schema: &Value| -> BTreeSet<String> {
        schema["properties"].as_object().unwrap().keys().cloned().collect()
    };
    let histogram = HistogramCheckpoint { half_life_seconds: 1, ..HistogramCheckpoint::default() };
    let full = Checkpoint {
        version: VERSION,
        samples: 1,
        first_sample: Some(String::new()),
        last_sample: Some(String::new()),
        last_oom: Some(String::new()),
        cpu: Some(histogram.clone()),
        memory: Some(histogram),
    };
    let full = serde_json::to_value(full).unwrap();
    let keys = |value: &Value| -> BTreeSet<String> { value.as_object().unwrap().keys().cloned().collect() };
    let mut expected = keys(&full);
    expected.extend(["name".to_owned(), "pod".to_owned()]);
    assert_eq!(fields(container), expected);
    for resource in ["cpu", "memory"] {
        assert_eq!(fields(&container["properties"][resource]), keys(&full[resource]), "{resource}");
    }
}

/// However usage is spread, what is stored of a histogram fits.
#[test]
fn the_longest_checkpoint_fits_the_schema() {
    let schema = schema("UsageCheckpoint");
    let weights = &at(&schema, "spec.containers")["items"]["properties"]["cpu"]["properties"]["weights"];
    // Runs of one bucket each: `175:10000 `, but no bucket beside the next; or one run of all.
    let apart = (0..176).step_by(2).map(|bucket| format!("{bucket}:10000")).collect::<Vec<_>>().join(" ");
    let run = format!("0:{}", vec!["10000"; 176].join(","));
    let longest = u64::try_from(apart.len().max(run.len())).unwrap();
    assert!(weights["maxLength"].as_u64().unwrap() >= longest, "{longest}");
}
