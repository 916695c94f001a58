//! What a scheduler asks, from the bytes of the request to the bytes of the answer.
//!
//! `read as generic JSON` is no part of a decision: it gives the other figures a scale.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what is measured is right, or the run is worth nothing"
)]

#[path = "data/cluster.rs"]
mod cluster;
mod data;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use plimsoll_core::placement::extender::{Wanted, filter_result, priorities, read};
use plimsoll_core::placement::{Incoming, View, refuse, score};
use serde_json::Value;

use crate::cluster::Cluster;

/// As in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// 2026-03-01T10:00:00Z, in nanoseconds since 1970.
const NOW: i64 = 1_772_359_200_000_000_000;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    for nodes in [1000, 5000] {
        requests(&mut criterion, nodes);
    }
    criterion.final_summary();
}

fn requests(criterion: &mut Criterion, nodes: usize) {
    let body = cluster::request(nodes);
    let by_load = Cluster::new(nodes, NOW, false);
    let by_all = Cluster::new(nodes, NOW, true);
    let answer: Vec<Value> = serde_json::from_slice(&prioritize(&body, &view_of(&by_load))).unwrap();
    assert_eq!(answer.len(), nodes);

    let mut group = criterion.benchmark_group("extender");
    group.throughput(Throughput::Elements(u64::try_from(nodes).unwrap()));
    group.bench_function(BenchmarkId::new("read as generic JSON", nodes), |b| {
        b.iter(|| serde_json::from_slice::<Value>(black_box(&body)).unwrap());
    });
    group.bench_function(BenchmarkId::new("read", nodes), |b| {
        b.iter(|| read(black_box(&body), Wanted::Names).unwrap().nodes.len());
    });
    for (policies, cluster) in [("load", &by_load), ("all policies", &by_all)] {
        let view = view_of(cluster);
        let args = read(&body, Wanted::Names).unwrap();
        let names = args.names();
        let pod = Incoming::read(args.pod.as_ref().unwrap(), view.objects);
        group.bench_function(BenchmarkId::new(format!("score by {policies}"), nodes), |b| {
            b.iter(|| score(black_box(&pod), &names, &view));
        });
        group.bench_function(BenchmarkId::new(format!("prioritize by {policies}, all of it"), nodes), |b| {
            b.iter(|| prioritize(black_box(&body), &view));
        });
    }
    let view = view_of(&by_load);
    group.bench_function(BenchmarkId::new("filter, all of it", nodes), |b| {
        b.iter(|| filter(black_box(&body), &view));
    });
    let names: Vec<&str> = by_load.names.iter().map(String::as_str).collect();
    let points = vec![7; nodes];
    group.bench_function(BenchmarkId::new("write the points", nodes), |b| {
        b.iter(|| priorities(black_box(&names), &points));
    });
    group.finish();
}

fn view_of(cluster: &Cluster) -> View<'_> {
    View {
        objects: &cluster.objects,
        load: &cluster.load,
        placed: &cluster.placed,
        weights: &cluster.weights,
        settings: &cluster.settings,
        now: NOW,
        node_lost: 0,
        bindings: None,
    }
}

fn prioritize(body: &[u8], view: &View<'_>) -> Vec<u8> {
    let args = read(body, Wanted::Names).unwrap();
    let names = args.names();
    let decision = score(&Incoming::read(args.pod.as_ref().unwrap(), view.objects), &names, view);
    let points: Vec<u8> = decision.nodes.iter().map(|node| node.points).collect();
    priorities(&names, &points)
}

fn filter(body: &[u8], view: &View<'_>) -> Vec<u8> {
    let args = read(body, Wanted::Objects).unwrap();
    let names = args.names();
    let refused = refuse(&Incoming::read(args.pod.as_ref().unwrap(), view.objects), &names, view);
    let refused: Vec<_> = refused.iter().map(|why| why.map(|why| why.to_string())).collect();
    filter_result(&args, &refused)
}
