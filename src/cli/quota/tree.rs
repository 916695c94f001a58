//! `plimsoll quota tree`: what every node uses, owns, may use and borrows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_core::quota::{Amounts, Borrowing, Node, PODS, Tree, Used, shown};
use serde::Serialize;

use super::bars;
use super::world::World;
use crate::cli::access::Look;
use crate::cli::output::{Written, print};
use crate::cli::{CliError, Context, Exit, examples, standard_input_once, table};
use crate::offline::ClusterArgs;

/// Show what every node of the quota tree uses, owns, may use and borrows
///
/// Reads the cluster with your rights (list on elasticquotatrees and pods), or with --objects manifests; the pods among
/// them are the ones that count.
///
/// Exit code 0: done; 2: wrong usage, or input that cannot be read; 3: the cluster cannot be read.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "a line for each node and resource of the cluster" => "plimsoll quota tree",
    "the same as a kubectl plugin, again and again" => "kubectl plimsoll quota tree -w",
    "the same of manifests" => "plimsoll quota tree --objects cluster/",
    "the leaves that borrow CPU" => "plimsoll quota tree --objects cluster/ -o json | jq '.nodes[] | select(.borrowed.cpu)'",
    "a picture" => "plimsoll quota tree --objects cluster/ -o svg > tree.svg",
))]
pub(super) struct Args {
    /// Manifests that stand for the cluster: files, directories (their files, not those below), or - for standard input
    #[arg(long, value_name = "FILE|DIR", num_args = 1.., conflicts_with_all = ["kubeconfig", "context"])]
    objects: Vec<PathBuf>,

    #[command(flatten)]
    look: Look<Form>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Form {
    /// A line for each node and resource
    Table,
    /// JSON
    Json,
    /// The same as YAML
    Yaml,
    /// Bars, as SVG
    Svg,
}

/// What there is to say about a node.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    path: String,
    namespaces: Vec<String>,
    used: BTreeMap<String, String>,
    min: BTreeMap<String, String>,
    max: BTreeMap<String, String>,
    borrowed: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
struct Answer {
    /// The tree's name, or nothing if there is none.
    tree: Option<String>,
    nodes: Vec<Line>,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    args.look.again.run_seldom(ctx, |ctx| once(args, ctx))
}

fn once(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    standard_input_once([("--objects", &args.objects[..])])?;
    let config = ctx.load_config()?.config;
    let world = if args.objects.is_empty() {
        ctx.runtime()?.block_on(async {
            let client = args.look.access.client(&config).await?;
            World::live(&client, &config, ctx).await
        })?
    } else {
        let objects = ClusterArgs { objects: args.objects.clone(), at: None };
        World::load(&objects, &config, ctx)?
    };
    let tree = &world.tree;
    let used = world.used(world.pods(None));
    match args.look.output {
        Form::Table => write(tree, &used, ctx)?,
        Form::Svg => {
            let svg = bars::draw(tree, &used, &resources(tree, &used));
            let svg = svg.map_err(|error| anyhow::anyhow!("the tree cannot be drawn: {error}"))?;
            ctx.out.write_all(svg.as_bytes())?;
        }
        Form::Json => print(&answer(tree, &used), Written::Json, ctx)?,
        Form::Yaml => print(&answer(tree, &used), Written::Yaml, ctx)?,
    }
    Ok(Exit::Done)
}

fn answer(tree: &Tree, used: &Used) -> Answer {
    let ids = tree.depth_first().into_iter();
    let borrowing = Borrowing::of(tree);
    let nodes = ids.filter_map(|id| Some(line(tree.node(id)?, used.at(id), &borrowing)));
    let name = (!tree.nodes().is_empty()).then(|| tree.name.clone());
    Answer { tree: name, nodes: nodes.collect() }
}

/// The resources that are bounded anywhere or used, without the number of pods unless it is bounded.
fn resources(tree: &Tree, used: &Used) -> Vec<Arc<str>> {
    let bounds = tree.nodes().iter().flat_map(|node| node.min.iter().chain(node.max.iter()));
    let mut names: BTreeSet<Arc<str>> = bounds.map(|(name, _)| Arc::clone(name)).collect();
    let of_pods = names.contains(PODS);
    let root = tree.id(0).map(|root| used.at(root));
    names.extend(root.into_iter().flat_map(Amounts::iter).map(|(name, _)| Arc::clone(name)));
    names.into_iter().filter(|name| of_pods || name.as_ref() != PODS).collect()
}

fn line(node: &Node, used: &Amounts, borrowing: &Borrowing) -> Line {
    Line {
        path: node.path.to_string(),
        namespaces: node.namespaces.iter().map(ToString::to_string).collect(),
        used: used.quantities(),
        min: node.min.quantities(),
        max: node.max.quantities(),
        borrowed: borrowing.at(node, used).quantities(),
    }
}

fn write(tree: &Tree, used: &Used, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let resources = resources(tree, used);
    let borrowing = Borrowing::of(tree);
    let mut lines = table(["NODE", "RESOURCE", "USED", "MIN", "MAX", "BORROWED", "NAMESPACES"]);
    for (id, node) in tree.depth_first().into_iter().filter_map(|id| Some((id, tree.node(id)?))) {
        let used = used.at(id);
        let borrowed = borrowing.at(node, used);
        let concerns = |name: &&Arc<str>| {
            used.of(name) > 0 || node.min.get(name).is_some() || node.max.get(name).is_some()
        };
        let mut first = true;
        let concerned: Vec<&str> = resources.iter().filter(concerns).map(AsRef::as_ref).collect();
        let concerned = if concerned.is_empty() { vec![""] } else { concerned };
        for name in concerned {
            let amount = |amounts: &Amounts| match amounts.get(name) {
                Some(nanos) => shown(name, nanos),
                None => "-".to_owned(),
            };
            let label = format!("{}{}", "  ".repeat(node.depth), node.name);
            let namespaces: Vec<&str> = node.namespaces.iter().map(AsRef::as_ref).collect();
            let empty = name.is_empty();
            lines.add_row([
                if first { label } else { String::new() },
                name.to_owned(),
                if empty { String::new() } else { shown(name, used.of(name)) },
                if empty { String::new() } else { amount(&node.min) },
                if empty { String::new() } else { amount(&node.max) },
                if empty { String::new() } else { amount(&borrowed) },
                if first { namespaces.join(", ") } else { String::new() },
            ]);
            first = false;
        }
    }
    ctx.write_table(&mut lines)
}
