//! `plimsoll serve` as a process: from its arguments to its exit code.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

/// No test waits longer than this for what must come.
const PATIENCE: Duration = Duration::from_secs(30);

const PROFILE: &str = "
apiVersion: plimsoll.dev/v1alpha1
kind: OvercommitProfile
metadata: {name: shared-pool}
spec: {mode: Static, match: {pools: [shared]}, static: {factors: {cpu: 'FACTOR'}}}
";
const NAMESPACE: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {plimsoll.dev/pool: shared}}
";

/// A folder with everything that a server needs.
struct Workspace(tempfile::TempDir);

impl Workspace {
    fn new() -> Self {
        let workspace = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(workspace.path("objects")).unwrap();
        workspace.write("objects/namespace.yaml", NAMESPACE);
        workspace.write("objects/profile.yaml", &PROFILE.replace("FACTOR", "0.5"));
        workspace.write("config.yaml", "log: {level: info}\n");
        workspace
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Puts a file in place as a whole, as those who are polled ask for.
    fn write(&self, name: &str, text: &str) {
        let new = self.path("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.path(name)).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.env_clear().arg("serve").arg("--config").arg(self.path("config.yaml"));
        for flag in ["--address", "--probes-address", "--api-address"] {
            command.args([flag, "127.0.0.1:0"]);
        }
        command
    }

    fn start(&self) -> Serving {
        let mut command = self.command();
        command.arg("--standalone").arg(self.path("objects"));
        command.arg("--ca-file").arg(self.path("ca.crt"));
        command.arg("--ports-file").arg(self.path("ports.json"));
        self.spawn(&mut command)
    }

    /// Starts a server and waits for its ports file.
    fn spawn(&self, command: &mut Command) -> Serving {
        let log = std::fs::File::create(self.path("log")).unwrap();
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut serving = Serving { child, admission: None, probes: None, api: None };
        until("ready", || self.path("ports.json").exists() || serving.child.try_wait().unwrap().is_some());
        let text = std::fs::read_to_string(self.path("ports.json"));
        let ports: Value = serde_json::from_str(&text.unwrap_or_else(|_| panic!("{}", self.log()))).unwrap();
        let address = |name: &str| ports[name].as_str().and_then(|text| text.parse().ok());
        (serving.admission, serving.probes) = (address("admission"), address("probes"));
        serving.api = address("api");
        serving
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap()
    }

    /// The CPU request that the server gives a pod which asks for one core.
    fn lowered_cpu(&self, serving: &Serving) -> Option<String> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"containers": [{"name": "app", "image": "x", "resources": {"requests": {"cpu": "1"}}}]},
        });
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u", "operation": "CREATE", "namespace": "shop", "name": "web",
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "object": pod,
            },
        });
        let ca = CertificateDer::from_pem_file(self.path("ca.crt")).unwrap();
        let answer = post(serving.admission.unwrap(), ca, &review.to_string());
        let review: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(review["response"]["allowed"], true, "{answer}");
        let patch =
            base64::engine::general_purpose::STANDARD.decode(review["response"]["patch"].as_str()?).unwrap();
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        let request = "/spec/containers/0/resources/requests/cpu";
        let operation = patch.as_array().unwrap().iter().find(|operation| operation["path"] == request)?;
        operation["value"].as_str().map(str::to_owned)
    }
}

/// A running server; ended with the test, however that ends.
struct Serving {
    child: Child,
    admission: Option<SocketAddr>,
    probes: Option<SocketAddr>,
    api: Option<SocketAddr>,
}

impl Serving {
    fn probe(&self, path: &str) -> String {
        get(self.probes.unwrap(), "x", path)
    }

    fn terminate(mut self) -> Option<i32> {
        let signal = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(signal.success());
        let mut code = None;
        until("the exit", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        code.unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(address: SocketAddr, host: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn post(address: SocketAddr, ca: CertificateDer<'static>, body: &str) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(ca).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut stream = StreamOwned::new(client, TcpStream::connect(address).unwrap());
    write!(
        stream,
        "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn standalone_from_start_to_end() {
    let workspace = Workspace::new();
    let serving = workspace.start();
    assert_eq!(workspace.lowered_cpu(&serving).as_deref(), Some("500m"));
    let ready = serving.probe("/readyz");
    assert!(ready.starts_with("HTTP/1.1 200") && ready.contains("[+] snapshots: ok"), "{ready}");
    assert!(serving.probe("/livez").starts_with("HTTP/1.1 200"));
    assert!(serving.probe("/metrics").contains("plimsoll_profiles{state=\"valid\"} 1"));
    let log = workspace.log();
    let line = log
        .lines()
        .find(|line| line.contains("\"message\":\"ready\""))
        .expect("a line says that it is ready");
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["admission"], serving.admission.unwrap().to_string());
    assert_eq!(line["probes"], serving.probes.unwrap().to_string());

    // Changed manifests are taken over; wrong ones are reported and change nothing.
    workspace.write("objects/profile.yaml", &PROFILE.replace("FACTOR", "0.25"));
    until("the new factor", || workspace.lowered_cpu(&serving).as_deref() == Some("250m"));
    workspace.write("objects/profile.yaml", &PROFILE.replace("FACTOR", "25"));
    until("the report", || workspace.log().contains("spec.static.factors.cpu"));
    assert_eq!(workspace.lowered_cpu(&serving).as_deref(), Some("250m"));
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn readyz_says_that_the_folder_is_refused_or_gone() {
    let workspace = Workspace::new();
    let serving = workspace.start();
    let degraded = |why: &str| {
        let text = serving.probe("/readyz");
        text.starts_with("HTTP/1.1 200") && text.contains("[~] snapshots: degraded:") && text.contains(why)
    };
    workspace.write("objects/profile.yaml", &PROFILE.replace("FACTOR", "25"));
    until("refused", || degraded("spec.static.factors.cpu"));
    std::fs::rename(workspace.path("objects"), workspace.path("elsewhere")).unwrap();
    until("gone", || degraded("cannot be read"));
    std::fs::rename(workspace.path("elsewhere"), workspace.path("objects")).unwrap();
    workspace.write("objects/profile.yaml", &PROFILE.replace("FACTOR", "0.25"));
    until("good again", || serving.probe("/readyz").contains("[+] snapshots: ok"));
    assert_eq!(workspace.lowered_cpu(&serving).as_deref(), Some("250m"));
    assert_eq!(serving.terminate(), Some(0));
}

/// Opening a named pipe waits for a writer, and there is none.
#[test]
fn a_pipe_in_the_place_of_a_file_stops_neither_reload_nor_the_end() {
    let workspace = Workspace::new();
    let certs = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["certs", "--service", "plimsoll", "--dir"])
        .arg(workspace.path("certs"))
        .output()
        .unwrap();
    assert!(certs.status.success(), "{certs:?}");
    let mut command = workspace.command();
    command.arg("--standalone").arg(workspace.path("objects"));
    command.arg("--ports-file").arg(workspace.path("ports.json"));
    command.env("PLIMSOLL_TLS__SOURCE", "Files");
    command.env("PLIMSOLL_TLS__CERTIFICATE", workspace.path("certs/tls.crt"));
    command.env("PLIMSOLL_TLS__KEY", workspace.path("certs/tls.key"));
    command.env("PLIMSOLL_TLS__POLL_INTERVAL", "1s");
    let serving = workspace.spawn(&mut command);

    let pipe = |name: &str| {
        let _ = std::fs::remove_file(workspace.path(name));
        assert!(Command::new("mkfifo").arg(workspace.path(name)).status().unwrap().success());
    };
    for name in ["objects/x.yaml", "certs/tls.crt", "config.yaml"] {
        pipe(name);
        let file = workspace.path(name).display().to_string();
        let refused = |line: &str| line.contains(&file) && line.contains("not a regular file");
        until("the refusal", || workspace.log().lines().any(refused));
    }
    std::fs::remove_file(workspace.path("objects/x.yaml")).unwrap();
    workspace.write("objects/profile.yaml", &PROFILE.replace("FACTOR", "0.25"));
    until("a reload", || serving.probe("/readyz").contains("[+] snapshots: ok"));
    assert_eq!(serving.terminate(), Some(0));
}

/// Who waits for the file must hear that it does not come.
#[test]
fn a_ports_file_that_can_no_longer_be_written_ends_the_server() {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path("ports")).unwrap();
    // Not ready, and so not writing, before the API server has answered.
    let api_server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": format!("http://{}", api_server.local_addr().unwrap())}}],
        "users": [{"name": "x", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    });
    workspace.write("kubeconfig", &kubeconfig.to_string());
    let mut command = workspace.command();
    command.arg("--kubeconfig").arg(workspace.path("kubeconfig"));
    command.arg("--ports-file").arg(workspace.path("ports/ports.json"));
    command.env("PLIMSOLL_TLS__SOURCE", "Ephemeral");
    let log = std::fs::File::create(workspace.path("log")).unwrap();
    let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let mut serving = Serving { child, admission: None, probes: None, api: None };
    // It was found writable at the start if anything is asked of the API server.
    let mut streams = vec![api_server.accept().unwrap().0];
    std::fs::remove_dir(workspace.path("ports")).unwrap();
    std::thread::spawn(move || {
        loop {
            let stream = match streams.pop() {
                Some(stream) => stream,
                None => api_server.accept().unwrap().0,
            };
            std::thread::spawn(move || answer_with_nothing(stream));
        }
    });
    let mut code = None;
    until("the exit", || {
        code = serving.child.try_wait().unwrap();
        code.is_some()
    });
    let log = workspace.log();
    assert_eq!(code.unwrap().code(), Some(3), "{log}");
    assert!(log.contains("ports.json cannot be written: No such file"), "{log}");
}

/// An API server without any object and without any kind that is not its own.
fn answer_with_nothing(mut stream: TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while stream.read(&mut byte).is_ok_and(|count| count > 0) {
        head.push(byte[0]);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let request = String::from_utf8(std::mem::take(&mut head)).unwrap();
        if request.contains("watch=true") {
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            continue;
        }
        let list =
            json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []});
        let list = list.to_string();
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{list}",
            list.len()
        );
    }
}

#[test]
fn the_configuration_is_taken_over_while_it_runs() {
    let workspace = Workspace::new();
    workspace.write("objects/profile.yaml", NAMESPACE);
    std::fs::remove_file(workspace.path("objects/namespace.yaml")).unwrap();
    let serving = workspace.start();
    assert_eq!(workspace.lowered_cpu(&serving), None, "no profile yet");
    assert!(!workspace.log().contains("\"message\":\"reviewed\""));

    let config = |excluded: &str, level: &str| {
        format!(
            "admission: {{excludedNamespaces: [{excluded}]}}\nlog: {{level: {level}}}\n\
             profiles: [{{name: all, spec: {{mode: Static, static: {{factors: {{cpu: '0.5'}}}}}}}}]\n"
        )
    };
    workspace.write("config.yaml", &config("kube-system", "debug"));
    until("the profile", || workspace.lowered_cpu(&serving).as_deref() == Some("500m"));
    until("the log level", || {
        let _ = workspace.lowered_cpu(&serving);
        workspace.log().contains("\"message\":\"reviewed\"")
    });
    workspace.write("config.yaml", &config("shop", "debug"));
    until("the exclusion", || workspace.lowered_cpu(&serving).is_none());
    assert!(serving.probe("/metrics").contains("plimsoll_config_reloads_total{result=\"success\"} 2"));
    assert_eq!(serving.terminate(), Some(0));
}

fn run(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.stdin(Stdio::null()).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

/// Sets up what is wrong.
type Prepare<'a> = Box<dyn Fn(&mut Command) + 'a>;

#[test]
fn what_is_wrong_at_the_start_ends_it_with_a_reason() {
    let workspace = Workspace::new();
    let objects = workspace.path("objects");
    workspace.write("broken.yaml", &PROFILE.replace("FACTOR", "5"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let standalone = |command: &mut Command, path: &Path| {
        command.arg("--standalone").arg(path);
    };
    let rows: [(&str, Prepare<'_>, i32, &str); 8] = [
        ("no folder", Box::new(|c| standalone(c, &workspace.path("none"))), 2, "cannot be read"),
        (
            "broken profile",
            Box::new(|c| standalone(c, &workspace.path("broken.yaml"))),
            2,
            "spec.static.factors.cpu",
        ),
        (
            "folder and cluster",
            Box::new(|c| {
                standalone(c, &objects);
                c.args(["--context", "x"]);
            }),
            2,
            "--context",
        ),
        (
            "address",
            Box::new(|c| {
                c.env("PLIMSOLL_SERVER__ADDRESS", "nowhere");
                c.arg("--address=nowhere");
            }),
            2,
            "address",
        ),
        (
            "no certificate",
            Box::new(|c| {
                c.env("PLIMSOLL_TLS__CERTIFICATE", "/nonexistent");
            }),
            2,
            "/nonexistent: No such file or directory (os error 2); check that the file is mounted and readable, or set \
             tls.certificate and tls.key (`plimsoll certs` makes them)",
        ),
        (
            "CA of files",
            Box::new(|c| {
                standalone(c, &objects);
                c.env("PLIMSOLL_TLS__SOURCE", "Files").arg("--ca-file=ca.crt");
            }),
            2,
            "--ca-file",
        ),
        (
            "no kubeconfig",
            Box::new(|c| {
                c.env("PLIMSOLL_TLS__SOURCE", "Ephemeral").arg("--kubeconfig=/nonexistent");
            }),
            2,
            "/nonexistent",
        ),
        (
            "port in use",
            Box::new(|c| {
                standalone(c, &objects);
                c.env("PLIMSOLL_PROBES__ADDRESS", &taken);
            }),
            3,
            "cannot listen on",
        ),
    ];
    each_ends_at_once(rows);
}

/// Who waits for these files must not wait for ever.
#[test]
fn files_for_others_that_cannot_be_written_end_it() {
    let workspace = Workspace::new();
    let objects = workspace.path("objects");
    let standalone = |command: &mut Command, path: &Path| {
        command.arg("--standalone").arg(path);
    };
    let rows: [(&str, Prepare<'_>, i32, &str); 3] = [
        (
            "no folder for the ports file",
            Box::new(|c| {
                standalone(c, &objects);
                c.arg("--ports-file").arg(workspace.path("none/ports.json"));
            }),
            3,
            "ports.json cannot be written: No such file",
        ),
        (
            "a folder in the place of the ports file",
            Box::new(|c| {
                standalone(c, &objects);
                c.arg("--ports-file").arg(&objects);
            }),
            3,
            "cannot be written: is a directory",
        ),
        (
            "a folder in the place of the CA file",
            Box::new(|c| {
                standalone(c, &objects);
                c.arg("--ca-file").arg(&objects);
            }),
            3,
            "cannot be written: Is a directory",
        ),
    ];
    each_ends_at_once(rows);
}

fn each_ends_at_once<const N: usize>(rows: [(&str, Prepare<'_>, i32, &str); N]) {
    for (rule, prepare, code, expected) in rows {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.env_clear().arg("serve");
        command.env("PLIMSOLL_SERVER__ADDRESS", "127.0.0.1:0").env("PLIMSOLL_PROBES__ADDRESS", "127.0.0.1:0");
        prepare(&mut command);
        let (found, text) = run(&mut command);
        assert_eq!(found, Some(code), "{rule}: {text}");
        assert!(text.contains(expected), "{rule}: {text}");
        let said = text.matches("(os error ").count();
        assert!(said <= 1, "{rule}: the reason is said {said} times: {text}");
    }
}

#[test]
fn recommendations_are_told_on_loopback() {
    let workspace = Workspace::new();
    workspace.write(
        "objects/recommendation.yaml",
        "
apiVersion: plimsoll.dev/v1alpha1
kind: Recommendation
metadata: {name: deployment-web, namespace: shop}
spec: {profile: shared-pool, targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
status: {containers: [{name: app, cpu: {target: 800m}, memory: {target: 1Gi}}]}
",
    );
    let serving = workspace.start();
    let api = serving.api.unwrap();
    assert!(api.ip().is_loopback());
    let path = "/api/v1/recommendations/shop/Deployment/web";
    let answer = get(api, "localhost", path);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let list: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(list["items"][0]["containers"][0]["cpu"]["target"], "800m", "{answer}");
    assert_eq!(list["items"][0]["userProfile"], "balanced", "{answer}");
    assert!(get(api, "evil.example", path).starts_with("HTTP/1.1 421 "));
    assert_eq!(serving.terminate(), Some(0), "{}", workspace.log());

    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.env_clear().args(["serve", "--api-address", "0.0.0.0:0", "--standalone"]);
    let refused = command.arg(workspace.path("objects")).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(text.contains("is reached from other machines"), "{text}");
}
