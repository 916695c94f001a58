//! Policies as they are named.

use std::collections::BTreeMap;

use plimsoll_quantity::Ratio;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::problem::Problem;
use crate::profile::{Profile, StaticPolicy, from_spec};
use crate::resource::Resource;
use crate::simulate::policy::{HalfLifePolicy, Policy, Quantile, Window};
use crate::usage::{DAY, ModelError};

/// The policies that have a name, in the order in which they are compared. `static` and `half-life` take options.
pub const NAMES: [&str; 9] =
    ["original", "static", "seed", "tuned", "half-life", "vpa", "krr", "max-ever", "oracle"];

/// The options of `half-life`, and the fields of a profile's `spec` that they stand for. Those of two resources can also be
/// named without one, for both.
pub const HALF_LIFE_OPTIONS: [(&str, &str); 15] = [
    ("preset", "dynamic.preset"),
    ("cpu-percentile", "dynamic.percentile.cpu"),
    ("memory-percentile", "dynamic.percentile.memory"),
    ("cpu-half-life", "dynamic.halfLife.cpu"),
    ("memory-half-life", "dynamic.halfLife.memory"),
    ("cpu-expansion", "dynamic.expansion.cpu"),
    ("memory-expansion", "dynamic.expansion.memory"),
    ("cpu-margin", "dynamic.margin.cpu"),
    ("memory-margin", "dynamic.margin.memory"),
    ("cpu-minimum", "static.minimum.cpu"),
    ("memory-minimum", "static.minimum.memory"),
    ("cpu-sample-weight", "dynamic.cpuSampleWeight"),
    ("memory-samples", "dynamic.memorySamples"),
    ("minimum-history", "dynamic.minimumHistory"),
    ("maximum-age", "dynamic.maximumAge"),
];

/// What the Vertical Pod Autoscaler does with its defaults.
const VPA: &str = "cpu-percentile=90,memory-percentile=90,half-life=24h,cpu-sample-weight=0.1,memory-samples=peak,\
                   expansion=1.15,cpu-minimum=25m,memory-minimum=250Mi,minimum-history=0s";

/// A policy that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// There is none of that name.
    #[error("{0:?} is no policy; there are {names}", names = NAMES.join(", "))]
    Unknown(String),
    /// It takes no options.
    #[error("{0} takes no options")]
    NoOptions(&'static str),
    /// An option that is none.
    #[error("{policy}: {option:?} is no option; there are {known}")]
    Option {
        /// Whose option.
        policy: &'static str,
        /// As it was given.
        option: String,
        /// What there is.
        known: String,
    },
    /// An option without a value.
    #[error("{policy}: {option} has no value; write {option}=VALUE, and commas between options")]
    NoValue {
        /// Whose option.
        policy: &'static str,
        /// As it was given.
        option: String,
    },
    /// An option twice.
    #[error("{policy}: {option} is there twice")]
    Twice {
        /// Whose option.
        policy: &'static str,
        /// As it was given.
        option: String,
    },
    /// A value that is none.
    #[error("{policy}: {option}: {reason}")]
    Value {
        /// Whose option.
        policy: &'static str,
        /// Which option.
        option: String,
        /// What would be right.
        reason: String,
    },
    /// A half-life out of bounds.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// The policy of a name, with options after a colon: `static:cpu=0.5,memory=1`, `half-life:cpu-percentile=90`.
///
/// # Errors
/// There is no such policy, or it has no such option, or not that value.
pub fn parse(text: &str) -> Result<Policy, ParseError> {
    let (name, options) = text.split_once(':').map_or((text, ""), |(name, options)| (name, options));
    let known = NAMES.into_iter().find(|known| *known == name);
    let name = known.ok_or_else(|| ParseError::Unknown(name.chars().take(80).collect()))?;
    if !(options.is_empty() || name == "static" || name == "half-life") {
        return Err(ParseError::NoOptions(name));
    }
    match name {
        "static" => by_factors(if options.is_empty() { "cpu=0.5,memory=1" } else { options }),
        "seed" => half_life("preset=seed"),
        "tuned" => half_life("preset=tuned"),
        "half-life" => half_life(options),
        "vpa" => half_life(VPA),
        "krr" => window(14 * DAY, (95.0, 1.0), (100.0, 1.15)),
        "max-ever" => window(i64::MAX, (100.0, 1.0), (100.0, 1.0)),
        "oracle" => Ok(Policy::Oracle { fixed: defaults()?.fixed }),
        _ => Ok(Policy::Original),
    }
}

fn window(span: i64, cpu: (f64, f64), memory: (f64, f64)) -> Result<Policy, ParseError> {
    let quantile = |(percent, expansion)| Quantile { percent, expansion };
    Ok(Policy::Window(Window {
        span,
        cpu: quantile(cpu),
        memory: quantile(memory),
        fixed: defaults()?.fixed,
    }))
}

fn defaults() -> Result<Profile, ParseError> {
    profile("half-life", &json!({}))
}

/// Options by their names; none twice.
fn split<'t>(policy: &'static str, text: &'t str) -> Result<Vec<(&'t str, &'t str)>, ParseError> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    for option in text.split(',').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if value.is_empty() {
            return Err(ParseError::NoValue { policy, option: name.to_owned() });
        }
        if found.iter().any(|(earlier, _)| *earlier == name) {
            return Err(ParseError::Twice { policy, option: name.to_owned() });
        }
        found.push((name, value));
    }
    Ok(found)
}

fn by_factors(options: &str) -> Result<Policy, ParseError> {
    let policy = "static";
    let mut factors = BTreeMap::new();
    for (name, value) in split(policy, options)? {
        let option = || name.to_owned();
        let resource = match name {
            "cpu" => Resource::Cpu,
            "memory" => Resource::Memory,
            _ => {
                return Err(ParseError::Option { policy, option: option(), known: "cpu, memory".to_owned() });
            }
        };
        let factor = Ratio::parse_decimal(value).map_err(|error| error.to_string()).and_then(|factor| {
            let good = factor > Ratio::ZERO && factor <= Ratio::ONE;
            good.then_some(factor).ok_or_else(|| format!("{value:?} is not above 0 and at most 1"))
        });
        let factor = factor.map_err(|reason| ParseError::Value { policy, option: option(), reason })?;
        factors.insert(resource, factor);
    }
    let fixed: StaticPolicy = defaults()?.fixed;
    Ok(Policy::Static { factors, fixed })
}

fn half_life(options: &str) -> Result<Policy, ParseError> {
    let policy = "half-life";
    let mut spec = json!({"static": {}, "dynamic": {}});
    for (name, value) in split(policy, options)? {
        let fields = fields(name);
        if fields.is_empty() {
            let known: Vec<_> = HALF_LIFE_OPTIONS.iter().map(|(name, _)| *name).collect();
            return Err(ParseError::Option { policy, option: name.to_owned(), known: known.join(", ") });
        }
        for (option, field) in fields {
            set(&mut spec, field, word(option, value));
        }
    }
    let mut profile = profile(policy, &spec)?;
    complete(&mut profile, &spec)?;
    Ok(Policy::HalfLife(Box::new(HalfLifePolicy::of_profile(&profile)?)))
}

/// The fields that an option stands for.
fn fields(name: &str) -> Vec<(&'static str, &'static str)> {
    let stands = |option: &str| {
        option == name
            || ["cpu-", "memory-"].iter().any(|resource| option.strip_prefix(resource) == Some(name))
                && !matches!(option, "cpu-sample-weight" | "memory-samples")
    };
    HALF_LIFE_OPTIONS.into_iter().filter(|(option, _)| stands(option)).collect()
}

/// A value as profiles have it.
fn word(option: &str, value: &str) -> Value {
    let words: &[(&str, &str)] = match option {
        "preset" => &[("seed", "Seed"), ("tuned", "Tuned")],
        "cpu-sample-weight" => &[("request", "Request")],
        "memory-samples" => &[("per-scan", "PerScan"), ("peak", "PeakPerInterval")],
        "cpu-percentile" | "memory-percentile" => {
            return value.parse::<i64>().map_or_else(|_| json!(value), |percent| json!(percent));
        }
        _ => &[],
    };
    let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(value));
    json!(found.map_or(value, |(_, word)| word))
}

fn set(spec: &mut Value, field: &str, value: Value) {
    let mut at = spec;
    for part in field.split('.') {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(members) = at else { return };
        at = members.entry(part).or_insert(Value::Null);
    }
    *at = value;
}

/// A map of a profile replaces its default; an option for one resource leaves the other alone.
fn complete(profile: &mut Profile, spec: &Value) -> Result<(), ParseError> {
    let preset = spec.pointer("/dynamic/preset").cloned().unwrap_or(Value::Null);
    let base = self::profile("half-life", &json!({"dynamic": {"preset": preset}}))?;
    for (resource, expansion) in base.dynamic.expansion {
        profile.dynamic.expansion.entry(resource).or_insert(expansion);
    }
    for (resource, margin) in base.dynamic.margin {
        profile.dynamic.margin.entry(resource).or_insert(margin);
    }
    for (resource, minimum) in base.fixed.minimum {
        profile.fixed.minimum.entry(resource).or_insert(minimum);
    }
    Ok(())
}

fn profile(policy: &'static str, spec: &Value) -> Result<Profile, ParseError> {
    from_spec("simulate", spec).map_err(|problems| {
        let problem = problems.into_iter().next();
        let Problem { path, message, .. } =
            problem.unwrap_or_else(|| Problem::new("spec", "profile", "cannot be used"));
        let field = path.strip_prefix("spec.").unwrap_or(&path);
        let option = HALF_LIFE_OPTIONS.into_iter().find(|(_, known)| *known == field);
        ParseError::Value {
            policy,
            option: option.map_or(field, |(option, _)| option).to_owned(),
            reason: message,
        }
    })
}
