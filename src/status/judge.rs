//! From what is known of a part to how it is. Nothing here reads a clock or asks anybody.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::health::{Known, LeaseSeen};
use super::{LastError, Part, PartStatus, State};

/// A certificate is late when so much has gone since it should have been renewed, or half of what was left then: whoever
/// renews it looks now and then.
const LATE: SignedDuration = SignedDuration::from_mins(1);

/// What a part is judged by, beside what it told itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Whether it is wanted.
    pub(super) enabled: bool,
    /// Why it does not work at all.
    pub(super) failed: Vec<String>,
    /// Why it does not work as it should.
    pub(super) degraded: Vec<String>,
    /// The part that must be led for this one to do anything here.
    pub(super) led_by: Option<Part>,
    /// How many shards that part has; zero counts as one.
    pub(super) shards: u32,
    /// The age of what it goes by, if it has any.
    pub(super) age: Option<Duration>,
    /// What it goes by must not be older; given only where there must be something.
    pub(super) maximum_age: Option<Duration>,
}

/// How a part is, by `known` of it, and the leases of the part that must be led.
pub(super) fn judge(
    part: Part,
    facts: Facts,
    known: &Known,
    leases: Option<&BTreeMap<u32, LeaseSeen>>,
    now: Timestamp,
) -> PartStatus {
    let mut status = PartStatus::new(part, State::Off);
    if !facts.enabled {
        return status;
    }
    status.last_error =
        known.last_error.as_ref().map(|(message, at)| LastError { message: message.clone(), at: text(*at) });
    status.age_seconds = facts.age.map(|age| (age.as_secs_f64() * 10.0).round() / 10.0);
    status.shards = Some(facts.shards).filter(|shards| leases.is_some() && *shards > 1);
    let holders = leases.map(holders);
    status.holder = holders.clone().filter(|holders| !holders.is_empty());
    let leads = leases.is_none_or(|leases| leases.values().any(|lease| lease.ours));

    let (mut failed, mut degraded) = (facts.failed, facts.degraded);
    let mut unknown = Vec::new();
    for ((what, _), problem) in &known.problems {
        let text = format!("{what}: {}", problem.message);
        if !degraded.contains(&text) {
            degraded.push(text);
        }
    }
    status.since = known.problems.values().map(|problem| problem.since).min().map(text);
    status.not_after = known.certificates.values().map(|(end, _)| *end).min().map(text);
    for (listener, (end, renew)) in &known.certificates {
        let (end_text, renew_text) = (text(*end), text(*renew));
        if *end <= now {
            let what = "see docs/certificates.md";
            failed.push(format!("the certificate of {listener} has expired, at {end_text}; {what}"));
        } else if now.duration_since(*renew) > LATE.min(end.duration_since(*renew) / 2) {
            degraded.push(format!(
                "the certificate of {listener} expires at {end_text} and should have been renewed by {renew_text}; see \
                 docs/certificates.md"
            ));
        }
    }
    if leads && let Some(limit) = facts.maximum_age {
        match facts.age {
            None => unknown.push("nothing was read yet".to_owned()),
            Some(age) if age > limit => degraded.push(format!(
                "what it goes by is {} s old, older than {} s",
                age.as_secs(),
                limit.as_secs()
            )),
            Some(_) => {}
        }
    }
    if let Some(leases) = leases
        && degraded.is_empty()
    {
        let shards = facts.shards.max(1);
        let is_held = |shard: &u32| leases.get(shard).is_some_and(|lease| !lease.holder.is_empty());
        let free: Vec<String> =
            (0..shards).filter(|shard| !is_held(shard)).map(|shard| shard.to_string()).collect();
        if shards == 1 && !free.is_empty() {
            unknown.push("nobody holds its lease yet".to_owned());
        } else if !free.is_empty() {
            unknown.push(format!("nobody holds the lease of shard {} of {shards} yet", free.join(", ")));
        }
    }
    (status.state, status.why) = if !failed.is_empty() {
        (State::Failed, [failed, degraded].concat())
    } else if !degraded.is_empty() {
        (State::Degraded, degraded)
    } else if !unknown.is_empty() {
        (State::Unknown, unknown)
    } else if leads {
        (State::Healthy, Vec::new())
    } else {
        (State::NotLeader, Vec::new())
    };
    status
}

/// Those who hold leases, each once.
fn holders(leases: &BTreeMap<u32, LeaseSeen>) -> String {
    let mut names: Vec<&str> =
        leases.values().map(|lease| &*lease.holder).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// To the second, which is what people read.
pub(super) fn text(at: Timestamp) -> String {
    format!("{at:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Health;

    fn on() -> Facts {
        Facts { enabled: true, ..Facts::default() }
    }

    type Leases = BTreeMap<u32, LeaseSeen>;

    fn seen(holder: &str, ours: bool) -> Leases {
        [(0, LeaseSeen { holder: holder.to_owned(), ours })].into()
    }

    /// Of shards, each with who holds it; ours is "a".
    fn sharded(holders: &[&str]) -> Leases {
        let seen =
            holders.iter().map(|holder| LeaseSeen { holder: (*holder).to_owned(), ours: *holder == "a" });
        (0..).zip(seen).collect()
    }

    #[test]
    fn how_a_part_is() {
        let health = Health::default();
        health.failed(
            Part::Recommender,
            "write recommendations",
            "create on recommendations.plimsoll.dev is missing",
        );
        let failing = health.known().remove(&Part::Recommender).unwrap();
        let fine = Known::default();
        let seconds = Duration::from_secs;
        let aged = |age: Option<u64>| Facts { age: age.map(seconds), maximum_age: Some(seconds(60)), ..on() };
        let of_3 = || Facts { shards: 3, ..on() };
        let now = Timestamp::from_second(1_000_000).unwrap();
        for (rule, facts, known, leases, state, why) in [
            ("off, whatever is known", Facts::default(), &failing, None, State::Off, ""),
            ("works", on(), &fine, None, State::Healthy, ""),
            ("something fails", on(), &failing, None, State::Degraded, "write recommendations: create on"),
            (
                "something fails for the leader",
                on(),
                &failing,
                Some(seen("a", true)),
                State::Degraded,
                "is missing",
            ),
            ("the lease cannot be read", on(), &failing, Some(Leases::new()), State::Degraded, "is missing"),
            ("leads", on(), &fine, Some(seen("a", true)), State::Healthy, ""),
            ("another leads", on(), &fine, Some(seen("b", false)), State::NotLeader, ""),
            ("nobody leads", on(), &fine, Some(seen("", false)), State::Unknown, "nobody holds"),
            ("no lease was seen", on(), &fine, Some(Leases::new()), State::Unknown, "nobody holds"),
            ("all shards are led", of_3(), &fine, Some(sharded(&["a", "b", "b"])), State::Healthy, ""),
            ("all elsewhere", of_3(), &fine, Some(sharded(&["b", "b", "c"])), State::NotLeader, ""),
            (
                "a shard is free",
                of_3(),
                &fine,
                Some(sharded(&["a", "", "b"])),
                State::Unknown,
                "the lease of shard 1 of 3",
            ),
            (
                "shards that were not seen",
                of_3(),
                &fine,
                Some(sharded(&["a"])),
                State::Unknown,
                "the lease of shard 1, 2 of 3",
            ),
            ("nothing yet", aged(None), &fine, None, State::Unknown, "nothing was read yet"),
            ("fresh", aged(Some(60)), &fine, None, State::Healthy, ""),
            ("old", aged(Some(61)), &fine, None, State::Degraded, "61 s old, older than 60 s"),
            (
                "old does not matter elsewhere",
                aged(Some(61)),
                &fine,
                Some(seen("b", false)),
                State::NotLeader,
                "",
            ),
            (
                "worst first",
                Facts { failed: vec!["dead".into()], ..on() },
                &failing,
                None,
                State::Failed,
                "dead",
            ),
        ] {
            let status = judge(Part::Recommender, facts, known, leases.as_ref(), now);
            assert_eq!(status.state, state, "{rule}: {status:?}");
            let said = status.why.join("\n");
            assert!(said.contains(why) && said.is_empty() == why.is_empty(), "{rule}: {said}");
        }
    }

    /// When they end, and when they should be renewed, from now.
    fn ending(all: &[(&str, i64, i64)]) -> Known {
        let at = |seconds| Timestamp::from_second(1_000_000 + seconds).unwrap();
        let all = all.iter().map(|(name, end, renew)| ((*name).to_owned(), (at(*end), at(*renew))));
        Known { certificates: all.collect(), ..Known::default() }
    }

    #[test]
    fn certificates_are_late_by_their_own_measure() {
        let overdue = "of admission expires at 1970-01-12T21:46:40Z and should have been renewed by 1970-01-12T13:45:39Z";
        for (rule, known, state, why) in [
            ("none yet", ending(&[]), State::Healthy, ""),
            ("valid", ending(&[("admission", 100_000, 50_000)]), State::Healthy, ""),
            ("due", ending(&[("admission", 28_800, -60)]), State::Healthy, ""),
            ("overdue", ending(&[("admission", 28_800, -61)]), State::Degraded, overdue),
            ("of ten seconds, fresh", ending(&[("admission", 9, 6)]), State::Healthy, ""),
            ("of ten seconds, due", ending(&[("admission", 3, -1)]), State::Healthy, ""),
            (
                "of ten seconds, overdue",
                ending(&[("admission", 1, -3)]),
                State::Degraded,
                "should have been renewed",
            ),
            (
                "one of several",
                ending(&[("admission", 100_000, 50_000), ("extender", 200_000, -100)]),
                State::Degraded,
                "of extender expires",
            ),
            (
                "expired",
                ending(&[("admission", 0, -100)]),
                State::Failed,
                "of admission has expired, at 1970-01-12T13:46:40Z",
            ),
        ] {
            let now = Timestamp::from_second(1_000_000).unwrap();
            let status = judge(Part::Certificates, on(), &known, None, now);
            assert_eq!(status.state, state, "{rule}: {status:?}");
            let said = status.why.join("\n");
            assert!(said.contains(why) && said.is_empty() == why.is_empty(), "{rule}: {said}");
            assert_eq!(status.not_after.is_some(), !known.certificates.is_empty(), "{rule}");
        }
    }
}
