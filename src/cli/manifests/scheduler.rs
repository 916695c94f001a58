//! `plimsoll manifests scheduler`: how kube-scheduler is told about the extender.

use std::fmt::Write as _;

use http::uri::Authority;

use crate::cli::{CliError, Context, examples};
use crate::server::go_duration;

/// Print a configuration of kube-scheduler with Plimsoll as an extender
///
/// Give it to kube-scheduler by --config, or copy the list `extenders` into the configuration that there is. The paths
/// are those that kube-scheduler sees. Without --certificate-authority it would not check who answers, so there is always
/// one.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "nodes are scored" => "plimsoll manifests scheduler > /etc/kubernetes/scheduler-config.yaml",
    "and nodes that are too full are refused" => "plimsoll manifests scheduler --filter",
    "the scheduler is a static pod, which does not resolve names of Services" => "plimsoll manifests scheduler --address 10.96.0.42:8444 --server-name plimsoll.plimsoll-system.svc",
    "with placement.clientAuth None" => "plimsoll manifests scheduler --no-client-certificate",
))]
pub(super) struct Args {
    /// Where the extender is, as HOST:PORT
    #[arg(long, value_name = "ADDRESS", default_value = "plimsoll.plimsoll-system.svc:8444")]
    address: Authority,

    /// The name in the extender's certificate, if it is not the host of --address
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,

    /// Ask which nodes are too full, too (placement.filter); otherwise nodes are only scored
    #[arg(long)]
    filter: bool,

    /// How much the extender's points weigh; beyond 2 they override soft topology spread
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    weight: u32,

    /// How long the scheduler waits for an answer; while the extender hangs, each pod waits that long
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = timeout)]
    timeout: String,

    /// Kubeconfig of the scheduler
    #[arg(long, value_name = "FILE", default_value = "/etc/kubernetes/scheduler.conf")]
    kubeconfig: String,

    /// CA of the extender's certificate
    #[arg(long, value_name = "FILE", default_value = "/etc/kubernetes/plimsoll/ca.crt")]
    certificate_authority: String,

    /// Certificate that the scheduler shows
    #[arg(long, value_name = "FILE", default_value = "/etc/kubernetes/plimsoll/tls.crt")]
    certificate: String,

    /// Private key of that certificate
    #[arg(long, value_name = "FILE", default_value = "/etc/kubernetes/plimsoll/tls.key")]
    key: String,

    /// The scheduler shows no certificate
    #[arg(long, conflicts_with_all = ["certificate", "key"])]
    no_client_certificate: bool,
}

/// A duration as Go reads it, as it was written.
fn timeout(text: &str) -> Result<String, String> {
    match go_duration(text) {
        Some(duration) if !duration.is_zero() => Ok(text.to_owned()),
        _ => Err("a duration above 0 is right, such as 200ms or 1s".to_owned()),
    }
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<(), CliError> {
    ctx.out.write_all(args.yaml().as_bytes())?;
    Ok(())
}

/// Whatever stands in it: a JSON text is a YAML text.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Args {
    fn yaml(&self) -> String {
        let mut yaml = format!(
            "# kube-scheduler --config=FILE; made by `plimsoll manifests scheduler`.\n\
             apiVersion: kubescheduler.config.k8s.io/v1\n\
             kind: KubeSchedulerConfiguration\n\
             clientConnection:\n  kubeconfig: {}\n\
             extenders:\n\
             - urlPrefix: {}\n  prioritizeVerb: prioritize\n",
            quoted(&self.kubeconfig),
            quoted(&format!("https://{}/scheduler", self.address)),
        );
        let mut line = |text: &str| {
            let _ = writeln!(yaml, "  {text}");
        };
        if self.filter {
            line("filterVerb: filter");
        }
        line(&format!("weight: {}", self.weight));
        line("# Names of nodes are sent in place of whole nodes, which would cost both sides much more.");
        line("nodeCacheCapable: true");
        line("# Pods are placed without the extender while it does not answer.");
        line("ignorable: true");
        line(&format!("httpTimeout: {}", self.timeout));
        line("enableHTTPS: true");
        line("tlsConfig:");
        line(&format!("  caFile: {}", quoted(&self.certificate_authority)));
        if let Some(name) = &self.server_name {
            line(&format!("  serverName: {}", quoted(name)));
        }
        if !self.no_client_certificate {
            line(&format!("  certFile: {}", quoted(&self.certificate)));
            line(&format!("  keyFile: {}", quoted(&self.key)));
        }
        yaml
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn printed(flags: &[&str]) -> Result<Value, clap::Error> {
        let cli = Cli::try_parse_from([&["plimsoll"], flags].concat())?;
        Ok(serde_saphyr::from_str(&cli.args.yaml()).unwrap())
    }

    #[test]
    fn defaults() {
        assert_eq!(
            printed(&[]).unwrap(),
            json!({
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf"},
                "extenders": [{
                    "urlPrefix": "https://plimsoll.plimsoll-system.svc:8444/scheduler",
                    "prioritizeVerb": "prioritize",
                    "weight": 2,
                    "nodeCacheCapable": true,
                    "ignorable": true,
                    "httpTimeout": "200ms",
                    "enableHTTPS": true,
                    "tlsConfig": {
                        "caFile": "/etc/kubernetes/plimsoll/ca.crt",
                        "certFile": "/etc/kubernetes/plimsoll/tls.crt",
                        "keyFile": "/etc/kubernetes/plimsoll/tls.key",
                    },
                }],
            })
        );
    }

    #[test]
    fn what_is_asked_for_is_in_it() {
        let printed = printed(&[
            "--address=10.0.0.1:9",
            "--server-name=plimsoll.svc",
            "--filter",
            "--weight=3",
            "--timeout=1.5s",
            "--kubeconfig=/a \"b\": c",
            "--certificate-authority=/ca",
            "--no-client-certificate",
        ])
        .unwrap();
        assert_eq!(printed["clientConnection"]["kubeconfig"], "/a \"b\": c");
        assert_eq!(
            printed["extenders"],
            json!([{
                "urlPrefix": "https://10.0.0.1:9/scheduler",
                "prioritizeVerb": "prioritize",
                "filterVerb": "filter",
                "weight": 3,
                "nodeCacheCapable": true,
                "ignorable": true,
                "httpTimeout": "1.5s",
                "enableHTTPS": true,
                "tlsConfig": {"caFile": "/ca", "serverName": "plimsoll.svc"},
            }])
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (rule, flags) in [
            ("no weight", &["--weight=0"][..]),
            ("a weight that is none", &["--weight=2.5"]),
            ("no time", &["--timeout=0s"]),
            ("a time without unit", &["--timeout=200"]),
            ("a URL in place of an address", &["--address=https://plimsoll:8444/"]),
            ("a certificate and none", &["--certificate=/a", "--no-client-certificate"]),
        ] {
            assert!(printed(flags).is_err(), "{rule}");
        }
    }
}
