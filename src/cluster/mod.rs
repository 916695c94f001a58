//! What the server knows of its cluster, and the little it writes there.
//!
//! [`run`] watches the kinds of objects that decisions need. Each watch reads objects into facts; one writer folds
//! them into [`Snapshots`], which requests read without waiting; profiles that were taken in get their status
//! written. The steps between reading and folding are pure and are in `fold`.

pub(crate) mod backoff;
mod client;
mod election;
mod events;
mod evict;
mod fold;
mod kinds;
mod limiter;
mod namespaces;
mod page;
mod pods;
mod snapshots;
mod status;
mod watch;
mod write_error;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) use self::backoff::chance;
pub use self::client::{ConnectError, client, configuration, connect};
pub use self::election::{
    Leadership, LeadershipOptions, LeaseMemo, identity, lease_name, stand_still, wait_until,
};
pub use self::events::{Events, News};
pub(crate) use self::events::{note as note_event, reference};
pub use self::evict::{Evicted, EvictionMode, Evictor};
use self::fold::FactReader;
use self::kinds::watched_with;
pub use self::kinds::{Part, WATCHED, WatchedKind};
pub use self::limiter::Limiter;
pub use self::namespaces::LiveNamespaces;
pub(crate) use self::page::Page;
pub use self::pods::{PodChange, watch_pods};
pub use self::snapshots::Snapshots;
use self::status::StatusKeeper;
pub(crate) use self::status::cut;
use self::watch::Watch;
pub(crate) use self::watch::describe;
pub(crate) use self::write_error::{Call, send};
pub use self::write_error::{Next, WriteError};
use self::writer::Writer;
use crate::metrics::Metrics;
use crate::server::health::Condition;

/// The pace at which the API server is asked and told. [`Default`] gives the values that ship.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterOptions {
    /// Whether the kinds are watched that only quota needs.
    pub quota: bool,
    /// Whether the kinds are watched that only the keeping of autoscalers needs.
    pub hpa: bool,
    /// Whether the kinds are watched that only placement needs.
    pub placement: bool,
    /// How many objects a page of a list holds.
    pub page_size: u32,
    /// The pause after the first failure in a row; it doubles with each further one.
    pub first_pause: Duration,
    /// The longest such pause.
    pub longest_pause: Duration,
    /// The longest that a replica waits whether another one writes a profile's status first.
    pub status_jitter: Duration,
    /// The least time between two statuses written about the same generation of a profile, and between two events.
    pub status_repeat: Duration,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            quota: false,
            hpa: false,
            placement: false,
            page_size: 500,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
            status_jitter: Duration::from_secs(2),
            status_repeat: Duration::from_secs(60),
        }
    }
}

/// How many changes may wait for the writer.
const QUEUE: usize = 4096;

/// Watches until `cancelled`. `readiness` says when every kind was seen once.
///
/// # Panics
/// When one of its tasks panics, so that whoever runs this one hears of it.
pub async fn run(
    client: Client,
    snapshots: Arc<Snapshots>,
    metrics: Arc<Metrics>,
    readiness: Condition,
    options: ClusterOptions,
    cancelled: CancellationToken,
) {
    let (changes, received) = mpsc::channel(QUEUE);
    let (news, profiles) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for kind in watched_with(&options) {
        let watch = Watch::new(
            client.clone(),
            kind.collection(),
            FactReader(kind),
            changes.clone(),
            Arc::clone(&metrics),
            options.clone(),
        );
        tasks.spawn(watch.run());
    }
    drop(changes);
    let health = metrics.health().clone();
    tasks.spawn(Writer::new(snapshots, metrics, readiness, news, &options).run(received));
    tasks.spawn(StatusKeeper::new(client, options, health).run(profiles));
    tokio::select! {
        () = cancelled.cancelled() => {}
        () = until_one_ends(&mut tasks) => {}
    }
    tasks.shutdown().await;
}

async fn until_one_ends(tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }
}
