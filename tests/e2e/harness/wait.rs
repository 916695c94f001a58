//! Waiting for a condition, never for a length of time.

use std::fmt::Display;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

/// How long to let the cluster rest between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest that any single condition may take on a machine that others keep busy. Who waits for less says why.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Asks `probe` until it has an answer. `Err` from the probe is "not yet" too, and is reported when time is up.
pub(crate) async fn until<T>(what: impl Display, probe: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    until_within(LIMIT, what, probe).await
}

/// [`until`] with a limit of its own.
pub(crate) async fn until_within<T>(
    limit: Duration,
    what: impl Display,
    mut probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        let last = match probe().await {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        if Instant::now() >= deadline {
            match last {
                Some(error) => bail!("after {limit:?} still waiting for {what}: {error:#}"),
                None => bail!("after {limit:?} still waiting for {what}"),
            }
        }
        sleep(PAUSE).await;
    }
}
