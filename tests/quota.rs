//! `plimsoll quota`, as a user runs it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// The tree of the vectors.
const TREE: &str = "
apiVersion: scheduling.sigs.k8s.io/v1beta1
kind: ElasticQuotaTree
metadata: {name: tree, namespace: kube-system}
spec:
  root:
    name: root
    max: {cpu: 40, memory: 40Gi, nvidia.com/gpu: 4}
    min: {cpu: 40, memory: 40Gi, nvidia.com/gpu: 4}
    children:
      - name: a
        max: {cpu: 40, memory: 40Gi, nvidia.com/gpu: 4}
        min: {cpu: 20, memory: 20Gi, nvidia.com/gpu: 2}
        children:
          - name: a1
            namespaces: [namespace1]
            max: {cpu: 20, memory: 20Gi, nvidia.com/gpu: 2}
            min: {cpu: 10, memory: 10Gi, nvidia.com/gpu: 1}
          - name: a2
            namespaces: [namespace2]
            max: {cpu: 20, memory: 40Gi, nvidia.com/gpu: 2}
            min: {cpu: 10, memory: 10Gi, nvidia.com/gpu: 1}
      - name: b
        max: {cpu: 40, memory: 40Gi, nvidia.com/gpu: 4}
        min: {cpu: 20, memory: 20Gi, nvidia.com/gpu: 2}
        children:
          - name: b1
            namespaces: [namespace3]
            max: {cpu: 20, memory: 20Gi, nvidia.com/gpu: 2}
            min: {cpu: 10, memory: 10Gi, nvidia.com/gpu: 1}
          - name: b2
            namespaces: [namespace4]
            max: {cpu: 20, memory: 20Gi, nvidia.com/gpu: 2}
            min: {cpu: 10, memory: 10Gi, nvidia.com/gpu: 1}
";

/// A pod of 5 CPUs, created at this minute.
fn pod(namespace: &str, name: &str, minute: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name, "of": namespace},
            "creationTimestamp": format!("2026-03-01T00:{minute:02}:00Z")},
        "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "5"}}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// Four pods in namespace1 and four in namespace2: the tree is full.
fn full() -> Vec<Value> {
    (1..=2)
        .flat_map(|group| (1..=4).map(move |n| (group, n)))
        .map(|(group, n)| pod(&format!("namespace{group}"), &format!("{group}-{n}"), group * 10 + n))
        .collect()
}

struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Run {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }
}

/// A folder with the tree, these objects, and these pods to judge.
fn folder(objects: &[Value], judged: &[Value]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let list = |items: &[Value]| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    std::fs::write(folder.path().join("tree.yaml"), TREE).unwrap();
    std::fs::write(folder.path().join("pods.json"), list(objects)).unwrap();
    std::fs::write(folder.path().join("pod.json"), list(judged)).unwrap();
    folder
}

fn plimsoll(folder: &Path, arguments: &str) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .env_clear()
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

fn explain(objects: &[Value], judged: &[Value]) -> Run {
    let folder = folder(objects, judged);
    plimsoll(folder.path(), "quota explain -f pod.json --objects tree.yaml pods.json -o json")
}

#[test]
fn the_answer_has_its_form() {
    let run = explain(&full(), &[pod("namespace3", "3-1", 59)]);
    assert_eq!(run.code, 1, "{}", run.err);
    let reason = "exceeded quota: root: cpu requested 5, used 40, max 40; \
                  the room is within the leaf's min: reclaim started, retry";
    assert_eq!(
        run.json(),
        json!({"leaf": "root.b.b1", "charge": {"cpu": "5"}, "verdict": "reclaim", "reason": reason,
            "blockedAt": [{"node": "root", "resource": "cpu", "used": "40", "requested": "5", "max": "40"}],
            "victims": [{"namespace": "namespace2", "name": "2-4", "leaf": "root.a.a2"}]})
    );
    let keys = ["leaf", "charge", "verdict", "reason", "blockedAt", "victims"];
    let places: Vec<usize> = keys.iter().map(|key| run.out.find(&format!("\"{key}\":")).unwrap()).collect();
    assert!(places.is_sorted(), "{}", run.out);
}

#[test]
#[allow(clippy::too_many_lines, reason = "one table")]
fn verdicts() {
    let of = |cpu: &str, namespace: &str| {
        let mut pod = pod(namespace, "new", 59);
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpu);
        pod
    };
    let template = |namespace: Option<&str>| {
        let mut pod = pod("x", "x", 1);
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {"template": {"metadata": {}, "spec": pod["spec"].take()}}})
    };
    let terminal = |mut pods: Vec<Value>| {
        pods[0]["status"]["phase"] = json!("Succeeded");
        pods
    };
    for (rule, objects, judged, code, leaf, verdict, blocked, victims) in [
        ("fits", vec![], of("20", "namespace1"), 0, json!("root.a.a1"), "admit", vec![], vec![]),
        (
            "never fits",
            vec![],
            of("20001m", "namespace1"),
            1,
            json!("root.a.a1"),
            "refuse",
            vec!["root.a.a1"],
            vec![],
        ),
        ("bound to no leaf", full(), of("100", "elsewhere"), 0, json!(null), "admit", vec![], vec![]),
        (
            "leaf first, then upwards",
            full(),
            of("5", "namespace2"),
            1,
            json!("root.a.a2"),
            "refuse",
            vec!["root.a.a2", "root.a", "root"],
            vec![],
        ),
        (
            "a template",
            full(),
            template(Some("namespace3")),
            1,
            json!("root.b.b1"),
            "reclaim",
            vec!["root"],
            vec!["2-4"],
        ),
        ("the default namespace", full(), template(None), 0, json!(null), "admit", vec![], vec![]),
        (
            "a pod beside itself",
            full(),
            pod("namespace1", "1-1", 1),
            0,
            json!("root.a.a1"),
            "admit",
            vec![],
            vec![],
        ),
        (
            "pods that have ended",
            terminal(full()),
            of("5", "namespace3"),
            0,
            json!("root.b.b1"),
            "admit",
            vec![],
            vec![],
        ),
        (
            "two victims",
            full(),
            of("10", "namespace3"),
            1,
            json!("root.b.b1"),
            "reclaim",
            vec!["root"],
            vec!["2-4", "1-4"],
        ),
        (
            "above its min",
            full(),
            of("11", "namespace3"),
            1,
            json!("root.b.b1"),
            "refuse",
            vec!["root"],
            vec![],
        ),
    ] {
        let run = explain(&objects, &[judged]);
        assert_eq!(run.code, code, "{rule}: {}{}", run.out, run.err);
        let answer = run.json();
        let names = |list: &str, key: &str| -> Vec<String> {
            let list = answer[list].as_array().unwrap().iter();
            list.map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!((&answer["leaf"], &answer["verdict"]), (&leaf, &json!(verdict)), "{rule}");
        assert_eq!(names("blockedAt", "node"), blocked, "{rule}");
        assert_eq!(names("victims", "name"), victims, "{rule}");
        let reason = answer["reason"].as_str().unwrap();
        assert_eq!(reason.starts_with("exceeded quota: "), verdict != "admit", "{rule}: {reason}");
    }
}

#[test]
fn m13_disruption_budgets() {
    let budget = |selector: Value, spec: Value, status: Value| {
        let mut budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "namespace2"}, "spec": spec, "status": status});
        budget["spec"]["selector"] = selector;
        budget
    };
    let all = || json!({"matchLabels": {"of": "namespace2"}});
    let one = || json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["2-4"]}]});
    let none_allowed = || json!({"disruptionsAllowed": 0});
    for (rule, budgets, victim) in [
        ("over all pods", vec![budget(all(), json!({}), none_allowed())], "1-4"),
        ("the empty selector", vec![budget(json!({}), json!({}), none_allowed())], "1-4"),
        ("no selector", vec![budget(json!(null), json!({}), none_allowed())], "2-4"),
        ("over one pod", vec![budget(one(), json!({}), none_allowed())], "2-3"),
        ("one is allowed", vec![budget(all(), json!({}), json!({"disruptionsAllowed": 1}))], "2-4"),
        ("none by its spec", vec![budget(all(), json!({"maxUnavailable": 0}), json!({}))], "1-4"),
        ("all must stay", vec![budget(all(), json!({"minAvailable": "100%"}), json!({}))], "1-4"),
        ("not known", vec![budget(all(), json!({"minAvailable": 1}), json!({}))], "2-4"),
        (
            "two over one pod",
            vec![
                budget(all(), json!({}), json!({"disruptionsAllowed": 4})),
                budget(one(), json!({}), json!({"disruptionsAllowed": 1})),
            ],
            "2-3",
        ),
    ] {
        let objects = [full(), budgets].concat();
        let run = explain(&objects, &[pod("namespace3", "3-1", 59)]);
        assert_eq!(run.json()["victims"][0]["name"], victim, "{rule}");
    }
}

#[test]
fn settings_say_who_may_be_evicted() {
    let mut objects = full();
    objects[7]["metadata"]["annotations"] = json!({"plimsoll.dev/do-not-evict": "true"});
    let folder = folder(&objects, &[pod("namespace3", "3-1", 59)]);
    for (rule, config, verdict, victims) in [
        ("by default nobody is heeded", "quota: {enabled: true}", "reclaim", json!("2-4")),
        ("in this namespace", "quota: {reclaim: {honourDoNotEvict: [namespace2]}}", "reclaim", json!("2-3")),
        ("in another", "quota: {reclaim: {honourDoNotEvict: [namespace1]}}", "reclaim", json!("2-4")),
        ("everywhere", "quota: {reclaim: {honourDoNotEvict: ['*']}}", "reclaim", json!("2-3")),
        ("reclaim is off", "quota: {reclaim: {enabled: false}}", "refuse", json!(null)),
    ] {
        std::fs::write(folder.path().join("config.yaml"), config).unwrap();
        let run = plimsoll(
            folder.path(),
            "--config config.yaml quota explain -f pod.json --objects tree.yaml pods.json -o json",
        );
        let answer = run.json();
        assert_eq!(
            (&answer["verdict"], &answer["victims"][0]["name"]),
            (&json!(verdict), &victims),
            "{rule}"
        );
    }
}

#[test]
fn what_a_profile_lowers_is_charged_lowered() {
    let profile = json!({"apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile", "metadata": {"name": "p"},
        "spec": {"match": {}, "mode": "Static", "static": {"factors": {"cpu": "0.5"}}}});
    let run = explain(&[profile], &[pod("namespace1", "new", 1)]);
    assert_eq!(run.json()["charge"], json!({"cpu": "2500m"}), "{}", run.err);
}

#[test]
fn several_manifests_are_judged_each_by_itself() {
    let judged = [pod("namespace3", "one", 59), pod("namespace3", "two", 59), pod("elsewhere", "three", 59)];
    let run = explain(&full(), &judged);
    assert_eq!(run.code, 1);
    let answers = run.json();
    let verdicts: Vec<&Value> = answers.as_array().unwrap().iter().map(|answer| &answer["verdict"]).collect();
    assert_eq!(verdicts, ["reclaim", "reclaim", "admit"]);
}

#[test]
fn input_that_cannot_be_judged() {
    let bad = |mut pod: Value| {
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("much");
        pod
    };
    let good = || pod("namespace1", "good", 1);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n"}});
    let place = r#"container "app" resources.requests.cpu: "much" is not a quantity"#;
    for (rule, objects, judged, parts) in [
        ("no quantity", vec![], bad(good()), vec!["pod.json[0].items[0]: Pod namespace1/good: ", place]),
        (
            "in a counted pod",
            vec![bad(good())],
            good(),
            vec!["pods.json[0].items[0]: Pod namespace1/good: ", place],
        ),
        ("no pod", vec![], service, vec!["pod.json[0].items[0]: Service n/s: has no pod"]),
        (
            "no containers",
            vec![],
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}),
            vec!["Deployment default/d: spec.template.spec has no containers"],
        ),
        (
            "a budget's selector",
            vec![json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "b", "namespace": "n"}, "spec": {"selector": {"matchLabels": 5}}})],
            good(),
            vec![
                "pods.json[0].items[0]: PodDisruptionBudget n/b: spec.selector.matchLabels: 5 is not an object",
            ],
        ),
    ] {
        let run = explain(&objects, &[judged]);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{rule}: {}", run.err);
        for part in parts {
            assert!(run.err.contains(part), "{rule}: {}", run.err);
        }
    }
}

#[test]
fn trees_without_effect_are_noted() {
    let folder = folder(&[], &[pod("namespace1", "p", 1)]);
    for (rule, tree, part) in [
        ("no tree", String::new(), "no ElasticQuotaTree of the namespace kube-system"),
        (
            "elsewhere",
            TREE.replace("namespace: kube-system", "namespace: shop"),
            "write metadata.namespace: kube-system",
        ),
        ("wrong", TREE.replace("cpu: 40,", "cpu: 30,"), "nothing is reclaimed until it is mended"),
    ] {
        std::fs::write(folder.path().join("tree.yaml"), tree).unwrap();
        let run = plimsoll(folder.path(), "quota explain -f pod.json --objects tree.yaml pods.json -o json");
        assert_eq!(run.code, 0, "{rule}: {}", run.err);
        assert!(run.err.contains(part), "{rule}: {}", run.err);
    }
    let twice = TREE.replace("[namespace2]", "[namespace2, namespace1]");
    std::fs::write(folder.path().join("tree.yaml"), twice).unwrap();
    let run = plimsoll(folder.path(), "quota explain -f pod.json --objects tree.yaml pods.json -o json");
    assert_eq!((run.code, &run.json()["verdict"]), (1, &json!("refuse")), "{}", run.err);
    let reason = run.json()["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("namespace1") && !reason.contains("exceeded quota"), "{reason}");
}

#[test]
fn flavors_are_needed_too() {
    let folder = folder(&[], &[pod("namespace1", "p", 1)]);
    let tree = TREE.replace("- name: a1\n", "- name: a1\n            attributes: {resourceflavors: spot}\n");
    std::fs::write(folder.path().join("tree.yaml"), tree).unwrap();
    let run = || plimsoll(folder.path(), "quota explain -f pod.json --objects tree.yaml pods.json -o json");
    let answer = run().json();
    assert_eq!(answer["verdict"], "refuse");
    assert!(answer["reason"].as_str().unwrap().contains("spot"), "{answer}");
    let flavor = json!({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor",
        "metadata": {"name": "spot"}, "spec": {"nodeLabels": {"instance-type": "spot"}}});
    std::fs::write(folder.path().join("pods.json"), flavor.to_string()).unwrap();
    let run = run();
    assert_eq!((run.code, &run.json()["verdict"]), (0, &json!("admit")), "{}", run.err);
}

#[test]
fn tables() {
    let folder = folder(&full(), &[pod("namespace3", "3-1", 59)]);
    let run = plimsoll(folder.path(), "quota explain -f pod.json --objects tree.yaml pods.json");
    assert_eq!(
        run.out,
        "Pod namespace3/3-1: reclaim
  leaf:   root.b.b1
  charge: cpu=5
  reason: exceeded quota: root: cpu requested 5, used 40, max 40; the room is within the leaf's min: reclaim started, retry

  BLOCKED AT  RESOURCE  USED  REQUESTED  MAX
  root        cpu       40    5          40

  VICTIM          LEAF
  namespace2/2-4  root.a.a2
"
    );
    let run = plimsoll(folder.path(), "quota tree --objects tree.yaml pods.json");
    assert_eq!(run.code, 0);
    let cpu: Vec<&str> = run.out.lines().filter(|line| line.contains(" cpu ")).collect();
    assert_eq!(
        cpu,
        [
            "root    cpu             40    40    40    -",
            "  a     cpu             40    20    40    20",
            "    a1  cpu             20    10    20    10        namespace1",
            "    a2  cpu             20    10    20    10        namespace2",
            "  b     cpu             0     20    40    -",
            "    b1  cpu             0     10    20    -         namespace3",
            "    b2  cpu             0     10    20    -         namespace4",
        ]
    );
}

#[test]
fn the_tree_in_other_forms() {
    let folder = folder(&full(), &[]);
    let run = plimsoll(folder.path(), "quota tree --objects tree.yaml pods.json -o json");
    let answer = run.json();
    assert_eq!(answer["tree"], "tree");
    let a1 = answer["nodes"].as_array().unwrap().iter().find(|node| node["path"] == "root.a.a1").unwrap();
    assert_eq!(
        a1,
        &json!({"path": "root.a.a1", "namespaces": ["namespace1"], "used": {"cpu": "20", "pods": "4"},
            "min": {"cpu": "10", "memory": "10Gi", "nvidia.com/gpu": "1"},
            "max": {"cpu": "20", "memory": "20Gi", "nvidia.com/gpu": "2"}, "borrowed": {"cpu": "10"}})
    );
    let yaml = plimsoll(folder.path(), "quota tree --objects tree.yaml pods.json -o yaml");
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml.out).unwrap(), answer);
    let svg = plimsoll(folder.path(), "quota tree --objects tree.yaml pods.json -o svg");
    assert!(svg.out.starts_with("<svg") && svg.out.trim_end().ends_with("</svg>"), "{}", svg.out);
    for text in ["20 of 20", "0 of 20Gi", "nvidia.com/gpu", "a1"] {
        assert!(svg.out.contains(text), "{text}");
    }
    std::fs::write(folder.path().join("tree.yaml"), "").unwrap();
    for form in ["table", "json", "yaml", "svg"] {
        let run = plimsoll(folder.path(), &format!("quota tree --objects tree.yaml pods.json -o {form}"));
        assert_eq!(run.code, 0, "{form}: {}", run.err);
    }
}

/// What the server would answer about a pod, from files.
#[test]
fn reviews_of_pods() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tree.yaml"), TREE).unwrap();
    let pods: Vec<Value> = (1..5).map(|i| pod("namespace1", &format!("1-{i}"), i)).collect();
    std::fs::write(
        folder.path().join("pods.json"),
        json!({"apiVersion": "v1", "kind": "List", "items": pods}).to_string(),
    )
    .unwrap();
    let review = |namespace: &str, change: &Value| {
        let mut object = pod(namespace, "new", 30);
        object["metadata"]["uid"] = json!("new-uid");
        let mut request = json!({
            "uid": "r", "operation": "CREATE", "namespace": namespace, "name": "new",
            "kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": {"resource": "pods"},
            "userInfo": {"username": "somebody", "groups": ["system:authenticated"]}, "object": object,
        });
        json_patch::merge(&mut request, change);
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
            .to_string()
    };
    let mirror = json!({
        "object": {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}},
        "userInfo": {"groups": ["system:nodes"]},
    });
    let forged = json!({"object": {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}});
    let resized = |to: &str| {
        let old = json!({"metadata": {"name": "1-1", "namespace": "namespace1", "uid": "u"},
            "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "5"}}}]}});
        let mut new = old.clone();
        new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(to);
        json!({"operation": "UPDATE", "subResource": "resize", "object": new, "oldObject": old})
    };
    for (rule, namespace, change, code, says) in [
        ("within its leaf", "namespace2", json!({}), 0, ""),
        (
            "past its leaf",
            "namespace1",
            json!({}),
            1,
            "exceeded quota: root.a.a1: cpu requested 5, used 20, max 20",
        ),
        ("a dry run is judged too", "namespace1", json!({"dryRun": true}), 1, "exceeded quota"),
        ("bound to nothing", "elsewhere", json!({}), 0, ""),
        ("kube-system", "kube-system", json!({}), 0, ""),
        ("a mirror pod that a node makes", "namespace1", mirror, 0, ""),
        ("the annotation alone is nothing", "namespace1", forged, 1, "exceeded quota"),
        ("other updates are free", "namespace1", json!({"operation": "UPDATE", "oldObject": {}}), 0, ""),
        ("a resize downwards", "namespace1", resized("1"), 0, ""),
        ("a resize upwards", "namespace1", resized("6"), 1, "cpu requested 1, used 20, max 20"),
        ("no UID", "namespace1", json!({"object": {"metadata": {"uid": null}}}), 1, "metadata.uid"),
        ("no object", "namespace1", json!({"object": null}), 1, "no object"),
    ] {
        std::fs::write(folder.path().join("review.json"), review(namespace, &change)).unwrap();
        let run =
            plimsoll(folder.path(), "review -f review.json --stage validate --objects tree.yaml pods.json");
        assert_eq!(run.code, code, "{rule}: {}{}", run.out, run.err);
        assert!(run.out.contains(says), "{rule}: {}", run.out);
        let answer: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(answer["response"]["allowed"], json!(code == 0), "{rule}");
    }
}
