//! Whether an autoscaler is converted, and against what.

use std::collections::BTreeMap;
use std::fmt;

use crate::admission::{Context, Skip};
use crate::hpa::standing::is_lowered;
use crate::hpa::{Hpa, MetricKey, Originals, Shape, Standing, base, request, standing};
use crate::profile::{Basis, HpaMode};

/// Pods of one shape.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Their shape.
    pub shape: &'a Shape,
    /// How many of them count: they are neither terminating nor finished.
    pub pods: u64,
}

/// What is known of what an autoscaler scales.
#[derive(Clone, Copy, Debug, Default)]
pub struct TargetFacts<'a> {
    /// Its pods. Empty also where pods are not looked at.
    pub pods: &'a [Seen<'a>],
    /// The pods that its template makes, if it is known.
    pub template: Option<&'a Shape>,
}

/// What is to become of an autoscaler's targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What it scales is not known: what was converted stays, what is new waits.
    Unknown,
    /// It is not ours to convert: what was converted is restored.
    Restore(Why),
    /// It is converted.
    Convert(Bases),
}

/// Why targets are as their author wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// No profile is applied to its pods.
    NotOurs(Skip),
    /// Its profile, or the configuration, has another mode.
    Mode(HpaMode),
    /// Its annotation opts it out.
    OptedOut,
    /// Somebody asked for it.
    Asked,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOurs(skip) => write!(f, "no profile is applied to its pods: {}", skip.sentence()),
            Self::Mode(mode) => write!(f, "its mode is {}", mode.name()),
            Self::OptedOut => f.write_str("its annotation opts it out"),
            Self::Asked => f.write_str("it was asked for"),
        }
    }
}

/// What the targets of an autoscaler are of, by metric. A metric that is not in it waits until more is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bases(pub BTreeMap<MetricKey, KeyBase>);

/// What the target of one metric is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyBase {
    /// Of this.
    Known(MeanBase),
    /// A pod has no such figure.
    Missing {
        /// What is missing.
        why: String,
        /// Whether the controller cannot divide either: then it has to say so, and the target must be a utilization.
        native: bool,
    },
    /// Nothing that the metric is about is ever lowered: its target stays as its author wrote it.
    AsWritten,
}

/// A mean, kept as what it is the quotient of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeanBase {
    /// Which figures it is of; none if of requests for some pods and of limits for others.
    pub basis: Option<Basis>,
    /// The sum over the pods, in nano-units.
    pub sum: i128,
    /// How many pods; at least 1.
    pub pods: u64,
}

/// What is to become of an autoscaler's targets, by what its pods are, or without pods by its template.
pub fn judge(hpa: &Hpa, target: &TargetFacts<'_>, context: &Context<'_>) -> Verdict {
    if hpa.opted_out {
        return Verdict::Restore(Why::OptedOut);
    }
    let of = |shape| standing(shape, &hpa.namespace, context);
    let template = target.template.map(|shape| (Seen { shape, pods: 1 }, of(shape)));
    let pods: Vec<_> = target.pods.iter().map(|seen| (*seen, of(seen.shape))).collect();
    let judged: Vec<_> = if pods.is_empty() { template.iter().cloned().collect() } else { pods };
    if judged.is_empty() || judged.iter().any(|(_, stand)| stand.skip == Some(Skip::UnknownNamespace)) {
        return Verdict::Unknown;
    }
    // Of several modes that of the newest pods counts, which the template makes.
    let by_priority =
        |(_, stand): &&(Seen<'_>, Standing)| stand.profile.as_ref().map(|profile| profile.priority);
    let leading = template
        .as_ref()
        .filter(|(_, stand)| stand.is_ours())
        .or_else(|| judged.iter().filter(|(_, stand)| stand.is_ours()).max_by_key(by_priority));
    let keys = hpa.keys();
    let is_lowered = |key: &MetricKey| judged.iter().any(|(seen, _)| is_lowered(seen.shape, key));
    let mode = if let Some((_, stand)) = leading {
        stand.mode
    } else {
        // The profile is gone, or everybody has opted out. Pods keep what they request until they are made anew: as
        // long as one of them requests less than was written, the utilization means something else.
        if !was_converted(hpa) || !keys.iter().any(is_lowered) {
            let skip = judged.iter().find_map(|(_, stand)| stand.skip).unwrap_or(Skip::NoProfile);
            return Verdict::Restore(Why::NotOurs(skip));
        }
        HpaMode::Convert
    };
    if mode != HpaMode::Convert {
        return Verdict::Restore(Why::Mode(mode));
    }
    let bases = keys.into_iter().map(|key| {
        let is_concerned = judged.iter().any(|(_, stand)| stand.concerns(key.resource)) || is_lowered(&key);
        let base = if is_concerned { mean(&judged, &key) } else { KeyBase::AsWritten };
        (key, base)
    });
    Verdict::Convert(Bases(bases.collect()))
}

fn was_converted(hpa: &Hpa) -> bool {
    let originals = hpa.original.as_deref().map(Originals::read);
    originals.and_then(Result::ok).is_some_and(|originals| originals.has_written())
}

/// The mean base of one metric over pods, each against the basis that it stands under.
fn mean(judged: &[(Seen<'_>, Standing)], key: &MetricKey) -> KeyBase {
    sum(judged, key).map_or_else(
        |why| {
            let native = judged.iter().any(|(seen, _)| request(seen.shape, key).is_err());
            KeyBase::Missing { why, native }
        },
        KeyBase::Known,
    )
}

fn sum(judged: &[(Seen<'_>, Standing)], key: &MetricKey) -> Result<MeanBase, String> {
    let mut mean = MeanBase { basis: judged.first().map(|(_, stand)| stand.basis), sum: 0, pods: 0 };
    for (seen, stand) in judged {
        let one = base(seen.shape, key, stand.basis).map_err(|error| error.to_string())?;
        if mean.basis != Some(stand.basis) {
            mean.basis = None;
        }
        let sum = one.checked_mul(i128::from(seen.pods)).and_then(|these| mean.sum.checked_add(these));
        mean.sum = sum.ok_or_else(|| format!("the {key} figures of the pods are beyond all quantities"))?;
        mean.pods = mean.pods.saturating_add(seen.pods);
    }
    if mean.pods == 0 { Err("it has no pods".to_owned()) } else { Ok(mean) }
}
