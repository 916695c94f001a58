//! Where the programs are, and what to do when they are not.

use std::ffi::OsStr;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// What `tests/e2e/controlplane/build.sh` builds.
const PROGRAMS: [&str; 6] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl"];

/// Where `tests/e2e/controlplane/build.sh` puts what it builds.
fn programs_folder() -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/controlplane/build.sh");
    let output = Command::new("bash")
        .arg(&script)
        .arg("--dir")
        .output()
        .context("the harness asks a bash script for the control plane's folder: install bash")?;
    ensure!(output.status.success(), "{}: {}", script.display(), String::from_utf8_lossy(&output.stderr));
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// The folder of the control plane's programs; fails with what to do if one is missing.
pub(crate) fn control_plane() -> Result<PathBuf> {
    let dir = programs_folder()?;
    let missing: Vec<&str> = PROGRAMS.into_iter().filter(|program| !dir.join(program).exists()).collect();
    if !missing.is_empty() {
        bail!(
            "{} missing in {}: build them with tests/e2e/controlplane/build.sh (Go 1.26+, about 15 minutes the \
             first time; `make e2e` does it), or set KUBECONFIG to use a cluster of your own",
            missing.join(", "),
            dir.display()
        );
    }
    Ok(dir)
}

/// `prometheus` and `promtool`: those that were built beside the control plane, else those of the system.
pub(crate) fn prometheus() -> Result<[PathBuf; 2]> {
    let built = programs_folder()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = [built].into_iter().chain(std::env::split_paths(&path)).collect();
    let find = |program: &str| {
        let found = folders.iter().map(|folder| folder.join(program)).find(|file| file.is_file());
        found.with_context(|| {
            format!(
                "{program} is missing: build it with `tests/e2e/controlplane/build.sh prometheus` (`make e2e` does \
                 it), or install it (Debian: apt-get install prometheus)"
            )
        })
    };
    Ok([find("prometheus")?, find("promtool")?])
}

/// What the program said, and with what it ended; nothing where a signal ended it.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// `kubectl` with its configuration.
#[derive(Debug, Clone)]
pub(crate) struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    pub(crate) fn new(program: PathBuf, kubeconfig: PathBuf) -> Self {
        Self { program, kubeconfig }
    }

    /// Runs the program itself against the same cluster and gives its standard output.
    pub(crate) fn plimsoll(&self, args: &[&str]) -> Result<String> {
        let said = self.attempt(args)?;
        ensure!(said.code == Some(0), "{args:?}: {:?}: {} {}", said.code, said.stderr.trim(), said.stdout);
        Ok(said.stdout)
    }

    /// The same, whatever comes of it.
    pub(crate) fn attempt(&self, args: &[&str]) -> Result<Said> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        let output = command.env("KUBECONFIG", &self.kubeconfig).args(args).output()?;
        Ok(Said {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout)?,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs kubectl and gives its standard output; `stdin` is for `-f -`.
    pub(crate) fn run<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        stdin: Option<&str>,
    ) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(args);
        command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().with_context(|| {
            format!("run {}: install kubectl or build the control plane", self.program.display())
        })?;
        if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
            match pipe.write_all(text.as_bytes()) {
                // It has heard enough, and says below what it makes of it.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                written => written?,
            }
        }
        let output = child.wait_with_output()?;
        ensure!(
            output.status.success(),
            "{command:?}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8(output.stdout)?)
    }
}
