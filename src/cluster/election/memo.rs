//! What a leader leaves for the next one: an annotation on the lease itself.
//!
//! It can be written only by who holds the lease at that moment, and it is replaced together with the version that was
//! read. So whoever has written it knows that nobody else leads yet, and whoever leads next reads it.

use std::time::Duration;

use kube::Client;

use super::leadership::lease_name;
use super::lease::LeaseClient;
use crate::cluster::WriteError;

/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// So often the lease may have been renewed between its being read and its being written.
const MOST_CONFLICTS: usize = 10;

/// An annotation on the lease of a part with one shard.
#[derive(Clone)]
pub struct LeaseMemo {
    lease: LeaseClient,
    holder: String,
    key: &'static str,
}

impl std::fmt::Debug for LeaseMemo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaseMemo").field("key", &self.key).finish_non_exhaustive()
    }
}

impl LeaseMemo {
    /// Nothing is called yet. `holder` is our identity in the lease.
    pub fn new(client: Client, part: &str, namespace: &str, holder: &str, key: &'static str) -> Self {
        let lease = LeaseClient { client, namespace: namespace.to_owned(), name: lease_name(part, 1, 0) };
        Self { lease, holder: holder.to_owned(), key }
    }

    /// What stands there, if anything does.
    ///
    /// # Errors
    /// The lease cannot be read.
    pub async fn read(&self) -> Result<Option<String>, WriteError> {
        let lease = self.lease.read(CALL_TIMEOUT).await?;
        Ok(lease.and_then(|lease| lease.annotation(self.key).map(str::to_owned)))
    }

    /// Writes it, if the lease is ours. Whether it is.
    ///
    /// # Errors
    /// The lease cannot be read or written.
    pub async fn write(&self, text: &str) -> Result<bool, WriteError> {
        let mut conflicts = 0;
        loop {
            let found = self.lease.read(CALL_TIMEOUT).await?;
            let Some(lease) = found.filter(|lease| lease.record.holder == self.holder) else {
                return Ok(false);
            };
            let record = lease.record.clone();
            let lease = lease.annotated(self.key, text);
            match self.lease.write(Some(&lease), &record, CALL_TIMEOUT).await {
                Ok(_) => return Ok(true),
                // It was renewed meanwhile.
                Err(WriteError::Conflict { .. }) if conflicts < MOST_CONFLICTS => conflicts += 1,
                Err(error) => return Err(error),
            }
        }
    }
}
