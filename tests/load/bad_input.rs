use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll::placement::load::LoadOptions;
use plimsoll_core::placement::Metric;

use crate::support::{Reply, Server};
use crate::world::{Answers, TEN, World, exporters, options, series, vector};

/// A value of one node's CPU, and what becomes of it.
#[tokio::test]
async fn samples_that_cannot_be_true() {
    for (rule, value, expected, reason) in [
        ("a share", "0.5", Some(0.5), None),
        ("a little above 1", "1.04", Some(1.04), None),
        ("far above 1", "1.06", None, Some("too_great")),
        ("NaN", "NaN", None, Some("not_a_number")),
        ("infinite", "+Inf", None, Some("infinite")),
        ("negative and infinite", "-Inf", None, Some("infinite")),
        ("negative", "-0.01", None, Some("negative")),
        ("no number", "much", None, Some("not_a_number")),
        ("nothing", "", None, Some("not_a_number")),
    ] {
        let mut world = World::new(&["n1"]).await;
        world.answers.set_ages(&[("n1", 1.0)]);
        world.answers.set("cpu 15m", vector(&[series(&[("instance", "n1:9100")], value)]));
        world.answers.set("cpu 1h", exporters(&[("n1", 0.25)]));
        world.look(0).await;
        assert_eq!(world.mean("n1", 0, Metric::Cpu), expected, "{rule}");
        assert_eq!(world.mean("n1", 1, Metric::Cpu), Some(0.25), "{rule}: the other windows bridge it");
        if let Some(reason) = reason {
            let series = format!("load_samples_dropped_total{{reason=\"{reason}\"}}");
            assert_eq!(world.counted(&series), 1.0, "{rule}");
        }
    }
}

#[tokio::test]
async fn a_load_average_is_not_bounded() {
    let mut world = World::new(&["n1"]).await;
    world.answers.set_ages(&[("n1", 1.0)]);
    world.answers.set("load 15m", exporters(&[("n1", 37.5)]));
    world.look(0).await;
    assert_eq!(world.mean("n1", 0, Metric::Load), Some(37.5));
}

#[tokio::test]
async fn clocks_that_do_not_agree() {
    // Prometheus answers for ten o'clock, and that is what ages are counted from.
    for (rule, ours, age, expected) in [
        ("ours is an hour ahead", 3_600, 10.0, true),
        ("ours is an hour behind", -3_600, 10.0, true),
        ("ours is behind, and the sample is old", -3_600, 400.0, false),
        ("a sample a little in the future", 0, -60.0, true),
        ("a sample far in the future", 0, -400.0, false),
    ] {
        let mut world = World::new(&["n1"]).await;
        world.answers.set("cpu 15m", exporters(&[("n1", 0.5)]));
        world.answers.set_ages(&[("n1", age)]);
        world.look(ours).await;
        assert_eq!(world.node("n1").is_some(), expected, "{rule}");
        if let Some(node) = world.node("n1") {
            assert!(node.sampled <= crate::world::now(ours), "{rule}");
        }
    }
    let mut world = World::new(&["n1"]).await;
    world.answers.set("cpu 15m", exporters(&[("n1", 0.5)]));
    world.answers.set_ages(&[("n1", -400.0)]);
    world.look(0).await;
    assert_eq!(world.counted("load_samples_dropped_total{reason=\"future\"}"), 1.0);
    for value in ["NaN", "1e300", "-1e300", "yesterday"] {
        world.answers.set("time", vector(&[series(&[("instance", "n1")], value)]));
        world.look(30).await;
        assert!(world.nodes().is_empty(), "{value}");
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_keeps_nothing_from_being_asked() {
    let mut world = World::new(&["n1"]).await;
    world.answers.set("cpu 1d", exporters(&[("n1", 0.5)]));
    world.answers.set_ages(&[("n1", 1.0)]);
    world.look(0).await;
    world.answers.set("cpu 1d", exporters(&[("n1", 0.7)]));
    world.look(-7_200).await;
    assert_eq!(world.mean("n1", 2, Metric::Cpu), Some(0.7));
}

type Bad = (&'static str, Box<dyn Fn() -> Reply + Send + Sync>);

fn bad_answers() -> Vec<Bad> {
    let error = r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#;
    vec![
        ("an error of PromQL", Box::new(move || Reply::status(400, error))),
        ("an error with a good status", Box::new(move || Reply::ok(error))),
        ("HTML", Box::new(|| Reply::ok("<!DOCTYPE html><title>Sign in</title>"))),
        ("nothing", Box::new(|| Reply::ok(""))),
        ("another JSON", Box::new(|| Reply::ok("[1]"))),
        (
            "a scalar",
            Box::new(|| {
                Reply::ok(format!(
                    r#"{{"status":"success","data":{{"resultType":"scalar","result":[{TEN},"1"]}}}}"#
                ))
            }),
        ),
        (
            "a matrix",
            Box::new(|| Reply::ok(r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#)),
        ),
        ("too many calls", Box::new(|| Reply::Answer(429, vec![("retry-after", "1".into())], String::new()))),
        ("overloaded", Box::new(|| Reply::status(503, "down"))),
        ("slow", Box::new(|| Reply::Hang)),
        ("cut off", Box::new(|| Reply::CutOff(exporters(&[("n1", 0.9)])))),
        (
            "cut off, and closed in order",
            Box::new(|| {
                let whole = exporters(&[("n1", 0.9)]);
                Reply::ok(whole[..whole.len() - 2].to_owned())
            }),
        ),
        ("huge", Box::new(|| Reply::ok(" ".repeat((32 << 20) + 1)))),
        ("deep", Box::new(|| Reply::ok("[".repeat(1 << 20)))),
    ]
}

/// One answer is bad, the others are not: they count, and what was known of the bad one counts until it is too old.
#[tokio::test]
async fn a_bad_answer_costs_nothing_but_itself() {
    for (rule, bad) in bad_answers() {
        let answers = Answers::default();
        answers.set("cpu 15m", exporters(&[("n1", 0.5)]));
        answers.set("memory 15m", exporters(&[("n1", 0.25)]));
        answers.set_ages(&[("n1", 1.0)]);
        let (known, failing) = (answers.clone(), Arc::new(AtomicBool::new(false)));
        let fails = Arc::clone(&failing);
        let server = Server::start(move |asked| {
            if asked.get("query") == "cpu 15m" && fails.load(Ordering::SeqCst) {
                return bad();
            }
            known.answer(asked)
        })
        .await;
        let mut world =
            World::with(server, answers, &["n1"], LoadOptions { maximum_age: minutes(5), ..options() });
        world.look(0).await;
        failing.store(true, Ordering::SeqCst);
        world.answers.set("memory 15m", exporters(&[("n1", 0.75)]));
        world.look(30).await;
        assert_eq!(world.mean("n1", 0, Metric::Memory), Some(0.75), "{rule}: others go on");
        assert_eq!(world.mean("n1", 0, Metric::Cpu), Some(0.5), "{rule}: the last answer counts");
        assert_eq!(world.counted("load_query_failures_total{query=\"cpu\"}"), 1.0, "{rule}");
        assert_eq!(world.counted("load_query_failures_total{query=\"memory\"}"), 0.0, "{rule}");
        world.look(400).await;
        assert_eq!(world.mean("n1", 0, Metric::Cpu), None, "{rule}: it is too old now");
        failing.store(false, Ordering::SeqCst);
        world.look(800).await;
        assert_eq!(world.mean("n1", 0, Metric::Cpu), Some(0.5), "{rule}: it is back");
    }
}

fn minutes(minutes: u64) -> std::time::Duration {
    std::time::Duration::from_secs(60 * minutes)
}

/// All answers are bad: the last snapshot stays with its age, and its nodes go when they are too old.
#[tokio::test]
async fn an_outage_leaves_what_was_known_until_it_is_too_old() {
    for (rule, bad) in bad_answers() {
        let answers = Answers::default();
        answers.set("cpu 15m", exporters(&[("n1", 0.5), ("n2", 0.5)]));
        answers.set_ages(&[("n1", 1.0), ("n2", 100.0)]);
        let (known, failing) = (answers.clone(), Arc::new(AtomicBool::new(false)));
        let fails = Arc::clone(&failing);
        let server = Server::start(
            move |asked| {
                if fails.load(Ordering::SeqCst) { bad() } else { known.answer(asked) }
            },
        )
        .await;
        let mut world = World::with(server, answers, &["n1", "n2"], options());
        failing.store(true, Ordering::SeqCst);
        world.look(-1_000).await;
        assert_eq!(world.state.load.load().taken, 0, "{rule}: nothing was ever known");
        failing.store(false, Ordering::SeqCst);
        world.look(0).await;
        assert_eq!(world.nodes(), ["n1", "n2"], "{rule}");
        failing.store(true, Ordering::SeqCst);
        world.look(60).await;
        assert_eq!(world.nodes(), ["n1", "n2"], "{rule}");
        assert_eq!(world.state.load.load().taken, crate::world::now(0), "{rule}: its age shows");
        world.look(250).await;
        assert_eq!(world.nodes(), ["n1"], "{rule}: one is too old");
        world.look(350).await;
        assert!(world.nodes().is_empty(), "{rule}: all are");
        failing.store(false, Ordering::SeqCst);
        world.look(700).await;
        assert_eq!(world.nodes(), ["n1", "n2"], "{rule}: it is back");
    }
}

/// A source that fails is asked less often, and not before it wants to be.
#[tokio::test]
async fn a_failing_source_is_left_alone_for_a_while() {
    let server =
        Server::start(|_| Reply::Answer(429, vec![("retry-after", "200".into())], String::new())).await;
    let mut world = World::with(server, Answers::default(), &["n1"], options());
    world.look(0).await;
    let first = world.server.asked().len();
    assert_eq!(first, 13);
    for seconds in [30, 60, 90, 120, 150, 180] {
        world.look(seconds).await;
    }
    assert_eq!(world.server.asked().len(), first, "it asked for 200 seconds");
    world.look(201).await;
    assert_eq!(world.server.asked().len(), 2 * first);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_failure() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::start(|_| Reply::ok("")).await;
    let url = format!("http://{closed}");
    let mut world = World::at(&url, server, Answers::default(), &["n1"], options());
    world.look(0).await;
    assert!(world.nodes().is_empty());
    assert_eq!(world.counted("load_query_failures_total{query=\"time\"}"), 1.0);
}
