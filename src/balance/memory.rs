//! What one leader leaves for the next one: who was evicted, in an annotation of the lease.

use kube::Client;
use plimsoll_core::balance::{PastEviction, State};
use serde::{Deserialize, Serialize};

use super::PART;
use crate::cluster::{LeaseMemo, WriteError};

/// The annotation.
pub const MEMO: &str = "plimsoll.dev/balance-evictions";

/// The annotation on the lease.
#[derive(Clone, Debug)]
pub struct Memory(LeaseMemo);

#[derive(Serialize, Deserialize)]
struct Text {
    evictions: Vec<PastEviction>,
}

/// What an annotation says that somebody else wrote.
#[derive(Clone, Debug, PartialEq)]
pub enum Remembered {
    /// This was evicted.
    Evictions(Vec<PastEviction>),
    /// Nobody can tell what it says, and why.
    Unreadable(String),
}

impl Memory {
    /// Nothing is called yet. `identity` is ours in the lease.
    pub fn new(client: Client, namespace: &str, identity: &str) -> Self {
        Self(LeaseMemo::new(client, PART, namespace, identity, MEMO))
    }

    /// What was evicted by whoever led before.
    ///
    /// # Errors
    /// The lease cannot be read.
    pub async fn read(&self) -> Result<Remembered, WriteError> {
        let Some(text) = self.0.read().await? else { return Ok(Remembered::Evictions(Vec::new())) };
        Ok(match serde_json::from_str::<Text>(&text) {
            Ok(text) => Remembered::Evictions(text.evictions),
            Err(error) => Remembered::Unreadable(error.to_string()),
        })
    }

    /// Writes what was evicted, and is about to be. Whether we still lead.
    ///
    /// # Errors
    /// The lease cannot be read or written.
    pub async fn write(&self, state: &State) -> Result<bool, WriteError> {
        let text = Text { evictions: state.evictions().to_vec() };
        // Texts and numbers can always be written.
        self.0.write(&serde_json::to_string(&text).unwrap_or_default()).await
    }
}
