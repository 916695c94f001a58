//! Samples of nodes: those that cannot be true are dropped and counted.

use std::collections::HashMap;
use std::sync::Arc;

/// Why a sample is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// NaN, as of a division by nothing or a series that ended, or a text that is no number.
    NotANumber,
    /// Infinite.
    Infinite,
    /// Below zero.
    Negative,
    /// Above what can be true: [`Metric::greatest`](crate::placement::Metric::greatest).
    TooGreat,
    /// The node's newest sample is older than the greatest age; counted once for each node.
    Stale,
    /// The node's newest sample is further in the future than the greatest age.
    Future,
    /// Another sample of the same node, from another instance or replica; the greatest counts.
    Duplicate,
    /// No label names a node of the cluster.
    UnknownNode,
    /// Usage of a container of which no running pod is known.
    UnknownPod,
}

impl DropReason {
    /// Every reason, in the order of their declaration.
    pub const ALL: [Self; 9] = [
        Self::NotANumber,
        Self::Infinite,
        Self::Negative,
        Self::TooGreat,
        Self::Stale,
        Self::Future,
        Self::Duplicate,
        Self::UnknownNode,
        Self::UnknownPod,
    ];

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotANumber => "not_a_number",
            Self::Infinite => "infinite",
            Self::Negative => "negative",
            Self::TooGreat => "too_great",
            Self::Stale => "stale",
            Self::Future => "future",
            Self::Duplicate => "duplicate",
            Self::UnknownNode => "unknown_node",
            Self::UnknownPod => "unknown_pod",
        }
    }
}

/// How many samples were dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped([u64; 9]);

impl Dropped {
    /// One more.
    pub fn count(&mut self, reason: DropReason) {
        if let Some(count) = self.0.get_mut(reason as usize) {
            *count += 1;
        }
    }

    /// How many for that reason.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0.get(reason as usize).copied().unwrap_or_default()
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }

    /// Every reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.into_iter().zip(self.0)
    }
}

/// A value, if it can be true.
///
/// # Errors
/// Why it cannot.
pub fn checked(value: Option<f64>, greatest: f64) -> Result<f64, DropReason> {
    match value {
        None => Err(DropReason::NotANumber),
        Some(value) if value.is_nan() => Err(DropReason::NotANumber),
        Some(value) if value.is_infinite() => Err(DropReason::Infinite),
        Some(value) if value < 0.0 => Err(DropReason::Negative),
        Some(value) if value > greatest => Err(DropReason::TooGreat),
        // Not -0.
        Some(value) => Ok(value.abs()),
    }
}

/// One value for each node: the answer to one question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeValues(HashMap<Arc<str>, f64>);

impl NodeValues {
    /// Takes a value if it can be true. Of several of one node the greatest counts: they tell of the same machine (two
    /// exporters, two replicas of Prometheus), and too much is the safer mistake.
    pub fn put(&mut self, node: &Arc<str>, value: Option<f64>, greatest: f64, dropped: &mut Dropped) {
        match checked(value, greatest) {
            Err(reason) => dropped.count(reason),
            Ok(value) => match self.0.get_mut(node) {
                Some(known) => {
                    dropped.count(DropReason::Duplicate);
                    *known = known.max(value);
                }
                None => {
                    self.0.insert(Arc::clone(node), value);
                }
            },
        }
    }

    /// The value of a node.
    pub fn get(&self, node: &str) -> Option<f64> {
        self.0.get(node).copied()
    }

    /// Every node with its value, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, f64)> {
        self.0.iter().map(|(node, value)| (node, *value))
    }

    /// How many nodes have one.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none has one.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// When each node was last measured, in nanoseconds since 1970 by our clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeTimes(HashMap<Arc<str>, i64>);

impl NodeTimes {
    /// Takes the time of a node's newest sample. `evaluated` is the time, by the same clock as `time`, for which the
    /// question was answered: only the difference counts, so the clocks of source and server need not agree. Of several
    /// the newest counts. One in the future, but by less than `maximum_age`, is of now.
    pub fn put(
        &mut self,
        node: &Arc<str>,
        time: i64,
        evaluated: i64,
        now: i64,
        maximum_age: i64,
        dropped: &mut Dropped,
    ) {
        let age = evaluated.saturating_sub(time);
        if age < maximum_age.saturating_neg() {
            dropped.count(DropReason::Future);
            return;
        }
        let sampled = now.saturating_sub(age.max(0));
        let known = self.0.entry(Arc::clone(node)).or_insert(sampled);
        *known = (*known).max(sampled);
    }

    /// Takes over what is known of nodes that the newer times do not have, unless it is too old by now.
    pub fn keep(&mut self, older: &Self, now: i64, maximum_age: i64) {
        for (node, sampled) in &older.0 {
            if now.saturating_sub(*sampled) <= maximum_age {
                self.0.entry(Arc::clone(node)).or_insert(*sampled);
            }
        }
    }

    /// When a node was last measured.
    pub fn get(&self, node: &str) -> Option<i64> {
        self.0.get(node).copied()
    }

    /// Every node with its time, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, i64)> {
        self.0.iter().map(|(node, sampled)| (node, *sampled))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::placement::metric::Metric;

    const SECOND: i64 = 1_000_000_000;
    const NOW: i64 = 1_772_359_200 * SECOND;

    fn counts(dropped: &Dropped) -> Vec<(&'static str, u64)> {
        dropped.iter().filter(|(_, count)| *count > 0).map(|(reason, count)| (reason.name(), count)).collect()
    }

    #[test]
    fn values_that_cannot_be_true_are_dropped_and_counted() {
        let (cpu, load) = (Metric::Cpu.greatest(), Metric::Load.greatest());
        for (rule, values, greatest, expected, reasons) in [
            ("a share", vec![Some(0.5)], cpu, Some(0.5), vec![]),
            ("nothing used", vec![Some(0.0)], cpu, Some(0.0), vec![]),
            ("-0 is nothing", vec![Some(-0.0)], cpu, Some(0.0), vec![]),
            ("a little above 1 is rounding", vec![Some(1.05)], cpu, Some(1.05), vec![]),
            ("more is a fault", vec![Some(1.051)], cpu, None, vec![("too_great", 1)]),
            ("a load average has no greatest value", vec![Some(37.5)], load, Some(37.5), vec![]),
            ("but is not infinite", vec![Some(f64::INFINITY)], load, None, vec![("infinite", 1)]),
            ("negative infinity", vec![Some(f64::NEG_INFINITY)], cpu, None, vec![("infinite", 1)]),
            ("NaN", vec![Some(f64::NAN)], cpu, None, vec![("not_a_number", 1)]),
            ("no number", vec![None], cpu, None, vec![("not_a_number", 1)]),
            ("negative", vec![Some(-0.001)], cpu, None, vec![("negative", 1)]),
            (
                "of several the greatest",
                vec![Some(0.3), Some(0.6), Some(0.4)],
                cpu,
                Some(0.6),
                vec![("duplicate", 2)],
            ),
            (
                "of several that can be true",
                vec![Some(0.3), Some(7.0)],
                cpu,
                Some(0.3),
                vec![("too_great", 1)],
            ),
        ] {
            let (mut of_node, mut dropped) = (NodeValues::default(), Dropped::default());
            for value in values {
                of_node.put(&"n1".into(), value, greatest, &mut dropped);
            }
            assert_eq!(of_node.get("n1"), expected, "{rule}");
            assert_eq!(counts(&dropped), reasons, "{rule}");
        }
    }

    #[test]
    fn the_age_of_a_node_is_that_of_its_newest_sample() {
        let age = 300;
        for (rule, samples, skew, expected, reasons) in [
            ("just now", vec![0], 0, Some(0), vec![]),
            ("a minute ago", vec![-60], 0, Some(-60), vec![]),
            ("the newest of several", vec![-60, -10, -90], 0, Some(-10), vec![]),
            ("the server's clock is an hour behind", vec![-60], -3_600, Some(-60), vec![]),
            ("the server's clock is an hour ahead", vec![-60], 3_600, Some(-60), vec![]),
            ("a little in the future is now", vec![200], 0, Some(0), vec![]),
            ("far in the future is a fault", vec![301], 0, None, vec![("future", 1)]),
            ("old", vec![-3_000], 0, Some(-3_000), vec![]),
        ] {
            let (mut times, mut dropped) = (NodeTimes::default(), Dropped::default());
            for seconds in samples {
                let evaluated = NOW + skew * SECOND;
                times.put(
                    &"n1".into(),
                    evaluated + seconds * SECOND,
                    evaluated,
                    NOW,
                    age * SECOND,
                    &mut dropped,
                );
            }
            assert_eq!(times.get("n1"), expected.map(|seconds: i64| NOW + seconds * SECOND), "{rule}");
            assert_eq!(counts(&dropped), reasons, "{rule}");
        }
    }

    #[test]
    fn times_are_kept_until_they_are_old() {
        let mut dropped = Dropped::default();
        let mut put = |nodes: &[(&str, i64)]| {
            let mut times = NodeTimes::default();
            for (node, seconds) in nodes {
                times.put(&(*node).into(), NOW + seconds * SECOND, NOW, NOW, 300 * SECOND, &mut dropped);
            }
            times
        };
        let older = put(&[("a", -100), ("b", -299), ("c", -301)]);
        let mut newer = put(&[("a", -5)]);
        newer.keep(&older, NOW, 300 * SECOND);
        let of = |node: &str| newer.get(node).map(|sampled| (sampled - NOW) / SECOND);
        assert_eq!((of("a"), of("b"), of("c")), (Some(-5), Some(-299), None));
    }

    proptest! {
        /// Of the samples that can be true the greatest counts, in any order; each is used or counted.
        #[test]
        fn nothing_is_lost(values in prop::collection::vec((0_usize..3, prop::option::of(prop::num::f64::ANY)), 0..20)) {
            let names: [Arc<str>; 3] = ["a".into(), "b".into(), "c".into()];
            let greatest = Metric::Cpu.greatest();
            let read = |samples: &mut dyn Iterator<Item = &(usize, Option<f64>)>| {
                let (mut of_nodes, mut dropped) = (NodeValues::default(), Dropped::default());
                samples.for_each(|(node, value)| of_nodes.put(&names[*node], *value, greatest, &mut dropped));
                (of_nodes, dropped)
            };
            let (found, dropped) = read(&mut values.iter());
            prop_assert_eq!(&read(&mut values.iter().rev()), &(found.clone(), dropped));
            let counted: u64 = dropped.iter().map(|(_, count)| count).sum();
            prop_assert_eq!(found.len() as u64 + counted, values.len() as u64);
            for (node, value) in found.iter() {
                prop_assert!((0.0..=greatest).contains(&value));
                let of_node = values.iter().filter(|(other, _)| names[*other] == *node);
                let all = of_node.filter_map(|(_, value)| checked(*value, greatest).ok());
                prop_assert!((all.fold(0.0, f64::max) - value).abs() < 1e-12);
            }
        }
    }
}
