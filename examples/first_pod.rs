//! What `make run` shows: a server without a cluster, and what it makes of a first pod.
//!
//! It starts the program that `cargo build` made with the manifests of `examples/standalone`, sends a pod over TLS as
//! the API server would, shows what became of it, and goes on serving until Ctrl-C.

#![expect(clippy::indexing_slicing, reason = "a member that a JSON value does not have is null, not a panic")]

use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use base64::Engine as _;
use clap::Parser as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

/// Show a first pod to a server that runs without a cluster
#[derive(Debug, clap::Parser)]
pub(crate) struct Options {
    /// End after showing, in place of serving until Ctrl-C
    #[arg(long)]
    pub(crate) once: bool,

    /// The pod to show
    #[arg(long, value_name = "FILE", default_value = "examples/pod.yaml")]
    pub(crate) pod: PathBuf,

    /// The manifests that stand for the cluster
    #[arg(long, value_name = "DIR", default_value = "examples/standalone")]
    pub(crate) objects: PathBuf,

    /// How often to ask again, for the time of an answer
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) repeat: usize,

    /// The program, in place of the one that was built beside this example
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,

    /// Where certificate authority, review and log are written, in place of a folder beside the program
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,

    /// Listen on free ports, in place of 8443, 8081 and 8082
    #[arg(long)]
    pub(crate) any_port: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let shown = runtime.block_on(async {
        let mut out = io::stdout();
        tokio::select! {
            shown = show(&options, &mut out, colour) => shown,
            // The server is ended when `show` is dropped.
            stopped = told_to_stop() => stopped,
        }
    });
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    // Whoever closed standard error does not want to read it.
    let _ = writeln!(io::stderr(), "error: {error:#}");
    ExitCode::FAILURE
}

/// Starts the server, shows it the pod, and goes on until the server ends, or ends it where `once` is set.
pub(crate) async fn show(options: &Options, out: &mut dyn Write, colour: bool) -> Result<()> {
    let pod = read_pod(&options.pod)?;
    let mut server = Server::start(options, out).await?;
    let [review, dry_run] = [false, true].map(|dry_run| review(&pod, dry_run).to_string().into_bytes());
    fs::write(server.folder.join("review.json"), &review)?;

    let began = Instant::now();
    let mut connection = connect(server.admission, &server.folder.join("ca.crt")).await?;
    let answer = ask(&mut connection, &review).await?;
    let first = began.elapsed();
    write_answer(out, options, &pod, &answer, colour)?;

    let mut times = Vec::with_capacity(options.repeat);
    for _ in 0..options.repeat {
        let began = Instant::now();
        // Pods that only measure the time are not to be summed up on the pages.
        ask(&mut connection, &dry_run).await?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    write!(out, "  time      {} with the TLS handshake", milliseconds(first))?;
    if let Some(median) = times.get(times.len() / 2) {
        write!(out, ", then {} (median of {})", milliseconds(*median), times.len())?;
    }
    writeln!(out)?;
    if options.once {
        return server.end().await;
    }
    write_what_next(out, options, &server)?;
    let status = server.process.wait().await?;
    bail!("the server ended by itself ({status}); the end of its log:\n{}", server.log_tail())
}

async fn told_to_stop() -> Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted?,
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await?;
    Ok(())
}

fn read_pod(path: &Path) -> Result<Value> {
    let documents = plimsoll::input::read_manifests(path).map_err(|error| {
        anyhow!("{error}; run this in the folder of the repository, or name a pod by --pod")
    })?;
    let mut pods =
        documents.into_iter().map(|document| document.value).filter(|value| value["kind"] == "Pod");
    let mut pod = pods.next().with_context(|| format!("{} holds no object of kind Pod", path.display()))?;
    // The API server does so before it calls anybody.
    plimsoll_core::pod::default_requests(&mut pod);
    Ok(pod)
}

/// The pod as the API server would send it.
fn review(pod: &Value, dry_run: bool) -> Value {
    let metadata = &pod["metadata"];
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "name": metadata["name"],
            "namespace": metadata["namespace"].as_str().unwrap_or("default"),
            "operation": "CREATE",
            "userInfo": {"username": "first-pod"},
            "object": pod,
            "oldObject": null,
            "dryRun": dry_run,
        },
    })
}

const ANY_PORT: &str = "127.0.0.1:0";

/// The server as a process of its own. Dropping it ends the process.
struct Server {
    process: Child,
    program: PathBuf,
    /// Where its certificate authority, its log and the review are.
    folder: PathBuf,
    admission: SocketAddr,
    probes: SocketAddr,
    api: SocketAddr,
}

impl Server {
    async fn start(options: &Options, out: &mut dyn Write) -> Result<Self> {
        let program = match &options.program {
            Some(program) => program.clone(),
            // This example is in `examples` beside it.
            None => std::env::current_exe()?.with_file_name("../plimsoll").canonicalize().context(
                "the program is not built; `cargo build` makes it, and `make run` does both in turn",
            )?,
        };
        let program = short(&program);
        let mut address =
            |port| if options.any_port { Ok(ANY_PORT.to_owned()) } else { free_address(port, out) };
        let (admission, probes, api) = (address(8443)?, address(8081)?, address(8082)?);
        let folder = options.folder.clone().unwrap_or_else(|| {
            // Beside a run that has the usual port, another one must leave that one's files alone.
            let own = if admission == ANY_PORT { format!("-{}", std::process::id()) } else { String::new() };
            program.with_file_name(format!("first_pod{own}"))
        });
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let ports = folder.join("ports.json");
        let _ = fs::remove_file(&ports);
        let log = File::create(folder.join("server.log"))?;
        let mut command = Command::new(&program);
        command
            .args([
                "serve",
                "--address",
                &admission,
                "--probes-address",
                &probes,
                "--api-address",
                &api,
                "--standalone",
            ])
            .arg(&options.objects)
            .arg("--ca-file")
            .arg(folder.join("ca.crt"))
            .arg("--ports-file")
            .arg(&ports)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true);
        // What is set for another server is not meant for this one.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PLIMSOLL_"))
        {
            command.env_remove(name);
        }
        let process = command.spawn().with_context(|| format!("{} does not start", program.display()))?;
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self { process, program, folder, admission: unknown, probes: unknown, api: unknown };
        (server.admission, server.probes, server.api) = server.addresses(&ports).await?;
        Ok(server)
    }

    /// Waits until the server says that it is ready, and where.
    async fn addresses(&mut self, ports: &Path) -> Result<(SocketAddr, SocketAddr, SocketAddr)> {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !ports.exists() {
            if let Some(status) = self.process.try_wait()? {
                bail!("the server does not start ({status}); it says:\n{}", self.log_tail());
            }
            ensure!(Instant::now() < deadline, "not ready within 30 s; it says:\n{}", self.log_tail());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let said: Value = serde_json::from_slice(&fs::read(ports)?)?;
        let address = |name: &str| -> Result<SocketAddr> {
            let text = said[name].as_str().with_context(|| format!("{} has no {name}", ports.display()))?;
            Ok(text.parse()?)
        };
        Ok((address("admission")?, address("probes")?, address("api")?))
    }

    fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.folder.join("server.log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines.get(lines.len().saturating_sub(10)..).unwrap_or_default().join("\n")
    }

    async fn end(mut self) -> Result<()> {
        Ok(self.process.kill().await?)
    }
}

/// The loopback address with the usual port, or with any free one if that is taken.
fn free_address(port: u16, out: &mut dyn Write) -> Result<String> {
    if TcpListener::bind(("127.0.0.1", port)).is_ok() {
        return Ok(format!("127.0.0.1:{port}"));
    }
    writeln!(out, "port {port} is taken; another one is used")?;
    Ok(ANY_PORT.to_owned())
}

/// A path as a person in this directory would write it.
fn short(path: &Path) -> PathBuf {
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).to_owned()
}

type Connection = SendRequest<Full<Bytes>>;

/// A connection that trusts the server's authority and nobody else.
async fn connect(address: SocketAddr, ca: &Path) -> Result<Connection> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).with_context(|| format!("{}", ca.display()))?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(ServerName::try_from("localhost")?, stream).await?;
    let (connection, driver) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(driver);
    Ok(connection)
}

async fn ask(connection: &mut Connection, review: &[u8]) -> Result<Value> {
    let request = hyper::Request::post("/mutate?timeout=3s")
        .header("Host", "localhost")
        .header("Content-Type", "application/json")
        .body(Full::new(Bytes::copy_from_slice(review)))?;
    connection.ready().await?;
    let response = connection.send_request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    ensure!(status.is_success(), "the server answers {status}: {}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).context("the answer is not JSON")
}

fn write_answer(
    out: &mut dyn Write,
    options: &Options,
    before: &Value,
    answer: &Value,
    colour: bool,
) -> Result<()> {
    let response = &answer["response"];
    let mut after = before.clone();
    if let Some(patch) = response["patch"].as_str() {
        let patch = base64::engine::general_purpose::STANDARD.decode(patch)?;
        json_patch::patch(&mut after, &serde_json::from_slice::<json_patch::Patch>(&patch)?)?;
    }
    writeln!(out, "{} is created:\n", options.pod.display())?;
    let header = ["CONTAINER", "RESOURCE", "REQUESTED", "BECOMES", "LIMIT"].map(str::to_owned);
    let mut rows = vec![(header, false)];
    for list in ["initContainers", "containers"] {
        let containers = |pod: &Value| pod["spec"][list].as_array().cloned().unwrap_or_default();
        for (old, new) in containers(before).iter().zip(containers(&after)) {
            for resource in ["cpu", "memory"] {
                let text = |container: &Value, part: &str| match &container["resources"][part][resource] {
                    Value::Null => "-".to_owned(),
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let name = old["name"].as_str().unwrap_or_default().to_owned();
                let (was, is) = (text(old, "requests"), text(&new, "requests"));
                let changed = was != is;
                rows.push(([name, resource.to_owned(), was, is, text(old, "limits")], changed));
            }
        }
    }
    write_table(out, &rows, colour)?;
    let audit = |key: &str| response["auditAnnotations"][key].as_str().unwrap_or("none");
    writeln!(out, "\n  decision  {} (profile {})", audit("decision"), audit("profile"))?;
    for warning in response["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        writeln!(out, "  warning   {warning}")?;
    }
    Ok(())
}

/// Columns of equal width; what changed stands out.
fn write_table(out: &mut dyn Write, rows: &[([String; 5], bool)], colour: bool) -> Result<()> {
    let width = |column: usize| rows.iter().map(|(row, _)| row[column].len()).max().unwrap_or_default();
    let [w0, w1, w2, w3] = [0, 1, 2, 3].map(width);
    for ([name, resource, was, is, limit], changed) in rows {
        let (on, off) = if *changed && colour { ("\u{1b}[32m", "\u{1b}[0m") } else { ("", "") };
        writeln!(out, "  {on}{name:w0$}  {resource:w1$}  {was:w2$}  {is:w3$}  {limit}{off}")?;
    }
    Ok(())
}

fn write_what_next(out: &mut dyn Write, options: &Options, server: &Server) -> Result<()> {
    let (folder, objects) = (server.folder.display(), options.objects.display());
    let (address, probes, api) = (server.admission, server.probes, server.api);
    writeln!(out, "\nIts dashboard, for your browser: http://{api}/\n")?;
    writeln!(out, "The server goes on at https://{address}/mutate. In another terminal:\n")?;
    writeln!(out, "  curl --cacert {folder}/ca.crt -H 'Content-Type: application/json' \\")?;
    writeln!(out, "      -d @{folder}/review.json https://{address}/mutate")?;
    writeln!(out, "  curl http://{probes}/metrics")?;
    let (program, pod) = (server.program.display(), options.pod.display());
    writeln!(out, "  {program} mutate -f {pod} --objects {objects} -o explain\n")?;
    writeln!(out, "Change a file in {objects}: it is taken over within seconds. The server's log is")?;
    writeln!(out, "{folder}/server.log. Ctrl-C ends the server.")?;
    Ok(())
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
