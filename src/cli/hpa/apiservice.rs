//! `plimsoll hpa apiservice`: whether the API server asks us for metrics.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use plimsoll_core::hpa::{
    ApiServiceError, Holder, MetricsGroup, ServiceRef, Step, Wanted, api_service_name, holder, install,
    remove,
};
use serde::Serialize;

use super::{Access, Form, print, write_table};
use crate::cli::values::Seconds;
use crate::cli::{CliError, Context, Exit, examples, table};
use crate::hpa::apiservice::{InstallError, Installer, probe_address};

/// The webhook configuration of the base, whose authority is ours too.
const WEBHOOK: &str = "plimsoll";

/// Let the API server ask Plimsoll for metrics, or metrics-server again
///
/// An `APIService` says which Service answers for a group of the API. That of metrics.k8s.io is metrics-server's: what
/// stands there is kept in an annotation when it is taken over, and put back when it is removed. The server must run with
/// hpa.shim.enabled (metrics) or hpa.external.enabled (custom, external).
///
/// Rights needed: get, create, update and delete on apiservices; get on mutatingwebhookconfigurations without --ca-file;
/// get on services/proxy without --address; get on nodes of metrics.k8s.io.
///
/// Exit code 0: done; 1: refused, because the `APIService` is somebody else's; 2: wrong usage; 3: something failed.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "who answers for metrics now" => "plimsoll hpa apiservice status",
    "be asked for metrics.k8s.io, in front of metrics-server" => "plimsoll hpa apiservice install metrics",
    "what that would do" => "plimsoll hpa apiservice install metrics --dry-run",
    "let metrics-server be asked again" => "plimsoll hpa apiservice remove metrics",
))]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Let the API server ask Plimsoll for a group; nothing changes unless it answers
    Install(Install),
    /// Put back what was there before
    Remove(Remove),
    /// Say who answers for each group
    Status(Status),
}

/// A group of metrics.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Group {
    /// metrics.k8s.io, in front of metrics-server
    Metrics,
    /// custom.metrics.k8s.io
    Custom,
    /// external.metrics.k8s.io
    External,
}

#[derive(Debug, clap::Args)]
struct Install {
    /// The group
    #[arg(value_enum, value_name = "GROUP")]
    group: Group,

    #[command(flatten)]
    ours: Ours,

    /// Metrics-server's Service, from which metrics.k8s.io may be taken over; whom hpa.api.upstream asks
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "kube-system/metrics-server", value_parser = service)]
    upstream_service: ServiceRef,

    /// CA of the server's certificate, PEM; by default that of its webhook configuration
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Where the server is asked first whether it answers, as <https://10.0.0.1:8445>; by default through the API server
    #[arg(long, value_name = "URL")]
    address: Option<Uri>,

    /// Do not ask first
    #[arg(long, conflicts_with = "address")]
    skip_checks: bool,

    /// How long to wait for the API server to reach it; if it does not, what was there before is put back
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    wait: Seconds,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    access: Access,
}

#[derive(Debug, clap::Args)]
struct Remove {
    /// The group
    #[arg(value_enum, value_name = "GROUP")]
    group: Group,

    #[command(flatten)]
    ours: Ours,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    access: Access,
}

#[derive(Debug, clap::Args)]
struct Status {
    /// The group; by default all
    #[arg(value_enum, value_name = "GROUP")]
    group: Option<Group>,

    #[command(flatten)]
    ours: Ours,

    #[command(flatten)]
    access: Access,

    /// Form of the answer
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "table")]
    output: Form,
}

#[derive(Debug, clap::Args)]
struct Ours {
    /// The server's Service, with the port of the aggregated API
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]", default_value = "plimsoll-system/plimsoll:8445", value_parser = service)]
    service: ServiceRef,
}

fn service(text: &str) -> Result<ServiceRef, String> {
    let wrong = || "NAMESPACE/NAME or NAMESPACE/NAME:PORT is right".to_owned();
    let (namespace, rest) = text.split_once('/').ok_or_else(wrong)?;
    let (name, port) = match rest.split_once(':') {
        Some((name, port)) => (name, port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?),
        None => (rest, 443),
    };
    if ![namespace, name].iter().all(|part| crate::config::is_label(part)) {
        return Err(wrong());
    }
    Ok(ServiceRef { namespace: namespace.to_owned(), name: name.to_owned(), port })
}

impl From<Group> for MetricsGroup {
    fn from(group: Group) -> Self {
        match group {
            Group::Metrics => Self::Metrics,
            Group::Custom => Self::Custom,
            Group::External => Self::External,
        }
    }
}

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Judged(#[from] ApiServiceError),
    #[error(transparent)]
    Failed(#[from] InstallError),
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let config = ctx.load_config()?.config;
    let runtime = ctx.runtime()?;
    let access = match &args.what {
        What::Install(args) => &args.access,
        What::Remove(args) => &args.access,
        What::Status(args) => &args.access,
    };
    let client = runtime.block_on(access.client(&config))?;
    let ended = match &args.what {
        What::Install(args) => runtime.block_on(put(args, &Installer::new(client, args.dry_run), ctx)),
        What::Remove(args) => runtime.block_on(put_back(args, &Installer::new(client, args.dry_run), ctx)),
        What::Status(args) => return runtime.block_on(status(args, &Installer::new(client, false), ctx)),
    };
    match ended {
        Ok(()) => Ok(Exit::Done),
        Err(Ended::Cli(error)) => Err(error),
        Err(Ended::Failure(Failure::Judged(error))) => {
            ctx.note(&error.to_string());
            Ok(Exit::Refused)
        }
        Err(Ended::Failure(Failure::Failed(error))) => Err(anyhow::Error::new(error).into()),
    }
}

/// How it ended when it was not done.
enum Ended {
    Failure(Failure),
    Cli(CliError),
}

impl<E: Into<Failure>> From<E> for Ended {
    fn from(error: E) -> Self {
        Self::Failure(error.into())
    }
}

async fn put(args: &Install, installer: &Installer, ctx: &mut Context<'_>) -> Result<(), Ended> {
    let group = MetricsGroup::from(args.group);
    let (ca_bundle, inject_ca_from) = match &args.ca_file {
        Some(path) => {
            let pem = crate::files::read_regular(path)
                .map_err(|error| Ended::Cli(CliError::Usage(format!("{}: {error}", path.display()))))?;
            (STANDARD.encode(pem), None)
        }
        None => installer.bundle(WEBHOOK).await?,
    };
    let wanted = Wanted {
        service: args.ours.service.clone(),
        upstream: args.upstream_service.clone(),
        ca_bundle,
        inject_ca_from,
    };
    // All are judged before one is written.
    let mut taken = Vec::new();
    let mut met = false;
    for version in group.versions() {
        let found = installer.get(&api_service_name(group, version)).await?;
        install(group, version, found.as_ref(), &wanted)?;
        met |= found.is_some();
        if !matches!(holder(found.as_ref(), &wanted.service).0, Holder::Ours(_)) {
            taken.push(*version);
        }
    }
    if !args.skip_checks {
        for version in group.versions() {
            match &args.address {
                Some(address) => {
                    probe_address(address, &wanted.service, &wanted.ca_bundle, group, version).await?;
                }
                None => installer.probe_service(&wanted.service, group, version).await?,
            }
        }
        if group == MetricsGroup::Metrics && met {
            installer.probe_metrics().await?;
        }
    }
    for version in group.versions() {
        let name = api_service_name(group, version);
        let step = installer
            .apply(&name, |found| Ok::<_, Failure>(install(group, version, found, &wanted)?))
            .await?;
        say(ctx, &name, &step, args.dry_run)?;
    }
    if args.dry_run {
        return Ok(());
    }
    let patience = Duration::from_secs(u64::try_from(args.wait.0).unwrap_or_default());
    for version in group.versions() {
        let Err(problem) = installer.wait_for(group, version, patience).await else { continue };
        if taken.is_empty() {
            ctx.note(
                "metrics do not come through the API server; it was ours before and still is: `plimsoll hpa apiservice \
                 remove` puts back what was there before",
            );
            return Err(problem.into());
        }
        for version in taken {
            let name = api_service_name(group, version);
            let ours = &wanted.service;
            let back =
                installer.apply(&name, |found| Ok::<_, Failure>(remove(group, version, found, ours)?)).await;
            if let Err(error) = back {
                ctx.note(&format!("{name} is still ours: it could not be put back: {error}"));
                return Err(problem.into());
            }
        }
        ctx.note("metrics do not come through the API server; what was there before is put back");
        return Err(problem.into());
    }
    Ok(())
}

async fn put_back(args: &Remove, installer: &Installer, ctx: &mut Context<'_>) -> Result<(), Ended> {
    let group = MetricsGroup::from(args.group);
    let ours = &args.ours.service;
    for version in group.versions() {
        let found = installer.get(&api_service_name(group, version)).await?;
        remove(group, version, found.as_ref(), ours)?;
    }
    for version in group.versions() {
        let name = api_service_name(group, version);
        let step =
            installer.apply(&name, |found| Ok::<_, Failure>(remove(group, version, found, ours)?)).await?;
        say(ctx, &name, &step, args.dry_run)?;
    }
    Ok(())
}

fn say(ctx: &mut Context<'_>, name: &str, step: &Step, dry_run: bool) -> Result<(), Ended> {
    let done = match step {
        Step::Nothing => "unchanged",
        Step::Create(_) => "created",
        Step::Replace(_) => "replaced",
        Step::Delete => "deleted",
    };
    let dry_run = if dry_run { " (dry run)" } else { "" };
    ctx.line(&format!("apiservice.apiregistration.k8s.io/{name} {done}{dry_run}"))
        .map_err(|error| Ended::Cli(error.into()))
}

/// One `APIService`, as it is told.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    name: String,
    /// `None`: there is none.
    service: Option<String>,
    ours: bool,
    /// Whose it was before.
    before: Option<String>,
    available: Option<bool>,
    message: String,
}

async fn status(args: &Status, installer: &Installer, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let groups = match args.group {
        Some(group) => vec![group.into()],
        None => vec![MetricsGroup::Metrics, MetricsGroup::Custom, MetricsGroup::External],
    };
    let mut all = Vec::new();
    for group in groups {
        for version in group.versions() {
            let name = api_service_name(group, version);
            let found = installer.get(&name).await.map_err(anyhow::Error::new)?;
            let (whose, available) = holder(found.as_ref(), &args.ours.service);
            let (service, ours, before) = match whose {
                Holder::Nobody => (None, false, None),
                Holder::Ours(before) => (Some(args.ours.service.to_string()), true, before),
                Holder::Other(service) => (
                    Some(service.map_or_else(|| "the API server itself".to_owned(), |s| s.to_string())),
                    false,
                    None,
                ),
            };
            let (available, message) = available.map_or((None, String::new()), |(is, why)| (Some(is), why));
            let before = before.map(|service| service.to_string());
            all.push(Told { name, service, ours, before, available, message });
        }
    }
    if let Some(form) = args.output.written() {
        print(&all, form, ctx)?;
        return Ok(Exit::Done);
    }
    let mut lines = table(["APISERVICE", "SERVICE", "BEFORE", "AVAILABLE"]);
    for one in &all {
        let available = match one.available {
            None => "-".to_owned(),
            Some(true) => "yes".to_owned(),
            Some(false) => format!("no: {}", one.message),
        };
        lines.add_row([
            one.name.clone(),
            one.service.clone().unwrap_or_else(|| "none".to_owned()),
            one.before.clone().unwrap_or_else(|| "-".to_owned()),
            available,
        ]);
    }
    write_table(&lines, "", ctx)?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services() {
        let of = |port| ServiceRef { namespace: "a".to_owned(), name: "b".to_owned(), port };
        assert_eq!(service("a/b:8445"), Ok(of(8445)));
        assert_eq!(service("a/b"), Ok(of(443)));
        for bad in ["", "b", "/b", "a/", "a/b:", "a/b:0", "a/b:70000", "a/b/c", "A/b"] {
            assert!(service(bad).unwrap_err().contains("is right"), "{bad}");
        }
    }
}
