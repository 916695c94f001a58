//! What must hold for every pod and every tree of flavors.

use std::collections::BTreeMap;

use plimsoll_core::pod::Json;
use plimsoll_core::quota::flavor::{Placement, check, inject};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::support::{Flavors, REQUIRED, fits, flavor, patched, tree};

const KEYS: [&str; 3] = ["k", "l", "m"];
const VALUES: [&str; 3] = ["1", "2", "x"];
const NAMES: [&str; 4] = ["f0", "f1", "f2", "f3"];

const OPERATORS: [&str; 8] = ["In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];

fn labels() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    vec((select(&KEYS[..]), select(&VALUES[..])), 0..3)
}

/// Four flavors; some have no labels, some are alike.
fn all_flavors() -> impl Strategy<Value = Flavors> {
    vec(labels(), NAMES.len())
        .prop_map(|all| NAMES.iter().zip(all).map(|(name, labels)| flavor(name, &labels)).collect())
}

fn level() -> impl Strategy<Value = String> {
    subsequence(NAMES.to_vec(), 0..=NAMES.len()).prop_shuffle().prop_map(|names| names.join(","))
}

fn expression() -> impl Strategy<Value = Value> {
    (select(&KEYS[..]), select(&OPERATORS[..]), subsequence(VALUES.to_vec(), 1..=2)).prop_map(
        |(key, operator, values)| {
            let values = match operator {
                "In" | "NotIn" => json!(values),
                "Gt" | "Lt" => json!([if values.contains(&"1") { "1" } else { "2" }]),
                _ => json!([]),
            };
            json!({"key": key, "operator": operator, "values": values})
        },
    )
}

fn term() -> impl Strategy<Value = Value> {
    let field = select(&["n1", "n2"][..])
        .prop_map(|name| json!([{"key": "metadata.name", "operator": "In", "values": [name]}]));
    (weighted(0.8, vec(expression(), 0..4)), weighted(0.2, field)).prop_map(|(expressions, fields)| {
        let mut term = json!({});
        if let Some(expressions) = expressions {
            term["matchExpressions"] = json!(expressions);
        }
        if let Some(fields) = fields {
            term["matchFields"] = fields;
        }
        term
    })
}

fn pods() -> impl Strategy<Value = Value> {
    let selector = vec((select(&KEYS[..]), select(&VALUES[..])), 0..2)
        .prop_map(|labels| labels.into_iter().collect::<BTreeMap<_, _>>());
    (weighted(0.7, vec(term(), 0..4)), weighted(0.3, selector)).prop_map(|(terms, selector)| {
        let mut spec = json!({"containers": [], "affinity": {"podAffinity": {"a": 1}}});
        if let Some(terms) = terms {
            spec["affinity"]["nodeAffinity"] = json!({
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
                REQUIRED: {"nodeSelectorTerms": terms},
            });
        }
        if let Some(selector) = selector {
            spec["nodeSelector"] = json!(selector);
        }
        json!({"metadata": {"name": "p"}, "spec": spec})
    })
}

/// Every node that can be made of the keys and values.
fn nodes() -> Vec<BTreeMap<String, String>> {
    let mut nodes = vec![BTreeMap::new()];
    for key in KEYS {
        let more: Vec<_> = nodes
            .iter()
            .flat_map(|node| {
                VALUES.iter().map(move |value| {
                    let mut node = node.clone();
                    node.insert(key.to_owned(), (*value).to_owned());
                    node
                })
            })
            .collect();
        nodes.extend(more);
    }
    nodes
}

/// Whether a node has, for each level that names flavors, the labels of one of them.
fn allowed(levels: &[String; 3], flavors: &Flavors, node: &BTreeMap<String, String>) -> bool {
    levels.iter().filter(|level| !level.is_empty()).all(|level| {
        level.split(',').any(|name| {
            let mut labels = flavors[name].labels.iter();
            labels.all(|(key, value)| node.get(key.as_ref()).map(String::as_str) == Some(value.as_ref()))
        })
    })
}

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_placed_pod_fits_where_it_did_and_the_flavors_allow(
        pod in pods(), flavors in all_flavors(), one in level(), two in level(), three in level(),
    ) {
        let levels = [one, two, three];
        let (tree, leaf) = tree([&levels[0], &levels[1], &levels[2]]);
        let lookup = |name: &str| flavors.get(name).cloned();
        let nodes = nodes();
        let placement = match Placement::of(&tree, leaf, lookup) {
            Ok(placement) => placement,
            Err(refusal) => {
                // Only because there is no such node at all.
                let any = nodes.iter().any(|node| allowed(&levels, &flavors, node));
                prop_assert!(!any, "{refusal}");
                return Ok(());
            }
        };
        let Some(placement) = placement else {
            prop_assert!(nodes.iter().all(|node| allowed(&levels, &flavors, node)));
            return Ok(());
        };
        let injection = match inject(&Json::borrowed(&pod), &placement) {
            Ok(injection) => injection,
            Err(refusal) => {
                let any = nodes.iter().any(|node| fits(&pod, node) && allowed(&levels, &flavors, node));
                prop_assert!(!any, "{refusal}: {pod:#}");
                return Ok(());
            }
        };
        let after = patched(&pod, &injection);
        for node in &nodes {
            let before = fits(&pod, node) && allowed(&levels, &flavors, node);
            prop_assert_eq!(fits(&after, node), before, "{:?}: {:#} became {:#}", node, pod, after);
        }
        let again = inject(&Json::borrowed(&after), &placement).unwrap();
        prop_assert_eq!(&again.set, &vec![], "our own result needs nothing: {:#}", after);
        prop_assert_eq!(&again.warnings, &injection.warnings);
        let checked = check(&Json::borrowed(&after), &tree, leaf, lookup);
        prop_assert_eq!(checked, Ok(injection.warnings), "{:#}", after);
    }

    #[test]
    fn what_passes_the_check_runs_only_where_the_flavors_allow(
        pod in pods(), flavors in all_flavors(), one in level(), two in level(),
    ) {
        let levels = [one, two, String::new()];
        let (tree, leaf) = tree([&levels[0], &levels[1], ""]);
        if check(&Json::borrowed(&pod), &tree, leaf, |name| flavors.get(name).cloned()).is_ok() {
            for node in nodes().iter().filter(|node| fits(&pod, node)) {
                prop_assert!(allowed(&levels, &flavors, node), "{node:?}: {pod:#}");
            }
        }
    }

    #[test]
    fn any_json_is_read_without_panic(text in r#"[\[\]{}":,a-z0-9]{0,40}"#, depth in 0_usize..6) {
        let odd: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        let path = ["spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"];
        let mut pod = odd.clone();
        for key in path.iter().take(depth).rev() {
            pod = json!({*key: pod, "nodeSelector": odd});
        }
        let (tree, leaf) = tree(["f", "", ""]);
        let spot = flavor("f", &[("k", "1")]).1;
        let placement = Placement::of(&tree, leaf, |_| Some(spot.clone())).unwrap().unwrap();
        if let Ok(injection) = inject(&Json::borrowed(&pod), &placement) {
            let after = patched(&pod, &injection);
            prop_assert_eq!(inject(&Json::borrowed(&after), &placement).unwrap().set, vec![]);
            prop_assert!(placement.check(&Json::borrowed(&after)).is_ok(), "{:#}", after);
        }
    }
}
