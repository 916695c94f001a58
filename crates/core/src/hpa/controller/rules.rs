//! How far and how fast may be scaled.

use plimsoll_quantity::Quantity;
use serde_json::Value;

use super::{Limit, Scaling};

/// By how much the ratio may be off 1 without anything being done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Above 1.
    pub up: f64,
    /// Below 1.
    pub down: f64,
}

impl Default for Tolerance {
    /// The controller's own default.
    fn default() -> Self {
        Self { up: 0.1, down: 0.1 }
    }
}

impl Tolerance {
    /// Whether nothing is done at this ratio.
    pub fn contains(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// `spec.behavior`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behavior {
    /// `scaleUp`
    pub up: Rules,
    /// `scaleDown`
    pub down: Rules,
}

/// How fast may be scaled in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Which policy holds where there are several.
    pub select: Select,
    /// The policies.
    pub policies: Vec<Policy>,
}

/// Which of several policies holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// The one that allows most.
    Max,
    /// The one that allows least.
    Min,
    /// None: this direction is switched off.
    Disabled,
}

/// By how much the replicas may change within a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// So many pods.
    Pods(i32),
    /// So many per cent of the pods there are.
    Percent(i32),
}

impl Scaling {
    /// Reads the spec of an HPA of any version, with the defaults of the API; what is malformed counts as absent.
    /// `current` is the target's `spec.replicas`.
    pub fn read(spec: &Value, current: i32) -> Self {
        let number = |key: &str| spec.get(key).and_then(int);
        let behavior = spec.get("behavior").filter(|behavior| behavior.is_object());
        let rules = |key: &str| behavior.and_then(|behavior| behavior.get(key));
        let tolerance = |key: &str| rules(key).and_then(|rules| fraction(rules.get("tolerance")?));
        let usual = Tolerance::default();
        Self {
            current,
            min: number("minReplicas").unwrap_or(1),
            max: number("maxReplicas").unwrap_or(i32::MAX),
            tolerance: Tolerance {
                up: tolerance("scaleUp").unwrap_or(usual.up),
                down: tolerance("scaleDown").unwrap_or(usual.down),
            },
            behavior: behavior.map(|_| Behavior {
                up: Rules::read(rules("scaleUp"), &[Policy::Pods(4), Policy::Percent(100)]),
                down: Rules::read(rules("scaleDown"), &[Policy::Percent(100)]),
            }),
        }
    }
}

fn int(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|value| i32::try_from(value).ok())
}

/// A quantity, as a text or a bare number.
fn fraction(value: &Value) -> Option<f64> {
    let quantity: Quantity = serde_json::from_value(value.clone()).ok()?;
    #[expect(clippy::cast_precision_loss, reason = "a tolerance is a small number")]
    let fraction = quantity.nanos() as f64 / 1e9;
    Some(fraction)
}

impl Rules {
    fn read(rules: Option<&Value>, usual: &[Policy]) -> Self {
        let field = |key: &str| rules.and_then(|rules| rules.get(key));
        let select = match field("selectPolicy").and_then(Value::as_str) {
            Some("Min") => Select::Min,
            Some("Disabled") => Select::Disabled,
            _ => Select::Max,
        };
        let policies = field("policies").and_then(Value::as_array).map(|policies| {
            let read = |policy: &Value| {
                let value = policy.get("value").and_then(int)?;
                match policy.get("type").and_then(Value::as_str)? {
                    "Pods" => Some(Policy::Pods(value)),
                    "Percent" => Some(Policy::Percent(value)),
                    _ => None,
                }
            };
            policies.iter().filter_map(read).collect()
        });
        Self { select, policies: policies.unwrap_or_else(|| usual.to_vec()) }
    }

    /// The most replicas there may be after a step from `current`.
    fn highest(&self, current: i32) -> i32 {
        let reached = self.policies.iter().map(|policy| match policy {
            Policy::Pods(pods) => current.saturating_add(*pods),
            // Rounded up, or few replicas would never become more.
            Policy::Percent(percent) => whole((f64::from(current) * (1.0 + share(*percent))).ceil()),
        });
        match self.select {
            Select::Max => reached.max().unwrap_or(i32::MIN),
            Select::Min => reached.min().unwrap_or(i32::MAX),
            Select::Disabled => current,
        }
        .max(current)
    }

    /// The fewest.
    fn lowest(&self, current: i32) -> i32 {
        let reached = self.policies.iter().map(|policy| match policy {
            Policy::Pods(pods) => current.saturating_sub(*pods),
            Policy::Percent(percent) => whole(f64::from(current) * (1.0 - share(*percent))),
        });
        match self.select {
            Select::Max => reached.min().unwrap_or(i32::MAX),
            Select::Min => reached.max().unwrap_or(i32::MIN),
            Select::Disabled => current,
        }
        .min(current)
    }
}

fn share(percent: i32) -> f64 {
    f64::from(percent) / 100.0
}

/// Cut to a whole number.
fn whole(replicas: f64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "too many become the most there can be")]
    let replicas = replicas as i32;
    replicas
}

/// How many of the wanted replicas there may be after this step, and what bounds it.
pub(super) fn bounded(scaling: &Scaling, wanted: i32) -> (i32, Option<Limit>) {
    let Scaling { current, min, max, behavior, .. } = scaling;
    let Some(behavior) = behavior else {
        let highest = current.saturating_mul(2).max(4);
        return match wanted {
            _ if wanted < *min => (*min, Some(Limit::Minimum)),
            _ if wanted > highest.min(*max) && *max > highest => (highest, Some(Limit::UpRate)),
            _ if wanted > *max => (*max, Some(Limit::Maximum)),
            _ => (wanted, None),
        };
    };
    if wanted > *current {
        let highest = behavior.up.highest(*current);
        let (most, limit) = if *max > highest { (highest, Limit::UpRate) } else { (*max, Limit::Maximum) };
        if wanted > most {
            return (most, Some(limit));
        }
    } else if wanted < *current {
        let lowest = behavior.down.lowest(*current);
        let (fewest, limit) = if *min < lowest { (lowest, Limit::DownRate) } else { (*min, Limit::Minimum) };
        if wanted < fewest {
            return (fewest, Some(limit));
        }
    }
    (wanted, None)
}
