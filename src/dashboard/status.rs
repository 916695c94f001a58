//! `/status`: whether everything works, part by part.

use jiff::Timestamp;
use maud::{Markup, html};

use super::format::{count, foreign, moment, number, visible};
use super::layout::{Page, badge, nothing, section};
use super::table::scrolled;
use super::{View, problems};
use crate::server::health::ConditionState;
use crate::status::{State, Status};

pub(super) fn page(view: &View<'_>) -> Page {
    let known = view.known;
    let is_ready = known.readiness.is_ready();
    let lead = html! {
        @if is_ready { (badge("good", "Ready")) " This replica serves." }
        @else { (badge("bad", "Not ready")) " This replica is not asked for decisions until every condition holds." }
    };
    let body = html! {
        (section("attention", "What needs attention", &problems::list(&problems::all(view))))
        @if let Some(status) = &known.status { (section("parts", "Parts", &parts(&status.status(), view.now))) }
        (section("conditions", "Conditions of readiness", &conditions(view)))
        (section("profiles", "Profiles", &profiles(view)))
        (section("known", "What is known", &facts(view)))
    };
    Page { title: "Status".to_owned(), lead, body }
}

/// Every part, also those that are off.
fn parts(status: &Status, now: Timestamp) -> Markup {
    let time = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
    let table = html! {
        table {
            caption { "As plimsoll status says it, of replica " (foreign(&status.replica)) }
            thead {
                tr { @for name in ["Part", "State", "Why", "Age of what it goes by", "Certificate until", "Leader", "Last error"] { th scope="col" { (name) } } }
            }
            tbody {
                @for part in &status.parts {
                    tr {
                        th scope="row" { (part.name.name()) }
                        td { (badge(colour(part.state), word(part.state))) }
                        td.why {
                            @for why in &part.why { (foreign(why)) " " }
                            @if let Some(since) = time(&part.since) { span.muted { "(began " (moment(since, now)) ")" } }
                        }
                        td { @if let Some(age) = part.age_seconds { (number(age)) " s" } }
                        td { @if let Some(until) = time(&part.not_after) { (until.strftime("%Y-%m-%d %H:%M UTC").to_string()) } }
                        td { (foreign(part.holder.as_deref().unwrap_or_default())) }
                        td.why {
                            @if let Some(error) = &part.last_error {
                                (foreign(&error.message))
                                @if let Ok(at) = error.at.parse() { " " span.muted { (moment(at, now)) } }
                            }
                        }
                    }
                }
            }
        }
    };
    scrolled("Parts", &table)
}

const fn word(state: State) -> &'static str {
    match state {
        State::NotLeader => "Led elsewhere",
        other => other.word(),
    }
}

const fn colour(state: State) -> &'static str {
    match state {
        State::Off | State::NotLeader => "plain",
        State::Healthy => "good",
        State::Unknown | State::Degraded => "warn",
        State::Failed => "bad",
    }
}

fn conditions(view: &View<'_>) -> Markup {
    let conditions = view.known.readiness.conditions();
    let table = html! {
        table {
            caption { "As /readyz says it" }
            thead { tr { @for name in ["Condition", "State", "Why"] { th scope="col" { (name) } } } }
            tbody {
                @for (name, state) in &conditions {
                    @let (class, word, why) = match state {
                        ConditionState::Ready => ("good", "Holds", ""),
                        ConditionState::Degraded(why) => ("warn", "Degraded", why.as_str()),
                        ConditionState::Missing(why) | ConditionState::Stuck(why) => ("bad", "Does not hold", why.as_str()),
                    };
                    tr {
                        th scope="row" { (foreign(name)) }
                        td { (badge(class, word)) }
                        td.why { (foreign(why)) }
                    }
                }
            }
        }
    };
    html! { @if conditions.is_empty() { (nothing("There are no conditions.")) } @else { (scrolled("Conditions", &table)) } }
}

fn profiles(view: &View<'_>) -> Markup {
    let objects = view.known.objects.load();
    let all: Vec<_> = objects.profiles().iter().collect();
    let broken = objects.broken_profiles();
    if all.is_empty() && broken.is_empty() {
        return nothing("There are no profiles, so no request is lowered.");
    }
    let table = html! {
        table {
            caption { "In the order in which they are asked" }
            thead { tr { @for name in ["Profile", "State", "Mode", "Priority", "Problem"] { th scope="col" { (name) } } } }
            tbody {
                @for profile in &all {
                    tr {
                        th scope="row" { (foreign(&profile.name)) }
                        td { @if profile.apply { (badge("good", "In use")) } @else { (badge("info", "Not applied")) } }
                        td { (format!("{:?}", profile.mode)) }
                        td { (profile.priority) }
                        td {}
                    }
                }
                @for (name, problems) in broken {
                    tr {
                        th scope="row" { (foreign(name)) }
                        td { (badge("bad", "Not used")) }
                        td {} td {}
                        td.why { (foreign(&plimsoll_core::problem::join(problems))) }
                    }
                }
            }
        }
    };
    scrolled("Profiles", &table)
}

fn facts(view: &View<'_>) -> Markup {
    let known = view.known;
    let objects = known.objects.load();
    let newest = problems::newest_sample(known);
    let ledger = known.ledger.load_full();
    html! {
        dl.facts {
            dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) }
            dt { "Recommendations" } dd { (count(objects.all_recommendations().count())) }
            dt { "Newest sample of usage" }
            dd { @match newest { Some(at) => { (moment(at, view.now)) } None => { "none is known" } } }
            dt { "Nodes" } dd { (count(objects.nodes().count())) @if known.placement.is_none() { " (placement is off)" } }
            dt { "Quota ledger" }
            dd { @match &ledger { Some(ledger) => { "read " (moment(ledger.at, view.now)) } None => { "none is known here" } } }
            dt { "Balance" }
            dd { (visible(if known.balance.is_some() { "on; see the nodes" } else { "off" })) }
            dt { "Decisions since the start" } dd { (count(known.decisions.made())) }
        }
    }
}
