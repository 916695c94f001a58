//! What a scheduler was told counts until a watch tells more.

use plimsoll_core::objects::Objects;
use plimsoll_core::placement::{
    Answered, Expected, FloodForm, Incoming, Placed, PlacedPod, View, score, workload_key,
};
use plimsoll_core::pod::Pruned;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{FOUR, NOW, SECOND, World, bound, four, near, with_resources};

/// A pod of StatefulSet web that waits for a node.
fn waiting(name: &str) -> Value {
    let mut pod = bound(name, "web", "", 0);
    pod["spec"].as_object_mut().unwrap().remove("nodeName");
    pod["status"] = json!({"phase": "Pending"});
    pod
}

fn incoming(pod: &Value) -> Incoming {
    Incoming::read(&Pruned::of_placed(pod), &Objects::default())
}

fn read(pod: &Value) -> PlacedPod {
    PlacedPod::read(pod, &Objects::default()).unwrap()
}

fn with(mut pod: Value, path: &str, key: &str, value: Value) -> Value {
    pod.pointer_mut(path).unwrap()[key] = value;
    pod
}

fn answer(placed: &mut Placed, pod: &Value, node: &str, ago: i64) {
    placed.note_answer(&incoming(pod), node, NOW - ago * SECOND);
}

/// How many are expected on n1 and n2, beside those that were seen there.
fn expected(placed: &Placed) -> (u32, u32) {
    let web = workload_key("shop/StatefulSet/web").unwrap();
    let expected = placed.answered().expected(NOW, 60 * SECOND, "", &web);
    let on = |node: &str| expected.get(node).copied().unwrap_or_default().pods;
    (on("n1"), on("n2"))
}

#[test]
fn an_answer_counts_until_it_is_settled() {
    type Change = fn(&mut Placed);
    let rows: [(&str, Change, (u32, u32)); 19] = [
        ("nothing more", |_| (), (1, 0)),
        ("it is seen waiting", |p| p.put(read(&waiting("a"))), (1, 0)),
        ("bound there", |p| p.put(read(&bound("a", "web", "n1", 0))), (0, 0)),
        ("bound elsewhere", |p| p.put(read(&bound("a", "web", "n2", 0))), (0, 0)),
        ("finished", |p| p.put(read(&with(waiting("a"), "/status", "phase", json!("Failed")))), (0, 0)),
        (
            "about to go",
            |p| {
                p.put(read(&with(
                    waiting("a"),
                    "/metadata",
                    "deletionTimestamp",
                    json!("2026-03-01T10:00:00Z"),
                )));
            },
            (0, 0),
        ),
        ("gone before it was seen", |p| p.remove("shop", "a", "a"), (0, 0)),
        (
            "gone, without a uid",
            |p| {
                p.put(read(&waiting("a")));
                p.remove("shop", "a", "");
            },
            (0, 0),
        ),
        ("another one of that name is gone", |p| p.remove("shop", "a", "older"), (1, 0)),
        (
            "another one of that name is bound",
            |p| p.put(read(&with(bound("a", "web", "n1", 0), "/metadata", "uid", json!("older")))),
            (1, 0),
        ),
        ("asked again: another node", |p| answer(p, &waiting("a"), "n2", 1), (0, 1)),
        ("asked again: the same node", |p| answer(p, &waiting("a"), "n1", 1), (1, 0)),
        ("an older answer that comes late", |p| answer(p, &waiting("a"), "n2", 3), (1, 0)),
        ("another pod", |p| answer(p, &waiting("b"), "n1", 1), (2, 0)),
        (
            "told again once it is bound",
            |p| {
                p.put(read(&bound("a", "web", "n1", 0)));
                answer(p, &waiting("a"), "n1", 0);
            },
            (0, 0),
        ),
        ("a pod that is too old", |p| answer(p, &waiting("b"), "n2", Answered::AGE / SECOND), (1, 0)),
        ("of the future, by a clock that was set back", |p| answer(p, &waiting("b"), "n2", -3600), (0, 0)),
        (
            "a pod without a uid",
            |p| answer(p, &with(waiting("b"), "/metadata", "uid", json!("")), "n2", 0),
            (1, 0),
        ),
        (
            "a daemon set's",
            |p| {
                let mut pod = waiting("b");
                pod["metadata"]["ownerReferences"][0]["kind"] = json!("DaemonSet");
                answer(p, &pod, "n2", 0);
            },
            (1, 0),
        ),
    ];
    for (rule, change, want) in rows {
        let mut placed = Placed::listed([]);
        answer(&mut placed, &waiting("a"), "n1", 2);
        change(&mut placed);
        assert_eq!(expected(&placed), want, "{rule}");
    }
}

#[test]
fn a_list_settles_what_it_tells_of() {
    let list = |pods: &[Value]| Placed::listed(pods.iter().map(read));
    for (rule, before, listed, want) in [
        ("not seen yet, in neither", vec![], vec![], (1, 0)),
        ("gone meanwhile", vec![waiting("a")], vec![], (0, 0)),
        ("still waiting", vec![waiting("a")], vec![waiting("a")], (1, 0)),
        ("bound meanwhile", vec![waiting("a")], vec![bound("a", "web", "n2", 0)], (0, 0)),
        ("bound before it was seen", vec![], vec![bound("a", "web", "n1", 0)], (0, 0)),
    ] {
        let mut before = list(&before);
        answer(&mut before, &waiting("a"), "n1", 2);
        let mut after = list(&listed);
        after.keep_answers(&before);
        assert_eq!(expected(&after), want, "{rule}");
    }
}

#[test]
fn expected_pods_cost_what_bound_ones_do() {
    let mut world = World::of(&four());
    let ask = |world: &World, pod: &Value| world.score_of(pod, &FOUR);
    for pod in 0..5 {
        answer(&mut world.placed, &waiting(&format!("p{pod}")), "n2", 1);
    }
    let decision = ask(&world, &waiting("new"));
    assert_eq!(
        (decision.nodes[1].bindings, decision.nodes[1].expected, decision.nodes[1].replicas),
        (5, 5, 5)
    );
    near(decision.nodes[1].score, 70.8, "5 cost nothing");
    world.place(&bound("p9", "other", "n2", 1));
    let decision = ask(&world, &waiting("new"));
    assert_eq!(
        (decision.nodes[1].bindings, decision.nodes[1].expected, decision.nodes[1].replicas),
        (6, 5, 5)
    );
    near(decision.nodes[1].score, 50.8, "6 do");
    let why = decision.nodes[1].why(&decision, &world.settings);
    assert!(
        why.contains("6 pods bound lately (5 of them expected by what was answered), which costs 20"),
        "{why}"
    );
    let decision = ask(&world, &waiting("p0"));
    assert_eq!(
        decision.nodes[1].expected, 4,
        "the pod itself, asked about again, does not stand in its own way"
    );
    world.settings.hot_spot.window = 1;
    assert_eq!(ask(&world, &waiting("new")).nodes[1].expected, 0, "a window that is shorter than they count");
    world.settings.hot_spot.window = 60;
    world.file.bindings = Some([("n2".to_owned(), 1)].into());
    let given = ask(&world, &waiting("new"));
    assert_eq!((given.nodes[1].bindings, given.nodes[1].expected), (1, 0), "bindings that are given are all");
}

#[test]
fn expected_pods_use_what_they_are_expected_to() {
    let mut world = World::of(&four());
    world.put(&json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"},
        "status": {"capacity": {"cpu": "10"}, "allocatable": {"cpu": "10"}},
    }));
    let cpu = |world: &World| {
        world.score(&FOUR).nodes[1].by_metric.get(plimsoll_core::placement::Metric::Cpu).unwrap()
    };
    let before = cpu(&world);
    let pod = with_resources(waiting("a"), &json!({"cpu": "1"}), &json!({}));
    answer(&mut world.placed, &pod, "n2", 1);
    near(cpu(&world) - before, 0.1, "one core of ten");
}

/// A scheduler asks for sixty pods, and no watch tells of anything meanwhile.
#[test]
fn a_burst_spreads_although_nothing_is_seen() {
    for (rule, form, most) in [("fuse", FloodForm::Fuse, 22), ("buffer", FloodForm::Buffer, 40)] {
        let mut world = World::of(&four());
        world.settings.flood.form = form;
        world.settings.flood.pending = 5;
        for pod in 0..60 {
            let mut pod = waiting(&format!("p{pod}"));
            pod["metadata"]["creationTimestamp"] = json!("2026-03-01T09:59:59Z");
            pod["metadata"]["ownerReferences"] = json!([]);
            world.place(&pod);
        }
        let mut on: Vec<u32> = vec![0; 4];
        for pod in 0..60 {
            let pod = incoming(&waiting(&format!("p{pod}")));
            let pod = Incoming {
                shape: incoming(&with(waiting("x"), "/metadata", "ownerReferences", json!([]))).shape,
                ..pod
            };
            let decision = score(&pod, &FOUR, &View { bindings: None, ..world.view() });
            assert!(decision.flood.is_some(), "{rule}");
            let node = decision.likely(&FOUR, &pod.uid).unwrap();
            on[FOUR.iter().position(|name| *name == node).unwrap()] += 1;
            world.placed.note_answer(&pod, node, NOW);
        }
        assert!(on.iter().all(|count| *count <= most), "{rule}: {on:?}");
        if form == FloodForm::Fuse {
            assert!(on.iter().all(|count| (14..=16).contains(count)), "{rule}: {on:?}");
        }
    }
}

#[test]
fn which_node_a_scheduler_is_taken_to_choose() {
    let world = World::of(&four());
    let decision = world.score(&FOUR);
    assert_eq!(decision.likely(&FOUR, "any"), Some("n2"), "the best");
    let none = world.score(&[]);
    assert_eq!(none.likely(&[], "any"), None, "no node");
    let equal = ["x", "y", "z"];
    let decision = world.score(&equal);
    let mut chosen = [0; 3];
    for pod in 0..300 {
        let uid = format!("3f0e1c52-0000-4000-8000-{pod:012}");
        let best = decision.likely(&equal, &uid).unwrap();
        assert_eq!(decision.likely(&equal, &uid), Some(best), "the same pod, the same node");
        chosen[equal.iter().position(|name| *name == best).unwrap()] += 1;
    }
    assert!(chosen.iter().all(|count| (60..=140).contains(count)), "ties are spread: {chosen:?}");
}

#[test]
fn no_more_are_kept_than_may_be() {
    let mut placed = Placed::listed([]);
    for pod in 0..Answered::MOST + 10 {
        let at = NOW + i64::try_from(pod).unwrap();
        placed.note_answer(&incoming(&waiting(&format!("p{pod}"))), "n1", at);
    }
    assert_eq!(placed.answered().len(), Answered::MOST);
    assert!(!placed.answered().is_of("p9") && placed.answered().is_of("p10"), "the oldest go");
    placed.note_answer(&incoming(&waiting("late")), "n1", NOW + Answered::AGE + SECOND);
    assert_eq!(placed.answered().len(), 1, "and what is too old, whenever there is something new");
}

#[derive(Clone, Debug)]
enum Event {
    Answered { pod: u8, node: u8, at: i64 },
    Bound { pod: u8, node: u8 },
    Gone { pod: u8 },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..8_u8, 0..3_u8, 0..20_i64).prop_map(|(pod, node, at)| Event::Answered { pod, node, at }),
        1 => (0..8_u8, 0..3_u8).prop_map(|(pod, node)| Event::Bound { pod, node }),
        1 => (0..8_u8).prop_map(|pod| Event::Gone { pod }),
    ]
}

fn apply(placed: &mut Placed, event: &Event) {
    match event {
        Event::Answered { pod, node, at } => {
            let pod = incoming(&waiting(&format!("p{pod}")));
            placed.note_answer(&pod, &format!("n{node}"), NOW + at * SECOND);
        }
        Event::Bound { pod, node } => {
            placed.put(read(&bound(&format!("p{pod}"), "web", &format!("n{node}"), 0)));
        }
        Event::Gone { pod } => placed.remove("shop", &format!("p{pod}"), &format!("p{pod}")),
    }
}

fn all_expected(placed: &Placed, now: i64) -> Vec<(String, Expected)> {
    let web = workload_key("shop/StatefulSet/web").unwrap();
    let expected = placed.answered().expected(now, i64::MAX, "", &web);
    let mut expected: Vec<_> = expected.into_iter().map(|(node, on)| (node.to_owned(), on)).collect();
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    expected
}

proptest! {
    /// What the watch tells of is not expected besides, whatever came in which order, and each pod is expected once at most.
    #[test]
    fn nothing_counts_twice(events in prop::collection::vec(event(), 0..60)) {
        let mut placed = Placed::listed([]);
        for event in &events {
            apply(&mut placed, event);
            let open = (0..8).filter(|pod| placed.pod("shop", &format!("p{pod}")).is_none());
            let open: Vec<_> = open.map(|pod| format!("p{pod}")).collect();
            let expected: u32 = all_expected(&placed, NOW + 20 * SECOND).iter().map(|(_, on)| on.pods).sum();
            prop_assert!(usize::try_from(expected).unwrap() <= open.len());
            let seen = (0..8).map(|pod| format!("p{pod}")).filter(|pod| !open.contains(pod));
            for pod in seen {
                prop_assert!(!placed.answered().is_of(&pod), "{pod} is seen, and expected as well");
            }
            if let Event::Gone { pod } = event {
                let uid = format!("p{pod}");
                prop_assert!(!placed.answered().is_of(&uid));
            }
        }
    }

    #[test]
    fn nothing_is_left_after_the_age(events in prop::collection::vec(event(), 0..60)) {
        let mut placed = Placed::listed([]);
        for event in &events {
            apply(&mut placed, event);
        }
        let last = NOW + 20 * SECOND + Answered::AGE;
        prop_assert_eq!(all_expected(&placed, last), []);
    }

    /// Answers of several threads, and bindings, may be taken up in any order.
    #[test]
    fn the_order_does_not_matter(
        answers in prop::collection::vec((0..8_u8, 0..3_u8), 0..15),
        bindings in prop::collection::btree_map(0..8_u8, 0..3_u8, 0..4),
        order in any::<prop::sample::Index>(),
        shuffled in Just((0..64_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let answers = answers.iter().zip(0..).map(|((pod, node), at)| Event::Answered { pod: *pod, node: *node, at });
        let mut events: Vec<Event> = answers.collect();
        events.extend(bindings.iter().map(|(pod, node)| Event::Bound { pod: *pod, node: *node }));
        let mut mixed: Vec<_> = events.iter().cloned().enumerate().collect();
        mixed.sort_by_key(|(index, _)| shuffled[*index]);
        let split = order.index(events.len() + 1);
        let (mut one, mut other) = (Placed::listed([]), Placed::listed([]));
        for event in &events {
            apply(&mut one, event);
        }
        for (_, event) in &mixed {
            apply(&mut other, event);
        }
        // A list in between that tells nothing new changes nothing either.
        let mut third = Placed::listed([]);
        for event in &events[..split] {
            apply(&mut third, event);
        }
        let mut listed = Placed::listed(third.pods().map(|pod| PlacedPod::clone(pod)));
        listed.keep_answers(&third);
        for event in &events[split..] {
            apply(&mut listed, event);
        }
        let now = NOW + 14 * SECOND;
        prop_assert_eq!(all_expected(&one, now), all_expected(&other, now));
        prop_assert_eq!(all_expected(&one, now), all_expected(&listed, now));
    }
}
