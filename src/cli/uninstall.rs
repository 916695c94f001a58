//! `plimsoll uninstall`: takes out of a cluster what would be in the way, or be left, without the server.
//!
//! One module a step; each returns what became of each object, and none stops the others.

mod apiservices;
mod autoscalers;
mod leases;
mod ledgers;
mod nodes;
mod servers;
mod webhooks;
mod workloads;

use std::time::Duration;

use kube::Client;
use serde::Serialize;

use super::access::Access;
use super::calls::Calls;
use super::output::{Form, print};
use super::values::Seconds;
use super::{CliError, Context, Exit, examples};

/// Take out of the cluster what would be in the way, or be left, without the server
///
/// In this order: webhook configurations, so that nothing waits for a server; `APIServices` are given back to whom they
/// were taken from; the servers are stopped (the Deployment is scaled to 0); autoscalers get back the targets that
/// their authors wrote; nodes lose our labels and annotations, and workloads the annotation by which quota made their
/// controllers try again (nothing is rolled out); ledgers of quota, which have a finalizer, and Leases are deleted. Each step is told. One that fails does not keep the others from being tried, and all of it may be repeated.
/// What has one of our names, or calls our Service, but has not our label is left as it is. The servers are not stopped as
/// long as something stands that would be refused without them, and ledgers stay as long as a server may still run.
///
/// Afterwards delete the rest: `kubectl delete --ignore-not-found -k` of what was applied. `helm uninstall` runs this command by itself.
///
/// Rights needed: list, get and delete on mutatingwebhookconfigurations and validatingwebhookconfigurations; get, update and
/// delete on apiservices; get on deployments, patch on deployments/scale, list on pods and get, list, create, update
/// and delete on leases and list, patch and delete on quotaledgers in the server's namespace; get, list and patch on
/// horizontalpodautoscalers; list and patch on nodes, daemonsets, deployments, jobs, replicasets, replicationcontrollers and
/// statefulsets.
///
/// Exit code 0: nothing of it is left; 1: some autoscalers are not as their authors wrote them, because their record
/// cannot be read, because the API server does not take them so, or because they were converted again (0 with
/// --keep-going); 2: wrong usage, such as another namespace than the server's; 3: something failed, or the
/// cluster could not be asked.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "before the manifests are deleted" => "plimsoll uninstall",
    "what that would do" => "plimsoll uninstall --dry-run",
    "then the rest" => "kubectl delete --ignore-not-found -k webhook-config/base",
))]
pub(super) struct Args {
    /// The server's namespace, in place of admission.ownNamespace
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    /// Also succeed if some autoscalers are not as their authors wrote them; which ones is told
    #[arg(long)]
    keep_going: bool,

    /// How long to wait for the servers to end, as 90s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m")]
    wait: Seconds,

    /// How long all autoscalers together may take
    #[arg(long, value_name = "DURATION", default_value = "4m")]
    timeout: Seconds,

    #[command(flatten)]
    access: Access,

    /// Form of the answer
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "table")]
    output: Form,
}

/// The Service of the manifests.
const SERVICE: &str = "plimsoll";

/// How it ended for one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Ending {
    Done,
    WouldBeDone,
    /// There is nothing of ours.
    Nothing,
    /// It is not ours to touch, or still in use.
    Left,
    /// It is not as its author wrote it.
    NotRestored,
    Failed,
}

/// What became of one object. The form of the answer is an interface.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    step: &'static str,
    object: String,
    result: Ending,
    /// In words.
    message: String,
}

/// What a step needs.
struct Job {
    client: Client,
    calls: Calls,
    /// The server's namespace.
    own: String,
    /// The name of the webhook configurations of quota.
    quota_webhooks: String,
    dry_run: bool,
    wait: Duration,
    timeout: Duration,
}

impl Job {
    /// `done`, or that it would be.
    const fn ending(&self) -> Ending {
        if self.dry_run { Ending::WouldBeDone } else { Ending::Done }
    }

    /// `deleted`, or `would be deleted`.
    fn words(&self, done: &str) -> String {
        if self.dry_run { format!("would be {done}") } else { done.to_owned() }
    }
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    done: usize,
    would_be_done: usize,
    left: usize,
    not_restored: usize,
    failed: usize,
}

#[derive(Debug, Serialize)]
struct Answer {
    objects: Vec<Line>,
    summary: Summary,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let config = ctx.load_config()?.config;
    let runtime = ctx.runtime()?;
    let client = runtime.block_on(args.access.client(&config))?;
    let job = Job {
        calls: Calls::new(client.clone()),
        client,
        own: args.namespace.clone().unwrap_or(config.admission.own_namespace),
        quota_webhooks: config.quota.webhook_name,
        dry_run: args.dry_run,
        wait: span(args.wait),
        timeout: span(args.timeout),
    };
    let found = runtime.block_on(webhooks::find(&job))?;
    if let Some(there) = found.elsewhere(&job.own) {
        return Err(CliError::Usage(format!(
            "Plimsoll's webhook configurations call namespace {there}, not {}: if that installation is to go, say \
             --namespace {there}",
            job.own
        )));
    }
    let mut told =
        Told { lines: Vec::new(), streams: args.output == Form::Table, keeps_going: args.keep_going };
    let (lines, mut stands) = runtime.block_on(webhooks::delete(&job, found));
    told.tell(lines, ctx)?;
    let (lines, pointing) = runtime.block_on(apiservices::give_back(&job));
    told.tell(lines, ctx)?;
    stands.extend(pointing);
    let (lines, stopped) = runtime.block_on(servers::stop(&job, &stands));
    told.tell(lines, ctx)?;
    told.tell(runtime.block_on(autoscalers::restore(&job, stopped)), ctx)?;
    told.tell(runtime.block_on(nodes::clean(&job)), ctx)?;
    told.tell(runtime.block_on(workloads::clean(&job)), ctx)?;
    told.tell(runtime.block_on(ledgers::delete(&job, stopped, &stands)), ctx)?;
    told.tell(runtime.block_on(leases::delete(&job, stopped)), ctx)?;
    told.end(args.output, ctx)
}

fn span(seconds: Seconds) -> Duration {
    // Beyond a year nothing is waited for; an `Instant` cannot be that far away everywhere.
    Duration::from_secs(u64::try_from(seconds.0).unwrap_or(0).min(31_536_000))
}

/// What was said so far.
struct Told {
    lines: Vec<Line>,
    /// Whether it is said at once.
    streams: bool,
    /// Whether autoscalers that are not restored are no failure.
    keeps_going: bool,
}

impl Told {
    fn tell(&mut self, lines: Vec<Line>, ctx: &mut Context<'_>) -> Result<(), CliError> {
        if self.streams {
            for Line { step, object, message, .. } in &lines {
                ctx.line(&format!("{step:<12} {object}: {message}"))?;
            }
            ctx.out.flush()?;
        }
        self.lines.extend(lines);
        Ok(())
    }

    fn end(self, form: Form, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
        let count = |ending| self.lines.iter().filter(|line| line.result == ending).count();
        let summary = Summary {
            done: count(Ending::Done),
            would_be_done: count(Ending::WouldBeDone),
            left: count(Ending::Left),
            not_restored: count(Ending::NotRestored),
            failed: count(Ending::Failed),
        };
        let exit = match &summary {
            Summary { failed: 1.., .. } => Exit::Failed,
            Summary { not_restored: 1.., .. } if !self.keeps_going => Exit::Refused,
            _ => Exit::Done,
        };
        if let Some(form) = form.written() {
            print(&Answer { objects: self.lines, summary }, form, ctx)?;
            return Ok(exit);
        }
        let counts = [
            (summary.done, "done"),
            (summary.would_be_done, "would be done"),
            (summary.left, "left"),
            (summary.not_restored, "not restored"),
            (summary.failed, "failed; run it again when that is mended"),
        ];
        let said: Vec<_> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let said = if said.is_empty() { "nothing to do".to_owned() } else { said.join(", ") };
        writeln!(ctx.out)?;
        ctx.line(&format!("Uninstall: {said}"))?;
        Ok(exit)
    }
}
