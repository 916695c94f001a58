//! How much memory the history of many containers takes while it is loaded from Prometheus.
//!
//! `cargo run --release --example history [CONTAINERS] [DAYS] [whole]`: a server in a process of its own invents usage;
//! this one loads it and prints its resident memory. `whole`: queries that cannot be split by namespace.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a program that measures"
)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use plimsoll::recommender::sources::{Prometheus, PrometheusOptions, Sample};
use tokio::net::TcpListener;

/// As in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// So many containers are in a namespace.
const TOGETHER: usize = 100;
/// 2026-03-01T00:00:00Z
const END: i64 = 1_772_323_200;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if let [server, containers] = &*arguments
        && server == "--serve"
    {
        runtime.block_on(serve(containers.parse().unwrap()));
        return;
    }
    let number = |at: usize, usual: usize| arguments.get(at).map_or(usual, |text| text.parse().unwrap());
    let (containers, days) = (number(0, 5000), number(1, 8));
    let whole = arguments.get(2).is_some_and(|word| word == "whole");
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--serve", &containers.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
    runtime.block_on(load(address.trim(), containers, days, whole));
    server.kill().unwrap();
    server.wait().unwrap();
}

async fn load(address: &str, containers: usize, days: usize, whole: bool) {
    let mut options = PrometheusOptions::new(address);
    if whole {
        "cpu".clone_into(&mut options.cpu_query);
        "memory".clone_into(&mut options.memory_query);
    }
    let source = Prometheus::new(options).unwrap();
    let namespaces: Vec<_> = (0..containers.div_ceil(TOGETHER)).map(|n| format!("team-{n}")).collect();
    let from = END - i64::try_from(days).unwrap() * 86_400;
    let before = resident("VmRSS");
    let started = Instant::now();
    let (mut both, mut sums, mut calls) = (0_u64, (0.0, 0.0), 0);
    let scan = source
        .history(
            &namespaces,
            from * 1_000_000_000,
            END * 1_000_000_000,
            &mut |sample: &Sample<'_>| {
                both += u64::from(sample.cpu.is_some() && sample.memory.is_some());
                sums.0 += sample.cpu.unwrap_or_default();
                sums.1 += sample.memory.unwrap_or_default();
            },
            &mut |_| calls += 1,
        )
        .await;
    assert!(scan.failures.is_empty(), "{:?}", scan.failures);
    let steps = u64::try_from(days).unwrap() * 288 + 1;
    assert_eq!((scan.samples, both), (steps * u64::try_from(containers).unwrap(), scan.samples));
    println!(
        "{} samples of {containers} containers over {days} d in {:.1} s and {calls} pieces; resident {} MiB before, \
         {} MiB at most",
        scan.samples,
        started.elapsed().as_secs_f64(),
        before,
        resident("VmHWM"),
    );
}

/// In MiB.
fn resident(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

async fn serve(containers: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let service = service_fn(move |request| async move {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(answer(request, containers).await)))
        });
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            let _ = tokio::time::timeout(Duration::from_secs(600), connection).await;
        });
    }
}

async fn answer(request: Request<Incoming>, containers: usize) -> String {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let form = format!("{query}&{}", String::from_utf8(body.to_vec()).unwrap());
    let form: BTreeMap<&str, &str> = form.split('&').filter_map(|pair| pair.split_once('=')).collect();
    let number = |name: &str| form[name].split('.').next().unwrap().parse::<i64>().unwrap();
    let (start, end, step) = (number("start"), number("end"), number("step"));
    let wanted: Option<Vec<&str>> = form["query"]
        .split("%3D~%22")
        .nth(1)
        .and_then(|rest| rest.split("%22").next())
        .map(|names| names.split("%7C").collect());
    let cpu = form["query"].contains("cpu");
    let mut text = r#"{"status":"success","data":{"resultType":"matrix","result":["#.to_owned();
    let mut comma = "";
    for n in 0..containers {
        let namespace = format!("team-{}", n / TOGETHER);
        if wanted.as_ref().is_some_and(|wanted| !wanted.contains(&&*namespace)) {
            continue;
        }
        // With the labels that cAdvisor has.
        let _ = write!(
            text,
            r#"{comma}{{"metric":{{"__name__":"container","container":"app","endpoint":"https-metrics","id":"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{n:032x}.slice/cri-containerd-{n:064x}.scope","image":"registry.example.com/shop/checkout:v1.2.3","instance":"10.0.0.1:10250","job":"kubelet","metrics_path":"/metrics/cadvisor","name":"{n:064x}","namespace":"{namespace}","node":"node-{}","pod":"checkout-7d9c5b6f4-{n:05}","service":"kubelet"}},"values":["#,
            n % 50
        );
        let mut inner = "";
        for time in (start..=end).step_by(usize::try_from(step).unwrap()) {
            let noise = (time / step * 7919 + i64::try_from(n).unwrap() * 104_729) % 100_003;
            if cpu {
                let _ = write!(text, r#"{inner}[{time},"0.{noise:05}{noise:05}{noise:05}"]"#);
            } else {
                let _ = write!(text, r#"{inner}[{time},"{}"]"#, 104_857_600 + noise * 4096);
            }
            inner = ",";
        }
        text.push_str("]}");
        comma = ",";
    }
    text.push_str("]}}");
    text
}
