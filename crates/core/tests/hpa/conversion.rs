//! What the metrics of an autoscaler become.

use std::collections::BTreeMap;

use plimsoll_core::hpa::{
    Bases, KeyBase, MeanBase, MetricKey, Note, Verdict, Why, apply_to, convert, operations,
};
use plimsoll_core::profile::Basis;
use plimsoll_core::resource::{MILLI, Resource, UNIT};
use serde_json::{Value, json};

use crate::world::{
    ORIGINAL, SYNC, annotated, average, cpu, hpa, memory, of_container, read, record, utilization,
};

/// What is said of CPU: a sum in milli-cores over so many pods.
fn bases(sum: i128, pods: u64) -> Verdict {
    of_keys([(cpu(), KeyBase::Known(MeanBase { basis: Some(Basis::Request), sum: sum * MILLI, pods }))])
}

fn of_keys<const N: usize>(bases: [(MetricKey, KeyBase); N]) -> Verdict {
    Verdict::Convert(Bases(BTreeMap::from(bases)))
}

fn restore() -> Verdict {
    Verdict::Restore(Why::Asked)
}

fn missing() -> Verdict {
    of_keys([(cpu(), without("container b has no cpu request", true))])
}

fn no_limit() -> Verdict {
    of_keys([(cpu(), without("container b has no cpu limit", false))])
}

fn as_written() -> Verdict {
    of_keys([(cpu(), KeyBase::AsWritten)])
}

fn without(why: &str, native: bool) -> KeyBase {
    KeyBase::Missing { why: why.to_owned(), native }
}

/// The targets of an autoscaler in words, then what is recorded of CPU.
fn words(hpa: &Value) -> String {
    let mut words: Vec<String> = Vec::new();
    for metric in hpa["spec"]["metrics"].as_array().into_iter().flatten() {
        let member = if metric["type"] == "ContainerResource" { "containerResource" } else { "resource" };
        let source = &metric[member];
        let name = match source["container"].as_str() {
            Some(container) => format!("{}@{container}", source["name"].as_str().unwrap_or("?")),
            None => source["name"].as_str().unwrap_or("?").to_owned(),
        };
        let target = &source["target"];
        words.push(match target["type"].as_str() {
            Some("Utilization") => format!("{name} {}%", target["averageUtilization"]),
            Some("AverageValue") => format!("{name} {}", target["averageValue"].as_str().unwrap_or("?")),
            _ => "other".to_owned(),
        });
    }
    let record: Value = hpa["metadata"]["annotations"][ORIGINAL]
        .as_str()
        .map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_else(|_| json!(text)));
    if let Some(entries) = record["metrics"].as_array() {
        for entry in entries {
            let value = entry["value"].as_str().map_or_else(|| "waits".to_owned(), str::to_owned);
            words.push(format!("[{}% {value}]", entry["target"]));
        }
    } else if !record.is_null() {
        words.push(format!("[{}]", record.as_str().unwrap_or("?")));
    }
    words.join(", ")
}

/// Converts, checks that the patch does the same, and that a second pass changes nothing.
fn converted(new: &Value, old: Option<&Value>, verdict: &Verdict) -> (Value, Vec<String>) {
    let conversion = convert(&read(new), old.map(read).as_ref(), verdict);
    let after = apply_to(new, &conversion);
    let patch = serde_json::to_value(operations(new, &conversion)).unwrap();
    let mut patched = new.clone();
    let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
    json_patch::patch(&mut patched, &patch).unwrap();
    assert_eq!(patched, after, "the patch does what is wanted");
    let again = convert(&read(&after), Some(&read(&after)), verdict);
    assert!(!again.changes(&read(&after)), "a second pass changes nothing: {again:?}");
    (after, conversion.notes.iter().map(ToString::to_string).collect())
}

#[test]
fn conversions() {
    let plain = |percent| hpa(&json!([utilization("cpu", percent)]));
    let ours = |target, value: &str| {
        annotated(hpa(&json!([average("cpu", value)])), ORIGINAL, &record(target, value, "10", 10))
    };
    let with_record = |metrics: Value| annotated(hpa(&metrics), ORIGINAL, &record(80, "800m", "10", 10));
    let waiting = |metrics: Value| {
        let record = json!({"metrics": [{"type": "Resource", "resource": "cpu", "target": 80}]}).to_string();
        annotated(hpa(&metrics), ORIGINAL, &record)
    };
    let several = json!([utilization("cpu", 80), utilization("cpu", 60)]);
    for (rule, new, verdict, expected) in [
        ("5.4: 80 % of 1000m", plain(80), bases(10_000, 10), "cpu 800m, [80% 800m]"),
        ("5.4: 80 % of a limit of 2000m", plain(80), bases(20_000, 10), "cpu 1600m, [80% 1600m]"),
        ("5.4: bases 1000m and 2000m", plain(80), bases(3000, 2), "cpu 1200m, [80% 1200m]"),
        ("rounded up to milli", plain(33), bases(1000, 3), "cpu 110m, [33% 110m]"),
        ("rounded up from next to nothing", plain(1), bases(1, 1), "cpu 1m, [1% 1m]"),
        ("100000 %", plain(100_000), bases(1000, 1), "cpu 1k, [100000% 1k]"),
        ("a target of 0 is for the API server to refuse", plain(0), bases(1000, 1), "cpu 0%"),
        ("a negative target", plain(-5), bases(1000, 1), "cpu -5%"),
        ("a base of 0", plain(80), bases(0, 4), "cpu 80%"),
        (
            "beyond what the controller counts in",
            plain(2_000_000_000),
            bases(i128::from(i64::MAX), 1),
            "cpu 2000000000%",
        ),
        ("nothing known yet: annotated", plain(80), Verdict::Unknown, "cpu 80%, [80% waits]"),
        (
            "known at last",
            waiting(json!([utilization("cpu", 80)])),
            bases(10_000, 10),
            "cpu 800m, [80% 800m]",
        ),
        (
            "waited, then changed",
            waiting(json!([utilization("cpu", 70)])),
            Verdict::Unknown,
            "cpu 70%, [70% waits]",
        ),
        (
            "waited, then a value of the author's own",
            waiting(json!([average("cpu", "123m")])),
            bases(1000, 1),
            "cpu 123m",
        ),
        ("waited, and is not ours", waiting(json!([utilization("cpu", 80)])), restore(), "cpu 80%"),
        ("not ours", plain(80), restore(), "cpu 80%"),
        ("a base is missing: it waits", plain(80), missing(), "cpu 80%, [80% waits]"),
        (
            "ours stays while the bases are the same",
            ours(80, "800m"),
            bases(12_000, 12),
            "cpu 800m, [80% 800m]",
        ),
        ("ours follows the bases", ours(80, "800m"), bases(15_000, 10), "cpu 1200m, [80% 1200m]"),
        (
            "ours written in another way",
            with_record(json!([average("cpu", "0.8")])),
            bases(10_000, 10),
            "cpu 0.8, [80% 800m]",
        ),
        ("ours, and nothing known", ours(80, "800m"), Verdict::Unknown, "cpu 800m, [80% 800m]"),
        ("ours is restored", ours(80, "800m"), restore(), "cpu 80%"),
        (
            "ours, and now a base is missing: the controller must say so",
            ours(80, "800m"),
            missing(),
            "cpu 80%, [80% waits]",
        ),
        (
            "the same, but the controller could divide: it would divide by too little",
            ours(80, "800m"),
            no_limit(),
            "cpu 800m, [80% 800m]",
        ),
        ("never lowered", plain(80), as_written(), "cpu 80%"),
        ("no longer lowered", ours(80, "800m"), as_written(), "cpu 80%"),
        ("more has to be known", plain(80), of_keys([]), "cpu 80%, [80% waits]"),
        ("more has to be known of ours", ours(80, "800m"), of_keys([]), "cpu 800m, [80% 800m]"),
        (
            "5.4: the author edits 80 to 60",
            with_record(json!([utilization("cpu", 60)])),
            bases(10_000, 10),
            "cpu 600m, [60% 600m]",
        ),
        (
            "edited while nothing is known: by the last bases",
            with_record(json!([utilization("cpu", 60)])),
            Verdict::Unknown,
            "cpu 600m, [60% 600m]",
        ),
        (
            "5.4: the author's own 123m",
            with_record(json!([average("cpu", "123m")])),
            bases(10_000, 10),
            "cpu 123m",
        ),
        (
            "an average value from the start",
            hpa(&json!([average("cpu", "123m")])),
            bases(10_000, 10),
            "cpu 123m",
        ),
        (
            "5.4: an unchanged v1 manifest applied again",
            with_record(json!([average("cpu", "800m"), utilization("cpu", 80)])),
            bases(10_000, 10),
            "cpu 800m, [80% 800m]",
        ),
        (
            "the same in the other order",
            with_record(json!([utilization("cpu", 60), average("cpu", "800m")])),
            bases(10_000, 10),
            "cpu 600m, [60% 600m]",
        ),
        (
            "the same where it is not ours any more",
            with_record(json!([average("cpu", "800m"), utilization("cpu", 80)])),
            restore(),
            "cpu 80%",
        ),
        (
            "the same where a base is missing",
            with_record(json!([average("cpu", "800m"), utilization("cpu", 80)])),
            missing(),
            "cpu 80%, [80% waits]",
        ),
        (
            "a value of the author's own beside a utilization",
            hpa(&json!([average("cpu", "123m"), utilization("cpu", 80)])),
            bases(10_000, 10),
            "cpu 123m, cpu 800m, [80% 800m]",
        ),
        ("several utilizations of one metric", hpa(&several), bases(10_000, 10), "cpu 80%, cpu 60%"),
        (
            "the metric was taken out",
            with_record(json!([utilization("memory", 70)])),
            bases(10_000, 10),
            "memory 70%, [70% waits]",
        ),
        ("no metrics", hpa(&json!([])), bases(10_000, 10), ""),
        ("metrics that are none", hpa(&json!({"a": 1})), bases(10_000, 10), ""),
        (
            "other kinds of metrics are left alone",
            hpa(
                &json!([{"type": "Pods", "pods": {"metric": {"name": "rps"}}}, {"type": "New", "new": {}}, 5, null, utilization("cpu", 80)]),
            ),
            bases(10_000, 10),
            "? other",
        ),
        (
            "other resources are left alone",
            hpa(&json!([utilization("ephemeral-storage", 80)])),
            bases(10_000, 10),
            "ephemeral-storage 80%",
        ),
        (
            "the keeper's annotation is taken off",
            annotated(plain(80), SYNC, "{}"),
            bases(10_000, 10),
            "cpu 800m, [80% 800m]",
        ),
        (
            "a utilization without a number",
            hpa(
                &json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]),
            ),
            bases(10_000, 10),
            "cpu null%",
        ),
    ] {
        let (after, _) = converted(&new, None, &verdict);
        if expected == "? other" {
            assert_eq!(after["spec"]["metrics"][4]["resource"]["target"]["averageValue"], "800m", "{rule}");
            for index in 0..4 {
                assert_eq!(after["spec"]["metrics"][index], new["spec"]["metrics"][index], "{rule}");
            }
            continue;
        }
        assert_eq!(words(&after), expected, "{rule}");
        assert!(after["metadata"]["annotations"].get(SYNC).is_none(), "{rule}");
    }
}

#[test]
fn metrics_are_told_apart_by_what_they_are_about() {
    let of = |container: &str, percent: i64| {
        json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": container,
            "target": {"type": "Utilization", "averageUtilization": percent}, "future": true}})
    };
    let base = |sum: i128| KeyBase::Known(MeanBase { basis: Some(Basis::Request), sum, pods: 2 });
    let verdict = of_keys([
        (cpu(), base(2000 * MILLI)),
        (memory(), base(3 * 1024 * 1024 * UNIT)),
        (of_container("app", Resource::Cpu), base(1000 * MILLI)),
        (of_container("side", Resource::Cpu), without("container side has no cpu request", true)),
    ]);
    let new = hpa(&json!([utilization("memory", 50), of("app", 50), of("side", 50), utilization("cpu", 50)]));
    let (after, notes) = converted(&new, None, &verdict);
    assert_eq!(
        words(&after),
        "memory 768Ki, cpu@app 250m, cpu@side 50%, cpu 500m, [50% 500m], [50% 768Ki], [50% 250m], [50% waits]"
    );
    assert_eq!(after["spec"]["metrics"][1]["containerResource"]["future"], true, "what is unknown stays");
    assert_eq!(
        notes,
        [
            "cpu: 50 % of the request as written (1 a pod) is 500m",
            "memory: 50 % of the request as written (1536Ki a pod) is 768Ki",
            "cpu of container app: 50 % of the request as written (500m a pod) is 250m",
            "cpu of container side: not converted: container side has no cpu request",
        ]
    );
    // Somebody sorts the list: nothing changes for it.
    let mut sorted = after.clone();
    sorted["spec"]["metrics"].as_array_mut().unwrap().reverse();
    let conversion = convert(&read(&sorted), Some(&read(&after)), &verdict);
    assert!(conversion.changes.is_empty(), "{conversion:?}");
    // And all of it goes back.
    let (back, _) = converted(&sorted, Some(&after), &restore());
    assert_eq!(words(&back), "cpu 50%, cpu@side 50%, cpu@app 50%, memory 50%");
    assert_eq!(back["metadata"]["annotations"], json!({}));
}

#[test]
fn the_record_is_ours() {
    let stored = annotated(hpa(&json!([average("cpu", "800m")])), ORIGINAL, &record(80, "800m", "10", 10));
    let bare = hpa(&json!([average("cpu", "800m")]));
    let edited = annotated(bare.clone(), ORIGINAL, &record(70, "800m", "10", 10));
    let cut = annotated(bare.clone(), ORIGINAL, r#"{"metrics":[{"type":"Resource","resou"#);
    let cut_but_new = annotated(hpa(&json!([utilization("cpu", 60)])), ORIGINAL, "{");
    let verdict = bases(10_000, 10);
    let edit = "annotation plimsoll.dev/hpa-original was edited; it is written by Plimsoll, and was put back";
    for (rule, new, old, expected, note) in [
        ("kept", &stored, Some(&stored), "cpu 800m, [80% 800m]", None),
        ("cut off: put back", &bare, Some(&stored), "cpu 800m, [80% 800m]", None),
        ("edited: put back", &edited, Some(&stored), "cpu 800m, [80% 800m]", Some(edit)),
        ("broken: put back", &cut, Some(&stored), "cpu 800m, [80% 800m]", Some(edit)),
        (
            "replaced by a manifest without it",
            &hpa(&json!([utilization("cpu", 60)])),
            Some(&stored),
            "cpu 600m, [60% 600m]",
            None,
        ),
        ("a copy of a converted one, made anew", &stored, None, "cpu 800m, [80% 800m]", None),
        (
            "broken, and nobody knows what it was",
            &cut,
            Some(&cut),
            "cpu 800m, [{\"metrics\":[{\"type\":\"Resource\",\"resou]",
            Some("annotation plimsoll.dev/hpa-original cannot be read"),
        ),
        (
            "broken at the start",
            &cut,
            None,
            "cpu 800m, [{\"metrics\":[{\"type\":\"Resource\",\"resou]",
            Some("annotation plimsoll.dev/hpa-original cannot be read"),
        ),
        ("broken, then taken off: the value is the author's own", &bare, Some(&cut), "cpu 800m", None),
        ("broken, and every target is written anew", &cut_but_new, Some(&cut), "cpu 600m, [60% 600m]", None),
        ("broken, then repaired by hand", &stored, Some(&cut), "cpu 800m, [80% 800m]", None),
    ] {
        let conversion = convert(&read(new), old.map(read).as_ref(), &verdict);
        let after = apply_to(new, &conversion);
        assert_eq!(words(&after), expected, "{rule}");
        let notes: Vec<_> =
            conversion.notes.iter().filter(|note| note.is_warning()).map(ToString::to_string).collect();
        match note {
            None => assert!(notes.is_empty(), "{rule}: {notes:?}"),
            Some(note) => assert!(notes.len() == 1 && notes[0].starts_with(note), "{rule}: {notes:?}"),
        }
    }
}

/// A record that comes with its own value is as good as the stored one.
#[test]
fn a_value_is_known_by_the_record_that_came_with_it() {
    let converted = |target, value: &str, sum: &str| {
        annotated(hpa(&json!([average("cpu", value)])), ORIGINAL, &record(target, value, sum, 10))
    };
    let stored = converted(80, "1200m", "15");
    let verdict = bases(15_000, 10);
    for (rule, new, expected) in [
        ("an export of before is applied again", converted(80, "800m", "10"), "cpu 1200m, [80% 1200m]"),
        (
            "an earlier call in the same request changed it",
            converted(60, "900m", "15"),
            "cpu 900m, [60% 900m]",
        ),
        (
            "a value that no record knows",
            annotated(hpa(&json!([average("cpu", "5")])), ORIGINAL, &record(80, "1200m", "15", 10)),
            "cpu 5",
        ),
    ] {
        let conversion = convert(&read(&new), Some(&read(&stored)), &verdict);
        assert_eq!(words(&apply_to(&new, &conversion)), expected, "{rule}");
        assert!(!conversion.notes.iter().any(Note::is_warning), "{rule}: {:?}", conversion.notes);
    }
}

/// The keeper does not write only to take off that something waits: the webhook would put it there again.
#[test]
fn waiting_alone_is_no_reason_to_write() {
    let waiting = json!({"metrics": [{"type": "Resource", "resource": "cpu", "target": 80}]}).to_string();
    let hpa = annotated(hpa(&json!([utilization("cpu", 80)])), ORIGINAL, &waiting);
    let conversion = convert(&read(&hpa), None, &restore());
    assert!(!conversion.changes(&read(&hpa)));
    assert_eq!(words(&apply_to(&hpa, &conversion)), "cpu 80%");
    assert!(convert(&read(&hpa), None, &bases(1000, 1)).changes(&read(&hpa)));
}

#[test]
fn a_record_that_cannot_be_read_is_not_restored_by_guess() {
    let broken = annotated(hpa(&json!([average("cpu", "800m")])), ORIGINAL, "{}");
    let conversion = convert(&read(&broken), None, &restore());
    assert_eq!(apply_to(&broken, &conversion), broken);
    assert_eq!(conversion.notes.len(), 1);
}
