//! The last decisions of this replica, in memory, for people who look.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use plimsoll_core::admission::{Answer, Outcome, Review, Skip};
use plimsoll_core::pod::Json;

use crate::cluster::cut;
use crate::server::Stage;

/// How many decisions are kept: a burst of some seconds, or the pods of a quiet day; about a megabyte.
const KEPT: usize = 2_000;
/// The longest name that is kept whole, in bytes: the API server stores none that is longer. Anybody who reaches the port may
/// send what the API server never would.
const MOST_NAME: usize = 253;
/// The same of what was decided.
const MOST_WHY: usize = 2_048;

/// A decision about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// When it was made.
    pub at: Timestamp,
    /// Which of this replica's decisions, counted from 1.
    pub number: u64,
    /// Where it was made.
    pub stage: Stage,
    /// `CREATE` or another operation.
    pub operation: Box<str>,
    /// The object's kind.
    pub kind: Box<str>,
    /// Its namespace; empty for an object without one.
    pub namespace: Box<str>,
    /// Its name, or what its name will begin with and an ellipsis.
    pub name: Box<str>,
    /// Whether nothing was to be stored.
    pub dry_run: bool,
    /// What became of it, in one word, as metrics have it.
    pub outcome: &'static str,
    /// The profile that matched, if one was looked for and found.
    pub profile: Option<Box<str>>,
    /// What was changed, or why nothing was, in the words of the log and of `plimsoll explain`.
    pub why: Box<str>,
}

/// The ring. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Decisions(Arc<Mutex<Ring>>);

#[derive(Debug, Default)]
struct Ring {
    last: VecDeque<Arc<Decided>>,
    number: u64,
}

impl Decisions {
    /// A place for decisions where somebody can look, at the address of the API port; without one nothing is kept.
    pub fn of_port(address: Option<SocketAddr>) -> Option<Self> {
        address.map(|_| Self::default())
    }

    /// Keeps a decision, in place of the oldest one.
    pub fn record(&self, decided: Decided) {
        // The allocation and what is forgotten are outside of the lock.
        let mut decided = Arc::new(decided);
        let _forgotten = {
            let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            ring.number += 1;
            if let Some(new) = Arc::get_mut(&mut decided) {
                new.number = ring.number;
            }
            let oldest = if ring.last.len() < KEPT { None } else { ring.last.pop_front() };
            ring.last.push_back(decided);
            oldest
        };
    }

    /// What is kept, the newest first.
    pub fn newest_first(&self) -> Vec<Arc<Decided>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).last.iter().rev().cloned().collect()
    }

    /// How many were made since the start.
    pub fn made(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).number
    }
}

impl Decided {
    /// A decision about a review, made now.
    pub(crate) fn now(stage: Stage, review: &Review<'_>, answer: &Answer) -> Self {
        Self {
            at: Timestamp::now(),
            number: 0,
            stage,
            operation: cut(&review.operation, MOST_NAME).into(),
            kind: cut(&review.kind, MOST_NAME).into(),
            namespace: cut(&review.namespace, MOST_NAME).into(),
            name: name(review),
            dry_run: review.dry_run,
            outcome: answer.outcome.word(),
            profile: answer.profile.as_deref().map(|profile| cut(profile, MOST_NAME).into()),
            why: cut(why(answer), MOST_WHY).into(),
        }
    }

    /// Takes over what was decided later than the review was read.
    pub(crate) fn judged(&mut self, answer: &Answer) {
        self.at = Timestamp::now();
        self.outcome = answer.outcome.word();
        self.why = cut(why(answer), MOST_WHY).into();
    }
}

/// What was changed, or why nothing was.
pub(crate) fn why(answer: &Answer) -> &str {
    match (answer.outcome, &answer.denial) {
        (Outcome::Skipped(skip), _) => Skip::sentence(skip),
        // What went wrong is told to whoever sent it, by the first warning.
        (Outcome::Error, _) => answer.warnings.first().map(String::as_str).unwrap_or_default(),
        (_, Some(denial)) => &denial.message,
        (Outcome::Unchanged, _) if answer.profile.is_some() => "nothing had to be lowered",
        _ => answer.changed.as_deref().unwrap_or_default(),
    }
}

fn name(review: &Review<'_>) -> Box<str> {
    if !review.name.is_empty() {
        return cut(&review.name, MOST_NAME).into();
    }
    let metadata = review.object.as_ref().and_then(|object| object.0.get("metadata"));
    let text = |key| metadata?.get(key).and_then(Json::as_str);
    match (text("name"), text("generateName")) {
        (Some(name), _) if !name.is_empty() => cut(name, MOST_NAME).into(),
        (_, Some(prefix)) => (cut(prefix, MOST_NAME) + "…").into(),
        _ => Box::default(),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::admission::read;
    use serde_json::{Value, json};

    use super::*;

    fn decided(name: &str) -> Decided {
        Decided {
            at: Timestamp::UNIX_EPOCH,
            number: 0,
            stage: Stage::Mutate,
            operation: "CREATE".into(),
            kind: "Pod".into(),
            namespace: "shop".into(),
            name: name.into(),
            dry_run: false,
            outcome: "applied",
            profile: None,
            why: Box::default(),
        }
    }

    #[test]
    fn what_is_sent_is_kept_in_bounds() {
        let long = "é".repeat(10_000);
        let kind = json!({"group": "", "version": "v1", "kind": &long});
        let named = |name: &str, metadata: Value| {
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "1", "kind": kind, "resource": {"group": "", "version": "v1", "resource": "pods"},
                "namespace": &long, "name": name, "operation": &long, "object": {"metadata": metadata},
            }})
            .to_string()
        };
        for (rule, body, expected) in [
            ("its name", named("web", json!({})), "web".to_owned()),
            ("the object's", named("", json!({"name": "web"})), "web".to_owned()),
            ("what it will begin with", named("", json!({"generateName": "web-"})), "web-…".to_owned()),
            ("nothing", named("", json!({})), String::new()),
            ("cut at a character", named(&long, json!({})), "é".repeat(125) + "..."),
        ] {
            let review = read(body.as_bytes(), Stage::Mutate).unwrap();
            let answer = Answer { warnings: vec!["w".repeat(1 << 20)], ..Answer::allow(Outcome::Error) };
            let decided = Decided::now(Stage::Mutate, &review, &answer);
            assert_eq!(*decided.name, *expected, "{rule}");
            let sent = [&decided.kind, &decided.namespace, &decided.operation];
            assert!(sent.iter().all(|text| text.len() < 260), "{rule}: {decided:?}");
            assert!(decided.why.starts_with("www") && decided.why.len() < 2_060, "{rule}");
        }
    }

    #[test]
    fn the_newest_are_kept_and_counted() {
        let decisions = Decisions::default();
        let shared = decisions.clone();
        for index in 0..=KEPT {
            shared.record(decided(&index.to_string()));
        }
        let kept = decisions.newest_first();
        assert_eq!(kept.len(), KEPT);
        assert_eq!((&*kept[0].name, kept[0].number), (&*KEPT.to_string(), KEPT as u64 + 1));
        assert_eq!((&*kept[KEPT - 1].name, kept[KEPT - 1].number), ("1", 2));
        assert_eq!(decisions.made(), KEPT as u64 + 1);
    }
}
