//! `helm`, with folders of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

/// The chart of this repository.
pub(crate) const CHART: &str = "chart";

#[derive(Debug, Clone)]
pub(crate) struct Helm {
    program: PathBuf,
    kubeconfig: PathBuf,
    dir: PathBuf,
}

/// What a program said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) good: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Helm {
    pub(crate) fn new(bin: &Path, kubeconfig: &Path, dir: &Path) -> Result<Self> {
        let program = bin.join("helm");
        ensure!(
            program.is_file(),
            "{} is missing: build it with `tests/e2e/controlplane/build.sh helm` (`make e2e` does it)",
            program.display()
        );
        Ok(Self { program, kubeconfig: kubeconfig.to_owned(), dir: dir.join("helm") })
    }

    /// Runs it in the repository's folder, whatever comes of it.
    pub(crate) async fn attempt(&self, args: &[&str]) -> Result<Said> {
        let mut command = tokio::process::Command::new(&self.program);
        for folder in ["CACHE", "CONFIG", "DATA"] {
            command.env(format!("HELM_{folder}_HOME"), self.dir.join(folder));
        }
        command.env("KUBECONFIG", &self.kubeconfig).current_dir(env!("CARGO_MANIFEST_DIR")).args(args);
        // A scenario that is cut short leaves nothing running.
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.context("run helm")?;
        Ok(Said {
            good: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Its standard output.
    pub(crate) async fn run(&self, args: &[&str]) -> Result<String> {
        let said = self.attempt(args).await?;
        ensure!(said.good, "helm {}: {}\n{}", args.join(" "), said.stderr.trim(), said.stdout);
        Ok(said.stdout)
    }

    /// How it says that it will not.
    pub(crate) async fn refused(&self, args: &[&str]) -> Result<String> {
        let said = self.attempt(args).await?;
        ensure!(!said.good, "helm {} did not mind: {}", args.join(" "), said.stdout);
        Ok(said.stderr)
    }
}
