//! Background tasks: none of them may die unnoticed.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::server::Readiness;

/// The background tasks of the server.
pub(super) struct Tasks {
    tracker: TaskTracker,
    cancel: CancellationToken,
    readiness: Readiness,
}

impl Tasks {
    pub(super) fn new(readiness: Readiness) -> Self {
        Self { tracker: TaskTracker::new(), cancel: CancellationToken::new(), readiness }
    }

    /// What tells the tasks to end.
    pub(super) fn cancelled(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Runs a task for as long as the server does. One that panics, or ends before it is told to, makes the process
    /// not live: it would go on with a part of it standing still.
    pub(super) fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let (cancel, readiness) = (self.cancel.clone(), self.readiness.clone());
        self.tracker.spawn(async move {
            let ended = AssertUnwindSafe(task).catch_unwind().await;
            if ended.is_ok() && cancel.is_cancelled() {
                return;
            }
            let how = if ended.is_ok() { "ended" } else { "died" };
            tracing::error!(task = name, "a background task {how}; the process asks to be restarted");
            readiness.break_down(format!("background task {name} {how}"));
        });
    }

    /// Tells all tasks to end and waits for them. False if `limit` passed first.
    pub(super) async fn end(self, limit: Duration) -> bool {
        self.cancel.cancel();
        self.tracker.close();
        tokio::time::timeout(limit, self.tracker.wait()).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Shutdown;

    #[tokio::test]
    async fn a_task_that_dies_is_noticed() {
        let readiness = Readiness::new(Shutdown::new());
        let tasks = Tasks::new(readiness.clone());
        let token = tasks.cancelled();
        tasks.spawn("well-behaved", async move { token.cancelled().await });
        assert!(readiness.broken().is_none());
        tasks.spawn("unlucky", async { panic!("on purpose") });
        assert!(tasks.end(Duration::from_secs(10)).await);
        assert_eq!(readiness.broken(), Some("background task unlucky died"));
    }

    #[tokio::test]
    async fn a_task_that_ends_early_is_noticed() {
        let readiness = Readiness::new(Shutdown::new());
        let tasks = Tasks::new(readiness.clone());
        tasks.spawn("hasty", async {});
        while readiness.broken().is_none() {
            tokio::task::yield_now().await;
        }
        assert_eq!(readiness.broken(), Some("background task hasty ended"));
        assert!(tasks.end(Duration::from_secs(10)).await);
    }
}
