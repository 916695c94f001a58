//! How long samples and answers take, over so many histograms that they do not fit in the caches.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use plimsoll_core::profile::from_spec;
use plimsoll_core::resource::Resource;
use plimsoll_core::usage::buckets::CPU;
use plimsoll_core::usage::{
    Aggregate, Dropped, EPSILON, HalfLife, Histogram, Model, Moment, SECOND, Scan, Track, Usage,
};
use serde_json::json;

const HISTOGRAMS: usize = 100_000;
const CONTAINERS: usize = 100_000;
/// So many containers wait for memory together.
const TOGETHER: usize = 32;
const MINUTE: i64 = 60 * SECOND;
/// 2024-01-01T00:00:00Z.
const START: i64 = 1_704_067_200 * SECOND;

/// Numbers from 0 to 1 that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        f64::from(u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(0)) / f64::from(u32::MAX)
    }

    /// Around a middle: from a third of it to three times as much.
    fn around(&mut self, middle: f64) -> f64 {
        middle * 3_f64.powf(self.next() + self.next() - 1.0)
    }

    /// A container's usual CPU usage: from 0.02 to 4 cores.
    fn middle(&mut self) -> f64 {
        0.02 * 200_f64.powf(self.next())
    }
}

fn histograms(numbers: &mut Numbers) -> Vec<(Histogram, f64)> {
    let moments: Vec<_> = (0..120).map(|n| Moment::new(START + n * 12 * MINUTE, HalfLife::DAY)).collect();
    let filled = |_| {
        let middle = numbers.middle();
        let mut histogram = Histogram::new();
        for moment in &moments {
            let _ = histogram.add(&CPU, numbers.around(middle), 1.0, *moment);
        }
        (histogram, numbers.around(middle))
    };
    (0..HISTOGRAMS).map(filled).collect()
}

fn one_resource(criterion: &mut Criterion) {
    let mut all = histograms(&mut Numbers(1));
    let mut group = criterion.benchmark_group("histograms");
    group.throughput(Throughput::Elements(HISTOGRAMS as u64));
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    let buckets = &*CPU;
    group.bench_function("find", |bencher| {
        bencher.iter(|| all.iter().map(|(_, value)| buckets.find(*value)).sum::<usize>());
    });
    let moment = Moment::new(START + 86_400 * SECOND, HalfLife::DAY);
    group.bench_function("add", |bencher| {
        bencher.iter(|| {
            for (histogram, value) in &mut all {
                let _ = histogram.add(buckets, *value, 1.0, moment);
            }
        });
    });
    for percent in [50, 95] {
        group.bench_function(format!("p{percent}"), |bencher| {
            let p = f64::from(percent) / 100.0;
            bencher.iter(|| {
                all.iter().filter_map(|(histogram, _)| histogram.percentile(buckets, p, EPSILON)).sum::<f64>()
            });
        });
    }
    group.finish();
}

fn containers(criterion: &mut Criterion) {
    let Some(model) = from_spec("bench", &json!({})).ok().and_then(|p| Model::from_policy(&p.dynamic).ok())
    else {
        return;
    };
    let mut numbers = Numbers(2);
    let mut dropped = Dropped::default();
    let mut all: Vec<(Aggregate, Track, Usage)> = (0..CONTAINERS)
        .map(|_| {
            let middle = numbers.middle();
            let usage = Usage {
                cpu: Some(middle),
                memory: Some(numbers.around(middle * 2e9)),
                cpu_request: Some(middle * 2.0),
            };
            (Aggregate::default(), Track::default(), usage)
        })
        .collect();
    for n in 0..60 {
        let scan = Scan::new(&model, START + n * 24 * MINUTE);
        for (aggregate, track, usage) in &mut all {
            let factor = numbers.around(1.0);
            let usage = Usage { cpu: usage.cpu.map(|cpu| cpu * factor), ..*usage };
            aggregate.observe(track, &model, &scan, usage, None, &mut dropped);
        }
    }
    let mut group = criterion.benchmark_group("containers");
    group.throughput(Throughput::Elements(CONTAINERS as u64));
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    let mut minute = 60 * 24;
    group.bench_function("scan", |bencher| {
        bencher.iter(|| {
            minute += 1;
            let scan = Scan::new(&model, START + minute * MINUTE);
            for some in all.chunks_mut(TOGETHER) {
                black_box(some.iter().map(|(aggregate, _, usage)| aggregate.touch(usage)).sum::<f64>());
                for (aggregate, track, usage) in some {
                    black_box(aggregate.observe(track, &model, &scan, *usage, None, &mut dropped));
                }
            }
        });
    });
    group.bench_function("recommend", |bencher| {
        bencher.iter(|| {
            for some in all.chunks(TOGETHER) {
                black_box(some.iter().map(|(aggregate, ..)| aggregate.touch_all()).sum::<f64>());
                for (aggregate, ..) in some {
                    for resource in [Resource::Cpu, Resource::Memory] {
                        black_box(aggregate.estimate(&model, resource));
                    }
                }
            }
        });
    });
    group.finish();
}

criterion_group!(benches, one_resource, containers);
criterion_main!(benches);
