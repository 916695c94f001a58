//! `plimsoll manifests scheduler`: how kube-scheduler is told about the extender.

use std::fmt::Write as _;

use http::uri::Authority;

use crate::cli::{CliError, Context, examples};
use crate::config::is_label;
use crate::server::go_duration;

/// The scheduler that places pods which name none, and the Lease of kube-scheduler.
const OWN_NAMES: [&str; 2] = ["default-scheduler", "kube-scheduler"];

/// Where kubeadm puts it.
const KUBECONFIG: &str = "/etc/kubernetes/scheduler.conf";

/// Print a configuration of kube-scheduler with Plimsoll as an extender
///
/// Give it to kube-scheduler by --config, or copy the list `extenders` into the configuration that there is. The paths
/// are those that kube-scheduler sees. Without --certificate-authority it would not check who answers, so there is always
/// one.
///
/// With --scheduler-name it is for a second kube-scheduler in a pod, beside the cluster's own: for pods with that
/// schedulerName, with a Lease of that name, and as its service account. Without it, such a one would wait for the Lease of
/// the cluster's own scheduler for ever, or take its place.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "nodes are scored" => "plimsoll manifests scheduler > /etc/kubernetes/scheduler-config.yaml",
    "and nodes that are too full are refused" => "plimsoll manifests scheduler --filter",
    "the scheduler is a static pod, which does not resolve names of Services" => "plimsoll manifests scheduler --address 10.96.0.42:8444 --server-name plimsoll.plimsoll-system.svc",
    "a second scheduler beside the cluster's own" => "plimsoll manifests scheduler --scheduler-name plimsoll-scheduler",
    "with placement.clientAuth None" => "plimsoll manifests scheduler --no-client-certificate",
))]
pub(super) struct Args {
    /// Where the extender is, as HOST:PORT
    #[arg(long, value_name = "ADDRESS", default_value = "plimsoll.plimsoll-system.svc:8444")]
    address: Authority,

    /// The name in the extender's certificate, if it is not the host of --address
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,

    /// Name of a second scheduler: pods name it in spec.schedulerName, and its Lease is called so
    #[arg(long, value_name = "NAME", value_parser = scheduler_name)]
    scheduler_name: Option<String>,

    /// Namespace of the Lease of --scheduler-name
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system", requires = "scheduler_name", value_parser = namespace)]
    lease_namespace: String,

    /// Ask which nodes are too full, too (placement.filter); otherwise nodes are only scored
    #[arg(long)]
    filter: bool,

    /// How much the extender's points weigh; beyond 2 they override soft topology spread
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    weight: u32,

    /// How long the scheduler waits for an answer; while the extender hangs, each pod waits that long
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = timeout)]
    timeout: String,

    /// Kubeconfig of the scheduler [default: /etc/kubernetes/scheduler.conf; with --scheduler-name its service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,

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

/// The name of a scheduler that is not the cluster's own, and of its Lease.
fn scheduler_name(text: &str) -> Result<String, String> {
    if OWN_NAMES.contains(&text) {
        return Err("that is the name of the cluster's own scheduler, or of its Lease; two schedulers of one name would place the \
                    same pods, or take turns"
            .to_owned());
    }
    if text.len() > 253 || !text.split('.').all(is_label) {
        let right = "lower-case letters, digits, '-' and '.' are right, as in plimsoll-scheduler";
        return Err(right.to_owned());
    }
    Ok(text.to_owned())
}

fn namespace(text: &str) -> Result<String, String> {
    let right = "at most 63 lower-case letters, digits and '-' are right, as in kube-system";
    if is_label(text) { Ok(text.to_owned()) } else { Err(right.to_owned()) }
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
    /// As who the scheduler calls the API server; nothing: as its service account.
    fn connection(&self) -> String {
        let own = self.scheduler_name.is_none().then_some(KUBECONFIG);
        self.kubeconfig
            .as_deref()
            .or(own)
            .map_or_else(String::new, |file| format!("clientConnection:\n  kubeconfig: {}\n", quoted(file)))
    }

    /// What sets a second scheduler apart from the cluster's own.
    fn second(&self) -> String {
        self.scheduler_name.as_deref().map_or_else(String::new, |name| {
            let (name, namespace) = (quoted(name), quoted(&self.lease_namespace));
            format!(
                "# Which of its replicas places pods: a Lease of its own, not that of the cluster's own scheduler.\n\
                 leaderElection:\n  leaderElect: true\n  resourceName: {name}\n  resourceNamespace: {namespace}\n\
                 profiles:\n- schedulerName: {name}\n"
            )
        })
    }

    fn yaml(&self) -> String {
        let mut yaml = format!(
            "# kube-scheduler --config=FILE; made by `plimsoll manifests scheduler`.\n\
             apiVersion: kubescheduler.config.k8s.io/v1\n\
             kind: KubeSchedulerConfiguration\n\
             {}{}\
             extenders:\n\
             - urlPrefix: {}\n  prioritizeVerb: prioritize\n",
            self.connection(),
            self.second(),
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
    fn a_second_scheduler_is_apart_from_the_clusters_own() {
        let second = printed(&["--scheduler-name=plimsoll-scheduler"]).unwrap();
        assert_eq!(second["profiles"], json!([{"schedulerName": "plimsoll-scheduler"}]));
        let lease = |namespace: &str| json!({"leaderElect": true, "resourceName": "plimsoll-scheduler", "resourceNamespace": namespace});
        assert_eq!(second["leaderElection"], lease("kube-system"));
        assert_eq!(second["clientConnection"], Value::Null, "its service account");
        assert_eq!(second["extenders"], printed(&[]).unwrap()["extenders"]);

        let elsewhere = printed(&[
            "--scheduler-name=plimsoll-scheduler",
            "--lease-namespace=placement",
            "--kubeconfig=/own.conf",
        ])
        .unwrap();
        assert_eq!(elsewhere["leaderElection"], lease("placement"));
        assert_eq!(elsewhere["clientConnection"], json!({"kubeconfig": "/own.conf"}));
    }

    /// What the documents have a reader apply is what this configuration needs.
    #[test]
    fn the_example_runs_it() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/placement/second-scheduler.yaml");
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(&std::fs::read_to_string(file).unwrap()).unwrap();
        let of = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>();
        let deployment = of("Deployment")[0];
        let name = deployment["metadata"]["name"].as_str().unwrap();
        let configuration = printed(&[&format!("--scheduler-name={name}")]).unwrap();
        let election = &configuration["leaderElection"];
        let (account, namespace) = (&of("ServiceAccount")[0]["metadata"], &election["resourceNamespace"]);
        assert_eq!((&account["name"], &account["namespace"]), (&json!(name), namespace));
        let role = of("Role")[0];
        assert_eq!(&role["metadata"]["namespace"], namespace);
        let of_the_lease = json!([election["resourceName"]]);
        let lease = |verb: &str| {
            role["rules"].as_array().unwrap().iter().any(|rule| {
                let named = rule["resourceNames"] == of_the_lease || verb == "create";
                named
                    && rule["resources"] == json!(["leases"])
                    && rule["verbs"].as_array().unwrap().contains(&json!(verb))
            })
        };
        assert!(["create", "get", "update"].into_iter().all(lease), "{role}");
        let bindings = ["RoleBinding", "ClusterRoleBinding"].map(of).concat();
        let mut roles: Vec<_> =
            bindings.iter().map(|binding| binding["roleRef"]["name"].as_str().unwrap()).collect();
        roles.sort_unstable();
        assert_eq!(
            roles,
            [
                "extension-apiserver-authentication-reader",
                "plimsoll-scheduler",
                "system:kube-scheduler",
                "system:volume-scheduler"
            ]
        );
        for binding in bindings {
            assert_eq!(
                binding["subjects"],
                json!([{"kind": "ServiceAccount", "name": name, "namespace": namespace}])
            );
        }
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["serviceAccountName"], name);
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
        let tls = &configuration["extenders"][0]["tlsConfig"];
        for path in [&tls["caFile"], &tls["certFile"], &tls["keyFile"]] {
            let path = path.as_str().unwrap();
            assert!(
                mounts.iter().any(|mount| path.starts_with(mount["mountPath"].as_str().unwrap())),
                "{path}"
            );
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (rule, flags) in [
            ("no weight", &["--weight=0"][..]),
            ("a weight that is none", &["--weight=2.5"]),
            ("no time", &["--timeout=0s"]),
            ("a time without unit", &["--timeout=200"]),
            ("a URL in place of an address", &["--address=https://plimsoll:8444/"]),
            ("the cluster's own scheduler", &["--scheduler-name=default-scheduler"]),
            ("the Lease of the cluster's own", &["--scheduler-name=kube-scheduler"]),
            ("no name of a Lease", &["--scheduler-name=My_Scheduler"]),
            ("a Lease of no other scheduler", &["--lease-namespace=placement"]),
            ("no namespace", &["--scheduler-name=a", "--lease-namespace=a.b"]),
            ("a certificate and none", &["--certificate=/a", "--no-client-certificate"]),
        ] {
            assert!(printed(flags).is_err(), "{rule}");
        }
    }
}
