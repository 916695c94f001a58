//! `plimsoll manifests`: what is installed in a cluster.

use super::{CliError, Context, Exit, examples};
use crate::crd;

/// Print install manifests
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "install the kinds that Plimsoll reads" => "plimsoll manifests crds | kubectl apply --server-side -f -",
))]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the custom resource definitions of this version as YAML
    #[command(after_help = examples!(
        "install or update them" => "plimsoll manifests crds | kubectl apply --server-side -f -",
        "see what an update would change" => "plimsoll manifests crds | kubectl diff --server-side -f -",
    ))]
    Crds,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    match args.command {
        Command::Crds => {
            let text = crd::yaml().map_err(anyhow::Error::new)?;
            ctx.out.write_all(text.as_bytes())?;
        }
    }
    Ok(Exit::Done)
}
