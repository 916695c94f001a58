//! An API server on loopback: it answers what stands in a table, refuses what is forbidden, and forwards to the port of
//! a pod what arrives as a web socket.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tungstenite::Message;
use tungstenite::handshake::server::{Request, Response};

/// What API servers speak on a port-forward.
const PROTOCOL: &str = "v4.channel.k8s.io";

/// What is answered, by path.
#[derive(Default)]
struct State {
    answers: BTreeMap<String, Value>,
    /// Paths that have one of these in them are refused.
    forbidden: Vec<String>,
    /// Nobody is let in.
    expired: bool,
    /// What the clock of the API server says.
    date: Option<String>,
    /// What a pod answers on its loopback.
    pods: BTreeMap<String, String>,
}

pub(crate) struct Api {
    state: Arc<Mutex<State>>,
    folder: tempfile::TempDir,
}

impl Api {
    pub(crate) fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let served = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let served = Arc::clone(&served);
                std::thread::spawn(move || serve(stream.unwrap(), &served));
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "test", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "shop"}}],
        });
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        Self { state, folder }
    }

    pub(crate) fn put(&self, path: &str, answer: Value) {
        self.state.lock().unwrap().answers.insert(path.to_owned(), answer);
    }

    pub(crate) fn list(&self, path: &str, items: &[Value]) {
        self.put(path, json!({"kind": "List", "metadata": {}, "items": items}));
    }

    pub(crate) fn remove(&self, path: &str) {
        self.state.lock().unwrap().answers.remove(path);
    }

    pub(crate) fn forbid(&self, part: &str) {
        self.state.lock().unwrap().forbidden.push(part.to_owned());
    }

    pub(crate) fn allow_all(&self) {
        self.state.lock().unwrap().forbidden.clear();
    }

    pub(crate) fn expire(&self) {
        self.state.lock().unwrap().expired = true;
    }

    pub(crate) fn says_it_is(&self, date: &str) {
        self.state.lock().unwrap().date = Some(date.to_owned());
    }

    pub(crate) fn pod_says(&self, pod: &str, body: &Value) {
        self.state.lock().unwrap().pods.insert(pod.to_owned(), body.to_string());
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(arguments.split_whitespace()).env_clear().stdout(Stdio::piped()).stderr(Stdio::piped());
        command.arg("--kubeconfig").arg(self.folder.path().join("kubeconfig"));
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Run {
        Run::of(&self.command(arguments).output().unwrap())
    }
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self { code: output.status.code().unwrap(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The words of each line.
    pub(crate) fn lines(&self) -> Vec<Vec<&str>> {
        self.out
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect()
    }
}

fn head_of(stream: &TcpStream) -> String {
    let mut head = vec![0; 16384];
    loop {
        let seen = stream.peek(&mut head).unwrap_or(0);
        let text = String::from_utf8_lossy(&head[..seen]).into_owned();
        if seen == 0 || text.contains("\r\n\r\n") {
            return text;
        }
        std::thread::yield_now();
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    let head = head_of(&stream);
    let Some(target) = head.split(' ').nth(1) else { return };
    let path = target.split('?').next().unwrap_or_default().to_owned();
    let is_forbidden = state.lock().unwrap().forbidden.iter().any(|part| path.contains(part));
    if path.ends_with("/portforward") && !is_forbidden {
        let pod = path.rsplit('/').nth(1).unwrap();
        let body = state.lock().unwrap().pods.get(pod).cloned().unwrap_or_default();
        forward(stream, &body);
        return;
    }
    let mut taken = vec![0; head.len()];
    stream.read_exact(&mut taken).unwrap();
    let answer = if state.lock().unwrap().expired {
        (401, status(401, "Unauthorized", "Unauthorized"))
    } else if is_forbidden {
        (403, status(403, "Forbidden", &format!("{path} is forbidden")))
    } else if let Some(answer) = state.lock().unwrap().answers.get(&path) {
        (200, answer.clone())
    } else {
        (404, status(404, "NotFound", "the server could not find the requested resource"))
    };
    let body = answer.1.to_string();
    let date =
        state.lock().unwrap().date.as_ref().map_or_else(String::new, |date| format!("date: {date}\r\n"));
    let text = format!(
        "HTTP/1.1 {} X\r\n{date}content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        answer.0,
        body.len()
    );
    let _ = stream.write_all(text.as_bytes());
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}

/// A port-forward as the API server makes it: channel 0 has data, channel 1 errors; each begins with the port.
#[expect(clippy::result_large_err, reason = "the type of the callback is the library's")]
fn forward(stream: TcpStream, body: &str) {
    let mut socket = tungstenite::accept_hdr(stream, |request: &Request, mut response: Response| {
        let offered = request.headers().get("sec-websocket-protocol").unwrap().to_str().unwrap();
        assert!(offered.contains(PROTOCOL), "{offered}");
        response.headers_mut().insert("sec-websocket-protocol", PROTOCOL.parse().unwrap());
        Ok(response)
    })
    .unwrap();
    let port = 8082_u16.to_le_bytes();
    for channel in [0, 1] {
        socket.send(Message::binary(vec![channel, port[0], port[1]])).unwrap();
    }
    let mut asked = Vec::new();
    while let Ok(message) = socket.read() {
        if let Message::Binary(data) = message
            && data.first() == Some(&0)
        {
            asked.extend_from_slice(&data[1..]);
            if asked.windows(4).any(|end| end == b"\r\n\r\n") {
                break;
            }
        }
    }
    let asked = String::from_utf8_lossy(&asked);
    assert!(asked.to_lowercase().contains("host: localhost"), "{asked}");
    let mut answer = vec![0];
    let length = body.len();
    let code = if body.is_empty() { "404 Not Found" } else { "200 OK" };
    answer.extend(format!("HTTP/1.1 {code}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes());
    socket.send(Message::binary(answer)).unwrap();
    while socket.read().is_ok() {}
}
