//! What flavors make of a pod's affinity, case by case.

use plimsoll_core::pod::Json;
use plimsoll_core::quota::flavor::{FlavorRefusal, MOST_TERMS, check};
use serde_json::{Value, json};

use crate::support::{
    REQUIRED, flavor, flavors, injected, is_in, placement, pod, terms, terms_of, tree, with_terms,
};

fn spot() -> Value {
    is_in("instance-type", &["spot"])
}

fn x1() -> Value {
    is_in("x", &["1"])
}

/// Flavors of the leaf, of its parent and of the root; the pod; the terms it has then.
type Case = (&'static str, [&'static str; 3], Value, Value);

fn cases() -> Vec<Case> {
    let ssd_a = || [is_in("disk", &["ssd"]), is_in("zone", &["a"])];
    let plain = || pod(&json!({}));
    let either = || is_in("instance-type", &["spot", "ondemand"]);
    let op = |operator: &str, values: &[&str]| json!({"key": "instance-type", "operator": operator, "values": values});
    let field = json!([{"key": "metadata.name", "operator": "In", "values": ["n1"]}]);
    vec![
        ("A1 one flavor", ["spot", "", ""], plain(), terms(&[&[spot()]])),
        (
            "A2 every term gets it, none is added",
            ["spot", "", ""],
            with_terms(&terms(&[&[x1()], &[is_in("y", &["2"])]])),
            terms(&[&[x1(), spot()], &[is_in("y", &["2"]), spot()]]),
        ),
        ("A3 a flavor of several labels: keys sorted", ["za", "", ""], plain(), terms(&[&ssd_a()])),
        ("A4 a flavor without labels does not restrict", ["any", "", ""], plain(), Value::Null),
        ("A4 nor do the others of its level", ["spot,any", "", ""], plain(), Value::Null),
        ("A4 other levels still do", ["any", "spot", ""], plain(), terms(&[&[spot()]])),
        (
            "A5 one key: one expression, in declared order",
            ["spot,od", "", ""],
            plain(),
            terms(&[&[either()]]),
        ),
        (
            "A5 the other order",
            ["od,spot", "", ""],
            plain(),
            terms(&[&[is_in("instance-type", &["ondemand", "spot"])]]),
        ),
        (
            "A5 appended to each term",
            ["spot,od", "", ""],
            with_terms(&terms(&[&[x1()], &[is_in("y", &["2"])]])),
            terms(&[&[x1(), either()], &[is_in("y", &["2"]), either()]]),
        ),
        (
            "A6 different keys: every term with every alternative",
            ["spot,za", "", ""],
            with_terms(&terms(&[&[x1()]])),
            terms(&[&[x1(), spot()], &[x1(), is_in("disk", &["ssd"]), is_in("zone", &["a"])]]),
        ),
        ("A7 our own result", ["spot", "", ""], with_terms(&terms(&[&[spot()]])), terms(&[&[spot()]])),
        (
            "A8 a term that holds an alternative is not multiplied",
            ["spot,za", "", ""],
            with_terms(&terms(&[&[x1(), spot()], &[x1()]])),
            terms(&[
                &[x1(), spot()],
                &[x1(), spot()],
                &[x1(), is_in("disk", &["ssd"]), is_in("zone", &["a"])],
            ]),
        ),
        (
            "A8 a subset of the values holds one",
            ["spot,od", "", ""],
            with_terms(&terms(&[&[is_in("instance-type", &["ondemand"])]])),
            terms(&[&[is_in("instance-type", &["ondemand"])]]),
        ),
        (
            "A8 and so does what two expressions leave",
            ["spot", "", ""],
            with_terms(&terms(&[&[
                is_in("instance-type", &["spot", "x"]),
                is_in("instance-type", &["y", "spot"]),
            ]])),
            terms(&[&[is_in("instance-type", &["spot", "x"]), is_in("instance-type", &["y", "spot"])]]),
        ),
        (
            "A8 a superset does not",
            ["spot", "", ""],
            with_terms(&terms(&[&[either()]])),
            terms(&[&[either(), spot()]]),
        ),
        (
            "A8 half of an alternative does not",
            ["za", "", ""],
            with_terms(&terms(&[&[is_in("zone", &["a"])]])),
            terms(&[&[is_in("zone", &["a"]), is_in("disk", &["ssd"]), is_in("zone", &["a"])]]),
        ),
        (
            "A9 a node selector that one alternative satisfies",
            ["spot,za", "", ""],
            pod(&json!({"nodeSelector": {"instance-type": "spot"}})),
            terms(&[&[spot()], &ssd_a()]),
        ),
        (
            "A9 a node selector of another key",
            ["spot", "", ""],
            pod(&json!({"nodeSelector": {"x": "1"}, "affinity": null})),
            terms(&[&[spot()]]),
        ),
        (
            "A11 an empty term matches nothing and stays",
            ["spot", "", ""],
            with_terms(
                &json!([{}, {"matchExpressions": [x1()]}, {"matchExpressions": [], "matchFields": null}, null]),
            ),
            json!([{}, {"matchExpressions": [x1(), spot()]}, {"matchExpressions": [], "matchFields": null}, null]),
        ),
        ("A11 only empty terms", ["spot,za", "", ""], with_terms(&json!([{}])), json!([{}])),
        (
            "A11 among terms that are multiplied",
            ["spot,zb", "", ""],
            with_terms(&json!([{}, {"matchExpressions": [x1()]}])),
            json!([{}, {"matchExpressions": [x1(), spot()]}, {"matchExpressions": [x1(), is_in("zone", &["b"])]}]),
        ),
        ("A12 an empty list is no terms", ["spot", "", ""], with_terms(&json!([])), terms(&[&[spot()]])),
        ("A12 nor is null", ["spot", "", ""], with_terms(&Value::Null), terms(&[&[spot()]])),
        (
            "A13 fields only",
            ["spot", "", ""],
            with_terms(&json!([{"matchFields": field}])),
            json!([{"matchFields": field, "matchExpressions": [spot()]}]),
        ),
        (
            "A13 fields, several alternatives, expressions that are null",
            ["spot,zb", "", ""],
            with_terms(&json!([{"matchFields": field, "matchExpressions": null}])),
            json!([{"matchFields": field, "matchExpressions": [spot()]},
                {"matchFields": field, "matchExpressions": [is_in("zone", &["b"])]}]),
        ),
        (
            "A14 NotIn does not restrict enough",
            ["spot", "", ""],
            with_terms(&terms(&[&[op("NotIn", &["ondemand"])]])),
            terms(&[&[op("NotIn", &["ondemand"]), spot()]]),
        ),
        (
            "A14 nor does Exists",
            ["spot", "", ""],
            with_terms(&terms(&[&[op("Exists", &[])]])),
            terms(&[&[op("Exists", &[]), spot()]]),
        ),
        (
            "A14 nor DoesNotExist",
            ["spot", "", ""],
            with_terms(&terms(&[&[op("DoesNotExist", &[])]])),
            terms(&[&[op("DoesNotExist", &[]), spot()]]),
        ),
        (
            "A14 nor Gt",
            ["spot", "", ""],
            with_terms(&terms(&[&[op("Gt", &["3"])]])),
            terms(&[&[op("Gt", &["3"]), spot()]]),
        ),
        (
            "A14 a term that contradicts keeps what it says",
            ["spot", "", ""],
            with_terms(&terms(&[&[is_in("instance-type", &["ondemand"])]])),
            terms(&[&[is_in("instance-type", &["ondemand"]), spot()]]),
        ),
        ("A16 levels that name the same label", ["spot,od", "spot", ""], plain(), terms(&[&[spot()]])),
        ("A16 two flavors alike are one alternative", ["spot,spot2", "", ""], plain(), terms(&[&[spot()]])),
        (
            "A17 levels hold together",
            ["spot", "za", ""],
            plain(),
            terms(&[&[is_in("disk", &["ssd"]), spot(), is_in("zone", &["a"])]]),
        ),
        (
            "A17 alternatives of each, those that contradict left out",
            ["spot,za", "od,zb", ""],
            plain(),
            terms(&[
                &[spot(), is_in("zone", &["b"])],
                &[is_in("disk", &["ssd"]), is_in("instance-type", &["ondemand"]), is_in("zone", &["a"])],
            ]),
        ),
        (
            "A17 three levels",
            ["spot", "zb", "five"],
            plain(),
            terms(&[&[is_in("cores", &["5"]), spot(), is_in("zone", &["b"])]]),
        ),
        ("no level restricts", ["", "", ""], plain(), Value::Null),
    ]
}

#[test]
fn terms_become() {
    for (rule, levels, before, expected) in cases() {
        let (after, _) = injected(&before, levels, &flavors()).unwrap_or_else(|e| panic!("{rule}: {e}"));
        assert_eq!(*terms_of(&after), expected, "{rule}");
        let (_, again) = injected(&after, levels, &flavors()).unwrap();
        assert_eq!(again.set, [], "{rule}: our own result needs nothing");
        let (tree, leaf) = tree(levels);
        let checked = check(&Json::borrowed(&after), &tree, leaf, |name| flavors().get(name).cloned());
        assert!(checked.is_ok(), "{rule}: {checked:?}");
    }
}

#[test]
fn the_smallest_change_is_made_and_nothing_else_touched() {
    const TERMS: &str =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let preferred = json!([{"weight": 1, "preference": {"matchExpressions": [x1()]}}]);
    let others = json!({"podAffinity": {"a": 1}, "nodeAffinity": null, "futureAffinity": 1});
    for (rule, spec, paths) in [
        ("nothing there", json!({}), vec!["/spec/affinity".to_owned()]),
        ("null", json!({"affinity": null}), vec!["/spec/affinity".to_owned()]),
        ("empty", json!({"affinity": {}}), vec!["/spec/affinity/nodeAffinity".to_owned()]),
        ("other affinity", json!({"affinity": others}), vec!["/spec/affinity/nodeAffinity".to_owned()]),
        (
            "preferred terms",
            json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}),
            vec![format!("/spec/affinity/nodeAffinity/{REQUIRED}")],
        ),
        ("no list", json!({"affinity": {"nodeAffinity": {REQUIRED: {"x": 1}}}}), vec![TERMS.to_owned()]),
        (
            "terms",
            with_terms(&json!([{"matchExpressions": [x1()]}, {"matchExpressions": [spot()]}, {"matchExpressions": [x1()]}]))["spec"]
                .clone(),
            vec![format!("{TERMS}/0/matchExpressions"), format!("{TERMS}/2/matchExpressions")],
        ),
    ] {
        let before = pod(&spec);
        let (mut after, injection) = injected(&before, ["spot", "", ""], &flavors()).unwrap();
        let set: Vec<_> = injection.set.iter().map(|(path, _)| path.clone()).collect();
        assert_eq!(set, paths, "{rule}");
        // Without what was added everything is as before.
        let without = |pod: &mut Value| {
            let spec = pod["spec"].as_object_mut().unwrap();
            if let Some(affinity) = spec.get_mut("affinity").and_then(Value::as_object_mut) {
                if let Some(node) = affinity.get_mut("nodeAffinity").and_then(Value::as_object_mut) {
                    node.remove(REQUIRED);
                }
                affinity.retain(|_, part| *part != json!({}) && !part.is_null());
            }
            spec.retain(|_, part| *part != json!({}) && !part.is_null());
        };
        let mut before = before.clone();
        without(&mut before);
        without(&mut after);
        assert_eq!(before, after, "{rule}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let selector = |key: &str, value: &str| pod(&json!({"nodeSelector": {key: value}}));
    let plain = || pod(&json!({}));
    for (rule, levels, pod, words) in [
        (
            "A10 a node selector that nothing satisfies",
            ["spot", "", ""],
            selector("instance-type", "ondemand"),
            &[
                "instance-type: ondemand",
                "root.a.a1: spot",
                "instance-type In [spot]",
                "RuntimeClass",
                "take",
            ][..],
        ),
        (
            "A10 of several alternatives",
            ["spot,od", "", ""],
            selector("instance-type", "metal"),
            &["instance-type In [spot, ondemand]"],
        ),
        (
            "A10 several keys",
            ["za,zb", "", ""],
            selector("zone", "c"),
            &["disk In [ssd], zone In [a] or zone In [b]"],
        ),
        ("A15 no such flavor", ["ghost", "", ""], plain(), &["\"ghost\"", "root.a.a1", "create", "CRD"]),
        (
            "A15 beside others",
            ["spot,ghost", "", ""],
            plain(),
            &["\"ghost\"", "node root.a.a1 ", "leaf root.a.a1"],
        ),
        ("A15 beside one without labels", ["any,ghost", "", ""], plain(), &["\"ghost\""]),
        ("A15 above the leaf", ["spot", "", "ghost"], plain(), &["node root ", "leaf root.a.a1"]),
        (
            "levels that contradict each other",
            ["spot", "od", ""],
            plain(),
            &["root.a.a1: spot (instance-type=spot)", "root.a: od (instance-type=ondemand)", "contradict"],
        ),
        (
            "affinity that is none",
            ["spot", "", ""],
            json!({"spec": {"affinity": 5}}),
            &["spec.affinity is not an object", "root.a.a1"],
        ),
        (
            "terms that are none",
            ["spot", "", ""],
            with_terms(&json!({})),
            &["nodeSelectorTerms is not a list"],
        ),
        (
            "a term that is none",
            ["spot", "", ""],
            with_terms(&json!([[]])),
            &["nodeSelectorTerms[0] is not an object"],
        ),
        (
            "expressions that are none",
            ["spot", "", ""],
            with_terms(&json!([{"matchExpressions": 1}])),
            &["nodeSelectorTerms[0].matchExpressions is not a list"],
        ),
    ] {
        let refusal = injected(&pod, levels, &flavors()).unwrap_err().to_string();
        for word in words {
            assert!(refusal.contains(word), "{rule}: {word:?} in {refusal:?}");
        }
        let (tree, leaf) = tree(levels);
        let checked = check(&Json::borrowed(&pod), &tree, leaf, |name| flavors().get(name).cloned());
        assert_eq!(checked.unwrap_err().to_string(), refusal, "{rule}: said at the other stage too");
    }
}

#[test]
fn there_is_a_bound_for_terms() {
    let mut many = flavors();
    let name = |kind: &str, index: usize| format!("{kind}{index}");
    for index in 0..2000 {
        many.extend([
            flavor(&name("one", index), &[("one", &name("v", index))]),
            flavor(&name("pair", index), &[("one", &name("v", index)), ("two", "w")]),
            flavor(&name("other", index), &[("two", &name("v", index))]),
        ]);
    }
    let list = |kind: &str, count: usize| (0..count).map(|i| name(kind, i)).collect::<Vec<_>>().join(",");
    let count_of = |levels: [&str; 3]| {
        placement(levels, &many)
            .map(|placement| placement.map_or(0, |placement| placement.alternatives().len()))
    };
    let too_many = |levels: [&str; 3]| matches!(count_of(levels), Err(FlavorRefusal::TooManyTerms { .. }));
    assert_eq!(count_of([&list("one", 2000), "", ""]), Ok(1), "one key is one expression");
    assert_eq!(count_of([&list("pair", MOST_TERMS), "", ""]), Ok(MOST_TERMS));
    assert!(too_many([&list("pair", MOST_TERMS + 1), "", ""]));
    assert_eq!(count_of([&list("one", 32), &list("other", 32), ""]), Ok(MOST_TERMS));
    assert!(too_many([&list("one", 33), &list("other", 32), ""]));
    assert!(too_many([&list("one", 2000), &list("other", 2000), &list("pair", 2000)]), "never built");
    assert_eq!(count_of([&list("one", 100), &list("one", 100), ""]), Ok(1), "contradictions do not count");

    // The pod's terms count too.
    let own = |count: usize| {
        let all: Vec<Value> =
            (0..count).map(|i| json!({"matchExpressions": [is_in("x", &[&name("", i)])]})).collect();
        with_terms(&Value::from(all))
    };
    let two = ["spot,zb", "", ""];
    assert!(injected(&own(512), two, &many).is_ok());
    let refusal = injected(&own(513), two, &many).unwrap_err().to_string();
    assert!(refusal.contains("1024") && refusal.contains("root.a.a1: spot, zb"), "{refusal}");
    assert!(injected(&own(1024), ["spot", "", ""], &many).is_ok());
    assert!(injected(&own(1025), ["spot", "", ""], &many).is_err());

    let large = with_terms(&terms(&[&[is_in("x", &[&"v".repeat(600_000)])]]));
    assert!(injected(&large, ["spot", "", ""], &many).is_ok());
    let refusal = injected(&large, two, &many).unwrap_err();
    assert!(matches!(refusal, FlavorRefusal::TooLarge { .. }), "{refusal}");
}

#[test]
fn the_final_pod_must_imply_the_flavors() {
    let with = |spec: &Value, terms: &Value| {
        let mut pod = with_terms(terms);
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        pod
    };
    let none = json!({});
    for (rule, levels, pod, implied) in [
        ("nothing", ["spot", "", ""], pod(&none), false),
        ("no flavors", ["", "", ""], pod(&none), true),
        (
            "node selector alone",
            ["spot", "", ""],
            pod(&json!({"nodeSelector": {"instance-type": "spot"}})),
            true,
        ),
        (
            "node selector, one key",
            ["spot,od", "", ""],
            pod(&json!({"nodeSelector": {"instance-type": "spot"}})),
            true,
        ),
        ("half by the node selector", ["za", "", ""], pod(&json!({"nodeSelector": {"zone": "a"}})), false),
        (
            "and half by the term",
            ["za", "", ""],
            with(&json!({"nodeSelector": {"zone": "a"}}), &terms(&[&[is_in("disk", &["ssd"])]])),
            true,
        ),
        ("a term added later", ["spot", "", ""], with(&none, &terms(&[&[spot()], &[x1()]])), false),
        (
            "an empty term added later",
            ["spot", "", ""],
            with(&none, &json!([{"matchExpressions": [spot()]}, {}])),
            true,
        ),
        ("empty terms only", ["spot", "", ""], with(&none, &json!([{}])), true),
        ("a subset", ["spot,od", "", ""], with(&none, &terms(&[&[spot()]])), true),
        (
            "a superset",
            ["spot", "", ""],
            with(&none, &terms(&[&[is_in("instance-type", &["spot", "ondemand"])]])),
            false,
        ),
        ("one of two sets", ["spot,zb", "", ""], with(&none, &terms(&[&[is_in("zone", &["b"])]])), true),
        (
            "fields do not tell",
            ["spot", "", ""],
            with(
                &none,
                &json!([{"matchFields": [{"key": "metadata.name",
            "operator": "In", "values": ["n1"]}]}]),
            ),
            false,
        ),
    ] {
        let (tree, leaf) = tree(levels);
        let checked = check(&Json::borrowed(&pod), &tree, leaf, |name| flavors().get(name).cloned());
        assert_eq!(checked.is_ok(), implied, "{rule}: {checked:?}");
        if let Err(refusal) = checked {
            assert!(matches!(refusal, FlavorRefusal::NotImplied { .. }), "{rule}: {refusal}");
            assert!(refusal.to_string().contains("root.a.a1"), "{rule}: {refusal}");
        }
    }
}

#[test]
fn a_pod_that_asks_for_other_nodes_is_warned() {
    let op = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
    for (rule, flavors_of_leaf, expression, warned) in [
        ("In another", "spot", op("instance-type", "In", &["ondemand"]), true),
        ("In it", "spot", op("instance-type", "In", &["ondemand", "spot"]), false),
        ("NotIn it", "spot", op("instance-type", "NotIn", &["spot"]), true),
        ("NotIn one of two", "spot,od", op("instance-type", "NotIn", &["spot"]), false),
        ("NotIn both", "spot,od", op("instance-type", "NotIn", &["spot", "ondemand"]), true),
        ("DoesNotExist", "spot", op("instance-type", "DoesNotExist", &[]), true),
        ("Exists", "spot", op("instance-type", "Exists", &[]), false),
        ("Gt a word", "spot", op("instance-type", "Gt", &["1"]), true),
        ("Gt less", "five", op("cores", "Gt", &["4"]), false),
        ("Gt the same", "five", op("cores", "Gt", &["5"]), true),
        ("Lt more", "five", op("cores", "Lt", &["6"]), false),
        ("Lt the same", "five", op("cores", "Lt", &["5"]), true),
        ("another key", "spot", op("zone", "In", &["b"]), false),
        ("another alternative fits", "za,spot", op("zone", "In", &["b"]), false),
        ("no alternative fits", "za,zb", op("zone", "In", &["c"]), true),
    ] {
        let levels = [flavors_of_leaf, "", ""];
        let before = with_terms(&terms(&[&[x1(), expression]]));
        let (after, injection) = injected(&before, levels, &flavors()).unwrap();
        assert_eq!(injection.warnings.len(), usize::from(warned), "{rule}: {:?}", injection.warnings);
        for warning in &injection.warnings {
            assert!(warning.contains("root.a.a1") && !warning.contains("x In"), "{rule}: {warning}");
        }
        let (tree, leaf) = tree(levels);
        let checked = check(&Json::borrowed(&after), &tree, leaf, |name| flavors().get(name).cloned());
        assert_eq!(checked, Ok(injection.warnings), "{rule}: the same is said of the final pod");
    }
}
