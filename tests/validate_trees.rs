//! `plimsoll validate` of quota trees, as a user runs it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

const TREE: &str = "
apiVersion: scheduling.sigs.k8s.io/v1beta1
kind: ElasticQuotaTree
metadata: {name: quota, namespace: kube-system}
spec:
  root:
    name: root
    max: {cpu: 40, memory: 40Gi, kube-queue/max-jobs: '10'}
    min: {cpu: '40', memory: 40Gi, kube-queue/max-jobs: 10}
    attributes: null
    children:
      - name: a
        max: {cpu: 40}
        min: {cpu: 1.5}
        namespaces: [namespace1, namespace2]
        attributes: {resourceflavors: 'spot, od'}
        children: null
      - {name: b, namespaces: [namespace3], max: {cpu: 20}}
";

const CLUSTER: &str = "
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '56', memory: 64Gi}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: spot}
spec: {nodeLabels: {instance-type: spot}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: od}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: namespace1}
spec: {containers: [{name: app, resources: {requests: {cpu: 25}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: done, namespace: namespace2}
spec: {containers: [{name: app, resources: {requests: {cpu: 25}}}]}
status: {phase: Succeeded}
";

fn validate(folder: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .arg("validate")
        .args(arguments.split(' '))
        .current_dir(folder)
        .env_clear()
        .output()
        .unwrap()
}

fn answer(folder: &Path, arguments: &str) -> (i32, Vec<String>, Vec<String>) {
    let output = validate(folder, &format!("{arguments} -o json"));
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let rules = |key: &str| -> Vec<String> {
        answer[key]
            .as_array()
            .unwrap()
            .iter()
            .map(|found| found["rule"].as_str().unwrap().to_owned())
            .collect()
    };
    (output.status.code().unwrap(), rules("violations"), rules("warnings"))
}

/// Rule, manifest, arguments, rules of violations and of warnings.
type Row<'a> = (&'a str, &'a str, &'a str, &'a [&'a str], &'a [&'a str]);

#[test]
fn trees_are_judged_alone_and_against_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("tree.yaml", TREE);
    write("cluster.yaml", CLUSTER);
    write("refuse.yaml", "quota: {refuseAboveCluster: true}\n");
    let changed = |from: &str, to: &str| {
        assert!(TREE.contains(from), "{from}");
        TREE.replace(from, to)
    };
    let huge = changed("40Gi", "400000Gi");
    let second = TREE.replace("name: quota", "name: second");
    let here = "-f changed.yaml --objects cluster.yaml";
    let stored = "-f changed.yaml --objects cluster.yaml tree.yaml";
    let gone = changed("namespaces: [namespace1, namespace2]", "namespaces: [namespace2]");
    let rows: [Row<'_>; 13] = [
        ("good, alone", TREE, "-f changed.yaml", &[], &[]),
        ("good, in the cluster", TREE, here, &[], &[]),
        ("T1", &changed("min: {cpu: 1.5}", "min: {cpu: 41}"), here, &["T2", "T1"], &[]),
        ("T4", &huge, here, &[], &["T4"]),
        ("T4 refused", &huge, "-f changed.yaml --objects cluster.yaml --config refuse.yaml", &["T4"], &[]),
        ("T8, of two in a file the second", &format!("{TREE}---{second}"), "-f changed.yaml", &["T8"], &[]),
        ("T8, elsewhere", &changed("kube-system", "team"), "-f changed.yaml", &[], &["T8"]),
        ("T10", &changed("spot, od", "ghost"), here, &[], &["T10"]),
        (
            "T11",
            &changed("cpu: 1.5", "cpu: -1, nvidia.com/gpu: 0.5, x: abc, y: 1e4000"),
            here,
            &["T11"; 4],
            &[],
        ),
        ("T12", &changed("namespace3", "plimsoll-system"), here, &["T12"], &[]),
        ("T13", &changed("max: {cpu: 40}", "max: {cpu: 20}"), here, &[], &["T13"]),
        ("T14", &gone, stored, &["T14"], &[]),
        ("another version", &changed("v1beta1", "v1alpha1"), here, &["version"], &[]),
    ];
    for (rule, text, arguments, violations, warnings) in rows {
        // YAML has no number as large as this one; as a text it is one for the tree to judge.
        write("changed.yaml", &text.replace("1e4000", "'1e4000'"));
        let found = answer(folder.path(), arguments);
        let code = i32::from(!violations.is_empty());
        let owned = |rules: &[&str]| rules.iter().map(|rule| (*rule).to_owned()).collect::<Vec<_>>();
        assert_eq!(found, (code, owned(violations), owned(warnings)), "{rule}");
    }
    let forced = changed(
        "namespace: kube-system}",
        "namespace: kube-system, annotations: {plimsoll.dev/force: 'true'}}",
    );
    write("tree.yaml", &forced);
    write("changed.yaml", &gone);
    assert_eq!(answer(folder.path(), stored).1, Vec::<String>::new(), "the stored tree allows it");
}

#[test]
fn as_text() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("tree.yaml"),
        TREE.replace("min: {cpu: 1.5}", "min: {cpu: 41}")
            .replace("namespaces: [namespace3]", "namespaces: []"),
    )
    .unwrap();
    let output = validate(folder.path(), "-f tree.yaml");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "tree.yaml[0]: ElasticQuotaTree kube-system/quota: spec.root.min.cpu: node root: cpu: min of its children adds up to 41, \
         above its own min 40; lower theirs or raise its own [T2]\n\
         tree.yaml[0]: ElasticQuotaTree kube-system/quota: spec.root.children[0].min.cpu: node root.a: cpu: min 41 is above max 40; \
         lower min or raise max [T1]\n"
    );
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains("warning: tree.yaml[0]: ElasticQuotaTree kube-system/quota: spec.root.children[1].namespaces: node root.b: is a leaf without namespaces"), "{notes}");
}

fn chain(depth: usize) -> String {
    let open: Vec<String> = (0..depth).map(|n| format!(r#"{{"name":"n{n}","children":["#)).collect();
    let open = open.concat();
    let root = format!(r#"{open}{{"name":"leaf","namespaces":["deep"]}}{}"#, "]}".repeat(depth));
    json!({"apiVersion": "scheduling.sigs.k8s.io/v1beta1", "kind": "ElasticQuotaTree",
        "metadata": {"name": "quota", "namespace": "kube-system"}, "spec": {"root": "ROOT"}})
    .to_string()
    .replace("\"ROOT\"", &root)
}

#[test]
fn depth() {
    let folder = tempfile::tempdir().unwrap();
    let list =
        |depth: usize| format!(r#"{{"kind":"Pod","spec":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    for (rule, text, code, part) in [
        ("100 levels of nodes", chain(100), 0, "nothing to object to"),
        ("201", chain(201), 1, "[T11]"),
        ("very deep", chain(150_000), 2, "deeper than 512 levels"),
        ("brackets", list(300_000), 2, "deeper than 512 levels"),
        ("brackets without end", "[".repeat(300_000), 2, ""),
    ] {
        for name in ["deep.json", "deep.yaml"] {
            std::fs::write(folder.path().join(name), &text).unwrap();
            for flag in ["-f", "-f deep.json --objects"] {
                let output = validate(folder.path(), &format!("{flag} {name}"));
                let all = [output.stdout, output.stderr].concat();
                let all = String::from_utf8_lossy(&all);
                assert_eq!(
                    output.status.code(),
                    Some(code),
                    "{rule}, {name}: {}",
                    all.chars().take(300).collect::<String>()
                );
                assert!(
                    name == "deep.yaml" || all.contains(part),
                    "{rule}: {}",
                    all.chars().take(300).collect::<String>()
                );
            }
        }
    }
}
