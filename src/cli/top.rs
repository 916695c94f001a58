//! `plimsoll top`: what is requested, what is saved, and what is really used.

mod live;
mod nodes;
mod savings;

use super::{CliError, Context, Exit, examples};

/// Show what is requested and saved, and what is really used
///
/// Without a further word: by namespace, as `plimsoll top namespaces`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = examples!(
    "what each namespace saves" => "plimsoll top",
    "the same of workloads" => "plimsoll top workloads -n shop",
    "the busiest nodes" => "plimsoll top nodes",
    "without a cluster" => "plimsoll top nodes --objects nodes.json pods.json --load load.yaml",
))]
pub(super) struct Args {
    #[command(subcommand)]
    what: Option<What>,

    #[command(flatten)]
    common: savings::Common,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Namespaces(savings::NamespaceArgs),
    Workloads(savings::WorkloadArgs),
    Nodes(nodes::Args),
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    match &args.what {
        None => savings::by_default(&args.common, ctx),
        Some(What::Namespaces(args)) => savings::namespaces(args, ctx),
        Some(What::Workloads(args)) => savings::workloads(args, ctx),
        Some(What::Nodes(args)) => nodes::run(args, ctx),
    }
}
