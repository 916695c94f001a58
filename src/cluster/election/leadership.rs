//! Who does the work of a shard: the replica that holds its `Lease`.
//!
//! The election is our own. `kube-lease-manager` compares the times in a lease, which other machines wrote, with this
//! machine's clock, and takes a lease that has run out by a patch that does not say which state it replaces: two
//! replicas may both believe that they hold it, until each has read it again. Here every write replaces the state that
//! was read, time is measured on this machine alone, and the work is told to stop before another replica can begin.
//!
//! A machine that was suspended does not notice that time has passed; until its next renewal it may work beside the new
//! leader. What it must not overwrite is protected by versions, see [`crate::recommender::checkpoints`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use kube::Client;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::lease::{Lease, LeaseClient, Observed, Record, now_text};
use crate::cluster::WriteError;
use crate::cluster::chance;
use crate::metrics::Metrics;
use crate::status::Part;

/// A replica with more shards than this waits no longer than one with as many.
const MOST_PATIENCE: u32 = 8;

/// How shards are led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeadershipOptions {
    /// What is led, in the names of leases and in metrics, such as `recommender`.
    pub part: &'static str,
    /// The namespace of the leases: our own.
    pub namespace: String,
    /// Who this is; no two processes may have the same, see [`identity`].
    pub identity: String,
    /// Into how many shards the work is divided.
    pub shards: u32,
    /// After this time without a renewal another replica takes over; whole seconds.
    pub duration: Duration,
    /// How often a lease is renewed, and how often it is looked whether one is free.
    pub renew_interval: Duration,
}

/// The name of this process in leases: that of the pod (the variable `HOSTNAME`), and something that no other process
/// has, not even the one before it in the same pod.
pub fn identity(environment: &[(String, String)]) -> String {
    let host = environment.iter().find(|(name, value)| name == "HOSTNAME" && !value.is_empty());
    let host = host.map_or("plimsoll", |(_, value)| value.as_str());
    format!("{host}_{:08x}", chance(Duration::from_secs(u64::from(u32::MAX))).as_secs())
}

/// The name of the lease of a part's shard.
pub fn lease_name(part: &str, shards: u32, shard: u32) -> String {
    if shards <= 1 { format!("plimsoll-{part}") } else { format!("plimsoll-{part}-{shard}") }
}

/// The shards that this replica leads, and wants to. Clones share it.
#[derive(Clone)]
pub struct Leadership {
    client: Client,
    options: LeadershipOptions,
    metrics: Arc<Metrics>,
    /// How many shards this replica leads.
    held: Arc<AtomicU32>,
    /// Held while a lease is taken, so that each is taken knowing of those before it.
    taking: Arc<Mutex<()>>,
    /// Who led when this replica looked last; empty: nobody.
    holder: Arc<ArcSwap<String>>,
}

impl std::fmt::Debug for Leadership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leadership").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Leadership {
    /// Leads nothing yet.
    pub fn new(client: Client, options: LeadershipOptions, metrics: Arc<Metrics>) -> Self {
        Self {
            client,
            options,
            metrics,
            held: Arc::default(),
            taking: Arc::default(),
            holder: Arc::default(),
        }
    }

    /// Who leads, as this replica saw it last; empty: nobody. Of several shards that of any.
    pub fn holder(&self) -> Arc<ArcSwap<String>> {
        Arc::clone(&self.holder)
    }

    /// The part whose health it is that this is led.
    fn part(&self) -> Option<Part> {
        Part::of_lease(self.options.part)
    }

    /// Waits for the lease of a shard and does `work` while it is held, again and again until `cancelled`.
    ///
    /// The token that `work` gets is cancelled when the lease is lost, a quarter of its duration before another replica
    /// can take it, and when `cancelled` is. `work` must end then; the lease is released when it has. Work that ends by
    /// itself gives the lease up.
    ///
    /// # Panics
    /// When `work` does.
    pub async fn run<W, F>(&self, shard: u32, cancelled: CancellationToken, mut work: W)
    where
        W: FnMut(CancellationToken) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let lease = LeaseClient {
            client: self.client.clone(),
            namespace: self.options.namespace.clone(),
            name: lease_name(self.options.part, self.options.shards, shard),
        };
        let mut failing = Failing {
            shard,
            since: None,
            name: lease.name.clone(),
            part: self.part(),
            metrics: Arc::clone(&self.metrics),
        };
        self.metrics.leader(self.options.part, shard, false);
        while !cancelled.is_cancelled() {
            let taken = tokio::select! {
                taken = self.acquire(&lease, &mut failing) => taken,
                () = cancelled.cancelled() => return,
            };
            tracing::info!(shard, lease = lease.name, "this replica leads the {}", self.options.part);
            self.metrics.leader(self.options.part, shard, true);
            self.holder.store(Arc::new(self.options.identity.clone()));
            if let Some(part) = self.part() {
                self.metrics.health().lease(part, shard, &self.options.identity, true);
            }
            let ending = cancelled.child_token();
            // It must not outlive this task, whatever ends it.
            let work = AbortOnDropHandle::new(tokio::spawn(work(ending.clone())));
            let ended = self.hold(&lease, taken, work, &ending, &mut failing).await;
            self.held.fetch_sub(1, Ordering::Relaxed);
            self.metrics.leader(self.options.part, shard, false);
            if let Some(part) = self.part() {
                self.metrics.health().no_longer_leads(part, shard);
            }
            tracing::info!(
                shard,
                lease = lease.name,
                "this replica no longer leads the {}",
                self.options.part
            );
            if let Err(error) = ended
                && let Ok(panic) = error.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
            // Let another one have it.
            tokio::select! {
                () = sleep(self.options.renew_interval) => {}
                () = cancelled.cancelled() => {}
            }
        }
    }

    /// Waits until the lease is ours. Counts it as held.
    async fn acquire(&self, lease: &LeaseClient, failing: &mut Failing) -> Taken {
        let mut observed = Observed::default();
        loop {
            match self.try_acquire(failing.shard, lease, &mut observed).await {
                Ok(Some(taken)) => {
                    failing.works();
                    return taken;
                }
                Ok(None) => failing.works(),
                // Another one was faster.
                Err(WriteError::Conflict { .. } | WriteError::AlreadyExists { .. }) => {}
                Err(error) => failing.failed(&error),
            }
            // Replicas must not ask in step.
            let pause = self.options.renew_interval;
            sleep(pause / 2 + chance(pause / 2)).await;
        }
    }

    async fn try_acquire(
        &self,
        shard: u32,
        lease: &LeaseClient,
        observed: &mut Observed,
    ) -> Result<Option<Taken>, WriteError> {
        let Some(before) = self.take_if_free(shard, lease, observed).await? else { return Ok(None) };
        let _taking = self.taking.lock().await;
        // What others may have done while this one waited for its turn, the write finds out; what this replica has got
        // in the meantime is looked at again.
        if before.waited < self.patience() {
            return Ok(None);
        }
        let sent = Instant::now();
        let now = now_text();
        let old = before.lease.as_ref().map(|lease| &lease.record);
        let record = Record {
            holder: self.options.identity.clone(),
            duration_seconds: self.options.duration.as_secs(),
            acquired: now.clone(),
            renewed: now,
            transitions: old.map_or(0, |old| old.transitions.saturating_add(1)),
        };
        let lease = lease.write(before.lease.as_ref(), &record, self.options.renew_interval).await?;
        self.held.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Taken { lease, renewed: sent }))
    }

    /// The lease as it is, if it is free, and has been for long enough that one with fewer shards could have taken it.
    async fn take_if_free(
        &self,
        shard: u32,
        lease: &LeaseClient,
        observed: &mut Observed,
    ) -> Result<Option<Free>, WriteError> {
        let found = lease.read(self.options.renew_interval).await?;
        let record = found.as_ref().map(|lease| lease.record.clone()).unwrap_or_default();
        if let Some(part) = self.part() {
            self.metrics.health().lease(part, shard, &record.holder, record.holder == self.options.identity);
        }
        self.holder.store(Arc::new(record.holder.clone()));
        if record.holder == self.options.identity {
            // It was taken, but the answer was lost.
            return Ok(Some(Free { lease: found, waited: Duration::MAX }));
        }
        let now = Instant::now();
        let Some(since) = observed.free_since(&record, now, self.options.duration) else { return Ok(None) };
        let waited = now.saturating_duration_since(since);
        Ok((waited >= self.patience()).then_some(Free { lease: found, waited }))
    }

    /// How long a free lease is left to others: the longer, the more this replica holds.
    fn patience(&self) -> Duration {
        self.options.renew_interval * self.held.load(Ordering::Relaxed).min(MOST_PATIENCE)
    }

    /// Renews the lease while the work goes on, and releases it afterwards. The work's end.
    async fn hold(
        &self,
        client: &LeaseClient,
        mut taken: Taken,
        mut work: AbortOnDropHandle<()>,
        ending: &CancellationToken,
        failing: &mut Failing,
    ) -> Result<(), tokio::task::JoinError> {
        let margin = self.options.duration / 4;
        let mut next = taken.renewed + self.options.renew_interval;
        loop {
            // Also while the work ends: until it has, nobody else may begin.
            let stop = taken.renewed + self.options.duration - margin;
            tokio::select! {
                ended = &mut work => {
                    ending.cancel();
                    self.release(client, &taken.lease).await;
                    return ended;
                }
                () = sleep_until(stop) => {
                    tracing::warn!(shard = failing.shard, "the lease could not be renewed in time; the work stops");
                    break;
                }
                () = sleep_until(next) => {
                    let sent = Instant::now();
                    match self.renew(client, &taken.lease, stop).await {
                        Ok(Some(lease)) => {
                            failing.works();
                            taken = Taken { lease, renewed: sent };
                            next = sent + self.options.renew_interval;
                        }
                        Ok(None) => {
                            tracing::warn!(shard = failing.shard, "another replica took the lease; the work stops");
                            break;
                        }
                        Err(error) => {
                            failing.failed(&error);
                            next = Instant::now() + self.options.renew_interval / 4;
                        }
                    }
                }
            }
        }
        ending.cancel();
        work.await
    }

    /// The lease with a new time in it; nothing if it is no longer ours.
    async fn renew(
        &self,
        client: &LeaseClient,
        lease: &Lease,
        stop: Instant,
    ) -> Result<Option<Lease>, WriteError> {
        let limit = || stop.saturating_duration_since(Instant::now()).min(self.options.renew_interval);
        let record = Record { renewed: now_text(), ..lease.record.clone() };
        match client.write(Some(lease), &record, limit()).await {
            Err(WriteError::Conflict { .. }) => {}
            Err(WriteError::NotFound { .. }) => return Ok(None),
            other => return other.map(Some),
        }
        // It may be that only a label was changed, or that the answer to the last renewal was lost.
        let Some(found) = self.read_ours(client, limit()).await? else { return Ok(None) };
        let record = Record { renewed: now_text(), ..found.record.clone() };
        // What reading took is not there for writing any more.
        client.write(Some(&found), &record, limit()).await.map(Some)
    }

    /// The lease as it is, if it is ours.
    async fn read_ours(&self, client: &LeaseClient, limit: Duration) -> Result<Option<Lease>, WriteError> {
        let found = client.read(limit).await?;
        Ok(found.filter(|found| found.record.holder == self.options.identity))
    }

    /// Lets others have the lease at once, as far as the API server can be reached.
    async fn release(&self, client: &LeaseClient, lease: &Lease) {
        let mut released = self.write_released(client, lease).await;
        if let Err(WriteError::Conflict { .. }) = released {
            // It may be that only an annotation was changed.
            released = match self.read_ours(client, self.options.renew_interval).await {
                Ok(Some(found)) => self.write_released(client, &found).await,
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
        }
        if let Err(error) = released {
            tracing::debug!(%error, "the lease could not be released; it runs out");
        }
    }

    async fn write_released(&self, client: &LeaseClient, lease: &Lease) -> Result<(), WriteError> {
        let record = Record {
            holder: String::new(),
            duration_seconds: 1,
            acquired: String::new(),
            renewed: now_text(),
            ..lease.record.clone()
        };
        client.write(Some(lease), &record, self.options.renew_interval).await.map(|_| ())
    }
}

/// A lease that is ours.
struct Taken {
    lease: Lease,
    /// When the last renewal that arrived was sent.
    renewed: Instant,
}

/// A lease that is there for the taking.
struct Free {
    lease: Option<Lease>,
    waited: Duration,
}

/// Says once that calls fail, and once that they work again.
struct Failing {
    shard: u32,
    since: Option<Instant>,
    name: String,
    part: Option<Part>,
    metrics: Arc<Metrics>,
}

impl Failing {
    fn failed(&mut self, error: &WriteError) {
        if let Some(part) = self.part {
            self.metrics.health().failed(part, &format!("lease {}", self.name), error);
        }
        if self.since.is_none() {
            self.since = Some(Instant::now());
            tracing::warn!(shard = self.shard, %error, "the lease cannot be read or written; trying again");
        }
    }

    fn works(&mut self) {
        if let Some(part) = self.part {
            self.metrics.health().works(part, &format!("lease {}", self.name));
        }
        if let Some(since) = self.since.take() {
            tracing::info!(shard = self.shard, seconds = since.elapsed().as_secs(), "the lease works again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(lease_name("quota", 1, 0), "plimsoll-quota");
        assert_eq!(lease_name("recommender", 3, 2), "plimsoll-recommender-2");
        let pod = [("HOSTNAME".to_owned(), "plimsoll-7d9".to_owned())];
        assert!(identity(&pod).starts_with("plimsoll-7d9_"));
        assert_ne!(identity(&pod), identity(&pod), "a process that starts again is another one");
        assert!(identity(&[]).starts_with("plimsoll_"));
    }
}
