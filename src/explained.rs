//! A decision in words: the same ones for `plimsoll explain` and for the pages of the server.

use plimsoll_core::admission::{Decision, Outcome, WouldBe};
use plimsoll_core::overcommit::Plan;

/// What was decided about the pod of an object.
pub fn headline(title: &str, decision: &Decision) -> String {
    let profile = decision.answer.profile.as_deref();
    match (decision.answer.outcome, profile) {
        (Outcome::Skipped(skip), Some(profile)) => {
            format!("{title}: left untouched: {} (profile {profile})", skip.sentence())
        }
        (Outcome::Skipped(skip), None) => format!("{title}: left untouched: {}", skip.sentence()),
        (Outcome::Error, _) => {
            let why = decision.self_check.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("{title}: left untouched: {why}")
        }
        (Outcome::Denied, _) => {
            let refusal = decision.flavors.as_ref().and_then(|step| step.refusal.as_ref());
            format!("{title}: refused: {}", refusal.map(ToString::to_string).unwrap_or_default())
        }
        (outcome, profile) => format!("{title}: {} (profile {})", outcome.word(), profile.unwrap_or("none")),
    }
}

/// What was planned for the pod's requests, or would be were the profile applied.
pub fn requests(decision: &Decision) -> &Plan {
    match &decision.would_be {
        Some(WouldBe::Planned(plan)) => plan,
        _ => &decision.plan,
    }
}

/// That [`requests`] are not applied, and when they would be.
pub fn would_be(decision: &Decision) -> Option<String> {
    match decision.would_be.as_ref()? {
        WouldBe::Planned(plan) if plan.lines.is_empty() => {
            Some("Nothing is applied. With apply: true nothing would be lowered either.".to_owned())
        }
        WouldBe::Planned(_) => Some("Nothing is applied. With apply: true it would be:".to_owned()),
        WouldBe::Skipped(skip) => Some(format!(
            "Nothing is applied. With apply: true it would be left untouched as well: {}",
            skip.sentence()
        )),
    }
}

/// What flavors did, if they did anything.
pub fn nodes(decision: &Decision) -> Option<String> {
    let step = decision.flavors.as_ref().filter(|step| step.refusal.is_none())?;
    let placement = step.placement.as_ref()?;
    let how = if step.changed { "added to the node affinity" } else { "the pod asks for them itself" };
    Some(format!("NODES: {placement} ({}): {how}", placement.levels()))
}
