//! `plimsoll hpa explain`: what an autoscaler sees, and what it was meant to see.

use super::report::{Figures, Report, Said};
use super::world::World;
use super::{print, write_table};
use crate::cli::access::Look;
use crate::cli::{CliError, Context, Exit, examples, table};
use crate::offline;

/// Explain what an autoscaler's controller computes, and what it was meant to compute
///
/// Three counts of replicas for each cpu or memory metric: as the autoscaler stands; untouched, as if its targets had
/// never been changed; and as it was meant, by what pods requested before Plimsoll lowered it, or by their limits. They
/// are computed as kube-controller-manager does, with its default flags and without what it remembers: stabilization
/// windows and earlier steps.
///
/// Reads the cluster that kubectl would, or the objects of files: the autoscaler, its target, pods and `PodMetrics` (as
/// `kubectl get podmetrics -o yaml` prints them), profiles and namespaces.
///
/// Exit code 0: the controller can decide; 1: it cannot; 2: what is needed is not there; 3: something failed.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "an autoscaler of a cluster" => "plimsoll hpa explain web -n shop",
    "the same without a cluster" => "plimsoll hpa explain web -n shop --objects cluster/",
    "for a script" => "plimsoll hpa explain web -n shop -o json",
))]
pub(in crate::cli) struct Args {
    /// The autoscaler's name
    #[arg(value_name = "NAME")]
    name: String,

    /// Its namespace; by default that of the context, or `default` with --objects
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    #[command(flatten)]
    offline: offline::ClusterArgs,

    #[command(flatten)]
    look: Look,
}

pub(in crate::cli) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    args.look.again.run(ctx, |ctx| once(args, ctx))
}

fn once(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let config = ctx.load_config()?.config;
    let world = if args.offline.objects.is_empty() {
        ctx.runtime()?.block_on(async {
            let client = args.look.access.client(&config).await?;
            let namespace = args.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
            World::live(client, &namespace, &args.name, &config).await
        })?
    } else {
        let namespace = args.namespace.as_deref().unwrap_or("default");
        World::of_files(&args.offline, namespace, &args.name, &config)?
    };
    let report = Report::new(&world, &config.hpa);
    match args.look.output.written() {
        None => write(&report, ctx)?,
        Some(form) => print(&report, form, ctx)?,
    }
    Ok(if report.now.replicas.is_some() { Exit::Done } else { Exit::Refused })
}

fn write(report: &Report, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let Report { replicas, pods, .. } = report;
    ctx.line(&format!("HorizontalPodAutoscaler {}", report.hpa))?;
    ctx.line(&format!(
        "  scales:  {}: {}, between {} and {}",
        report.target,
        counted(replicas.current),
        replicas.min,
        replicas.max
    ))?;
    ctx.line(&format!(
        "  pods:    {}, {} of them neither terminating nor finished",
        pods.found, pods.counted
    ))?;
    let profile = report.profile.as_deref().map_or("none".to_owned(), |profile| format!("profile {profile}"));
    ctx.line(&format!("  mode:    {} ({profile}): {}", report.mode, report.verdict))?;
    for note in &report.notes {
        ctx.line(&format!("  note:    {note}"))?;
    }
    for metric in &report.metrics {
        writeln!(ctx.out)?;
        ctx.line(&format!("{}: {}", metric.metric, metric.state))?;
        let mut lines = table(["", "TARGET", "USAGE", "OF", "UTILIZATION", "RATIO", "REPLICAS", "WHY"]);
        for (view, figures) in
            [("now", &metric.now), ("untouched", &metric.untouched), ("as meant", &metric.meant)]
        {
            lines.add_row(row(view, figures));
        }
        write_table(&lines, "  ", ctx)?;
    }
    writeln!(ctx.out)?;
    for (view, Said { replicas, reason }) in
        [("now:", &report.now), ("untouched:", &report.untouched), ("as meant:", &report.meant)]
    {
        match replicas {
            Some(replicas) => ctx.line(&format!("{view:<11} {}, {reason}", counted(*replicas)))?,
            None => ctx.line(&format!("{view:<11} {reason}"))?,
        }
    }
    Ok(())
}

fn counted(replicas: i32) -> String {
    if replicas == 1 { "1 replica".to_owned() } else { format!("{replicas} replicas") }
}

fn row(view: &str, figures: &Figures) -> [String; 8] {
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let mut why: Vec<String> = figures.why.iter().cloned().collect();
    for (count, what) in [(figures.unready, "not ready"), (figures.missing, "without metrics")] {
        if count > 0 {
            let pods = if count == 1 { "pod" } else { "pods" };
            why.push(format!("{count} {pods} {what}"));
        }
    }
    [
        view.to_owned(),
        figures.target.clone(),
        dash(figures.usage.clone()),
        dash(figures.divisor.clone()),
        dash(figures.utilization.map(|percent| format!("{percent} %"))),
        dash(figures.ratio.map(|ratio| format!("{ratio:.2}"))),
        dash(figures.replicas.map(|replicas| replicas.to_string())),
        why.join("; "),
    ]
}
