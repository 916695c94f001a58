//! What a profile may say: defaults, presets, and every way to be wrong, with its path.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a table is long; a test that fails this way says where"
)]

use plimsoll_core::profile::{
    Basis, CpuSampleWeight, Granularity, GuaranteedPods, HpaMode, MemorySamples, Mode, OptOut, from_manifest,
    from_spec,
};
use plimsoll_core::resource::Resource::{Cpu, EphemeralStorage, Memory};
use serde_json::{Value, json};

#[test]
fn defaults() {
    for empty in [json!({}), Value::Null] {
        let profile = from_spec("p", &empty).unwrap();
        assert_eq!(profile.priority, 0);
        assert_eq!(profile.mode, Mode::Off);
        assert!(profile.apply);
        assert_eq!(profile.basis, Basis::Request);
        assert_eq!(profile.guaranteed_pods, GuaranteedPods::Apply);
        assert_eq!(profile.opt_out, OptOut::Pod);
        assert_eq!(profile.hpa_mode, None);
        assert!(profile.fixed.factors.is_empty());
        assert_eq!(profile.fixed.rounding_memory, 1_048_576 * 1_000_000_000);
        assert_eq!(profile.fixed.minimum[&Cpu].to_string(), "10m");
        assert_eq!(profile.fixed.minimum[&Memory].to_string(), "16Mi");
        assert_eq!(profile.dynamic.resources.iter().copied().collect::<Vec<_>>(), [Cpu, Memory]);
        assert_eq!(profile.dynamic.granularity, Granularity::Workload);
        assert_eq!((profile.dynamic.percentile[&Cpu], profile.dynamic.percentile[&Memory]), (95, 99));
        assert_eq!(profile.dynamic.half_life[&Cpu], 86_400);
        assert_eq!(profile.dynamic.expansion[&Memory].to_string(), "1.15");
        assert_eq!(profile.dynamic.margin.get(&Cpu), None);
        assert_eq!(profile.dynamic.cpu_sample_weight, CpuSampleWeight::Request);
        assert_eq!(profile.dynamic.memory_samples, MemorySamples::PerScan);
        assert_eq!((profile.dynamic.minimum_history, profile.dynamic.maximum_age), (86_400, 691_200));
    }
}

#[test]
fn a_map_that_is_given_replaces_its_default() {
    let profile = from_spec(
        "p",
        &json!({"static": {"minimum": {}}, "dynamic": {"expansion": {"cpu": "1.3"}, "percentile": {"cpu": 90}}}),
    )
    .unwrap();
    assert!(profile.fixed.minimum.is_empty());
    assert_eq!(profile.dynamic.expansion.get(&Memory), None, "no expansion of memory");
    assert_eq!(
        (profile.dynamic.percentile[&Cpu], profile.dynamic.percentile[&Memory]),
        (90, 99),
        "a percentile is needed"
    );
}

#[test]
fn tuned_and_what_overrides_it() {
    let tuned =
        from_spec("p", &json!({"dynamic": {"preset": "Tuned", "halfLife": {"cpu": "12h"}}})).unwrap().dynamic;
    assert_eq!((tuned.percentile[&Cpu], tuned.percentile[&Memory]), (95, 90));
    assert_eq!((tuned.half_life[&Cpu], tuned.half_life[&Memory]), (43_200, 604_800));
    assert_eq!(tuned.expansion[&Memory].to_string(), "1.1");
    assert_eq!(
        (tuned.margin[&Cpu].to_string(), tuned.margin[&Memory].to_string()),
        ("50m".into(), "256Mi".into())
    );
    assert_eq!(tuned.memory_samples, MemorySamples::PeakPerInterval);
}

#[test]
fn good_profiles() {
    for (rule, spec) in [
        (
            "a factor of 1",
            json!({"static": {"factors": {"cpu": "1", "memory": "1.0", "ephemeral-storage": "0.25"}}}),
        ),
        (
            "null is absent",
            json!({"mode": null, "match": null, "static": {"factors": null}, "dynamic": null}),
        ),
        ("a quantity as number", json!({"static": {"roundingMemory": 4096, "minimum": {"cpu": 1}}})),
        ("a weight", json!({"dynamic": {"cpuSampleWeight": "0.1"}})),
        ("no resources", json!({"dynamic": {"resources": []}})),
        (
            "every selector",
            json!({"match": {"namespaceSelector": {"matchLabels": {"a/b": "c", "d": ""},
            "matchExpressions": [{"key": "e", "operator": "In", "values": ["f"]},
                {"key": "g", "operator": "DoesNotExist"}, {"key": "h", "operator": "Exists", "values": []}]}}}),
        ),
        ("negative priority", json!({"priority": -5})),
        ("no history needed", json!({"dynamic": {"minimumHistory": "0s"}})),
    ] {
        assert_eq!(from_spec("p", &spec).err(), None, "{rule}");
    }
    for (rule, hpa, expected) in [
        ("absent", json!({}), None),
        ("null", json!({"mode": null}), None),
        ("converted", json!({"mode": "Convert"}), Some(HpaMode::Convert)),
        ("by the controller's usage", json!({"mode": "Shim"}), Some(HpaMode::Shim)),
        ("by other metrics", json!({"mode": "External"}), Some(HpaMode::External)),
        ("left alone", json!({"mode": "Off"}), Some(HpaMode::Off)),
    ] {
        assert_eq!(from_spec("p", &json!({"hpa": hpa})).unwrap().hpa_mode, expected, "{rule}");
    }
    let spec = json!({"static": {"factors": {"ephemeral-storage": "0.25"}}});
    assert!(from_spec("p", &spec).unwrap().fixed.factors.contains_key(&EphemeralStorage));
}

#[test]
fn bad_profiles() {
    for (spec, path, part) in [
        (json!([]), "spec", "not an object"),
        (json!({"modes": "Static"}), "spec.modes", "unknown field"),
        (json!({"mode": "static"}), "spec.mode", "Off, Static, Dynamic, StaticThenDynamic"),
        (
            json!({"mode": true}),
            "spec.mode",
            "Off, Static, Dynamic, StaticThenDynamic; write the word in quotes",
        ),
        (json!({"apply": "yes"}), "spec.apply", "neither true nor false"),
        (json!({"priority": 1.5}), "spec.priority", "whole number"),
        (json!({"priority": 3_000_000_000_i64}), "spec.priority", "whole number"),
        (json!({"basis": "Usage"}), "spec.basis", "Request, Limit"),
        (json!({"optOut": "Nobody"}), "spec.optOut", "Pod, Namespace, None"),
        (json!({"guaranteedPods": "Drop"}), "spec.guaranteedPods", "Apply, Skip"),
        (json!({"hpa": "Off"}), "spec.hpa", "not an object"),
        (json!({"hpa": {"mode": "off"}}), "spec.hpa.mode", "Convert, Shim, External, Off"),
        (json!({"hpa": {"mode": false}}), "spec.hpa.mode", "write the word in quotes"),
        (json!({"hpa": {"modes": "Off"}}), "spec.hpa.modes", "unknown field"),
        (json!({"match": []}), "spec.match", "not an object"),
        (json!({"match": {"pool": "x"}}), "spec.match.pool", "unknown field"),
        (json!({"match": {"pools": "x"}}), "spec.match.pools", "not a list"),
        (json!({"match": {"pools": ["a b"]}}), "spec.match.pools[0]", "label value"),
        (json!({"match": {"pools": ["a", 1]}}), "spec.match.pools[1]", "not a string"),
        (json!({"match": {"pools": ["a", "a"]}}), "spec.match.pools[1]", "twice"),
        (
            json!({"match": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}}}),
            "spec.match.podSelector.matchExpressions[0].values[0]",
            "not a label value",
        ),
        (
            json!({"match": {"workloadKinds": ["deployments.apps"]}}),
            "spec.match.workloadKinds[0]",
            "Deployment",
        ),
        (
            json!({"match": {"podSelector": {"matchLabels": {"a": 1}}}}),
            "spec.match.podSelector.matchLabels.a",
            "not a string",
        ),
        (
            json!({"match": {"podSelector": {"matchLabels": {"a/b/c": "x"}}}}),
            "spec.match.podSelector.matchLabels.a/b/c",
            "not a label key",
        ),
        (
            json!({"match": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "in", "values": ["x"]}]}}}),
            "spec.match.podSelector.matchExpressions[0].operator",
            "In, NotIn, Exists, DoesNotExist",
        ),
        (
            json!({"match": {"podSelector": {"matchExpressions": [{"key": "a"}]}}}),
            "spec.match.podSelector.matchExpressions[0].operator",
            "missing",
        ),
        (
            json!({"match": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}),
            "spec.match.podSelector.matchExpressions[0].values",
            "at least one",
        ),
        (
            json!({"match": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}}}),
            "spec.match.podSelector.matchExpressions[0].values",
            "no values",
        ),
        (json!({"static": {"factors": {"cpu": 0.5}}}), "spec.static.factors.cpu", "write it in quotes"),
        (json!({"static": {"factors": {"cpu": "0"}}}), "spec.static.factors.cpu", "above 0 and at most 1"),
        (json!({"static": {"factors": {"cpu": "1.01"}}}), "spec.static.factors.cpu", "above 0 and at most 1"),
        (json!({"static": {"factors": {"cpu": "50%"}}}), "spec.static.factors.cpu", "0.5"),
        (json!({"static": {"factors": {"cpu": "-0.5"}}}), "spec.static.factors.cpu", "0.5"),
        (json!({"static": {"factors": {"cpu": "1e-1"}}}), "spec.static.factors.cpu", "0.5"),
        (json!({"static": {"factors": {"cpu": "NaN"}}}), "spec.static.factors.cpu", "0.5"),
        (json!({"static": {"factors": {"cpu": null}}}), "spec.static.factors.cpu", "null"),
        (
            json!({"static": {"factors": {"nvidia.com/gpu": "0.5"}}}),
            "spec.static.factors.nvidia.com/gpu",
            "never lowered",
        ),
        (json!({"static": {"roundingMemory": "0"}}), "spec.static.roundingMemory", "positive"),
        (json!({"static": {"roundingMemory": "100m"}}), "spec.static.roundingMemory", "whole bytes"),
        (json!({"static": {"roundingMemory": "1K"}}), "spec.static.roundingMemory", "1K"),
        (json!({"static": {"minimum": {"cpu": "-1"}}}), "spec.static.minimum.cpu", "negative"),
        (json!({"static": {"minimum": {"cpu": {}}}}), "spec.static.minimum.cpu", "not a quantity"),
        (json!({"dynamic": {"resources": ["disk"]}}), "spec.dynamic.resources[0]", "cpu, memory"),
        (json!({"dynamic": {"resources": ["cpu", "cpu"]}}), "spec.dynamic.resources[1]", "twice"),
        (json!({"dynamic": {"granularity": "Node"}}), "spec.dynamic.granularity", "Namespace, Workload, Pod"),
        (json!({"dynamic": {"preset": "Fast"}}), "spec.dynamic.preset", "Seed, Tuned"),
        (json!({"dynamic": {"percentile": {"cpu": 0}}}), "spec.dynamic.percentile.cpu", "1 to 100"),
        (json!({"dynamic": {"percentile": {"cpu": "95"}}}), "spec.dynamic.percentile.cpu", "1 to 100"),
        (
            json!({"dynamic": {"percentile": {"ephemeral-storage": 95}}}),
            "spec.dynamic.percentile.ephemeral-storage",
            "cpu, memory",
        ),
        (json!({"dynamic": {"halfLife": {"cpu": "1d12h"}}}), "spec.dynamic.halfLife.cpu", "24h"),
        (json!({"dynamic": {"halfLife": {"cpu": "0h"}}}), "spec.dynamic.halfLife.cpu", "above 0"),
        (json!({"dynamic": {"expansion": {"cpu": "0"}}}), "spec.dynamic.expansion.cpu", "above 0"),
        (
            json!({"dynamic": {"expansion": {"cpu": 1.15}}}),
            "spec.dynamic.expansion.cpu",
            "write it in quotes",
        ),
        (json!({"dynamic": {"margin": {"cpu": "-50m"}}}), "spec.dynamic.margin.cpu", "negative"),
        (json!({"dynamic": {"cpuSampleWeight": "Usage"}}), "spec.dynamic.cpuSampleWeight", "0.5"),
        (
            json!({"dynamic": {"memorySamples": "Peak"}}),
            "spec.dynamic.memorySamples",
            "PerScan, PeakPerInterval",
        ),
        (json!({"dynamic": {"maximumAge": "0s"}}), "spec.dynamic.maximumAge", "above 0"),
        (json!({"dynamic": {"minimumHistory": 24}}), "spec.dynamic.minimumHistory", "has no unit"),
    ] {
        let problems = from_spec("p", &spec).unwrap_err();
        assert_eq!(problems.len(), 1, "{spec}: {problems:?}");
        assert_eq!(problems[0].path, path, "{spec}");
        assert!(problems[0].message.contains(part), "{spec}: {}", problems[0].message);
    }
}

#[test]
fn all_problems_at_once() {
    let manifest = json!({"metadata": {"name": "Not A Name"}, "spec": {"mode": "x", "static": {"factors": {"cpu": "2", "gpu": "1"}},
        "dynamic": {"halfLife": {"cpu": "1"}}}});
    let paths: Vec<String> = from_manifest(&manifest).unwrap_err().into_iter().map(|p| p.path).collect();
    assert_eq!(
        paths,
        [
            "metadata.name",
            "spec.mode",
            "spec.static.factors.cpu",
            "spec.static.factors.gpu",
            "spec.dynamic.halfLife.cpu"
        ]
    );
    for name in ["", "-a", "a-", "a..b", "A", "a_b", &"a".repeat(254)] {
        assert!(from_manifest(&json!({"metadata": {"name": name}})).is_err(), "{name:?}");
    }
    assert!(from_manifest(&json!({"metadata": {"name": "a.b-c1"}})).is_ok());
}
