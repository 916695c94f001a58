//! Waiting for what must come.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::time::{Duration, Instant};

/// No test waits longer than this for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for what must come.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("nothing came")
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
