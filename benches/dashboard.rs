//! How long pages of the dashboard take with many workloads, beside an answer that has nothing in it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "what is made up here is right, or the run is worth nothing"
)]

#[path = "../tests/browser/world.rs"]
#[allow(dead_code, reason = "it is the browser's world too")]
mod world;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use criterion::{Criterion, criterion_group, criterion_main};
use tokio::runtime::Builder;

const WORKLOADS: usize = 5_000;

/// What is asked for, and with what status it is answered. The first one is the price of asking.
const QUESTIONS: [(&str, &str, u16); 10] = [
    ("nothing: no such API", "/api/v1/none", 404),
    ("overview", "/", 200),
    ("namespaces", "/namespaces", 200),
    ("workloads, the greatest saving first", "/workloads", 200),
    ("workloads, page 50 by memory", "/workloads?sort=memory&page=50", 200),
    ("workloads, by a part of the name", "/workloads?q=web", 200),
    ("a workload", "/workloads/shop/Deployment/web", 200),
    ("nodes", "/nodes", 200),
    ("decisions", "/decisions", 200),
    ("status", "/status", 200),
];

/// Asks over a new connection; the whole answer.
fn ask(address: SocketAddr, target: &str, answer: &mut Vec<u8>) -> u16 {
    answer.clear();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    stream.read_to_end(answer).unwrap();
    std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap()
}

fn pages(criterion: &mut Criterion) {
    // The server has one core, and who asks the other.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let address = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let sources = world::sources(WORKLOADS).await;
        tokio::spawn(plimsoll::api::serve(listener, sources, plimsoll::server::Shutdown::new()));
        address
    });
    let mut answer = Vec::new();
    let mut group = criterion.benchmark_group("dashboard of 5,000 workloads");
    for (name, target, status) in QUESTIONS {
        group.bench_function(name, |bencher| {
            bencher.iter(|| assert_eq!(ask(address, target, &mut answer), status, "{target}"));
        });
    }
    group.finish();
}

criterion_group!(benches, pages);
criterion_main!(benches);
