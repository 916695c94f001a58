//! A world of replicas, leaders and API servers in which everything happens at the worst moment: leaders change and
//! stall, replicas are cut off and restarted, API servers hear late, clocks are wrong, the Secret is emptied. At every
//! moment whoever is called serves what whoever calls trusts.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use plimsoll::certificates::authority::Root;
use plimsoll::certificates::leaf::Validity;
use plimsoll::certificates::plan::{Bundle, BundleState, Steady, Step, Timing, View, next};
use plimsoll::certificates::secret::{Authorities, Content};
use plimsoll::certificates::{Authority, Held};
use proptest::prelude::*;

const TICK: u64 = 10;
const HOURS: u64 = 40;
const TIMING: Timing = Timing {
    authority_lifetime: Duration::from_secs(20 * 3600),
    certificate_lifetime: Duration::from_secs(2 * 3600),
    publish_for: Duration::from_secs(60),
};
/// The latest that an API server hears of a change: less than `publish_for`.
const LATEST: u64 = 50;
/// The furthest that a clock is off, but for those that jump.
const SKEW: i64 = 600;
/// The longest that a clock is far off before somebody mends it.
const JUMPED: u64 = 900;
const OBJECTS: usize = 2;

/// Chance that can be had again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    /// True once in so many times.
    fn once_in(&mut self, times: u64) -> bool {
        self.roll(times) == 0
    }
}

/// What one leader has read and not yet acted on.
struct Reading {
    bundles: Vec<(u64, BundleState)>,
    secret: (u64, Content, Option<String>),
}

struct Replica {
    /// How far its clock is off.
    skew: i64,
    /// Until when it is far off, if it is.
    jumped: u64,
    held: Held,
    leaf: Option<(Root, Validity)>,
    /// Until when it reaches no API server.
    cut_off: u64,
    leads: bool,
    steady: Steady,
    /// What it read when it was stopped, and until when it stands still.
    stalled: Option<(u64, Reading)>,
}

impl Replica {
    fn new(skew: i64) -> Self {
        Self {
            skew,
            jumped: 0,
            held: Held::new(TIMING.publish_for),
            leaf: None,
            cut_off: 0,
            leads: false,
            steady: Steady::default(),
            stalled: None,
        }
    }
}

/// What an object has held, and since when.
type Since = (u64, Vec<Root>);

struct World {
    dice: Dice,
    now: u64,
    version: u64,
    secret: (u64, Content),
    rotate: Option<String>,
    /// Of each object: its version, and its history.
    bundles: Vec<(u64, Vec<Since>)>,
    /// Until when the objects cannot be read.
    refused: [u64; OBJECTS],
    replicas: Vec<Replica>,
    /// How late each API server is.
    late: Vec<u64>,
    switches: usize,
    /// Whether now and then one clock is months ahead for some minutes.
    jumps: bool,
}

fn wall(now: u64, skew: i64) -> Timestamp {
    let start: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
    start + SignedDuration::from_secs(i64::try_from(now).unwrap() + skew)
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed | 1);
        let skew = |dice: &mut Dice| i64::try_from(dice.roll(2 * SKEW as u64)).unwrap() - SKEW;
        let replicas = (0..3).map(|_| Replica::new(skew(&mut dice))).collect();
        let late = (0..3).map(|_| dice.roll(LATEST / TICK + 1) * TICK).collect();
        Self {
            dice,
            now: 0,
            version: 1,
            secret: (1, Content::Empty),
            rotate: None,
            bundles: vec![(1, vec![(0, Vec::new())]); OBJECTS],
            refused: [0; OBJECTS],
            replicas,
            late,
            switches: 0,
            jumps: false,
        }
    }

    fn jump(&mut self) {
        let (now, days) = (self.now, self.dice.roll(320) + 80);
        for replica in &mut self.replicas {
            if replica.jumped > 0 && now >= replica.jumped {
                (replica.skew, replica.jumped) = (0, 0);
            }
        }
        let all_right = self.replicas.iter().all(|replica| replica.jumped == 0);
        if all_right && self.dice.once_in(700) {
            let one = usize::try_from(self.dice.roll(3)).unwrap();
            self.replicas[one].skew = i64::try_from(days * 24 * 3600).unwrap();
            self.replicas[one].jumped = now + self.dice.roll(JUMPED);
        }
    }

    fn happen(&mut self) {
        let now = self.now;
        let some = |dice: &mut Dice, count: usize| usize::try_from(dice.roll(count as u64)).unwrap();
        let count = self.replicas.len();
        if self.dice.once_in(40) || now == 0 {
            let one = some(&mut self.dice, count);
            let two_lead = self.dice.once_in(5);
            for (index, replica) in self.replicas.iter_mut().enumerate() {
                let leads = index == one || (two_lead && replica.leads);
                if leads && !replica.leads {
                    replica.steady = Steady::default();
                }
                replica.leads = leads;
            }
        }
        if self.dice.once_in(60) {
            let one = some(&mut self.dice, count);
            // Whoever is cut off while a clock jumps may be given up by a leader that believes that clock.
            let kinds = if self.jumps { 1 } else { 4 };
            let long = [60, 600, 3600, 4 * 3600][some(&mut self.dice, kinds)];
            self.replicas[one].cut_off = now + self.dice.roll(long);
        }
        if self.dice.once_in(400) {
            let one = some(&mut self.dice, count);
            let Replica { skew, jumped, .. } = self.replicas[one];
            self.replicas[one] = Replica { jumped, ..Replica::new(skew) };
        }
        if self.dice.once_in(100) {
            let one = some(&mut self.dice, count);
            let skew = i64::try_from(self.dice.roll(2 * SKEW as u64)).unwrap() - SKEW;
            if self.replicas[one].jumped == 0 {
                self.replicas[one].skew = skew;
            }
        }
        if self.jumps {
            self.jump();
        }
        if self.dice.once_in(1500) {
            self.rotate = Some(now.to_string());
        }
        if self.dice.once_in(3000) {
            self.version += 1;
            self.secret = (self.version, Content::Empty);
        }
        if self.dice.once_in(500) {
            let one = some(&mut self.dice, OBJECTS);
            self.refused[one] = now + self.dice.roll(1200);
        }
    }

    fn read(&self) -> Reading {
        let bundles = self.bundles.iter().zip(self.refused).map(|((version, held), refused)| {
            let state = if self.now < refused {
                BundleState::Unknown("refused".to_owned())
            } else {
                BundleState::Holds(vec![held.last().unwrap().1.clone()])
            };
            (*version, state)
        });
        let (version, content) = &self.secret;
        Reading { bundles: bundles.collect(), secret: (*version, content.clone(), self.rotate.clone()) }
    }

    fn lead(&mut self, index: usize) {
        let now = self.now;
        let reading = match self.replicas[index].stalled.take() {
            Some((until, reading)) if now < until => {
                self.replicas[index].stalled = Some((until, reading));
                return;
            }
            // It acts on what it read then.
            Some((_, reading)) => reading,
            None if self.replicas[index].leads && now >= self.replicas[index].cut_off => self.read(),
            None => return,
        };
        if self.dice.once_in(30) {
            let until = now + self.dice.roll(300);
            self.replicas[index].stalled = Some((until, reading));
            return;
        }
        let (version, content, rotate) = reading.secret;
        let bundles: Vec<_> = reading
            .bundles
            .iter()
            .map(|(_, state)| Bundle { at: "x".to_owned(), state: state.clone() })
            .collect();
        let wall = wall(now, self.replicas[index].skew);
        let steady = self.replicas[index].steady.seen(&content, &bundles, Duration::from_secs(now));
        let view =
            View { content: &content, rotate: rotate.as_deref(), bundles: &bundles, now: wall, steady };
        let authorities = match &content {
            Content::Ours(authorities) => authorities.clone(),
            Content::Empty => Authorities::default(),
        };
        let written = match next(&view, &TIMING) {
            Step::Make { keep, .. } => {
                let authority = Authority::make("a", TIMING.authority_lifetime, wall).unwrap();
                authorities.made(Arc::new(authority), &keep, rotate.as_deref())
            }
            Step::Publish(wanted) => {
                for (index, (version, _)) in reading.bundles.iter().enumerate() {
                    // As the test of the version in a patch does.
                    if self.bundles[index].0 == *version && now >= self.refused[index] {
                        self.version += 1;
                        self.bundles[index].0 = self.version;
                        self.bundles[index].1.push((now, wanted.clone()));
                    }
                }
                return;
            }
            Step::Adopt(others) => authorities.adopted(&others, wall),
            Step::Switch => authorities.switched(wall),
            Step::Drop => authorities.dropped(),
            Step::Wait(..) | Step::Blocked(_) | Step::Nothing => return,
        };
        if self.secret.0 == version {
            self.version += 1;
            self.switches += usize::from(authorities.next.is_some() && written.next.is_none());
            self.secret = (self.version, Content::Ours(written));
        }
    }

    fn serve(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        let wall = wall(self.now, replica.skew);
        if self.now >= replica.cut_off {
            match &self.secret.1 {
                Content::Ours(Authorities { current: Some(current), .. })
                    if current.root().is_valid(wall) =>
                {
                    replica.held.confirm(Arc::clone(current), wall);
                }
                _ => replica.held.lacks("nothing"),
            }
        }
        let Some(authority) = replica.held.usable(wall) else { return };
        let is_due = replica
            .leaf
            .as_ref()
            .is_none_or(|(root, validity)| root != authority.root() || validity.is_due(wall));
        if is_due {
            let validity = Validity::of_new(&authority, TIMING.certificate_lifetime, wall).unwrap();
            replica.leaf = Some((authority.root().clone(), validity));
        }
    }

    fn call(&self) {
        let true_time = wall(self.now, 0);
        for (index, replica) in self.replicas.iter().enumerate() {
            let Some((root, validity)) = &replica.leaf else { continue };
            let own_time = wall(self.now, replica.skew);
            let is_ready = validity.from <= own_time && own_time <= validity.until;
            // By a clock that is far off nobody can sign what others take.
            let is_valid = replica.jumped > 0 || (validity.from <= true_time && true_time <= validity.until);
            let may_sign = replica.held.usable(own_time).is_some();
            if !is_ready || (!is_valid && !may_sign) {
                // It could not renew for longer than its certificate lasts; a wrong clock may hide that from it.
                continue;
            }
            assert!(is_valid, "{} s: replica {index} serves {validity:?} at {true_time}", self.now);
            for late in &self.late {
                for (object, (_, held)) in self.bundles.iter().enumerate() {
                    let seen = held.iter().rev().find(|(since, _)| since + late <= self.now);
                    let trusted = &seen.unwrap_or(&held[0]).1;
                    // Before the first authority was published nobody could call.
                    let began = !trusted.is_empty();
                    assert!(
                        !began || trusted.contains(root),
                        "{} s: replica {index} serves by {root:?}, object {object} trusts {trusted:?}, {late} s late",
                        self.now
                    );
                }
            }
        }
    }

    fn run(&mut self) {
        while self.now < HOURS * 3600 {
            self.happen();
            let first = usize::try_from(self.dice.roll(3)).unwrap();
            for offset in 0..self.replicas.len() {
                let index = (first + offset) % self.replicas.len();
                self.lead(index);
                self.serve(index);
            }
            self.call();
            self.now += TICK;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whoever_is_called_serves_what_whoever_calls_trusts(seed in any::<u64>()) {
        let mut world = World::new(seed);
        world.run();
        prop_assert!(world.switches >= 2, "only {} rotations in {HOURS} hours", world.switches);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]

    /// A leader, or whoever else, whose clock is months ahead for some minutes takes from nobody what he serves by.
    #[test]
    fn a_clock_that_jumps_harms_nobody_else(seed in any::<u64>()) {
        let mut world = World::new(seed);
        world.jumps = true;
        world.run();
        prop_assert!(world.switches >= 2, "only {} rotations in {HOURS} hours", world.switches);
    }
}

/// Nothing else goes wrong: then there is not even a moment in which the others are not ready.
#[test]
fn while_the_leaders_clock_is_ahead_the_others_serve() {
    for (rule, days, minutes, leads_on) in [
        ("mended before it is in force", 80, 1, true),
        ("a leader with the wrong clock for a quarter of an hour", 400, 15, true),
        ("and then another leads", 200, 15, false),
    ] {
        let mut world = World::new(1);
        for (index, replica) in world.replicas.iter_mut().enumerate() {
            replica.skew = 0;
            replica.leads = index == 0;
        }
        let start = 3 * 3600;
        let end = start + minutes * 60;
        while world.now < 12 * 3600 {
            if world.now == start {
                world.replicas[0].skew = days * 24 * 3600;
                world.replicas[0].jumped = end;
            } else if world.now == end {
                (world.replicas[0].skew, world.replicas[0].jumped) = (0, 0);
                (world.replicas[0].leads, world.replicas[1].leads) = (leads_on, !leads_on);
            }
            for index in 0..world.replicas.len() {
                world.replicas[index].stalled = None;
                world.lead(index);
                world.serve(index);
            }
            world.call();
            let true_time = wall(world.now, 0);
            for replica in world.replicas.iter().skip(1).filter(|_| world.now > 300) {
                let (_, validity) = replica.leaf.as_ref().unwrap();
                let is_valid = validity.from <= true_time && true_time <= validity.until;
                assert!(is_valid, "{rule}: {} s: {validity:?}", world.now);
            }
            world.now += TICK;
        }
        let Content::Ours(authorities) = &world.secret.1 else { panic!("{rule}") };
        let current = authorities.current.as_ref().unwrap().root();
        assert!(current.is_valid(wall(world.now, 0)), "{rule}: {current:?}");
        let trusted = &world.bundles[0].1.last().unwrap().1;
        assert_eq!(trusted, std::slice::from_ref(current), "{rule}: the rest is forgotten");
    }
}

/// When nothing goes wrong there is never a moment without a certificate either.
#[test]
fn a_quiet_world_rotates_in_time_and_forgets_the_old() {
    let mut world = World::new(1);
    for replica in &mut world.replicas {
        replica.skew = 0;
    }
    world.replicas[0].leads = true;
    world.dice = Dice(1);
    let mut most = 0;
    while world.now < HOURS * 3600 {
        if world.replicas[0].stalled.is_some() {
            world.replicas[0].stalled = None;
        }
        for index in 0..world.replicas.len() {
            world.lead(index);
            world.serve(index);
        }
        world.call();
        most = most.max(world.bundles[0].1.last().unwrap().1.len());
        if world.now > 300 {
            assert!(world.replicas.iter().all(|replica| replica.leaf.is_some()), "{} s", world.now);
        }
        world.now += TICK;
    }
    assert_eq!((most, world.switches), (2, 3), "the first, and one at each 16 hours");
    assert_eq!(world.bundles[0].1.last().unwrap().1.len(), 1);
}
