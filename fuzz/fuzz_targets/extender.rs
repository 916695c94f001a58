//! A scheduler's request in, answers out: never a panic; every name that is returned was sent, and none comes twice;
//! points are whole numbers 0 to 10; a node passes or is refused; whole nodes come back as they were sent.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use plimsoll_core::objects::Objects;
use plimsoll_core::placement::extender::{Wanted, filter_result, priorities, read};
use plimsoll_core::placement::{
    Incoming, LearntWeights, LoadFile, Placed, Policies, Settings, View, learn, refuse, score,
};
use plimsoll_core::pod::{Json, Pruned};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

struct World {
    objects: Objects,
    load: LoadFile,
    placed: Placed,
    weights: LearntWeights,
    settings: Settings,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let policies = Policies { load: 1.0, weights: 1.0, overcommit_risk: 1.0 };
    let settings = Settings { policies, ..Settings::default() };
    let file = json!({
        "nodes": {
            "n1": {"cpu": {"15m": 0.9, "1h": 0.7}, "memory": {"15m": 0.95}, "load": {"1d": 3}, "total": {"cpu": "8"}},
            "n2": {"cpu": {"1h": 0.1}, "memory": {"15m": 0.2}, "total": {"cpu": "4", "memory": "8Gi"}},
            "n3": {},
        },
        "usage": {"shop/StatefulSet/web": [{"node": "n1", "container": "app", "local": {"cpu": 0.1}}]},
        "bindings": {"n2": 6},
    });
    let load = LoadFile::read(&file, &settings.load, 0).unwrap();
    let totals = |node: &str| load.load.nodes.get(node).map(|node| node.totals).unwrap_or_default();
    let weights = learn(&load.containers, totals, load.load.nodes.values().map(|node| node.totals));
    World { objects: Objects::default(), placed: Placed::listed([]), weights, settings, load }
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Priority {
    #[serde(rename = "Host")]
    host: String,
    #[serde(rename = "Score")]
    score: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Filtered<'a> {
    node_names: Option<Vec<String>>,
    #[serde(borrow)]
    nodes: Option<Nodes<'a>>,
    failed_nodes: BTreeMap<String, String>,
    failed_and_unresolvable_nodes: BTreeMap<String, String>,
    error: String,
}

#[derive(Deserialize)]
struct Nodes<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

fuzz_target!(|body: &[u8]| {
    let World { objects, load, placed, weights, settings } = &*WORLD;
    let view = View {
        objects,
        load: &load.load,
        placed,
        weights,
        settings,
        now: 0,
        node_lost: 0,
        bindings: load.bindings.as_ref(),
    };
    let args = match read(body, Wanted::Names) {
        Ok(args) => args,
        Err(error) => {
            assert!(error.to_string().contains("ExtenderArgs"));
            return;
        }
    };
    let nothing = Pruned(Json::Null);
    let pod = Incoming::read(args.pod.as_ref().unwrap_or(&nothing), objects);
    let names = args.names();
    let distinct: BTreeSet<_> = names.iter().copied().collect();
    assert_eq!(distinct.len(), names.len(), "a name twice");

    let decision = score(&pod, &names, &view);
    let points: Vec<u8> = decision.nodes.iter().map(|node| node.points).collect();
    assert_eq!(points.len(), names.len());
    let answer = priorities(&names, &points);
    let answer: Vec<Priority> = serde_json::from_slice(&answer).unwrap();
    assert!(answer.iter().all(|priority| priority.score <= 10));
    assert!(answer.iter().map(|priority| priority.host.as_str()).eq(names.iter().copied()));

    // It is read once more; what only has to be passed over for names is copied for objects, so that it must be UTF-8.
    let Ok(args) = read(body, Wanted::Objects) else { return };
    assert_eq!(args.names(), names);
    let refused: Vec<_> =
        refuse(&pod, &names, &view).iter().map(|why| why.map(|why| why.to_string())).collect();
    let answer = filter_result(&args, &refused);
    let answer: Filtered<'_> = serde_json::from_slice(&answer).unwrap();
    assert!(answer.error.is_empty() && answer.failed_and_unresolvable_nodes == answer.failed_nodes);
    assert!(answer.failed_nodes.keys().all(|name| distinct.contains(name.as_str())));
    assert_eq!(answer.nodes.is_some(), args.is_whole());
    if let Some(nodes) = answer.nodes {
        assert_eq!(nodes.items.len() + answer.failed_nodes.len(), args.nodes.len());
        let sent: BTreeSet<_> = args.nodes.iter().filter_map(|node| node.object).map(RawValue::get).collect();
        assert!(nodes.items.iter().all(|node| sent.contains(node.get())), "another node than was sent");
    } else {
        let passed = answer.node_names.unwrap();
        assert!(passed.iter().all(|name| distinct.contains(name.as_str())));
        assert!(passed.iter().all(|name| !answer.failed_nodes.contains_key(name)));
        assert_eq!(passed.len() + answer.failed_nodes.len(), names.len());
    }
});
