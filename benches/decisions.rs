//! One review, from the bytes of the request to the bytes of the answer.
//!
//! `read as generic JSON` is no part of a decision: it gives the other figures a scale.

#![allow(clippy::unwrap_used, reason = "what is measured is right, or the run is worth nothing")]

mod data;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput};
use jiff::Timestamp;
use plimsoll_core::admission::{
    AbsentNamespace, Context, Outcome, Settings, Skip, Stage, mutate, read, write,
};
use plimsoll_core::objects::{Objects, read_manifest};
use plimsoll_core::profile::{Candidate, ProfileSet, from_spec};
use serde_json::{Value, json};

/// As in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PROFILE: &str = include_str!("data/objects/profile.yaml");
const NAMESPACE: &str = include_str!("data/objects/namespace.yaml");

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    reviews(&mut criterion);
    profiles(&mut criterion);
    criterion.final_summary();
}

fn reviews(criterion: &mut Criterion) {
    let mut objects = Objects::default();
    for manifest in [PROFILE, NAMESPACE] {
        let manifest: Value = serde_saphyr::from_str(manifest).unwrap();
        objects.put(read_manifest(&manifest).unwrap().unwrap());
    }
    let settings = Settings { absent_namespace: AbsentNamespace::Unknown, ..Settings::default() };
    let context = Context {
        objects: &objects,
        settings: &settings,
        namespace: None,
        now: Timestamp::UNIX_EPOCH,
        defaulted: None,
    };
    let changed = data::review();
    let text = String::from_utf8(changed.clone()).unwrap();
    let opted_out = r#""annotations":{"plimsoll.dev/overcommit":"disabled","#;
    let skipped = text.replacen(r#""annotations":{"#, opted_out, 1).into_bytes();

    let mut group = criterion.benchmark_group("review");
    for (name, body, expected) in
        [("changed", &changed, Outcome::Applied), ("skipped", &skipped, Outcome::Skipped(Skip::PodOptOut))]
    {
        let decision = mutate(&read(body, Stage::Mutate).unwrap(), &context);
        assert_eq!((decision.answer.outcome, &decision.self_check), (expected, &None));
        group.throughput(Throughput::Bytes(u64::try_from(body.len()).unwrap()));
        group.bench_function(BenchmarkId::new("whole", name), |b| {
            b.iter(|| {
                let review = read(black_box(body), Stage::Mutate).unwrap();
                let decision = mutate(&review, &context);
                write(&review, &decision.answer)
            });
        });
        group.bench_function(BenchmarkId::new("read", name), |b| {
            b.iter(|| read(black_box(body), Stage::Mutate).unwrap());
        });
        let review = read(body, Stage::Mutate).unwrap();
        group.bench_function(BenchmarkId::new("decide", name), |b| {
            b.iter(|| mutate(black_box(&review), &context));
        });
        group.bench_function(BenchmarkId::new("write", name), |b| {
            b.iter(|| write(black_box(&review), &decision.answer));
        });
    }
    group.bench_function("read as generic JSON", |b| {
        b.iter(|| serde_json::from_slice::<Value>(black_box(&changed)).unwrap());
    });
    group.finish();
}

/// The last of 100 profiles matches: every selector is asked.
fn profiles(criterion: &mut Criterion) {
    let set = ProfileSet::new((0..100_u32).map(|n| {
        let spec = json!({
            "priority": 100 - n,
            "mode": "Static",
            "match": {
                "namespaceSelector": {"matchLabels": {"team": format!("team-{n}")}},
                "podSelector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["backend"]}]},
            },
        });
        Arc::new(from_spec(&format!("profile-{n}"), &spec).unwrap())
    }));
    let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let namespace_labels = labels(&[("team", "team-99"), ("kubernetes.io/metadata.name", "shop")]);
    let pod_labels = labels(&[("app.kubernetes.io/name", "checkout"), ("tier", "backend")]);
    let candidate = Candidate {
        namespace_labels: &namespace_labels,
        labels: &pod_labels,
        pool: None,
        workload_kind: "Deployment",
    };
    assert_eq!(set.find(&candidate).unwrap().name, "profile-99");
    criterion.bench_function("profile/last of 100", |b| b.iter(|| set.find(black_box(&candidate)).is_some()));
}
