//! What every command is given.

use std::io::Write;
use std::path::PathBuf;

use comfy_table::{Color, ContentArrangement, Table};
use tokio::runtime::{Builder, Runtime};

use super::CliError;
use crate::config::{self, Flag, Loaded, Sources};

/// The global flags and the place for results.
pub struct Context<'a> {
    /// Where results go; messages and logs go to standard error.
    pub out: &'a mut dyn Write,
    /// The name the program was called by.
    pub program: &'static str,
    /// Whether results go to a terminal.
    pub terminal: bool,
    /// Whether results may have colours.
    pub color: bool,
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
        Self { out, program, terminal: false, color: false, config_file, flags }
    }

    /// The same, with another place for results.
    pub fn writing_to<'b>(&self, out: &'b mut dyn Write) -> Context<'b> {
        Context {
            out,
            program: self.program,
            terminal: self.terminal,
            color: self.color,
            config_file: self.config_file.clone(),
            flags: self.flags.clone(),
        }
    }

    /// Writes a table: within the width of a terminal; elsewhere nothing is broken into lines.
    pub fn write_table(&mut self, table: &mut Table) -> Result<(), CliError> {
        if self.terminal {
            table.set_content_arrangement(ContentArrangement::Dynamic);
        }
        if self.color {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        for line in table.lines() {
            writeln!(self.out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// A text in a colour, where there are colours.
    pub fn painted(&self, text: &str, color: Option<Color>) -> String {
        let code = match color {
            Some(Color::Green) => "32",
            Some(Color::Yellow) => "33",
            Some(Color::Red) => "31",
            _ => return text.to_owned(),
        };
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
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
