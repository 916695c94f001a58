//! What the replicas say of themselves, by part.

use std::collections::BTreeMap;

use super::report::Row;
use crate::status::{Part, PartStatus, State, Status};

pub(super) const PATH: &str = "/api/v1/status";

/// What a replica said, or why it said nothing.
pub(super) type Said = (String, Result<Status, String>);

/// The parts that the replicas say are on, each with how many shards it has.
#[derive(Clone, Debug, Default)]
pub(super) struct On(BTreeMap<Part, u32>);

impl On {
    /// `None` where nobody said anything.
    pub(super) fn of(said: &[Said]) -> Option<Self> {
        let answered: Vec<&Status> = said.iter().filter_map(|(_, status)| status.as_ref().ok()).collect();
        let parts = answered.iter().flat_map(|status| &status.parts).filter(|part| part.state != State::Off);
        (!answered.is_empty()).then(|| parts.map(|part| (part.name, part.shards.unwrap_or(1))).collect())
    }

    pub(super) fn is(&self, part: Part) -> bool {
        self.0.contains_key(&part)
    }

    /// How many shards a part has that is on.
    pub(super) fn shards(&self, part: Part) -> Option<u32> {
        self.0.get(&part).copied()
    }
}

impl FromIterator<(Part, u32)> for On {
    fn from_iter<I: IntoIterator<Item = (Part, u32)>>(parts: I) -> Self {
        Self(parts.into_iter().collect())
    }
}

/// A line for each part, over all replicas; `alone`: one of them was asked, and of the others nothing is to be known.
pub(super) fn rows(said: &[Said], alone: bool) -> Vec<Row> {
    let mut rows = vec![replicas(said)];
    let answered: Vec<&Status> = said.iter().filter_map(|(_, status)| status.as_ref().ok()).collect();
    if answered.is_empty() {
        return rows;
    }
    let all = answered.len() == said.len();
    rows.extend(Part::ALL.iter().filter_map(|part| row(*part, &answered, all, alone)));
    rows
}

fn replicas(said: &[Said]) -> Row {
    let answered = said.iter().filter(|(_, status)| status.is_ok()).count();
    let mut row = Row::new("replicas", State::Healthy, format!("{answered} of {} answer", said.len()));
    if said.is_empty() {
        row = row.with(State::Unknown, "there is no replica that could be asked how it is");
    }
    for (pod, status) in said {
        match status {
            Err(why) => row = row.with(State::Unknown, format!("{pod} was not asked: {why}")),
            Ok(status) if !status.ready => row = row.with(State::Failed, format!("{pod} is not ready")),
            Ok(status) => {
                let known = State::sum(status.parts.iter().map(|part| part.state));
                if status.state > known {
                    let what = format!(
                        "{pod} is {} in a part that this version does not know; look with plimsoll {}",
                        status.state, status.version
                    );
                    row = row.with(status.state, what);
                }
            }
        }
    }
    row
}

/// A part over all replicas that answered; `all` did.
fn row(part: Part, answered: &[&Status], all: bool, alone: bool) -> Option<Row> {
    let found: Vec<(&str, &PartStatus)> = answered
        .iter()
        .filter_map(|status| Some((&*status.replica, status.parts.iter().find(|found| found.name == part)?)))
        .collect();
    let worst = found.iter().map(|(_, part)| part.state).max()?;
    let mut row = Row::new(part.name(), worst, details(&found));
    let holder = found.iter().find_map(|(_, part)| part.holder.as_deref());
    if worst == State::NotLeader && !(alone && holder.is_some()) {
        // Nobody whom we asked does it.
        let holder = holder.unwrap_or("nobody");
        let why = if all { "which is none of the replicas" } else { "which was not asked" };
        row = row.with(State::Unknown, format!("the lease is held by {holder}, {why}"));
        row.state = State::Unknown;
    }
    let mut why: Vec<(String, Vec<&str>)> = Vec::new();
    for (replica, part) in &found {
        for text in &part.why {
            match why.iter_mut().find(|(known, _)| known == text) {
                Some((_, replicas)) => replicas.push(replica),
                None => why.push((text.clone(), vec![replica])),
            }
        }
    }
    for (text, replicas) in why {
        let who = if replicas.len() == answered.len() && answered.len() > 1 {
            "all replicas".to_owned()
        } else {
            replicas.join(", ")
        };
        row.problems.push(format!("{text} ({who})"));
    }
    Some(row)
}

/// The figures of a part, of the replica that does the work.
fn details(found: &[(&str, &PartStatus)]) -> String {
    let mut parts = Vec::new();
    let elsewhere = found.iter().all(|(_, part)| part.state == State::NotLeader);
    if let Some(holder) = found.iter().find_map(|(_, part)| part.holder.as_deref()).filter(|_| elsewhere) {
        parts.push(format!("leader {holder}"));
    }
    let leads = found.iter().find(|(_, part)| part.state != State::NotLeader && part.holder.is_some());
    if let Some((replica, _)) = leads {
        parts.push(format!("leader {replica}"));
    }
    let ages = found
        .iter()
        .filter(|(_, part)| part.state != State::NotLeader)
        .filter_map(|(_, part)| part.age_seconds);
    if let Some(age) = ages.reduce(f64::max) {
        parts.push(format!("{age:.0} s old"));
    }
    if let Some(end) = found.iter().filter_map(|(_, part)| part.not_after.as_deref()).min() {
        parts.push(format!("until {end}"));
    }
    let last = found.iter().filter_map(|(_, part)| part.last_error.as_ref()).max_by(|a, b| a.at.cmp(&b.at));
    if let Some(last) = last {
        parts.push(format!("last error {}", last.at));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(replica: &str, ready: bool, part: Part, state: State, why: &[&str]) -> Said {
        let mut told = PartStatus::new(part, state);
        told.why = why.iter().map(|text| (*text).to_owned()).collect();
        told.holder = Some("p1_1".to_owned());
        let status = Status {
            version: "1".to_owned(),
            replica: replica.to_owned(),
            at: String::new(),
            ready,
            state,
            parts: vec![told],
        };
        (replica.to_owned(), Ok(status))
    }

    #[test]
    fn a_part_over_all_replicas() {
        use State::{Degraded, Failed, Healthy, NotLeader, Unknown};
        let of = |replica: &str, state, why: &[&str]| status(replica, true, Part::Balance, state, why);
        let silent = |replica: &str| (replica.to_owned(), Err("no".to_owned()));
        for (rule, said, replicas, part, problem) in [
            ("one leads", vec![of("p1", Healthy, &[]), of("p2", NotLeader, &[])], Healthy, Healthy, ""),
            (
                "the leader is silent",
                vec![of("p2", NotLeader, &[]), silent("p1")],
                Unknown,
                Unknown,
                "which was not asked",
            ),
            ("nobody leads", vec![of("p2", NotLeader, &[])], Healthy, Unknown, "none of the replicas"),
            (
                "one is degraded",
                vec![of("p1", Degraded, &["x"]), of("p2", NotLeader, &[])],
                Healthy,
                Degraded,
                "x (p1)",
            ),
            (
                "both are",
                vec![of("p1", Degraded, &["x"]), of("p2", Degraded, &["x"])],
                Healthy,
                Degraded,
                "x (all replicas)",
            ),
            ("not ready", vec![status("p1", false, Part::Balance, Healthy, &[])], Failed, Healthy, ""),
        ] {
            let rows = rows(&said, false);
            assert_eq!((rows[0].state, rows[1].state), (replicas, part), "{rule}: {rows:?}");
            let said = rows[1].problems.join("\n");
            assert!(said.contains(problem) && said.is_empty() == problem.is_empty(), "{rule}: {said}");
        }
        assert_eq!(rows(&[silent("p1")], false).len(), 1, "nothing is known of parts");
        assert_eq!(rows(&[], false)[0].state, Unknown);
    }

    #[test]
    fn one_that_is_asked_alone() {
        use State::{Degraded, Healthy, NotLeader, Unknown};
        for (rule, mut said, holder, expected) in [
            ("another one leads", status("p2", true, Part::Balance, NotLeader, &[]), Some("p1_1"), NotLeader),
            ("nobody does", status("p2", true, Part::Balance, NotLeader, &[]), None, Unknown),
            ("it leads", status("p2", true, Part::Balance, Healthy, &[]), Some("p2_1"), Healthy),
            ("it has a problem", status("p2", true, Part::Balance, Degraded, &["x"]), Some("p1_1"), Degraded),
        ] {
            said.1.as_mut().unwrap().parts[0].holder = holder.map(str::to_owned);
            let rows = rows(&[said], true);
            assert_eq!(rows[1].state, expected, "{rule}: {rows:?}");
        }
    }

    #[test]
    fn a_newer_server_is_understood_as_far_as_it_goes() {
        let status = |state: &str, part: &str| -> Said {
            let text = format!(
                r#"{{"version":"9.0.0","replica":"p1","at":"","ready":true,"state":"{state}","more":1,
                    "parts":[{{"name":"admission","state":"Healthy","more":[]}},{{"name":"{part}","state":"{state}"}}]}}"#
            );
            ("p1".to_owned(), serde_json::from_str(&text).map_err(|error| error.to_string()))
        };
        for (rule, said, expected) in [
            ("a new part that is well", status("Healthy", "tide"), State::Healthy),
            ("a new part that is not", status("Failed", "tide"), State::Failed),
            ("a new state", status("Paused", "balance"), State::Unknown),
            ("a new state of a new part", status("Paused", "tide"), State::Unknown),
        ] {
            let said = [said];
            assert!(said[0].1.is_ok(), "{rule}: {said:?}");
            let rows = rows(&said, true);
            assert_eq!(State::sum(rows.iter().map(|row| row.state)), expected, "{rule}: {rows:?}");
        }
    }
}
