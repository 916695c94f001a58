//! A decision in words, as a table.

use std::io::Write;

use plimsoll_core::admission::Decision;

use crate::cli::context::show_only;
use crate::cli::{CliError, table as new_table};
use crate::explained;
use crate::visible::visible;

/// Writes what was decided about the pod of an object, and why.
pub(in crate::cli) fn write(out: &mut dyn Write, title: &str, decision: &Decision) -> Result<(), CliError> {
    writeln!(out, "{}", visible(&explained::headline(title, decision)))?;
    if let Some(would_be) = explained::would_be(decision) {
        writeln!(out, "  {would_be}")?;
    }
    write_requests(out, decision)?;
    if let Some(nodes) = explained::nodes(decision) {
        writeln!(out, "  {}", visible(&nodes))?;
    }
    Ok(())
}

fn write_requests(out: &mut dyn Write, decision: &Decision) -> Result<(), CliError> {
    let lines = &explained::requests(decision).lines;
    if lines.is_empty() {
        return Ok(());
    }
    let result = if decision.would_be.is_some() { "WOULD BE" } else { "RESULT" };
    let mut table = new_table(["CONTAINER", "RESOURCE", "ORIGINAL", result, "WHY"]);
    for line in lines {
        table.add_row([
            line.target.to_string(),
            line.resource.to_string(),
            line.original.text.clone(),
            line.result.text.clone(),
            line.why(),
        ]);
    }
    show_only(&mut table);
    for line in table.lines() {
        writeln!(out, "  {}", line.trim_end())?;
    }
    Ok(())
}
