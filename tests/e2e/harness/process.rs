//! A child process with a log file. Dropping it ends it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::wait::until_within;

#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with both its outputs going to `log_dir/NAME.log`.
    pub(crate) fn start(name: &str, command: &mut Command, log_dir: &Path) -> Result<Self> {
        let log = log_dir.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("start {name}: {}", command.get_program().display()))?;
        Ok(Self { name: name.into(), child, log })
    }

    /// An error with the end of the log if the process is no longer there.
    pub(crate) fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended by itself with {status}; the end of its log:\n{}", self.name, self.tail());
        }
        Ok(())
    }

    /// How the process ended, if it did.
    pub(crate) fn exited(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Asks the process to end (SIGTERM), as a kubelet does.
    pub(crate) fn terminate(&self) -> Result<()> {
        self.signal("-TERM")
    }

    /// The process stands still (SIGSTOP): its connections stay open, and nobody answers.
    pub(crate) fn pause(&self) -> Result<()> {
        self.signal("-STOP")
    }

    /// The process goes on where it stood still.
    pub(crate) fn resume(&self) -> Result<()> {
        self.signal("-CONT")
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &id]).status().context("run kill")?;
        ensure!(status.success(), "kill {signal} {id} ({}): {status}", self.name);
        Ok(())
    }

    /// Waits until the process has ended by itself.
    pub(crate) async fn ended(&mut self, limit: Duration) -> Result<ExitStatus> {
        let name = self.name.clone();
        until_within(limit, format!("the end of {name}"), async || Ok(self.child.try_wait()?)).await
    }

    /// Ends the process at once (SIGKILL).
    pub(crate) fn kill(&mut self) {
        // Both fail only if the process has ended and was waited for, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The lines of the log that have all of these words.
    pub(crate) fn lines(&self, words: &[&str]) -> Vec<String> {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter(|line| words.iter().all(|word| line.contains(word)));
        lines.map(str::to_owned).collect()
    }

    /// The last lines of the log.
    pub(crate) fn tail(&self) -> String {
        tail(&self.log, 30)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last `lines` lines of a file, for messages.
pub(crate) fn tail(file: &Path, lines: usize) -> String {
    let text = fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    let from = all.len().saturating_sub(lines);
    format!("[{}]\n{}", file.display(), all.get(from..).unwrap_or_default().join("\n"))
}
