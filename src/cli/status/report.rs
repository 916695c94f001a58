//! What is known, as it is shown.

use comfy_table::{Cell, Color};
use serde::Serialize;

use crate::cli::{CliError, Context, table};
use crate::status::{State, Status};
use crate::visible::visible;

/// A line of the answer. Its form is an interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    /// What it is about.
    pub(super) part: String,
    pub(super) state: State,
    /// Figures, in words.
    pub(super) details: String,
    /// What is wrong, each with what can be done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) problems: Vec<String>,
}

impl Row {
    pub(super) fn new(part: &str, state: State, details: impl Into<String>) -> Self {
        Self { part: part.to_owned(), state, details: details.into(), problems: Vec::new() }
    }

    /// With a problem that makes it at least this bad.
    pub(super) fn with(mut self, state: State, problem: impl Into<String>) -> Self {
        self.state = self.state.max(state);
        self.problems.push(problem.into());
        self
    }
}

/// The whole answer. Its form is an interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// The worst of the parts.
    pub(super) state: State,
    pub(super) parts: Vec<Row>,
    /// What each replica says of itself.
    pub(super) replicas: Vec<Status>,
}

impl Report {
    pub(super) fn new(parts: Vec<Row>, replicas: Vec<Status>) -> Self {
        Self { state: State::sum(parts.iter().map(|row| row.state)), parts, replicas }
    }

    /// What is wrong, in one line; the first of the worst.
    pub(super) fn first_problem(&self) -> String {
        let worst = self.parts.iter().filter(|row| row.state == self.state);
        let mut told = worst.map(|row| match row.problems.first() {
            Some(problem) => format!("{}: {problem}", row.part),
            None => format!("{} is {}", row.part, row.state.word()),
        });
        told.next().unwrap_or_else(|| self.state.word().to_owned())
    }

    pub(super) fn write(&self, ctx: &mut Context<'_>) -> Result<(), CliError> {
        let mut lines = table(["PART", "STATE", "DETAILS"]);
        for Row { part, state, details, .. } in &self.parts {
            lines.add_row([Cell::new(part), cell(*state), Cell::new(details)]);
        }
        ctx.write_table(&mut lines)?;
        let problems = self.parts.iter().flat_map(|row| row.problems.iter().map(move |text| (row, text)));
        let mut is_first = true;
        for (row, problem) in problems {
            if std::mem::take(&mut is_first) {
                writeln!(ctx.out)?;
            }
            let problem = visible(&problem.replace('\n', " "));
            writeln!(ctx.out, "{}: {problem}", ctx.painted(&row.part, color(row.state)))?;
        }
        writeln!(ctx.out, "\n{}", ctx.painted(self.state.word(), color(self.state)))?;
        Ok(())
    }
}

fn cell(state: State) -> Cell {
    match color(state) {
        Some(color) => Cell::new(state).fg(color),
        None => Cell::new(state),
    }
}

/// Good, in doubt, bad; what is off has none.
const fn color(state: State) -> Option<Color> {
    match state {
        State::Off | State::NotLeader => None,
        State::Healthy => Some(Color::Green),
        State::Unknown | State::Degraded => Some(Color::Yellow),
        State::Failed => Some(Color::Red),
    }
}
