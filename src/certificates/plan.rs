//! What is done next about the authorities: a pure function of the Secret, of every `caBundle`, and of the time.
//!
//! A rotation goes through these states, each of which lasts until the next step is safe:
//!
//! 1. **Make**: a new authority is put into the Secret beside the one in force. Nobody signs with it.
//! 2. **Publish**: every `caBundle` holds both.
//! 3. **Wait**: until every API server has heard of it (`publishFor`).
//! 4. **Switch**: the new one is in force; replicas sign with it as soon as they read it.
//! 5. **Wait**: until the last certificate that the former one signed has ended.
//! 6. **Drop**: the former one leaves the Secret, and then every `caBundle`.
//!
//! How long something has been so is measured by whoever looks, and begins anew with another leader: a wall clock may be
//! set, and another machine's may be wrong. That an authority has ended by this clock is a reason to make another one,
//! and none to wait less: if the clock is wrong, everybody else still goes by that authority.

use std::time::Duration;

use jiff::Timestamp;

use super::authority::{Root, SKEW};
use super::secret::{Authorities, Content};

/// How long the very first authority is published before it is used. No call could succeed before, by whatever clock, so
/// that there is none to be careful of.
const FIRST_WAIT: Duration = Duration::from_secs(2);
/// So many times `publishFor` before the authority in force ends, the next one is put in force although somebody cannot
/// be told of it: he fails at the end anyway, and the others shall not.
const LAST_CALL: u32 = 3;
/// So many former authorities are trusted at the same time; a further rotation waits.
pub const MOST_PREVIOUS: usize = 4;

/// How long things last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long an authority is valid. It is replaced when a fifth of that is left.
    pub authority_lifetime: Duration,
    /// How long a certificate of a replica is valid.
    pub certificate_lifetime: Duration,
    /// How long a new authority is published before anybody signs with it.
    pub publish_for: Duration,
}

impl Timing {
    /// What must be left of an authority's validity.
    #[must_use]
    pub fn margin(&self) -> Duration {
        self.authority_lifetime / 5
    }
}

/// What one object holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BundleState {
    /// It is not there, or none of it is ours.
    Absent,
    /// It could not be read just now; why. It may hold anything.
    Unknown(String),
    /// It may not be read or written by us; why, and what it holds as far as that is known.
    Closed(String, Vec<Root>),
    /// What each of its entries trusts; nothing where that cannot be read.
    Holds(Vec<Vec<Root>>),
}

/// One object with `caBundle`s of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Kind and name.
    pub at: String,
    /// What it holds.
    pub state: BundleState,
}

impl Bundle {
    /// Whether all of its entries trust exactly these.
    #[must_use]
    pub fn is(&self, wanted: &[Root]) -> bool {
        match &self.state {
            BundleState::Absent => true,
            BundleState::Unknown(_) | BundleState::Closed(..) => false,
            BundleState::Holds(entries) => entries.iter().all(|held| same(held, wanted)),
        }
    }

    /// Whether it can be made to.
    fn is_to_be_written(&self, wanted: &[Root]) -> bool {
        matches!(self.state, BundleState::Holds(_)) && !self.is(wanted)
    }
}

/// Whether two bundles hold the same, in whatever order.
#[must_use]
pub fn same(left: &[Root], right: &[Root]) -> bool {
    left.len() == right.len() && left.iter().all(|root| right.contains(root))
}

/// What is known.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What the Secret holds.
    pub content: &'a Content,
    /// What its annotation asks for.
    pub rotate: Option<&'a str>,
    /// What the objects hold that tell the API server whom to trust.
    pub bundles: &'a [Bundle],
    /// The time on the wall.
    pub now: Timestamp,
    /// For how long whoever looks has seen all of this to be so, without a gap.
    pub steady: Duration,
}

/// Why an authority is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is none.
    First,
    /// That in force ends soon.
    Ending,
    /// That in force, or the next one, has ended, or begins only later.
    Ended,
    /// Somebody asked for it.
    Asked,
}

impl Reason {
    /// For people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::First => "there is none",
            Self::Ending => "the one in force ends soon",
            Self::Ended => "the one that was there has ended, or begins only later by this clock",
            Self::Asked => "the annotation plimsoll.dev/rotate asks for it",
        }
    }
}

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A new authority is made and put into the Secret; `keep` stay trusted.
    Make {
        /// What the `caBundle`s hold and the Secret does not know: somebody may still serve a certificate from it.
        keep: Vec<Root>,
        /// Why.
        reason: Reason,
    },
    /// These stay trusted too, and the Secret says so from now on: some `caBundle` held them and nothing of ours, so that
    /// somebody may serve certificates from them.
    Adopt(Vec<Root>),
    /// The `caBundle`s that hold something else are written.
    Publish(Vec<Root>),
    /// Nothing yet; why, and for how long at most. No time: until something changes.
    Wait(&'static str, Option<Duration>),
    /// A new authority is wanted or on its way, and cannot go on; what is in the way.
    Blocked(String),
    /// The published authority is put in force.
    Switch,
    /// The former authorities are no longer trusted.
    Drop,
    /// All is as it should be.
    Nothing,
}

/// Decides.
#[must_use]
pub fn next(view: &View<'_>, timing: &Timing) -> Step {
    let nothing = Authorities::default();
    let authorities = match view.content {
        Content::Ours(authorities) => authorities,
        Content::Empty => &nothing,
    };
    if let Some(reason) = why_make(authorities, view, timing) {
        if reason == Reason::Asked && authorities.previous.len() >= MOST_PREVIOUS {
            let why = "a rotation is asked for; it waits until former authorities are no longer trusted";
            return keep(authorities, view, timing).unwrap_or(Step::Wait(why, None));
        }
        let keep = match reason {
            // What is trusted now must be known, since it is to be kept.
            Reason::First | Reason::Ended => match held_elsewhere(view, authorities) {
                Ok(keep) => keep,
                Err(why) => return Step::Blocked(why.to_owned()),
            },
            Reason::Ending | Reason::Asked => Vec::new(),
        };
        return Step::Make { keep, reason };
    }
    keep(authorities, view, timing).unwrap_or(Step::Nothing)
}

fn why_make(authorities: &Authorities, view: &View<'_>, timing: &Timing) -> Option<Reason> {
    let asked = view.rotate.is_some_and(|rotate| rotate != authorities.rotated);
    match (&authorities.current, &authorities.next) {
        // One that is on its way is finished first.
        (_, Some(next)) => (!next.root().is_valid(view.now)).then_some(Reason::Ended),
        (None, None) => Some(Reason::First),
        (Some(current), None) => {
            // One that begins later was made by a clock that was ahead: nobody accepts what it signs.
            if !current.root().is_valid(view.now) {
                Some(Reason::Ended)
            } else if left_of(current.root(), view.now) < timing.margin() {
                Some(Reason::Ending)
            } else {
                asked.then_some(Reason::Asked)
            }
        }
    }
}

/// How long it is valid yet.
fn left_of(root: &Root, now: Timestamp) -> Duration {
    root.not_after().duration_since(now).try_into().unwrap_or_default()
}

/// What the `caBundle`s hold and stands in no Secret: a Secret that was emptied, or another source of certificates that
/// replicas still have.
fn held_elsewhere<'a>(view: &View<'a>, authorities: &Authorities) -> Result<Vec<Root>, &'a str> {
    let known = authorities.bundle();
    let mut found: Vec<Root> = Vec::new();
    let mut note = |root: &Root| {
        if !known.contains(root) && !found.contains(root) {
            found.push(root.clone());
        }
    };
    for bundle in view.bundles {
        match &bundle.state {
            BundleState::Absent => {}
            BundleState::Unknown(why) => return Err(why),
            BundleState::Closed(_, held) => held.iter().for_each(&mut note),
            BundleState::Holds(entries) => entries.iter().flatten().for_each(&mut note),
        }
    }
    Ok(first_of(found, view, MOST_PREVIOUS))
}

/// No more than so many: rather those that have not ended by this clock.
fn first_of(mut found: Vec<Root>, view: &View<'_>, most: usize) -> Vec<Root> {
    found.sort_by_key(|root| root.has_ended(view.now));
    found.truncate(most);
    found
}

/// What roots stand in entries in which nothing is ours: another source wrote them, and its replicas may still
/// serve. Beside one of ours they are what was dropped, or somebody's edit.
fn of_another_source(view: &View<'_>, authorities: &Authorities) -> Vec<Root> {
    let known = authorities.bundle();
    let mut found: Vec<Root> = Vec::new();
    for bundle in view.bundles {
        let BundleState::Holds(entries) = &bundle.state else { continue };
        for root in entries.iter().filter(|entry| !entry.iter().any(|root| known.contains(root))).flatten() {
            if !found.contains(root) {
                found.push(root.clone());
            }
        }
    }
    first_of(found, view, MOST_PREVIOUS.saturating_sub(authorities.previous.len()))
}

/// What is done about the authorities that there are, if anything.
fn keep(authorities: &Authorities, view: &View<'_>, timing: &Timing) -> Option<Step> {
    let wanted = authorities.bundle();
    if view.bundles.iter().any(|bundle| bundle.is_to_be_written(&wanted)) {
        let others = of_another_source(view, authorities);
        if !others.is_empty() {
            return Some(Step::Adopt(others));
        }
        return Some(Step::Publish(wanted));
    }
    if authorities.next.is_some() {
        return Some(on_the_way(authorities, view, timing));
    }
    if authorities.previous.is_empty() {
        return None;
    }
    let why = "certificates of the former authority have not all ended";
    let long = timing.certificate_lifetime + timing.publish_for;
    let seen = long.saturating_sub(view.steady);
    // What another clock wrote is believed where an hour more or less does not matter.
    let written = authorities.switched.map_or(seen, |switched| {
        let since = Duration::try_from(view.now.duration_since(switched)).unwrap_or_default();
        (long + SKEW).saturating_sub(since)
    });
    let left = seen.min(written).max(timing.publish_for.saturating_sub(view.steady));
    Some(if left.is_zero() { Step::Drop } else { Step::Wait(why, Some(left)) })
}

fn on_the_way(authorities: &Authorities, view: &View<'_>, timing: &Timing) -> Step {
    let current = authorities.current.as_ref().map(|current| current.root());
    // Also one that has ended or begins later may be in use: by this clock only.
    let trusted_before = current.is_some() || !authorities.previous.is_empty();
    // Of that which works now nothing is given up while there is time to mend what is in the way.
    let has_time = trusted_before
        && current.is_none_or(|current| {
            current.is_valid(view.now) && left_of(current, view.now) >= timing.publish_for * LAST_CALL
        });
    let in_the_way = view.bundles.iter().find_map(|bundle| match &bundle.state {
        BundleState::Unknown(why) => Some(why),
        // Where nothing works yet, or nothing will soon, what can be published is better than nothing.
        BundleState::Closed(why, _) => Some(why).filter(|_| has_time),
        BundleState::Absent | BundleState::Holds(_) => None,
    });
    if let Some(why) = in_the_way {
        return Step::Blocked(why.clone());
    }
    let long = if trusted_before { timing.publish_for } else { timing.publish_for.min(FIRST_WAIT) };
    let left = long.saturating_sub(view.steady);
    if left.is_zero() {
        return Step::Switch;
    }
    Step::Wait("API servers learn of the new authority", Some(left))
}

/// Whether they hold the same. For what reason one is closed does not matter: others may be told each time.
fn alike(left: &[Bundle], right: &[Bundle]) -> bool {
    let same = |(left, right): (&Bundle, &Bundle)| match (&left.state, &right.state) {
        (BundleState::Closed(_, was), BundleState::Closed(_, held)) => left.at == right.at && was == held,
        _ => left == right,
    };
    left.len() == right.len() && left.iter().zip(right).all(same)
}

/// For how long something has been so, on a clock that is never set.
#[derive(Debug, Default)]
pub struct Steady {
    last: Option<(Content, Vec<Bundle>)>,
    since: Duration,
}

impl Steady {
    /// Notes what was seen at `at` and returns for how long it has been the same.
    pub fn seen(&mut self, content: &Content, bundles: &[Bundle], at: Duration) -> Duration {
        let same = self.last.as_ref().is_some_and(|(was, held)| was == content && alike(held, bundles));
        if !same {
            self.last = Some((content.clone(), bundles.to_vec()));
            self.since = at;
        }
        at.saturating_sub(self.since)
    }

    /// Nothing could be seen.
    pub fn forget(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests;
