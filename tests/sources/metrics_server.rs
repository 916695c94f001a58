use std::time::Duration;

use plimsoll::recommender::sources::metrics_server::read_pod_metrics;
use plimsoll::recommender::sources::{MetricsServer, MetricsServerOptions, Scan, Skipped};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Kept, Reply, Server, keep, kept};

/// 2026-03-01T10:00:00Z
const TEN: i64 = 1_772_359_200;

fn source(server: &Server, per_namespace: bool) -> MetricsServer {
    let client = plimsoll::cluster::client(kube::Config::new(server.url().parse().unwrap())).unwrap();
    let timeout = Duration::from_millis(500);
    MetricsServer::new(client, MetricsServerOptions { per_namespace, timeout })
}

async fn scan(source: &MetricsServer) -> (Vec<Kept>, Scan) {
    let mut all = Vec::new();
    let scan = source.scan(&mut keep(&mut all)).await;
    assert_eq!(scan.samples, all.len() as u64);
    all.sort_by(|one, other| one.name.cmp(&other.name));
    (all, scan)
}

fn list(items: &str) -> String {
    format!(
        r#"{{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{{}},"items":[{items}]}}"#
    )
}

fn pod(namespace: &str, containers: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"web-1","namespace":"{namespace}","labels":{{"app":"web"}}}},
        "timestamp":"2026-03-01T10:00:00Z","window":"9.995s","containers":[{containers}]}}"#
    )
}

const APP: &str = r#"{"name":"app","usage":{"cpu":"499953158n","memory":"64Mi"}}"#;

#[test]
fn items_become_samples() {
    let whole = kept("shop/web-1/app", TEN, Some(0.499_953_158), Some(67_108_864.0));
    let none = Skipped::default();
    let app = |usage: &str| list(&pod("shop", &format!(r#"{{"name":"app","usage":{usage}}}"#)));
    for (rule, body, expected, skipped) in [
        ("a whole item", list(&pod("shop", APP)), vec![whole.clone()], none),
        ("no items", list(""), vec![], none),
        ("items as Go writes a list that was never filled", r#"{"items":null}"#.to_owned(), vec![], none),
        (
            "parts in another order",
            format!(
                r#"{{"items":[{{"containers":[{APP}],"timestamp":"2026-03-01T10:00:00Z","metadata":{{"namespace":"shop","name":"web-1"}}}}],"kind":"PodMetricsList"}}"#
            ),
            vec![whole.clone()],
            none,
        ),
        (
            "an absent value is none, not 0",
            app(r#"{"memory":"0"}"#),
            vec![kept("shop/web-1/app", TEN, None, Some(0.0))],
            none,
        ),
        (
            "null is absent",
            app(r#"{"cpu":"1","memory":null}"#),
            vec![kept("shop/web-1/app", TEN, Some(1.0), None)],
            none,
        ),
        (
            "a number is a quantity",
            app(r#"{"cpu":2}"#),
            vec![kept("shop/web-1/app", TEN, Some(2.0), None)],
            none,
        ),
        (
            "a value that is no quantity does not cost the other",
            app(r#"{"cpu":"much","memory":"1k"}"#),
            vec![kept("shop/web-1/app", TEN, None, Some(1000.0))],
            Skipped { invalid: 1, ..none },
        ),
        ("a negative value", app(r#"{"cpu":"-1"}"#), vec![], Skipped { invalid: 1, no_value: 1, ..none }),
        ("a list for a value", app(r#"{"cpu":[1]}"#), vec![], Skipped { invalid: 1, no_value: 1, ..none }),
        ("no usage", app("null"), vec![], Skipped { no_value: 1, ..none }),
        ("no containers", list(&pod("shop", "")), vec![], none),
        (
            "a container without a name",
            list(&pod("shop", &format!(r#"{{"usage":{{"cpu":"1"}}}},{APP}"#))),
            vec![whole.clone()],
            Skipped { missing_labels: 1, ..none },
        ),
        (
            "an item without a namespace",
            list(&format!("{},{}", pod("", APP), pod("shop", APP))),
            vec![whole.clone()],
            Skipped { missing_labels: 1, ..none },
        ),
        (
            "a time that is none",
            list(&format!("{},{}", pod("a", APP).replace("2026-03-01T10:00:00Z", "now"), pod("shop", APP))),
            vec![whole.clone()],
            Skipped { invalid: 1, ..none },
        ),
        ("escapes in names", list(&pod(r"sh\u006fp", APP)), vec![whole.clone()], none),
    ] {
        let (mut all, mut counted) = (Vec::new(), none);
        let samples = read_pod_metrics(body.as_bytes(), &mut counted, &mut keep(&mut all)).unwrap();
        assert_eq!((samples, &all), (expected.len() as u64, &expected), "{rule}");
        assert_eq!(counted, skipped, "{rule}");
    }
}

#[tokio::test]
async fn one_call_brings_all() {
    let server = Server::start(|_| Reply::ok(list(&pod("shop", APP)))).await;
    let (all, scan) = scan(&source(&server, false)).await;
    assert_eq!((all.len(), scan.failures.len()), (1, 0));
    assert_eq!(server.asked()[0].path, "/apis/metrics.k8s.io/v1beta1/pods");
}

/// Rule, answer, words of the message, and the pause that is asked for.
type Case = (&'static str, Box<dyn Fn() -> Reply + Send + Sync>, &'static [&'static str], Option<u64>);

#[tokio::test]
async fn failures_say_what_can_be_done() {
    let status = |code: u16, message: &str| {
        Reply::status(
            code,
            json!({"kind": "Status", "status": "Failure", "message": message, "code": code}).to_string(),
        )
    };
    let cases: Vec<Case> = vec![
        (
            "not installed",
            Box::new(move || status(404, "not found")),
            &["404", "install metrics-server"],
            None,
        ),
        (
            "no right",
            Box::new(move || status(403, "pods.metrics.k8s.io is forbidden")),
            &["forbidden", "grant list"],
            None,
        ),
        (
            "too many calls",
            Box::new(|| Reply::Answer(429, vec![("retry-after", "7".into())], "slow down".into())),
            &["429", "slow down"],
            Some(7),
        ),
        (
            "not there",
            Box::new(|| Reply::status(503, "service unavailable\n")),
            &["503", "service unavailable", "apiservice"],
            None,
        ),
        (
            "HTML",
            Box::new(|| Reply::ok("<html>Sign in</html>")),
            &["no list of PodMetrics", "<html>Sign in"],
            None,
        ),
        ("another kind", Box::new(|| Reply::ok(r#"{"kind":"APIResourceList"}"#)), &["no `items`"], None),
        (
            "a list of something else",
            Box::new(|| Reply::ok(r#"{"items":[3]}"#)),
            &["no list of PodMetrics"],
            None,
        ),
        ("nothing", Box::new(|| Reply::ok("")), &["no list of PodMetrics"], None),
        ("it hangs", Box::new(|| Reply::Hang), &["no answer within 500ms"], None),
        ("it breaks off", Box::new(|| Reply::CutOff(list(&pod("shop", APP)))), &["broke off"], None),
    ];
    for (rule, reply, words, retry) in cases {
        let server = Server::start(move |_| reply()).await;
        let (all, scan) = scan(&source(&server, false)).await;
        assert!(all.is_empty() && scan.failed(), "{rule}");
        let failure = &scan.failures[0];
        for word in words {
            assert!(failure.message.contains(word), "{rule}: {word:?} in {:?}", failure.message);
        }
        assert_eq!(failure.retry_after, retry.map(Duration::from_secs), "{rule}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_failure() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client =
        plimsoll::cluster::client(kube::Config::new(format!("http://{closed}").parse().unwrap())).unwrap();
    let source = MetricsServer::new(client, MetricsServerOptions::default());
    let (_, scan) = scan(&source).await;
    assert!(scan.failures[0].message.to_lowercase().contains("refused"), "{scan:?}");
}

#[tokio::test]
async fn one_failed_namespace_does_not_stop_the_others() {
    let server = Server::start(|asked| match asked.path.split('/').nth_back(1).unwrap() {
        "broken" => Reply::status(500, "out of order"),
        "half" => Reply::ok(format!(r#"{{"items":[{},{{"#, pod("half", APP))),
        "slow" => Reply::Hang,
        name => Reply::ok(list(&pod(name, APP))),
    })
    .await;
    let mut source = source(&server, true);
    assert_eq!(scan(&source).await, (vec![], Scan::default()), "no namespaces, no calls");
    let names = ["a", "broken", "half", "slow", "b", "c", "d"];
    source.set_namespaces(names.map(str::to_owned).to_vec());
    let (all, mut outcome) = scan(&source).await;
    let found: Vec<_> = all.iter().map(|sample| &*sample.name).collect();
    assert_eq!(
        found,
        ["a/web-1/app", "b/web-1/app", "c/web-1/app", "d/web-1/app", "half/web-1/app"],
        "also what came before an error in an answer"
    );
    outcome.failures.sort_by(|one, other| one.scope.cmp(&other.scope));
    let scopes: Vec<_> = outcome.failures.iter().map(|failure| &*failure.scope).collect();
    assert_eq!(scopes, ["namespace broken", "namespace half", "namespace slow"]);
    assert!(!outcome.failed());
}

#[tokio::test]
async fn a_server_that_hangs_does_not_keep_the_loop() {
    let server = Server::start(|_| Reply::Hang).await;
    let mut source = source(&server, true);
    source.set_namespaces((0..1000).map(|n| format!("n{n}")).collect());
    let (_, scan) = scan(&source).await;
    let last = scan.failures.last().unwrap();
    assert!(last.message.contains("of 1000 namespaces were not answered"), "{last}");
}

#[test]
fn a_large_answer_is_read_whole() {
    let pods: Vec<_> = (0..10_000)
        .map(|n| pod(&format!("n{n}"), &format!("{APP},{}", APP.replace("app", "side"))))
        .collect();
    let (mut all, mut skipped) = (Vec::new(), Skipped::default());
    let samples =
        read_pod_metrics(list(&pods.join(",")).as_bytes(), &mut skipped, &mut keep(&mut all)).unwrap();
    assert_eq!((samples, all.len(), skipped), (20_000, 20_000, Skipped::default()));
    assert_eq!(all[19_999], kept("n9999/web-1/side", TEN, Some(0.499_953_158), Some(67_108_864.0)));
}

proptest! {
    /// What went in comes out: nothing is lost, and an absent value stays absent.
    #[test]
    fn quantities_are_read_exactly(
        pods in prop::collection::vec((0..1_772_359_200_i64, prop::option::of(0..1_000_000_000_u64), prop::option::of(0..1_u64 << 42)), 0..20)
    ) {
        let mut expected = Vec::new();
        let mut items = Vec::new();
        for (n, (seconds, cpu, memory)) in pods.iter().enumerate() {
            let mut usage = serde_json::Map::new();
            if let Some(nanos) = cpu {
                usage.insert("cpu".into(), json!(format!("{nanos}n")));
            }
            if let Some(kibi) = memory {
                usage.insert("memory".into(), json!(format!("{kibi}Ki")));
            }
            let time = jiff::Timestamp::from_second(*seconds).unwrap();
            items.push(json!({
                "metadata": {"name": n.to_string(), "namespace": "shop"},
                "timestamp": time.to_string(),
                "containers": [{"name": "app", "usage": usage}],
            }));
            #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
            let (cpu, memory) = (cpu.map(|nanos| nanos as f64 / 1e9), memory.map(|kibi| (kibi * 1024) as f64));
            if cpu.is_some() || memory.is_some() {
                expected.push(kept(&format!("shop/{n}/app"), *seconds, cpu, memory));
            }
        }
        let body = json!({"kind": "PodMetricsList", "items": items}).to_string();
        let (mut all, mut skipped) = (Vec::new(), Skipped::default());
        read_pod_metrics(body.as_bytes(), &mut skipped, &mut keep(&mut all)).unwrap();
        prop_assert_eq!(skipped.no_value, (pods.len() - expected.len()) as u64);
        prop_assert_eq!(all, expected);
        let part = &body.as_bytes()[..body.len() - 1];
        prop_assert!(read_pod_metrics(part, &mut skipped, &mut |_| ()).is_err());
    }
}
