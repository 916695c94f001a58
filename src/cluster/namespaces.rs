//! One live read of a namespace that the snapshot does not hold yet.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Shared, WeakShared};
use kube::Client;
use kube::core::Request;
use kube::core::params::GetParams;
use plimsoll_core::objects::{Fact, Namespace};
use serde_json::Value;
use tokio::time::timeout;

use super::fold;
use super::kinds::WATCHED;

/// Why a live read gave no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LiveReadError {
    /// The limit passed.
    #[error("no answer within {} ms", .0.as_millis())]
    Slow(Duration),
    /// The API server refused, or could not be reached.
    #[error("{0}")]
    Failed(Arc<kube::Error>),
    /// The answer was not a namespace.
    #[error("the answer is no namespace")]
    NoNamespace,
}

type Answer = Result<Option<Namespace>, LiveReadError>;
type Reading = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Reads namespaces from the API server. Readers of the same name share one call.
#[derive(Clone)]
pub struct LiveNamespaces {
    client: Client,
    limit: Duration,
    running: Arc<Mutex<HashMap<String, WeakShared<Reading>>>>,
}

impl LiveNamespaces {
    /// Reads that give up after `limit`.
    pub fn new(client: Client, limit: Duration) -> Self {
        Self { client, limit, running: Arc::default() }
    }

    /// The namespace, or nothing if there is none.
    pub async fn read_live(&self, name: &str) -> Answer {
        let reading = self.join(name);
        let answer = reading.await;
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|_, reading| reading.upgrade().is_some_and(|reading| reading.peek().is_none()));
        answer
    }

    /// The read of that name that is under way, or a new one.
    fn join(&self, name: &str) -> Shared<Reading> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is done may be out of date by now.
        if let Some(reading) = running.get(name).and_then(WeakShared::upgrade)
            && reading.peek().is_none()
        {
            return reading;
        }
        let (client, limit, wanted) = (self.client.clone(), self.limit, name.to_owned());
        let reading: Reading = Box::pin(async move {
            timeout(limit, read(&client, &wanted)).await.unwrap_or(Err(LiveReadError::Slow(limit)))
        });
        let reading = reading.shared();
        if let Some(weak) = reading.downgrade() {
            running.insert(name.to_owned(), weak);
        }
        reading
    }
}

impl std::fmt::Debug for LiveNamespaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveNamespaces").field("limit", &self.limit).finish_non_exhaustive()
    }
}

async fn read(client: &Client, name: &str) -> Answer {
    let failed = |error| LiveReadError::Failed(Arc::new(error));
    let kind = WATCHED.iter().find(|kind| kind.kind == "Namespace").ok_or(LiveReadError::NoNamespace)?;
    let request = Request::new(kind.path())
        .get_metadata(name, &GetParams::default())
        .map_err(|error| failed(kube::Error::BuildRequest(error)))?;
    let text = match client.request_text(request).await {
        Ok(text) => text,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let object: Value =
        serde_json::from_str(&text).map_err(|error| failed(kube::Error::SerdeError(error)))?;
    match fold::read(kind, &object).map(|reading| reading.fact) {
        Ok(Ok(Fact::Namespace(namespace))) => Ok(Some(Arc::unwrap_or_clone(namespace))),
        _ => Err(LiveReadError::NoNamespace),
    }
}
