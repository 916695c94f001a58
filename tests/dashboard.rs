//! The pages of a server without a cluster, as a browser asks for them; and how long pages take with many workloads.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a test that fails this way says where; and figures that are made up need no precision"
)]

#[path = "browser/world.rs"]
#[allow(dead_code, reason = "it is the browser's world too")]
mod world;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

/// `plimsoll serve --standalone` on the examples. Dropping it ends it.
struct Server {
    process: Child,
    api: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports = folder.path().join("ports.json");
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        let any = "127.0.0.1:0";
        command
            .env_clear()
            .args([
                "serve",
                "--standalone",
                "examples/standalone",
                "--address",
                any,
                "--probes-address",
                any,
                "--api-address",
                any,
            ])
            .arg("--ports-file")
            .arg(&ports)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut server = Self {
            process: command.spawn().unwrap(),
            api: SocketAddr::from(([127, 0, 0, 1], 0)),
            _folder: folder,
        };
        let until = Instant::now() + PATIENCE;
        while !ports.exists() {
            assert!(
                server.process.try_wait().unwrap().is_none() && Instant::now() < until,
                "the server does not start"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        let said: Value = serde_json::from_slice(&std::fs::read(&ports).unwrap()).unwrap();
        server.api = said["api"].as_str().unwrap().parse().unwrap();
        server
    }

    fn ask(&self, method: &str, target: &str) -> (u16, String, String) {
        ask(self.api, method, target, &format!("localhost:{}", self.api.port()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Status, head in lower case, and body.
fn ask(address: SocketAddr, method: &str, target: &str, host: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head[9..12].parse().unwrap(), head.to_lowercase(), body.to_owned())
}

#[test]
fn every_page_of_a_server_without_a_cluster() {
    let server = Server::start();
    for (path, heading) in world::pages() {
        let (status, head, body) = server.ask("GET", path);
        if path == "/workloads/shop/Deployment/web" {
            assert_eq!(status, 404, "nothing is known of it");
            continue;
        }
        assert_eq!(status, 200, "{path}");
        assert!(body.contains(&format!("<h1><bdi>{heading}</bdi></h1>")), "{path}: {body}");
        assert!(head.contains("content-security-policy: default-src 'none'"), "{path}: {head}");
        let (status, of_head, nothing) = server.ask("HEAD", path);
        assert_eq!((status, nothing.as_str()), (200, ""), "{path}");
        assert!(of_head.contains("content-type: text/html; charset=utf-8"), "{path}: {of_head}");
    }
    let (_, _, status) = server.ask("GET", "/status");
    assert!(
        status.contains("certificate-authority") && status.contains("Ready"),
        "every part is told of: {status}"
    );
    let (_, _, overview) = server.ask("GET", "/");
    let style =
        overview.split("href=\"").find(|part| part.starts_with("/assets/") && part.contains(".css")).unwrap();
    let (status, head, _) = server.ask("GET", style.split('"').next().unwrap());
    assert_eq!(status, 200);
    assert!(head.contains("immutable") && head.contains("text/css"), "{head}");
}

#[test]
fn tricks_and_mistakes_are_answered_plainly() {
    let server = Server::start();
    let long = format!("/{}", "a".repeat(9_000));
    for (rule, method, target, expected) in [
        ("up", "GET", "/../../etc/passwd", 400),
        ("up, escaped", "GET", "/workloads/%2e%2e/%2e%2e/etc/passwd", 400),
        ("nul", "GET", "/quota%00.html", 400),
        ("two slashes", "GET", "//evil.example/", 400),
        ("no UTF-8", "GET", "/workloads/%ff%fe/a/b", 400),
        ("long", "GET", long.as_str(), 400),
        ("parameter", "GET", "/workloads?page=minus", 400),
        ("no page", "GET", "/admin", 404),
        ("no asset", "GET", "/assets/../style.css", 400),
        ("changes nothing", "POST", "/workloads", 405),
        ("JSON stays JSON", "GET", "/api/v1/none", 404),
    ] {
        assert_eq!(server.ask(method, target).0, expected, "{rule}");
    }
    let (status, head, _) = ask(server.api, "GET", "/", "evil.example");
    assert_eq!((status, head.contains("application/json")), (421, true), "a name that points at loopback");
    assert_eq!(server.ask("GET", "/api/v1/recommendations").0, 200);
}

/// Says how long pages take; `cargo test --test dashboard -- --nocapture` shows it. That they are answered is what is
/// tested: times are those of the machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_with_five_thousand_workloads() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sources = world::sources(5_000).await;
    tokio::spawn(plimsoll::api::serve(listener, sources, plimsoll::server::Shutdown::new()));
    let pages = [
        "/",
        "/namespaces",
        "/workloads",
        "/workloads?sort=memory&page=50",
        "/workloads?q=web",
        "/workloads/shop/Deployment/web",
        "/quota",
        "/nodes",
        "/decisions",
        "/status",
    ];
    for path in pages {
        let mut times: Vec<(Duration, usize)> = Vec::new();
        for _ in 0..9 {
            let began = Instant::now();
            let (status, _, body) =
                tokio::task::spawn_blocking(move || ask(address, "GET", path, "localhost")).await.unwrap();
            assert_eq!(status, 200, "{path}");
            times.push((began.elapsed(), body.len()));
        }
        times.sort_unstable();
        println!(
            "{path}: {:?} (median of 9), {:?} at most, {} KiB",
            times[4].0,
            times[8].0,
            times[4].1 / 1024
        );
    }
}
