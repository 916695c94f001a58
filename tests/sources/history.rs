use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll::recommender::sources::{Progress, Prometheus, PrometheusOptions, Scan, Skipped};

use crate::support::{Asked, Kept, Reply, SECOND, Server, keep, kept};

/// 2026-03-01T10:00:00Z
const TEN: i64 = 1_772_359_200;
const STEP: i64 = 300;

fn options(server: &Server) -> PrometheusOptions {
    PrometheusOptions {
        timeout: Duration::from_secs(5),
        history_chunk: Duration::from_secs(3600),
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(2),
        ..PrometheusOptions::new(server.url())
    }
}

async fn history(
    options: PrometheusOptions,
    names: &[&str],
    from: i64,
    to: i64,
) -> (Vec<Kept>, Scan, Vec<Progress>) {
    let source = Prometheus::new(options).unwrap();
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    // Spawned, as the loop will do: the future must be fit for that.
    tokio::spawn(async move {
        let (mut all, mut progress) = (Vec::new(), Vec::new());
        let scan = source
            .history(&names, from * SECOND, to * SECOND, &mut keep(&mut all), &mut |state| {
                progress.push(state);
            })
            .await;
        assert_eq!(scan.samples, all.len() as u64);
        let mut last: BTreeMap<&str, i64> = BTreeMap::new();
        for sample in &all {
            let before = last.insert(&sample.name, sample.nanos);
            assert!(before.is_none_or(|before| before < sample.nanos), "times rise: {sample:?}");
        }
        (all, scan, progress)
    })
    .await
    .unwrap()
}

/// The namespaces that a call is about, of those there are.
fn namespaces(asked: &Asked, there_are: &[&str]) -> Vec<String> {
    let query = asked.get("query");
    let regex = query.split("namespace=~\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or(".+");
    let wanted = |name: &str| regex == ".+" || regex.split('|').any(|one| one == name);
    there_are.iter().filter(|name| wanted(name)).map(|name| (*name).to_owned()).collect()
}

fn seconds(asked: &Asked, name: &str) -> i64 {
    asked.get(name).split('.').next().unwrap().parse().unwrap()
}

fn steps(asked: &Asked) -> i64 {
    (seconds(asked, "end") - seconds(asked, "start")) / seconds(asked, "step") + 1
}

/// One pod in each namespace, with a value for each step: the time for memory, its thousandth for CPU.
fn matrix(asked: &Asked, there_are: &[&str]) -> Reply {
    let mut series = Vec::new();
    for name in namespaces(asked, there_are) {
        let mut values = String::new();
        for n in 0..steps(asked) {
            let time = seconds(asked, "start") + n * seconds(asked, "step");
            let comma = if n == 0 { "" } else { "," };
            let value = if asked.is_cpu() { format!("{time}e-3") } else { time.to_string() };
            let _ = write!(values, r#"{comma}[{time},"{value}"]"#);
        }
        series.push(format!(
            r#"{{"metric":{{"namespace":"{name}","pod":"p","container":"c"}},"values":[{values}]}}"#
        ));
    }
    Reply::ok(format!(
        r#"{{"status":"success","data":{{"resultType":"matrix","result":[{}]}}}}"#,
        series.join(",")
    ))
}

/// What there is of these namespaces.
fn expected(names: &[&str], from: i64, to: i64) -> BTreeSet<String> {
    let of = |name: &&str| {
        let name = format!("{name}/p/c");
        let times = (from..=to).step_by(usize::try_from(STEP).unwrap());
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let sample =
            move |time: i64| format!("{:?}", kept(&name, time, Some(time as f64 / 1e3), Some(time as f64)));
        times.map(sample)
    };
    names.iter().flat_map(of).collect()
}

fn found(all: &[Kept]) -> BTreeSet<String> {
    all.iter().map(|sample| format!("{sample:?}")).collect()
}

#[tokio::test]
async fn all_of_it_comes_once_in_pieces() {
    const ALL: &[&str] = &["a", "b", "c"];
    let server = Server::start(|asked| matrix(asked, ALL)).await;
    let to = TEN + 9000;
    let (all, scan, progress) = history(options(&server), &["a", "c"], TEN, to).await;
    assert_eq!(found(&all), expected(&["a", "c"], TEN, to));
    assert_eq!((all.len(), scan.skipped, scan.failures.len()), (62, Skipped::default(), 0));
    let asked = server.asked();
    assert_eq!(asked.len(), 6, "12 steps in each of 3 chunks, for both queries");
    for call in &asked {
        assert_eq!((&*call.path, call.get("step")), ("/api/v1/query_range", "300.000"));
        assert!(call.get("query").contains(r#"namespace=~"a|c""#) && steps(call) <= 12, "{call:?}");
    }
    let last = progress.last().unwrap();
    assert_eq!((progress.len(), last.namespaces, last.samples, last.until), (3, 2, 62, to * SECOND));
    let percent: Vec<u64> = progress.iter().map(|state| state.percent).collect();
    assert_eq!(percent, [38, 77, 100], "12, 24 and 31 steps of 31");
}

#[tokio::test]
async fn a_query_without_a_place_for_namespaces_is_split_by_time_only() {
    let server = Server::start(|asked| matrix(asked, &["a", "b"])).await;
    let options = PrometheusOptions {
        cpu_query: "rate(cpu[5m])".into(),
        memory_query: "memory{namespace=~\"$namespace\"}".into(),
        ..options(&server)
    };
    let (all, _, progress) = history(options, &["a"], TEN, TEN + 3600).await;
    assert_eq!(found(&all), expected(&["a"], TEN, TEN + 3600), "others' samples are not delivered");
    assert_eq!(server.asked().len(), 4);
    assert_eq!(progress.last().unwrap().namespaces, 1);
}

#[tokio::test]
async fn nothing_is_asked_for_nothing() {
    let server = Server::start(|asked| matrix(asked, &["a"])).await;
    for (rule, names, from, to) in [
        ("no namespaces", &[][..], TEN, TEN + 3600),
        ("a name that is none", &["a\"} or up{"][..], TEN, TEN + 3600),
        ("no time", &["a"][..], TEN + 1, TEN + 299),
        ("time that goes back", &["a"][..], TEN, TEN - 3600),
    ] {
        let (_, scan, _) = history(options(&server), names, from, to).await;
        assert_eq!((scan, server.asked().len()), (Scan::default(), 0), "{rule}");
    }
}

#[tokio::test]
async fn what_is_too_much_is_asked_for_in_halves() {
    const ALL: &[&str] = &["a", "b", "c", "d", "e"];
    let error = |kind: &str, message: &str| {
        format!(r#"{{"status":"error","errorType":"{kind}","error":"{message}"}}"#)
    };
    for (rule, code, body) in [
        (
            "too many samples",
            422,
            error("execution", "query processing would load too many samples into memory"),
        ),
        ("too long", 503, error("timeout", "query timed out in expression evaluation")),
        ("too fine", 400, error("bad_data", "exceeded maximum resolution of 11,000 points per timeseries")),
        ("too large for a proxy", 413, "too large".to_owned()),
        ("too long for a proxy", 504, "<html>".to_owned()),
    ] {
        let server = Server::start(move |asked| {
            let much = i64::try_from(namespaces(asked, ALL).len()).unwrap() * steps(asked) > 7;
            if much && !asked.is_cpu() { Reply::status(code, body.clone()) } else { matrix(asked, ALL) }
        })
        .await;
        let (all, scan, _) = history(options(&server), ALL, TEN, TEN + 7200).await;
        assert_eq!(found(&all), expected(ALL, TEN, TEN + 7200), "{rule}");
        assert_eq!((all.len(), scan.failures.len()), (25 * 5, 0), "{rule}: none twice");
    }
}

#[tokio::test]
async fn an_answer_beyond_the_limit_is_asked_for_in_halves() {
    let server = Server::start(|asked| match steps(asked) {
        1..=3 => matrix(asked, &["a"]),
        _ => Reply::ok(" ".repeat(33 << 20)),
    })
    .await;
    let (all, scan, _) = history(options(&server), &["a"], TEN, TEN + 3300).await;
    assert_eq!((found(&all), scan.failures.len()), (expected(&["a"], TEN, TEN + 3300), 0));
}

#[tokio::test]
async fn a_namespace_that_is_too_much_does_not_stop_the_others() {
    const ALL: &[&str] = &["a", "b", "c"];
    let server = Server::start(|asked| {
        if namespaces(asked, ALL).contains(&"b".to_owned()) {
            Reply::status(422, r#"{"status":"error","errorType":"execution","error":"too many samples"}"#)
        } else {
            matrix(asked, ALL)
        }
    })
    .await;
    let (all, scan, progress) = history(options(&server), ALL, TEN, TEN + 3600).await;
    assert_eq!(found(&all), expected(&["a", "c"], TEN, TEN + 3600));
    assert_eq!(scan.failures.len(), 1);
    assert_eq!(scan.failures[0].scope, "history of namespace b");
    assert!(scan.failures[0].message.contains("too many samples"), "{scan:?}");
    assert_eq!(progress.last().unwrap().namespaces_done, 2);
}

#[tokio::test]
async fn what_is_only_for_a_time_is_asked_again() {
    for (rule, reply) in [
        (
            "too many calls",
            (|| Reply::Answer(429, vec![("retry-after", "0".into())], String::new())) as fn() -> Reply,
        ),
        ("overloaded", || Reply::status(503, "try later")),
        ("broken inside", || Reply::status(500, "boom")),
        ("cut off", || Reply::CutOff("{".into())),
    ] {
        let calls = AtomicUsize::new(0);
        let server = Server::start(move |asked| match calls.fetch_add(1, Ordering::Relaxed) % 3 {
            2 => matrix(asked, &["a"]),
            _ => reply(),
        })
        .await;
        let (all, scan, _) = history(options(&server), &["a"], TEN, TEN + 7200).await;
        assert_eq!((found(&all), scan.failures.len()), (expected(&["a"], TEN, TEN + 7200), 0), "{rule}");
    }
}

#[tokio::test]
async fn what_stays_broken_is_given_up() {
    let names: Vec<String> = (0..200).map(|n| format!("n{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (rule, reply, most) in [
        ("a query that is none", (|| Reply::status(400, r#"{"error":"parse error"}"#)) as fn() -> Reply, 3),
        ("no right", || Reply::status(403, "no"), 3),
        ("HTML", || Reply::ok("<html>"), 3),
        ("always broken inside", || Reply::status(500, "boom"), 12),
        (
            "a long pause that is asked for",
            || Reply::Answer(503, vec![("retry-after", "900".into())], String::new()),
            3,
        ),
        (
            "an instant instead of a range",
            || Reply::ok(r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#),
            3,
        ),
        ("always too much", || Reply::status(422, "too many samples"), 14),
    ] {
        let server = Server::start(move |_| reply()).await;
        let (all, scan, _) = history(options(&server), &names, TEN, TEN + 7200).await;
        assert!(all.is_empty() && scan.failed(), "{rule}");
        assert_eq!(server.asked().len(), most, "{rule}");
        let last = scan.failures.last().unwrap();
        assert!(last.message.contains("given up, without the history of"), "{rule}: {last}");
    }
}

#[tokio::test]
async fn what_cannot_be_used_never_fails_the_load() {
    let server = Server::start(|asked| {
        let start = seconds(asked, "start");
        let named = r#""metric":{"namespace":"a","pod":"p","container":"c"}"#;
        Reply::ok(format!(
            r#"{{"status":"success","data":{{"resultType":"matrix","result":[
            {{"metric":{{"namespace":"a"}},"values":[[{start},"1"],[{},"NaN"]]}},
            {{{named},"values":[[{start},"NaN"],[{},"2"],[{},"+Inf"],[{},"-3"]]}},
            {{{named},"values":[[{},"7"],[{},"8"]]}},
            {{{named},"histograms":[[{start},{{}}]]}}
            ]}}}}"#,
            start + 300,
            start + 300,
            start + 600,
            start + 900,
            start + 300,
            start + 1200,
        ))
    })
    .await;
    let (all, scan, _) = history(options(&server), &["a"], TEN, TEN + 3300).await;
    assert_eq!(
        all,
        [kept("a/p/c", TEN + 300, Some(7.0), Some(7.0)), kept("a/p/c", TEN + 1200, Some(8.0), Some(8.0)),],
        "two series of one container make one, with the greatest of each time"
    );
    assert_eq!(
        scan.skipped,
        Skipped { missing_labels: 2, not_finite: 6, invalid: 2, no_value: 2, duplicate: 2 },
        "of two answers"
    );
    assert!(scan.failures.is_empty());
}
