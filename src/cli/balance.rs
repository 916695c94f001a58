//! `plimsoll balance`: what the balance controller would do with the cluster of files.

mod measured;
mod plan;

use super::{CliError, Context, Exit, examples};

/// Show which pods the balance controller would evict, without a cluster
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "who leaves the busiest node, and why everybody else stays" => "plimsoll balance plan --objects cluster/ --load load.yaml",
))]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Plan(plan::Args),
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    match &args.what {
        What::Plan(args) => plan::run(args, ctx),
    }
}
