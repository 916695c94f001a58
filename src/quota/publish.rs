//! What people see of a tree: its status, events when that turns, and metrics.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, ListParams};
use plimsoll_core::nesting;
use plimsoll_core::problem::join;
use plimsoll_core::quota::ledger::Ledger;
use plimsoll_core::quota::{Amounts, StoredTree, TREE_NAMESPACE, Tree, report};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::events;
use super::status::Written;
use super::store::ledger_name;
use super::{CALL_TIMEOUT, StatusWriter};
use crate::cluster::{Call, Events, News, WriteError, cut, send};
use crate::config;
use crate::crd::{GROUP, VERSION};
use crate::metrics::Metrics;
use crate::status::{Health, Part};

/// The API server takes objects of about 1.5 MB; the tree itself is in the object too.
const MOST_STATUS: usize = 400_000;
/// The longest message of a condition.
const MOST_MESSAGE: usize = 4_000;

/// Publishes what is known of one tree.
pub(super) struct Publisher {
    writer: StatusWriter,
    events: Arc<Events>,
    metrics: Arc<Metrics>,
    every: Duration,
    metrics_per_tree: bool,
    next: Instant,
    /// As it was written last.
    written: Value,
    /// Whether a ledger of the tree may have been in force before.
    had_ledger: bool,
    can_write: bool,
    /// What became of noting that a ledger comes into force, if that was tried.
    marked: Option<Mark>,
    /// What could not be read in the beginning is tried again, so that it is told for as long as it is so.
    unread: Option<Unread>,
}

/// With what it is read, and the namespace of ledgers.
struct Unread {
    client: Client,
    namespace: String,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher").field("had_ledger", &self.had_ledger).finish_non_exhaustive()
    }
}

/// What may fail, as it is told.
const STATUS: &str = "write the quota tree's status";
const READ: &str = "read the quota tree";
const LIST: &str = "list quota ledgers";

/// What became of noting that a ledger comes into force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// It is noted.
    Done,
    /// There is nowhere to note it, so that it must be taken for granted that there was one before.
    Nowhere,
    /// It could not be noted now.
    Failed,
}

impl Publisher {
    /// # Errors
    /// [`WriteError::Unavailable`]: whether there was a ledger before may soon be known, and who takes it for granted waits
    /// for long before it counts. What will not change by asking again is taken for granted.
    pub(super) async fn new(
        writer: StatusWriter,
        events: Arc<Events>,
        metrics: Arc<Metrics>,
        client: Client,
        tree: &Tree,
        namespace: &str,
        config: &config::Quota,
    ) -> Result<Self, WriteError> {
        let status = status_of(&client, metrics.health(), tree).await?;
        let others = match &status {
            Some(status) if status.get("ledger").is_some() => Some(true),
            Some(_) => others_exist(&client, metrics.health(), namespace, tree).await?,
            None => None,
        };
        Ok(Self {
            writer,
            events,
            metrics,
            every: config.status_interval,
            metrics_per_tree: config.metrics_per_tree,
            next: Instant::now(),
            written: status.unwrap_or_default(),
            // Not known: the safe side.
            had_ledger: others.unwrap_or(true),
            can_write: true,
            marked: None,
            unread: others.is_none().then(|| Unread { client, namespace: namespace.to_owned() }),
        })
    }

    pub(super) const fn had_ledger(&self) -> bool {
        self.had_ledger
    }

    /// Notes in the tree's status that a ledger of it comes into force, before it does.
    pub(super) async fn mark(&mut self, tree: &Tree) -> Mark {
        if self.written.get("ledger").is_some() || self.marked == Some(Mark::Nowhere) {
            return Mark::Done;
        }
        let mut status = self.written.clone();
        if !status.is_object() {
            status = json!({});
        }
        if let Some(members) = status.as_object_mut() {
            members.insert("ledger".to_owned(), json!({ "name": ledger_name(&tree.name) }));
        }
        let mark = self.write(tree, status).await;
        self.marked = Some(mark);
        mark
    }

    /// Writes the status, if it is due and says something new.
    pub(super) async fn publish(&mut self, stored: &StoredTree, ledger: &Ledger) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + self.every;
        let tree = &stored.tree;
        if let Some(Unread { client, namespace }) = &self.unread {
            let health = self.metrics.health();
            if matches!(status_of(client, health, tree).await, Ok(Some(_)))
                && matches!(others_exist(client, health, namespace, tree).await, Ok(Some(_)))
            {
                self.unread = None;
            }
        }
        if self.metrics_per_tree {
            self.note(tree, ledger);
        }
        if !self.can_write {
            return;
        }
        let shown = report(tree, ledger, MOST_STATUS);
        let condition = self.condition(stored);
        let turned = condition.get("lastTransitionTime") != self.old_condition().get("lastTransitionTime");
        let mut status = json!({
            "observedGeneration": tree.generation,
            "ledger": { "name": ledger_name(&tree.name) },
            "conditions": [condition],
            "borrowed": shown.borrowed.quantities(),
            "root": shown.root,
        });
        if shown.is_cut
            && let Some(members) = status.as_object_mut()
        {
            members.insert("levels".to_owned(), json!(shown.levels));
        }
        if status == self.written {
            return;
        }
        let condition = status.pointer("/conditions/0").cloned().unwrap_or_default();
        if self.write(tree, status).await == Mark::Done && turned {
            self.tell(tree, &condition).await;
        }
    }

    fn note(&self, tree: &Tree, ledger: &Ledger) {
        let Some((root, node)) = tree.ids().zip(tree.nodes()).next() else { return };
        let used = ledger.used(tree).at(root).clone();
        let mut requested: Amounts = used.clone();
        requested.add(ledger.claimed(tree).at(root));
        self.metrics.quota_tree(&tree.name, &used, &requested, &node.max);
    }

    fn old_condition(&self) -> Value {
        self.written.pointer("/conditions/0").cloned().unwrap_or_default()
    }

    /// `Ready`, with the time since when it is so.
    fn condition(&self, stored: &StoredTree) -> Value {
        let (status, reason, message) = if stored.problems.is_empty() {
            ("True", "Counted", "usage is counted, and maxima hold".to_owned())
        } else {
            ("False", "Violations", format!("nothing is reclaimed: {}", join(&stored.problems)))
        };
        let old = self.old_condition();
        let since = match (old.get("status").and_then(Value::as_str), old.get("lastTransitionTime")) {
            (Some(before), Some(since)) if before == status => since.clone(),
            _ => json!(Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        };
        json!({
            "type": "Ready", "status": status, "reason": reason, "message": cut(&message, MOST_MESSAGE),
            "lastTransitionTime": since, "observedGeneration": stored.tree.generation,
        })
    }

    async fn tell(&self, tree: &Tree, condition: &Value) {
        let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default();
        let is_ready = text("status") == "True";
        let (news, reason) =
            if is_ready { (News::Normal, "QuotaReady") } else { (News::Warning, "QuotaViolations") };
        self.events.publish(&events::of_tree(tree), news, reason, "Count", text("message")).await;
    }

    async fn write(&mut self, tree: &Tree, status: Value) -> Mark {
        match self.writer.write(tree, &status).await {
            Ok(Written::Yes) => {
                self.metrics.health().works(Part::QuotaKeeper, STATUS);
                self.written = status;
                Mark::Done
            }
            // Whoever watches it will say so.
            Ok(Written::Gone) => Mark::Failed,
            Ok(Written::NoSubresource) => {
                tracing::warn!(
                    tree = tree.name,
                    "the installed CRD of ElasticQuotaTree has no status: usage is in the QuotaLedger and the metrics only"
                );
                self.can_write = false;
                Mark::Nowhere
            }
            // Asking again does not help before somebody changes the CRD; quota goes on meanwhile.
            Err(error @ (WriteError::Refused { .. } | WriteError::TooLarge { .. })) => {
                if self.metrics.health().failed(Part::QuotaKeeper, STATUS, &error) {
                    tracing::warn!(%error, "the quota tree's status is not taken: usage is in the QuotaLedger and the metrics only; trying again");
                }
                Mark::Nowhere
            }
            Err(error) => {
                if self.metrics.health().failed(Part::QuotaKeeper, STATUS, &error) {
                    tracing::warn!(%error, "the quota tree's status cannot be written; trying again");
                }
                Mark::Failed
            }
        }
    }
}

/// The status of a tree as it stands; nothing if it cannot be read. An error only if asking again may help.
async fn status_of(client: &Client, health: &Health, tree: &Tree) -> Result<Option<Value>, WriteError> {
    let object = format!("{TREE_NAMESPACE}/{}", tree.name);
    let call = Call {
        verb: "get",
        kind: "ElasticQuotaTree",
        resource: "elasticquotatrees",
        group: "scheduling.sigs.k8s.io",
        object: &object,
        bytes: 0,
    };
    let path = format!("/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/{TREE_NAMESPACE}/elasticquotatrees");
    let request = Request::new(path).get(&tree.name, &GetParams::default());
    match send(client, call, request, CALL_TIMEOUT).await {
        Ok(text) => {
            health.works(Part::QuotaKeeper, READ);
            let object: Option<Value> = nesting::from_str(&text, nesting::Deeper::Cut).ok();
            Ok(object.map(|object| object.get("status").cloned().unwrap_or_else(|| json!({}))))
        }
        // It was just deleted, which whoever watches it will say.
        Err(WriteError::NotFound { .. }) => {
            health.works(Part::QuotaKeeper, READ);
            Ok(None)
        }
        Err(error) => {
            let is_news = health.failed(Part::QuotaKeeper, READ, &error);
            if matches!(error, WriteError::Unavailable { .. }) {
                return Err(error);
            }
            if is_news {
                tracing::warn!(%error, "the quota tree cannot be read; it is taken for granted that it had a ledger");
            }
            Ok(None)
        }
    }
}

/// Whether there are ledgers of other trees: promises made by them may still come true. Nothing if they cannot be listed.
/// An error only if asking again may help: the API server answers so while it begins to serve the kind.
async fn others_exist(
    client: &Client,
    health: &Health,
    namespace: &str,
    tree: &Tree,
) -> Result<Option<bool>, WriteError> {
    #[derive(serde::Deserialize)]
    struct Page {
        // The API server writes an empty list of metadata as null.
        items: Option<Vec<Item>>,
    }
    #[derive(serde::Deserialize)]
    struct Item {
        metadata: Metadata,
    }
    #[derive(serde::Deserialize)]
    struct Metadata {
        name: String,
    }
    let call = Call {
        verb: "list",
        kind: "QuotaLedger",
        resource: "quotaledgers",
        group: GROUP,
        object: namespace,
        bytes: 0,
    };
    let path = format!("/apis/{GROUP}/{VERSION}/namespaces/{namespace}/quotaledgers");
    let request = Request::new(path).list_metadata(&ListParams::default());
    match send(client, call, request, CALL_TIMEOUT).await {
        Ok(text) => {
            health.works(Part::QuotaKeeper, LIST);
            Ok(Some(serde_json::from_str::<Page>(&text).map_or(true, |page| {
                page.items.iter().flatten().any(|item| item.metadata.name != ledger_name(&tree.name))
            })))
        }
        Err(error) => {
            let is_news = health.failed(Part::QuotaKeeper, LIST, &error);
            if matches!(error, WriteError::Unavailable { .. }) {
                return Err(error);
            }
            if is_news {
                tracing::warn!(%error, "the quota ledgers cannot be listed; it is taken for granted that there are others");
            }
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request as HttpRequest, Response};
    use kube::client::Body;

    use super::*;
    use crate::quota::leader::Parts;

    /// An API server that answers everything in one way.
    fn answering(code: u16, body: &Value) -> Client {
        let body = body.to_string();
        let service = tower::service_fn(move |_: HttpRequest<Body>| {
            let answer = Response::builder().status(code).body(Body::from(body.clone().into_bytes()));
            async move { Ok::<_, Infallible>(answer.unwrap()) }
        });
        Client::new(service, "default")
    }

    /// The installed CRD has another schema of status: without this the ledger would never be in force.
    #[tokio::test]
    async fn a_status_that_is_not_taken_is_told_and_stops_no_quota() {
        let service = tower::service_fn(|request: HttpRequest<Body>| {
            let (code, body) = match request.method().as_str() {
                "PATCH" => (
                    422,
                    json!({"kind": "Status", "code": 422, "reason": "Invalid", "message": "status.root: Invalid value", "details": {"name": "elastic"}}),
                ),
                _ => (200, json!({"metadata": {"name": "elastic", "uid": "1"}, "items": []})),
            };
            let answer = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(answer.unwrap()) }
        });
        let client = Client::new(service, "default");
        let tree = Tree::new("elastic", "1", 1, []);
        let metrics = Arc::new(Metrics::new("test"));
        let mut publisher = Publisher::new(
            StatusWriter::new(client.clone()),
            Arc::new(Events::new(client.clone(), "test")),
            Arc::clone(&metrics),
            client,
            &tree,
            "plimsoll",
            &Parts::for_tests().config,
        )
        .await
        .unwrap();
        assert_eq!(publisher.mark(&tree).await, Mark::Nowhere);
        let counts = metrics.health().counts();
        let told = counts.into_iter().find(|(part, _)| *part == Part::QuotaKeeper).unwrap().1;
        assert_eq!(told, [0, 1], "it is told");
        assert_eq!(publisher.mark(&tree).await, Mark::Done, "the ledger comes into force after the wait");
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_in_the_status_until_it_can() {
        let status = |code: u16, reason: &str| json!({"kind": "Status", "code": code, "reason": reason, "message": "no", "details": {"name": "elastic"}});
        let tree = Tree::new("elastic", "1", 1, []);
        let health = Health::default();
        let failing = || {
            let counts = health.counts();
            counts.into_iter().find(|(part, _)| *part == Part::QuotaKeeper).unwrap().1
        };
        for (rule, code, body, counts, asks_again) in [
            ("a right is missing", 403, status(403, "Forbidden"), [2, 0], false),
            ("the API server is busy", 503, status(503, "ServiceUnavailable"), [0, 2], true),
            ("the API server begins to serve the kind", 429, status(429, "TooManyRequests"), [0, 2], true),
            ("it works", 200, json!({"metadata": {"name": "elastic"}, "items": []}), [0, 0], false),
        ] {
            let client = answering(code, &body);
            let read = status_of(&client, &health, &tree).await;
            let others = others_exist(&client, &health, "plimsoll", &tree).await;
            assert_eq!(failing(), counts, "{rule}");
            assert_eq!([read.is_err(), others.is_err()], [asks_again; 2], "{rule}");
            let known = code == 200;
            let found = (read.ok().flatten().is_some(), others.ok().flatten());
            assert_eq!(found, (known, known.then_some(false)), "{rule}");
        }
    }
}
