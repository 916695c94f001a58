//! The same figures by definition: all samples of a container in a list.

use std::collections::BTreeMap;

use plimsoll_core::usage::{Buckets, DAY};

use crate::support::{KILL, MI};

/// Times, values and weights.
pub(crate) type Samples = Vec<(i64, f64, f64)>;

/// What one container of one pod has in a day's window.
#[derive(Clone, Debug, Default)]
struct Window {
    usage: Option<f64>,
    oom: Option<(f64, i64)>,
}

/// The windows of one container of one pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exact {
    /// In cores.
    cpu: Samples,
    /// Time, bytes.
    memory: Vec<(i64, f64)>,
    anchor: Option<i64>,
    windows: BTreeMap<i64, Window>,
}

impl Exact {
    fn window(&mut self, at: i64) -> &mut Window {
        let anchor = *self.anchor.get_or_insert(at);
        self.windows.entry((at - anchor).div_euclid(DAY)).or_default()
    }

    pub(crate) fn sample(&mut self, at: i64, cpu: f64, memory: f64, weight: f64) {
        self.cpu.push((at, cpu, weight));
        self.memory.push((at, memory));
        let window = self.window(at);
        let hidden = window.oom.is_some_and(|(oom, _)| memory <= oom);
        if !hidden && window.usage.is_none_or(|usage| memory > usage) {
            window.usage = Some(memory);
        }
    }

    pub(crate) fn kill(&mut self, at: i64, request: f64) {
        let window = self.window(at);
        let used = request.max(window.usage.unwrap_or(0.0));
        let needed = (used + 100.0 * MI).max(used * 1.2);
        if window.oom.is_none_or(|(oom, _)| needed > oom) {
            window.oom = Some((needed, at));
        }
    }

    pub(crate) fn cpu_samples(&self) -> Samples {
        self.cpu.clone()
    }

    pub(crate) fn memory_samples(&self, peaks: bool) -> Samples {
        let anchor = self.anchor.unwrap_or_default();
        if peaks {
            let end = |index: &i64| anchor + (index + 1) * DAY;
            let top =
                |window: &Window| window.usage.unwrap_or(0.0).max(window.oom.map_or(0.0, |(oom, _)| oom));
            return self.windows.iter().map(|(index, window)| (end(index), top(window), 1.0)).collect();
        }
        let kills = self.windows.values().filter_map(|window| window.oom);
        let kills = kills.map(|(bytes, at)| (at, bytes, KILL));
        self.memory.iter().map(|(at, bytes)| (*at, *bytes, 1.0)).chain(kills).collect()
    }
}

/// The sum of all weights, and the ends of the buckets where it reaches a share of it; two answers where rounding
/// decides.
pub(crate) fn percentile(
    samples: &Samples,
    buckets: &Buckets,
    half_life: i64,
    now: i64,
    p: f64,
) -> (f64, [f64; 2]) {
    let mut by_bucket = BTreeMap::<usize, f64>::new();
    for (at, value, weight) in samples {
        let decayed = weight * ((at - now) as f64 / half_life as f64).exp2();
        *by_bucket.entry(buckets.find(*value)).or_default() += decayed;
    }
    let total: f64 = by_bucket.values().sum();
    let answer = |p: f64| {
        let mut sum = 0.0;
        let at = by_bucket.iter().find(|(_, weight)| {
            sum += *weight;
            sum >= p * total
        });
        buckets.end(*at.or(by_bucket.last_key_value()).unwrap().0)
    };
    (total, [answer(p - 1e-9), answer(p + 1e-9)])
}
