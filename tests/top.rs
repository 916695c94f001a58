//! `plimsoll top nodes`, as a user runs it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

const NODES: &str = "
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {plimsoll.dev/load-class: mid}}
spec: {unschedulable: true}
status: {capacity: {cpu: 8, memory: 32Gi}, conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {capacity: {cpu: 4, memory: 16Gi}, conditions: [{type: Ready, status: 'False'}]}
---
apiVersion: v1
kind: Node
metadata: {name: n3}
status: {capacity: {cpu: 4, memory: 16Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: shop}
spec:
  nodeName: n2
  containers: [{name: c, resources: {requests: {cpu: 1, memory: 4Gi}}}]
";

const LOAD: &str = "
nodes:
  n1:
    cpu: {15m: 0.8, 1h: 0.7, 1d: 0.6}
    memory: {15m: 0.6, 1h: 0.6, 1d: 0.5}
    disk: {15m: 0.3, 1h: 0.2, 1d: 0.1}
    load: {15m: 0.9, 1h: 0.8, 1d: 0.7}
  n2:
    cpu: {15m: 0.2, 1h: 0.3, 1d: 0.4}
    memory: {15m: 0.3, 1h: 0.3, 1d: 0.4}
    disk: {15m: 0.1, 1h: 0.1, 1d: 0.2}
    load: {15m: 0.2, 1h: 0.2, 1d: 0.3}
bindings: {n2: 6}
";

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        std::fs::write(files.path("objects.yaml"), NODES).unwrap();
        std::fs::write(files.path("load.yaml"), LOAD).unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, more: &[&str]) -> Output {
        let mut command = plimsoll();
        command.args(["top", "nodes", "--objects"]).arg(self.path("objects.yaml"));
        command.arg("--load").arg(self.path("load.yaml")).args(more).output().unwrap()
    }
}

fn plimsoll() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.env_clear();
    command
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_line_for_each_node() {
    let answer = text(&Files::new().run(&[]));
    let lines: Vec<Vec<&str>> = answer
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(
        lines,
        [
            vec![
                "NODE",
                "U",
                "CPU",
                "MEMORY",
                "DISK",
                "LOAD",
                "SCORE",
                "BINDINGS",
                "PODS",
                "CPU REQUESTED",
                "MEMORY REQUESTED",
                "CLASS",
                "STATUS"
            ],
            vec![
                "n1",
                "0.544",
                "0.670",
                "0.550",
                "0.170",
                "0.770",
                "45.60",
                "0",
                "0",
                "0 (0%)",
                "0 (0%)",
                "mid",
                "Ready,SchedulingDisabled"
            ],
            vec![
                "n2",
                "0.292",
                "0.330",
                "0.350",
                "0.150",
                "0.250",
                "50.80",
                "6",
                "1",
                "1 (25%)",
                "4Gi (25%)",
                "-",
                "NotReady"
            ],
            vec!["n3", "-", "-", "-", "-", "-", "58.20", "0", "0", "0 (0%)", "0 (0%)", "-", "Ready"],
        ]
    );
}

#[test]
fn the_order_can_be_chosen() {
    let files = Files::new();
    for (order, first) in [("usage", "n1"), ("score", "n3"), ("name", "n1")] {
        let answer = text(&files.run(&["--sort", order]));
        assert!(answer.lines().nth(1).unwrap().starts_with(first), "{order}: {answer}");
    }
    let answer = text(&files.run(&["-o", "wide"]));
    assert!(answer.contains("0.670 (15m=0.80 1h=0.70 1d=0.60)"), "{answer}");
}

#[test]
fn the_figures_are_exact_for_programs() {
    let answer: Value = serde_json::from_str(&text(&Files::new().run(&["-o", "json"]))).unwrap();
    let n2 = &answer["nodes"][1];
    assert_eq!(n2["name"], "n2");
    assert!((n2["U"].as_f64().unwrap() - 0.292).abs() < 1e-9);
    assert!((n2["score"].as_f64().unwrap() - 50.8).abs() < 1e-9, "70.8 - 20: {n2}");
    assert_eq!((&n2["bindings"], &n2["penalty"]), (&json!(6), &json!(20.0)));
    assert_eq!(n2["load"]["disk"], json!({"15m": 0.1, "1h": 0.1, "1d": 0.2}));
    assert_eq!(answer["nodes"][2].get("U"), None, "nothing was measured");
}

/// Answers one request on a port of its own; the port and what was asked for.
fn server(status: &'static str, body: &str) -> (u16, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = vec![0; 4096];
        let read = stream.read(&mut head).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8_lossy(&head[..read]).lines().next().unwrap_or_default().to_owned()
    });
    (port, asked)
}

fn ask(port: u16) -> Output {
    plimsoll().args(["top", "nodes", "--server", &format!("http://127.0.0.1:{port}/")]).output().unwrap()
}

#[test]
fn a_server_is_asked() {
    let report = text(&Files::new().run(&["-o", "json"]));
    let (port, asked) = server("200 OK", &report);
    let answer = text(&ask(port));
    assert_eq!(asked.join().unwrap(), "GET /api/v1/nodes HTTP/1.1");
    assert!(answer.lines().nth(1).unwrap().starts_with("n1"), "{answer}");
}

fn assert_fails(rule: &str, output: &Output, code: i32, part: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{rule}: {error}");
    assert!(error.contains(part), "{rule}: {error}");
}

#[test]
fn what_a_server_does_not_answer() {
    let (port, asked) =
        server("404 Not Found", r#"{"code": 404, "message": "placement.enabled must be true"}"#);
    assert_fails("refused", &ask(port), 3, "placement.enabled must be true");
    asked.join().unwrap();
    assert_fails("nobody listens there any more", &ask(port), 3, "port-forward");
    let (port, asked) = server("200 OK", "[]");
    assert_fails("nonsense", &ask(port), 3, "cannot be understood");
    asked.join().unwrap();
    let output = plimsoll().args(["top", "nodes", "--server", "127.0.0.1:8082"]).output().unwrap();
    assert_fails("no URL", &output, 2, "as in http://127.0.0.1:8082");
}
