//! How every part that is led begins: it waits until what it needs is known, and then for its lease.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Leadership, LeadershipOptions, identity};

/// How often it is looked whether what is waited for is there.
const READY_POLL: Duration = Duration::from_millis(50);

/// Waits until `is_ready`, or until `cancelled`; whether it is ready.
pub async fn wait_until(is_ready: impl Fn() -> bool, cancelled: &CancellationToken) -> bool {
    while !is_ready() {
        tokio::select! {
            () = sleep(READY_POLL) => {}
            () = cancelled.cancelled() => return false,
        }
    }
    true
}

impl LeadershipOptions {
    /// Work that is not divided into shards, and that this process wants to do.
    pub fn undivided(
        part: &'static str,
        namespace: String,
        duration: Duration,
        renew_interval: Duration,
    ) -> Self {
        let environment: Vec<_> = std::env::vars().collect();
        Self { part, namespace, identity: identity(&environment), shards: 1, duration, renew_interval }
    }
}

impl Leadership {
    /// Waits until `is_ready`, and then does the work that is not divided as [`Leadership::run`] does, until
    /// `cancelled`.
    ///
    /// # Panics
    /// When `work` does.
    pub async fn run_when<W, F>(&self, is_ready: impl Fn() -> bool, cancelled: CancellationToken, work: W)
    where
        W: FnMut(CancellationToken) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        if wait_until(is_ready, &cancelled).await {
            self.run(0, cancelled, work).await;
        }
    }
}
