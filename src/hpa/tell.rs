//! What whoever looks at an autoscaler is told by events.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use plimsoll_core::hpa::{Hpa, Note, Original, Originals};
use plimsoll_core::profile::HpaMode;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::calls::MANAGER;
use crate::cluster::{Events, News, Next, WriteError, reference};
use crate::status::Health;

/// What was told is told again after this time if it is still so.
const STILL: Duration = Duration::from_secs(600);

/// What was told last about an autoscaler, by reason.
pub(super) type Told = HashMap<&'static str, (String, Instant)>;

/// So many events may wait for being published; more are lost.
const QUEUE: usize = 1_000;

/// Tells about autoscalers. Nobody waits until it is published.
#[derive(Debug)]
pub(super) struct Teller {
    events: mpsc::Sender<Event>,
    _publishing: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Event {
    regarding: ObjectReference,
    news: News,
    reason: &'static str,
    action: &'static str,
    text: String,
}

async fn publish(events: Events, mut queue: mpsc::Receiver<Event>) {
    while let Some(Event { regarding, news, reason, action, text }) = queue.recv().await {
        events.publish(&regarding, news, reason, action, &text).await;
    }
}

fn of_hpa(hpa: &Hpa) -> ObjectReference {
    reference("autoscaling/v2", "HorizontalPodAutoscaler", &hpa.namespace, &hpa.name, &hpa.uid)
}

impl Teller {
    pub(super) fn new(client: Client, health: &Health) -> Self {
        let (events, queue) = mpsc::channel(QUEUE);
        let publishing = tokio::spawn(publish(Events::new(client, MANAGER).with_health(health), queue));
        Self { events, _publishing: AbortOnDropHandle::new(publishing) }
    }

    /// What was done to it.
    pub(super) fn done(&self, hpa: &Hpa, notes: &[Note]) {
        let text = join(notes, |note| matches!(note, Note::Converted { .. }));
        self.publish(hpa, News::Normal, "HpaConverted", "Convert", text);
        let text = join(notes, |note| matches!(note, Note::Restored { .. }));
        self.publish(hpa, News::Normal, "HpaRestored", "Restore", text);
    }

    /// What the webhook did to it when somebody wrote it, if its record is another one than before.
    pub(super) fn seen(&self, hpa: &Hpa, before: Option<&str>) {
        let now = hpa.original.as_deref();
        if now == before {
            return;
        }
        let read =
            |text: Option<&str>| text.and_then(|text| Originals::read(text).ok()).unwrap_or_default().0;
        let (now, mut before) = (read(now), read(before));
        let mut converted = Vec::new();
        for (key, Original { target, written }) in &now {
            let old = before.remove(key);
            let Some(written) = written else { continue };
            if old.and_then(|old| old.written).is_none_or(|old| old.value != written.value) {
                converted.push(format!("{key}: {target} % as written is {}", written.value.text));
            }
        }
        self.publish(hpa, News::Normal, "HpaConverted", "Convert", converted.join("; "));
        let gone = before.iter().filter(|(_, old)| old.written.is_some());
        let gone: Vec<_> = gone.map(|(key, _)| format!("{key}: no longer converted")).collect();
        self.publish(hpa, News::Normal, "HpaRestored", "Restore", gone.join("; "));
    }

    /// What cannot be done for it.
    pub(super) fn not_done(&self, hpa: &Hpa, notes: &[Note], told: &mut Told) {
        let unreadable = |note: &Note| matches!(note, Note::Unreadable { .. });
        let text = join(notes, unreadable);
        self.stands(hpa, "HpaRecordUnreadable", "Convert", text, told);
        let text = join(notes, |note| note.is_warning() && !unreadable(note));
        self.stands(hpa, "HpaNotConverted", "Convert", text, told);
    }

    /// No webhook takes over what is written.
    pub(super) fn pending(&self, hpa: &Hpa) {
        let text = "its targets wait: the webhook hpas.plimsoll.dev did not answer, or is not installed; trying again";
        self.publish(hpa, News::Warning, "HpaSyncPending", "Convert", text.to_owned());
    }

    /// What it scales cannot be asked for.
    pub(super) fn target_unknown(&self, hpa: &Hpa, failure: Option<&str>, told: &mut Told) {
        let text = failure
            .map(|failure| format!("its pods are not known: {failure}; it is not converted until they are"));
        self.stands(hpa, "HpaTargetUnknown", "Convert", text.unwrap_or_default(), told);
    }

    /// The API server does not take what is written.
    pub(super) fn refused(&self, hpa: &Hpa, error: &WriteError, told: &mut Told) {
        if !matches!(error.next(), Next::Retry(_)) {
            self.stands(hpa, "HpaSyncRefused", "Convert", format!("its targets wait: {error}"), told);
        }
    }

    /// A profile leaves it to something that is not served here.
    pub(super) fn mode_not_offered(&self, hpa: &Hpa, mode: Option<HpaMode>, told: &mut Told) {
        let text = mode.map(|mode| {
            let setting = if mode == HpaMode::Shim { "hpa.shim.enabled" } else { "hpa.external.enabled" };
            format!(
                "the mode of its pods' profile is {}, which is not served: set {setting}, or another hpa.mode in the \
                 profile. Until then it is converted",
                mode.name()
            )
        });
        self.stands(hpa, "ModeNotOffered", "Convert", text.unwrap_or_default(), told);
    }

    /// Tells of a state once while it lasts, and now and then again.
    fn stands(&self, hpa: &Hpa, reason: &'static str, action: &'static str, text: String, told: &mut Told) {
        if text.is_empty() {
            told.remove(reason);
            return;
        }
        if told.get(reason).is_some_and(|(last, at)| *last == text && at.elapsed() < STILL) {
            return;
        }
        self.publish(hpa, News::Warning, reason, action, text.clone());
        told.insert(reason, (text, Instant::now()));
    }

    fn publish(&self, hpa: &Hpa, news: News, reason: &'static str, action: &'static str, text: String) {
        if text.is_empty() {
            return;
        }
        match news {
            News::Normal => {
                tracing::info!(namespace = hpa.namespace, autoscaler = hpa.name, reason, text, "autoscaler");
            }
            News::Warning => {
                tracing::warn!(namespace = hpa.namespace, autoscaler = hpa.name, reason, text, "autoscaler");
            }
        }
        if self.events.try_send(Event { regarding: of_hpa(hpa), news, reason, action, text }).is_err() {
            tracing::debug!("an event could not be published: too many wait");
        }
    }
}

fn join(notes: &[Note], which: impl Fn(&Note) -> bool) -> String {
    notes.iter().filter(|note| which(note)).map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
