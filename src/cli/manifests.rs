//! `plimsoll manifests`: what is installed in a cluster.

mod scheduler;

use super::{CliError, Context, Exit, examples};
use crate::crd;

/// Print install manifests
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "install the kinds that Plimsoll reads" => "plimsoll manifests crds | kubectl apply --server-side -f -",
    "a configuration of kube-scheduler that asks Plimsoll" => "plimsoll manifests scheduler --filter",
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
        "on a cluster with quotas by ResourceFlavor, without Kueue" => "plimsoll manifests crds --resource-flavor | kubectl apply --server-side -f -",
    ))]
    Crds {
        /// Print that of resource flavors instead, for clusters where Kueue has not installed it
        #[arg(long)]
        resource_flavor: bool,
    },
    Scheduler(Box<scheduler::Args>),
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    match &args.command {
        Command::Crds { resource_flavor } => {
            let text = if *resource_flavor { crd::resource_flavor_yaml() } else { crd::yaml() };
            let text = text.map_err(anyhow::Error::new)?;
            ctx.out.write_all(text.as_bytes())?;
        }
        Command::Scheduler(args) => scheduler::run(args, ctx)?,
    }
    Ok(Exit::Done)
}
