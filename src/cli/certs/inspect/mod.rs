//! `plimsoll certs inspect`: what certificates say, in files, in a cluster, at a server.

mod cluster;
mod files;
mod served;

use std::path::PathBuf;

use crate::certificates::service_names;
use crate::cli::{CliError, Context, Exit, examples, output};

/// Show what certificates say, and whether they fit together
///
/// With files: what is in them, whether keys belong to certificates, and with --ca whether certificates lead to it.
/// Without: the authority in the Secret of a cluster where certificates are self-managed, never its key, and whether each
/// caBundle agrees with it. With --server also what is served there.
///
/// Exit code 0: all is well; 1: a certificate is not valid now, or something does not fit together; 2: a file holds
/// neither certificate nor key, or there is no way to the cluster; 3: the cluster could not be asked.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "a pair" => "plimsoll certs inspect tls.crt tls.key",
    "when does it end" => "plimsoll certs inspect tls.crt -o json | jq -r '.certificates[0].notAfter'",
    "is it the CA that signed it" => "plimsoll certs inspect --cert tls.crt --ca ca.crt",
    "the cluster of the kubeconfig" => "plimsoll certs inspect",
    "and what a replica serves" => "plimsoll certs inspect --server localhost:8443",
))]
pub(super) struct Args {
    /// PEM files with certificates, private keys, or both
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The same, by a name; may be repeated
    #[arg(long = "cert", value_name = "FILE")]
    certificates: Vec<PathBuf>,

    /// PEM file with the CA that the certificates are to lead to; may be repeated
    #[arg(long = "ca", value_name = "FILE")]
    authorities: Vec<PathBuf>,

    /// Look at what is served there too; its certificate is to lead to --ca, else to what the webhooks' caBundle holds
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    server: Option<String>,

    /// The name that the certificate of --server is to be for; without it that of the Service
    #[arg(long, value_name = "NAME", requires = "server", value_parser = super::host)]
    server_name: Option<String>,

    /// Kubeconfig file, in place of cluster.kubeconfig
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "certificates", "authorities"])]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig, in place of cluster.context
    #[arg(long, value_name = "NAME", conflicts_with_all = ["files", "certificates", "authorities"])]
    context: Option<String>,

    /// Form of the answer
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "table")]
    output: output::Form,
}

fn address(text: &str) -> Result<String, String> {
    let right = "write a host and a port, as in localhost:8443";
    let (host, port) = text.rsplit_once(':').ok_or(right)?;
    if host.is_empty() || port.parse::<u16>().is_err() {
        return Err(right.to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let config = ctx.load_config()?.config;
    let names = service_names(&config.tls.self_managed.service, &config.admission.own_namespace);
    let name = args.server_name.clone().or_else(|| names.into_iter().next()).unwrap_or_default();
    let files: Vec<PathBuf> = args.files.iter().chain(&args.certificates).cloned().collect();
    let is_well = if files.is_empty() && args.authorities.is_empty() {
        let report = ctx.runtime()?.block_on(cluster::report(args, &config, &name))?;
        match args.output.written() {
            None => report.write_table(ctx)?,
            Some(form) => output::print(&report, form, ctx)?,
        }
        report.problems.is_empty()
    } else {
        let mut report = files::report(&files, &args.authorities)?;
        if let Some(address) = &args.server {
            if args.authorities.is_empty() {
                return Err(CliError::Usage(
                    "--server beside files needs --ca: the CA that its certificate is to lead to".to_owned(),
                ));
            }
            let roots = files::roots(&args.authorities)?;
            report.served = Some(ctx.runtime()?.block_on(served::look(address, &name, &roots)));
        }
        match args.output.written() {
            None => files::write_table(&report, ctx)?,
            Some(form) => output::print(&report, form, ctx)?,
        }
        report.is_well()
    };
    Ok(if is_well { Exit::Done } else { Exit::Refused })
}
