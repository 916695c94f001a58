//! What every command is given.

use std::io::Write;
use std::path::PathBuf;

use tokio::runtime::{Builder, Runtime};

use super::CliError;
use crate::config::{self, Flag, Loaded, Sources};

/// The global flags and the place for results.
pub struct Context<'a> {
    /// Where results go; messages and logs go to standard error.
    pub out: &'a mut dyn Write,
    /// The name the program was called by.
    pub program: &'static str,
    config_file: Option<PathBuf>,
    flags: Vec<Flag>,
}

impl<'a> Context<'a> {
    pub(super) fn new(
        out: &'a mut dyn Write,
        program: &'static str,
        config_file: Option<PathBuf>,
        flags: Vec<Flag>,
    ) -> Self {
        Self { out, program, config_file, flags }
    }

    /// Lets a command's own flag stand for a setting.
    pub fn add_flag(&mut self, flag: Flag) {
        self.flags.push(flag);
    }

    /// What the configuration is made from: `--config`, the environment, the flags.
    pub fn sources(&self) -> Sources {
        Sources::from_process(self.config_file.clone(), self.flags.clone())
    }

    /// The effective configuration.
    pub fn load_config(&self) -> Result<Loaded, CliError> {
        Ok(config::load(&self.sources())?)
    }

    /// Says something beside the result, on standard error.
    pub fn note(&mut self, text: &str) {
        // Whoever closed standard error does not want to read it.
        let _ = writeln!(std::io::stderr(), "note: {text}");
    }

    /// A runtime for commands that wait for the network; the others do without.
    pub fn runtime(&self) -> Result<Runtime, CliError> {
        let runtime = Builder::new_multi_thread().enable_all().build();
        runtime.map_err(|error| anyhow::Error::new(error).context("the runtime does not start").into())
    }
}
