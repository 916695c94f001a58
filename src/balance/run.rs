//! What one replica does for all: it balances, and writes labels and annotations on nodes.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::cluster::Leadership;
use crate::placement::PlacementState;

/// A part of the leader's work. It must end when its token is cancelled, and not before.
pub type Work = Arc<dyn Fn(CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A part of the leader's work, from a function.
pub fn work<F, W>(work: W) -> Work
where
    W: Fn(CancellationToken) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    Arc::new(move |token| Box::pin(work(token)))
}

/// Waits until pods and nodes are known, then for the lease, and does all the work while it is held, until `cancelled`.
pub async fn lead(
    leadership: Leadership,
    state: PlacementState,
    work: Vec<Work>,
    cancelled: CancellationToken,
) {
    let all = |token: CancellationToken| {
        let tasks: Vec<_> = work.iter().map(|work| work(token.clone())).collect();
        async move {
            join_all(tasks).await;
        }
    };
    leadership.run_when(|| state.pods.is_complete(), cancelled, all).await;
}
