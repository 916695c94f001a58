//! Ledgers as objects of the API server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, ListParams, PostParams};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::MANAGER;
use super::store::{LedgerStore, LedgerVersion, StoredLedger, ledger_name};
use crate::cluster::{Call, WriteError, send};
use crate::crd::{GROUP, QuotaLedgerSpec, VERSION};
use crate::metrics::{LedgerWrite, Metrics};

/// What keeps a ledger that somebody deletes until its content is in a fresh one.
pub const FINALIZER: &str = "plimsoll.dev/quota-ledger";

/// How often a ledger is created anew whose content nobody else has.
const CREATE_ATTEMPTS: u32 = 3;

/// The ledgers in one namespace.
#[derive(Clone)]
pub struct ClusterLedgerStore {
    client: Client,
    namespace: String,
    limit: Duration,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for ClusterLedgerStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterLedgerStore").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// What is read of an object.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: QuotaLedgerSpec,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Option<Vec<Listed>>,
}

#[derive(Deserialize)]
struct Listed {
    #[serde(default)]
    spec: QuotaLedgerSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    resource_version: String,
    #[serde(default)]
    deletion_timestamp: Option<String>,
}

/// Whether a ledger that is written is kept when somebody deletes it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Yes,
    No,
}

impl ClusterLedgerStore {
    /// The ledgers in `namespace`, which is our own. No call takes longer than `limit`.
    pub fn new(client: Client, namespace: String, limit: Duration, metrics: Arc<Metrics>) -> Self {
        Self { client, namespace, limit, metrics }
    }

    /// The names of the trees that there are ledgers of.
    ///
    /// # Errors
    /// See [`WriteError::next`].
    pub async fn trees(&self) -> Result<Vec<String>, WriteError> {
        let call = Call {
            verb: "list",
            kind: "QuotaLedger",
            resource: "quotaledgers",
            group: GROUP,
            object: &self.namespace,
            bytes: 0,
        };
        let request = self.request().list(&ListParams::default());
        let text = send(&self.client, call, request, self.limit).await?;
        let list: List = serde_json::from_str(&text)
            .map_err(|error| call.unavailable(format!("the answer is no list of QuotaLedgers: {error}")))?;
        Ok(list.items.into_iter().flatten().map(|item| item.spec.tree.name).collect())
    }

    fn request(&self) -> Request {
        Request::new(format!("/apis/{GROUP}/{VERSION}/namespaces/{}/quotaledgers", self.namespace))
    }

    async fn send(
        &self,
        verb: &'static str,
        name: &str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<StoredLedger, WriteError> {
        let object = format!("{}/{name}", self.namespace);
        let call = Call {
            verb,
            kind: "QuotaLedger",
            resource: "quotaledgers",
            group: GROUP,
            object: &object,
            bytes: 0,
        };
        let text = send(&self.client, call, request, self.limit).await?;
        let Object { metadata, spec } = serde_json::from_str(&text)
            .map_err(|error| call.unavailable(format!("the answer is no QuotaLedger: {error}")))?;
        let version = LedgerVersion { uid: metadata.uid, resource_version: metadata.resource_version };
        Ok(StoredLedger { version, deleting: metadata.deletion_timestamp.is_some(), spec })
    }

    /// A call that changes something.
    async fn write(
        &self,
        verb: &'static str,
        name: &str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<StoredLedger, WriteError> {
        let began = Instant::now();
        let written = self.send(verb, name, request).await;
        let result = match &written {
            Ok(ledger) => {
                self.metrics.ledger_size(&ledger.spec.counts, ledger.spec.data.len());
                LedgerWrite::Success
            }
            Err(WriteError::Conflict { .. } | WriteError::AlreadyExists { .. }) => LedgerWrite::Conflict,
            Err(_) => LedgerWrite::Failure,
        };
        self.metrics.ledger_write(result, began.elapsed());
        written
    }

    fn body(&self, name: &str, version: Option<&LedgerVersion>, kept: Kept, spec: &QuotaLedgerSpec) -> Value {
        let finalizers = if kept == Kept::Yes { json!([FINALIZER]) } else { json!([]) };
        let mut metadata = Map::from_iter([
            ("name".to_owned(), json!(name)),
            ("namespace".to_owned(), json!(self.namespace)),
            ("labels".to_owned(), json!({ "app.kubernetes.io/managed-by": "plimsoll" })),
            ("finalizers".to_owned(), finalizers),
        ]);
        if let Some(version) = version {
            metadata.insert("uid".to_owned(), json!(version.uid));
            metadata.insert("resourceVersion".to_owned(), json!(version.resource_version));
        }
        json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "QuotaLedger", "metadata": metadata, "spec": spec,
        })
    }

    async fn put(
        &self,
        tree: &str,
        version: &LedgerVersion,
        kept: Kept,
        spec: &QuotaLedgerSpec,
    ) -> Result<StoredLedger, WriteError> {
        let name = ledger_name(tree);
        let body = self.body(&name, Some(version), kept, spec).to_string().into_bytes();
        let request = self.request().replace(&name, &parameters(), body);
        self.write("update", &name, request).await
    }
}

impl LedgerStore for ClusterLedgerStore {
    async fn read(&self, tree: &str) -> Result<Option<StoredLedger>, WriteError> {
        let name = ledger_name(tree);
        // Without a resourceVersion the answer is consistent: from etcd, or as new.
        let request = self.request().get(&name, &GetParams::default());
        match self.send("get", &name, request).await {
            Ok(ledger) => Ok(Some(ledger)),
            Err(WriteError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, tree: &str, spec: &QuotaLedgerSpec) -> Result<StoredLedger, WriteError> {
        let name = ledger_name(tree);
        let body = self.body(&name, None, Kept::Yes, spec).to_string().into_bytes();
        let request = self.request().create(&parameters(), body);
        self.write("create", &name, request).await
    }

    async fn replace(
        &self,
        tree: &str,
        version: &LedgerVersion,
        spec: &QuotaLedgerSpec,
    ) -> Result<StoredLedger, WriteError> {
        self.put(tree, version, Kept::Yes, spec).await
    }

    async fn recreate(&self, tree: &str, deleted: &StoredLedger) -> Result<StoredLedger, WriteError> {
        // The version makes sure that what is let go is what was read; nobody can write it afterwards.
        self.put(tree, &deleted.version, Kept::No, &deleted.spec).await?;
        // From here on only this process knows the content.
        for _ in 1..CREATE_ATTEMPTS {
            match self.create(tree, &deleted.spec).await {
                Err(WriteError::Unavailable { .. }) => {}
                done => return done,
            }
        }
        self.create(tree, &deleted.spec).await
    }
}

fn parameters() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}
