//! `plimsoll certs`: make certificates, and look at them.

mod files;
mod inspect;
mod make;

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{CliError, Context, Exit, examples};
use crate::config::{is_host, is_label};

/// Make a CA and a serving certificate, or look at certificates
///
/// Writes ca.crt, ca.key, tls.crt and tls.key; the keys can be read by their owner only. Without --name and
/// --service the certificate is for localhost.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = examples!(
        "for trying it on this machine" => "plimsoll certs --dir out",
        "for the Service of an installation" => "plimsoll certs --dir out --service plimsoll --namespace plimsoll-system",
        "for other names, for 90 days" => "plimsoll certs --dir out --name plimsoll.example.org --name 192.0.2.7 --days 90",
        "what is in these files" => "plimsoll certs inspect out/tls.crt out/tls.key",
    )
)]
pub(super) struct Args {
    /// Write the files into this directory; it is made when it is not there
    #[arg(long, value_name = "DIR", required = true)]
    dir: Option<PathBuf>,

    /// A DNS name or IP address the certificate is for; may be repeated
    #[arg(long = "name", value_name = "DNS-OR-IP", value_parser = host)]
    names: Vec<String>,

    /// How many days the certificate is valid; the CA is valid for ten years at least
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,

    /// The Service of the server; the certificate is for all its DNS names in the cluster
    #[arg(long, value_name = "NAME", value_parser = label)]
    service: Option<String>,

    /// The namespace of the Service
    #[arg(long, value_name = "NS", value_parser = label, requires = "service", default_value = "plimsoll-system")]
    namespace: String,

    /// Overwrite files that are there
    #[arg(long)]
    force: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Inspect(inspect::Args),
}

fn host(text: &str) -> Result<String, String> {
    let right = "write a DNS name as in plimsoll.example.org, or an IP address";
    if is_host(text) { Ok(text.to_owned()) } else { Err(right.to_owned()) }
}

fn label(text: &str) -> Result<String, String> {
    let right = "write at most 63 lower-case letters, digits and '-'";
    if is_label(text) { Ok(text.to_owned()) } else { Err(right.to_owned()) }
}

pub(super) fn run(args: Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    if let Some(Command::Inspect(args)) = args.command {
        return inspect::run(&args, ctx);
    }
    let Some(directory) = args.dir else {
        return Err(CliError::Usage("--dir is missing; name the directory for the files".to_owned()));
    };
    let mut names = args.names;
    if let Some(service) = &args.service {
        names.extend(service_names(service, &args.namespace));
    }
    if names.is_empty() {
        names.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let made = make::make(&names, args.days).map_err(|error| {
        anyhow::Error::new(error).context(format!("no certificate can be made for {}", names.join(", ")))
    })?;
    files::write(&directory, &made.files(), args.force)?;
    for (name, meaning) in make::MEANINGS {
        ctx.line(&format!("{} {meaning}", directory.join(name).display()))?;
    }
    ctx.line(&format!("for {}, {} days", names.join(", "), args.days))?;
    Ok(Exit::Done)
}

/// The names by which a Service is reached, the one of the API server's webhook calls among them.
fn service_names(service: &str, namespace: &str) -> [String; 4] {
    [
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
        format!("{service}.{namespace}"),
        service.to_owned(),
    ]
}
