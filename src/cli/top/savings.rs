//! `plimsoll top namespaces` and `plimsoll top workloads`: what is saved, and where.

use std::cmp::Reverse;

use jiff::Timestamp;
use kube::Client;
use plimsoll_core::objects::{Objects, read_manifest};
use plimsoll_core::quota::shown;
use plimsoll_core::savings::Row;
use serde_json::{Value, json};

use crate::cli::access::{Kind, Look, Read, list_with, told};
use crate::cli::output::print;
use crate::cli::{CliError, Context, Exit, examples, table};
use crate::config::{self, Config};
use crate::recommender;
use crate::survey::{self, Survey};

/// Whose names lead from a pod to its workload.
const OWNERS: [Kind; 2] =
    [Kind::new("apps", "v1", "ReplicaSet", "replicasets"), Kind::new("batch", "v1", "Job", "jobs")];

/// Show what each namespace would request without Plimsoll, what it requests, and what it uses
///
/// Reads all pods with your rights (list on pods, replicasets and jobs), and what they use of metrics-server (list on
/// pods.metrics.k8s.io). Of what was not measured, USED is a dash. SAVED is what is no longer set aside.
///
/// Exit code 0: done; 2: wrong usage; 3: pods cannot be read.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "where most CPU is saved" => "plimsoll top namespaces",
    "where most memory is saved, again and again" => "kubectl plimsoll top --sort memory -w",
    "for a script" => "plimsoll top namespaces -o json | jq '.total.saved'",
))]
pub(super) struct NamespaceArgs {
    #[command(flatten)]
    common: Common,
}

/// Show what each workload would request without Plimsoll, what it requests, and what it uses
///
/// As `plimsoll top namespaces`, with a line for each workload.
///
/// Exit code 0: done; 2: wrong usage; 3: pods cannot be read.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "of the context's namespace" => "plimsoll top workloads",
    "of one namespace, by name" => "plimsoll top workloads -n shop --sort name",
    "of all namespaces" => "plimsoll top workloads -A",
))]
pub(super) struct WorkloadArgs {
    /// Of which namespace; by default that of the context
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    namespace: Option<String>,

    /// Of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
pub(super) struct Common {
    /// Where usage comes from
    #[arg(long, value_enum, value_name = "SOURCE", default_value = "metrics-server")]
    usage: Usage,

    /// What comes first
    #[arg(long, value_enum, value_name = "ORDER", default_value = "cpu")]
    sort: Order,

    #[command(flatten)]
    look: Look,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Usage {
    /// The API metrics.k8s.io
    MetricsServer,
    /// What recommender.source of the configuration names
    Configured,
    /// Nowhere
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Order {
    /// The most CPU saved
    Cpu,
    /// The most memory saved
    Memory,
    /// The most pods
    Pods,
    /// By name
    Name,
}

/// What is shown of the cluster.
enum Which<'a> {
    Namespaces,
    /// Of one namespace, of all, or of the context's.
    Workloads(Option<&'a str>, bool),
}

pub(super) fn namespaces(args: &NamespaceArgs, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    run(&args.common, &Which::Namespaces, ctx)
}

/// What is shown when nothing is named.
pub(super) fn by_default(common: &Common, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    run(common, &Which::Namespaces, ctx)
}

pub(super) fn workloads(args: &WorkloadArgs, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    run(&args.common, &Which::Workloads(args.namespace.as_deref(), args.all_namespaces), ctx)
}

fn run(common: &Common, which: &Which<'_>, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let config = ctx.load_config()?.config;
    common.look.again.run_seldom(ctx, |ctx| {
        let (survey, of) = ctx.runtime()?.block_on(read(common, which, &config))?;
        let rows = rows(&survey, which, of.as_deref(), common.sort);
        let total = rows.iter().fold(Row::default(), |mut sum, (_, row)| {
            sum.add(row);
            sum
        });
        let mut notes = survey.problems.clone();
        if total.pods > total.measured.both() {
            let missing = total.pods - total.measured.both();
            notes.push(match common.usage {
                Usage::None => "usage was not asked for (--usage none)".to_owned(),
                _ => {
                    format!("{missing} of {} pods were not measured; USED is that of the others", total.pods)
                }
            });
        }
        match common.look.output.written() {
            None => write(&rows, &total, which, &notes, ctx)?,
            Some(form) => print(&answer(&rows, &total, &survey, &notes), form, ctx)?,
        }
        Ok(Exit::Done)
    })
}

/// The survey, and of which namespace it is to be shown.
async fn read(
    common: &Common,
    which: &Which<'_>,
    config: &Config,
) -> Result<(Survey, Option<String>), CliError> {
    let client = common.look.access.client(config).await?;
    let of = match which {
        Which::Namespaces | Which::Workloads(_, true) => None,
        Which::Workloads(named, false) => {
            Some(named.map_or_else(|| client.default_namespace().to_owned(), str::to_owned))
        }
    };
    let mut problems = Vec::new();
    let objects = owners(&client, of.as_deref(), &mut problems).await;
    let mut of_source = config.recommender.clone();
    if common.usage == Usage::MetricsServer {
        of_source.source = config::UsageSource::MetricsServer;
    }
    let mut source = match common.usage {
        Usage::None => None,
        _ => Some(
            recommender::source(&of_source, Some(client.clone()))
                .map_err(|error| CliError::Usage(format!("the source of usage cannot be asked: {error}")))?,
        ),
    };
    let taken = survey::take_in(&client, &objects, source.as_mut(), of.as_deref()).await;
    let mut survey = taken.map_err(|error| anyhow::anyhow!(told(&error)))?;
    survey.problems.splice(0..0, problems);
    Ok((survey, of))
}

/// `ReplicaSet`s and `Job`s, by which the workload of a pod is found.
async fn owners(client: &Client, namespace: Option<&str>, problems: &mut Vec<String>) -> Objects {
    let mut objects = Objects::default();
    for kind in OWNERS {
        match list_with(client, kind, namespace, kube::core::params::ListParams::default(), true).await {
            Read::Found(found) => {
                let facts = found.iter().filter_map(|object| read_manifest(object).ok().flatten());
                facts.for_each(|fact| {
                    objects.put(fact);
                });
            }
            Read::Absent => {}
            Read::Unknown(why) => problems.push(format!("{why}; pods are shown by their direct owner")),
        }
    }
    objects
}

/// The names in front of a line: its namespace, and its workload.
type Line = ([String; 2], Row);

fn rows(survey: &Survey, which: &Which<'_>, of: Option<&str>, order: Order) -> Vec<Line> {
    let mut rows: Vec<Line> = match which {
        Which::Namespaces => {
            let all = survey.savings.namespaces();
            all.iter().map(|(name, row)| ([name.to_string(), String::new()], *row)).collect()
        }
        Which::Workloads(..) => survey
            .savings
            .workloads
            .iter()
            .filter(|(key, _)| of.is_none_or(|of| of == &*key.namespace))
            .map(|(key, row)| {
                let workload = format!("{}/{}", key.workload.kind, key.workload.name);
                ([key.namespace.to_string(), workload], *row)
            })
            .collect(),
    };
    match order {
        Order::Cpu => rows.sort_by_key(|(_, row)| Reverse(row.saved().cpu)),
        Order::Memory => rows.sort_by_key(|(_, row)| Reverse(row.saved().memory)),
        Order::Pods => rows.sort_by_key(|(_, row)| Reverse(row.pods)),
        Order::Name => {}
    }
    rows
}

fn answer(rows: &[Line], total: &Row, survey: &Survey, notes: &[String]) -> Value {
    let items = rows.iter().map(|([namespace, workload], row)| {
        let (kind, name) = workload.split_once('/').unwrap_or_default();
        let named = if kind.is_empty() {
            json!({ "namespace": namespace })
        } else {
            json!({ "namespace": namespace, "kind": kind, "name": name })
        };
        crate::api::savings_of(named, row)
    });
    json!({
        "taken": format!("{:.0}", if survey.taken == Timestamp::UNIX_EPOCH { Timestamp::now() } else { survey.taken }),
        "notes": notes,
        "total": crate::api::savings_of(json!({}), total),
        "items": items.collect::<Vec<_>>(),
    })
}

fn write(
    rows: &[Line],
    total: &Row,
    which: &Which<'_>,
    notes: &[String],
    ctx: &mut Context<'_>,
) -> Result<(), CliError> {
    let by_workload = matches!(which, Which::Workloads(..));
    let mut header = vec!["NAMESPACE"];
    header.extend(by_workload.then_some("WORKLOAD"));
    header.extend([
        "PODS",
        "LOWERED",
        "CPU BEFORE",
        "NOW",
        "USED",
        "SAVED",
        "MEMORY BEFORE",
        "NOW",
        "USED",
        "SAVED",
    ]);
    let mut lines = table(header);
    let names = |[namespace, workload]: &[String; 2]| {
        let mut names = vec![namespace.clone()];
        names.extend(by_workload.then(|| workload.clone()));
        names
    };
    for (named, row) in rows {
        lines.add_row([names(named), cells(row)].concat());
    }
    lines.add_row([names(&["TOTAL".to_owned(), String::new()]), cells(total)].concat());
    ctx.write_table(&mut lines)?;
    for note in notes {
        ctx.note(note);
    }
    Ok(())
}

fn cells(row: &Row) -> Vec<String> {
    let saved = row.saved();
    let mut cells = vec![row.pods.to_string(), row.lowered.to_string()];
    let (used, of_measured) = (row.used(), row.now_of_measured());
    for (resource, before, now, used, of_measured, saved) in [
        ("cpu", row.before.cpu, row.now.cpu, used.cpu, of_measured.cpu, saved.cpu),
        ("memory", row.before.memory, row.now.memory, used.memory, of_measured.memory, saved.memory),
    ] {
        let used = used.map(|used| with_share(resource, used, of_measured.unwrap_or_default()));
        cells.push(amount(resource, before));
        cells.push(amount(resource, now));
        cells.push(used.unwrap_or_else(|| "-".to_owned()));
        cells.push(with_share(resource, saved, before));
    }
    cells
}

/// Rounded to what a person compares: a thousandth of a core, a mebibyte.
fn amount(resource: &str, nanos: i128) -> String {
    let step = if resource == "cpu" { 1_000_000 } else { (1 << 20) * 1_000_000_000 };
    shown(resource, nearest(nanos, step).saturating_mul(step))
}

/// How many steps are the nearest to a part; of two that are as near, the one further from nothing.
const fn nearest(part: i128, step: i128) -> i128 {
    let half = if part < 0 { -(step / 2) } else { step / 2 };
    part.saturating_add(half) / step
}

fn with_share(resource: &str, part: i128, whole: i128) -> String {
    let text = amount(resource, part);
    if whole > 0 { format!("{text} ({}%)", nearest(part.saturating_mul(100), whole)) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_for_people() {
        for (resource, nanos, expected) in [
            ("cpu", 1_234_567_890, "1235m"),
            ("cpu", 1_234_467_890, "1234m"),
            ("cpu", 500_000, "1m"),
            ("cpu", -1_500_000, "-2m"),
            ("memory", ((5 << 20) + (1 << 19)) * 1_000_000_000, "6Mi"),
            ("cpu", 2_000_000_000, "2"),
            ("memory", ((5 << 20) + 77) * 1_000_000_000, "5Mi"),
            ("memory", 0, "0"),
        ] {
            assert_eq!(amount(resource, nanos), expected);
        }
        assert_eq!(with_share("cpu", 500_000_000, 2_000_000_000), "500m (25%)");
        assert_eq!(with_share("cpu", 666_000_000, 1_000_000_000), "666m (67%)");
        assert_eq!(with_share("cpu", 0, 0), "0");
    }
}
