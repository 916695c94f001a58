//! `plimsoll top`: what is really used.

mod live;
mod nodes;

use super::{CliError, Context, Exit, examples};

/// Show what is really used, and what is made of it
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "the busiest nodes" => "plimsoll top nodes",
    "without a cluster" => "plimsoll top nodes --objects nodes.json pods.json --load load.yaml",
))]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Nodes(nodes::Args),
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    match &args.what {
        What::Nodes(args) => nodes::run(args, ctx),
    }
}
