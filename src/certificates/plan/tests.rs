use std::sync::Arc;

use super::*;
use crate::certificates::Authority;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

const TIMING: Timing = Timing {
    authority_lifetime: Duration::from_secs(365 * 24 * 3600),
    certificate_lifetime: DAY,
    publish_for: MINUTE,
};

fn now() -> Timestamp {
    "2026-03-01T10:00:00Z".parse().unwrap()
}

fn authority() -> Arc<Authority> {
    Arc::new(Authority::make("a", TIMING.authority_lifetime, now()).unwrap())
}

fn ending_at(end: Duration) -> Arc<Authority> {
    Arc::new(Authority::make("a", end, now()).unwrap())
}

/// Both webhook configurations hold these.
fn hold(roots: &[Root]) -> Vec<Bundle> {
    let state = BundleState::Holds(vec![roots.to_vec()]);
    ["mutating", "validating"].map(|at| Bundle { at: at.to_owned(), state: state.clone() }).into()
}

fn with(mut bundles: Vec<Bundle>, state: BundleState) -> Vec<Bundle> {
    bundles[1].state = state;
    bundles
}

struct World {
    content: Content,
    rotate: Option<&'static str>,
    bundles: Vec<Bundle>,
    after: Duration,
    steady: Duration,
}

impl World {
    /// The Secret says so, and so do the bundles.
    fn agreed(authorities: Authorities) -> Self {
        let bundles = hold(&authorities.bundle());
        Self {
            content: Content::Ours(authorities),
            rotate: None,
            bundles,
            after: Duration::ZERO,
            steady: Duration::ZERO,
        }
    }

    fn next(&self) -> Step {
        let view = View {
            content: &self.content,
            rotate: self.rotate,
            bundles: &self.bundles,
            now: now() + self.after,
            steady: self.steady,
        };
        next(&view, &TIMING)
    }
}

fn one(current: &Arc<Authority>) -> Authorities {
    Authorities { current: Some(Arc::clone(current)), ..Authorities::default() }
}

fn two(current: &Arc<Authority>, next: &Arc<Authority>) -> Authorities {
    Authorities { next: Some(Arc::clone(next)), ..one(current) }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_state_has_its_step() {
    let (a, b, c) = (authority(), authority(), authority());
    let root = |authority: &Arc<Authority>| authority.root().clone();
    let first = Authorities { next: Some(Arc::clone(&a)), ..Authorities::default() };
    let switched = Authorities {
        current: Some(Arc::clone(&b)),
        previous: vec![root(&a)],
        switched: Some(now()),
        ..Authorities::default()
    };
    // Put in force by a clock that was two days ahead.
    let left_behind =
        Authorities { previous: vec![root(&ending_at(DAY))], switched: Some(now() + 2 * DAY), ..one(&b) };
    let full = Authorities { previous: (0..MOST_PREVIOUS).map(|_| root(&authority())).collect(), ..one(&a) };
    let make = |keep: Vec<Root>, reason| Step::Make { keep, reason };
    let unknown = || BundleState::Unknown("no answer".to_owned());
    let closed = |held: &[Root]| BundleState::Closed("get on x lacks".to_owned(), held.to_vec());
    let wait = |left| Step::Wait("API servers learn of the new authority", Some(left));
    let tail = |left| Step::Wait("certificates of the former authority have not all ended", Some(left));
    let year = TIMING.authority_lifetime;
    let ended = ending_at(DAY);
    let ahead = Arc::new(Authority::make("a", year, now() + 30 * DAY).unwrap());
    let last_call = MINUTE * LAST_CALL;
    let rows: Vec<(&str, World, Step)> = vec![
        (
            "an empty Secret",
            World { content: Content::Empty, bundles: hold(&[]), ..World::agreed(Authorities::default()) },
            make(vec![], Reason::First),
        ),
        (
            "an emptied Secret: what is trusted stays so",
            World {
                content: Content::Empty,
                bundles: hold(&[root(&a)]),
                ..World::agreed(Authorities::default())
            },
            make(vec![root(&a)], Reason::First),
        ),
        ("ours, and no authority in it", World::agreed(Authorities::default()), make(vec![], Reason::First)),
        (
            "the first is published",
            World { bundles: hold(&[]), ..World::agreed(first.clone()) },
            Step::Publish(vec![root(&a)]),
        ),
        ("the first waits a moment", World::agreed(first.clone()), wait(FIRST_WAIT)),
        (
            "the first is switched to soon",
            World { steady: FIRST_WAIT, ..World::agreed(first.clone()) },
            Step::Switch,
        ),
        (
            "the first does not wait for what may not be written",
            World {
                steady: FIRST_WAIT,
                bundles: with(hold(&[root(&a)]), closed(&[])),
                ..World::agreed(first.clone())
            },
            Step::Switch,
        ),
        (
            "it waits for what cannot be read just now",
            World {
                steady: FIRST_WAIT,
                bundles: with(hold(&[root(&a)]), unknown()),
                ..World::agreed(first.clone())
            },
            Step::Blocked("no answer".to_owned()),
        ),
        (
            "none is made while what is trusted is not known",
            World {
                content: Content::Empty,
                bundles: with(hold(&[]), unknown()),
                ..World::agreed(Authorities::default())
            },
            Step::Blocked("no answer".to_owned()),
        ),
        (
            "what may not be written is trusted too",
            World {
                content: Content::Empty,
                bundles: with(hold(&[]), closed(&[root(&c)])),
                ..World::agreed(Authorities::default())
            },
            make(vec![root(&c)], Reason::First),
        ),
        (
            "after an emptied Secret it waits as others do",
            World { steady: FIRST_WAIT, ..World::agreed(first.made(Arc::clone(&a), &[root(&c)], None)) },
            wait(MINUTE.saturating_sub(FIRST_WAIT)),
        ),
        ("all is well", World::agreed(one(&a)), Step::Nothing),
        (
            "quota is off",
            World { bundles: with(hold(&[root(&a)]), BundleState::Absent), ..World::agreed(one(&a)) },
            Step::Nothing,
        ),
        ("nobody calls us", World { bundles: vec![], ..World::agreed(one(&a)) }, Step::Nothing),
        (
            "somebody emptied a bundle",
            World { bundles: hold(&[]), ..World::agreed(one(&a)) },
            Step::Publish(vec![root(&a)]),
        ),
        (
            "somebody added to a bundle",
            World { bundles: hold(&[root(&a), root(&c)]), ..World::agreed(one(&a)) },
            Step::Publish(vec![root(&a)]),
        ),
        (
            "what another source wrote stays trusted",
            World {
                bundles: with(hold(&[root(&a)]), BundleState::Holds(vec![vec![], vec![root(&c)]])),
                ..World::agreed(one(&a))
            },
            Step::Adopt(vec![root(&c)]),
        ),
        (
            "also while another is on its way",
            World { bundles: hold(&[root(&c)]), ..World::agreed(two(&a, &b)) },
            Step::Adopt(vec![root(&c)]),
        ),
        (
            "then both are published",
            World { bundles: hold(&[root(&c)]), ..World::agreed(one(&a).adopted(&[root(&c)], now())) },
            Step::Publish(vec![root(&a), root(&c)]),
        ),
        (
            "and it is dropped when its certificates have ended",
            World::agreed(one(&a).adopted(&[root(&c)], now())),
            tail(DAY + MINUTE),
        ),
        (
            "no more than can be kept",
            World { bundles: hold(&[root(&c)]), ..World::agreed(full.clone()) },
            Step::Publish(full.bundle()),
        ),
        (
            "also what has ended by this clock, which may be wrong",
            World { after: 2 * DAY, bundles: hold(&[root(&ended)]), ..World::agreed(one(&a)) },
            Step::Adopt(vec![root(&ended)]),
        ),
        (
            "an emptied Secret, and a clock that is far ahead",
            World {
                after: 2 * DAY,
                content: Content::Empty,
                bundles: hold(&[root(&ended)]),
                ..World::agreed(Authorities::default())
            },
            make(vec![root(&ended)], Reason::First),
        ),
        ("made by a clock that was ahead", World::agreed(one(&ahead)), make(vec![], Reason::Ended)),
        (
            "made by a clock that was days ahead",
            World::agreed(one(&Arc::new(Authority::make("a", year, now() + 6 * DAY).unwrap()))),
            Step::Nothing,
        ),
        (
            "the published one was made by a clock that was ahead",
            World::agreed(two(&a, &ahead)),
            make(vec![], Reason::Ended),
        ),
        (
            "who cannot be told does not keep one in force that nobody accepts",
            World {
                steady: MINUTE,
                bundles: with(hold(&two(&ahead, &b).bundle()), closed(&[])),
                ..World::agreed(two(&ahead, &b))
            },
            Step::Switch,
        ),
        (
            "long before the end",
            World { after: (year * 4 / 5).saturating_sub(HOUR), ..World::agreed(one(&a)) },
            Step::Nothing,
        ),
        (
            "a fifth is left",
            World { after: year * 4 / 5 + HOUR, ..World::agreed(one(&a)) },
            make(vec![], Reason::Ending),
        ),
        ("it has ended", World { after: year + HOUR, ..World::agreed(one(&a)) }, make(vec![], Reason::Ended)),
        (
            "the clock was set back",
            World { after: Duration::ZERO, ..World::agreed(one(&ending_at(year * 2))) },
            Step::Nothing,
        ),
        ("asked for", World { rotate: Some("1"), ..World::agreed(one(&a)) }, make(vec![], Reason::Asked)),
        (
            "asked for, and done",
            World { rotate: Some("1"), ..World::agreed(Authorities { rotated: "1".to_owned(), ..one(&a) }) },
            Step::Nothing,
        ),
        (
            "asked for too often",
            World { rotate: Some("1"), ..World::agreed(Authorities { switched: Some(now()), ..full }) },
            tail(DAY + MINUTE),
        ),
        (
            "asked for while another is on its way",
            World { rotate: Some("1"), ..World::agreed(two(&a, &b)) },
            wait(MINUTE),
        ),
        (
            "both are published",
            World { bundles: hold(&[root(&a)]), ..World::agreed(two(&a, &b)) },
            Step::Publish(vec![root(&a), root(&b)]),
        ),
        ("API servers learn", World { steady: MINUTE / 2, ..World::agreed(two(&a, &b)) }, wait(MINUTE / 2)),
        ("they know", World { steady: MINUTE, ..World::agreed(two(&a, &b)) }, Step::Switch),
        (
            "one of them cannot be told",
            World {
                steady: HOUR,
                bundles: with(hold(&two(&a, &b).bundle()), closed(&[])),
                ..World::agreed(two(&a, &b))
            },
            Step::Blocked("get on x lacks".to_owned()),
        ),
        (
            "there is time to mend it until shortly before the end",
            World {
                after: DAY.saturating_sub(last_call),
                steady: HOUR,
                bundles: with(hold(&two(&ended, &b).bundle()), closed(&[])),
                ..World::agreed(two(&ended, &b))
            },
            Step::Blocked("get on x lacks".to_owned()),
        ),
        (
            "shortly before the end the others are not to fail with it",
            World {
                after: DAY.saturating_sub(last_call) + Duration::from_secs(1),
                steady: HOUR,
                bundles: with(hold(&two(&ended, &b).bundle()), closed(&[])),
                ..World::agreed(two(&ended, &b))
            },
            Step::Switch,
        ),
        (
            "but API servers must have heard of it",
            World {
                after: DAY.saturating_sub(MINUTE * 2),
                steady: MINUTE / 2,
                bundles: with(hold(&two(&ended, &b).bundle()), closed(&[])),
                ..World::agreed(two(&ended, &b))
            },
            wait(MINUTE / 2),
        ),
        (
            "a clock that is far ahead: the one in force has ended by it, and is what everybody else uses",
            World { after: 2 * DAY, steady: FIRST_WAIT, ..World::agreed(two(&ended, &b)) },
            wait(MINUTE.saturating_sub(FIRST_WAIT)),
        ),
        (
            "the one in force has ended meanwhile: who cannot be told is not waited for",
            World {
                after: 2 * DAY,
                steady: MINUTE,
                bundles: with(hold(&two(&ended, &b).bundle()), closed(&[])),
                ..World::agreed(two(&ended, &b))
            },
            Step::Switch,
        ),
        (
            "the published one has ended meanwhile",
            World { after: 2 * DAY, ..World::agreed(two(&a, &ending_at(DAY))) },
            make(vec![], Reason::Ended),
        ),
        ("the former is trusted on", World::agreed(switched.clone()), tail(DAY + MINUTE)),
        (
            "by what was seen",
            World { steady: HOUR, ..World::agreed(switched.clone()) },
            tail((DAY + MINUTE).saturating_sub(HOUR)),
        ),
        ("and then no more", World { steady: DAY + MINUTE, ..World::agreed(switched.clone()) }, Step::Drop),
        (
            "a new leader believes the clock with an hour to spare",
            World { after: DAY + MINUTE, ..World::agreed(switched.clone()) },
            tail(HOUR),
        ),
        (
            "and looks for a while itself",
            World { after: 3 * DAY, ..World::agreed(switched.clone()) },
            tail(MINUTE),
        ),
        (
            "before it drops",
            World { after: 3 * DAY, steady: MINUTE, ..World::agreed(switched.clone()) },
            Step::Drop,
        ),
        (
            "a switch in the future, by a clock that was wrong",
            World {
                steady: DAY + MINUTE,
                ..World::agreed(Authorities { switched: Some(now() + 100 * DAY), ..switched.clone() })
            },
            Step::Drop,
        ),
        (
            "a clock that is far ahead: a former one that has ended by it is trusted on",
            World { after: 2 * DAY, ..World::agreed(left_behind.clone()) },
            tail(DAY + MINUTE),
        ),
        (
            "by another clock too, which is right",
            World { after: HOUR, steady: HOUR, ..World::agreed(left_behind.clone()) },
            tail((DAY + MINUTE).saturating_sub(HOUR)),
        ),
        (
            "until none of its certificates can be left",
            World { after: 2 * DAY, steady: DAY + MINUTE, ..World::agreed(left_behind) },
            Step::Drop,
        ),
        (
            "after it was dropped",
            World { bundles: hold(&switched.bundle()), ..World::agreed(switched.dropped()) },
            Step::Publish(vec![root(&b)]),
        ),
    ];
    for (rule, world, expected) in rows {
        assert_eq!(world.next(), expected, "{rule}");
    }
}

#[test]
fn a_whole_rotation() {
    let (a, b) = (authority(), authority());
    let before = one(&a);
    let made = before.made(Arc::clone(&b), &[], Some("now"));
    assert_eq!(made.bundle(), [a.root().clone(), b.root().clone()], "that in force comes first");
    let switched = made.switched(now());
    assert_eq!(switched.bundle(), [b.root().clone(), a.root().clone()]);
    assert_eq!((switched.next.as_ref(), switched.rotated.as_str()), (None, "now"));
    assert_eq!(switched.dropped().bundle(), [b.root().clone()]);
    assert_eq!(before.switched(now()), before, "there is nothing to switch to");
}

#[test]
fn steadiness_begins_anew_with_each_change() {
    let (a, b) = (authority(), authority());
    let content = Content::Ours(one(&a));
    let other = Content::Ours(one(&b));
    let mut steady = Steady::default();
    assert_eq!(steady.seen(&content, &hold(&[]), MINUTE), Duration::ZERO);
    assert_eq!(steady.seen(&content, &hold(&[]), 3 * MINUTE), 2 * MINUTE);
    assert_eq!(steady.seen(&content, &hold(&[a.root().clone()]), 4 * MINUTE), Duration::ZERO, "a bundle");
    assert_eq!(steady.seen(&other, &hold(&[a.root().clone()]), 5 * MINUTE), Duration::ZERO, "the Secret");
    assert_eq!(steady.seen(&other, &hold(&[a.root().clone()]), 6 * MINUTE), MINUTE);
    let closed = |why: &str, held: &[Root]| {
        with(hold(&[a.root().clone()]), BundleState::Closed(why.to_owned(), held.to_vec()))
    };
    assert_eq!(steady.seen(&other, &closed("refused", &[]), 6 * MINUTE), Duration::ZERO, "closed");
    assert_eq!(steady.seen(&other, &closed("refused again", &[]), 7 * MINUTE), MINUTE, "for another reason");
    let now_held = closed("refused again", &[b.root().clone()]);
    assert_eq!(steady.seen(&other, &now_held, 7 * MINUTE), Duration::ZERO, "what it holds");
    assert_eq!(steady.seen(&other, &hold(&[a.root().clone()]), 7 * MINUTE), Duration::ZERO, "opened");
    steady.forget();
    assert_eq!(steady.seen(&other, &hold(&[a.root().clone()]), 7 * MINUTE), Duration::ZERO, "a gap");
}
