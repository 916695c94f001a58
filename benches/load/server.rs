//! The servers as processes, and what the kernel says about them.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const CA_FILE: &str = "ca.crt";
pub(crate) const PORTS_FILE: &str = "ports.json";
const LOG_FILE: &str = "log.txt";

/// No server takes longer to start.
const START: Duration = Duration::from_secs(30);
/// What `/proc` counts CPU time in; the kernel fixes it for user space.
const TICK: Duration = Duration::from_millis(10);

/// Where the programs are.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) plimsoll: PathBuf,
    pub(crate) load: PathBuf,
}

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Echo,
    JsonEcho,
    Plimsoll,
    /// Our extender, for so many nodes.
    Extender(usize),
    /// One that gives so many nodes the same points.
    Constant(usize),
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    folder: TempDir,
    pub(crate) kind: Kind,
    pub(crate) admission: SocketAddr,
    pub(crate) probes: Option<SocketAddr>,
    pub(crate) start_to_ready: Duration,
}

impl Server {
    /// Starts a server, on one core only if `core` says so, and waits until it is ready.
    pub(crate) fn start(programs: &Programs, kind: Kind, core: Option<usize>) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let place = |name: &str| folder.path().join(name);
        let program = match kind {
            Kind::Echo | Kind::JsonEcho | Kind::Extender(_) | Kind::Constant(_) => &programs.load,
            Kind::Plimsoll => &programs.plimsoll,
        };
        let mut command = match core {
            Some(core) => {
                let mut command = Command::new("taskset");
                command.args(["-c", &core.to_string()]).arg(program);
                command
            }
            None => Command::new(program),
        };
        match kind {
            Kind::Echo => command.arg("--echo").arg(folder.path()),
            Kind::JsonEcho => command.arg("--json-echo").arg("--echo").arg(folder.path()),
            Kind::Extender(nodes) => {
                command.arg("--echo").arg(folder.path()).args(["--nodes", &nodes.to_string()])
            }
            Kind::Constant(nodes) => {
                command.arg("--echo").arg(folder.path()).args(["--constant-nodes", &nodes.to_string()])
            }
            Kind::Plimsoll => {
                let objects = place("objects");
                std::fs::create_dir(&objects)?;
                std::fs::write(objects.join("profile.yaml"), include_str!("../data/objects/profile.yaml"))?;
                std::fs::write(
                    objects.join("namespace.yaml"),
                    include_str!("../data/objects/namespace.yaml"),
                )?;
                command
                    .args([
                        "serve",
                        "--address",
                        "127.0.0.1:0",
                        "--probes-address",
                        "127.0.0.1:0",
                        "--api-address",
                        "",
                    ])
                    .arg("--standalone")
                    .arg(objects)
                    .arg("--ca-file")
                    .arg(place(CA_FILE))
                    .arg("--ports-file")
                    .arg(place(PORTS_FILE))
            }
        };
        let log = File::create(place(LOG_FILE))?;
        let began = Instant::now();
        let child = command
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{} does not start", program.display()))?;
        let mut server = Self {
            child,
            folder,
            kind,
            admission: SocketAddr::from(([127, 0, 0, 1], 0)),
            probes: None,
            start_to_ready: Duration::ZERO,
        };
        let ports = server.wait_for_ports(began)?;
        let address = |key: &str| ports.get(key).and_then(Value::as_str).map(str::parse).transpose();
        server.admission = address("admission")?.context("the ports file names no admission address")?;
        server.probes = address("probes")?;
        Ok(server)
    }

    /// All servers write their ports once they are ready.
    fn wait_for_ports(&mut self, began: Instant) -> anyhow::Result<Value> {
        let path = self.folder.path().join(PORTS_FILE);
        loop {
            if let Ok(text) = std::fs::read_to_string(&path) {
                self.start_to_ready = began.elapsed();
                return Ok(serde_json::from_str(&text)?);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{:?} ended with {status} before it was ready:\n{}", self.kind, self.log());
            }
            ensure!(began.elapsed() < START, "{:?} is not ready after {START:?}:\n{}", self.kind, self.log());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join(LOG_FILE)).unwrap_or_default()
    }

    /// The CA of its certificate.
    pub(crate) fn ca_file(&self) -> PathBuf {
        self.folder.path().join(CA_FILE)
    }

    /// CPU time used so far, user and system.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        cpu(Path::new(&format!("/proc/{}/stat", self.child.id())))
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS")?;
        Ok(kib * 1024)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of a process, user and system, from its `stat` file.
pub(crate) fn cpu(stat: &Path) -> anyhow::Result<Duration> {
    let text = std::fs::read_to_string(stat).with_context(|| stat.display().to_string())?;
    // The second field is the name in parentheses; the first one after it is the third.
    let (_, rest) = text.rsplit_once(") ").context("a stat file without a name")?;
    let ticks: u32 =
        rest.split(' ').skip(11).take(2).map(|field| field.parse::<u32>().unwrap_or_default()).sum();
    Ok(TICK * ticks)
}
