//! `recommend`, as a user runs it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unreadable_literal,
    reason = "a test that fails this way says where; the figures stand as they were given"
)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const HEADER: &str = "series,timestamp,cpu_cores,memory_bytes,cpu_request_cores,memory_request_bytes\n";

fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .arg("recommend")
        .args(arguments)
        .env_remove("PLIMSOLL_CONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may refuse its arguments before it reads.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// The answer about a table that comes on standard input.
fn answer(rows: &str, flags: &[&str]) -> Value {
    let output = run(&[&["--usage", "-"], flags].concat(), format!("{HEADER}{rows}").as_bytes());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The answer about the only series.
fn only(rows: &str, flags: &[&str]) -> Value {
    let answer = answer(rows, flags);
    let series = answer["series"].as_array().unwrap();
    assert_eq!(series.len(), 1, "{answer}");
    series[0].clone()
}

fn close(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap_or_else(|| panic!("{found} is no number"));
    assert!((found - expected).abs() <= 1e-9 * expected, "{found}, not {expected}");
}

const A: &str = "\
shop/web/app,2024-03-01T10:00:00Z,0.1,,,
shop/web/app,2024-03-01T22:00:00Z,0.5,,,
shop/web/app,2024-03-02T10:00:00Z,0.25,,,
shop/web/app,2024-03-03T10:00:00Z,1.0,,,
";

#[test]
fn a_basic_decay() {
    let found = only(A, &["--cpu-sample-weight", "0.1", "--dump-histograms"]);
    close(&found["cpu"]["totalWeight"], 1.123162760455363);
    for (bucket, weight) in [
        ("8", 0.133483985417003),
        ("16", 0.266967970834007),
        ("25", 0.188774862536339),
        ("36", 0.533935941668014),
    ] {
        close(&found["cpu"]["buckets"][bucket], weight);
    }
    close(&found["cpu"]["percentiles"]["50"], 0.511134537589);
    for percentile in ["90", "95", "99"] {
        close(&found["cpu"]["percentiles"][percentile], 1.01628138855);
    }
    close(&found["cpu"]["target"], 1.01628138855);
    let mut rest = found.clone();
    rest["cpu"] = json!(rest["cpu"]["reference"]);
    assert_eq!(
        rest,
        json!({
            "series": "shop/web/app",
            "samples": 4,
            "firstSample": "2024-03-01T10:00:00Z",
            "lastSample": "2024-03-03T10:00:00Z",
            "cpu": "2024-03-01T00:00:00Z",
            "dropped": {"future": 0, "invalid": 0, "duplicate": 0, "old": 0},
            "request": {"cpu": "1169m"},
        })
    );
}

#[test]
fn the_order_of_rows_does_not_matter() {
    let lines: Vec<_> = A.lines().collect();
    let other = A.replace("shop/web/app", "other").replace("1.0", "2.0");
    let others: Vec<_> = other.lines().collect();
    let mixed: String = [lines[2], others[0], lines[0], others[1], lines[3], others[2], lines[1], others[3]]
        .iter()
        .fold(String::new(), |rows, row| rows + row + "\n");
    let flags = ["--dump-histograms"];
    let expected = json!({"series": [only(&other, &flags), only(A, &flags)]});
    assert_eq!(answer(&mixed, &flags), expected);
}

#[test]
fn a_time_in_the_past_ends_the_table() {
    let found = only(A, &["--cpu-sample-weight", "0.1", "--at", "2024-03-01T22:00:00Z"]);
    assert_eq!(found["samples"], 2);
    assert_eq!(found["dropped"], json!({"future": 0, "invalid": 0, "duplicate": 0, "old": 0}));
    close(&found["cpu"]["totalWeight"], 0.322258847953342);
    let nothing = answer(A, &["--at", "2024-03-01T09:00:00Z"]);
    assert_eq!(nothing, json!({"series": []}));
}

#[test]
fn i_a_sample_from_the_future() {
    let mut rows = String::new();
    for minute in 0..100 {
        writeln!(rows, "s,2024-03-01T{:02}:{:02}:00Z,0.5,,,", minute / 60, minute % 60).unwrap();
    }
    rows.push_str("s,2090-03-21T00:00:00Z,8,,16,\n");
    let found = only(&rows, &[]);
    assert_eq!(found["dropped"]["future"], 1);
    assert_eq!((&found["samples"], &found["lastSample"]), (&json!(100), &json!("2024-03-01T01:39:00Z")));
    close(&found["cpu"]["percentiles"]["50"], 0.511134537589);
    assert_eq!(found["request"]["cpu"], "588m");
}

#[test]
fn peaks_count_once_a_day() {
    let mib = |n: u64| n << 20;
    let mut rows = String::new();
    for (time, memory) in [
        ("01T10:00", mib(100)),
        ("01T15:00", mib(250)),
        ("01T20:00", mib(120)),
        ("02T09:59", mib(200)),
        ("02T10:00", mib(90)),
    ] {
        writeln!(rows, "s,2024-03-{time}:00Z,,{memory},,").unwrap();
    }
    let found = only(&rows, &["--memory-samples", "peak", "--dump-histograms"]);
    assert_eq!(found["memory"]["reference"], "2024-03-02T00:00:00Z");
    close(&found["memory"]["buckets"]["17"], 1.33483985417003);
    close(&found["memory"]["buckets"]["7"], 2.66967970834007);
    close(&found["memory"]["percentiles"]["50"], 95491088.7578);
    close(&found["memory"]["target"], 281323846.738);
    assert_eq!(found.get("cpu"), None);
}

#[test]
fn rows_that_are_not_taken_are_counted() {
    let day = |row: &str| format!("s,2024-03-01T{row}\n");
    let rows = [
        ("10:00:00Z,0.5,,,", "taken"),
        ("10:00:00Z,5,,,", "duplicate"),
        ("10:00:00Z,,100000000,,", "taken: the first for memory"),
        ("10:01:00Z,NaN,,,", "invalid"),
        ("10:02:00Z,-1,inf,,", "invalid once"),
        ("10:03:00Z,0.5,-inf,,", "taken, and invalid"),
        ("10:04:00Z,,,4,", "nothing measured"),
    ];
    let found = only(&rows.map(|(row, _)| day(row)).concat(), &[]);
    assert_eq!(found["dropped"], json!({"future": 0, "invalid": 3, "duplicate": 1, "old": 0}));
    assert_eq!(found["samples"], 3);
    let earliest = "old,1900-01-01T00:00:00Z,0.5,,,\nold,2024-03-01T10:00:00Z,0.5,,,\n";
    let found = only(earliest, &[]);
    assert_eq!((&found["samples"], &found["dropped"]["old"]), (&json!(2), &json!(0)));
}

/// One value of 1e30 bytes made a recommendation of a terabyte.
#[test]
fn what_nothing_can_have_is_passed_over_and_told() {
    let usual = "a,2024-03-01T10:00:00Z,0.5,1e8,,\n";
    let expected = only(usual, &[]);
    for (rule, row, told) in [
        (
            "more than anything has",
            "a,2024-03-01T11:00:00Z,,1e30,,",
            "memory_bytes: 1e30 is more than anything can have",
        ),
        ("negative", "a,2024-03-01T11:00:00Z,-1,,,", "cpu_cores: -1.0 is negative"),
        ("not a number", "a,2024-03-01T11:00:00Z,NaN,,,", "cpu_cores: NaN is not a number"),
        ("infinite", "a,2024-03-01T11:00:00Z,inf,,,", "cpu_cores: inf is infinite"),
    ] {
        let output = run(&["--usage", "-"], format!("{HEADER}{usual}{row}\n").as_bytes());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            errors.contains(&format!("standard input: line 3: {told}; the value is passed over")),
            "{rule}: {errors}"
        );
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let series = &answer["series"][0];
        assert_eq!(series["request"], expected["request"], "{rule}");
        assert_eq!((&series["samples"], &series["dropped"]["invalid"]), (&json!(1), &json!(1)), "{rule}");
    }
}

#[test]
fn requests_are_capped_at_the_last_known() {
    let found = |requests: [&str; 3], flags: &[&str]| {
        let mut rows = String::new();
        for (minute, request) in requests.iter().enumerate() {
            writeln!(rows, "s,2024-03-01T10:{minute:02}:00Z,1,67108864,{request}").unwrap();
        }
        only(&rows, flags)["request"].clone()
    };
    for (rule, requests, flags, expected) in [
        ("none known", [",", ",", ","], &[][..], json!({"cpu": "1169m", "memory": "75Mi"})),
        ("the last", ["8,", "0.5,1e8", "1,"], &[], json!({"cpu": "1", "memory": "75Mi"})),
        (
            "an empty field says nothing",
            ["8,", "0.5,", ",70000000"],
            &[],
            json!({"cpu": "500m", "memory": "70000000"}),
        ),
        ("0 is none", ["0.5,0", "0,", ","], &[], json!({"cpu": "1169m", "memory": "75Mi"})),
        ("nonsense is none", ["NaN,-1", "-5,1e300", ","], &[], json!({"cpu": "1169m", "memory": "75Mi"})),
        ("margin", [",", ",", ","], &["--preset", "tuned"], json!({"cpu": "1219m", "memory": "328Mi"})),
    ] {
        assert_eq!(found(requests, flags), expected, "{rule}");
    }
}

#[test]
fn flags_say_other_than_the_profile() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("profile.yaml");
    let text = "
apiVersion: plimsoll.dev/v1alpha1
kind: OvercommitProfile
metadata: {name: p}
spec:
  static: {minimum: {cpu: 2}, roundingMemory: 100Mi}
  dynamic: {percentile: {cpu: 50}, cpuSampleWeight: '0.1', expansion: {cpu: '2'}, resources: [cpu]}
";
    std::fs::write(&profile, text).unwrap();
    let profile = profile.to_str().unwrap();
    let found = only(A, &["--profile", profile]);
    close(&found["cpu"]["totalWeight"], 1.123162760455363);
    close(&found["cpu"]["target"], 0.511134537589);
    assert_eq!(found["request"]["cpu"], "2", "the profile's minimum");

    let flags = ["--cpu-percentile", "98", "--expansion", "cpu=3", "--half-life", "cpu=6h,memory=7d"];
    let found = only(A, &[&["--profile", profile], &flags[..]].concat());
    close(&found["cpu"]["percentiles"]["98"], 1.01628138855);
    assert_eq!(found["cpu"]["reference"], "2024-03-01T12:00:00Z");
    assert_eq!(found["request"]["cpu"], "3049m");

    let memory = A.replace(",,,\n", ",100000000,,\n");
    let found = only(&memory, &["--profile", profile]);
    assert_eq!(found["request"].get("memory"), None, "the profile leaves memory alone");
    assert!(found["memory"]["target"].as_f64().unwrap() > 1e8);

    // The first sample weighs 0.1, the second 1 by its request: less than a tenth of the two together.
    let rows = "s,2024-03-01T00:00:00Z,0.1,,,\ns,2024-03-01T00:00:01Z,5,,1,\n";
    for (epsilon, target) in [("0.1", 5.056698073299022), ("1e-9", 0.110265643196)] {
        let found = only(rows, &["--epsilon", epsilon, "--cpu-percentile", "0"]);
        close(&found["cpu"]["target"], target);
    }
}

#[test]
fn mistakes_are_named() {
    let table: [(&str, &str, &[&str], &str); 18] = [
        (
            "no number",
            "s,2024-03-01T10:00:00Z,0.5,,,\ns,2024-03-01T10:00:01Z,half,,,",
            &[],
            "standard input: line 3: cpu_cores: \"half\" is not a number",
        ),
        ("a unit", "s,2024-03-01T10:00:00Z,,64Mi,,", &[], "line 2: memory_bytes: \"64Mi\" is not a number"),
        ("a request in milli", "s,2024-03-01T10:00:00Z,,,500m,", &[], "line 2: cpu_request_cores: \"500m\""),
        ("no time", "s,yesterday,0.5,,,", &[], "line 2: timestamp: \"yesterday\" is not a time; RFC 3339"),
        ("a time without offset", "s,2024-03-01T10:00:00,0.5,,,", &[], "line 2: timestamp: "),
        ("an empty time", "s,,0.5,,,", &[], "line 2: timestamp: \"\""),
        ("no series", ",2024-03-01T10:00:00Z,0.5,,,", &[], "line 2: series is empty"),
        (
            "too few fields",
            "s,2024-03-01T10:00:00Z,0.5",
            &[],
            "line 2: has 3 fields where the first line has 6",
        ),
        ("too many fields", "s,2024-03-01T10:00:00Z,0.5,,,,", &[], "line 2: has 7 fields"),
        ("half-life", A, &["--half-life", "24"], "\"24\" is not a duration"),
        ("half-life 0", A, &["--half-life", "0h"], "spec.dynamic.halfLife.cpu: a half-life of 0 s"),
        ("unknown resource", A, &["--half-life", "gpu=1h"], "\"gpu\" is neither cpu nor memory"),
        ("a resource twice", A, &["--expansion", "cpu=1,cpu=2"], "cpu is there twice"),
        ("percentile", A, &["--cpu-percentile", "101"], "101 is not in 0..=100"),
        ("weight", A, &["--cpu-sample-weight", "much"], "or the word request"),
        ("expansion", A, &["--expansion", "0"], "\"0\" is not above 0"),
        ("epsilon", A, &["--epsilon", "2"], "\"2\" is not a number from 0 to 1"),
        ("profile", A, &["--profile", "/dev/null"], "holds no OvercommitProfile"),
    ];
    for (rule, rows, flags, message) in table {
        let output = run(&[&["--usage", "-"], flags].concat(), format!("{HEADER}{rows}").as_bytes());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{rule}: {errors}");
        assert!(errors.contains(message), "{rule}: {errors}");
        assert!(output.stdout.is_empty(), "{rule}");
    }
    for (rule, text, message) in [
        ("empty", "", "standard input: line 1: series is missing; the first line names the columns: series,"),
        ("no header", "s,2024-03-01T10:00:00Z,0.5,,,\n", "line 1: \"s\" is no column"),
        ("an unknown column", "series,timestamp,cpu\n", "line 1: \"cpu\" is no column"),
        ("a column twice", "series,series\n", "line 1: series is there twice"),
        ("no time", "series,cpu_cores\n", "line 1: timestamp is missing"),
        (
            "no usage",
            "series,timestamp,cpu_request_cores\n",
            "line 1: cpu_cores and memory_bytes are both missing",
        ),
        ("not UTF-8", "series,timestamp,cpu_cores\n\u{e9},", "standard input: line 2: "),
        ("packed, but broken", "\u{1f}", "line 1: "),
    ] {
        let mut bytes = text.as_bytes().to_vec();
        if rule == "not UTF-8" {
            bytes.retain(|byte| *byte != 0xa9);
        }
        let output = run(&["--usage", "-"], &bytes);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{rule}: {errors}");
        assert!(errors.contains(message), "{rule}: {errors}");
    }
    let output = run(&["--usage", "missing.csv"], b"");
    assert!(String::from_utf8_lossy(&output.stderr).contains("missing.csv: cannot be read"));
}

#[test]
fn columns_may_be_left_out_and_stand_in_any_order() {
    let table = "\u{feff}cpu_cores , timestamp,series\r\n0.5, 2024-03-01T11:00:00+01:00 ,\"a, b\"\r\n\r\n";
    let output = run(&["--usage", "-"], table.as_bytes());
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["series"][0]["series"], "a, b");
    assert_eq!(found["series"][0]["firstSample"], "2024-03-01T10:00:00Z");
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
fn real_usage() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/usage");
    for file in ["kruize.csv.zst", "azure.csv.gz"] {
        let path = fixtures.join(file);
        for preset in ["seed", "tuned"] {
            let output = run(&["--usage", path.to_str().unwrap(), "--preset", preset], b"");
            let mut found: Value = serde_json::from_slice(&output.stdout).unwrap();
            blunt(&mut found);
            insta::assert_yaml_snapshot!(format!("{file}-{preset}"), found);
        }
        let output = run(&["--usage", path.to_str().unwrap(), "-o", "table"], b"");
        insta::assert_snapshot!(format!("{file}-table"), String::from_utf8(output.stdout).unwrap());
    }
}
