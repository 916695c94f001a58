use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll::placement::load::{LoadOptions, LoadQueries};
use plimsoll_core::placement::{LoadSettings, Metric, NodeResource, Settings};

use crate::support::{Reply, SECOND, Server};
use crate::world::{Answers, World, exporters, now, objects, options, queries, series, vector};

/// Answers each mean of `nodes`: 0.1 for CPU over the first window, and a hundredth more with each.
fn all_means(answers: &Answers, nodes: &[&str]) {
    for (number, metric) in ["cpu", "memory", "disk", "load"].into_iter().enumerate() {
        for (place, window) in ["15m", "1h", "1d"].into_iter().enumerate() {
            let value = [0.1, 0.2, 0.3, 1.5][number] + [0.0, 0.01, 0.02][place];
            let values: Vec<_> = nodes.iter().map(|node| (*node, value)).collect();
            answers.set(&format!("{metric} {window}"), exporters(&values));
        }
    }
}

#[tokio::test]
async fn every_mean_has_its_place() {
    let mut world = World::new(&["n1", "n2"]).await;
    all_means(&world.answers, &["n1", "n2"]);
    world.answers.set_ages(&[("n1", 10.0), ("n2", 20.0)]);
    world.look(0).await;
    assert_eq!(world.nodes(), ["n1", "n2"]);
    for (metric, first) in
        [(Metric::Cpu, 0.1), (Metric::Memory, 0.2), (Metric::Disk, 0.3), (Metric::Load, 1.5)]
    {
        for (place, more) in [0.0, 0.01, 0.02].into_iter().enumerate() {
            assert_eq!(world.mean("n1", place, metric), Some(first + more), "{metric} {place}");
        }
    }
    let node = world.node("n2").unwrap();
    assert_eq!(node.sampled, now(0) - 20 * SECOND);
    assert_eq!(node.totals.get(NodeResource::Cpu), Some(4.0), "the raw capacity, not what is allocatable");
    assert_eq!(node.totals.get(NodeResource::Memory), Some(8e9));
    assert_eq!(world.state.load.load().taken, now(0));
    let asked = world.server.asked();
    assert_eq!(asked.len(), 13, "four metrics, three windows, and times");
    assert!(
        asked.iter().all(|call| call.path == "/api/v1/query" && !call.form.contains_key("time")),
        "{asked:?}"
    );
    assert_eq!(world.counted("load_nodes{state=\"fresh\"}"), 2.0);
    assert!(world.counted("load_age_seconds{of=\"nodes\",source=\"prometheus\"}") < 60.0);
    assert_eq!(world.counted("load_refresh_duration_seconds_count{of=\"nodes\"}"), 1.0);
}

#[tokio::test]
async fn nodes_are_found_by_their_labels() {
    let mut world = World::new(&["n1", "n2", "n3", "n4"]).await;
    world.answers.set_ages(&[("n1", 1.0), ("n2", 1.0), ("n3", 1.0), ("n4", 1.0)]);
    world.answers.set(
        "cpu 15m",
        vector(&[
            series(&[("instance", "10.0.0.0:9100"), ("job", "x")], "0.1"),
            series(&[("instance", "10.244.7.9:9100"), ("node", "n2")], "0.2"),
            series(&[("instance", "10.0.0.0:9100"), ("nodename", "n3")], "0.3"),
            series(&[("node", "exporter-5"), ("instance", "n4")], "0.4"),
            series(&[("instance", "10.9.9.9:9100")], "0.9"),
            series(&[("job", "node")], "0.9"),
            series(&[], "0.9"),
        ]),
    );
    world.look(0).await;
    for (node, value) in [("n1", 0.1), ("n2", 0.2), ("n3", 0.3), ("n4", 0.4)] {
        assert_eq!(world.mean(node, 0, Metric::Cpu), Some(value), "{node}");
    }
    assert_eq!(world.counted("load_samples_dropped_total{reason=\"unknown_node\"}"), 3.0);
}

#[tokio::test]
async fn nodes_come_and_go() {
    let mut world = World::new(&["n1", "n2"]).await;
    let means = |world: &World, nodes: &[(&str, f64)]| world.answers.set("cpu 15m", exporters(nodes));
    means(&world, &[("n1", 0.1), ("n2", 0.2)]);
    world.answers.set_ages(&[("n1", 5.0), ("n2", 5.0)]);
    world.look(0).await;
    assert_eq!(world.nodes(), ["n1", "n2"]);

    // A third comes, and says something at once.
    world.state.objects.store(Arc::new(objects(&["n1", "n2", "n3"])));
    means(&world, &[("n1", 0.1), ("n2", 0.2), ("n3", 0.3)]);
    world.answers.set_ages(&[("n1", 5.0), ("n2", 5.0), ("n3", 5.0)]);
    world.look(30).await;
    assert_eq!(world.nodes(), ["n1", "n2", "n3"]);

    // n2's exporter is dead. Its mean over the window is still answered, and its time is soon not any more.
    world.answers.set_ages(&[("n1", 5.0), ("n2", 290.0), ("n3", 5.0)]);
    world.look(60).await;
    assert_eq!(world.nodes(), ["n1", "n2", "n3"], "not yet older than five minutes");
    world.answers.set_ages(&[("n1", 5.0), ("n3", 5.0)]);
    world.look(70).await;
    assert_eq!(world.nodes(), ["n1", "n2", "n3"], "the last time that is known counts");
    world.look(90).await;
    assert_eq!(world.nodes(), ["n1", "n3"]);
    assert_eq!(world.counted("load_nodes{state=\"without\"}"), 1.0);
    world.answers.set_ages(&[("n1", 5.0), ("n2", 400.0), ("n3", 5.0)]);
    world.look(120).await;
    assert_eq!(world.nodes(), ["n1", "n3"], "told again, and too old");
    assert!(world.counted("load_samples_dropped_total{reason=\"stale\"}") >= 1.0);

    // n3 is deleted; Prometheus does not know yet.
    world.state.objects.store(Arc::new(objects(&["n1", "n2"])));
    world.look(150).await;
    assert_eq!(world.nodes(), ["n1"]);

    // n2 is back.
    world.answers.set_ages(&[("n1", 5.0), ("n2", 1.0)]);
    world.look(180).await;
    assert_eq!(world.nodes(), ["n1", "n2"]);
}

#[tokio::test]
async fn long_windows_are_asked_for_less_often() {
    let mut world = World::new(&["n1"]).await;
    all_means(&world.answers, &["n1"]);
    world.answers.set_ages(&[("n1", 1.0)]);
    // An hour, and by how much each question is asked at most at one look after the first.
    let mut days_at_once = 0;
    for look in 0..120 {
        let before = world.server.asked().len();
        world.look(30 * look).await;
        let asked = world.server.asked();
        let days = asked.iter().skip(before).filter(|call| call.get("query").ends_with(" 1d")).count();
        if look == 0 {
            assert_eq!(days, 4, "all is asked at the first look");
        } else {
            days_at_once = days_at_once.max(days);
        }
    }
    assert_eq!(days_at_once, 1, "and then not all at once");
    let asked = world.server.asked();
    let count = |query: &str| asked.iter().filter(|call| call.get("query") == query).count();
    // Periods begin by chance.
    for (query, expected) in
        [("time", 120..=120), ("cpu 15m", 120..=120), ("cpu 1h", 60..=61), ("cpu 1d", 4..=5)]
    {
        assert!(expected.contains(&count(query)), "{query}: {}", count(query));
    }
    assert_eq!(world.mean("n1", 2, Metric::Cpu), Some(0.1 + 0.02), "the last answer counts meanwhile");
}

#[tokio::test]
async fn a_window_without_an_answer_is_missing() {
    let answers = Answers::default();
    let (known, failing) = (answers.clone(), Arc::new(AtomicBool::new(false)));
    let fails = Arc::clone(&failing);
    let server = Server::start(move |asked| {
        if asked.get("query") == "cpu 1d" && fails.load(Ordering::SeqCst) {
            return Reply::status(422, "query processing would load too many samples into memory");
        }
        known.answer(asked)
    })
    .await;
    let mut world = World::with(server, answers, &["n1"], options());
    all_means(&world.answers, &["n1"]);
    world.answers.set_ages(&[("n1", 1.0)]);
    world.look(0).await;
    let missing =
        |world: &World, window: &str| world.counted(&format!("load_missing_means{{window=\"{window}\"}}"));
    assert_eq!((missing(&world, "15m"), missing(&world, "1d")), (0.0, 0.0));
    failing.store(true, Ordering::SeqCst);
    // Twice a quarter of an hour, and five minutes.
    for (seconds, expected, count) in [(1_000, true, 0.0), (2_090, true, 0.0), (2_110, false, 1.0)] {
        world.look(seconds).await;
        assert_eq!(world.mean("n1", 2, Metric::Cpu).is_some(), expected, "after {seconds} s");
        assert_eq!(missing(&world, "1d"), count, "after {seconds} s");
        assert!(world.mean("n1", 0, Metric::Cpu).is_some(), "the others are known");
    }
    assert_eq!(missing(&world, "15m"), 0.0);
    failing.store(false, Ordering::SeqCst);
    world.look(4_000).await;
    assert_eq!(missing(&world, "1d"), 0.0, "it is back");
    // Answers without any series are none either.
    world.answers.set("disk 15m", vector(&[]));
    world.look(4_030).await;
    assert_eq!(missing(&world, "15m"), 1.0);
}

#[tokio::test]
async fn free_disks_are_asked_for_where_workloads_have_weights() {
    let answers = Answers::default();
    let known = answers.clone();
    let server = Server::start(move |asked| known.answer(asked)).await;
    let queries = LoadQueries { idle_disk: Some("free".to_owned()), ..queries() };
    let mut world = World::with(server, answers, &["n1", "n2", "n3"], LoadOptions { queries, ..options() });
    let mut settings = Settings::default();
    settings.policies.weights = 1.0;
    world.state.settings.store(Arc::new(settings));
    let all = [("n1", 0.1), ("n2", 0.1), ("n3", 0.1)];
    world.answers.set("cpu 15m", exporters(&all));
    world.answers.set("free", exporters(&[("n1", 0.75), ("n2", 1.2)]));
    world.answers.set_ages(&[("n1", 1.0), ("n2", 1.0), ("n3", 1.0)]);
    world.look(0).await;
    for (rule, node, expected) in
        [("told", "n1", Some(0.75)), ("more than there is", "n2", None), ("not told", "n3", None)]
    {
        assert_eq!(world.node(node).unwrap().idle.get(NodeResource::Disk), expected, "{rule}");
    }
}

#[tokio::test]
async fn only_what_is_needed_is_asked_for() {
    let mut world = World::new(&["n1"]).await;
    let load = LoadSettings { metrics: vec![(Metric::Network, 1.0)], ..LoadSettings::default() };
    world.state.settings.store(Arc::new(Settings { load, ..Settings::default() }));
    world.answers.set("network 1h", exporters(&[("n1", 0.7)]));
    world.answers.set_ages(&[("n1", 1.0)]);
    world.look(0).await;
    assert_eq!(world.mean("n1", 1, Metric::Network), Some(0.7));
    let asked = world.server.asked();
    let mut names: Vec<_> = asked.iter().filter_map(|call| call.get("query").split(' ').next()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["cpu", "memory", "network", "time"]);
}

#[tokio::test]
async fn totals_are_asked_for_where_they_are_wanted() {
    let answers = Answers::default();
    let known = answers.clone();
    let server = Server::start(move |asked| known.answer(asked)).await;
    let queries = LoadQueries {
        total_bandwidth: Some("bandwidth".to_owned()),
        total_disk: Some("size".to_owned()),
        ..queries()
    };
    let mut world = World::with(server, answers, &["n1", "n2"], LoadOptions { queries, ..options() });
    world.answers.set("cpu 15m", exporters(&[("n1", 0.1), ("n2", 0.1)]));
    world.answers.set("bandwidth", exporters(&[("n1", 1e9), ("n2", 0.0)]));
    world.answers.set("size", exporters(&[("n1", 5e11)]));
    world.answers.set_ages(&[("n1", 1.0), ("n2", 1.0)]);
    world.look(0).await;
    let of = |node: &str| {
        let totals = world.node(node).unwrap().totals;
        (totals.get(NodeResource::Bandwidth), totals.get(NodeResource::Disk))
    };
    assert_eq!(of("n1"), (Some(1e9), Some(5e11)));
    assert_eq!(of("n2"), (None, None), "of nothing there is no share");
}

#[tokio::test]
async fn without_a_query_for_times_answers_are_of_the_time_they_are_asked_for() {
    let answers = Answers::default();
    let known = answers.clone();
    let server = Server::start(move |asked| known.answer(asked)).await;
    let queries = LoadQueries { time: None, ..queries() };
    let mut world = World::with(server, answers, &["n1", "n2"], LoadOptions { queries, ..options() });
    world.answers.set("cpu 15m", exporters(&[("n1", 0.1)]));
    world.look(0).await;
    assert_eq!(world.node("n1").unwrap().sampled, now(0));
    assert_eq!(world.nodes(), ["n1"]);
}

/// The size that is promised; what it costs is benchmarked.
#[tokio::test]
async fn five_thousand_nodes() {
    let names: Vec<String> = (0..5_000).map(|number| format!("node-{number:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let answers = Answers::default();
    all_means(&answers, &names);
    let ages: Vec<_> = names.iter().map(|name| (*name, 3.0)).collect();
    answers.set_ages(&ages);
    let known = answers.clone();
    let server = Server::start(move |asked| known.answer(asked)).await;
    let mut world = World::with(server, answers, &names, options());
    world.look(0).await;
    assert_eq!(world.state.load.load().nodes.len(), 5_000);
    assert_eq!(world.mean("node-4999", 2, Metric::Disk), Some(0.32));
    assert_eq!(world.counted("load_nodes{state=\"without\"}"), 0.0);
}

#[tokio::test]
async fn many_replicas_of_prometheus_tell_of_the_same_node() {
    let mut world = World::new(&["n1"]).await;
    world.answers.set_ages(&[("n1", 1.0)]);
    let of = |replica: &'static str, value| series(&[("instance", "n1:9100"), ("replica", replica)], value);
    world.answers.set("cpu 15m", vector(&[of("a", "0.3"), of("b", "0.5"), of("c", "0.4")]));
    world.look(0).await;
    assert_eq!(world.mean("n1", 0, Metric::Cpu), Some(0.5), "the greatest counts");
    assert_eq!(world.counted("load_samples_dropped_total{reason=\"duplicate\"}"), 2.0);
}

#[tokio::test]
async fn a_look_before_nodes_are_known_is_harmless() {
    let mut world = World::new(&[]).await;
    world.answers.set("cpu 15m", exporters(&[("n1", 0.1)]));
    world.answers.set_ages(&[("n1", 1.0)]);
    world.look(0).await;
    assert!(world.nodes().is_empty());
}
