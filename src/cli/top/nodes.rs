//! `plimsoll top nodes`: the load of each node, and the score that it makes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_core::placement::{Metric, NodeReport, NodesReport, units};
use plimsoll_core::quota::Amounts;

use super::live;
use crate::cli::access::Look;
use crate::cli::placement_world::PlacementWorld;
use crate::cli::{CliError, Context, Exit, examples, output, standard_input_once, table};
use crate::offline;

/// Show how loaded each node is, and the score that this makes
///
/// Asks the JSON API of a ready replica, through a port-forward that is made here with your right to create on
/// pods/portforward; or that of --server. With --objects or --load no server is asked.
///
/// U is the share of the node that is used, over all windows and metrics; the score is that of a pod that asks for
/// nothing. Figures of nodes of which nothing fresh was measured are a dash.
///
/// Exit code 0: done; 2: the input cannot be read; 3: the server does not answer.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "the busiest first" => "plimsoll top nodes",
    "with the means of each window" => "plimsoll top nodes -o wide",
    "those above a bound" => "plimsoll top nodes -o json | jq '.nodes[] | select(.U > 0.75).name'",
    "without a server" => "plimsoll top nodes --objects nodes.json pods.json --load load.yaml",
))]
pub(super) struct Args {
    /// The JSON API of a server, in place of a port-forward to a replica
    #[arg(long, value_name = "URL", conflicts_with_all = ["objects", "load", "at"])]
    server: Option<String>,

    #[command(flatten)]
    offline: offline::ClusterArgs,

    /// The load of nodes, as YAML or JSON; see docs/placement.md
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,

    /// What comes first
    #[arg(long, value_enum, value_name = "ORDER", default_value = "usage")]
    sort: Order,

    #[command(flatten)]
    look: Look<Form>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Order {
    /// The busiest
    Usage,
    /// The best score
    Score,
    /// By name
    Name,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Form {
    /// A line for each node
    Table,
    /// The same, with the means of each window
    Wide,
    /// JSON
    Json,
    /// The same as YAML
    Yaml,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    args.look.again.run(ctx, |ctx| once(args, ctx))
}

fn once(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let mut report = report(args, ctx)?;
    let by_name = |node: &NodeReport| node.name.clone();
    match args.sort {
        Order::Usage => report.nodes.sort_by_cached_key(|node| (Reverse(rank(node.usage)), by_name(node))),
        Order::Score => {
            report.nodes.sort_by_cached_key(|node| (Reverse(rank(Some(node.score))), by_name(node)));
        }
        Order::Name => report.nodes.sort_by_cached_key(by_name),
    }
    match args.look.output {
        Form::Table => write(&report, false, ctx)?,
        Form::Wide => write(&report, true, ctx)?,
        Form::Json => output::print(&report, output::Written::Json, ctx)?,
        Form::Yaml => output::print(&report, output::Written::Yaml, ctx)?,
    }
    Ok(Exit::Done)
}

fn report(args: &Args, ctx: &mut Context<'_>) -> Result<NodesReport, CliError> {
    let config = ctx.load_config()?.config;
    if args.offline.objects.is_empty() && args.load.is_none() {
        return live::nodes(args.server.as_deref(), &args.look.access, &config, ctx);
    }
    let load: Vec<PathBuf> = args.load.iter().cloned().collect();
    standard_input_once([("--objects", &args.offline.objects[..]), ("--load", &load)])?;
    let world = PlacementWorld::load(&args.offline, args.load.as_ref(), &config, ctx)?;
    Ok(NodesReport::of(&world.view(&config.placement.settings)))
}

/// Shares and scores in an order that is total; what is not known comes last.
fn rank(value: Option<f64>) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "at most 100, of which nine digits are kept")]
    value.filter(|value| value.is_finite()).map_or(i64::MIN, |value| (value * 1e9) as i64)
}

fn write(report: &NodesReport, wide: bool, ctx: &mut Context<'_>) -> Result<(), CliError> {
    if let Some(flood) = &report.flood {
        writeln!(ctx.out, "flood: {flood}")?;
    }
    let metrics: Vec<&str> = Metric::ALL
        .iter()
        .map(|metric| metric.name())
        .filter(|name| report.nodes.iter().any(|node| node.metrics.contains_key(*name)))
        .collect();
    let mut header = vec!["NODE".to_owned(), "U".to_owned()];
    header.extend(metrics.iter().map(|metric| metric.to_uppercase()));
    let rest = ["SCORE", "BINDINGS", "PODS", "CPU REQUESTED", "MEMORY REQUESTED", "CLASS", "STATUS"];
    header.extend(rest.map(str::to_owned));
    let mut lines = table(header);
    for node in &report.nodes {
        let mut row = vec![node.name.clone(), share(node.usage)];
        row.extend(metrics.iter().map(|metric| {
            let usage = share(node.metrics.get(*metric).copied());
            match node.load.get(*metric).filter(|_| wide) {
                Some(windows) => format!("{usage} ({})", means(windows)),
                None => usage,
            }
        }));
        row.extend([
            format!("{:.2}", node.score),
            match node.expected {
                0 => node.bindings.to_string(),
                expected => format!("{} ({expected} expected)", node.bindings),
            },
            node.pods.to_string(),
            requested("cpu", node),
            requested("memory", node),
            node.class.clone().unwrap_or_else(|| "-".to_owned()),
            status(node).to_owned(),
        ]);
        lines.add_row(row);
    }
    ctx.write_table(&mut lines)
}

fn share(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

/// `15m=0.80 1h=0.70 1d=0.60`, the shortest window first.
fn means(windows: &BTreeMap<String, f64>) -> String {
    let mut windows: Vec<_> = windows.iter().collect();
    windows.sort_by_key(|(name, _)| crate::config::duration(name));
    let means: Vec<_> = windows.into_iter().map(|(name, mean)| format!("{name}={mean:.2}")).collect();
    means.join(" ")
}

/// What pods request, and which part that is of what the scheduler may give away.
fn requested(resource: &str, node: &NodeReport) -> String {
    let requested = node.requested.of(resource);
    let text = plimsoll_core::quota::shown(resource, requested);
    let of = |amounts: &Amounts| amounts.get(resource).filter(|amount| *amount > 0);
    match of(&node.allocatable).or_else(|| of(&node.capacity)) {
        Some(whole) => format!("{text} ({:.0}%)", 100.0 * units(requested) / units(whole)),
        None => text,
    }
}

/// As kubectl says it.
fn status(node: &NodeReport) -> &'static str {
    match (node.ready, node.unschedulable) {
        (true, false) => "Ready",
        (true, true) => "Ready,SchedulingDisabled",
        (false, false) => "NotReady",
        (false, true) => "NotReady,SchedulingDisabled",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_comes_last() {
        let mut values = [Some(0.5), None, Some(0.9), Some(f64::NAN), Some(0.0)];
        values.sort_by_key(|value| Reverse(rank(*value)));
        assert_eq!(values[..3], [Some(0.9), Some(0.5), Some(0.0)]);
    }

    #[test]
    fn windows_by_their_length() {
        let windows = [("1d", 0.6), ("15m", 0.8), ("1h", 0.7)].map(|(name, mean)| (name.to_owned(), mean));
        assert_eq!(means(&windows.into()), "15m=0.80 1h=0.70 1d=0.60");
    }
}
