//! How long it takes to make the snapshot of the load from the answers of Prometheus.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use plimsoll::placement::load::read_node_values;
use plimsoll_core::placement::{
    ByMetric, Dropped, KnownNode, KnownNodes, Measured, Metric, NodeTimes, NodeValues, Totals,
};

const NODES: usize = 5_000;
const WINDOWS: usize = 3;
const METRICS: [Metric; 4] = [Metric::Cpu, Metric::Memory, Metric::Disk, Metric::Load];
const NOW: i64 = 1_772_359_200_000_000_000;

fn name(node: usize) -> String {
    format!("node-{node:04}.example.com")
}

fn address(node: usize) -> String {
    format!("10.{}.{}.{}", node / 62_500, node / 250 % 250, node % 250)
}

fn nodes() -> KnownNodes {
    KnownNodes::new((0..NODES).map(|node| KnownNode {
        name: name(node).into(),
        addresses: vec![address(node).into()],
        capacity: Totals::default(),
    }))
}

/// A vector with the labels that a usual installation gives to the series of `node_exporter`.
fn answer() -> Vec<u8> {
    let mut text = r#"{"status":"success","data":{"resultType":"vector","result":["#.to_owned();
    for node in 0..NODES {
        let comma = if node == 0 { "" } else { "," };
        let _ = write!(
            text,
            r#"{comma}{{"metric":{{"container":"node-exporter","endpoint":"http-metrics","instance":"{}:9100","job":"node-exporter","namespace":"monitoring","pod":"node-exporter-{node:05}","service":"node-exporter"}},"value":[1772359200.123,"0.{:017}"]}}"#,
            address(node),
            node * 97_531,
        );
    }
    text.push_str("]}}");
    text.into_bytes()
}

fn refresh(criterion: &mut Criterion) {
    let (nodes, body) = (nodes(), answer());
    let labels = ["node", "nodename", "instance"].map(str::to_owned);
    let read = |greatest| -> NodeValues {
        let (values, dropped) =
            read_node_values(black_box(&body), &labels, &nodes, greatest).unwrap_or_default();
        assert_eq!((values.len(), dropped), (NODES, Dropped::default()));
        values
    };
    let mut times = NodeTimes::default();
    for node in nodes.names() {
        times.put(node, NOW, NOW, NOW, 1, &mut Dropped::default());
    }
    let questions = WINDOWS * METRICS.len();
    let mut group = criterion.benchmark_group("load");
    group.throughput(Throughput::Bytes((body.len() * questions) as u64));
    group.bench_function("answers about 5,000 nodes become a snapshot", |bencher| {
        bencher.iter(|| {
            let columns: Vec<Vec<NodeValues>> = (0..WINDOWS)
                .map(|_| METRICS.iter().map(|metric| read(metric.greatest())).collect())
                .collect();
            let mut measured = Measured { times: Some(&times), ..Measured::default() };
            for window in &columns {
                let mut means = ByMetric::default();
                METRICS.iter().zip(window).for_each(|(metric, values)| means.set(*metric, Some(values)));
                measured.means.push(means);
            }
            let snapshot = measured.snapshot(&nodes, NOW, 300_000_000_000, &mut Dropped::default());
            assert_eq!(snapshot.nodes.len(), NODES);
            snapshot
        });
    });
    group.bench_function("which node is meant, 5,000 by address", |bencher| {
        let instances: Vec<String> = (0..NODES).map(|node| format!("{}:9100", address(node))).collect();
        bencher.iter(|| instances.iter().filter_map(|instance| nodes.find(black_box(instance))).count());
    });
    group.finish();
}

criterion_group!(benches, refresh);
criterion_main!(benches);
