//! How long it takes to read the answers of sources.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use plimsoll::recommender::sources::metrics_server::read_pod_metrics;
use plimsoll::recommender::sources::{Sample, Skipped};

const PODS: usize = 10_000;

/// As metrics-server answers, with as many labels as pods of a Deployment usually have; two containers a pod.
fn answer() -> Vec<u8> {
    let mut text =
        r#"{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":["#
            .to_owned();
    for n in 0..PODS {
        let (namespace, comma) = (n % 100, if n == 0 { "" } else { "," });
        let _ = write!(
            text,
            r#"{comma}{{"metadata":{{"name":"checkout-7d9c5b6f4-{n:05}","namespace":"team-{namespace}","creationTimestamp":"2026-03-01T10:00:00Z","labels":{{"app.kubernetes.io/name":"checkout","app.kubernetes.io/part-of":"shop","pod-template-hash":"7d9c5b6f4"}}}},"timestamp":"2026-03-01T09:59:{:02}Z","window":"15.012s","containers":[{{"name":"app","usage":{{"cpu":"{}n","memory":"{}Ki"}}}},{{"name":"proxy","usage":{{"cpu":"{}n","memory":"31408Ki"}}}}]}}"#,
            n % 60,
            499_953_158 + n,
            262_144 + n,
            3_412_090 + n,
        );
    }
    text.push_str("]}");
    text.into_bytes()
}

fn metrics_server(criterion: &mut Criterion) {
    let body = answer();
    let mut group = criterion.benchmark_group("metrics-server");
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("10,000 pods of 2 containers", |bencher| {
        bencher.iter(|| {
            let (mut cores, mut skipped) = (0.0, Skipped::default());
            let samples = read_pod_metrics(black_box(&body), &mut skipped, &mut |sample: &Sample<'_>| {
                cores += sample.cpu.unwrap_or_default();
            });
            assert_eq!((samples.ok(), skipped), (Some(20_000), Skipped::default()));
            cores
        });
    });
    group.finish();
}

criterion_group!(benches, metrics_server);
criterion_main!(benches);
