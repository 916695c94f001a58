//! Means that are made here, where a source only tells of the present.

use std::collections::VecDeque;

/// So many parts a window is kept in: what falls out of it does so a part at a time.
const PARTS: i64 = 30;
/// What is measured of a node: CPU and memory.
const VALUES: usize = 2;

/// The means of CPU and memory of one node over several windows, from the samples that came since it was made. Of a window
/// of which less than half was seen there is no mean: three busy minutes are not a busy day. Only the shortest has one from
/// the first sample on.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningMeans {
    windows: Vec<Ring>,
    /// A sample stands for the time since the one before, and for so many nanoseconds at most.
    longest_gap: i64,
    last: i64,
    /// The times of the last samples, by value.
    told: [Option<i64>; VALUES],
}

/// The parts of a window, oldest first.
#[derive(Clone, Debug, PartialEq)]
struct Ring {
    /// Length of the window in nanoseconds.
    length: i64,
    /// How much of it must have been seen.
    needed: i64,
    parts: VecDeque<Part>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Part {
    /// Which part of all time.
    index: i64,
    sums: [f64; VALUES],
    counts: [u32; VALUES],
    /// The time that they stand for, in nanoseconds.
    seen: [i64; VALUES],
}

impl Ring {
    fn index_of(&self, at: i64) -> i64 {
        at.div_euclid((self.length / PARTS).max(1))
    }

    fn push(&mut self, at: i64, values: [Option<f64>; VALUES], stand_for: [i64; VALUES]) {
        let index = self.index_of(at);
        if self.parts.back().is_none_or(|last| last.index < index) {
            self.parts.push_back(Part { index, ..Part::default() });
        }
        while self.parts.front().is_some_and(|first| first.index <= index - PARTS) {
            self.parts.pop_front();
        }
        let Some(part) = self.parts.back_mut() else { return };
        let sums = part.sums.iter_mut().zip(&mut part.counts).zip(&mut part.seen);
        for (((sum, count), seen), (value, time)) in sums.zip(values.into_iter().zip(stand_for)) {
            if let Some(value) = value {
                *sum += value;
                *count += 1;
                *seen += time;
            }
        }
    }

    fn means(&self, now: i64) -> [Option<f64>; VALUES] {
        let oldest = self.index_of(now) - PARTS;
        let mut all = [(0.0, 0_u32, 0_i64); VALUES];
        for part in self.parts.iter().filter(|part| part.index > oldest) {
            let of_part = part.sums.iter().zip(part.counts).zip(part.seen);
            for ((sum, count, seen), ((more, counted), time)) in all.iter_mut().zip(of_part) {
                *sum += more;
                *count += counted;
                *seen += time;
            }
        }
        all.map(|(sum, count, seen)| (count > 0 && seen >= self.needed).then(|| sum / f64::from(count)))
    }
}

impl RunningMeans {
    /// Over windows of so many seconds; nothing is known yet. Samples that are further apart than `longest_gap`, in
    /// nanoseconds, leave a hole.
    pub fn new(windows: impl IntoIterator<Item = i64>, longest_gap: i64) -> Self {
        let ring = |seconds: i64| {
            let length = seconds.saturating_mul(1_000_000_000);
            Ring { length, needed: length / 2, parts: VecDeque::new() }
        };
        let mut windows: Vec<_> = windows.into_iter().map(ring).collect();
        if let Some(shortest) = windows.iter_mut().min_by_key(|window| window.length) {
            shortest.needed = 0;
        }
        Self { windows, longest_gap, last: i64::MIN, told: [None; VALUES] }
    }

    /// Takes the shares of CPU and memory of a time in nanoseconds since 1970. False: it is not newer than the last one,
    /// and counts no more.
    pub fn push(&mut self, at: i64, values: [Option<f64>; VALUES]) -> bool {
        if at <= self.last {
            return false;
        }
        self.last = at;
        let mut stand_for = [0; VALUES];
        for ((time, told), value) in stand_for.iter_mut().zip(&mut self.told).zip(values) {
            if value.is_some() {
                *time = told.map_or(0, |told| at.saturating_sub(told)).min(self.longest_gap);
                *told = Some(at);
            }
        }
        for window in &mut self.windows {
            window.push(at, values, stand_for);
        }
        true
    }

    /// The time of the newest sample; `None`: there was none.
    pub fn last(&self) -> Option<i64> {
        (self.last > i64::MIN).then_some(self.last)
    }

    /// The means of CPU and memory over each window that ends at `now`.
    pub fn means(&self, now: i64) -> impl Iterator<Item = [Option<f64>; VALUES]> {
        self.windows.iter().map(move |window| window.means(now))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn windows_fill_and_forget() {
        let mut means = RunningMeans::new([60, 600], 600 * SECOND);
        assert_eq!(means.last(), None);
        assert!(means.means(0).all(|mean| mean == [None, None]), "nothing is known");
        assert!(means.push(1_000 * SECOND, [Some(0.2), Some(0.5)]));
        assert!(!means.push(1_000 * SECOND, [Some(0.9), None]), "the same sample once more");
        assert!(!means.push(999 * SECOND, [Some(0.9), None]), "an older one");
        assert!(means.push(1_030 * SECOND, [Some(0.4), None]));
        let found: Vec<_> = means.means(1_030 * SECOND).collect();
        let [cpu, memory] = found[0];
        assert!((cpu.unwrap() - 0.3).abs() < 1e-12 && memory == Some(0.5), "as far as known: {found:?}");
        assert_eq!(found[1], [None, None], "of ten minutes half a one was seen");
        means.push(1_070 * SECOND, [Some(0.6), Some(0.7)]);
        let found: Vec<_> = means.means(1_070 * SECOND).collect();
        assert!(
            (found[0][0].unwrap() - 0.5).abs() < 1e-12,
            "the first is out of the short window: {found:?}"
        );
        means.push(1_310 * SECOND, [Some(0.8), None]);
        let [cpu, memory] = means.means(1_310 * SECOND).last().unwrap();
        assert!(
            (cpu.unwrap() - 0.5).abs() < 1e-12,
            "half of the long one was seen, and nothing is out of it"
        );
        assert_eq!(memory, None, "of memory not");
        assert_eq!(means.means(3_000 * SECOND).last(), Some([None, None]), "all is out");
        assert_eq!(means.last(), Some(1_310 * SECOND));
    }

    #[test]
    fn a_mean_needs_half_of_its_window() {
        // Samples at these seconds, of windows of 100 and 1,000 seconds; gaps of up to 60 are none.
        let every = |from: i64, to: i64, step: i64| (from..=to).step_by(usize::try_from(step).unwrap());
        for (rule, at, short, long) in [
            ("one sample", vec![0], true, false),
            ("a spike at the start", every(0, 180, 30).collect(), true, false),
            ("just less than half", every(0, 490, 10).collect(), true, false),
            ("half", every(0, 500, 10).collect(), true, true),
            ("as far apart as may be", every(0, 540, 60).collect(), true, true),
            ("a hole does not count", vec![0, 490, 550], true, false),
            (
                "it is filled after the hole",
                every(0, 300, 10).chain(every(600, 800, 10)).collect(),
                true,
                true,
            ),
        ] {
            let mut means = RunningMeans::new([1_000, 100], 60 * SECOND);
            let mut last = 0;
            for at in at {
                last = (10_000 + at) * SECOND;
                means.push(last, [Some(0.5), Some(0.5)]);
            }
            let found: Vec<_> =
                means.means(last).map(|[cpu, memory]| (cpu.is_some(), memory.is_some())).collect();
            assert_eq!(found, [(long, long), (short, short)], "{rule}");
        }
    }

    proptest! {
        /// The mean is that of the samples in a time between 29 and 30 parts of the window.
        #[test]
        fn a_mean_is_of_what_is_in_the_window(
            steps in prop::collection::vec((1_i64..90, 0.0..1.0_f64), 1..60),
            window in 60_i64..2_000,
        ) {
            let mut means = RunningMeans::new([window], 60 * SECOND);
            let (mut at, mut samples) = (1_000_000, Vec::new());
            for (step, value) in steps {
                at += step;
                samples.push((at, value));
                means.push(at * SECOND, [Some(value), None]);
            }
            let found = means.means(at * SECOND).next().unwrap()[0].unwrap();
            let part = window * SECOND / 30;
            let oldest = (at * SECOND).div_euclid(part) - 30;
            let kept: Vec<f64> = samples
                .iter()
                .filter(|(time, _)| (time * SECOND).div_euclid(part) > oldest)
                .map(|(_, value)| *value)
                .collect();
            #[expect(clippy::cast_precision_loss, reason = "few")]
            let expected = kept.iter().sum::<f64>() / kept.len() as f64;
            prop_assert!((found - expected).abs() < 1e-9);
            prop_assert!(kept.len() == samples.len() || at - samples[samples.len() - kept.len() - 1].0 >= window * 29 / 30);
        }
    }
}
