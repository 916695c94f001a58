//! `plimsoll balance plan`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_core::balance::{
    BalanceNode, BalanceSettings, Claim, Claims, Input, PodUses, Round, State, claims_of, plan,
};
use plimsoll_core::placement::{Figures, Placed, PlacedPod, Settings, View};
use serde::Serialize;

use super::measured;
use crate::balance::{Node, Outcome, Report, SparedPod, settings};
use crate::cli::placement_world::PlacementWorld;
use crate::cli::{CliError, Context, Exit, examples, output, standard_input_once, table};
use crate::offline::ClusterArgs;

/// Which pod would leave the busiest node, and why all others stay
///
/// The rounds follow one another at the same moment: the load stays what the file says, less what was evicted. A pod that
/// goes is taken to run on the least busy node that it fits on. What pods use is what the `PodMetrics` among the objects say,
/// else the `usage` of the load file. The settings are placement.balance and placement.load of the configuration.
///
/// Exit code 0: done; 2: the input cannot be read.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "who leaves the busiest node, and why everybody else stays" => "plimsoll balance plan --objects cluster/ --load load.yaml",
    "what a threshold would do in twenty rounds" => "PLIMSOLL_PLACEMENT__BALANCE__THRESHOLD=0.2 plimsoll balance plan --objects cluster/ --load load.yaml --rounds 20",
    "for a program" => "plimsoll balance plan --objects cluster/ --load load.yaml -o json",
))]
pub(super) struct Args {
    #[command(flatten)]
    offline: ClusterArgs,

    /// The load of nodes and what containers use, as YAML or JSON; see docs/placement.md
    #[arg(long, value_name = "FILE")]
    load: PathBuf,

    /// So many rounds; as many as placement.balance.rounds unless given, which is when the first pod goes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// Form of the answer
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "table")]
    output: output::Form,
}

/// The form of the answer is an interface.
#[derive(Debug, Serialize)]
struct Answer {
    /// In their order.
    rounds: Vec<Report>,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    standard_input_once([
        ("--objects", &args.offline.objects[..]),
        ("--load", std::slice::from_ref(&args.load)),
    ])?;
    let config = ctx.load_config()?.config;
    let world = PlacementWorld::load(&args.offline, Some(&args.load), &config, ctx)?;
    if world.offline.context().objects.nodes().next().is_none() {
        let message = "there are no nodes among the objects: give their manifests by --objects, as `kubectl get nodes -o yaml` prints them";
        return Err(CliError::Usage(message.to_owned()));
    }
    let placement = &config.placement;
    let count = args.rounds.unwrap_or(placement.balance.rounds);
    let rounds = Simulation::new(&world, &placement.settings)?
        .run(count, &settings(&placement.balance, placement.settings.flood.node_lost));
    let answer = Answer { rounds };
    match args.output.written() {
        None => write(&answer, ctx)?,
        Some(form) => output::print(&answer, form, ctx)?,
    }
    Ok(Exit::Done)
}

struct Simulation<'a> {
    world: &'a PlacementWorld,
    settings: &'a Settings,
    placed: Placed,
    measured: HashMap<String, Figures>,
    claims: Claims,
}

impl<'a> Simulation<'a> {
    fn new(world: &'a PlacementWorld, settings: &'a Settings) -> Result<Self, CliError> {
        let mut claims = measured::claims(&world.documents);
        let absent = || Claim::Unknown("it is not among the objects".to_owned());
        for pod in world.placed.pods() {
            for name in claims_of(pod) {
                claims.entry((Arc::clone(pod.namespace()), Box::from(name))).or_insert_with(absent);
            }
        }
        Ok(Self {
            world,
            settings,
            placed: world.placed.clone(),
            measured: measured::pods(&world.documents)?,
            claims,
        })
    }

    fn run(mut self, count: u32, settings: &BalanceSettings) -> Vec<Report> {
        let mut state = State::default();
        let mut reports = Vec::new();
        for index in 0..count {
            let mut round = self.plan(settings, &state, i64::from(index));
            let mut report = Report::of(&round);
            report.nodes = round.nodes.iter().map(Node::of).collect();
            state = std::mem::take(&mut round.state);
            if let (Some(goes), Some(source)) = (round.candidates.first(), &round.source) {
                report.note(0, Outcome::WouldBeEvicted, None);
                state.note(goes.past(&source.name, round.now, true));
                let moved = self.placed.pod(&goes.pod.namespace, &goes.pod.name).map(|pod| PlacedPod {
                    node: Some(Arc::clone(&goes.target)),
                    bound: round.now,
                    ..PlacedPod::clone(pod)
                });
                if let Some(pod) = moved {
                    self.placed.put(pod);
                }
            }
            reports.push(report);
        }
        reports
    }

    /// Each round sees samples that are newer than those before, by next to nothing.
    fn plan(&self, settings: &BalanceSettings, state: &State, round: i64) -> Round {
        let mut load = self.world.file.load.clone();
        for node in load.nodes.values_mut() {
            node.sampled = node.sampled.saturating_add(round);
        }
        let view = View { placed: &self.placed, load: &load, ..self.world.view(self.settings) };
        let nodes = BalanceNode::all(&view);
        let uses = PodUses::new(&self.world.file.containers, &nodes, &self.placed);
        let usage = |pod: &PlacedPod| {
            let name = format!("{}/{}", pod.namespace(), pod.name);
            self.measured.get(&name).copied().or_else(|| uses.of(pod))
        };
        plan(
            &Input {
                nodes: &nodes,
                pods: &self.placed,
                usage: &usage,
                claims: &self.claims,
                quota: None,
                load: &self.settings.load,
                settings,
                now: view.now,
                node_lost: 0,
            },
            state,
        )
    }
}

fn write(answer: &Answer, ctx: &mut Context<'_>) -> Result<(), CliError> {
    for (index, report) in answer.rounds.iter().enumerate() {
        ctx.line(&format!("round {}: {}", index + 1, report.why))?;
        for goes in report.candidates.iter().filter(|goes| goes.outcome == Outcome::WouldBeEvicted) {
            ctx.line(&format!(
                "  {}/{} would be evicted; {} has room",
                goes.namespace, goes.name, goes.target
            ))?;
        }
    }
    let Some(last) = answer.rounds.last() else { return Ok(()) };
    if !last.nodes.is_empty() {
        let mut nodes = table(["NODE", "USED", "EXPECTED", "FROM MEAN", "ROUNDS", "ROOM"]);
        nodes.add_rows(last.nodes.iter().map(|node| {
            vec![
                node.name.clone(),
                format!("{:.4}", node.usage),
                format!("{:.4}", node.expected),
                format!("{:+.4}", node.deviation),
                node.rounds.to_string(),
                if node.target { "yes" } else { "" }.to_owned(),
            ]
        }));
        writeln!(ctx.out)?;
        ctx.line(&format!("mean {:.4}", last.mean))?;
        ctx.write_table(&mut nodes)?;
    }
    let Some(source) = &last.source else { return Ok(()) };
    let mut pods = table(["POD", "PART", "ROOM ON", "WHY"]);
    pods.add_rows(last.candidates.iter().map(|goes| {
        vec![
            format!("{}/{}", goes.namespace, goes.name),
            format!("{:.4}", goes.part),
            goes.target.clone(),
            match goes.outcome {
                Outcome::WouldBeEvicted => "would be evicted".to_owned(),
                _ => "another one goes first".to_owned(),
            },
        ]
    }));
    pods.add_rows(last.spared.iter().map(stays));
    writeln!(ctx.out)?;
    ctx.line(&format!("pods of {}, of which {:.4} is to go", source.name, source.excess))?;
    ctx.write_table(&mut pods)?;
    for stuck in &last.stuck {
        let mut pods = table(["POD", "WHY"]);
        pods.add_rows(stuck.spared.iter().map(|pod| {
            let [name, .., why] = stays(pod);
            [name, why]
        }));
        writeln!(ctx.out)?;
        ctx.line(&format!("pods of {}, of which none may go", stuck.name))?;
        ctx.write_table(&mut pods)?;
    }
    Ok(())
}

fn stays(pod: &SparedPod) -> [String; 4] {
    [format!("{}/{}", pod.namespace, pod.name), String::new(), String::new(), pod.why.clone()]
}
