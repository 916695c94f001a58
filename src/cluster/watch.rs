//! Lists and watches one kind for as long as somebody wants to know.
//!
//! The loop is our own, not that of `kube`'s runtime, because it must see bookmarks: they are how one knows on a
//! quiet cluster that the API server is still there. It also reads objects as they come, so that one that makes no
//! sense costs nothing but itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use kube::Client;
use kube::core::params::{ListParams, WatchParams};
use kube::core::{Request, WatchEvent};
use plimsoll_core::nesting::{self, Deeper};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::ClusterOptions;
use super::Page;
use super::backoff::{Backoff, chance};
use crate::metrics::Metrics;
use crate::status::{Failure, Part};

/// How long one page of a list, or the head of a watch's answer, may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How much later than promised the end of a watch may come before the connection counts as dead.
const WATCH_MARGIN: Duration = Duration::from_secs(5);
/// After so many failures in a row at the same version the objects are listed anew: perhaps it is the version that
/// the API server cannot go on from.
const MOST_FAILURES: u32 = 5;
/// A watch that ends sooner is not followed by the next one at once.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// How many watches there were.
static WATCHES: AtomicU64 = AtomicU64::new(1);

/// Why a list or a watch failed.
#[derive(Debug, Error)]
enum WatchFailure {
    #[error("{}{}", describe(.0), if is_forbidden(.0) { ": grant list and watch to the service account" } else { "" })]
    Client(#[from] Box<kube::Error>),
    #[error("no answer within {} s", ANSWER_TIMEOUT.as_secs())]
    Slow,
    #[error("the answer is no list: {0}")]
    NoList(serde_json::Error),
    #[error("the list has no resourceVersion")]
    NoVersion,
}

impl From<kube::Error> for WatchFailure {
    fn from(error: kube::Error) -> Self {
        Self::Client(Box::new(error))
    }
}

impl From<kube::core::request::Error> for WatchFailure {
    fn from(error: kube::core::request::Error) -> Self {
        kube::Error::BuildRequest(error).into()
    }
}

impl WatchFailure {
    fn code(&self) -> Option<u16> {
        match self {
            Self::Client(error) => match error.as_ref() {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            _ => None,
        }
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// The error with its causes; what an operator can do where the status tells it.
pub(crate) fn describe(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return match status.code {
            401 => format!(
                "{}: the credentials are not accepted; check the kubeconfig or service account",
                status.message
            ),
            // Who may not is named there, and what.
            403 => status.message.clone(),
            code => format!("{} ({code})", status.message),
        };
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// An object of an event. It may be deeper than `serde_json` reads by itself: a quota tree is, and whoever may write one
/// must not be able to hide it. What is deeper than anything should be is read as null.
#[derive(Clone, Debug)]
struct Watched(Value);

impl<'de> Deserialize<'de> for Watched {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Skipping over the text of the object takes no stack.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        nesting::from_str(raw.get(), Deeper::Cut).map(Self).map_err(serde::de::Error::custom)
    }
}

/// What is listed and watched.
#[derive(Clone, Debug)]
pub(super) struct Collection {
    /// The path of the collection over all namespaces.
    pub(super) path: String,
    /// Paths of older versions, asked for in turn where that one is not served.
    pub(super) older_paths: Vec<String>,
    /// Its name in metrics and in the log.
    pub(super) kind: &'static str,
    /// Whether metadata is all that is wanted.
    pub(super) metadata_only: bool,
    /// Whether the cluster may not know the kind.
    pub(super) may_be_absent: bool,
}

/// Makes of objects what the receiver of the changes wants. `Err` is why an object makes no sense at all.
pub(super) trait Reader: Send + Sync {
    /// What is kept of an object of a list.
    type Item: Send;
    /// What the receiver is told.
    type Change: Send;

    fn item(&self, object: &Value) -> Result<Option<Self::Item>, String>;
    /// These are all of them, at this version.
    fn listed(&self, items: Vec<Self::Item>, version: &str) -> Self::Change;
    /// The cluster does not know the kind.
    fn absent(&self) -> Self::Change;
    /// We may not list the kind. Nothing where nobody wants to know.
    fn forbidden(&self) -> Option<Self::Change> {
        None
    }
    /// The object was added or changed.
    fn put(&self, object: &Value) -> Result<Option<Self::Change>, String>;
    /// The object is gone; this is its last state.
    fn gone(&self, object: &Value) -> Vec<Self::Change>;
}

/// The watch of one kind.
pub(super) struct Watch<R: Reader> {
    client: Client,
    collection: Collection,
    reader: R,
    changes: mpsc::Sender<R::Change>,
    metrics: Arc<Metrics>,
    options: ClusterOptions,
    backoff: Backoff,
    failing: bool,
    /// Which watch this is: of pods there are several, and one that works says nothing of another one.
    number: u64,
    /// The path that is served.
    served: String,
}

/// The receiver is gone: nobody wants to know any more.
struct Ended;

impl<R: Reader> Watch<R> {
    pub(super) fn new(
        client: Client,
        collection: Collection,
        reader: R,
        changes: mpsc::Sender<R::Change>,
        metrics: Arc<Metrics>,
        options: ClusterOptions,
    ) -> Self {
        let backoff = Backoff::new(options.first_pause, options.longest_pause);
        let served = collection.path.clone();
        let number = WATCHES.fetch_add(1, Ordering::Relaxed);
        Self {
            client,
            collection,
            reader,
            changes,
            metrics,
            options,
            backoff,
            failing: false,
            number,
            served,
        }
    }

    /// Lists and watches until nobody wants the changes any more.
    pub(super) async fn run(mut self) {
        let Ended = self.until_ended().await;
    }

    async fn until_ended(&mut self) -> Ended {
        let mut absences = 0_u32;
        let mut listed = false;
        loop {
            match self.list().await {
                Ok((version, items)) => {
                    absences = 0;
                    listed = true;
                    if self.send(self.reader.listed(items, &version)).await.is_err() {
                        return Ended;
                    }
                    self.works_again();
                    if let Err(Ended) = self.follow(version).await {
                        return Ended;
                    }
                }
                Err(failure) if failure.code() == Some(404) && self.collection.may_be_absent => {
                    absences += 1;
                    self.heard();
                    // A kind that was there is believed to be gone when it is said twice: an API server that
                    // starts may not know all kinds yet.
                    if absences >= 2 || !listed {
                        listed = false;
                        if self.send(self.reader.absent()).await.is_err() {
                            return Ended;
                        }
                    }
                }
                Err(failure) => {
                    self.failed("list", &failure);
                    if failure.code() == Some(403)
                        && let Some(change) = self.reader.forbidden()
                        && self.send(change).await.is_err()
                    {
                        return Ended;
                    }
                }
            }
            if self.changes.is_closed() {
                return Ended;
            }
            sleep(self.backoff.pause()).await;
        }
    }

    /// All objects of the kind, and the version at which they were all of them. Each time the preferred version of the
    /// kind is asked for first: it may be new.
    async fn list(&mut self) -> Result<(String, Vec<R::Item>), WatchFailure> {
        self.served.clone_from(&self.collection.path);
        let mut listed = self.list_served().await;
        for path in self.collection.older_paths.clone() {
            if listed.as_ref().err().and_then(WatchFailure::code) != Some(404) {
                break;
            }
            self.served = path;
            listed = self.list_served().await;
        }
        listed
    }

    async fn list_served(&self) -> Result<(String, Vec<R::Item>), WatchFailure> {
        let request = Request::new(&self.served);
        let mut parameters = ListParams::default().limit(self.options.page_size);
        let mut items = Vec::new();
        loop {
            let request = if self.collection.metadata_only {
                request.list_metadata(&parameters)?
            } else {
                request.list(&parameters)?
            };
            let text = timeout(ANSWER_TIMEOUT, self.client.request_text(request))
                .await
                .map_err(|_| WatchFailure::Slow)??;
            let page: Page<'_> = serde_json::from_str(&text).map_err(WatchFailure::NoList)?;
            self.heard();
            for raw in page.items() {
                let object = nesting::from_str(raw.get(), Deeper::Cut).map_err(WatchFailure::NoList)?;
                items.extend(self.noted(self.reader.item(&object)).flatten());
            }
            let Some(next) = page.next() else {
                let version = page.version().ok_or(WatchFailure::NoVersion)?;
                return Ok((version.to_owned(), items));
            };
            parameters = parameters.continue_token(next);
        }
    }

    /// Watches from `version` on, until the objects have to be listed anew.
    async fn follow(&mut self, mut version: String) -> Result<(), Ended> {
        let mut failures = 0;
        loop {
            let started = Instant::now();
            let before = version.clone();
            let outcome = self.watch_once(&mut version).await;
            if version != before {
                failures = 0;
            }
            match outcome {
                Ok(Outcome::Over) if started.elapsed() >= SHORT_WATCH => {}
                Ok(Outcome::Over) => sleep(self.backoff.pause()).await,
                Ok(Outcome::Ended) => return Err(Ended),
                Err(failure) => {
                    // 410: the version is too old. 404: the kind is gone; the list finds out.
                    if matches!(failure.code(), Some(404 | 410)) {
                        tracing::debug!(kind = self.collection.kind, %failure, "watch: listing anew");
                        return Ok(());
                    }
                    self.failed("watch", &failure);
                    failures += 1;
                    if failures >= MOST_FAILURES {
                        return Ok(());
                    }
                    if self.changes.is_closed() {
                        return Err(Ended);
                    }
                    sleep(self.backoff.pause()).await;
                }
            }
        }
    }

    async fn watch_once(&mut self, version: &mut String) -> Result<Outcome, WatchFailure> {
        // Not all kinds and replicas at the same moment.
        let seconds = 240 + u32::try_from(chance(Duration::from_secs(50)).as_secs()).unwrap_or_default();
        let limit = Duration::from_secs(u64::from(seconds)) + WATCH_MARGIN;
        let parameters = WatchParams { timeout: Some(seconds), bookmarks: true, ..WatchParams::default() };
        let request = Request::new(&self.served);
        let request = if self.collection.metadata_only {
            request.watch_metadata(&parameters, version)?
        } else {
            request.watch(&parameters, version)?
        };
        let events = timeout(ANSWER_TIMEOUT, self.client.request_events::<Watched>(request))
            .await
            .map_err(|_| WatchFailure::Slow)??;
        let mut events = std::pin::pin!(events);
        self.heard();
        // The pauses grow on until something arrives: what is only opened may fail again at once.
        self.say_works_again();
        loop {
            let event = tokio::select! {
                event = timeout(limit, events.try_next()) => event,
                () = self.changes.closed() => return Ok(Outcome::Ended),
            };
            let Ok(event) = event else {
                tracing::debug!(
                    kind = self.collection.kind,
                    "watch: the connection is silent; watching anew"
                );
                return Ok(Outcome::Over);
            };
            let event = match event {
                // What cannot be read is lost; watching anew from the version before it would bring it again.
                Err(error) if is_garbage(&error) => {
                    self.metrics.watch_error(self.collection.kind);
                    tracing::warn!(kind = self.collection.kind, %error, "watch: an event cannot be read; it is passed over");
                    continue;
                }
                event => event?,
            };
            let changes: Vec<_> = match event {
                None => return Ok(Outcome::Over),
                Some(WatchEvent::Bookmark(bookmark)) => {
                    *version = bookmark.metadata.resource_version;
                    Vec::new()
                }
                Some(WatchEvent::Error(status)) => return Err(kube::Error::Api(status).into()),
                Some(WatchEvent::Added(Watched(object)) | WatchEvent::Modified(Watched(object))) => {
                    note_version(version, &object);
                    self.noted(self.reader.put(&object)).flatten().into_iter().collect()
                }
                Some(WatchEvent::Deleted(Watched(object))) => {
                    note_version(version, &object);
                    self.reader.gone(&object)
                }
            };
            self.heard();
            self.works_again();
            for change in changes {
                if self.send(change).await.is_err() {
                    return Ok(Outcome::Ended);
                }
            }
        }
    }

    /// What was read; an object that makes no sense is counted and passed over.
    fn noted<T>(&self, read: Result<T, String>) -> Option<T> {
        read.map_err(|reason| {
            self.metrics.watch_error(self.collection.kind);
            tracing::warn!(kind = self.collection.kind, "{reason}");
        })
        .ok()
    }

    async fn send(&self, change: R::Change) -> Result<(), Ended> {
        self.changes.send(change).await.map_err(|_| Ended)
    }

    fn heard(&self) {
        self.metrics.snapshot_heard(self.collection.kind);
    }

    fn works_again(&mut self) {
        self.backoff.reset();
        self.say_works_again();
    }

    fn say_works_again(&mut self) {
        self.metrics.health().one_works(Part::Snapshots, self.collection.kind, self.number);
        if std::mem::take(&mut self.failing) {
            tracing::info!(kind = self.collection.kind, "the watch works again");
        }
    }

    fn failed(&mut self, what: &'static str, failure: &WatchFailure) {
        self.metrics.watch_error(self.collection.kind);
        let forbidden = failure.code() == Some(403);
        let told = Failure { message: format!("{what} failed: {failure}"), forbidden };
        self.metrics.health().one_failed(Part::Snapshots, self.collection.kind, self.number, told);
        if std::mem::replace(&mut self.failing, true) {
            tracing::debug!(kind = self.collection.kind, %failure, "{what} failed again");
        } else {
            tracing::warn!(kind = self.collection.kind, %failure, "{what} failed; the last snapshot stays, trying again");
        }
    }
}

impl<R: Reader> Drop for Watch<R> {
    fn drop(&mut self) {
        // What nobody wants to know any more does not fail any more.
        self.metrics.health().one_works(Part::Snapshots, self.collection.kind, self.number);
    }
}

/// How a watch ended without an error.
enum Outcome {
    /// Its time was up.
    Over,
    /// Nobody wants to know any more.
    Ended,
}

/// Whether an event made no sense. The client takes any JSON object that is no event for a status, of which then no
/// field is set.
fn is_garbage(error: &kube::Error) -> bool {
    match error {
        kube::Error::SerdeError(_) => true,
        kube::Error::Api(status) => status.code == 0,
        _ => false,
    }
}

fn note_version(version: &mut String, object: &Value) {
    if let Some(new) = object.pointer("/metadata/resourceVersion").and_then(Value::as_str)
        && !new.is_empty()
    {
        new.clone_into(version);
    }
}

#[cfg(test)]
mod tests {
    use kube::core::WatchEvent;

    use super::Watched;

    #[test]
    fn objects_of_any_depth_are_read() {
        for levels in [1, 100, 400, 300_000] {
            let deep = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
            let line = format!(r#"{{"type":"ADDED","object":{{"kind":"K","spec":{deep}}}}}"#);
            let event: WatchEvent<Watched> = serde_json::from_str(&line).unwrap();
            let WatchEvent::Added(Watched(object)) = event else { panic!("{event:?}") };
            assert_eq!(object.get("kind").and_then(serde_json::Value::as_str), Some("K"), "{levels}");
            let mut depth = 0;
            let mut at = object.get("spec").unwrap();
            while let Some(below) = at.get(0) {
                (at, depth) = (below, depth + 1);
            }
            assert_eq!(depth, levels.min(511), "{levels}");
        }
    }

    #[test]
    fn brackets_without_end_are_no_event() {
        let line = format!(r#"{{"type":"ADDED","object":{}"#, "[".repeat(300_000));
        assert!(serde_json::from_str::<WatchEvent<Watched>>(&line).is_err());
    }
}
