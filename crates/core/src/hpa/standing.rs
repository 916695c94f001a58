//! Whether the pods of a shape are ours.

use std::sync::Arc;

use serde_json::Value;

use crate::admission::{Context, Match, Skip, matched};
use crate::hpa::{MetricKey, Shape, base, request};
use crate::keys;
use crate::overcommit::resources;
use crate::profile::{Basis, HpaMode, Profile};
use crate::resource::Resource;

/// How the pods of a shape stand to the profiles.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The profile that is applied to them.
    pub profile: Option<Arc<Profile>>,
    /// Why none is.
    pub skip: Option<Skip>,
    /// What is done about their autoscaler: as the profile says, else as the configuration does. What nobody serves here is
    /// not done: such autoscalers are converted, since a percentage of lowered requests would be the worst of all.
    pub mode: HpaMode,
    /// The mode that the profile asks for and nobody serves here.
    pub unserved: Option<HpaMode>,
    /// What their utilization is meant against: as the profile says, else as their record does.
    pub basis: Basis,
}

impl Standing {
    /// Whether a profile is applied to them. They need not be lowered for that: it may come.
    pub const fn is_ours(&self) -> bool {
        self.profile.is_some()
    }

    /// Whether a utilization of the resource means something else than what such pods request: it may be lowered, or
    /// is meant against the limit.
    pub(super) fn concerns(&self, resource: Resource) -> bool {
        self.basis == Basis::Limit
            || self.profile.as_ref().is_some_and(|profile| resources(profile).contains(&resource))
    }
}

/// How the pods of a shape stand to the profiles at this moment.
pub fn standing(shape: &Shape, namespace: &str, context: &Context<'_>) -> Standing {
    let mode = context.settings.hpa_mode;
    let Ok(view) = shape.view() else {
        let skip = Some(Skip::Malformed);
        return Standing { profile: None, skip, mode, unserved: None, basis: Basis::Request };
    };
    match matched(&view, namespace, context, &mut Vec::new()) {
        Match::Applies(profile, _) => {
            let asked = profile.hpa_mode.unwrap_or(mode);
            let unserved = Some(asked).filter(|asked| context.settings.hpa_unserved.contains(asked));
            Standing {
                profile: Some(Arc::clone(profile)),
                skip: None,
                mode: if unserved.is_some() { HpaMode::Convert } else { asked },
                unserved,
                basis: profile.basis,
            }
        }
        Match::Skipped(skip, _) => Standing {
            profile: None,
            skip: Some(skip),
            mode,
            unserved: None,
            basis: recorded_basis(view.annotation(keys::ORIGINAL_RESOURCES)),
        },
    }
}

fn recorded_basis(record: Option<&str>) -> Basis {
    let record: Value = record.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    match record.get("basis").and_then(Value::as_str) {
        Some("limit") => Basis::Limit,
        _ => Basis::Request,
    }
}

/// Whether such pods request less of what the metric is about than their author wrote.
pub(super) fn is_lowered(shape: &Shape, key: &MetricKey) -> bool {
    matches!(
        (request(shape, key), base(shape, key, Basis::Request)),
        (Ok(now), Ok(original)) if now < original
    )
}
