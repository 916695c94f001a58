//! The one replica that keeps the ledger true: it counts pods, releases what came to nothing, makes room for claims,
//! and writes the tree's status and the namespaces of the webhooks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use plimsoll_core::objects::Objects;
use plimsoll_core::quota::keeper::{Found, Keeper, KeeperOptions, Superseded};
use plimsoll_core::quota::ledger::Ledger;
use plimsoll_core::quota::{Honour, QuotaPod, StoredTree, Tree};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::admission::{ReadFailure, read};
use super::publish::{Mark, Publisher};
use super::room::Room;
use super::store::{LedgerStore, LedgerVersion};
use super::{ClusterLedgerStore, Evictor, MANAGER, Retrier, StatusWriter, WebhookKeeper, content, pods};
use crate::cluster::{self, ClusterOptions, Events, PodChange, Snapshots, WriteError, chance};
use crate::config;
use crate::metrics::{ClaimEvent, Metrics};
use crate::server::CertificateStore;
use crate::status::{Failure, Part};

/// The least time between two writes of the ledger by the leader: replicas write it too.
const PACE: Duration = Duration::from_millis(100);
/// How often the ledger is read when nothing was heard.
const IDLE: Duration = Duration::from_millis(400);
/// How often it is looked whether there is a tree.
const TREE_POLL: Duration = Duration::from_millis(200);
/// How often it is looked whether somebody edited the webhooks.
const WEBHOOKS: Duration = Duration::from_secs(5);
/// So many changes of pods are taken over before the ledger is looked at.
const TAKEN_AT_ONCE: usize = 8192;
/// How long a list of all pods is held before it is compared with what the watch has told: it may be a little behind.
const SETTLE: Duration = Duration::from_secs(3);
/// When a recount or a mark failed, it is tried again so much later.
const AGAIN: Duration = Duration::from_secs(10);
/// How long a call for the ledger may take.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(5);
/// So many pods of old reservations are asked for in one round.
const SUSPECTS: usize = 32;
/// The same complaint is not repeated sooner.
const REPEAT: Duration = Duration::from_secs(60);
/// So often a write is tried again at once after a conflict.
const ATTEMPTS: u32 = 6;

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

/// How long a call for the ledger may take that a request waits for.
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
const COUNT: &str = "count pods anew";
const SUSPECTED: &str = "look for reserved pods";

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

/// Why a tree is not kept any more.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// Another tree counts, or none.
    Tree,
    /// Another replica leads.
    Superseded,
}

/// The work for one tree.
struct Kept {
    keeper: Keeper,
    stored: Arc<StoredTree>,
    /// Whether all pods were listed since the epoch was raised.
    listed: bool,
    /// When a ledger that is not initialised may be counted anew.
    count_at: u64,
    publisher: Publisher,
    next_recount: Instant,
    /// A list of all pods that is not compared yet, its version, and when it was made.
    recount: Option<(Option<u64>, Vec<Arc<QuotaPod>>, Instant)>,
    next_webhooks: Instant,
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
                    self.keep_webhooks(&Tree::default()).await;
                    next_webhooks = Instant::now() + WEBHOOKS;
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

    async fn keep_webhooks(&self, tree: &Tree) {
        let kept = self.webhooks.keep(tree).await;
        if self.parts.metrics.health().note(Part::QuotaKeeper, WEBHOOK, &kept)
            && let Err(error) = kept
        {
            tracing::warn!(%error, "the namespaces of the quota webhooks cannot be kept; trying again");
        }
    }

    /// Keeps the ledger of one tree.
    async fn keep(&self, stored: Arc<StoredTree>, token: &CancellationToken) -> Result<End, ReadFailure> {
        let config = &self.parts.config;
        let publisher = Publisher::new(
            self.status.clone(),
            Arc::clone(&self.events),
            Arc::clone(&self.parts.metrics),
            self.client.clone(),
            &stored.tree,
            &self.parts.own_namespace,
            config,
        )
        .await
        .map_err(ReadFailure::Store)?;
        let (epoch, wait) = self.raise_epoch(&stored, publisher.had_ledger()).await?;
        self.retire_others(&stored.tree).await?;
        let options = KeeperOptions {
            reservation_age: millis(config.old_after()),
            claim_expiry: millis(config.claim_expiry),
            claim_expiry_unprompted: millis(config.claim_expiry_unpatchable),
            ..KeeperOptions::default()
        };
        let mut kept = Kept {
            keeper: Keeper::new(epoch, options, Arc::clone(&stored.tree)),
            stored,
            listed: false,
            count_at: if wait { self.now().saturating_add(millis(config.old_after())) } else { self.now() },
            publisher,
            next_recount: Instant::now() + config.recount_interval,
            recount: None,
            next_webhooks: Instant::now(),
        };
        tracing::info!(tree = kept.stored.name, epoch, "this replica keeps the quota ledger");
        let watching = token.child_token();
        let _guard = watching.clone().drop_guard();
        // Only now: what the leader before counted and released happened before this list.
        let mut changes = cluster::watch_pods(
            self.client.clone(),
            ClusterOptions::default(),
            Arc::clone(&self.parts.metrics),
            watching,
            pods::read,
        );
        let mut ticks = interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = Instant::now();
        let mut dirty = true;
        loop {
            tokio::select! {
                change = changes.recv() => {
                    let Some(change) = change else { return Ok(End::Tree) };
                    self.take(&mut kept, change, &mut changes);
                    dirty = true;
                }
                _ = ticks.tick() => {
                    // Who is gone already must not be thought of as using anything.
                    if let Ok(change) = changes.try_recv() {
                        self.take(&mut kept, change, &mut changes);
                        dirty = true;
                    }
                    let same_tree = self.objects().quota_tree().is_some_and(|tree| Arc::ptr_eq(tree, &kept.stored));
                    if !dirty && same_tree && last.elapsed() < IDLE {
                        continue;
                    }
                    dirty = false;
                    last = Instant::now();
                    match self.round(&mut kept).await {
                        Ok(None) => {}
                        Ok(Some(end)) => return Ok(end),
                        Err(failure) => {
                            self.complain(&failure);
                            dirty = true;
                            sleep(IDLE).await;
                        }
                    }
                }
            }
        }
    }

    /// Takes over what the watch has to tell.
    fn take(
        &self,
        kept: &mut Kept,
        change: PodChange<Arc<QuotaPod>>,
        more: &mut mpsc::Receiver<PodChange<Arc<QuotaPod>>>,
    ) {
        let now = self.now();
        let mut change = Some(change);
        let mut left = TAKEN_AT_ONCE;
        while let Some(next) = change {
            match next {
                PodChange::Listed(pods, version) => {
                    kept.keeper.listed(pods, version, now);
                    kept.listed = true;
                }
                PodChange::Put(pod) => kept.keeper.put(pod),
                PodChange::Gone { uid, .. } => kept.keeper.gone(&uid, now),
            }
            left -= 1;
            change = if left == 0 { None } else { more.try_recv().ok() };
        }
    }

    /// Makes this replica's writes the only ones of a leader. The epoch, and whether a ledger that has to be counted
    /// anew may be so only after a while, because promises of the one before may still come true.
    async fn raise_epoch(&self, stored: &StoredTree, had_ledger: bool) -> Result<(u64, bool), ReadFailure> {
        let tree = &stored.tree;
        // No leader of a ledger that was lost can have had this epoch.
        let since_1970 =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        loop {
            let found = self.read(tree).await?;
            let written = match found {
                None => {
                    let ledger = Ledger::unknown(tree, since_1970.as_secs());
                    let spec = encoded(&ledger)?;
                    self.store.create(&tree.name, &spec).await.map(|_| (ledger.epoch, had_ledger))
                }
                Some((version, ledger)) => {
                    let wait = !ledger.initialised && had_ledger;
                    let epoch = ledger.epoch.saturating_add(1);
                    let spec = encoded(&Ledger { epoch, ..ledger })?;
                    self.store.replace(&tree.name, &version, &spec).await.map(|_| (epoch, wait))
                }
            };
            match written {
                Ok(done) => return Ok(done),
                Err(
                    WriteError::Conflict { .. }
                    | WriteError::AlreadyExists { .. }
                    | WriteError::NotFound { .. },
                ) => {
                    sleep(chance(PACE)).await;
                }
                Err(error) => return Err(ReadFailure::Store(error)),
            }
        }
    }

    /// The newest ledger. One that somebody deleted is carried over to a fresh object first; one that cannot be used,
    /// and was deleted, is let go.
    async fn read(&self, tree: &Tree) -> Result<Option<(LedgerVersion, Ledger)>, ReadFailure> {
        let stored = self.store.read(&tree.name).await.map_err(ReadFailure::Store)?;
        let Some(mut stored) = stored.filter(|stored| stored.deleting) else {
            return read(&self.store, &tree.name).await;
        };
        if content::read(&stored.spec).is_err() {
            let epoch = u64::try_from(stored.spec.epoch).unwrap_or(0).saturating_add(1);
            stored.spec = encoded(&Ledger::unknown(tree, epoch))?;
        }
        tracing::warn!(tree = tree.name, "the quota ledger was deleted; its content is carried over");
        match self.store.recreate(&tree.name, &stored).await {
            Ok(_) | Err(WriteError::Conflict { .. } | WriteError::AlreadyExists { .. }) => {}
            Err(error) => return Err(ReadFailure::Store(error)),
        }
        read(&self.store, &tree.name).await
    }

    /// One look at the ledger and what follows from it.
    async fn round(&self, kept: &mut Kept) -> Result<Option<End>, ReadFailure> {
        if let Some(end) = self.follow_tree(kept).await? {
            return Ok(Some(end));
        }
        if Instant::now() >= kept.next_webhooks {
            self.keep_webhooks(kept.keeper.tree()).await;
            kept.next_webhooks = Instant::now() + WEBHOOKS;
        }
        if !kept.listed {
            return Ok(None);
        }
        self.recount(kept).await;
        let ledger = match self.write_next(kept).await? {
            Written::Now(ledger) => ledger,
            Written::Superseded => return Ok(Some(End::Superseded)),
            Written::NotYet => return Ok(None),
        };
        self.parts.metrics.health().works(Part::QuotaKeeper, LEDGER);
        content::note(&self.parts.latest, kept.keeper.tree(), &ledger);
        let now = self.now();
        self.check_suspects(kept, &ledger, now).await;
        self.room.serve(&mut kept.keeper, &ledger, now).await;
        kept.publisher.publish(&kept.stored, &ledger).await;
        Ok(None)
    }

    /// Takes over a change of the tree; the end, if it is another one.
    async fn follow_tree(&self, kept: &mut Kept) -> Result<Option<End>, ReadFailure> {
        let Some(current) = self.objects().quota_tree().map(Arc::clone) else { return Ok(Some(End::Tree)) };
        if Arc::ptr_eq(&current, &kept.stored) {
            return Ok(None);
        }
        if current.tree.uid != kept.stored.tree.uid || current.tree.name != kept.stored.tree.name {
            return Ok(Some(End::Tree));
        }
        if current.tree != kept.stored.tree {
            // Whoever counts from now on must be asked about first.
            match self.webhooks.widen(&current.tree).await {
                Err(error @ WriteError::Unavailable { .. }) => return Err(ReadFailure::Store(error)),
                Err(error) => {
                    if self.parts.metrics.health().failed(Part::QuotaKeeper, WEBHOOK, &error) {
                        tracing::warn!(%error, "the namespaces of the quota webhooks cannot be kept; trying again");
                    }
                }
                Ok(()) => {}
            }
            kept.next_webhooks = Instant::now();
            kept.keeper.set_tree(Arc::clone(&current.tree));
        }
        kept.stored = current;
        Ok(None)
    }

    /// Writes what the ledger must become.
    async fn write_next(&self, kept: &mut Kept) -> Result<Written, ReadFailure> {
        for attempt in 0..ATTEMPTS {
            let tree = Arc::clone(kept.keeper.tree());
            let Some((version, mut ledger)) = self.read(&tree).await? else {
                self.rebuild(kept).await?;
                return Ok(Written::NotYet);
            };
            let mut counted = false;
            if !ledger.initialised {
                if ledger.epoch != kept.keeper.epoch() {
                    return Ok(Written::Superseded);
                }
                if self.now() < kept.count_at {
                    return Ok(Written::NotYet);
                }
                let wait = match kept.publisher.mark(&kept.stored.tree).await {
                    Mark::Done => None,
                    Mark::Nowhere => Some(self.parts.config.old_after()),
                    Mark::Failed => Some(AGAIN),
                };
                if let Some(wait) = wait {
                    kept.count_at = self.now().saturating_add(millis(wait));
                    return Ok(Written::NotYet);
                }
                // Counted from what is there now, not from what was there before promises could come true.
                let (version, pods) = pods::list(&self.client).await.map_err(ReadFailure::Store)?;
                kept.keeper.listed(pods, version, self.now());
                ledger.initialised = true;
                counted = true;
                tracing::info!(tree = tree.name, "what is in use was counted; the quota ledger is in force");
            }
            let (next, ended) = match kept.keeper.next(&ledger, self.now()) {
                Ok(next) => next,
                Err(Superseded { .. }) => return Ok(Written::Superseded),
            };
            let next = match next {
                Some(next) => next,
                None if counted => ledger,
                None => return Ok(Written::Now(ledger)),
            };
            let spec = encoded(&next)?;
            match self.store.replace(&tree.name, &version, &spec).await {
                Ok(_) => {
                    for _ in 0..ended.claims_expired {
                        self.parts.metrics.quota_claim(ClaimEvent::Expired);
                    }
                    return Ok(Written::Now(next));
                }
                Err(WriteError::Conflict { .. } | WriteError::NotFound { .. }) => {
                    sleep(chance(Duration::from_millis(10 << attempt.min(4)))).await;
                }
                Err(error) => return Err(ReadFailure::Store(error)),
            }
        }
        Ok(Written::NotYet)
    }

    /// The ledger vanished, with what was promised in it.
    async fn rebuild(&self, kept: &mut Kept) -> Result<(), ReadFailure> {
        let tree = Arc::clone(kept.keeper.tree());
        tracing::warn!(tree = tree.name, "the quota ledger is gone; what is in use is counted anew");
        let spec = encoded(&Ledger::unknown(&tree, kept.keeper.epoch()))?;
        kept.count_at = self.now().saturating_add(millis(self.parts.config.old_after()));
        match self.store.create(&tree.name, &spec).await {
            Ok(_) | Err(WriteError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(ReadFailure::Store(error)),
        }
    }

    /// Lists all pods when it is time, and compares them a little later with what the watch has told.
    async fn recount(&self, kept: &mut Kept) {
        if Instant::now() >= kept.next_recount {
            match pods::list(&self.client).await {
                Ok((version, pods)) => {
                    self.parts.metrics.health().works(Part::QuotaKeeper, COUNT);
                    kept.recount = Some((version, pods, Instant::now()));
                    kept.next_recount = Instant::now() + self.parts.config.recount_interval;
                }
                Err(error) => {
                    if self.parts.metrics.health().failed(Part::QuotaKeeper, COUNT, &error) {
                        tracing::warn!(%error, "the pods cannot be counted anew; trying again");
                    }
                    kept.next_recount = Instant::now() + AGAIN;
                }
            }
        }
        let Some((version, pods, _)) = kept.recount.take_if(|(_, _, at)| at.elapsed() >= SETTLE) else {
            return;
        };
        let drift = kept.keeper.listed(pods, version, self.now());
        self.parts.metrics.quota_recount(drift.namespaces);
        if !drift.is_none() {
            tracing::warn!(
                missing = drift.missing,
                surplus = drift.surplus,
                changed = drift.changed,
                "pods were counted anew, and the watch had not told of all"
            );
        }
    }

    /// Takes the ledgers of other trees out of force: what was promised in them must come true or be old before another
    /// ledger may promise the same room, and no replica that is behind may go on promising.
    async fn retire_others(&self, tree: &Tree) -> Result<(), ReadFailure> {
        for other in self.store.trees().await.map_err(ReadFailure::Store)? {
            if other == tree.name {
                continue;
            }
            loop {
                let Ok(Some((version, ledger))) = read(&self.store, &other).await else { break };
                if !ledger.initialised {
                    break;
                }
                let epoch = ledger.epoch.saturating_add(1);
                let spec = encoded(&Ledger { initialised: false, epoch, ..ledger })?;
                match self.store.replace(&other, &version, &spec).await {
                    Ok(_) | Err(WriteError::NotFound { .. }) => break,
                    Err(WriteError::Conflict { .. }) => sleep(chance(PACE)).await,
                    Err(error) => return Err(ReadFailure::Store(error)),
                }
            }
        }
        Ok(())
    }

    /// Asks for the pods of reservations that are old.
    async fn check_suspects(&self, kept: &mut Kept, ledger: &Ledger, now: u64) {
        let mut failures = 0;
        let suspects: Vec<_> = kept
            .keeper
            .suspects(ledger, now)
            .take(SUSPECTS)
            .map(|(key, reservation)| (key.clone(), reservation.clone()))
            .collect();
        for (key, reservation) in suspects {
            match pods::get(&self.client, &reservation.namespace, &reservation.name).await {
                Ok(found) => {
                    self.parts.metrics.health().works(Part::QuotaKeeper, SUSPECTED);
                    let found = found.filter(|pod| pod.uid == key.uid).map_or(Found::Absent, Found::Pod);
                    kept.keeper.checked(&key, &reservation, found, self.now());
                }
                Err(error) => {
                    if self.parts.metrics.health().failed(Part::QuotaKeeper, SUSPECTED, &error) {
                        tracing::warn!(%error, "it cannot be asked whether a reserved pod is there; it stays reserved");
                    }
                    failures += 1;
                    if failures == 3 {
                        return;
                    }
                }
            }
        }
    }
}

/// What became of a look at the ledger.
enum Written {
    /// It stands like this.
    Now(Ledger),
    /// Another leader writes it.
    Superseded,
    /// It cannot be judged by now.
    NotYet,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn encoded(ledger: &Ledger) -> Result<crate::crd::QuotaLedgerSpec, ReadFailure> {
    content::write(ledger).map_err(|error| ReadFailure::Content(error.to_string()))
}
