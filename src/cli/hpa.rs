//! `plimsoll hpa`: autoscalers, what they see, and how they are put back.

mod apiservice;
mod explain;
mod plan;
mod report;
pub(super) mod restore;
mod restorer;
mod views;
mod world;

pub(super) use self::explain::{Args as ExplainArgs, run as explain};
use super::access::Access;
use super::output::{Form, print};
use super::{CliError, Context, Exit, examples};

/// Say what autoscalers see and what they were meant to see, and put their targets back
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "what an autoscaler sees, and what it would do otherwise" => "plimsoll hpa explain web -n shop",
    "the same of files" => "plimsoll hpa explain web -n shop --objects cluster/",
    "put every target back before Plimsoll is removed" => "plimsoll hpa restore --all",
))]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Explain(explain::Args),
    Restore(restore::Args),
    Apiservice(apiservice::Args),
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    match &args.what {
        What::Explain(args) => explain::run(args, ctx),
        What::Restore(args) => restore::run(args, ctx),
        What::Apiservice(args) => apiservice::run(args, ctx),
    }
}

/// Writes a table, indented.
fn write_table(table: &comfy_table::Table, indent: &str, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let mut table = table.clone();
    super::context::show_only(&mut table);
    for line in table.lines() {
        writeln!(ctx.out, "{indent}{}", line.trim_end())?;
    }
    Ok(())
}
