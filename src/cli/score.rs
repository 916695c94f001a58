//! `plimsoll score`: which node a pod should go to, and why.

use std::path::PathBuf;

use plimsoll_core::placement::{Decision, Incoming, Policies, Settings, refuse, score};
use plimsoll_core::pod::Pruned;
use serde::Serialize;
use serde_json::Value;

use super::placement_world::PlacementWorld;
use super::{CliError, Context, Exit, examples, output, standard_input_once, table};
use crate::input::{self, Document};
use crate::offline;
use crate::template;

/// Score nodes for a pod by what is really used
///
/// The nodes are those of the objects and of the load file; whether the pod fits on them is the scheduler's question and
/// is not asked here. The pods among the objects are those that run. What is scored is the pod as it would be stored:
/// with requests lowered by the profiles among the objects. Of anything with a pod template one pod is scored.
///
/// With --policy the score is that policy's own: 0 to 100 by load and overcommit-risk, 0 to 1 by weights. Without it the
/// policies of the configuration are combined, 0 to 100.
///
/// Exit code 0: done; 2: the input cannot be read.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "the next pod of a deployment" => "plimsoll score -f deployment.yaml --objects cluster/ --load load.yaml",
    "by what the workload uses most" => "plimsoll score -f pod.yaml --load load.yaml --policy weights",
    "for a program" => "plimsoll score -f pod.yaml --objects nodes.json pods.json --load load.yaml -o json",
))]
pub(super) struct Args {
    /// Manifests: files, directories (their files, not those below), or - for standard input
    #[arg(short, long, value_name = "FILE", required = true, num_args = 1..)]
    filename: Vec<PathBuf>,

    #[command(flatten)]
    offline: offline::ClusterArgs,

    /// The load of nodes and what containers use, as YAML or JSON; see docs/placement.md
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,

    /// One policy in place of those of the configuration
    #[arg(long, value_enum, value_name = "POLICY")]
    policy: Option<Policy>,

    /// Namespace of manifests that name none
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,

    /// Form of the answer; of several manifests JSON is a list
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "table")]
    output: output::Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Policy {
    /// By measured load
    Load,
    /// By idle shares, weighted by what the workload uses
    Weights,
    /// By how far limits exceed the node
    OvercommitRisk,
}

/// The form of the answer is an interface.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(skip)]
    title: String,
    policy: String,
    /// The best first.
    nodes: Vec<Node>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weights_from: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flood: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    name: String,
    score: f64,
    points: u8,
    #[serde(rename = "U")]
    usage: Option<f64>,
    bindings: u32,
    why: String,
    /// Why the filter verb would refuse it.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let load: Vec<PathBuf> = args.load.iter().cloned().collect();
    standard_input_once([
        ("-f", &args.filename[..]),
        ("--objects", &args.offline.objects),
        ("--load", &load),
    ])?;
    let config = ctx.load_config()?.config;
    let documents = input::read_all(&args.filename)?;
    if documents.is_empty() {
        return Err(CliError::Usage("the input holds no manifest".to_owned()));
    }
    let world = PlacementWorld::load(&args.offline, args.load.as_ref(), &config, ctx)?;
    if world.node_names().is_empty() {
        let message = "there are no nodes: give some by --objects or --load";
        return Err(CliError::Usage(message.to_owned()));
    }
    let mut settings = config.placement.settings.clone();
    if let Some(policy) = args.policy {
        settings.policies = policy.alone();
    }
    let answers = documents.iter().map(|document| answer(document, &world, &settings, args));
    let answers: Vec<Answer> = answers.collect::<Result<_, _>>()?;
    match args.output.written() {
        None => {
            for (index, answer) in answers.iter().enumerate() {
                if index > 0 {
                    writeln!(ctx.out)?;
                }
                write(answer, ctx)?;
            }
        }
        Some(form) => match &answers[..] {
            [only] => output::print(only, form, ctx)?,
            several => output::print(&several, form, ctx)?,
        },
    }
    Ok(Exit::Done)
}

impl Policy {
    fn alone(self) -> Policies {
        let weight = |policy| if self == policy { 1.0 } else { 0.0 };
        Policies {
            load: weight(Self::Load),
            weights: weight(Self::Weights),
            overcommit_risk: weight(Self::OvercommitRisk),
        }
    }
}

fn answer(
    document: &Document,
    world: &PlacementWorld,
    settings: &Settings,
    args: &Args,
) -> Result<Answer, CliError> {
    let manifest = &document.value;
    let (title, namespace) = template::title(manifest, &args.namespace);
    let Some(at) = template::find(manifest) else {
        let why = template::without_containers(manifest).map_or_else(
            || "has no pod; give a Pod or an object with a pod template".to_owned(),
            |path| format!("{path} has no containers"),
        );
        return Err(CliError::Usage(format!("{}: {title}: {why}", document.origin)));
    };
    let mut pod = world.offline.stored(&template::pod(manifest, at), &namespace);
    if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("namespace".to_owned(), Value::String(namespace));
    }
    let incoming = Incoming::read(&Pruned::of_placed(&pod), world.offline.context().objects);
    let names = world.node_names();
    let view = world.view(settings);
    let decision = score(&incoming, &names, &view);
    let refusals = refuse(&incoming, &names, &view);
    let is_share = args.policy == Some(Policy::Weights);
    let mut nodes: Vec<Node> = names
        .iter()
        .zip(&decision.nodes)
        .zip(refusals)
        .map(|((name, node), refused)| Node {
            name: (*name).to_owned(),
            score: rounded(if is_share { node.score / 100.0 } else { node.score }),
            points: node.points,
            usage: node.usage.map(rounded),
            bindings: node.bindings,
            why: node.why(&decision, settings),
            refused: refused.map(|refusal| refusal.to_string()),
        })
        .collect();
    nodes.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.name.cmp(&b.name)));
    Ok(Answer {
        title,
        policy: policy_name(settings.policies),
        nodes,
        weights_from: weights_from(&decision),
        flood: decision.flood.map(|cause| cause.to_string()),
    })
}

fn weights_from(decision: &Decision) -> Option<&'static str> {
    decision.weights.map(|(_, from)| from.name())
}

/// The policies with a part in the score.
fn policy_name(policies: Policies) -> String {
    let parts = [
        ("load", policies.load),
        ("weights", policies.weights),
        ("overcommit-risk", policies.overcommit_risk),
    ];
    let names: Vec<_> = parts.iter().filter(|(_, weight)| *weight > 0.0).map(|(name, _)| *name).collect();
    names.join("+")
}

/// Without the last digits, which are none of the figures' but of their representation.
fn rounded(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}

fn write(answer: &Answer, ctx: &mut Context<'_>) -> Result<(), CliError> {
    ctx.line(&format!("{} by {}", answer.title, answer.policy))?;
    if let Some(flood) = &answer.flood {
        ctx.line(&format!("flood: {flood}"))?;
    }
    let rows = answer.nodes.iter().map(|node| {
        let usage = node.usage.map_or_else(|| "-".to_owned(), |usage| format!("{usage:.4}"));
        let why = match &node.refused {
            Some(refused) => format!("{}; the filter refuses it: {refused}", node.why),
            None => node.why.clone(),
        };
        vec![
            node.name.clone(),
            format!("{:.3}", node.score),
            node.points.to_string(),
            usage,
            node.bindings.to_string(),
            why,
        ]
    });
    let mut table = table(["NODE", "SCORE", "POINTS", "USED", "BINDINGS", "WHY"]);
    table.add_rows(rows);
    ctx.write_table(&mut table)
}
