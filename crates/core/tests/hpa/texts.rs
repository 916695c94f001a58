//! Annotations and autoscalers as texts: what is not ours is refused, never guessed.

use plimsoll_core::hpa::{Hpa, KeyBase, MetricTarget, Originals, Verdict, read_sync, write_sync};
use serde_json::{Value, json};

use crate::world::{annotated, average, hpa, read, record, utilization};

#[test]
fn records() {
    let entry = |more: Value| {
        let mut entry = json!({"type": "Resource", "resource": "cpu", "target": 80, "basis": "request",
            "sum": "10", "pods": 10, "value": "800m"});
        for (key, value) in more.as_object().unwrap() {
            entry[key] = value.clone();
        }
        json!({"metrics": [entry]}).to_string()
    };
    let twice: Value = serde_json::from_str(&record(80, "800m", "10", 10)).unwrap();
    let twice = json!({"metrics": [twice["metrics"][0], twice["metrics"][0]]}).to_string();
    for (rule, text, expected) in [
        ("ours", record(80, "800m", "10", 10), Ok(())),
        ("mixed bases", entry(json!({"basis": "mixed"})), Ok(())),
        ("what a newer version adds", entry(json!({"since": "2027"})), Ok(())),
        (
            "one that waits",
            r#"{"metrics":[{"type":"Resource","resource":"cpu","target":80}]}"#.to_owned(),
            Ok(()),
        ),
        (
            "the target was edited",
            entry(json!({"target": 60})),
            Err("entry 0: value \"800m\" cannot be; target percent of sum divided by pods is"),
        ),
        ("the sum was edited", entry(json!({"sum": "11"})), Err("entry 0: value \"800m\" cannot be")),
        ("empty", String::new(), Err("it is not what Plimsoll wrote")),
        ("cut off", record(80, "800m", "10", 10)[..30].to_owned(), Err("it is not what Plimsoll wrote")),
        ("no list", "{}".to_owned(), Err("it is not what Plimsoll wrote: missing field `metrics`")),
        ("another type", r#"{"metrics":5}"#.to_owned(), Err("it is not what Plimsoll wrote")),
        ("a text for a number", entry(json!({"target": "80"})), Err("it is not what Plimsoll wrote")),
        (
            "a target of 0",
            entry(json!({"target": 0})),
            Err("entry 0: target \"0\" cannot be; a percentage of at least 1"),
        ),
        ("no target", entry(json!({"target": null})), Err("entry 0: target")),
        (
            "no value",
            entry(json!({"value": null})),
            Err("entry 0: value \"\" cannot be; value, basis, sum and pods stand together"),
        ),
        (
            "a value of 0",
            entry(json!({"value": "0"})),
            Err("entry 0: value \"0\" cannot be; a positive quantity"),
        ),
        ("no quantity", entry(json!({"sum": "ten"})), Err("entry 0: sum \"ten\" cannot be")),
        ("a negative sum", entry(json!({"sum": "-1"})), Err("entry 0: sum \"-1\" cannot be")),
        ("no pods", entry(json!({"pods": 0})), Err("entry 0: pods \"0\" cannot be; at least 1")),
        (
            "an unknown basis",
            entry(json!({"basis": "usage"})),
            Err("entry 0: basis \"usage\" cannot be; request, limit or mixed"),
        ),
        (
            "half a base",
            entry(json!({"basis": null})),
            Err("entry 0: base \"\" cannot be; basis, sum and pods stand together"),
        ),
        (
            "a metric that is never converted",
            entry(json!({"resource": "gpu"})),
            Err("entry 0 is about Resource \"gpu\", which is never converted"),
        ),
        ("twice", twice, Err("two entries are about cpu")),
    ] {
        match (Originals::read(&text), expected) {
            (Ok(read), Ok(())) => {
                let again = Originals::read(&read.write().unwrap()).unwrap();
                assert_eq!(again, read, "{rule}: there and back");
            }
            (Err(error), Err(begin)) => {
                assert!(error.to_string().starts_with(begin), "{rule}: {error}");
            }
            (read, _) => panic!("{rule}: {read:?}"),
        }
    }
    assert_eq!(Originals::default().write(), None);
}

#[test]
fn what_the_keeper_tells() {
    for (rule, text, expected) in [
        ("restore", r#"{"restore":true}"#, Some("restore")),
        ("nothing to convert", "{}", Some("convert 0")),
        (
            "a base",
            r#"{"bases":[{"type":"Resource","resource":"cpu","basis":"request","sum":"10","pods":10}]}"#,
            Some("convert 1"),
        ),
        (
            "a base that is missing",
            r#"{"bases":[{"type":"Resource","resource":"cpu","missing":"container b has no cpu request"}]}"#,
            Some("missing: container b has no cpu request true"),
        ),
        (
            "the controller can divide all the same",
            r#"{"bases":[{"type":"Resource","resource":"cpu","missing":"container b has no cpu limit","keep":true}]}"#,
            Some("missing: container b has no cpu limit false"),
        ),
        (
            "as written",
            r#"{"bases":[{"type":"Resource","resource":"cpu","asWritten":true}]}"#,
            Some("as written"),
        ),
        ("cut off", r#"{"bases":[{"type":"#, None),
        ("unknown members", r#"{"restore":true,"now":1}"#, None),
        (
            "no pods",
            r#"{"bases":[{"type":"Resource","resource":"cpu","basis":"request","sum":"10","pods":0}]}"#,
            None,
        ),
        ("not JSON", "please", None),
        ("a list", "[]", None),
    ] {
        let verdict = read_sync(text);
        let words = match &verdict {
            Err(_) => None,
            Ok(Verdict::Restore(_)) => Some("restore".to_owned()),
            Ok(Verdict::Unknown) => panic!("{rule}"),
            Ok(Verdict::Convert(bases)) => Some(match bases.0.values().next() {
                Some(KeyBase::Missing { why, native }) => format!("missing: {why} {native}"),
                Some(KeyBase::AsWritten) => "as written".to_owned(),
                _ => format!("convert {}", bases.0.len()),
            }),
        };
        assert_eq!(words.as_deref(), expected, "{rule}: {verdict:?}");
        if let Ok(verdict) = verdict {
            assert_eq!(read_sync(&write_sync(&verdict).unwrap()), Ok(verdict), "{rule}: there and back");
        }
    }
    assert_eq!(write_sync(&Verdict::Unknown), None);
}

#[test]
fn autoscalers() {
    let base = hpa(&json!([utilization("cpu", 80), average("memory", "1Gi")]));
    let read_one = read(&base);
    assert_eq!((read_one.min_replicas, read_one.max_replicas), (1, 20));
    assert_eq!((read_one.target.group.as_str(), read_one.target.kind.as_str()), ("apps", "Deployment"));
    assert_eq!(read_one.metrics[0].target, MetricTarget::Utilization(80));
    assert!(matches!(&read_one.metrics[1].target, MetricTarget::AverageValue(value) if value.text == "1Gi"));
    assert!(!read_one.opted_out);
    assert!(read(&annotated(base.clone(), "plimsoll.dev/overcommit", "off")).opted_out);
    let without = |pointer: &str, key: &str| {
        let mut hpa = base.clone();
        hpa.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(key);
        hpa
    };
    for (rule, manifest, expected) in [
        ("no name", without("/metadata", "name"), "metadata.name: the name is missing"),
        (
            "no target",
            without("/spec", "scaleTargetRef"),
            "spec.scaleTargetRef: what is scaled is not said; kind and name are needed",
        ),
        (
            "a target without kind",
            without("/spec/scaleTargetRef", "kind"),
            "spec.scaleTargetRef: what is scaled is not said; kind and name are needed",
        ),
        (
            "a version that is gone",
            {
                let mut hpa = base.clone();
                hpa["apiVersion"] = json!("autoscaling/v2beta2");
                hpa
            },
            "apiVersion: \"autoscaling/v2beta2\" is not known; write autoscaling/v2 or autoscaling/v1",
        ),
        ("nothing", json!({}), "metadata.name: the name is missing"),
        ("null", json!(null), "metadata.name: the name is missing"),
    ] {
        let error = Hpa::read(&manifest).unwrap_err();
        assert_eq!(format!("{}: {error}", error.path()), expected, "{rule}");
    }
    for (rule, metrics) in [
        ("no list", json!({"a": 1})),
        ("items that are none", json!([1, "x", null, [], {}])),
        (
            "sources that are none",
            json!([{"type": "Resource", "resource": 5}, {"type": "ContainerResource"}]),
        ),
    ] {
        let hpa = read(&hpa(&metrics));
        assert!(hpa.metrics.iter().all(|metric| metric.key.is_none()), "{rule}: {hpa:?}");
    }
}

#[test]
fn version_1_as_the_api_server_converts_it() {
    let v1 = |percent: Value, carried: Option<Value>| {
        let mut manifest = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 20, "targetCPUUtilizationPercentage": percent}});
        if let Some(carried) = carried {
            manifest = annotated(manifest, "autoscaling.alpha.kubernetes.io/metrics", &carried.to_string());
        }
        read(&manifest)
            .metrics
            .iter()
            .map(|metric| {
                let key = metric.key.as_ref().map_or("-".to_owned(), ToString::to_string);
                match &metric.target {
                    MetricTarget::Utilization(percent) => format!("{key} {percent}%"),
                    MetricTarget::AverageValue(value) => format!("{key} {}", value.text),
                    MetricTarget::Other => format!("{key} other"),
                }
            })
            .collect::<Vec<_>>()
    };
    let carried = json!([
        {"type": "Resource", "resource": {"name": "cpu", "targetAverageValue": "800m"}},
        {"type": "ContainerResource", "containerResource": {"name": "memory", "container": "app", "targetAverageUtilization": 50}},
        {"type": "Pods", "pods": {"metricName": "rps", "targetAverageValue": "5"}},
    ]);
    assert_eq!(v1(json!(80), None), ["cpu 80%"]);
    assert_eq!(v1(json!(null), None), [] as [&str; 0]);
    assert_eq!(
        v1(json!(80), Some(carried)),
        ["cpu 800m", "memory of container app 50%", "- other", "cpu 80%"]
    );
    assert_eq!(v1(json!(80), Some(json!("broken"))), ["cpu 80%"]);
}
