//! Means that are made here, where a source only tells of the present.

use std::collections::VecDeque;

/// So many parts a window is kept in: what falls out of it does so a part at a time.
const PARTS: i64 = 30;
/// What is measured of a node: CPU and memory.
const VALUES: usize = 2;

/// The means of CPU and memory of one node over several windows, from the samples that came since it was made: a window
/// that is longer than that is filled as far as samples go.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningMeans {
    windows: Vec<Ring>,
    last: i64,
}

/// The parts of a window, oldest first.
#[derive(Clone, Debug, PartialEq)]
struct Ring {
    /// Length of the window in nanoseconds.
    length: i64,
    parts: VecDeque<Part>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Part {
    /// Which part of all time.
    index: i64,
    sums: [f64; VALUES],
    counts: [u32; VALUES],
}

impl Ring {
    fn index_of(&self, at: i64) -> i64 {
        at.div_euclid((self.length / PARTS).max(1))
    }

    fn push(&mut self, at: i64, values: [Option<f64>; VALUES]) {
        let index = self.index_of(at);
        if self.parts.back().is_none_or(|last| last.index < index) {
            self.parts.push_back(Part { index, ..Part::default() });
        }
        while self.parts.front().is_some_and(|first| first.index <= index - PARTS) {
            self.parts.pop_front();
        }
        let Some(part) = self.parts.back_mut() else { return };
        for ((sum, count), value) in part.sums.iter_mut().zip(&mut part.counts).zip(values) {
            if let Some(value) = value {
                *sum += value;
                *count += 1;
            }
        }
    }

    fn means(&self, now: i64) -> [Option<f64>; VALUES] {
        let oldest = self.index_of(now) - PARTS;
        let (mut sums, mut counts) = ([0.0; VALUES], [0_u32; VALUES]);
        for part in self.parts.iter().filter(|part| part.index > oldest) {
            for ((sum, count), (more, counted)) in
                sums.iter_mut().zip(&mut counts).zip(part.sums.iter().zip(part.counts))
            {
                *sum += more;
                *count += counted;
            }
        }
        let [cpu, memory] = sums;
        let [of_cpu, of_memory] = counts;
        let mean = |sum: f64, count: u32| (count > 0).then(|| sum / f64::from(count));
        [mean(cpu, of_cpu), mean(memory, of_memory)]
    }
}

impl RunningMeans {
    /// Over windows of so many seconds; nothing is known yet.
    pub fn new(windows: impl IntoIterator<Item = i64>) -> Self {
        let ring =
            |seconds: i64| Ring { length: seconds.saturating_mul(1_000_000_000), parts: VecDeque::new() };
        Self { windows: windows.into_iter().map(ring).collect(), last: i64::MIN }
    }

    /// Takes the shares of CPU and memory of a time in nanoseconds since 1970. False: it is not newer than the last one,
    /// and counts no more.
    pub fn push(&mut self, at: i64, values: [Option<f64>; VALUES]) -> bool {
        if at <= self.last {
            return false;
        }
        self.last = at;
        for window in &mut self.windows {
            window.push(at, values);
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
        let mut means = RunningMeans::new([60, 600]);
        assert_eq!(means.last(), None);
        assert!(means.means(0).all(|mean| mean == [None, None]), "nothing is known");
        assert!(means.push(1_000 * SECOND, [Some(0.2), Some(0.5)]));
        assert!(!means.push(1_000 * SECOND, [Some(0.9), None]), "the same sample once more");
        assert!(!means.push(999 * SECOND, [Some(0.9), None]), "an older one");
        assert!(means.push(1_030 * SECOND, [Some(0.4), None]));
        let found: Vec<_> = means.means(1_030 * SECOND).collect();
        for mean in &found {
            assert!(
                (mean[0].unwrap() - 0.3).abs() < 1e-12 && mean[1] == Some(0.5),
                "as far as known: {mean:?}"
            );
        }
        means.push(1_070 * SECOND, [Some(0.6), Some(0.7)]);
        let found: Vec<_> = means.means(1_070 * SECOND).collect();
        assert!(
            (found[0][0].unwrap() - 0.5).abs() < 1e-12,
            "the first is out of the short window: {found:?}"
        );
        assert!((found[1][0].unwrap() - 0.4).abs() < 1e-12, "and not out of the long one");
        assert_eq!(means.means(3_000 * SECOND).last(), Some([None, None]), "all is out");
        assert_eq!(means.last(), Some(1_070 * SECOND));
    }

    proptest! {
        /// The mean is that of the samples in a time between 29 and 30 parts of the window.
        #[test]
        fn a_mean_is_of_what_is_in_the_window(
            steps in prop::collection::vec((1_i64..90, 0.0..1.0_f64), 1..60),
            window in 60_i64..2_000,
        ) {
            let mut means = RunningMeans::new([window]);
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
