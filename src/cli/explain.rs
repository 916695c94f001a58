//! `plimsoll explain`: what happens to a workload or a pod of a live cluster, and why.

pub(super) mod live;
mod report;
mod table;

use jiff::Timestamp;

use self::live::Live;
use self::report::Report;
use super::access::Access;
use super::again::Again;
use super::output::{Written, print};
use super::{CliError, Context, Exit, examples};

pub(super) use self::table::write;

/// Explain what happens to a workload, pod or autoscaler of a cluster, and why
///
/// Reads the cluster that kubectl would, with its rights: the namespace, profiles, LimitRanges and recommendations. The
/// decision is the one that the server would make about the next pod. What may not be listed is named, and left out.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "a Deployment: its profile, what was measured, and what a new pod will request" => "plimsoll explain workload web -n shop",
    "another kind" => "plimsoll explain workload statefulset/db -n shop",
    "a pod that runs: what was done to it, and what would be done to its successor" => "plimsoll explain pod web-7d4f9c8b6d-x2x4z -n shop",
    "an autoscaler: what it sees, and what it was meant to see" => "plimsoll explain hpa web -n shop",
    "for a script" => "plimsoll explain workload web -n shop -o json",
))]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// A workload: of `apps`, of `batch`, or of `OpenKruise`
    Workload(Named),
    /// A pod
    Pod(Named),
    /// An autoscaler: the same as `plimsoll hpa explain`
    Hpa(super::hpa::ExplainArgs),
}

#[derive(Debug, clap::Args)]
struct Named {
    /// Its name; of a workload also KIND/NAME, needed where several kinds have one of that name
    #[arg(value_name = "NAME")]
    name: String,

    /// Its namespace; by default that of the context
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    #[command(flatten)]
    access: Access,

    #[command(flatten)]
    again: Again,

    /// Form of the answer
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "text")]
    output: Form,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Form {
    /// Tables and sentences
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let (named, pod) = match &args.what {
        What::Workload(named) => (named, false),
        What::Pod(named) => (named, true),
        What::Hpa(args) => return super::hpa::explain(args, ctx),
    };
    named.again.run(ctx, |ctx| once(named, pod, ctx))
}

fn once(named: &Named, pod: bool, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let config = ctx.load_config()?.config;
    let report = ctx.runtime()?.block_on(async {
        let client = named.access.client(&config).await?;
        let namespace = named.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        let mut live = Live::read(client, &namespace, &config).await?;
        let object = if pod { live.pod(&named.name).await? } else { live.workload(&named.name).await? };
        let pods = if pod { Vec::new() } else { live.pods_of(&object).await? };
        Ok::<_, CliError>(Report::new(&live, &object, &pods, Timestamp::now()))
    })?;
    match named.output {
        Form::Text => report.write(ctx.out)?,
        Form::Json => print(&report.json(), Written::Json, ctx)?,
        Form::Yaml => print(&report.json(), Written::Yaml, ctx)?,
    }
    Ok(Exit::Done)
}
