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
use super::kinds::NAMESPACE;
use super::watch::describe;
use crate::admission::{NamespaceReadError, NamespaceReadFuture, NamespaceReader};

/// Why a read gave no answer, in a form that all who share it can have.
#[derive(Clone, Debug)]
enum Failure {
    TimedOut,
    Failed(Arc<str>),
}

type Answer = Result<Option<Namespace>, Failure>;
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

    async fn read_shared(&self, name: &str) -> Answer {
        let answer = self.join(name).await;
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
            timeout(limit, read(&client, &wanted)).await.unwrap_or(Err(Failure::TimedOut))
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

impl NamespaceReader for LiveNamespaces {
    fn read<'a>(&'a self, name: &'a str) -> NamespaceReadFuture<'a> {
        Box::pin(async move {
            self.read_shared(name).await.map_err(|failure| match failure {
                Failure::TimedOut => {
                    NamespaceReadError::TimedOut { name: name.to_owned(), limit: self.limit }
                }
                Failure::Failed(message) => {
                    NamespaceReadError::Failed { name: name.to_owned(), message: message.as_ref().into() }
                }
            })
        })
    }
}

async fn read(client: &Client, name: &str) -> Answer {
    let failed = |message: String| Failure::Failed(message.into());
    let request = Request::new(NAMESPACE.path())
        .get_metadata(name, &GetParams::default())
        .map_err(|error| failed(error.to_string()))?;
    let text = match client.request_text(request).await {
        Ok(text) => text,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(error) => return Err(failed(describe(&error))),
    };
    let object: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    match fold::read(&NAMESPACE, &object).map(|reading| reading.fact) {
        Ok(Ok(Fact::Namespace(namespace))) => Ok(Some(Arc::unwrap_or_clone(namespace))),
        _ => Err(failed("the answer is no namespace".to_owned())),
    }
}
