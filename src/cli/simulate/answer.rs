//! The comparison as a table and as data.

use std::collections::BTreeMap;

use plimsoll_core::resource::Resource;
use plimsoll_core::simulate::{Cluster, Figures, Nodes, Options, Outcome, Period, Worst};
use plimsoll_core::usage::{SECOND, amount, timestamp_of};
use serde::Serialize;

use super::Compared;
use crate::cli::table;
use crate::usage::{PassedOver, Why};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer<'a> {
    containers: usize,
    left_out: LeftOut,
    /// How many values of the file, or rows, are passed over, by the reason.
    passed_over: BTreeMap<&'static str, u64>,
    first_deployment: String,
    last_deployment: String,
    redeploy_seconds: i64,
    warm_up_seconds: i64,
    node: NodeAnswer,
    policies: Vec<PolicyAnswer<'a>>,
}

/// Containers whose request of a resource is not known.
#[derive(Debug, Serialize)]
struct LeftOut {
    cpu: usize,
    memory: usize,
}

#[derive(Debug, Serialize)]
struct NodeAnswer {
    cpu: String,
    memory: String,
}

#[derive(Debug, Serialize)]
struct PolicyAnswer<'a> {
    policy: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<FiguresAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<FiguresAnswer>,
    nodes: NodesAnswer,
    periods: Vec<PeriodAnswer>,
}

/// Amounts are core-hours or GiB-hours, the rest are shares.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FiguresAnswer {
    requested: f64,
    original: f64,
    used: f64,
    of_original: f64,
    slack: f64,
    container_hours: f64,
    time_above: f64,
    above: f64,
    usage_above: f64,
    deployments: u64,
    deployments_above: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodesAnswer {
    most: usize,
    mean: f64,
    unschedulable: u64,
    minutes: f64,
    hot_minutes: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    worst: Option<WorstAnswer>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WorstAnswer {
    resource: &'static str,
    load: f64,
    at: String,
    hot_minutes: f64,
}

/// Amounts are cores or bytes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PeriodAnswer {
    start: String,
    containers: usize,
    nodes: usize,
    cpu: Flow,
    memory: Flow,
}

#[derive(Debug, Serialize)]
struct Flow {
    requested: f64,
    used: f64,
}

pub(super) fn answer<'a>(
    compared: &'a [Compared],
    cluster: &Cluster,
    options: &Options,
    passed_over: &[PassedOver],
) -> Answer<'a> {
    let (first, last) = cluster.span();
    let quantity = |resource, value: f64| {
        amount(resource, value).map_or_else(String::new, |quantity| quantity.to_string())
    };
    Answer {
        containers: cluster.containers(),
        left_out: LeftOut { cpu: cluster.unrequested().cpu, memory: cluster.unrequested().memory },
        passed_over: Why::ALL
            .into_iter()
            .map(|why| {
                let found = passed_over.iter().find(|one| one.why == why);
                (why.name(), found.map_or(0, |one| one.count))
            })
            .collect(),
        first_deployment: timestamp_of(first).to_string(),
        last_deployment: timestamp_of(last).to_string(),
        redeploy_seconds: options.redeploy / SECOND,
        warm_up_seconds: options.warm_up / SECOND,
        node: NodeAnswer {
            cpu: quantity(Resource::Cpu, to_f64(options.node.cpu) / 1e9),
            memory: quantity(Resource::Memory, to_f64(options.node.memory)),
        },
        policies: compared
            .iter()
            .map(|Compared { name, outcome }| PolicyAnswer {
                policy: name,
                cpu: outcome.figures.cpu.map(FiguresAnswer::from),
                memory: outcome.figures.memory.map(FiguresAnswer::from),
                nodes: NodesAnswer::from(&outcome.nodes),
                periods: outcome.periods.iter().map(PeriodAnswer::from).collect(),
            })
            .collect(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "what a node has is far below 2^53 milli-cores or bytes")]
fn to_f64(units: i64) -> f64 {
    units as f64
}

impl From<Figures> for FiguresAnswer {
    fn from(figures: Figures) -> Self {
        Self {
            requested: figures.requested,
            original: figures.original,
            used: figures.used,
            of_original: figures.of_original,
            slack: figures.slack,
            container_hours: figures.hours,
            time_above: figures.time_above,
            above: figures.above,
            usage_above: figures.usage_above,
            deployments: figures.deployments,
            deployments_above: figures.deployments_above,
        }
    }
}

impl From<&Nodes> for NodesAnswer {
    fn from(nodes: &Nodes) -> Self {
        let worst = |worst: Worst| WorstAnswer {
            resource: worst.resource.name(),
            load: worst.load,
            at: timestamp_of(worst.nanos).to_string(),
            hot_minutes: worst.hot_minutes,
        };
        Self {
            most: nodes.most,
            mean: nodes.mean,
            unschedulable: nodes.unschedulable,
            minutes: nodes.minutes,
            hot_minutes: nodes.hot_minutes,
            worst: nodes.worst.map(worst),
        }
    }
}

impl From<&Period> for PeriodAnswer {
    fn from(period: &Period) -> Self {
        Self {
            start: timestamp_of(period.start).to_string(),
            containers: period.containers,
            nodes: period.nodes,
            cpu: Flow { requested: period.requested.cpu, used: period.used.cpu },
            memory: Flow { requested: period.requested.memory, used: period.used.memory },
        }
    }
}

/// A line for each policy. A resource that nobody requests has no columns.
pub(super) fn lines(compared: &[Compared]) -> comfy_table::Table {
    let has = |of: fn(&Outcome) -> bool| compared.iter().any(|compared| of(&compared.outcome));
    let cpu = has(|outcome| outcome.figures.cpu.is_some());
    let memory = has(|outcome| outcome.figures.memory.is_some());
    let mut header = vec!["POLICY"];
    if cpu {
        header.extend(["CPU REQUEST", "UNUSED", "TIME ABOVE", "USAGE ABOVE"]);
    }
    if memory {
        header.extend(["MEMORY REQUEST", "UNUSED", "DEPLOYMENTS ABOVE"]);
    }
    header.extend(["NODES", "HOT MINUTES", "WORST NODE"]);
    let mut table = table(header);
    for Compared { name, outcome } in compared {
        let mut row = vec![name.clone()];
        if cpu {
            row.extend(outcome.figures.cpu.map_or_else(
                || vec!["-".to_owned(); 4],
                |cpu| [cpu.of_original, cpu.slack, cpu.time_above, cpu.usage_above].map(percent).to_vec(),
            ));
        }
        if memory {
            row.extend(outcome.figures.memory.map_or_else(
                || vec!["-".to_owned(); 3],
                |memory| {
                    let above = format!("{} of {}", memory.deployments_above, memory.deployments);
                    vec![percent(memory.of_original), percent(memory.slack), above]
                },
            ));
        }
        let nodes = &outcome.nodes;
        let too_large = match nodes.unschedulable {
            0 => String::new(),
            times => format!(", {times} x too large"),
        };
        row.push(format!("{:.1}, at most {}{too_large}", nodes.mean, nodes.most));
        row.push(format!("{:.0}", nodes.hot_minutes));
        row.push(nodes.worst.map_or_else(
            || "-".to_owned(),
            |worst| format!("{} {:.0} %", worst.resource, worst.load * 100.0),
        ));
        table.add_row(row);
    }
    table
}

/// Two digits where there is little to see.
fn percent(share: f64) -> String {
    if share < 0.0995 { format!("{:.2} %", share * 100.0) } else { format!("{:.1} %", share * 100.0) }
}
