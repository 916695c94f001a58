//! `mutate`, `review` and `validate`, as a user runs them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine as _;
use serde_json::{Value, json};

const CLUSTER: &str = "
apiVersion: plimsoll.dev/v1alpha1
kind: OvercommitProfile
metadata: {name: shared-pool}
spec:
  match: {pools: [shared]}
  mode: StaticThenDynamic
  static: {factors: {cpu: '0.5', memory: '0.7'}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {plimsoll.dev/pool: shared}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: bounds, namespace: shop}
spec: {limits: [{type: Container, min: {cpu: 100m}, default: {memory: 1Gi}}]}
---
apiVersion: plimsoll.dev/v1alpha1
kind: Recommendation
metadata: {name: web, namespace: shop}
spec: {profile: shared-pool, targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
status:
  containers:
    - {name: app, cpu: {target: 800m}, firstSample: '2026-03-01T00:00:00Z', lastSample: '2026-03-05T00:00:00Z'}
";

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: app
          resources: {requests: {cpu: 2}, limits: {cpu: 4}}
";

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: shop}
spec:
  futureField: {a: 1}
  containers:
    - {name: a, resources: {limits: {cpu: '2'}, claims: [{name: gpu}]}}
";

#[derive(Debug)]
struct Run {
    code: i32,
    out: String,
    err: String,
}

/// A folder with the files above.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("cluster.yaml", CLUSTER), ("deployment.yaml", DEPLOYMENT), ("pod.yaml", POD)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn plimsoll(folder: &Path, arguments: &str, input: &str) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses its arguments does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

fn value(run: &Run) -> Value {
    assert_eq!(run.code, 0, "{run:?}");
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn mutate_shows_a_pod_as_the_cluster_would_have_it() {
    let folder = folder();
    let pod = value(&plimsoll(folder.path(), "mutate -f pod.yaml --objects cluster.yaml -o json", ""));
    let container = &pod["spec"]["containers"][0]["resources"];
    assert_eq!(container["requests"], json!({"cpu": "1", "memory": "717Mi"}));
    assert_eq!(container["limits"], json!({"cpu": "2", "memory": "1Gi"}), "the LimitRange's default");
    assert_eq!(container["claims"], json!([{"name": "gpu"}]));
    assert_eq!(pod["spec"]["futureField"], json!({"a": 1}));
    assert!(
        pod["metadata"]["annotations"]["plimsoll.dev/applied"].as_str().unwrap().contains("a cpu 2 -> 1")
    );

    let yaml = plimsoll(folder.path(), "mutate -f pod.yaml --objects cluster.yaml", "");
    std::fs::write(folder.path().join("again.yaml"), &yaml.out).unwrap();
    let again = value(&plimsoll(folder.path(), "mutate -f again.yaml --objects cluster.yaml -o patch", ""));
    assert_eq!(again, json!([]), "our own result needs nothing");
}

#[test]
fn mutate_uses_recommendations_of_the_workload_at_the_time_given() {
    let folder = folder();
    let cpu = |at: &str| {
        let run = plimsoll(
            folder.path(),
            &format!("mutate -f deployment.yaml --objects cluster.yaml -o json --at {at}"),
            "",
        );
        let deployment = value(&run);
        assert_eq!(deployment["metadata"].get("annotations"), None, "only the template's pod is changed");
        deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"].clone()
    };
    assert_eq!(cpu("2026-03-05T01:00:00Z"), "920m", "dynamic");
    assert_eq!(cpu("2026-03-14T00:00:00Z"), "1", "too old: static");
}

#[test]
fn mutate_explains() {
    let folder = folder();
    let run = plimsoll(
        folder.path(),
        "mutate -f deployment.yaml -f pod.yaml --objects cluster.yaml --at 2026-03-05T01:00:00Z -o explain",
        "",
    );
    assert_eq!(run.code, 0, "{run:?}");
    for part in [
        "Deployment shop/web: applied (profile shared-pool)",
        "800m recommended by web, 920m after expansion",
        "Pod shop/p: applied",
        "static: x 0.5",
    ] {
        assert!(run.out.contains(part), "{part:?} in {}", run.out);
    }
    let skipped = plimsoll(
        folder.path(),
        "mutate -f - -n elsewhere --objects cluster.yaml -o explain",
        &POD.replace(", namespace: shop", ""),
    );
    for part in [
        "Pod elsewhere/p: left untouched: no OvercommitProfile matches",
        "profile shared-pool: pools are shared, the pod has none",
        "namespace elsewhere is not among the objects: taken as without labels",
    ] {
        assert!(skipped.out.contains(part), "{part:?} in {skipped:?}");
    }
    let service = plimsoll(
        folder.path(),
        "mutate -f - -o explain",
        "{apiVersion: v1, kind: Service, metadata: {name: s}}",
    );
    assert!(service.out.contains("Service default/s: has no pod"), "{service:?}");
    for (rule, manifest, expected) in [
        (
            "no containers",
            "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {template: {}}}",
            "Deployment default/d: spec.template.spec has no containers; nothing is changed\n",
        ),
        (
            "a kind without namespace",
            "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}",
            "Namespace shop: has no pod; nothing is changed\n",
        ),
    ] {
        let run = plimsoll(folder.path(), "mutate -f - -o explain", manifest);
        assert_eq!((run.code, run.out.as_str()), (0, expected), "{rule}: {run:?}");
    }
}

#[test]
fn an_opt_out_that_no_pod_inherits_is_noted() {
    let folder = folder();
    let annotation = "annotations: {plimsoll.dev/overcommit: disabled}";
    let outside = DEPLOYMENT.replace("namespace: shop}", &format!("namespace: shop, {annotation}}}"));
    let inside =
        DEPLOYMENT.replace("{labels: {app: web}}", &format!("{{labels: {{app: web}}, {annotation}}}"));
    let both = outside.replace("{labels: {app: web}}", &format!("{{labels: {{app: web}}, {annotation}}}"));
    let note = "Deployment shop/web: the annotation plimsoll.dev/overcommit stands in metadata.annotations, where it has no \
                effect; write it in spec.template.metadata.annotations, which the pods get";
    for (rule, manifest, applied, noted) in [
        ("outside", outside, true, true),
        ("inside", inside, false, false),
        ("both", both, false, false),
        ("nowhere", DEPLOYMENT.to_owned(), true, false),
    ] {
        let run = plimsoll(folder.path(), "mutate -f - --objects cluster.yaml -o explain", &manifest);
        assert_eq!(run.out.contains("applied (profile"), applied, "{rule}: {run:?}");
        assert_eq!(run.err.contains(note), noted, "{rule}: {run:?}");
    }
}

#[test]
fn what_was_meant_to_be_ours_is_pointed_out() {
    let folder = folder();
    let slip = "
apiVersion: plimsol.dev/v1alpha1
kind: OvercommitProfile
metadata: {name: slip}
spec: {mode: Static}
";
    let meant = "OvercommitProfile of plimsol.dev/v1alpha1 is not read; OvercommitProfile of plimsoll.dev/v1alpha1 may be meant";
    std::fs::write(folder.path().join("slip.yaml"), slip).unwrap();
    let run = plimsoll(folder.path(), "validate -f slip.yaml", "");
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(run.out, format!("slip.yaml[0]: OvercommitProfile slip: kind: {meant} [kind]\n"));
    let run = plimsoll(folder.path(), "mutate -f pod.yaml --objects cluster.yaml slip.yaml", "");
    assert_eq!((run.code, run.err), (0, format!("note: slip.yaml[0]: {meant}\n")));
}

#[test]
fn what_is_not_checked_is_counted() {
    let folder = folder();
    let service = "\n---\n{apiVersion: v1, kind: Service, metadata: {name: s}}\n---\n";
    let others = format!("{POD}{service}{POD}");
    let run = plimsoll(folder.path(), "validate -f cluster.yaml -", &others);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.err, "note: not checked: 1 Namespace, 2 Pod, 1 Service\n");
    assert_eq!(run.out, "3 objects checked, nothing to object to\n");

    let run = plimsoll(folder.path(), "validate -f -", &others);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run:?}");
    assert!(run.err.contains("note: not checked: 2 Pod, 1 Service\nerror: no object was checked"), "{run:?}");
}

#[test]
fn an_object_as_a_whole_has_no_path() {
    let folder = folder();
    for (rule, manifest, expected) in [
        (
            "no kind",
            "{apiVersion: v1, metadata: {name: x}}",
            "standard input[0]: object without kind: this is no Kubernetes object: kind is missing [object]\n",
        ),
        (
            "no name",
            "{apiVersion: v1, kind: LimitRange}",
            "standard input[0]: LimitRange: this is no Kubernetes object: metadata.name is missing [object]\n",
        ),
    ] {
        let run = plimsoll(folder.path(), "validate -f -", manifest);
        assert_eq!((run.code, run.out.as_str()), (1, expected), "{rule}: {run:?}");
    }
}

#[test]
fn a_broken_profile_is_noted_and_disturbs_nothing() {
    let folder = folder();
    let broken = "
apiVersion: plimsoll.dev/v1alpha1
kind: OvercommitProfile
metadata: {name: broken}
spec: {priority: 900, mode: Static, static: {factors: {cpu: '7'}}}
";
    std::fs::write(folder.path().join("broken.yaml"), broken).unwrap();
    let run = plimsoll(
        folder.path(),
        "mutate -f pod.yaml --objects cluster.yaml --objects broken.yaml -o json",
        "",
    );
    assert_eq!(value(&run)["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1");
    assert!(run.err.contains("spec.static.factors.cpu"), "{run:?}");
}

#[test]
fn profiles_of_the_configuration_hold_without_a_cluster() {
    let folder = folder();
    let config = "profiles: [{name: from-file, spec: {mode: Static, static: {factors: {cpu: '0.25'}}}}]";
    std::fs::write(folder.path().join("config.yaml"), config).unwrap();
    let pod = value(&plimsoll(folder.path(), "--config config.yaml mutate -f pod.yaml -o json", ""));
    assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "500m");

    let bad = config.replace("0.25", "25");
    std::fs::write(folder.path().join("config.yaml"), bad).unwrap();
    let run = plimsoll(folder.path(), "--config config.yaml config check", "");
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.out.contains("profiles[0].spec.static.factors.cpu"), "{run:?}");
}

fn review(object: &Value) -> String {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE", "namespace": "shop",
        "object": object}})
    .to_string()
}

#[test]
fn review_answers_as_the_server_does() {
    let folder = folder();
    let object = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a",
        "resources": {"limits": {"cpu": "2"}}}]}});
    let run = plimsoll(
        folder.path(),
        "review -f - --stage mutate --objects cluster.yaml --at 2026-03-05T01:00:00Z",
        &review(&object),
    );
    let answer = value(&run);
    assert_eq!(answer["response"]["uid"], "u-1");
    let patch = base64::engine::general_purpose::STANDARD
        .decode(answer["response"]["patch"].as_str().unwrap())
        .unwrap();
    let mut patched = object;
    json_patch::patch(&mut patched, &serde_json::from_slice::<json_patch::Patch>(&patch).unwrap())
        .expect("the patch applies to the object as it was sent");
    assert_eq!(patched["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1", "S9");
}

#[test]
fn review_denies_and_refuses() {
    let folder = folder();
    let profile = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u",
        "kind": {"group": "plimsoll.dev", "version": "v1alpha1", "kind": "OvercommitProfile"}, "operation": "CREATE",
        "object": {"metadata": {"name": "x"}, "spec": {"mode": "Stat"}}}});
    let run = plimsoll(folder.path(), "review -f - --stage validate", &profile.to_string());
    assert_eq!(run.code, 1, "{run:?}");
    let answer: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(answer["response"]["status"]["code"], 403);

    for (rule, body) in [
        ("not JSON", "{"),
        ("no review", "{}"),
        ("no request", r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}"#),
    ] {
        let run = plimsoll(folder.path(), "review -f - --stage mutate", body);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{rule}: {run:?}");
        assert!(run.err.starts_with("error: "), "{rule}: {run:?}");
    }
}

#[test]
fn validate_names_every_violation_with_its_path_and_rule() {
    let folder = folder();
    let good = plimsoll(folder.path(), "validate -f cluster.yaml", "");
    assert_eq!(good.code, 0, "{good:?}");
    let bad = "
apiVersion: plimsoll.dev/v1alpha1
kind: OvercommitProfile
metadata: {name: shared-pool}
spec: {mode: Sometimes, static: {factors: {cpu: 0.5, gpu: '1'}}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: l, namespace: shop}
spec: {limits: [{type: Container, min: {cpu: 1K}}]}
---
server: {drainDelay: soon}
";
    std::fs::write(folder.path().join("bad.yaml"), bad).unwrap();
    let run = plimsoll(folder.path(), "validate -f cluster.yaml bad.yaml -o json", "");
    assert_eq!(run.code, 1, "{run:?}");
    let answer: Value = serde_json::from_str(&run.out).unwrap();
    let found: Vec<(&str, &str)> = answer["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| (v["path"].as_str().unwrap(), v["rule"].as_str().unwrap()))
        .collect();
    assert_eq!(
        found,
        [
            ("spec.mode", "enum"),
            ("spec.static.factors.cpu", "type"),
            ("spec.static.factors.gpu", "resource"),
            ("metadata.name", "duplicate"),
            ("spec.limits[0].min.cpu", "object"),
            ("server.drainDelay", "configuration"),
        ]
    );
    for (arguments, part) in [
        ("validate -f missing.yaml", "missing.yaml"),
        ("validate -f -", "nothing to check"),
        ("validate", "--filename"),
        ("mutate -f pod.yaml --at yesterday", "--at"),
        ("mutate -f pod.yaml -o table", "table"),
        ("review -f pod.yaml", "--stage"),
    ] {
        let run = plimsoll(folder.path(), arguments, "");
        assert_eq!(run.code, 2, "{arguments}: {run:?}");
        assert!(run.err.contains(part), "{arguments}: {run:?}");
    }
}

#[test]
fn an_object_that_is_there_twice_is_noted_with_both_places() {
    let folder = folder();
    let second = CLUSTER.replace("cpu: '0.5'", "cpu: '0.25'").replace("1Gi", "2Gi");
    std::fs::write(folder.path().join("second.yaml"), second).unwrap();
    let run = plimsoll(folder.path(), "mutate -f pod.yaml --objects cluster.yaml second.yaml -o json", "");
    let resources = value(&run)["spec"]["containers"][0]["resources"].clone();
    assert_eq!(resources["requests"]["cpu"], "500m", "the last one is used");
    assert_eq!(resources["limits"]["memory"], "2Gi", "the last one is used");
    for (index, object) in
        ["Profile shared-pool", "Namespace shop", "LimitRange shop/bounds", "Recommendation shop/web"]
            .iter()
            .enumerate()
    {
        let note =
            format!("second.yaml[{index}]: {object} is in cluster.yaml[{index}] too; this one is used");
        assert!(run.err.contains(&note), "{note:?} in {}", run.err);
    }
}

#[test]
fn standard_input_is_named_once_only() {
    let folder = folder();
    for arguments in [
        "mutate -f - --objects -",
        "mutate -f - -",
        "mutate -f pod.yaml --objects - cluster.yaml -",
        "review -f - --stage mutate --objects -",
        "validate -f - --objects -",
    ] {
        let run = plimsoll(folder.path(), arguments, POD);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{arguments}: {run:?}");
        assert!(run.err.contains("standard input is named 2 times ("), "{arguments}: {run:?}");
    }
}

/// `-f <(kubectl get ...)` is a pipe under a name; only what is found in a folder must be a regular file.
#[test]
fn a_pipe_that_was_named_is_read_and_one_that_was_found_is_not() {
    let folder = folder();
    let named = plimsoll(folder.path(), "mutate -f /dev/stdin --objects cluster.yaml -o json", POD);
    assert_eq!(value(&named)["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1");

    let pipe = folder.path().join("pipe.yaml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let found = plimsoll(folder.path(), "mutate -f pod.yaml --objects .", "");
    assert_eq!(found.code, 2, "{found:?}");
    assert!(found.err.contains("pipe.yaml: cannot be read: is a pipe"), "{found:?}");
}
