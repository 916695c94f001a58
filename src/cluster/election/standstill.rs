//! Makes whoever leads stop, and nobody lead for a while.

use std::time::Duration;

use kube::Client;

use super::leadership::lease_name;
use super::lease::{LeaseClient, Record, now_text};
use crate::cluster::WriteError;

/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// So often the lease may have been renewed between its being read and its being taken.
const MOST_CONFLICTS: usize = 20;

/// Takes the lease of a part from whoever holds it, for `hold` (whole seconds), under the name of `holder`. Returns
/// after which time the work of whoever held it has ended; by then it has seen that the lease is no longer its own.
///
/// Nobody gives the lease back: after `hold` the next replica takes it.
///
/// # Errors
/// The lease cannot be read or written.
pub async fn stand_still(
    client: &Client,
    part: &str,
    namespace: &str,
    holder: &str,
    hold: Duration,
) -> Result<Duration, WriteError> {
    let lease =
        LeaseClient { client: client.clone(), namespace: namespace.to_owned(), name: lease_name(part, 1, 0) };
    let mut conflicts = 0;
    loop {
        let found = lease.read(CALL_TIMEOUT).await?;
        let old = found.as_ref().map(|lease| lease.record.clone()).unwrap_or_default();
        let now = now_text();
        let record = Record {
            holder: holder.to_owned(),
            duration_seconds: hold.as_secs().max(1),
            acquired: now.clone(),
            renewed: now,
            transitions: old.transitions.saturating_add(1),
        };
        match lease.write(found.as_ref(), &record, CALL_TIMEOUT).await {
            Ok(_) if old.holder.is_empty() || old.holder == holder => return Ok(Duration::ZERO),
            // A leader whose renewals fail stops a quarter of the duration before the end.
            Ok(_) => return Ok(Duration::from_secs(old.duration_seconds) * 3 / 4),
            Err(WriteError::Conflict { .. } | WriteError::AlreadyExists { .. })
                if conflicts < MOST_CONFLICTS =>
            {
                conflicts += 1;
            }
            Err(error) => return Err(error),
        }
    }
}
