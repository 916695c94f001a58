//! `plimsoll quota explain`: whether a pod fits, and who would make room for it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_core::pod::{PodView, Pruned};
use plimsoll_core::quota::words::{self, Outlook};
use plimsoll_core::quota::{
    Amounts, Block, Candidates, Honour, NodeId, PODS, Plan, Situation, Tree, Used, blocks, charge, flavor,
    is_entitled, plan, shown,
};
use serde::Serialize;

use super::world::World;
use crate::cli::context::show_only;
use crate::cli::output::{Form, print};
use crate::cli::{CliError, Context, Exit, examples, standard_input_once, table};
use crate::config::{Config, Namespaces};
use crate::input;
use crate::offline;
use crate::template::{self, PodAt};

/// Say whether a pod would be admitted, which maximum it passes, and which pods would be evicted for it
///
/// The pods among the objects are the ones that count. What is judged is the pod as it would be stored: with requests
/// lowered by the profiles among the objects. Anything with a pod template is judged as one pod of it; several manifests
/// are judged each by itself. A pod that is itself among the objects is not counted beside itself.
///
/// Exit code 0: it would be admitted; 1: it would be refused, also where pods would be evicted for it; 2: the input
/// cannot be read.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "a pod under the tree and the pods of a folder" => "plimsoll quota explain -f pod.yaml --objects cluster/",
    "the next pod of a deployment, under what a cluster has now" => "plimsoll quota explain -f deployment.yaml --objects tree.yaml pods.json",
    "for a program" => "plimsoll quota explain -f pod.yaml --objects cluster/ -o json",
))]
pub(super) struct Args {
    /// Manifests: files, directories (their files, not those below), or - for standard input
    #[arg(short, long, value_name = "FILE", required = true, num_args = 1..)]
    filename: Vec<PathBuf>,

    #[command(flatten)]
    offline: offline::ClusterArgs,

    /// Namespace of manifests that name none
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,

    /// Form of the answer; of several manifests JSON is a list
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "table")]
    output: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Admit,
    Refuse,
    Reclaim,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Refuse => "refuse",
            Self::Reclaim => "reclaim",
        }
    }
}

/// The form of the answer is an interface.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(skip)]
    title: String,
    leaf: Option<String>,
    charge: BTreeMap<String, String>,
    verdict: Verdict,
    reason: String,
    blocked_at: Vec<Blocked>,
    victims: Vec<Evicted>,
}

#[derive(Debug, Serialize)]
struct Blocked {
    node: String,
    resource: String,
    used: String,
    requested: String,
    max: String,
}

#[derive(Debug, Serialize)]
struct Evicted {
    namespace: String,
    name: String,
    leaf: String,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    standard_input_once([("-f", &args.filename[..]), ("--objects", &args.offline.objects)])?;
    let config = ctx.load_config()?.config;
    let documents = input::read_all(&args.filename)?;
    if documents.is_empty() {
        return Err(CliError::Usage("the input holds no manifest".to_owned()));
    }
    let world = World::load(&args.offline, &config, ctx)?;
    let answers = documents.iter().map(|document| explain(document, &world, &config, &args.namespace));
    let answers: Vec<Answer> = answers.collect::<Result<_, _>>()?;
    let exit = if answers.iter().all(|answer| answer.verdict == Verdict::Admit) {
        Exit::Done
    } else {
        Exit::Refused
    };
    match args.output.written() {
        None => {
            for (index, answer) in answers.iter().enumerate() {
                if index > 0 {
                    writeln!(ctx.out)?;
                }
                write(answer, ctx)?;
            }
        }
        Some(form) => {
            if let [only] = &answers[..] {
                print(only, form, ctx)?;
            } else {
                print(&answers, form, ctx)?;
            }
        }
    }
    Ok(exit)
}

fn explain(
    document: &input::Document,
    world: &World,
    config: &Config,
    default_namespace: &str,
) -> Result<Answer, CliError> {
    let manifest = &document.value;
    let (title, namespace) = template::title(manifest, default_namespace);
    let unusable = |why: String| CliError::Usage(format!("{}: {title}: {why}", document.origin));
    let Some(at) = template::find(manifest) else {
        let why = template::without_containers(manifest).map_or_else(
            || "has no pod; give a Pod or an object with a pod template".to_owned(),
            |path| format!("{path} has no containers"),
        );
        return Err(unusable(why));
    };
    let pod = world.offline.stored(&template::pod(manifest, at), &namespace);
    let pruned = Pruned::of(&pod);
    let view = PodView::read(&pruned).map_err(|error| unusable(error.to_string()))?;
    let charge = charge(&view).map_err(|error| unusable(error.to_string()))?;

    let tree = &world.tree;
    let mut answer = Answer {
        title,
        leaf: None,
        charge: BTreeMap::new(),
        verdict: Verdict::Admit,
        reason: format!("the namespace {namespace} is bound to no leaf"),
        blocked_at: Vec::new(),
        victims: Vec::new(),
    };
    if let Some(why) = tree.blocked.get(namespace.as_str()) {
        answer.leaf = tree.leaf_of(&namespace).map(|leaf| path(tree, leaf));
        answer.verdict = Verdict::Refuse;
        answer.reason = words::blocked(tree, &namespace, why);
        return Ok(answer);
    }
    let Some(leaf) = tree.leaf_of(&namespace) else { return Ok(answer) };
    answer.leaf = Some(path(tree, leaf));
    answer.charge = said(tree, leaf, &charge).quantities();
    let flavors = &world.offline.context().objects;
    if let Err(refusal) = flavor::check(&pruned.0, tree, leaf, |name| flavors.flavor(name).cloned()) {
        answer.verdict = Verdict::Refuse;
        answer.reason = refusal.to_string();
        return Ok(answer);
    }
    let own = (at == PodAt::Root).then_some((namespace.as_str(), view.name));
    let used = world.used(world.pods(own));
    let nothing = Used::new(tree);
    let blocks = blocks(tree, &used, &nothing, leaf, &charge);
    if blocks.is_empty() {
        answer.reason = format!("within every max of {} and of the nodes above it", path(tree, leaf));
        return Ok(answer);
    }
    let mut outlook = Outlook::Waits;
    if is_entitled(tree, &used, &nothing, leaf, &charge, &blocks) {
        let plan = if config.quota.reclaim.enabled {
            let mut pods = Candidates::new(Arc::clone(tree));
            world.pods(own).for_each(|pod| pods.put(Arc::clone(pod)));
            plan(&Situation {
                pods: &pods,
                used: &used,
                claimed: &nothing,
                unseen: &nothing,
                leaf,
                charge: &charge,
                blocks: &blocks,
                honour: &honour(&config.quota.reclaim.honour_do_not_evict),
                excluded: &world.guarded,
            })
        } else {
            Plan::Impossible
        };
        outlook = match plan {
            _ if !config.quota.reclaim.enabled => Outlook::ReclaimIsOff,
            Plan::Impossible => Outlook::NoVictims,
            Plan::Victims(_) | Plan::Nothing => Outlook::ReclaimStarted,
        };
        let victims = plan.victims().iter().map(|victim| Evicted {
            namespace: victim.pod.namespace.to_string(),
            name: victim.pod.name.to_string(),
            leaf: path(tree, victim.leaf),
        });
        answer.victims = victims.collect();
    }
    answer.verdict = if outlook == Outlook::ReclaimStarted { Verdict::Reclaim } else { Verdict::Refuse };
    answer.reason = words::refusal(tree, leaf, &blocks, outlook);
    answer.blocked_at = blocks.iter().map(|block| blocked(tree, block)).collect();
    Ok(answer)
}

fn path(tree: &Tree, node: NodeId) -> String {
    tree.node(node).map(|node| node.path.to_string()).unwrap_or_default()
}

/// Without the one pod that every pod is, unless pods are limited.
fn said(tree: &Tree, leaf: NodeId, charge: &Amounts) -> Amounts {
    let mut said = charge.clone();
    if !tree.upwards(leaf).any(|(_, node)| node.max.get(PODS).or(node.min.get(PODS)).is_some()) {
        said.remove(PODS);
    }
    said
}

fn blocked(tree: &Tree, block: &Block) -> Blocked {
    let amount = |nanos| shown(&block.resource, nanos);
    Blocked {
        node: path(tree, block.node),
        resource: block.resource.to_string(),
        used: amount(block.used),
        requested: amount(block.requested),
        max: amount(block.max),
    }
}

fn honour(namespaces: &Namespaces) -> Honour {
    match namespaces {
        Namespaces::All => Honour::Everywhere,
        Namespaces::Named(names) => Honour::of(names),
    }
}

fn write(answer: &Answer, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let charge: Vec<String> = answer.charge.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    let charge = if charge.is_empty() { "nothing".to_owned() } else { charge.join(", ") };
    ctx.line(&format!("{}: {}", answer.title, answer.verdict.word()))?;
    ctx.line(&format!("  leaf:   {}", answer.leaf.as_deref().unwrap_or("none")))?;
    ctx.line(&format!("  charge: {charge}"))?;
    ctx.line(&format!("  reason: {}", answer.reason))?;
    let mut tables = Vec::new();
    if !answer.blocked_at.is_empty() {
        let mut blocked = table(["BLOCKED AT", "RESOURCE", "USED", "REQUESTED", "MAX"]);
        for Blocked { node, resource, used, requested, max } in &answer.blocked_at {
            blocked.add_row([node, resource, used, requested, max]);
        }
        tables.push(blocked);
    }
    if !answer.victims.is_empty() {
        let mut victims = table(["VICTIM", "LEAF"]);
        for Evicted { namespace, name, leaf } in &answer.victims {
            victims.add_row([format!("{namespace}/{name}"), leaf.clone()]);
        }
        tables.push(victims);
    }
    for mut table in tables {
        writeln!(ctx.out)?;
        show_only(&mut table);
        for line in table.lines() {
            ctx.line(&format!("  {}", line.trim_end()))?;
        }
    }
    Ok(())
}
