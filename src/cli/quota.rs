//! `plimsoll quota`: an elastic quota tree over the pods of files.

mod bars;
mod budgets;
mod explain;
mod tree;
mod world;

use super::{CliError, Context, Exit, examples};

/// Show an elastic quota tree, and what it says about a pod, without a cluster
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "whether a pod would be admitted, and who would make room for it" => "plimsoll quota explain -f pod.yaml --objects cluster/",
    "what every node uses, owns and borrows" => "plimsoll quota tree --objects cluster/",
))]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Explain(explain::Args),
    Tree(tree::Args),
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    match &args.what {
        What::Explain(args) => explain::run(args, ctx),
        What::Tree(args) => tree::run(args, ctx),
    }
}
