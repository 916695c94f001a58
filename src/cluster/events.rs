//! Events about objects, where people look.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::write_error::ends;
use crate::status::{Failure, Health, Part};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::time::{Instant, timeout};

/// How long an event may take to be published; it is not worth waiting for.
const EVENT_TIMEOUT: Duration = Duration::from_secs(5);
/// What may fail, as it is told.
const PUBLISH: &str = "publish events";
/// The longest note that the API server takes in an event is 1 KiB.
const NOTE_BYTES: usize = 1_000;
/// The least time between two events about one object for one reason.
const REPEAT: Duration = Duration::from_secs(60);
/// So many objects and reasons are remembered.
const REMEMBERED: usize = 10_000;

/// Publishes events, at most one in a while about one object for one reason. What cannot be published is lost.
pub struct Events {
    recorder: Recorder,
    told: Mutex<HashMap<(String, &'static str), Instant>>,
    health: Health,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// Whether an event is bad news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

impl Events {
    /// Nothing is called yet. `controller` is who tells, such as `plimsoll-quota`.
    pub fn new(client: Client, controller: &str) -> Self {
        let reporter = Reporter { controller: controller.to_owned(), ..Reporter::from(controller) };
        Self { recorder: Recorder::new(client, reporter), told: Mutex::default(), health: Health::default() }
    }

    /// Where it is told that events cannot be published.
    #[must_use]
    pub fn with_health(self, health: &Health) -> Self {
        Self { health: health.clone(), ..self }
    }

    /// Tells of an object, as [`reference`] names it. `reason` is one word in camel case, `action` what was done.
    pub async fn publish(
        &self,
        regarding: &ObjectReference,
        news: News,
        reason: &'static str,
        action: &str,
        note: &str,
    ) {
        if !self.is_due(regarding, reason) {
            return;
        }
        let event = Event {
            type_: if news == News::Normal { EventType::Normal } else { EventType::Warning },
            reason: reason.to_owned(),
            note: Some(crate::cluster::cut(note, NOTE_BYTES)),
            action: action.to_owned(),
            secondary: None,
        };
        if let Ok(published) = timeout(EVENT_TIMEOUT, self.recorder.publish(&event, regarding)).await {
            super::note_event(&self.health, &published);
        } else {
            tracing::debug!("an event could not be published: no answer");
        }
    }

    fn is_due(&self, regarding: &ObjectReference, reason: &'static str) -> bool {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let key = (
            [&regarding.kind, &regarding.namespace, &regarding.name, &regarding.uid].map(text).join("/"),
            reason,
        );
        let now = Instant::now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.get(&key).is_some_and(|last| now.saturating_duration_since(*last) < REPEAT) {
            return false;
        }
        if told.len() >= REMEMBERED {
            told.retain(|_, last| now.saturating_duration_since(*last) < REPEAT);
        }
        let has_room = told.len() < REMEMBERED;
        if has_room {
            told.insert(key, now);
        }
        // What cannot be remembered would be told over and over.
        has_room
    }
}

/// Notes what became of an event.
pub(crate) fn note(health: &Health, published: &Result<(), kube::Error>) {
    let error = match published {
        Err(error) if !is_of_ending_namespace(error) => error,
        // That a namespace takes nothing new while it is being deleted is said to who may write there.
        _ => {
            health.works(Part::Events, PUBLISH);
            return;
        }
    };
    let Failure { message, forbidden } = Failure::from(error);
    let grant = if forbidden { "; grant create and patch on events.events.k8s.io" } else { "" };
    let message = format!("create Event: {message}{grant}");
    if health.failed(Part::Events, PUBLISH, Failure { message, forbidden }) {
        tracing::warn!(%error, "events cannot be published; they are lost{grant}");
    }
}

fn is_of_ending_namespace(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403 && ends(status.details.as_ref(), &status.message))
}

/// An object, for events about it. Without a uid its events are not found by it.
pub(crate) fn reference(
    api_version: &str,
    kind: &str,
    namespace: &str,
    name: &str,
    uid: &str,
) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()).filter(|uid| !uid.is_empty()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_in_a_while() {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
        });
        let events = Events::new(Client::new(service, "default"), "plimsoll");
        let pod = |uid| reference("v1", "Pod", "shop", "web", uid);
        let due = |uid, reason| events.is_due(&pod(uid), reason);
        assert!(due("1", "Evicted") && !due("1", "Evicted"), "told once");
        assert!(due("2", "Evicted") && due("1", "Waits"), "another pod, another reason");
        tokio::time::advance(REPEAT).await;
        assert!(due("1", "Evicted"), "and again later");
    }

    #[test]
    fn what_is_a_failure() {
        let refused = |code: u16, message: &str, cause: Option<&str>| {
            let causes: Vec<_> = cause.iter().map(|cause| serde_json::json!({"reason": cause})).collect();
            let status = serde_json::json!({
                "status": "Failure", "code": code, "message": message, "reason": "Forbidden",
                "details": {"causes": causes},
            });
            Err(kube::Error::Api(serde_json::from_value(status).unwrap()))
        };
        for (rule, published, expected) in [
            ("published", Ok(()), [0, 0]),
            ("no right", refused(403, "events is forbidden: User x cannot create", None), [1, 0]),
            ("the namespace ends", refused(403, "x is forbidden", Some("NamespaceTerminating")), [0, 0]),
            ("the same in words", refused(403, "because it is being terminated", None), [0, 0]),
            ("another cause", refused(403, "x is forbidden", Some("Quota")), [1, 0]),
            ("down", refused(503, "NamespaceTerminating", Some("NamespaceTerminating")), [0, 1]),
        ] {
            let health = Health::default();
            note(&health, &published);
            let counts = health.counts().into_iter().find(|(part, _)| *part == Part::Events).unwrap();
            assert_eq!(counts.1, expected, "{rule}");
        }
    }
}
