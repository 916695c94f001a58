//! From a manifest to a checked profile, with every problem at once.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_quantity::{Quantity, Ratio};
use serde_json::Value;

use crate::problem::Problem;
use crate::profile::check_selector::{is_dns_subdomain, is_label_value, selector};
use crate::profile::reader::{Node, Reader, brief, member, shown};
use crate::profile::{
    Basis, CpuSampleWeight, DynamicPolicy, Granularity, GuaranteedPods, HpaMode, MemorySamples, Mode, OptOut,
    Preset, Profile, ProfileMatch, StaticPolicy, parse_duration,
};
use crate::resource::{Resource, UNIT};

/// The fields of `spec` and of the objects in it, for the test that compares
/// them with the CRD's schema.
pub const SPEC_FIELDS: [(&str, &[&str]); 5] = [
    (
        "spec",
        &[
            "priority",
            "match",
            "mode",
            "apply",
            "basis",
            "static",
            "dynamic",
            "guaranteedPods",
            "optOut",
            "hpa",
        ],
    ),
    ("spec.match", &["namespaceSelector", "podSelector", "pools", "workloadKinds"]),
    ("spec.static", &["factors", "roundingMemory", "minimum"]),
    (
        "spec.dynamic",
        &[
            "resources",
            "granularity",
            "preset",
            "percentile",
            "halfLife",
            "expansion",
            "margin",
            "cpuSampleWeight",
            "memorySamples",
            "minimumHistory",
            "maximumAge",
        ],
    ),
    ("spec.hpa", &["mode"]),
];

/// Reads a whole `OvercommitProfile` manifest.
///
/// # Errors
/// Every problem found, each with its path and what would be right.
pub fn from_manifest(manifest: &Value) -> Result<Profile, Vec<Problem>> {
    let name = manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let mut reader = Reader::default();
    if !is_dns_subdomain(name) {
        reader.problem(
            "metadata.name",
            "name",
            format!("{:?} is not a name; use lower-case letters, digits, '-' and '.'", shown(name)),
        );
    }
    let spec = manifest.get("spec").unwrap_or(&Value::Null);
    check(name, spec, reader)
}

/// Reads the `spec` of a profile called `name`.
///
/// # Errors
/// Every problem found, each with its path and what would be right.
pub fn from_spec(name: &str, spec: &Value) -> Result<Profile, Vec<Problem>> {
    check(name, spec, Reader::default())
}

fn check(name: &str, spec: &Value, mut reader: Reader) -> Result<Profile, Vec<Problem>> {
    let r = &mut reader;
    let [(spec_path, spec_fields), ..] = SPEC_FIELDS;
    let map = r.object(&Node::root(spec, spec_path), spec_fields);
    let at = |key: &str| member(map, "spec", key);
    let priority = r.integer(&at("priority"), i64::from(i32::MIN), i64::from(i32::MAX));
    let profile = Profile {
        name: name.to_owned(),
        priority: priority.and_then(|p| i32::try_from(p).ok()).unwrap_or(0),
        matches: matches(r, &at("match")),
        mode: r
            .choice(
                &at("mode"),
                &[
                    ("Off", Mode::Off),
                    ("Static", Mode::Static),
                    ("Dynamic", Mode::Dynamic),
                    ("StaticThenDynamic", Mode::StaticThenDynamic),
                ],
            )
            .unwrap_or_default(),
        apply: r.boolean(&at("apply")).unwrap_or(true),
        basis: r
            .choice(&at("basis"), &[("Request", Basis::Request), ("Limit", Basis::Limit)])
            .unwrap_or_default(),
        fixed: fixed(r, &at("static")),
        dynamic: dynamic(r, &at("dynamic")),
        guaranteed_pods: r
            .choice(
                &at("guaranteedPods"),
                &[("Apply", GuaranteedPods::Apply), ("Skip", GuaranteedPods::Skip)],
            )
            .unwrap_or_default(),
        opt_out: r
            .choice(
                &at("optOut"),
                &[("Pod", OptOut::Pod), ("Namespace", OptOut::Namespace), ("None", OptOut::None)],
            )
            .unwrap_or_default(),
        hpa_mode: hpa_mode(r, &at("hpa")),
    };
    if reader.problems.is_empty() { Ok(profile) } else { Err(reader.problems) }
}

fn hpa_mode(r: &mut Reader, node: &Node<'_>) -> Option<HpaMode> {
    let map = r.object(node, SPEC_FIELDS[4].1);
    r.choice(&member(map, &node.path, "mode"), &HpaMode::ALL.map(|mode| (mode.name(), mode)))
}

fn matches(r: &mut Reader, node: &Node<'_>) -> ProfileMatch {
    let map = r.object(node, SPEC_FIELDS[1].1);
    let at = |key: &str| member(map, &node.path, key);
    ProfileMatch {
        namespaces: selector(r, &at("namespaceSelector")),
        pods: selector(r, &at("podSelector")),
        pools: words(r, &at("pools"), "a pool is a label value", is_label_value),
        workload_kinds: words(r, &at("workloadKinds"), "a kind is a word such as Deployment", |kind| {
            kind.starts_with(|c: char| c.is_ascii_uppercase())
                && kind.chars().all(|c| c.is_ascii_alphanumeric())
        }),
    }
}

fn words(r: &mut Reader, node: &Node<'_>, what: &str, valid: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (index, value) in r.list(node).unwrap_or_default().iter().enumerate() {
        let item = Node { value: Some(value), path: format!("{}[{index}]", node.path) };
        if let Some(text) = r.text(&item) {
            if text.is_empty() || text.len() > 63 || !valid(text) {
                r.problem(&item.path, "word", format!("{:?} is not valid; {what}", shown(text)));
            } else if found.iter().any(|earlier| earlier == text) {
                r.problem(&item.path, "duplicate", format!("{text:?} stands in the list twice"));
            } else {
                found.push(text.to_owned());
            }
        }
    }
    found
}

fn fixed(r: &mut Reader, node: &Node<'_>) -> StaticPolicy {
    let map = r.object(node, SPEC_FIELDS[2].1);
    let at = |key: &str| member(map, &node.path, key);
    let factors = by_resource(r, &at("factors"), &Resource::ALL, |r, item| {
        let text = r.text(item)?;
        match Ratio::parse_decimal(text) {
            Ok(factor) if factor > Ratio::ZERO && factor <= Ratio::ONE => Some(factor),
            Ok(_) => {
                r.problem(&item.path, "factor", format!("{:?} is not above 0 and at most 1", shown(text)));
                None
            }
            Err(error) => {
                r.problem(&item.path, "factor", error.to_string());
                None
            }
        }
    });
    let rounding = at("roundingMemory");
    let rounding_memory = quantity(r, &rounding).and_then(|q| {
        if q.is_positive() && q.nanos() % UNIT == 0 {
            Some(q.nanos())
        } else {
            r.problem(&rounding.path, "range", format!("{q} is not a positive number of whole bytes"));
            None
        }
    });
    StaticPolicy {
        factors: factors.unwrap_or_default(),
        rounding_memory: rounding_memory.unwrap_or(MEBIBYTE),
        minimum: by_resource(r, &at("minimum"), &Resource::ALL, not_negative)
            .unwrap_or_else(|| amounts(10 * crate::resource::MILLI, 16 * MEBIBYTE)),
    }
}

/// 1 MiB in nano-units of a byte.
const MEBIBYTE: i128 = 1_048_576 * UNIT;

const DYNAMIC_RESOURCES: [Resource; 2] = [Resource::Cpu, Resource::Memory];

fn dynamic(r: &mut Reader, node: &Node<'_>) -> DynamicPolicy {
    let map = r.object(node, SPEC_FIELDS[3].1);
    let at = |key: &str| member(map, &node.path, key);
    let preset =
        r.choice(&at("preset"), &[("Seed", Preset::Seed), ("Tuned", Preset::Tuned)]).unwrap_or_default();
    let mut policy = preset_values(preset);
    let resources = at("resources");
    if let Some(list) = r.list(&resources) {
        policy.resources = BTreeSet::new();
        for (index, value) in list.iter().enumerate() {
            let item = Node { value: Some(value), path: format!("{}[{index}]", resources.path) };
            let choices: Vec<_> = DYNAMIC_RESOURCES.iter().map(|x| (x.name(), *x)).collect();
            if let Some(resource) = r.choice(&item, &choices)
                && !policy.resources.insert(resource)
            {
                r.problem(&item.path, "duplicate", format!("{resource} stands in the list twice"));
            }
        }
    }
    if let Some(granularity) = r.choice(
        &at("granularity"),
        &[
            ("Namespace", Granularity::Namespace),
            ("Workload", Granularity::Workload),
            ("Pod", Granularity::Pod),
        ],
    ) {
        policy.granularity = granularity;
    }
    // A percentile and a half-life are needed for every resource: what a given map leaves out keeps
    // the preset's value. An expansion or margin that is left out has none.
    let percentile = by_resource(r, &at("percentile"), &DYNAMIC_RESOURCES, |r, item| {
        r.integer(item, 1, 100).and_then(|p| u32::try_from(p).ok())
    });
    policy.percentile.extend(percentile.unwrap_or_default());
    let half_life = by_resource(r, &at("halfLife"), &DYNAMIC_RESOURCES, |r, item| seconds(r, item, 1));
    policy.half_life.extend(half_life.unwrap_or_default());
    if let Some(expansion) =
        by_resource(r, &at("expansion"), &DYNAMIC_RESOURCES, |r, item| positive_decimal(r, item, "expansion"))
    {
        policy.expansion = expansion;
    }
    if let Some(margin) = by_resource(r, &at("margin"), &DYNAMIC_RESOURCES, not_negative) {
        policy.margin = margin;
    }
    let weight = at("cpuSampleWeight");
    if let Some(text) = r.text(&weight) {
        if text == "Request" {
            policy.cpu_sample_weight = CpuSampleWeight::Request;
        } else if let Some(fixed) = positive_decimal(r, &weight, "cpu-sample-weight") {
            policy.cpu_sample_weight = CpuSampleWeight::Fixed(fixed);
        }
    }
    if let Some(samples) = r.choice(
        &at("memorySamples"),
        &[("PerScan", MemorySamples::PerScan), ("PeakPerInterval", MemorySamples::PeakPerInterval)],
    ) {
        policy.memory_samples = samples;
    }
    if let Some(history) = seconds(r, &at("minimumHistory"), 0) {
        policy.minimum_history = history;
    }
    if let Some(age) = seconds(r, &at("maximumAge"), 1) {
        policy.maximum_age = age;
    }
    policy
}

fn preset_values(preset: Preset) -> DynamicPolicy {
    const HOUR: i64 = 3_600;
    let ratio = |numerator| Ratio::new(numerator, 100).unwrap_or(Ratio::ONE);
    let seed = DynamicPolicy {
        resources: DYNAMIC_RESOURCES.into(),
        granularity: Granularity::Workload,
        preset,
        percentile: [(Resource::Cpu, 95), (Resource::Memory, 99)].into(),
        half_life: [(Resource::Cpu, 24 * HOUR), (Resource::Memory, 24 * HOUR)].into(),
        expansion: [(Resource::Cpu, ratio(115)), (Resource::Memory, ratio(115))].into(),
        margin: BTreeMap::new(),
        cpu_sample_weight: CpuSampleWeight::Request,
        memory_samples: MemorySamples::PerScan,
        minimum_history: 24 * HOUR,
        maximum_age: 8 * 24 * HOUR,
    };
    match preset {
        Preset::Seed => seed,
        Preset::Tuned => DynamicPolicy {
            percentile: [(Resource::Cpu, 95), (Resource::Memory, 90)].into(),
            half_life: [(Resource::Cpu, 6 * HOUR), (Resource::Memory, 168 * HOUR)].into(),
            expansion: [(Resource::Cpu, ratio(115)), (Resource::Memory, ratio(110))].into(),
            margin: amounts(50 * crate::resource::MILLI, 256 * MEBIBYTE),
            memory_samples: MemorySamples::PeakPerInterval,
            ..seed
        },
    }
}

fn amounts(cpu: i128, memory: i128) -> BTreeMap<Resource, Quantity> {
    [(Resource::Cpu, cpu), (Resource::Memory, memory)]
        .map(|(resource, nanos)| (resource, Quantity::from_nanos(nanos, resource.format())))
        .into()
}

fn by_resource<T>(
    r: &mut Reader,
    node: &Node<'_>,
    allowed: &[Resource],
    mut read: impl FnMut(&mut Reader, &Node<'_>) -> Option<T>,
) -> Option<BTreeMap<Resource, T>> {
    let map = r.map(node)?;
    let mut found = BTreeMap::new();
    for (key, value) in map {
        let item = Node { value: Some(value), path: format!("{}.{}", node.path, shown(key)) };
        let Some(resource) = Resource::from_name(key).filter(|x| allowed.contains(x)) else {
            let names: Vec<_> = allowed.iter().map(|x| x.name()).collect();
            r.problem(
                &item.path,
                "resource",
                format!("requests of {:?} are never lowered; use {}", shown(key), names.join(", ")),
            );
            continue;
        };
        if value.is_null() {
            r.problem(&item.path, "type", "null is no value; leave the resource out instead");
            continue;
        }
        if let Some(value) = read(r, &item) {
            found.insert(resource, value);
        }
    }
    Some(found)
}

fn quantity(r: &mut Reader, node: &Node<'_>) -> Option<Quantity> {
    let value = node.value?;
    let text = match value {
        Value::String(text) => text.trim_matches(' ').to_owned(),
        Value::Number(number) => number.to_string(),
        other => {
            r.problem(&node.path, "quantity", format!("{} is not a quantity", brief(other)));
            return None;
        }
    };
    Quantity::parse(&text).map_err(|error| r.problem(&node.path, "quantity", error.to_string())).ok()
}

fn not_negative(r: &mut Reader, node: &Node<'_>) -> Option<Quantity> {
    let amount = quantity(r, node)?;
    if amount.is_negative() {
        r.problem(&node.path, "range", format!("{amount} is negative; 0 or more is right"));
        return None;
    }
    Some(amount)
}

fn positive_decimal(r: &mut Reader, node: &Node<'_>, rule: &'static str) -> Option<Ratio> {
    let text = r.text(node)?;
    let limit = Ratio::new(1000, 1).unwrap_or(Ratio::ONE);
    match Ratio::parse_decimal(text) {
        Ok(ratio) if ratio > Ratio::ZERO && ratio <= limit => Some(ratio),
        Ok(_) => {
            r.problem(&node.path, rule, format!("{:?} is not above 0 and at most 1000", shown(text)));
            None
        }
        Err(error) => {
            r.problem(&node.path, rule, error.to_string());
            None
        }
    }
}

fn seconds(r: &mut Reader, node: &Node<'_>, at_least: i64) -> Option<i64> {
    if let Some(number @ Value::Number(_)) = node.value {
        let message = format!("{} has no unit; write s, m, h or d, as in \"24h\"", brief(number));
        r.problem(&node.path, "duration", message);
        return None;
    }
    let text = r.text(node)?;
    match parse_duration(text) {
        Ok(seconds) if seconds >= at_least => Some(seconds),
        Ok(_) => {
            r.problem(&node.path, "range", format!("{:?} is not above 0", shown(text)));
            None
        }
        Err(error) => {
            r.problem(&node.path, "duration", error.to_string());
            None
        }
    }
}
