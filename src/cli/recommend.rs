//! `plimsoll recommend`: histograms and recommendations from a usage file.

pub(super) mod policy;

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use plimsoll_core::profile::Profile;
use plimsoll_core::resource::Resource;
use plimsoll_core::usage::{Model, amount, nanos_of, request, timestamp_of};
use serde::Serialize;

use super::output::{Form, print};
use super::progress::{Progress, Unit};
use super::{CliError, Context, Exit, examples, table};
use crate::usage::{Clock, Series, origin, replay};
use policy::PolicyArgs;

/// The percentiles that are always shown, beside the target's.
const SHOWN: [u32; 4] = [50, 90, 95, 99];

/// Say what containers need, from a file of their usage
///
/// The file is a table (CSV, also packed by gzip or zstd) with the columns series, timestamp, cpu_cores,
/// memory_bytes, cpu_request_cores, memory_request_bytes; a field without text is no value. What comes out is what the
/// server would recommend after it had seen the same samples.
#[expect(clippy::doc_markdown, reason = "the help shows the names of columns as they are")]
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "what each series needs" => "plimsoll recommend --usage usage.csv -o table",
    "as it was on a day in the past, with the values of a profile" => "plimsoll recommend --usage usage.csv.zst --at 2026-03-01T00:00:00Z --profile profile.yaml",
    "with other values, and all that the model holds" => "plimsoll recommend --usage usage.csv --half-life cpu=6h,memory=168h --cpu-percentile 90 --dump-histograms",
))]
pub(super) struct Args {
    /// The table, or - for standard input
    #[arg(long, value_name = "FILE")]
    usage: PathBuf,

    /// Leave out what is later, in place of what is more than 10 minutes ahead of now; as 2026-03-01T10:00:00Z
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,

    /// Show the weight of each bucket
    #[arg(long)]
    dump_histograms: bool,

    /// Form of the answer
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "json")]
    output: Form,

    #[command(flatten)]
    policy: PolicyArgs,
}

#[derive(Debug, Serialize)]
struct Answer {
    series: Vec<SeriesAnswer>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SeriesAnswer {
    series: String,
    samples: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_sample: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_sample: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<ResourceAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<ResourceAnswer>,
    dropped: DroppedAnswer,
    request: RequestAnswer,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceAnswer {
    reference: String,
    total_weight: f64,
    percentiles: BTreeMap<u32, f64>,
    target: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets: Option<BTreeMap<usize, f64>>,
}

#[derive(Debug, Serialize)]
struct DroppedAnswer {
    future: u64,
    invalid: u64,
    duplicate: u64,
    old: u64,
}

#[derive(Debug, Serialize)]
struct RequestAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<String>,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let (profile, model) = args.policy.resolve()?;
    let clock = args.at.map_or_else(|| Clock::Live(nanos_of(Timestamp::now())), |at| Clock::At(nanos_of(at)));
    let progress = Progress::new("reading usage", Unit::Share);
    let replay = replay(&args.usage, &model, clock, &|done, size| progress.read(done, size))?;
    drop(progress);
    for passed_over in &replay.passed_over {
        ctx.note(&format!("{}: {passed_over}", origin(&args.usage)));
    }
    let Some(form) = args.output.written() else {
        ctx.write_table(&mut lines(&replay.series, &profile, &model))?;
        return Ok(Exit::Done);
    };
    let series =
        replay.series.into_iter().map(|(name, series)| answer(name, &series, &profile, &model, args));
    let answer = Answer { series: series.collect() };
    print(&answer, form, ctx)?;
    Ok(Exit::Done)
}

fn answer(name: String, series: &Series, profile: &Profile, model: &Model, args: &Args) -> SeriesAnswer {
    let time = |nanos: i64| timestamp_of(nanos).to_string();
    let of = |resource| figures(series, model, resource, args.dump_histograms);
    let dropped = series.dropped;
    SeriesAnswer {
        series: name,
        samples: series.accepted,
        first_sample: series.aggregate.first_sample().map(time),
        last_sample: series.aggregate.last_sample().map(time),
        cpu: of(Resource::Cpu),
        memory: of(Resource::Memory),
        dropped: DroppedAnswer {
            future: dropped.future,
            invalid: dropped.invalid,
            duplicate: dropped.duplicate,
            old: dropped.old,
        },
        request: RequestAnswer {
            cpu: requested(series, profile, model, Resource::Cpu),
            memory: requested(series, profile, model, Resource::Memory),
        },
    }
}

/// What a resource's histogram says; `None` without samples.
fn figures(series: &Series, model: &Model, resource: Resource, dump: bool) -> Option<ResourceAnswer> {
    let (values, _) = model.of(resource)?;
    let histogram = series.aggregate.histogram(resource)?;
    let percentile = |percent| series.aggregate.percentile(model, resource, percent);
    Some(ResourceAnswer {
        reference: histogram.reference_time(values.half_life)?.to_string(),
        total_weight: histogram.total(),
        percentiles: SHOWN
            .into_iter()
            .chain([values.percentile])
            .filter_map(|percent| Some((percent, percentile(percent)?)))
            .collect(),
        target: percentile(values.percentile)?,
        buckets: dump.then(|| histogram.weights().collect()),
    })
}

/// The request that the profile makes of it; `None` without samples, or where the profile leaves the resource alone.
fn requested(series: &Series, profile: &Profile, model: &Model, resource: Resource) -> Option<String> {
    if !profile.dynamic.resources.contains(&resource) {
        return None;
    }
    let (values, _) = model.of(resource)?;
    let target = series.aggregate.percentile(model, resource, values.percentile)?;
    let original = original(series, resource).and_then(|value| amount(resource, value));
    Some(request(profile, resource, target, original.as_ref())?.to_string())
}

const fn original(series: &Series, resource: Resource) -> Option<f64> {
    match resource {
        Resource::Cpu => series.cpu_request,
        Resource::Memory => series.memory_request,
        Resource::EphemeralStorage => None,
    }
}

fn lines(replay: &BTreeMap<String, Series>, profile: &Profile, model: &Model) -> comfy_table::Table {
    let mut table = table([
        "SERIES",
        "SAMPLES",
        "DROPPED",
        "DAYS",
        "CPU P50",
        "CPU TARGET",
        "CPU REQUEST",
        "MEMORY P50",
        "MEMORY TARGET",
        "MEMORY REQUEST",
    ]);
    for (name, series) in replay {
        let dropped = series.dropped;
        let mut row = vec![
            name.clone(),
            series.accepted.to_string(),
            (dropped.future + dropped.invalid + dropped.duplicate + dropped.old).to_string(),
            days(series),
        ];
        for resource in [Resource::Cpu, Resource::Memory] {
            let estimate = series.aggregate.estimate(model, resource);
            row.push(estimate.map_or_else(dash, |estimate| short(resource, estimate.lower)));
            row.push(estimate.map_or_else(dash, |estimate| short(resource, estimate.target)));
            let before = original(series, resource).and_then(|value| amount(resource, value));
            let after = requested(series, profile, model, resource);
            row.push(match (before, after) {
                (Some(before), Some(after)) if before.to_string() == after => after,
                (Some(before), Some(after)) => format!("{before} -> {after}"),
                (None, Some(after)) => after,
                (_, None) => dash(),
            });
        }
        table.add_row(row);
    }
    table
}

fn dash() -> String {
    "-".to_owned()
}

fn days(series: &Series) -> String {
    let (first, last) = (series.aggregate.first_sample(), series.aggregate.last_sample());
    let (Some(first), Some(last)) = (first, last) else { return dash() };
    let hours = timestamp_of(last).duration_since(timestamp_of(first)).as_hours();
    format!("{}.{}", hours / 24, hours % 24 * 10 / 24)
}

/// Milli-cores, or mebibytes.
fn short(resource: Resource, value: f64) -> String {
    match resource {
        Resource::Cpu => format!("{:.0}m", value * 1000.0),
        Resource::Memory | Resource::EphemeralStorage => format!("{:.0}Mi", value / 1_048_576.0),
    }
}
