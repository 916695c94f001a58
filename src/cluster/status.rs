//! Tells the owners of profiles whether they are used: the condition `Valid`, and an event when it turns.
//!
//! Every replica does this, without a leader. A write waits for a short time that differs by replica, and is dropped
//! when the status that another replica wrote in the meantime says the same.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::core::Request;
use kube::core::params::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use plimsoll_core::problem;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::ClusterOptions;
use super::backoff::{Backoff, chance};
use super::fold::SeenProfile;
use super::kinds::PROFILE;
use super::writer::ProfileNews;
use crate::status::{Failure, Health, Part};

/// What may fail, as it is told.
const STATUS: &str = "write the status of profiles";

/// Who we are to the API server: field manager and reporter of events.
const MANAGER: &str = "plimsoll";
/// The longest message; the schema allows more, a reader less.
const MESSAGE_BYTES: usize = 8 * 1024;
/// The longest note that the API server takes in an event is 1 KiB.
const NOTE_BYTES: usize = 1_000;
/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// What is to be said about a profile.
#[derive(Debug, PartialEq, Eq)]
struct Verdict {
    status: &'static str,
    reason: &'static str,
    message: String,
}

fn verdict(profile: &SeenProfile) -> Verdict {
    if profile.problems.is_empty() {
        let message = "every field passed its checks".to_owned();
        return Verdict { status: "True", reason: "ChecksPassed", message };
    }
    let message = format!("the profile is not used: {}", problem::join(&profile.problems));
    Verdict { status: "False", reason: "InvalidSpec", message: cut(&message, MESSAGE_BYTES) }
}

/// Whether the status that is stored says something else.
fn is_news(profile: &SeenProfile, verdict: &Verdict) -> bool {
    profile.stored.as_ref().is_none_or(|stored| {
        stored.status != verdict.status
            || stored.reason != verdict.reason
            || stored.message != verdict.message
            || stored.observed_generation != Some(profile.generation)
    })
}

/// Whether the owner should be told by an event as well: not that a new profile is as it should be.
fn is_turn(profile: &SeenProfile, verdict: &Verdict) -> bool {
    match &profile.stored {
        Some(stored) => stored.status != verdict.status,
        None => verdict.status == "False",
    }
}

/// The status, for server-side apply.
fn patch(profile: &SeenProfile, verdict: &Verdict, now: Timestamp) -> Value {
    // A transition is a change of the status, not of the message.
    let since = profile
        .stored
        .as_ref()
        .filter(|stored| stored.status == verdict.status)
        .and_then(|stored| stored.last_transition.clone())
        .unwrap_or_else(|| format!("{now:.0}"));
    json!({
        "apiVersion": PROFILE.api_version,
        "kind": PROFILE.kind,
        "metadata": { "name": profile.name },
        "status": {
            "observedGeneration": profile.generation,
            "conditions": [{
                "type": "Valid",
                "status": verdict.status,
                "reason": verdict.reason,
                "message": verdict.message,
                "observedGeneration": profile.generation,
                "lastTransitionTime": since,
            }],
        },
    })
}

/// A text of at most `most` bytes, cut between characters.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most.saturating_sub(3)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}...", text.get(..end).unwrap_or_default())
}

/// A profile and what was done about its status.
struct Entry {
    profile: SeenProfile,
    /// When its status is to be written.
    due: Option<Instant>,
    written: Option<Instant>,
    /// When an event last said that it is valid, and when that it is not.
    told: [Option<Instant>; 2],
    backoff: Backoff,
}

/// Keeps the statuses of the profiles.
pub(super) struct StatusKeeper {
    client: Client,
    recorder: Recorder,
    options: ClusterOptions,
    entries: BTreeMap<String, Entry>,
    health: Health,
}

impl StatusKeeper {
    pub(super) fn new(client: Client, options: ClusterOptions, health: Health) -> Self {
        let reporter = Reporter { controller: MANAGER.to_owned(), ..Reporter::from(MANAGER) };
        let recorder = Recorder::new(client.clone(), reporter);
        Self { client, recorder, options, entries: BTreeMap::new(), health }
    }

    /// Keeps them until there is no more news.
    pub(super) async fn run(mut self, mut news: mpsc::UnboundedReceiver<ProfileNews>) {
        loop {
            let due = self.entries.values().filter_map(|entry| entry.due).min();
            let wait = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                news = news.recv() => match news {
                    Some(news) => self.take_in(news),
                    None => return,
                },
                () = wait => self.write_due().await,
            }
        }
    }

    fn take_in(&mut self, news: ProfileNews) {
        match news {
            ProfileNews::All(profiles) => {
                self.entries.retain(|name, _| profiles.iter().any(|profile| profile.name == *name));
                for profile in profiles {
                    self.note(profile);
                }
            }
            ProfileNews::Seen(profile) => self.note(*profile),
            ProfileNews::Gone(name) => {
                self.entries.remove(&name);
            }
        }
    }

    fn note(&mut self, profile: SeenProfile) {
        let options = &self.options;
        let name = profile.name.clone();
        let known = self.entries.get(&name).is_some_and(|entry| {
            (&entry.profile.uid, entry.profile.generation) == (&profile.uid, profile.generation)
        });
        if !known && !profile.problems.is_empty() {
            let problems = cut(&problem::join(&profile.problems), MESSAGE_BYTES);
            tracing::warn!(profile = name, problems, "the profile is not used");
        }
        let entry = self.entries.entry(name).or_insert_with(|| Entry {
            profile: profile.clone(),
            due: None,
            written: None,
            told: [None; 2],
            backoff: Backoff::new(options.first_pause, options.longest_pause),
        });
        if entry.profile.uid != profile.uid || entry.profile.generation != profile.generation {
            entry.written = None;
        }
        entry.profile = profile;
        if !is_news(&entry.profile, &verdict(&entry.profile)) {
            entry.due = None;
            return;
        }
        if entry.due.is_some() {
            return;
        }
        let soon = Instant::now() + chance(self.options.status_jitter);
        // Somebody who says something else about the same generation, such as a replica of another version, is
        // contradicted once in a while, not each time.
        let again = entry.written.map(|written| written + self.options.status_repeat);
        entry.due = Some(again.map_or(soon, |again| again.max(soon)));
    }

    async fn write_due(&mut self) {
        let now = Instant::now();
        let due: Vec<String> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.due.is_some_and(|due| due <= now))
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            self.write(&name).await;
        }
    }

    async fn write(&mut self, name: &str) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.due = None;
        let profile = entry.profile.clone();
        let verdict = verdict(&profile);
        let body = patch(&profile, &verdict, Timestamp::now());
        match timeout(CALL_TIMEOUT, apply(&self.client, &profile.name, &body)).await {
            Ok(Ok(())) => {
                self.health.works(Part::Snapshots, STATUS);
                entry.backoff.reset();
                entry.written = Some(Instant::now());
                if is_turn(&profile, &verdict) {
                    self.tell(name, &profile, &verdict).await;
                }
            }
            // It was deleted in the meantime.
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => {}
            failed => {
                let mut told = match failed {
                    Ok(Err(error)) => Failure::from(&error),
                    _ => format!("no answer within {} s", CALL_TIMEOUT.as_secs()).into(),
                };
                if told.forbidden {
                    told.message.push_str(
                        "; grant patch on overcommitprofiles/status.plimsoll.dev to the service account",
                    );
                }
                let why = told.message.clone();
                let pause = entry.backoff.pause();
                entry.due = Some(Instant::now() + pause);
                if self.health.failed(Part::Snapshots, STATUS, told) {
                    tracing::warn!(
                        profile = name,
                        error = why,
                        "the status of a profile cannot be written; trying again"
                    );
                }
            }
        }
    }

    /// Publishes an event, at most one of a kind in a while for each profile.
    async fn tell(&mut self, name: &str, profile: &SeenProfile, verdict: &Verdict) {
        let valid = verdict.status == "True";
        let Some(entry) = self.entries.get_mut(name) else { return };
        let [told_valid, told_invalid] = &mut entry.told;
        let told = if valid { told_valid } else { told_invalid };
        if told.is_some_and(|told| told.elapsed() < self.options.status_repeat) {
            return;
        }
        *told = Some(Instant::now());
        let event = Event {
            type_: if valid { EventType::Normal } else { EventType::Warning },
            reason: if valid { "ProfileValid" } else { "ProfileInvalid" }.to_owned(),
            note: Some(cut(&verdict.message, NOTE_BYTES)),
            action: "Check".to_owned(),
            secondary: None,
        };
        let regarding = ObjectReference {
            api_version: Some(PROFILE.api_version.to_owned()),
            kind: Some(PROFILE.kind.to_owned()),
            name: Some(profile.name.clone()),
            uid: Some(profile.uid.clone()).filter(|uid| !uid.is_empty()),
            ..ObjectReference::default()
        };
        if let Ok(published) = timeout(CALL_TIMEOUT, self.recorder.publish(&event, &regarding)).await {
            super::note_event(&self.health, &published);
        } else {
            tracing::debug!(profile = name, "an event could not be published: no answer");
        }
    }
}

/// Writes the status. The answer is not read: a profile that our types cannot hold must not look like a failure.
async fn apply(client: &Client, name: &str, body: &Value) -> Result<(), kube::Error> {
    let parameters = PatchParams::apply(MANAGER).force();
    let request = Request::new(PROFILE.path())
        .patch_subresource("status", name, &parameters, &Patch::Apply(body))
        .map_err(kube::Error::BuildRequest)?;
    client.request_text(request).await.map(drop)
}

#[cfg(test)]
mod tests {
    use plimsoll_core::problem::Problem;

    use super::*;
    use crate::cluster::fold::StoredCondition;

    fn profile(problems: usize, stored: Option<(&str, i64)>) -> SeenProfile {
        let problems: Vec<_> =
            (0..problems).map(|index| Problem::new(format!("spec.{index}"), "range", "is wrong")).collect();
        let mut profile = SeenProfile {
            name: "shared".to_owned(),
            uid: "1".to_owned(),
            generation: 3,
            problems,
            stored: None,
        };
        let now = verdict(&profile);
        profile.stored = stored.map(|(status, generation)| StoredCondition {
            status: status.to_owned(),
            reason: now.reason.to_owned(),
            message: now.message,
            observed_generation: Some(generation),
            last_transition: Some("2026-03-01T10:00:00Z".to_owned()),
        });
        profile
    }

    #[test]
    fn written_only_when_it_says_something_else() {
        for (rule, problems, stored, news, turn) in [
            ("new and valid: status, no event", 0, None, true, false),
            ("new and invalid", 1, None, true, true),
            ("valid as before", 0, Some(("True", 3)), false, false),
            ("invalid as before", 2, Some(("False", 3)), false, false),
            ("valid, older generation", 0, Some(("True", 2)), true, false),
            ("turned invalid", 1, Some(("True", 2)), true, true),
            ("turned valid", 0, Some(("False", 2)), true, true),
        ] {
            let profile = profile(problems, stored);
            let verdict = verdict(&profile);
            assert_eq!((is_news(&profile, &verdict), is_turn(&profile, &verdict)), (news, turn), "{rule}");
        }
    }

    #[test]
    fn the_time_of_the_transition_stays_while_the_status_does() {
        let now: Timestamp = "2026-04-01T00:00:00.5Z".parse().unwrap();
        for (rule, stored, expected) in [
            ("none before", None, "2026-04-01T00:00:00Z"),
            ("same status", Some(("False", 1)), "2026-03-01T10:00:00Z"),
            ("other status", Some(("True", 1)), "2026-04-01T00:00:00Z"),
        ] {
            let profile = profile(2, stored);
            let body = patch(&profile, &verdict(&profile), now);
            let condition = &body["status"]["conditions"][0];
            assert_eq!(condition["lastTransitionTime"], expected, "{rule}");
            assert_eq!(condition["observedGeneration"], 3, "{rule}");
            assert_eq!(
                condition["message"],
                "the profile is not used: spec.0: is wrong [range]; spec.1: is wrong [range]"
            );
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "lo...");
        assert_eq!(cut("ééé", 5), "é...");
    }
}
