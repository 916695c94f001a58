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
    write_requests(out, decision)?;
    if let Some(nodes) = explained::nodes(decision) {
        writeln!(out, "  {}", visible(&nodes))?;
    }
    Ok(())
}

fn write_requests(out: &mut dyn Write, decision: &Decision) -> Result<(), CliError> {
    if decision.plan.lines.is_empty() {
        return Ok(());
    }
    let mut table = new_table(["CONTAINER", "RESOURCE", "ORIGINAL", "RESULT", "WHY"]);
    for line in &decision.plan.lines {
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
