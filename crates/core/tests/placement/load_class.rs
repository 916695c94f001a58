//! Load classes, and what Crane's scheduler is told.

use std::sync::Arc;

use plimsoll_core::objects::{Fact, Node, Objects};
use plimsoll_core::placement::{
    ByMetric, ClassBounds, ClassRounds, CraneWritten, LoadClass, LoadSettings, Metric, NodeLoad,
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

/// What a node has, and what of it is known in a round.
struct Labelled {
    objects: Objects,
    name: &'static str,
}

impl Labelled {
    fn new(name: &'static str, label: Option<&str>) -> Self {
        let mut labelled = Self { objects: Objects::default(), name };
        labelled.put(label);
        // Of this one the load is always known.
        labelled.objects.put(Fact::Node(Arc::new(Node { name: "known".to_owned(), ..Node::default() })));
        labelled
    }

    fn put(&mut self, label: Option<&str>) {
        let labels = label.map(|label| ("plimsoll.dev/load-class".to_owned(), label.to_owned()));
        let node =
            Node { name: self.name.to_owned(), labels: labels.into_iter().collect(), ..Node::default() };
        self.objects.put(Fact::Node(Arc::new(node)));
    }

    /// A round: what is to be written on the node, if anything is.
    fn round(&self, rounds: &mut ClassRounds, usage: Option<f64>) -> Option<Option<LoadClass>> {
        let usage = |name: &str| if name == self.name { usage } else { Some(0.0) };
        let changes = rounds.next(&self.objects, usage, &BOUNDS);
        changes.iter().find(|change| change.node.name == self.name).map(|change| change.class)
    }
}

#[test]
fn a_label_changes_when_two_rounds_agree() {
    use LoadClass::{High, Low, Mid};
    const KEPT: Option<Option<LoadClass>> = None;
    let written = |class| Some(Some(class));
    for (rule, label, seen) in [
        ("none yet: at once", None, vec![(Some(0.1), written(Low))]),
        ("a word of somebody else: at once", Some("hot"), vec![(Some(0.46), written(Low))]),
        ("right as it is", Some("low"), vec![(Some(0.2), KEPT), (Some(0.2), KEPT)]),
        ("the second round", Some("low"), vec![(Some(0.6), KEPT), (Some(0.6), written(Mid))]),
        (
            "and again until it is seen",
            Some("low"),
            vec![(Some(0.6), KEPT), (Some(0.6), written(Mid)), (Some(0.6), written(Mid))],
        ),
        ("a peak", Some("low"), vec![(Some(0.9), KEPT), (Some(0.2), KEPT), (Some(0.9), KEPT)]),
        (
            "back in between",
            Some("low"),
            vec![(Some(0.6), KEPT), (Some(0.4), KEPT), (Some(0.6), KEPT), (Some(0.6), written(Mid))],
        ),
        ("what both reach", Some("low"), vec![(Some(0.6), KEPT), (Some(0.9), written(Mid))]),
        (
            "what both reach, the other way round",
            Some("low"),
            vec![(Some(0.9), KEPT), (Some(0.6), written(Mid))],
        ),
        (
            "falling",
            Some("high"),
            vec![
                (Some(0.1), KEPT),
                (Some(0.6), written(Mid)),
                (Some(0.1), written(Mid)),
                (Some(0.1), written(Low)),
            ],
        ),
        ("within the hysteresis", Some("mid"), vec![(Some(0.46), KEPT), (Some(0.46), KEPT)]),
        (
            "up, and down",
            Some("mid"),
            vec![(Some(0.9), KEPT), (Some(0.1), KEPT), (Some(0.9), KEPT), (Some(0.9), written(High))],
        ),
        (
            "a gap between the two",
            Some("low"),
            vec![(Some(0.6), KEPT), (None, KEPT), (Some(0.6), KEPT), (Some(0.6), written(Mid))],
        ),
    ] {
        let node = Labelled::new("n", label);
        let mut rounds = ClassRounds::default();
        for (round, (usage, expected)) in seen.into_iter().enumerate() {
            assert_eq!(node.round(&mut rounds, usage), expected, "{rule}: round {round}");
        }
    }
}

#[test]
fn a_label_is_taken_off_after_three_rounds_without_load() {
    let taken_off = Some(None);
    for (rule, label, seen) in [
        ("the third", Some("high"), vec![(None, None), (None, None), (None, taken_off), (None, taken_off)]),
        ("a word of somebody else", Some("HOT"), vec![(None, None), (None, None), (None, taken_off)]),
        (
            "not in a row",
            Some("low"),
            vec![(None, None), (None, None), (Some(0.1), None), (None, None), (None, None)],
        ),
        ("it has none", None, vec![(None, None), (None, None), (None, None), (None, None)]),
    ] {
        let node = Labelled::new("n", label);
        let mut rounds = ClassRounds::default();
        for (round, (usage, expected)) in seen.into_iter().enumerate() {
            assert_eq!(node.round(&mut rounds, usage), expected, "{rule}: round {round}");
        }
    }
}

#[test]
fn nothing_is_written_while_the_source_is_away() {
    let mut node = Labelled::new("n", Some("high"));
    let mut rounds = ClassRounds::default();
    assert_eq!(node.round(&mut rounds, None), None);
    assert_eq!(node.round(&mut rounds, None), None);
    for _ in 0..10 {
        assert_eq!(rounds.next(&node.objects, |_| None, &BOUNDS), vec![], "of no node anything is known");
    }
    assert_eq!(node.round(&mut rounds, None), None, "counted anew");
    assert_eq!(node.round(&mut rounds, None), None);
    assert_eq!(node.round(&mut rounds, None), Some(None));
    node.put(None);
    assert_eq!(node.round(&mut rounds, Some(0.1)), Some(Some(LoadClass::Low)), "and back at once");
}

#[test]
fn a_node_that_is_another_one_now_is_counted_anew() {
    let mut objects = Objects::default();
    let mut put = |uid: &str| {
        let labels = [("plimsoll.dev/load-class".to_owned(), "low".to_owned())].into();
        let node = Node { name: "n".to_owned(), uid: uid.to_owned(), labels, ..Node::default() };
        objects.put(Fact::Node(Arc::new(node)));
        objects.clone()
    };
    let mut rounds = ClassRounds::default();
    let mut round = |objects: &Objects| rounds.next(objects, |_| Some(0.9), &BOUNDS).len();
    assert_eq!([round(&put("a")), round(&put("b")), round(&put("b"))], [0, 0, 1]);
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
    let written = CraneWritten { values: values(0.7, 0), sampled: NOW };
    let gone = crane_values(&NodeLoad::default(), &LoadSettings::default(), 0);
    for (rule, values, before, after, due) in [
        ("never written", values(0.7, 0), None, 0, true),
        ("no newer sample", values(0.9, 9), Some(&written), 0, false),
        ("an older one, of another exporter", values(0.9, 9), Some(&written), -60, false),
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
