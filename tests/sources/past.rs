//! The last day of a workload, from Prometheus to its page.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use plimsoll::api::Sources;
use plimsoll::recommender::sources::prometheus::Past;
use plimsoll::recommender::sources::{Prometheus, PrometheusOptions};
use plimsoll::survey::{Pasts, Survey, Surveys};
use plimsoll_core::placement::WorkloadKey;
use plimsoll_core::pod::Workload;
use plimsoll_core::savings::{Figures, Row};
use serde_json::{Value, json};

use crate::support::{Asked, Reply, SECOND, Server};

const CORE: i128 = 1_000_000_000;

fn prometheus(server: &Server) -> Prometheus {
    let timeout = Duration::from_secs(20);
    Prometheus::new(PrometheusOptions { timeout, ..PrometheusOptions::new(server.url()) }).unwrap()
}

fn answer(series: &[(Value, f64)], asked: &Asked) -> Reply {
    let seconds = |name: &str| asked.get(name).parse::<f64>().unwrap();
    let times = [seconds("start"), seconds("end")];
    let result: Vec<Value> = series
        .iter()
        .map(|(labels, value)| json!({"metric": labels, "values": times.map(|at| json!([at, value.to_string()]))}))
        .collect();
    Reply::ok(json!({"status": "success", "data": {"resultType": "matrix", "result": result}}).to_string())
}

/// Says something of the workload, of other pods of its namespace, and of other namespaces.
fn all_is_known(asked: &Asked) -> Reply {
    let mine = |more: Value| {
        let mut labels = json!({"namespace": "shop", "plimsoll_workload": "yes"});
        labels.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        labels
    };
    let query = asked.get("query");
    let series = if query.contains("kube_pod_container_resource_requests") {
        vec![(mine(json!({"resource": "cpu"})), 1.5), (mine(json!({"resource": "memory"})), 3e9)]
    } else {
        let used = if query.contains("memory") { 1e9 } else { 0.75 };
        vec![
            (json!({"namespace": "shop"}), 99.0),
            (mine(json!({})), used),
            (json!({"namespace": "bank", "plimsoll_workload": "yes"}), 77.0),
        ]
    };
    answer(&series, asked)
}

async fn past(server: &Server, kind: &str, name: &str) -> Past {
    let step = Duration::from_secs(600);
    prometheus(server).past("shop", kind, name, 600 * SECOND, 1200 * SECOND, step).await
}

#[tokio::test]
async fn pods_of_the_workload_and_no_others() {
    let server = Server::start(all_is_known).await;
    let found = past(&server, "Deployment", "web").await;
    let line = |value| vec![(600 * SECOND, value), (1200 * SECOND, value)];
    let expected =
        Past { used: [line(0.75), line(1e9)], requested: [line(1.5), line(3e9)], failures: vec![] };
    assert_eq!(found, expected);
    let asked = server.asked();
    assert_eq!(asked.len(), 3, "{asked:?}");
    for asked in asked {
        assert_eq!((&*asked.path, asked.get("step")), ("/api/v1/query_range", "600"));
        let query = asked.get("query");
        assert!(query.contains(r#""plimsoll_workload", "yes", "pod", "web-["#), "{query}");
        assert!(query.contains(r#"namespace=~"shop""#) || query.contains(r#"namespace="shop""#), "{query}");
    }
    let hostile = past(&server, "Deployment", "\"} or up{a=\"").await;
    assert!(hostile.failures[0].contains("no name that pods could have"), "{hostile:?}");
    assert_eq!(server.asked().len(), 3, "it is not asked for");
}

#[tokio::test]
async fn what_is_wrong_is_told() {
    let none = |asked: &Asked| {
        if asked.get("query").contains("kube_pod") { answer(&[], asked) } else { all_is_known(asked) }
    };
    let server = Server::start(none).await;
    let found = past(&server, "StatefulSet", "web").await;
    assert!(
        found.failures.is_empty() && found.requested == [vec![], vec![]],
        "no kube-state-metrics: {found:?}"
    );
    assert_eq!(found.used[0].len(), 2);
    let refused = r#"{"status": "error", "errorType": "bad_data", "error": "too many points"}"#;
    let server = Server::start(move |_| Reply::status(422, refused)).await;
    let found = past(&server, "StatefulSet", "web").await;
    assert!(found.failures[0].contains("too many points") && found.used[0].is_empty(), "{found:?}");
}

fn key() -> WorkloadKey {
    let workload =
        Workload { group: "apps".to_owned(), kind: "Deployment".to_owned(), name: "web".to_owned() };
    WorkloadKey { namespace: "shop".into(), workload: workload.into() }
}

/// A server of pages with one workload, which was looked at once.
async fn pages(server: &Server) -> SocketAddr {
    let mut survey = Survey { taken: Timestamp::now(), ..Survey::default() };
    let before = Figures { cpu: 2 * CORE, memory: (4 << 30) * CORE };
    survey.savings.workloads.insert(key(), Row { pods: 1, before, now: before, ..Row::default() });
    let surveys = Surveys::default();
    surveys.put(survey);
    let known =
        Sources { surveys: Some(surveys), pasts: Some(Pasts::new(prometheus(server))), ..Sources::default() };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(plimsoll::api::serve(listener, known, plimsoll::server::Shutdown::new()));
    address
}

async fn page(address: SocketAddr) -> String {
    let ask = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let head =
            "GET /workloads/shop/Deployment/web HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    tokio::task::spawn_blocking(ask).await.unwrap()
}

/// Looks until the page says this; once it does, the page.
async fn page_that_says(address: SocketAddr, words: &str) -> String {
    let began = Instant::now();
    loop {
        let text = page(address).await;
        if text.contains(words) {
            return text;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{words:?} is never said: {text}");
    }
}

#[tokio::test]
async fn the_page_shows_the_last_day_and_where_it_is_from() {
    let server = Server::start(all_is_known).await;
    let address = pages(&server).await;
    let text = page_that_says(address, "is what Prometheus says").await;
    for words in [
        &server.address.to_string(),
        "a point every 10 min",
        "from there too (kube_pod_container_resource_requests)",
        "In cores, at the end: requested before 2 (at ",
        " UTC), requested now 1.5 (at ",
        " UTC), used 0.75 (at ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for _ in 0..5 {
        page(address).await;
    }
    assert_eq!(server.asked().len(), 3, "it is kept for a while");
}

#[tokio::test]
async fn the_page_does_not_wait_and_says_what_is_wrong() {
    let server = Server::start(|_| Reply::Hang).await;
    let address = pages(&server).await;
    let began = Instant::now();
    let text = page(address).await;
    assert!(began.elapsed() < Duration::from_secs(10), "it waited for Prometheus: {:?}", began.elapsed());
    assert!(text.contains("Prometheus is being asked for the last day"), "{text}");
    assert!(text.contains("since somebody began to look"), "what is known is shown: {text}");

    let server = Server::start(|_| Reply::status(503, "<b>overloaded</b>")).await;
    let text = page_that_says(pages(&server).await, "The last day is not complete").await;
    assert!(text.contains("&lt;b&gt;overloaded") && !text.contains("<b>over"), "{text}");

    let server = Server::start(|asked| answer(&[], asked)).await;
    page_that_says(pages(&server).await, "knows no usage of its pods in the last day").await;
}
