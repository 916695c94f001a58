//! The factor by which the controller is told scaled usage, where targets are left alone.
//!
//! The controller divides the sum of usage by the sum of what pods request now, `sum(q)`. It was meant to divide by the
//! sum of their bases, `sum(B)`. So it is told usage times `sum(q) / sum(B)`, one factor for all pods of an answer:
//! factors of each pod would give a mean of ratios, which is not what was meant either.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use plimsoll_quantity::{Ratio, Rounding, scale};
use thiserror::Error;

use crate::admission::{Context, Skip};
use crate::hpa::standing::is_lowered;
use crate::hpa::{
    Hpa, MetricKey, MetricTarget, Seen, Standing, TargetFacts, Verdict, Why, base, judge, request, standing,
};
use crate::objects::WorkloadKind;
use crate::pod::topmost_owner;
use crate::profile::HpaMode;
use crate::resource::{MILLI, Resource, UNIT};

/// What becomes of the usage of one resource in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// That of all containers is multiplied.
    Pods(Ratio),
    /// That of these containers is multiplied, each by its own.
    Containers(BTreeMap<String, Ratio>),
    /// Nothing is done.
    Unscaled(Unscaled),
}

/// Why usage is told as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unscaled {
    /// Their autoscalers do not look at it.
    NotUsed,
    /// What pods request is what it is meant against.
    NotLowered,
    /// Their mode is another one, or none is known to scale them.
    OtherMode,
    /// An autoscaler of these pods has a target in absolute terms, which scaled usage would falsify.
    AverageValue {
        /// The autoscalers whose utilization now means something else; often none.
        lost: Vec<String>,
        /// Those that have such targets only, and keep their meaning by it.
        kept: Vec<String>,
    },
    /// Autoscalers of these pods look at pods and at containers, or in several ways at one, and no factor is right for
    /// all.
    Mixed {
        /// The autoscalers.
        lost: Vec<String>,
    },
    /// A pod does not say what its usage is meant against.
    NoBase {
        /// The autoscalers.
        lost: Vec<String>,
        /// What is missing.
        missing: String,
    },
}

impl Unscaled {
    /// The autoscalers whose meaning is not kept; whoever looks at them should be told.
    pub fn lost(&self) -> &[String] {
        match self {
            Self::AverageValue { lost, .. } | Self::Mixed { lost } | Self::NoBase { lost, .. } => lost,
            Self::NotUsed | Self::NotLowered | Self::OtherMode => &[],
        }
    }
}

impl Unscaled {
    /// The autoscalers whose meaning is kept by it; that it is done may surprise all the same.
    pub fn kept(&self) -> &[String] {
        if let Self::AverageValue { kept, .. } = self { kept } else { &[] }
    }
}

impl fmt::Display for Unscaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUsed => f.write_str("no autoscaler looks at it"),
            Self::NotLowered => f.write_str("nothing is lowered"),
            Self::OtherMode => f.write_str("the mode is not Shim"),
            Self::AverageValue { lost, .. } if lost.is_empty() => {
                f.write_str("its target of type AverageValue is held against true usage, as it is meant")
            }
            Self::AverageValue { .. } => f.write_str(
                "a target of these pods is of type AverageValue, which scaled usage would falsify; write all targets of the \
                 resource as Utilization, or all as AverageValue",
            ),
            Self::Mixed { .. } => f.write_str(
                "targets for the pod and for a container would need different factors; write all of them for the pod, or \
                 all for containers",
            ),
            Self::NoBase { missing, .. } => f.write_str(missing),
        }
    }
}

/// Why it cannot be said what usage to tell. To tell the true one would make the controller double the pods.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotKnown {
    /// None of the pods.
    #[error("none of the pods is known")]
    Pods,
    /// Their namespace.
    #[error("namespace {0} is not known")]
    Namespace(String),
    /// The autoscaler that looks at them.
    #[error("the autoscaler of the pods is not known")]
    Autoscaler,
}

/// What becomes of the usage of a resource in an answer about these pods, which are of one namespace. Pods of the answer
/// that are not known are left out, and so are those that do not count.
///
/// # Errors
/// Too little is known.
pub fn scaling(
    namespace: &str,
    pods: &[Seen<'_>],
    resource: Resource,
    context: &Context<'_>,
) -> Result<Scaling, NotKnown> {
    if pods.iter().all(|seen| seen.pods == 0) {
        return Err(NotKnown::Pods);
    }
    let standings: Vec<_> = pods.iter().map(|seen| standing(seen.shape, namespace, context)).collect();
    if standings.iter().any(|stand| stand.skip == Some(Skip::UnknownNamespace)) {
        return Err(NotKnown::Namespace(namespace.to_owned()));
    }
    let found = autoscalers(namespace, pods, context);
    let uses = if found.is_empty() {
        // Nobody else asks for pods by this selector. It may be an autoscaler that was made just now.
        let pod = MetricKey::pod(resource);
        let shim = pods.iter().zip(&standings).any(|(seen, stand)| {
            stand.mode == HpaMode::Shim && (stand.is_ours() || is_lowered(seen.shape, &pod))
        });
        if !shim {
            return Ok(Scaling::Unscaled(Unscaled::OtherMode));
        }
        // Or one that scales something of a kind that is not followed here.
        let is_foreign = |hpa: &Arc<Hpa>| WorkloadKind::of(&hpa.target.group, &hpa.target.kind).is_none();
        if context.objects.hpas_in(namespace).any(is_foreign) {
            return Err(NotKnown::Autoscaler);
        }
        Uses { utilization: BTreeSet::from([pod]), ..Uses::default() }
    } else {
        let shim = found.iter().copied().filter(|hpa| is_shim(hpa, resource, pods, context));
        match Uses::of(shim, resource) {
            Some(uses) => uses,
            None => return Ok(Scaling::Unscaled(Unscaled::OtherMode)),
        }
    };
    Ok(uses.scaling(&|key| ratio(key, pods, &standings)))
}

/// The autoscalers that look at just these pods: their target selects them, or is the owner of them.
fn autoscalers<'a>(namespace: &str, pods: &[Seen<'_>], context: &Context<'a>) -> Vec<&'a Hpa> {
    let scales = |hpa: &Hpa| match context.objects.workload(namespace, &hpa.target) {
        Some(facts) if facts.selector.is_some() => {
            let selected =
                |seen: &Seen<'_>| facts.selector.as_ref().is_some_and(|s| seen.shape.selected_by(s));
            pods.iter().all(selected)
        }
        _ => pods.iter().all(|seen| {
            let owner = seen.shape.view().map(|view| topmost_owner(&view, namespace, context.objects));
            owner.is_ok_and(|owner| owner == hpa.target)
        }),
    };
    context.objects.hpas_in(namespace).map(AsRef::as_ref).filter(|hpa| scales(hpa)).collect()
}

fn is_shim(hpa: &Hpa, resource: Resource, pods: &[Seen<'_>], context: &Context<'_>) -> bool {
    let target = context.objects.workload(&hpa.namespace, &hpa.target);
    let template = target.and_then(|workload| workload.template.as_deref());
    let verdict = judge(hpa, &TargetFacts { pods, template }, context);
    match verdict {
        Verdict::Restore(Why::Mode(HpaMode::Shim)) => true,
        // One that is about to be converted still means a utilization.
        Verdict::Convert(_) => hpa.metrics.iter().any(|metric| {
            metric.key.as_ref().is_some_and(|key| key.resource == resource)
                && matches!(metric.target, MetricTarget::Utilization(_))
        }),
        Verdict::Restore(_) | Verdict::Unknown => false,
    }
}

/// How autoscalers look at one resource.
#[derive(Default)]
struct Uses {
    utilization: BTreeSet<MetricKey>,
    /// Whose they are.
    names: Vec<String>,
    /// Whether there is a target in absolute terms.
    absolute: bool,
    /// Whose it is, if they have no other.
    kept: Vec<String>,
}

impl Uses {
    /// `None` if there are no autoscalers.
    fn of<'a>(hpas: impl Iterator<Item = &'a Hpa>, resource: Resource) -> Option<Self> {
        let mut uses = None;
        for hpa in hpas {
            let uses = uses.get_or_insert_with(Self::default);
            let (mut looks, mut absolute) = (false, false);
            for metric in &hpa.metrics {
                let Some(key) = metric.key.as_ref().filter(|key| key.resource == resource) else { continue };
                match metric.target {
                    MetricTarget::Utilization(_) => {
                        looks = true;
                        uses.utilization.insert(key.clone());
                    }
                    MetricTarget::AverageValue(_) | MetricTarget::Other => absolute = true,
                }
            }
            uses.absolute |= absolute;
            if looks {
                uses.names.push(hpa.name.clone());
            } else if absolute {
                uses.kept.push(hpa.name.clone());
            }
        }
        uses
    }

    /// The scaling, with the factor of each key by `ratio`, or what is missing for it.
    fn scaling(self, ratio: &dyn Fn(&MetricKey) -> Result<Ratio, String>) -> Scaling {
        let Self { utilization, names, absolute, kept } = self;
        if utilization.is_empty() && !absolute {
            return Scaling::Unscaled(Unscaled::NotUsed);
        }
        let mut ratios = BTreeMap::new();
        for key in utilization {
            match ratio(&key) {
                Ok(ratio) => drop(ratios.insert(key.container, ratio)),
                Err(missing) => return Scaling::Unscaled(Unscaled::NoBase { lost: names, missing }),
            }
        }
        if ratios.values().all(|ratio| *ratio == Ratio::ONE) && !ratios.is_empty() {
            return Scaling::Unscaled(Unscaled::NotLowered);
        }
        if absolute {
            return Scaling::Unscaled(Unscaled::AverageValue { lost: names, kept });
        }
        match ratios.remove(&None) {
            Some(whole) if ratios.values().all(|ratio| *ratio == whole) => Scaling::Pods(whole),
            Some(_) => Scaling::Unscaled(Unscaled::Mixed { lost: names }),
            None => {
                let named = ratios.into_iter().filter_map(|(name, ratio)| Some((name?, ratio)));
                Scaling::Containers(named.collect())
            }
        }
    }
}

/// `sum(q) / sum(B)`
fn ratio(key: &MetricKey, pods: &[Seen<'_>], standings: &[Standing]) -> Result<Ratio, String> {
    let too_large = || format!("the {key} figures of the pods are beyond all quantities");
    let add = |sum: i128, one: i128, pods: u64| -> Result<i128, String> {
        one.checked_mul(pods.into()).and_then(|these| sum.checked_add(these)).ok_or_else(too_large)
    };
    let (mut requests, mut bases) = (0, 0);
    for (seen, stand) in pods.iter().zip(standings) {
        let now = request(seen.shape, key).map_err(|error| error.to_string())?;
        let meant = base(seen.shape, key, stand.basis).map_err(|error| error.to_string())?;
        (requests, bases) = (add(requests, now, seen.pods)?, add(bases, meant, seen.pods)?);
    }
    let positive = |sum: i128| u128::try_from(sum).ok().filter(|sum| *sum > 0);
    let ratio = positive(requests).zip(positive(bases)).and_then(|(num, den)| Ratio::new(num, den));
    ratio.ok_or_else(|| format!("the {key} figures of the pods are 0; set them in the pod template"))
}

/// Usage of one container times the factor, both in nano-units; rounded up to what such usage is written in: a nano-core
/// or a byte. `None` if that is beyond all quantities.
pub fn scaled(nanos: i128, factor: &Ratio, resource: Resource) -> Option<i128> {
    let step = if resource == Resource::Cpu { 1 } else { UNIT };
    scale(nanos, factor, step, Rounding::Up)
}

/// Usage in percent of what it is meant against, in nano-units of a percent, rounded up to a thousandth: the pods' mean
/// of `100 * usage * pods / bases` is `100` times the ratio of the sums. `None` where there is no such number.
pub fn percent(usage: i128, pods: u64, bases: i128) -> Option<i128> {
    let den = u128::try_from(bases).ok()?;
    let num = u128::from(pods).checked_mul(100)?.checked_mul(UNIT.unsigned_abs())?;
    scale(usage, &Ratio::new(num, den)?, MILLI, Rounding::Up)
}
