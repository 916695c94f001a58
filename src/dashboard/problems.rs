//! What does not work, or not as it should, gathered from everywhere.

use maud::{Markup, html};

use super::View;
use super::format::{ago, counted, foreign, span};
use super::layout::badge;
use crate::api::Sources;
use crate::server::health::ConditionState;
use crate::status::State;

/// Samples older than this are told of where no part says how its source is: times that are stored may be six hours behind.
const OLD_USAGE: i64 = 7 * 3600;
/// Errors of admission longer ago than this are history; the page of decisions has them.
const RECENT_ERRORS: i64 = 3600;
/// So many problems of a kind are told of.
const MOST: usize = 10;

/// How bad something is; the worst comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// Something does not work.
    Failing,
    /// It works with something missing.
    Degraded,
    /// Worth knowing.
    Note,
}

impl Weight {
    /// Its word.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Failing => "Failing",
            Self::Degraded => "Degraded",
            Self::Note => "Note",
        }
    }

    /// What it is called in the style sheet.
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Failing => "bad",
            Self::Degraded => "warn",
            Self::Note => "info",
        }
    }
}

/// Something to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) weight: Weight,
    /// What it is about.
    pub(super) what: String,
    /// What is wrong, and what can be done.
    pub(super) why: String,
}

/// All of them, the worst first.
pub(super) fn all(view: &View<'_>) -> Vec<Problem> {
    let known = view.known;
    let mut found = Vec::new();
    let mut add = |weight, what: &str, why: String| {
        found.push(Problem { weight, what: what.to_owned(), why });
    };
    of_parts(known, &mut add);
    of_profiles(known, &mut add);
    if let Some(surveys) = &known.surveys {
        if let Some(problem) = surveys.problem() {
            add(Weight::Degraded, "figures of these pages", problem.to_string());
        }
        if let Some(survey) = surveys.last() {
            for problem in survey.problems.iter().take(MOST) {
                add(Weight::Degraded, "figures of these pages", problem.clone());
            }
            more(survey.problems.len(), "figures of these pages", &mut add);
        }
    }
    if known.status.is_none()
        && let Some(newest) = newest_sample(known)
    {
        let age = view.now.duration_since(newest);
        if age.as_secs() > OLD_USAGE {
            add(
                Weight::Degraded,
                "usage",
                format!(
                    "the newest sample of any recommendation is {} old; look at the log of the replica that \
                     recommends, and at its source of usage",
                    span(age)
                ),
            );
        }
    }
    let is_recent = |at: jiff::Timestamp| view.now.duration_since(at).as_secs() <= RECENT_ERRORS;
    let errors = known.decisions.newest_first().into_iter();
    let errors = errors.filter(|decided| decided.outcome == "error" && is_recent(decided.at));
    let errors: Vec<_> = errors.collect();
    if let Some(last) = errors.first() {
        let many = counted(errors.len(), "request");
        let why = format!(
            "{many} of the last ones ended in an error, the last {}: {}",
            ago(last.at, view.now),
            last.why
        );
        add(Weight::Degraded, "admission", why);
    }
    found.sort_by_key(|problem| problem.weight);
    found
}

/// What parts say of themselves; without that, what readiness says.
fn of_parts(known: &Sources, add: &mut impl FnMut(Weight, &str, String)) {
    if let Some(status) = &known.status {
        for part in status.status().parts.into_iter().filter(|part| !part.state.is_well()) {
            let weight = if part.state == State::Failed { Weight::Failing } else { Weight::Degraded };
            let nothing = || vec![format!("its state is {}", part.state)];
            let why = if part.why.is_empty() { nothing() } else { part.why };
            for why in why {
                add(weight, part.name.name(), why);
            }
        }
        return;
    }
    if let Some(why) = known.readiness.broken() {
        add(Weight::Failing, "this replica", format!("{why}; it asks to be restarted"));
    }
    for (name, state) in known.readiness.conditions() {
        match state {
            ConditionState::Ready => {}
            ConditionState::Degraded(why) => add(Weight::Degraded, &name, why),
            ConditionState::Missing(why) | ConditionState::Stuck(why) => add(Weight::Failing, &name, why),
        }
    }
}

fn more(all: usize, what: &str, add: &mut impl FnMut(Weight, &str, String)) {
    if all > MOST {
        add(Weight::Degraded, what, format!("and {} more like these", all - MOST));
    }
}

fn of_profiles(known: &Sources, add: &mut impl FnMut(Weight, &str, String)) {
    let objects = known.objects.load();
    for (name, problems) in objects.broken_profiles().iter().take(MOST) {
        let why = plimsoll_core::problem::join(problems);
        add(Weight::Degraded, &format!("profile {name}"), format!("not used: {why}"));
    }
    more(objects.broken_profiles().len(), "profiles", add);
    if objects.profiles().iter().next().is_none() {
        let why = "there is none that can be used, so no request is lowered; docs/semantics.md says how to write one";
        add(Weight::Note, "profiles", why.to_owned());
    }
}

/// The time of the newest sample of any recommendation.
pub(super) fn newest_sample(known: &Sources) -> Option<jiff::Timestamp> {
    let objects = known.objects.load();
    let containers = objects.all_recommendations().flat_map(|found| found.containers.values());
    containers.filter_map(|container| container.last_sample).max()
}

/// The list, or that there is none.
pub(super) fn list(problems: &[Problem]) -> Markup {
    html! {
        @if problems.is_empty() {
            p.well { (badge("good", "All well")) " Every condition holds, every profile can be used." }
        } @else {
            ul.problems {
                @for problem in problems {
                    li {
                        (badge(problem.weight.class(), problem.weight.word())) " "
                        strong { (foreign(&problem.what)) } ": " (foreign(&problem.why))
                    }
                }
            }
        }
    }
}
