use std::fs;
use std::time::Duration;

use plimsoll::recommender::sources::prometheus::Labels;
use plimsoll::recommender::sources::{Prometheus, PrometheusOptions, Scan, Skipped};

use crate::support::{Asked, Kept, Reply, SECOND, Server, keep, kept};

/// 2026-03-01T10:00:00Z
const TEN: i64 = 1_772_359_200;

fn options(server: &Server) -> PrometheusOptions {
    PrometheusOptions { timeout: Duration::from_millis(500), ..PrometheusOptions::new(server.url()) }
}

async fn scan_with(options: PrometheusOptions) -> (Vec<Kept>, Scan) {
    let mut all = Vec::new();
    let scan = Prometheus::new(options).unwrap().scan(TEN * SECOND + 123_456_789, &mut keep(&mut all)).await;
    assert_eq!(scan.samples, all.len() as u64);
    (all, scan)
}

async fn scan(server: &Server) -> (Vec<Kept>, Scan) {
    scan_with(options(server)).await
}

fn vector(result: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{result}]}}}}"#)
}

fn series(pod: &str, value: &str) -> String {
    format!(
        r#"{{"metric":{{"__name__":"x","namespace":"shop","pod":"{pod}","container":"app","id":"/kubepods/{value}"}},
        "value":[{TEN}.123,"{value}"]}}"#
    )
}

/// At the time of the scan, as Prometheus gives it: in milliseconds.
fn at(mut kept: Kept) -> Kept {
    kept.nanos += 123_000_000;
    kept
}

/// Answers with one vector for CPU and one for memory.
async fn serving(cpu: impl Into<String>, memory: impl Into<String>) -> Server {
    let (cpu, memory) = (cpu.into(), memory.into());
    Server::start(move |asked| Reply::ok(if asked.is_cpu() { cpu.clone() } else { memory.clone() })).await
}

#[tokio::test]
async fn cpu_and_memory_of_one_time_are_one_sample() {
    let server = serving(vector(&series("web-1", "0.25")), vector(&series("web-1", "1048576"))).await;
    let (all, scan) = scan(&server).await;
    assert_eq!(all, [at(kept("shop/web-1/app", TEN, Some(0.25), Some(1_048_576.0)))]);
    assert_eq!((scan.skipped, scan.failures.len()), (Skipped::default(), 0));
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    for call in &asked {
        assert_eq!((call.method.as_str(), &*call.path), ("GET", "/api/v1/query"));
        assert_eq!(call.get("time"), format!("{TEN}.123"));
        assert_eq!(call.get("timeout"), "500ms");
        assert!(call.get("query").contains(r#"namespace=~".+""#), "{call:?}");
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one table")]
async fn answers_become_samples() {
    let app = |cpu, memory| at(kept("shop/web-1/app", TEN, cpu, memory));
    let memory = vector(&series("web-1", "5"));
    let none = Skipped::default();
    for (rule, cpu, expected, skipped) in [
        ("no series", vector(""), vec![app(None, Some(5.0))], none),
        (
            "no result",
            r#"{"status":"success","data":{"resultType":"vector","result":null}}"#.into(),
            vec![app(None, Some(5.0))],
            none,
        ),
        (
            "NaN, as of a stale series",
            vector(&series("web-1", "NaN")),
            vec![app(None, Some(5.0))],
            Skipped { not_finite: 1, ..none },
        ),
        (
            "too much",
            vector(&series("web-1", "+Inf")),
            vec![app(None, Some(5.0))],
            Skipped { not_finite: 1, ..none },
        ),
        (
            "too little",
            vector(&series("web-1", "-Inf")),
            vec![app(None, Some(5.0))],
            Skipped { not_finite: 1, ..none },
        ),
        (
            "negative",
            vector(&series("web-1", "-1")),
            vec![app(None, Some(5.0))],
            Skipped { invalid: 1, ..none },
        ),
        (
            "no number",
            vector(&series("web-1", "one")),
            vec![app(None, Some(5.0))],
            Skipped { invalid: 1, ..none },
        ),
        ("zero is a value", vector(&series("web-1", "0")), vec![app(Some(0.0), Some(5.0))], none),
        ("an exponent", vector(&series("web-1", "1.5e-05")), vec![app(Some(1.5e-5), Some(5.0))], none),
        (
            "a series without a label does not cost the others",
            vector(&format!(
                r#"{{"metric":{{"namespace":"shop"}},"value":[{TEN},"1"]}},{}"#,
                series("web-1", "2")
            )),
            vec![app(Some(2.0), Some(5.0))],
            Skipped { missing_labels: 1, ..none },
        ),
        (
            "an empty label is none",
            vector(&series("", "2")),
            vec![app(None, Some(5.0))],
            Skipped { missing_labels: 1, ..none },
        ),
        (
            "no labels at all, as of sum()",
            vector(&format!(r#"{{"metric":{{}},"value":[{TEN},"1"]}}"#)),
            vec![app(None, Some(5.0))],
            Skipped { missing_labels: 1, ..none },
        ),
        (
            "a native histogram is no value",
            vector(
                r#"{"metric":{"namespace":"shop","pod":"web-1","container":"app"},"histogram":[1,{"count":"1"}]}"#,
            ),
            vec![app(None, Some(5.0))],
            Skipped { no_value: 1, ..none },
        ),
        (
            "of two series of a container the greatest counts",
            vector(&[series("web-1", "1"), series("web-1", "3"), series("web-1", "2")].join(",")),
            vec![app(Some(3.0), Some(5.0))],
            Skipped { duplicate: 2, ..none },
        ),
        (
            "a value before its labels, and a type after its result",
            format!(
                r#"{{"data":{{"result":[{{"value":[{TEN}.123,"2"],"metric":{{"container":"app","pod":"web-1","namespace":"shop"}}}}],"resultType":"vector"}},"status":"success"}}"#
            ),
            vec![app(Some(2.0), Some(5.0))],
            none,
        ),
        (
            "warnings",
            vector(&series("web-1", "2")).replacen(
                '{',
                r#"{"warnings":["partial response"],"infos":["i"],"#,
                1,
            ),
            vec![app(Some(2.0), Some(5.0))],
            none,
        ),
    ] {
        let server = serving(cpu, memory.clone()).await;
        let (all, scan) = scan(&server).await;
        assert_eq!(all, expected, "{rule}");
        assert_eq!(scan.skipped, skipped, "{rule}");
        assert!(scan.failures.is_empty(), "{rule}: {scan:?}");
    }
}

/// Rule, answer, words of the message, and the pause that is asked for.
type Case = (&'static str, Box<dyn Fn() -> Reply + Send + Sync>, &'static [&'static str], Option<u64>);

#[tokio::test]
async fn failures_say_what_can_be_done() {
    let header = |code, name, value: &str| Reply::Answer(code, vec![(name, value.to_owned())], String::new());
    let said = |code, kind: &str, message: &str| {
        Reply::status(code, format!(r#"{{"status":"error","errorType":"{kind}","error":"{message}"}}"#))
    };
    let cases: Vec<Case> = vec![
        (
            "HTML",
            Box::new(|| Reply::ok("<!DOCTYPE html>\n<title>Sign in</title>")),
            &["cpuQuery", "HTML instead of JSON", "<!DOCTYPE html> <title>Sign in", "login page"],
            None,
        ),
        ("text", Box::new(|| Reply::ok("hello")), &["text instead of JSON", "hello"], None),
        ("nothing", Box::new(|| Reply::ok("")), &["nothing instead of JSON"], None),
        ("JSON of something else", Box::new(|| Reply::ok("[1,2]")), &["cannot be understood", "[1,2]"], None),
        (
            "JSON that stops",
            Box::new(|| Reply::ok(r#"{"status":"success","data":{"#)),
            &["cannot be understood", "EOF"],
            None,
        ),
        ("no status", Box::new(|| Reply::ok("{}")), &["no status of success"], None),
        (
            "an error with a good status",
            Box::new(move || said(200, "execution", "broken")),
            &["broken"],
            None,
        ),
        ("no result", Box::new(|| Reply::ok(r#"{"status":"success"}"#)), &["without resultType"], None),
        (
            "a range instead of an instant",
            Box::new(|| {
                Reply::ok(
                    r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"namespace":"a","pod":"b","container":"c"},"values":[[1,"1"],[2,"2"]]}]}}"#,
                )
            }),
            &["is a matrix, not a vector", "[5m]", "rate(..)"],
            None,
        ),
        (
            "a scalar",
            Box::new(|| Reply::ok(r#"{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}"#)),
            &["is a scalar, not a vector"],
            None,
        ),
        (
            "a query that is none",
            Box::new(move || said(400, "bad_data", "parse error: unexpected }")),
            &["400", "parse error: unexpected }", "try the query"],
            None,
        ),
        (
            "wrong credentials",
            Box::new(|| Reply::status(401, "Unauthorized")),
            &["401", "Unauthorized", "bearerTokenFile"],
            None,
        ),
        ("no right", Box::new(|| Reply::status(403, "<html>no")), &["403", "<html>no", "tenant"], None),
        (
            "a wrong path",
            Box::new(|| Reply::status(404, "404 page not found")),
            &["404", "/api/v1/query", "path of the address"],
            None,
        ),
        ("too many calls", Box::new(move || header(429, "retry-after", "7")), &["429"], Some(7)),
        ("overloaded", Box::new(move || header(503, "retry-after", "120")), &["503"], Some(120)),
        ("broken inside", Box::new(|| Reply::status(500, "boom")), &["500", "boom"], None),
        (
            "elsewhere",
            Box::new(move || header(302, "location", "https://login.example.com/?next=x")),
            &["redirects", "302", "https://login.example.com/"],
            None,
        ),
        ("it hangs", Box::new(|| Reply::Hang), &["did not answer within 500ms"], None),
        ("it breaks off", Box::new(|| Reply::CutOff(vector(&series("web-1", "1")))), &["broke off"], None),
    ];
    for (rule, reply, words, retry) in cases {
        let server = Server::start(move |_| reply()).await;
        let (all, scan) = scan(&server).await;
        assert!(all.is_empty() && scan.failed() && scan.failures.len() == 2, "{rule}: {scan:?}");
        let failure = &scan.failures[0];
        assert_eq!(failure.scope, "cpuQuery", "{rule}");
        assert!(failure.message.contains(&server.url()), "{rule}: {failure}");
        for word in words {
            assert!(failure.message.contains(word), "{rule}: {word:?} in {:?}", failure.message);
        }
        assert_eq!(failure.retry_after, retry.map(Duration::from_secs), "{rule}");
        assert_eq!(
            server.asked().len(),
            2,
            "{rule}: nothing is asked twice in a scan, and no redirect is followed"
        );
    }
}

#[tokio::test]
async fn one_failed_query_does_not_stop_the_other() {
    let server = Server::start(|asked| {
        if asked.is_cpu() { Reply::status(500, "boom") } else { Reply::ok(vector(&series("web-1", "5"))) }
    })
    .await;
    let (all, scan) = scan(&server).await;
    assert_eq!(all, [at(kept("shop/web-1/app", TEN, None, Some(5.0)))]);
    assert!(!scan.failed());
    assert_eq!(scan.failures.len(), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_failure() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (_, scan) = scan_with(PrometheusOptions::new(format!("http://{closed}"))).await;
    let message = scan.failures[0].message.to_lowercase();
    assert!(message.contains("does not answer") && message.contains("refused"), "{message}");
}

#[tokio::test]
async fn credentials_and_headers_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    fs::write(&file, "first\n").unwrap();
    let server = serving(vector(""), vector("")).await;
    let header =
        |asked: &Asked, name: &str| asked.headers.get(name).map(|value| value.to_str().unwrap().to_owned());

    let with_token = PrometheusOptions {
        address: format!("{}/tenant/1/", server.url()),
        bearer_token_file: Some(file.clone()),
        headers: vec![("X-Scope-OrgID".into(), "team-1".into())],
        ..options(&server)
    };
    let source = Prometheus::new(with_token).unwrap();
    source.scan(0, &mut |_| ()).await;
    fs::write(&file, "second").unwrap();
    source.scan(0, &mut |_| ()).await;
    let asked = server.asked();
    for (call, token) in asked.iter().zip(["first", "first", "second", "second"]) {
        assert_eq!(header(call, "authorization"), Some(format!("Bearer {token}")), "read anew for each call");
        assert_eq!(header(call, "x-scope-orgid").as_deref(), Some("team-1"));
        assert_eq!(header(call, "host"), Some(server.address.to_string()));
        assert_eq!(call.path, "/tenant/1/api/v1/query", "the path of the address comes first");
    }
    assert_eq!(asked.len(), 4);

    let basic = PrometheusOptions {
        username: Some("me".into()),
        password_file: Some(file.clone()),
        ..options(&server)
    };
    scan_with(basic).await;
    assert_eq!(
        header(server.asked().last().unwrap(), "authorization").as_deref(),
        Some("Basic bWU6c2Vjb25k")
    );

    for (rule, content, words) in [
        ("no file", None, "secret: "),
        ("an empty file", Some(&b"\n"[..]), "is empty"),
        ("several lines", Some(b"one\ntwo"), "no header can have"),
        ("no text", Some(b"\xff"), "not UTF-8"),
    ] {
        match content {
            Some(bytes) => fs::write(&file, bytes).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        let calls = server.asked().len();
        let options = PrometheusOptions { bearer_token_file: Some(file.clone()), ..options(&server) };
        let (_, scan) = scan_with(options).await;
        let message = &scan.failures[0].message;
        assert!(message.contains("bearerTokenFile") && message.contains(words), "{rule}: {message}");
        assert!(!message.contains("two"), "{rule}: {message}");
        assert_eq!(server.asked().len(), calls, "{rule}: nothing is sent");
    }
}

#[tokio::test]
async fn long_queries_are_sent_as_a_form() {
    let server = serving(vector(""), vector("")).await;
    let cpu_query = format!("rate(cpu{{pod!~\"{}\"}}[5m]) + 0 * 1", "x&=%é ".repeat(500));
    let (_, scan) = scan_with(PrometheusOptions { cpu_query: cpu_query.clone(), ..options(&server) }).await;
    assert!(scan.failures.is_empty(), "{scan:?}");
    let asked = server.asked();
    let call = asked.iter().find(|call| call.is_cpu()).unwrap();
    assert_eq!((call.method.as_str(), call.get("query")), ("POST", &*cpu_query));
    assert_eq!(call.headers["content-type"], "application/x-www-form-urlencoded");
}

#[tokio::test]
async fn labels_can_have_other_names() {
    let result = r#"{"metric":{"ns":"shop","exported_pod":"web-1","c":"app","pod":"prometheus-0"},"value":[1772359200.123,"1"]}"#;
    let server = serving(vector(result), vector("")).await;
    let labels = Labels { namespace: "ns".into(), pod: "exported_pod".into(), container: "c".into() };
    let (all, _) = scan_with(PrometheusOptions { labels, ..options(&server) }).await;
    assert_eq!(all, [at(kept("shop/web-1/app", TEN, Some(1.0), None))]);
}

#[test]
fn options_that_cannot_work_are_errors() {
    let good = || PrometheusOptions::new("https://prometheus:9090/path/");
    assert!(Prometheus::new(good()).is_ok());
    let address = |address: &str| PrometheusOptions::new(address);
    let file = || Some("file".into());
    for (rule, options, words) in [
        ("no scheme", address("prometheus:9090"), "http"),
        ("no address", address(""), "is no URL"),
        ("another scheme", address("ftp://prometheus"), "neither http nor https"),
        ("a password in it", address("http://me:hunter2@prometheus"), "passwordFile"),
        ("a query in it", address("http://prometheus/?a=b"), "has a query"),
        ("no query", PrometheusOptions { cpu_query: String::new(), ..good() }, "cpuQuery"),
        (
            "a placeholder in the wrong place",
            PrometheusOptions { memory_query: "a{n=\"$namespace\"}".into(), ..good() },
            "memoryQuery",
        ),
        (
            "a name without a password",
            PrometheusOptions { username: Some("me".into()), ..good() },
            "needs passwordFile",
        ),
        (
            "a password without a name",
            PrometheusOptions { password_file: file(), ..good() },
            "needs username",
        ),
        (
            "a colon in a name",
            PrometheusOptions { username: Some("a:b".into()), password_file: file(), ..good() },
            "colon",
        ),
        (
            "two credentials",
            PrometheusOptions {
                username: Some("me".into()),
                password_file: file(),
                bearer_token_file: file(),
                ..good()
            },
            "exclude each other",
        ),
        (
            "a certificate without a key",
            PrometheusOptions { client_certificate: file(), ..good() },
            "needs clientKey",
        ),
        (
            "a key without a certificate",
            PrometheusOptions { client_key: file(), ..good() },
            "needs clientCertificate",
        ),
        (
            "a CA without TLS",
            PrometheusOptions { ca_file: file(), ..address("http://prometheus") },
            "https://",
        ),
        (
            "a header that is none",
            PrometheusOptions { headers: vec![("a b".into(), "c".into())], ..good() },
            "headers: a b",
        ),
        (
            "a value that is none",
            PrometheusOptions { headers: vec![("a".into(), "hunter2\n".into())], ..good() },
            "headers: a",
        ),
    ] {
        let error = Prometheus::new(options).unwrap_err().to_string();
        assert!(error.contains(words), "{rule}: {error}");
        assert!(!error.contains("hunter2"), "{rule}: {error}");
    }
}
