//! What every command returns that has no way to its cluster: the table of docs/kubectl-plugin.md.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::api::{Api, Run};

/// All that ask a cluster, in the shortest form.
const COMMANDS: [&str; 18] = [
    "certs inspect",
    "check install --wait 0s",
    "explain hpa web",
    "explain pod web",
    "explain workload web",
    "hpa apiservice install metrics --wait 0s",
    "hpa apiservice remove metrics",
    "hpa apiservice status",
    "hpa explain web",
    "hpa restore --all",
    "hpa restore web",
    "profiles",
    "quota tree",
    "status",
    "top namespaces",
    "top nodes",
    "top workloads",
    "uninstall",
];

fn run(folder: &Path, arguments: &str) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(arguments.split_whitespace()).env_clear().env("HOME", folder).current_dir(folder);
    Run::of(&command.output().unwrap())
}

#[test]
fn without_a_way_to_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = |server: &str| {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": server}}],
            "users": [{"name": "test", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        })
    };
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    // A port that needs rights to listen on, which no test has taken.
    write("refused", &kubeconfig("http://127.0.0.1:1").to_string());
    write("nonsense", "{");
    let expired = Api::start();
    expired.expire();
    let mut wrong = Vec::new();
    for (rule, flags, code) in [
        ("no kubeconfig at all", "", 2),
        ("one that is not there", " --kubeconfig none", 2),
        ("one that is none", " --kubeconfig nonsense", 2),
        ("a context that is not there", " --kubeconfig refused --context other", 2),
        ("nobody listens", " --kubeconfig refused", 3),
        ("the API server does not know who we are", "expired", 3),
    ] {
        for command in COMMANDS {
            let run = if flags == "expired" {
                expired.run(command)
            } else {
                run(folder.path(), &format!("{command}{flags}"))
            };
            let said: Vec<_> = run.err.lines().collect();
            // A file is shown where it is wrong, which takes some lines.
            let once = code == 2 || said.len() == 1;
            if (run.code, run.out.as_str()) != (code, "") || !once || !run.err.starts_with("error: ") {
                wrong.push(format!("{rule}: {command}: {run:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
