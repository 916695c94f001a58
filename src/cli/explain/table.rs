//! A decision in words, as a table.

use std::io::Write;

use plimsoll_core::admission::{Decision, Outcome};

use crate::cli::{CliError, table as new_table};

/// Writes what was decided about the pod of an object, and why.
pub(in crate::cli) fn write(out: &mut dyn Write, title: &str, decision: &Decision) -> Result<(), CliError> {
    let profile = decision.answer.profile.as_deref();
    match (decision.answer.outcome, profile) {
        (Outcome::Skipped(skip), Some(profile)) => {
            writeln!(out, "{title}: left untouched: {} (profile {profile})", skip.sentence())?;
        }
        (Outcome::Skipped(skip), None) => writeln!(out, "{title}: left untouched: {}", skip.sentence())?,
        (Outcome::Error, _) => {
            let why = decision.self_check.as_ref().map(ToString::to_string).unwrap_or_default();
            writeln!(out, "{title}: left untouched: {why}")?;
        }
        (Outcome::Denied, _) => {
            let refusal = decision.flavors.as_ref().and_then(|step| step.refusal.as_ref());
            writeln!(out, "{title}: refused: {}", refusal.map(ToString::to_string).unwrap_or_default())?;
        }
        (outcome, profile) => {
            writeln!(out, "{title}: {} (profile {})", outcome.word(), profile.unwrap_or("none"))?;
        }
    }
    write_requests(out, decision)?;
    write_nodes(out, decision)
}

/// What flavors did.
fn write_nodes(out: &mut dyn Write, decision: &Decision) -> Result<(), CliError> {
    let Some(step) = &decision.flavors else { return Ok(()) };
    if let Some(placement) = &step.placement
        && step.refusal.is_none()
    {
        let how = if step.changed { "added to the node affinity" } else { "the pod asks for them itself" };
        writeln!(out, "  NODES: {placement} ({}): {how}", placement.levels())?;
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
    for line in table.lines() {
        writeln!(out, "  {}", line.trim_end())?;
    }
    Ok(())
}
