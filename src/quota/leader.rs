//! The one replica that keeps the ledger true: it counts pods, releases what came to nothing, makes room for claims,
//! and writes the tree's status and the namespaces of the webhooks.

mod kept;
mod recount;
mod round;
mod suspects;
mod takeover;
mod writing;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use plimsoll_core::objects::Objects;
use plimsoll_core::quota::{Honour, Tree};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::kept::End;
use super::admission::ReadFailure;
use super::room::Room;
use super::{ClusterLedgerStore, Evictor, MANAGER, Retrier, StatusWriter, WebhookKeeper, content};
use crate::cluster::{Events, Snapshots, chance};
use crate::config;
use crate::metrics::Metrics;
use crate::server::CertificateStore;
use crate::status::{Failure, Part};

/// The least time between two writes of the ledger by the leader: replicas write it too.
const PACE: Duration = Duration::from_millis(100);
/// How often the ledger is read when nothing was heard.
const IDLE: Duration = Duration::from_millis(400);
/// How often it is looked whether there is a tree.
const TREE_POLL: Duration = Duration::from_millis(200);
/// How often it is looked whether somebody edited the webhooks: whoever applies the manifests again, as an upgrade does,
/// takes all namespaces out, and pods in them are not asked about until they are back.
const WEBHOOKS: Duration = Duration::from_secs(1);
/// The same after a failure, and while somebody else keeps writing them.
const WEBHOOKS_AGAIN: Duration = Duration::from_secs(5);
/// When a recount or a mark failed, it is tried again so much later.
const AGAIN: Duration = Duration::from_secs(10);
/// How long a call for the ledger may take.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(5);
/// The same complaint is not repeated sooner.
const REPEAT: Duration = Duration::from_secs(60);

/// What the leader needs.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Its settings.
    pub config: config::Quota,
    /// Where ledger and leases are.
    pub own_namespace: String,
    /// What is known of the cluster.
    pub snapshots: Arc<Snapshots>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where the ledger is noted for whoever asks.
    pub latest: content::Latest,
    /// The certificate of this replica, where Plimsoll itself writes what the API server trusts.
    pub certificate: Option<Arc<CertificateStore>>,
}

#[cfg(test)]
impl Parts {
    /// With the defaults; nothing is known of the cluster.
    pub(crate) fn for_tests() -> Self {
        let tls = serde_json::json!({"certificate": "/tls.crt", "key": "/tls.key"});
        let settings = serde_json::Map::from_iter([("tls".to_owned(), tls)]);
        let settings = config::check_tree(std::path::Path::new("test.yaml"), settings).unwrap();
        let metrics = Arc::new(Metrics::new("test"));
        Self {
            config: settings.config.quota,
            own_namespace: "plimsoll-system".to_owned(),
            snapshots: Arc::new(Snapshots::new(Arc::clone(&metrics))),
            metrics,
            latest: Arc::default(),
            certificate: None,
        }
    }
}

/// Where the ledger is; one call for it may take as long as `limit`.
pub fn ledger_store(client: Client, parts: &Parts, limit: Duration) -> ClusterLedgerStore {
    ClusterLedgerStore::new(client, parts.own_namespace.clone(), limit, Arc::clone(&parts.metrics))
}

/// Leads until `token` is cancelled, or another leader has taken over.
pub async fn lead(client: Client, parts: Parts, token: CancellationToken) {
    let leader = Leader::new(client, parts);
    tokio::select! {
        () = token.cancelled() => {}
        () = leader.run(&token) => {}
    }
    // Another replica tells of the tree from now on.
    leader.parts.metrics.quota_tree_gone();
}

/// What may fail, as it is told.
const LEDGER: &str = "keep the quota ledger";
const WEBHOOK: &str = "keep the namespaces of the quota webhooks";

struct Leader {
    client: Client,
    parts: Parts,
    store: ClusterLedgerStore,
    room: Room,
    webhooks: WebhookKeeper,
    status: StatusWriter,
    events: Arc<Events>,
    started: Instant,
    /// What was complained about last, and when.
    said: Mutex<Option<(String, Instant)>>,
}

impl Leader {
    fn new(client: Client, parts: Parts) -> Self {
        let events = Events::new(client.clone(), MANAGER).with_health(parts.metrics.health());
        let events = Arc::new(events);
        let reclaim = &parts.config.reclaim;
        let honour = match &reclaim.honour_do_not_evict {
            config::Namespaces::All => Honour::Everywhere,
            config::Namespaces::Named(names) => Honour::of(names),
        };
        let webhooks = WebhookKeeper::new(
            client.clone(),
            parts.config.webhook_name.clone(),
            parts.own_namespace.clone(),
            parts.config.webhook_timeout,
        );
        let webhooks = match &parts.certificate {
            Some(certificate) => webhooks.with_certificate(Arc::clone(certificate)),
            None => webhooks,
        };
        Self {
            store: ledger_store(client.clone(), &parts, LEDGER_TIMEOUT),
            room: Room {
                evictor: Evictor::new(client.clone(), Arc::clone(&parts.metrics)),
                retrier: Retrier::new(client.clone()),
                events: Arc::clone(&events),
                health: parts.metrics.health().clone(),
                honour,
                enabled: reclaim.enabled,
            },
            webhooks,
            status: StatusWriter::new(client.clone()),
            events,
            started: Instant::now(),
            said: Mutex::default(),
            client,
            parts,
        }
    }

    /// Milliseconds of our own clock.
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn objects(&self) -> Arc<Objects> {
        self.parts.snapshots.current().load_full()
    }

    async fn run(&self, token: &CancellationToken) {
        let mut next_webhooks = Instant::now();
        loop {
            let Some(stored) = self.objects().quota_tree().map(Arc::clone) else {
                self.parts.metrics.quota_tree_gone();
                if Instant::now() >= next_webhooks {
                    next_webhooks = self.keep_webhooks(&Tree::default()).await;
                }
                sleep(TREE_POLL).await;
                continue;
            };
            match self.keep(stored, token).await {
                Ok(End::Tree) => next_webhooks = Instant::now(),
                Ok(End::Superseded) => {
                    tracing::warn!("another replica keeps the quota ledger; the lease is given up");
                    return;
                }
                Err(failure) => {
                    self.complain(&failure);
                    sleep(IDLE + chance(IDLE)).await;
                }
            }
        }
    }

    /// Says what is wrong, and the same thing again only after a while.
    fn complain(&self, failure: &ReadFailure) {
        let text = failure.to_string();
        let told = match failure {
            ReadFailure::Store(error) => error.into(),
            ReadFailure::Content(_) => Failure::from(text.clone()),
        };
        self.parts.metrics.health().failed(Part::QuotaKeeper, LEDGER, told);
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = said.as_ref().is_none_or(|(old, at)| *old != text || at.elapsed() >= REPEAT);
        if is_news {
            tracing::error!(error = text, "the quota ledger cannot be kept; trying again");
            *said = Some((text, Instant::now()));
        }
    }

    /// When they are to be looked at again.
    async fn keep_webhooks(&self, tree: &Tree) -> Instant {
        let kept = self.webhooks.keep(tree).await;
        let pause = if kept.is_ok() { WEBHOOKS } else { WEBHOOKS_AGAIN };
        if self.parts.metrics.health().note(Part::QuotaKeeper, WEBHOOK, &kept)
            && let Err(error) = kept
        {
            tracing::warn!(%error, "the namespaces of the quota webhooks cannot be kept; trying again");
        }
        Instant::now() + pause
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
