//! Whole clusters: a scan of every container, and a recommendation for every container.

use std::hint::black_box;
use std::time::Duration;

use plimsoll_core::profile::from_spec;
use plimsoll_core::resource::Resource;
use plimsoll_core::usage::{Aggregate, Dropped, Model, SECOND, Scan, Track, Usage};
use serde_json::json;

use crate::samples::{Numbers, Traces, Way};
use crate::table::{float, rows, say};
use crate::work::{median, resident, timed};

const MINUTE: i64 = 60 * SECOND;
/// 2024-01-01T00:00:00Z.
const START: i64 = 1_704_067_200 * SECOND;
/// The scans before measuring go through so much time, and through so many rows of the traces: nearly all.
const FILL: i64 = 14_400 * MINUTE;
const FILL_ROWS: usize = 8_200;
const MEASURED: i64 = 15;
/// So many containers wait for memory together.
const TOGETHER: usize = 32;

struct Container {
    aggregate: Aggregate,
    track: Track,
    way: Way,
}

/// `fill` is the number of scans before those that are measured.
pub(crate) fn measure(traces: &Traces, count: usize, fill: u32) -> anyhow::Result<()> {
    anyhow::ensure!(fill > 0, "at least one scan comes first");
    let profile = from_spec("bench", &json!({})).map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
    let model = Model::from_policy(&profile.dynamic)?;
    let before = resident()?;
    let mut numbers = Numbers(2);
    let mut all: Vec<_> = (0..count)
        .map(|_| Container {
            aggregate: Aggregate::default(),
            track: Track::default(),
            way: traces.path(&mut numbers),
        })
        .collect();
    let mut usages = vec![Usage::default(); count];
    for scan in 0..fill {
        read(traces, &all, usize::try_from(scan)? * FILL_ROWS / usize::try_from(fill)?, &mut usages);
        black_box(observe(&mut all, &usages, &model, START + i64::from(scan) * FILL / i64::from(fill)));
    }
    let (mut scans, mut answers) = (Vec::new(), Vec::new());
    for scan in 0..MEASURED {
        let row = usize::try_from(scan)? * 7 + 3;
        read(traces, &all, row, &mut usages);
        let nanos = START + FILL + scan * MINUTE;
        let (time, taken) = timed(|| observe(&mut all, &usages, &model, nanos));
        anyhow::ensure!(taken == count, "{taken} samples of {count} were taken");
        scans.push(time);
        let (time, sum) = timed(|| recommend(&all, &model));
        anyhow::ensure!(sum > 0.0, "nothing is recommended");
        answers.push(time);
    }
    let resident = (resident()? - before) / float(count);
    let bytes = float(all.iter().map(|container| container.aggregate.bytes()).sum()) / float(count);
    let seconds = |times: &[Duration]| format!("{:.3} s", median(times).as_secs_f64());
    rows(&[
        [format!("{count} containers"), "found".into(), "goal at 1,000,000".into()],
        [format!("one scan, {} adds", 2 * count), seconds(&scans), "0.2 s".into()],
        ["all recommendations".into(), seconds(&answers), "0.5 s".into()],
        ["bytes a container, both histograms".into(), format!("{bytes:.0}"), "600".into()],
        ["resident bytes a container, with all else".into(), format!("{resident:.0}"), String::new()],
    ]);
    say("");
    Ok(())
}

fn read(traces: &Traces, all: &[Container], row: usize, usages: &mut [Usage]) {
    for (usage, container) in usages.iter_mut().zip(all) {
        *usage = Usage {
            cpu: Some(traces.cpu(&container.way, row)),
            memory: Some(traces.memory(&container.way, row)),
            cpu_request: Some(1.0),
        };
    }
}

/// How many were taken.
fn observe(all: &mut [Container], usages: &[Usage], model: &Model, nanos: i64) -> usize {
    let scan = Scan::new(model, nanos);
    let mut dropped = Dropped::default();
    let mut taken = 0;
    for (some, usages) in all.chunks_mut(TOGETHER).zip(usages.chunks(TOGETHER)) {
        black_box(some.iter().zip(usages).map(|(c, usage)| c.aggregate.touch(usage)).sum::<f64>());
        for (container, usage) in some.iter_mut().zip(usages) {
            let Container { aggregate, track, .. } = container;
            taken += usize::from(aggregate.observe(track, model, &scan, *usage, Some(nanos), &mut dropped));
        }
    }
    taken
}

fn recommend(all: &[Container], model: &Model) -> f64 {
    let mut sum = 0.0;
    for some in all.chunks(TOGETHER) {
        black_box(some.iter().map(|container| container.aggregate.touch_all()).sum::<f64>());
        for container in some {
            for resource in [Resource::Cpu, Resource::Memory] {
                sum += container.aggregate.estimate(model, resource).map_or(0.0, |estimate| estimate.target);
            }
        }
    }
    sum
}
