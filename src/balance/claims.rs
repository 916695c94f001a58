//! Reads claims of pods and their volumes, a few in a round.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use kube::Client;
use plimsoll_core::balance::{Claim, Claims};
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::{Call, WriteError, send};

/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);
/// So many claims are read in a round.
const MOST: usize = 20;
/// So many at once.
const AT_ONCE: usize = 5;
/// What could not be read, or is not bound yet, is tried again so much later: claims that were not read come first.
const AGAIN: Duration = Duration::from_secs(300);
/// What was read is believed for so long. A bound claim stays with its volume.
const BELIEVED: Duration = Duration::from_secs(600);

/// Claims that were read.
pub struct ClaimReader {
    client: Client,
    known: Claims,
    since: Instant,
    /// When the claims were read of which nobody could tell anything.
    unknown: HashMap<(Arc<str>, Box<str>), Instant>,
}

impl std::fmt::Debug for ClaimReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClaimReader").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

impl ClaimReader {
    /// Nothing was read yet.
    pub fn new(client: Client) -> Self {
        Self { client, known: Claims::default(), since: Instant::now(), unknown: HashMap::new() }
    }

    /// What is known. What nobody could tell is forgotten after some minutes, and all of it after some more.
    pub fn known(&mut self) -> Claims {
        if self.since.elapsed() > BELIEVED {
            self.known.retain(|_, claim| matches!(claim, Claim::Unknown(_)));
            self.since = Instant::now();
        }
        let known = &mut self.known;
        self.unknown.retain(|name, read| {
            let stays = read.elapsed() <= AGAIN;
            if !stays {
                known.remove(name);
            }
            stays
        });
        self.known.clone()
    }

    /// Reads the first of these claims, and says what is known then.
    pub async fn read(&mut self, wanted: &[(Arc<str>, Box<str>)]) -> Claims {
        let client = &self.client;
        let found: Vec<_> = stream::iter(wanted.iter().take(MOST).cloned())
            .map(|(namespace, name)| async move {
                let claim = match read(client, &namespace, &name).await {
                    Ok(claim) => claim,
                    Err(error) => Claim::Unknown(error.to_string()),
                };
                ((namespace, name), claim)
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        for (name, claim) in found {
            if let Claim::Unknown(_) = claim {
                self.unknown.insert(name.clone(), Instant::now());
            } else {
                self.unknown.remove(&name);
            }
            self.known.insert(name, claim);
        }
        self.known.clone()
    }
}

/// Where a claim's volume can be used.
async fn read(client: &Client, namespace: &str, name: &str) -> Result<Claim, WriteError> {
    let object = format!("{namespace}/{name}");
    let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
    let claim = get(client, "PersistentVolumeClaim", "persistentvolumeclaims", &object, &path).await?;
    let volume = claim.pointer("/spec/volumeName").and_then(Value::as_str).unwrap_or_default();
    if volume.is_empty() {
        return Ok(Claim::Unknown("it is not bound to a volume".to_owned()));
    }
    let path = format!("/api/v1/persistentvolumes/{volume}");
    let volume = get(client, "PersistentVolume", "persistentvolumes", volume, &path).await?;
    Ok(Claim::of_volume(&volume))
}

async fn get(
    client: &Client,
    kind: &'static str,
    resource: &'static str,
    object: &str,
    path: &str,
) -> Result<Value, WriteError> {
    let call = Call { verb: "get", kind, resource, group: "", object, bytes: 0 };
    let request = http::Request::get(path).body(Vec::new()).map_err(kube::core::request::Error::BuildRequest);
    let text = send(client, call, request, CALL_TIMEOUT).await?;
    serde_json::from_str(&text).map_err(|error| call.unavailable(format!("the answer is no object: {error}")))
}
