//! `plimsoll status`: whether everything works, and what does not.

mod checks;
mod cluster;
mod definitions;
mod replicas;
mod report;
mod trust;

use std::time::{Duration, Instant};

use anyhow::Context as _;

use self::report::Report;
use super::access::Look;
use super::output::print;
use super::progress::{Progress, Unit};
use super::values::Seconds;
use super::{CliError, Context, Exit, examples, server};
use crate::config::Config;
use crate::status::{State, Status};

/// How often it is looked while waiting.
const POLL: Duration = Duration::from_secs(2);

/// Show whether every part of Plimsoll works, and what to do about what does not
///
/// Reads the cluster with your rights: the Deployment and its pods, webhook configurations and whom they trust, whether the
/// CRDs are those of this program, Leases, profiles, the quota tree, `APIServices`, converted autoscalers and the freshest
/// recommendation. Each replica is asked for its own view (/api/v1/status) through a port-forward that is made by the
/// program itself. What you may not read is told as unknown, with the right that is missing; unknown is not healthy.
///
/// Rights that are used: get on deployments, on secrets (of the Secret plimsoll-ca, or the one that the certificate is mounted
/// from), list on pods and leases, and create on pods/portforward in the server's namespace; get on
/// mutatingwebhookconfigurations, validatingwebhookconfigurations and customresourcedefinitions; list on overcommitprofiles,
/// recommendations, elasticquotatrees, apiservices and horizontalpodautoscalers.
///
/// With --server only that server is asked, and nothing of the cluster: what another replica leads counts as well.
///
/// Exit code 0: everything that is on is healthy; 1: something is degraded, failed or unknown; 2: wrong usage; 3: nothing
/// could be asked.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "one look" => "plimsoll status",
    "the same as a kubectl plugin, again and again" => "kubectl plimsoll status -w",
    "wait until an install is healthy" => "plimsoll status --wait=5m",
    "what is wrong, for a script" => "plimsoll status -o json | jq -r '.parts[] | select(.problems) | .part, .problems[]'",
    "a server that is reached otherwise" => "plimsoll status --server http://127.0.0.1:8082",
))]
pub(super) struct Args {
    /// Ask only the JSON API of this server
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// Wait until everything is healthy, for at most this long; 5m without a value
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "5m", require_equals = true)]
    wait: Option<Seconds>,

    #[command(flatten)]
    look: Look,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let config = ctx.load_config()?.config;
    args.look.again.run(ctx, |ctx| {
        let report = waited(args, &config, ctx)?;
        match args.look.output.written() {
            None => report.write(ctx)?,
            Some(form) => print(&report, form, ctx)?,
        }
        Ok(if report.state == State::Healthy { Exit::Done } else { Exit::Refused })
    })
}

/// A report: the first that is healthy, or else the last before the end of the wait.
fn waited(args: &Args, config: &Config, ctx: &Context<'_>) -> Result<Report, CliError> {
    let limit =
        args.wait.map_or(Duration::ZERO, |wait| Duration::from_secs(u64::try_from(wait.0).unwrap_or(0)));
    let began = Instant::now();
    let progress =
        (!limit.is_zero()).then(|| Progress::new("waiting until everything is healthy", Unit::Objects));
    loop {
        let report = look(args, config, ctx);
        let is_settled = match &report {
            Ok(report) => report.state == State::Healthy,
            Err(error) => error.exit() == Exit::Usage,
        };
        if is_settled || began.elapsed().saturating_add(POLL) > limit {
            return report;
        }
        if let Some(progress) = &progress {
            progress.say(&match &report {
                Ok(report) => report.first_problem(),
                Err(error) => error.to_string(),
            });
        }
        std::thread::sleep(POLL);
    }
}

fn look(args: &Args, config: &Config, ctx: &Context<'_>) -> Result<Report, CliError> {
    ctx.runtime()?.block_on(async {
        if let Some(server) = &args.server {
            let url = server::url(server, replicas::PATH)?;
            let body = server::by_url(&url, config).await?;
            let status: Status = serde_json::from_slice(&body)
                .with_context(|| format!("{url}: the answer cannot be understood"))?;
            return Ok(Report::new(
                replicas::rows(&[(status.replica.clone(), Ok(status.clone()))], true),
                vec![status],
            ));
        }
        let client = args.look.access.client(config).await?;
        cluster::look(&client, config).await
    })
}
