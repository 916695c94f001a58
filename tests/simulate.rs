//! `simulate`, as a user runs it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const HEADER: &str = "series,timestamp,cpu_cores,memory_bytes,cpu_request_cores,memory_request_bytes\n";

/// One container of 2 cores and 1 GiB; a sample each 12 hours for three days.
const ROWS: &str = "\
shop/web/app,2024-03-01T00:00:00Z,0.1,104857600,2,1073741824
shop/web/app,2024-03-01T12:00:00Z,0.5,209715200,2,1073741824
shop/web/app,2024-03-02T00:00:00Z,0.25,314572800,2,1073741824
shop/web/app,2024-03-02T12:00:00Z,1.0,262144000,2,1073741824
shop/web/app,2024-03-03T00:00:00Z,0.4,524288000,2,1073741824
shop/web/app,2024-03-03T12:00:00Z,0.8,104857600,2,1073741824
";

fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .arg("simulate")
        .args(arguments)
        .env_remove("PLIMSOLL_CONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may refuse its arguments before it reads.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn answer(rows: &str, flags: &[&str]) -> Value {
    let output = run(&[&["--usage", "-", "-o", "json"], flags].concat(), &format!("{HEADER}{rows}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/usage").join(name)
}

/// Floats in so many digits that they are the same on every machine.
fn blunt(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            *value = json!(format!("{:.8e}", number.as_f64().unwrap()));
        }
        Value::Array(items) => items.iter_mut().for_each(blunt),
        Value::Object(members) => members.values_mut().for_each(blunt),
        _ => {}
    }
}

#[test]
fn the_answer() {
    let mut found = answer(ROWS, &["--policy", "max-ever", "--policy", "static:cpu=0.25"]);
    blunt(&mut found);
    insta::assert_yaml_snapshot!(found);
}

#[test]
fn all_named_policies_are_compared() {
    let found = answer(ROWS, &[]);
    let policies = found["policies"].as_array().unwrap();
    let names: Vec<_> = policies.iter().map(|policy| policy["policy"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["original", "static:cpu=0.5,memory=1", "seed", "tuned", "vpa", "krr", "max-ever", "oracle"]
    );
    let yaml = run(&["--usage", "-", "-o", "yaml"], &format!("{HEADER}{ROWS}"));
    let yaml: Value = serde_saphyr::from_slice(&yaml.stdout).unwrap();
    assert_eq!(yaml["policies"][6]["memory"]["deploymentsAbove"], 2);
}

#[test]
fn flags_change_what_is_replayed() {
    let deployments = |flags: &[&str]| {
        let found = answer(ROWS, &[&["--policy", "seed"], flags].concat());
        found["policies"][0]["cpu"]["deployments"].as_u64().unwrap()
    };
    assert_eq!(deployments(&[]), 3);
    assert_eq!(deployments(&["--redeploy", "12h"]), 6);
    assert_eq!(deployments(&["--warm-up", "2d"]), 1);

    let found = answer(ROWS, &["--policy", "original", "--node", "cpu=1900m,memory=1Gi"]);
    assert_eq!(found["node"], json!({"cpu": "1900m", "memory": "1Gi"}));
    assert_eq!(found["policies"][0]["nodes"]["unschedulable"], 3);

    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("profile.yaml");
    let text = "
apiVersion: plimsoll.dev/v1alpha1
kind: OvercommitProfile
metadata: {name: p}
spec:
  static: {minimum: {cpu: 1500m}}
  dynamic: {minimumHistory: 0s, resources: [cpu]}
";
    std::fs::write(&profile, text).unwrap();
    let policy = format!("profile:{}", profile.display());
    let found = answer(ROWS, &["--policy", &policy]);
    let requested: Vec<_> = found["policies"][0]["periods"].as_array().unwrap().clone();
    let requested: Vec<_> = requested.iter().map(|period| period["cpu"]["requested"].clone()).collect();
    assert_eq!(json!(requested), json!([2.0, 1.5, 1.5]));
    assert_eq!(found["policies"][0]["memory"]["ofOriginal"], 1.0);
}

#[test]
fn unknown_requests_are_left_out_or_assumed() {
    let rows = format!("{ROWS}other,2024-03-01T00:00:00Z,0.5,1,,\nother,2024-03-01T12:00:00Z,0.5,,,\n");
    let arguments = ["--usage", "-", "--policy", "original", "-o", "json"];
    let output = run(&arguments, &format!("{HEADER}{rows}"));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["containers"], &found["leftOut"]), (&json!(2), &json!({"cpu": 1, "memory": 1})));
    assert_eq!(found["policies"][0]["cpu"]["original"], 144.0);
    let notes = String::from_utf8(output.stderr).unwrap();
    let expected = "note: CPU of 1 of 2 containers is left out: the file has no request of it \
                    (--assume-request gives one)\n";
    assert_eq!(notes, format!("{expected}{}", expected.replace("CPU", "memory")));

    let assume = ["--usage", "-", "--policy", "original", "--assume-request", "cpu=1", "-o", "json"];
    let output = run(&assume, &format!("{HEADER}{rows}"));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["leftOut"], json!({"cpu": 0, "memory": 1}));
    assert_eq!(found["policies"][0]["cpu"]["original"], 144.0 + 24.0);
}

/// Each kind of nonsense is counted, told with its file and line, and changes nothing of the answer.
#[test]
fn what_is_passed_over_is_told() {
    let clean = answer(ROWS, &["--policy", "max-ever"]);
    assert_eq!(
        clean["passedOver"],
        json!({"negative": 0, "notANumber": 0, "infinite": 0, "tooLarge": 0, "empty": 0})
    );
    let folder = tempfile::tempdir().unwrap();
    for (rule, rows, counted, note) in [
        (
            "negative",
            "-1,,,",
            ("negative", 1),
            "line 8: cpu_cores: -1.0 is negative; the value is passed over",
        ),
        (
            "NaN",
            ",NaN,,",
            ("notANumber", 1),
            "line 8: memory_bytes: NaN is not a number; the value is passed over",
        ),
        (
            "infinite, in either direction",
            "inf,-inf,,",
            ("infinite", 2),
            "line 8: cpu_cores: inf is infinite; 2 such values are passed over, of which this is the first",
        ),
        (
            "too large",
            "1e300,,,",
            ("tooLarge", 1),
            "line 8: cpu_cores: 1e300 is more than anything can have; the value is passed over",
        ),
        (
            "a request",
            "0.1,1,-2,",
            ("negative", 1),
            "line 8: cpu_request_cores: -2.0 is negative; the value is passed over",
        ),
        (
            "nothing in the row",
            ",,2,",
            ("empty", 1),
            "line 8: has neither cpu_cores nor memory_bytes; the row is passed over",
        ),
    ] {
        let file = folder.path().join("usage.csv");
        // At a time that is there already: what is passed over is not, but its row would be.
        std::fs::write(&file, format!("{HEADER}{ROWS}shop/web/app,2024-03-03T12:00:00Z,{rows}\n")).unwrap();
        let path = file.to_str().unwrap();
        let output = run(&["--usage", path, "--policy", "max-ever", "-o", "json"], "");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("note: {path}: {note}\n"), "{rule}");
        let mut found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let (why, count) = counted;
        for (name, value) in found["passedOver"].as_object().unwrap() {
            assert_eq!(*value, if name == why { json!(count) } else { json!(0) }, "{rule}: {name}");
        }
        found["passedOver"] = clean["passedOver"].clone();
        assert_eq!(found, clean, "{rule}");
    }
}

#[test]
fn mistakes_are_named() {
    let all = "original, static, seed, tuned, half-life, vpa, krr, max-ever, oracle, profile:FILE";
    let unrequested = "s,2024-03-01T10:00:00Z,0.5,1,,\n";
    let table: [(&str, &str, &[&str], &str); 15] = [
        ("a policy", ROWS, &["--policy", "tunned"], &format!("there are {all}; tuned may be meant")),
        ("nothing near", ROWS, &["--policy", "magic"], &format!("\"magic\" is no policy; there are {all}\n")),
        (
            "an option",
            ROWS,
            &["--policy", "half-life:cpu-percentil=9"],
            "\"cpu-percentil\" is no option; there are preset, cpu-percentile",
        ),
        ("near an option", ROWS, &["--policy", "half-life:cpu-percentil=9"], "; cpu-percentile may be meant"),
        ("no option", ROWS, &["--policy", "vpa:margin=2"], "--policy: vpa takes no options"),
        ("a policy twice", ROWS, &["--policy", "vpa", "--policy", "vpa"], "--policy: vpa is there twice"),
        ("no profile", ROWS, &["--policy", "profile:/dev/null"], "/dev/null: holds no OvercommitProfile"),
        ("a node of one resource", ROWS, &["--node", "cpu=16"], "--node: name both, each above 0, as in"),
        ("a node of nothing", ROWS, &["--node", "cpu=0,memory=1Gi"], "--node: name both, each above 0"),
        ("no duration", ROWS, &["--redeploy", "24"], "\"24\" is not a duration"),
        ("too often", ROWS, &["--redeploy", "5s"], "--redeploy: 5 s is too short; 1m or more is right"),
        ("no request", unrequested, &[], "standard input: no row says what was requested"),
        ("the warm-up is all", ROWS, &["--warm-up", "9d"], "standard input: no container has rows after"),
        ("no rows", "", &[], "standard input: there are no rows"),
        ("a bad row", "s,yesterday,1,1,1,1\n", &[], "standard input: line 2: timestamp: \"yesterday\""),
    ];
    for (rule, rows, flags, message) in table {
        let output = run(&[&["--usage", "-"], flags].concat(), &format!("{HEADER}{rows}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{rule}: {errors}");
        assert!(errors.contains(message), "{rule}: {errors}");
        assert!(output.stdout.is_empty(), "{rule}");
    }
    let plot = ["--usage", "-", "--plot", "/nowhere/plot.svg"];
    let output = run(&plot, &format!("{HEADER}{ROWS}"));
    assert_eq!(output.status.code(), Some(3));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("error: /nowhere/plot.svg: cannot be written: "), "{errors}");
}

#[test]
fn a_plot_has_every_policy_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plot.svg");
    for (rows, resources) in [
        (ROWS.to_owned(), 2),
        (ROWS.replace(",1073741824\n", ",\n"), 1),
        (ROWS.lines().next().unwrap().to_owned(), 2),
    ] {
        let arguments = ["--usage", "-", "--plot", file.to_str().unwrap()];
        let output = run(&arguments, &format!("{HEADER}{rows}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let plot = std::fs::read_to_string(&file).unwrap();
        assert!(plot.starts_with("<svg ") && plot.ends_with("</svg>\n"), "{plot}");
        for name in ["original", "static:cpu=0.5,memory=1", "tuned", "oracle"] {
            // A point and a line of each.
            assert_eq!(plot.matches(&format!("\n{name}\n")).count(), 2 * resources, "{name}");
        }
        assert!(!plot.contains("NaN") && !plot.contains("inf"), "every place is a number");
    }
}

#[test]
fn real_usage() {
    for (file, node) in [("kruize.csv.zst", "cpu=8,memory=8Gi"), ("azure.csv.gz", "cpu=2,memory=8Gi")] {
        let path = fixture(file);
        let arguments = ["--usage", path.to_str().unwrap(), "--warm-up", "2d", "--node", node];
        let output = run(&arguments, "");
        let notes = String::from_utf8(output.stderr).unwrap();
        insta::assert_snapshot!(format!("{file}-table"), notes + &String::from_utf8(output.stdout).unwrap());
    }
}
