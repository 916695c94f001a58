//! A browser that is told what to do: as much of the `WebDriver` protocol as the tests need.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

const MISSING: &str = "chromium and chromedriver are needed: apt-get install chromium chromium-driver";
/// Nothing that a browser is asked takes longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// What the protocol calls an element by.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A headless Chromium. Dropping it ends it.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    profile: tempfile::TempDir,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect(MISSING);
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines
            .find_map(|line| {
                line.unwrap().rsplit_once("successfully on port ")?.1.trim_end_matches('.').parse().ok()
            })
            .expect("chromedriver says its port");
        // What it says later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Self { driver, port, session: String::new(), profile };
        let mut arguments: Vec<String> = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            "--window-size=1280,800",
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.push(format!("--user-data-dir={}", browser.profile.path().display()));
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let session = browser
            .call("POST", "/session", &capabilities)
            .unwrap_or_else(|error| panic!("{MISSING}; {error}"));
        session["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        browser
    }

    /// One call; the value of the answer, or what went wrong.
    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).map_err(|error| error.to_string())?;
        let mut reader = BufReader::new(stream);
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            reader.read_line(&mut line).map_err(|error| error.to_string())?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut text = vec![0; length];
        reader.read_exact(&mut text).map_err(|error| error.to_string())?;
        let answer: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let value = answer["value"].clone();
        if value.get("error").is_some() { Err(value.to_string()) } else { Ok(value) }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let path = format!("/session/{}/{path}", self.session);
        self.call(method, &path, body).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) fn open(&self, url: &str) {
        self.ask("POST", "url", &json!({ "url": url }));
    }

    pub(crate) fn address(&self) -> String {
        self.ask("GET", "url", &Value::Null).as_str().unwrap().to_owned()
    }

    /// The value of a function's body. Pages may not run scripts; the one who drives the browser may.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.ask("POST", "execute/sync", &json!({"script": script, "args": []}))
    }

    pub(crate) fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.ask("POST", "goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// What the console says since it was asked last.
    pub(crate) fn console(&self) -> Vec<String> {
        let log = self.ask("POST", "se/log", &json!({"type": "browser"}));
        log.as_array().unwrap().iter().map(ToString::to_string).collect()
    }

    /// Clicks the first element of a selector, and waits until another page is there.
    pub(crate) fn follow(&self, selector: &str) {
        let before = self.address();
        let found = self.ask("POST", "element", &json!({"using": "css selector", "value": selector}));
        let element = found[ELEMENT].as_str().unwrap().to_owned();
        self.ask("POST", &format!("element/{element}/click"), &json!({}));
        let until = Instant::now() + PATIENCE;
        while self.address() == before {
            assert!(Instant::now() < until, "{selector} leads nowhere from {before}");
        }
    }

    pub(crate) fn press(&self, key: &str) {
        let keys = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        self.ask(
            "POST",
            "actions",
            &json!({"actions": [{"type": "key", "id": "keyboard", "actions": keys}]}),
        );
    }

    pub(crate) fn scheme(&self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", &features);
    }

    pub(crate) fn size(&self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// What is seen, as PNG; the whole page, or the window.
    pub(crate) fn picture(&self, whole: bool) -> Vec<u8> {
        let shot = self
            .devtools("Page.captureScreenshot", &json!({"format": "png", "captureBeyondViewport": whole}));
        base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap()).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session; its driver only when it is told to.
        let _ = self.call("DELETE", &format!("/session/{}", self.session), &Value::Null);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
