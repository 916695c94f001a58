//! `plimsoll simulate`: usage from a file, lived through under several policies.

mod answer;
mod named;
mod plot;

use std::path::PathBuf;

use plimsoll_core::resource::Resource;
use plimsoll_core::simulate::{Cluster, Each, Node, Options, SimulateError, Units};
use plimsoll_core::usage::SECOND;

use super::output::{Form, print};
use super::progress::{Progress, Unit, count};
use super::values::{Amount, PerResource, Seconds};
use super::{CliError, Context, Exit, examples};
use crate::usage::{Histories, histories, origin};
use named::Named;

/// Replay usage under several policies, and compare them
///
/// Each series of the file (as for `plimsoll recommend`) is a container that is redeployed again and again, each time
/// with the request that the policy makes of the samples before. Shown are what is requested, what of it is not used,
/// how often usage is above the request, how many nodes the containers need, and for how long these are too hot.
///
/// Policies: original, static:cpu=0.5,memory=1, seed, tuned, half-life:OPTIONS, vpa, krr, max-ever, oracle, and
/// profile:FILE for what a manifest says.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "compare all policies that have a name" => "plimsoll simulate --usage usage.csv.zst --plot comparison.svg",
    "compare a profile with others, once all have learnt for two days" => "plimsoll simulate --usage usage.csv --policy tuned --policy profile:profile.yaml --policy half-life:preset=tuned,cpu-percentile=98 --warm-up 2d",
    "other nodes, and containers that say nothing of their requests" => "plimsoll simulate --usage usage.csv --node cpu=8,memory=32Gi --assume-request cpu=1,memory=2Gi -o json",
))]
pub(super) struct Args {
    /// The table of usage, or - for standard input
    #[arg(long, value_name = "FILE")]
    usage: PathBuf,

    /// A policy to compare, several times; without it: all that have a name
    #[arg(long = "policy", value_name = "POLICY")]
    policies: Vec<String>,

    /// After what time each container is redeployed
    #[arg(long, value_name = "DURATION", default_value = "24h")]
    redeploy: Seconds,

    /// For how long after its first row a container is only learned from, and not measured
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    warm_up: Seconds,

    /// What containers can request of a node
    #[arg(long, value_name = "QUANTITIES", default_value = "cpu=16,memory=64Gi")]
    node: PerResource<Amount>,

    /// What a container requests whose request the file does not have; without it such containers are left out
    #[arg(long, value_name = "QUANTITIES")]
    assume_request: Option<PerResource<Amount>>,

    /// Form of the answer
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "table")]
    output: Form,

    /// Draw the comparison, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let policies = named::read(&args.policies)?;
    let options = options(args)?;
    let progress = Progress::new("reading usage", Unit::Share);
    let Histories { series, passed_over } = histories(&args.usage, &|done, size| progress.read(done, size))?;
    drop(progress);
    for passed_over in &passed_over {
        ctx.note(&format!("{}: {passed_over}", origin(&args.usage)));
    }
    let cluster = Cluster::new(series, options).map_err(|error| refused(args, error))?;
    say_what_is_left_out(&cluster, ctx);
    let compared = compare(policies, &cluster);
    if let Some(file) = &args.plot {
        let drawn = plot::draw(&compared, options.redeploy);
        let drawn = drawn.map_err(|error| anyhow::Error::new(error).context("the plot cannot be drawn"))?;
        std::fs::write(file, drawn).map_err(|error| {
            anyhow::Error::new(error).context(format!("{}: cannot be written", file.display()))
        })?;
    }
    match args.output.written() {
        None => ctx.write_table(&mut answer::lines(&compared))?,
        Some(form) => {
            let answer = answer::answer(&compared, &cluster, &options, &passed_over);
            print(&answer, form, ctx)?;
        }
    }
    Ok(Exit::Done)
}

/// A policy and what it led to.
struct Compared {
    name: String,
    outcome: plimsoll_core::simulate::Outcome,
}

fn compare(policies: Vec<Named>, cluster: &Cluster) -> Vec<Compared> {
    let progress = Progress::new("comparing policies", Unit::Share);
    progress.expect(count(policies.len() * cluster.containers()));
    let one = |Named { name, policy }: Named| {
        progress.say(&name);
        let outcome = cluster.replay(&policy, &mut || progress.add());
        Compared { name, outcome }
    };
    policies.into_iter().map(one).collect()
}

fn options(args: &Args) -> Result<Options, CliError> {
    let usage = |text: String| CliError::Usage(text);
    let nanos = |flag: &str, seconds: Seconds| {
        let nanos = seconds.0.checked_mul(SECOND);
        nanos.ok_or_else(|| usage(format!("{flag}: {} s is longer than any history", seconds.0)))
    };
    let redeploy = nanos("--redeploy", args.redeploy)?;
    if redeploy < 60 * SECOND {
        return Err(usage(format!("--redeploy: {} s is too short; 1m or more is right", args.redeploy.0)));
    }
    let node = Each::from_fn(|resource| args.node.of(resource).and_then(|amount| units(resource, amount)));
    let (Some(cpu), Some(memory)) = (positive(node.cpu), positive(node.memory)) else {
        return Err(usage("--node: name both, each above 0, as in cpu=16,memory=64Gi".to_owned()));
    };
    let assumed = Each::from_fn(|resource| {
        let amount = args.assume_request.as_ref().and_then(|assumed| assumed.of(resource));
        positive(amount.and_then(|amount| units(resource, amount)))
    });
    Ok(Options { redeploy, warm_up: nanos("--warm-up", args.warm_up)?, node: Node { cpu, memory }, assumed })
}

fn positive(units: Option<Units>) -> Option<Units> {
    units.filter(|units| *units > 0)
}

/// Nano-cores, or bytes.
fn units(resource: Resource, amount: &Amount) -> Option<Units> {
    let units = if resource == Resource::Cpu { amount.0.nanos() } else { amount.0.value() };
    Units::try_from(units).ok()
}

fn refused(args: &Args, error: SimulateError) -> CliError {
    let hint = match error {
        SimulateError::Unrequested => "; --assume-request gives all containers one",
        SimulateError::WarmUp => "; a shorter --warm-up would leave some",
        SimulateError::Empty | SimulateError::Options => "",
    };
    CliError::Usage(format!("{}: {error}{hint}", origin(&args.usage)))
}

/// The name of the input in messages.
fn say_what_is_left_out(cluster: &Cluster, ctx: &mut Context<'_>) {
    let unrequested = cluster.unrequested();
    for (resource, count) in [("CPU", unrequested.cpu), ("memory", unrequested.memory)] {
        if count > 0 {
            ctx.note(&format!(
                "{resource} of {count} of {} containers is left out: the file has no request of it \
                 (--assume-request gives one)",
                cluster.containers()
            ));
        }
    }
}
