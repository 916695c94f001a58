//! Load classes, and what Crane's scheduler is told.

use std::sync::Arc;

use plimsoll_core::objects::{Fact, Node, Objects};
use plimsoll_core::placement::{
    ByMetric, ClassBounds, CraneWritten, LoadClass, LoadSettings, Metric, NodeLoad, class_changes,
    crane_annotations, crane_is_due, crane_values,
};
use proptest::prelude::*;

const BOUNDS: ClassBounds = ClassBounds { mid: 0.5, high: 0.75, hysteresis: 0.05 };

#[test]
fn classes_rise_at_once_and_fall_late() {
    use LoadClass::{High, Low, Mid};
    for (rule, before, usage, class) in [
        ("nothing is known yet", None, 0.49, Low),
        ("at the bound", None, 0.50, Mid),
        ("below the next", None, 0.74, Mid),
        ("at the next", None, 0.75, High),
        ("rises at once", Some(Low), 0.50, Mid),
        ("rises by two", Some(Low), 0.80, High),
        ("stays below the bound", Some(Mid), 0.46, Mid),
        ("to the end of the hysteresis", Some(Mid), 0.45, Mid),
        ("and falls", Some(Mid), 0.449, Low),
        ("stays high", Some(High), 0.70, High),
        ("falls by one", Some(High), 0.699, Mid),
        ("falls by one, in the hysteresis of the other", Some(High), 0.46, Mid),
        ("falls by two", Some(High), 0.44, Low),
        ("idle", Some(High), 0.0, Low),
        ("full", Some(Low), 1.0, High),
    ] {
        assert_eq!(BOUNDS.class(usage, before), class, "{rule}");
    }
}

proptest! {
    /// What is written once is right: the same usage asks for no other class. And more usage never for a lower one.
    #[test]
    fn a_class_is_settled(usage in 0.0_f64..=1.0, more in 0.0_f64..=1.0, before in 0_usize..4) {
        let before = LoadClass::ALL.get(before).copied();
        let class = BOUNDS.class(usage, before);
        prop_assert_eq!(BOUNDS.class(usage, Some(class)), class);
        prop_assert!(BOUNDS.class((usage + more).min(1.0), before) >= class);
    }
}

#[test]
fn only_labels_that_are_wrong_are_written() {
    let mut objects = Objects::default();
    let nodes = [
        ("a", Some("low"), Some(0.1), None),
        ("b", Some("low"), Some(0.6), Some(Some(LoadClass::Mid))),
        ("c", Some("mid"), Some(0.46), None),
        ("d", None, Some(0.9), Some(Some(LoadClass::High))),
        ("e", Some("high"), None, Some(None)),
        ("f", None, None, None),
        ("g", Some("hot"), Some(0.46), Some(Some(LoadClass::Low))),
        ("h", Some("HOT"), None, Some(None)),
    ];
    for (name, label, ..) in nodes {
        let labels = label.map(|label| ("plimsoll.dev/load-class".to_owned(), label.to_owned()));
        let node = Node { name: name.to_owned(), labels: labels.into_iter().collect(), ..Node::default() };
        objects.put(Fact::Node(Arc::new(node)));
    }
    let usage = |name: &str| nodes.iter().find(|node| node.0 == name).and_then(|node| node.2);
    let changes: Vec<_> = class_changes(&objects, usage, &BOUNDS)
        .into_iter()
        .map(|change| (change.node.name.clone(), change.class))
        .collect();
    let expected: Vec<_> = nodes.iter().filter_map(|node| Some((node.0.to_owned(), node.3?))).collect();
    assert_eq!(changes, expected);
}

fn load() -> NodeLoad {
    let mut first = ByMetric::default();
    first.set(Metric::Cpu, Some(0.8));
    first.set(Metric::Memory, Some(0.123_456_7));
    first.set(Metric::Load, Some(1.5));
    let mut second = ByMetric::default();
    second.set(Metric::Cpu, Some(0.7));
    NodeLoad { means: vec![first, second], ..NodeLoad::default() }
}

/// 2026-03-01T10:00:00Z
const NOW: i64 = 1_772_359_200_000_000_000;

#[test]
fn crane_reads_what_is_written_for_it() {
    let values = crane_values(&load(), &LoadSettings::default(), 2);
    let written = crane_annotations(&values, NOW, 8 * 3600);
    let expected = [
        ("cpu_usage_avg_15m", "0.80000,2026-03-01T18:00:00Z"),
        ("cpu_usage_avg_1h", "0.70000,2026-03-01T18:00:00Z"),
        ("load_usage_avg_15m", "1.00000,2026-03-01T18:00:00Z"),
        ("mem_usage_avg_15m", "0.12346,2026-03-01T18:00:00Z"),
        ("node_hot_value", "2,2026-03-01T18:00:00Z"),
    ];
    let written: Vec<_> = written.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(written, expected);
    let utc = crane_annotations(&values, NOW, 0);
    assert_eq!(utc["node_hot_value"], "2,2026-03-01T10:00:00Z");
}

#[test]
fn annotations_are_written_when_they_must_be() {
    let second = 1_000_000_000;
    let values = |cpu: f64, hot: u32| {
        let mut load = load();
        load.means[1].set(Metric::Cpu, Some(cpu));
        crane_values(&load, &LoadSettings::default(), hot)
    };
    let written = CraneWritten { values: values(0.7, 0), at: NOW };
    let gone = crane_values(&NodeLoad::default(), &LoadSettings::default(), 0);
    for (rule, values, before, after, due) in [
        ("never written", values(0.7, 0), None, 0, true),
        ("the same", values(0.7, 0), Some(&written), 60, false),
        ("a little", values(0.709, 0), Some(&written), 60, false),
        ("enough", values(0.711, 0), Some(&written), 60, true),
        ("bindings", values(0.7, 1), Some(&written), 60, true),
        ("a metric less", gone, Some(&written), 60, true),
        ("before it is old", values(0.7, 0), Some(&written), 179, false),
        ("before Crane forgets it", values(0.7, 0), Some(&written), 180, true),
    ] {
        assert_eq!(crane_is_due(&values, before, NOW + after * second), due, "{rule}");
    }
}
