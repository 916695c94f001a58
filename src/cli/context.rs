//! What every command is given.

use std::io::{self, Write};
use std::path::PathBuf;

use comfy_table::{Cell, Color, ContentArrangement, Row, Table};
use tokio::runtime::{Builder, Runtime};

use super::CliError;
use crate::config::{self, Flag, Loaded, Sources};
use crate::visible::{is_plain, visible, visible_lines};

/// A form that programs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Json,
    Yaml,
}

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
    /// Whether this is one of many answers, of `--watch`.
    pub(super) repeated: bool,
    /// The form of the answer, where programs read it.
    pub(super) written: Option<Written>,
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
        Self {
            out,
            program,
            terminal: false,
            color: false,
            repeated: false,
            written: None,
            config_file,
            flags,
        }
    }

    /// The same, with another place for results.
    pub fn writing_to<'b>(&self, out: &'b mut dyn Write) -> Context<'b> {
        Context {
            out,
            program: self.program,
            terminal: self.terminal,
            color: self.color,
            repeated: self.repeated,
            written: None,
            config_file: self.config_file.clone(),
            flags: self.flags.clone(),
        }
    }

    /// Writes a table: within the width of a terminal; elsewhere nothing is broken into lines. What is in cells is only
    /// shown, whatever it is.
    pub fn write_table(&mut self, table: &mut Table) -> Result<(), CliError> {
        show_only(table);
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

    /// Writes one line, whatever is in the text: nothing of it does more than be seen.
    ///
    /// # Errors
    /// Results cannot be written.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", visible(text))
    }

    /// A text in a colour, where there are colours; the text itself has none.
    pub fn painted(&self, text: &str, color: Option<Color>) -> String {
        let text = visible(text);
        let code = match color {
            Some(Color::Green) => "32",
            Some(Color::Yellow) => "33",
            Some(Color::Red) => "31",
            _ => return text,
        };
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text }
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
        let _ = writeln!(std::io::stderr(), "note: {}", visible_lines(text));
    }

    /// A runtime for commands that wait for the network; the others do without.
    pub fn runtime(&self) -> Result<Runtime, CliError> {
        let runtime = Builder::new_multi_thread().enable_all().build();
        runtime.map_err(|error| anyhow::Error::new(error).context("the runtime does not start").into())
    }
}

/// Makes what is in a table's cells plain text on one line. A cell that was not loses its colour, which is not worth more.
pub(super) fn show_only(table: &mut Table) {
    let is_odd = |cell: &Cell| {
        let content = cell.content();
        content.contains('\n') || !is_plain(&content)
    };
    for row in table.row_iter_mut().filter(|row| row.cell_iter().any(is_odd)) {
        let cells = row.cell_iter();
        let cells =
            cells.map(|cell| if is_odd(cell) { Cell::new(visible(&cell.content())) } else { cell.clone() });
        *row = Row::from(cells.collect::<Vec<_>>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_cells_is_only_shown() {
        let mut table = super::super::table(["NAME", "STATE"]);
        table.add_row([Cell::new("web\x1b]0;t\x07\nTOTAL\u{202e}"), Cell::new("Failed").fg(Color::Red)]);
        table.add_row([Cell::new("db"), Cell::new("Healthy\r")]);
        let mut out = Vec::new();
        let mut ctx = Context::new(&mut out, "plimsoll", None, Vec::new());
        ctx.color = true;
        ctx.write_table(&mut table).unwrap();
        let painted = ctx.painted("\x1b[2Jx", Some(Color::Green));
        assert_eq!(painted, "\x1b[32m\\u{1b}[2Jx\x1b[0m");
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains(r"web\u{1b}]0;t\u{7}\u{a}TOTAL\u{202e}"), "{text}");
        assert!(text.contains("\x1b[") && text.contains("Failed"), "ours keep their colours: {text:?}");
        assert!(!text.contains('\r') && text.contains(r"Healthy\u{d}"), "{text:?}");
    }
}
