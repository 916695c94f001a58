//! Pods as quota counts them, read from the API server.

use std::sync::Arc;

use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, ListParams};
use plimsoll_core::quota::QuotaPod;
use serde_json::Value;

use super::CALL_TIMEOUT;
use crate::cluster::{Call, Page, WriteError, send};

/// How many pods a page of a list holds.
const PAGE: u32 = 500;

/// A pod of a watch or a list. One that cannot be counted is no pod that the API server has stored; it is told and
/// passed over.
pub(super) fn read(pod: &Value) -> Option<Arc<QuotaPod>> {
    QuotaPod::read(pod)
        .inspect_err(|error| tracing::warn!(%error, "a pod cannot be counted"))
        .ok()
        .map(Arc::new)
}

/// All pods there are, consistently, and the version at which they were all.
///
/// # Errors
/// See [`WriteError::next`].
pub(super) async fn list(client: &Client) -> Result<(Option<u64>, Vec<Arc<QuotaPod>>), WriteError> {
    let call = Call { verb: "list", kind: "Pod", resource: "pods", group: "", object: "", bytes: 0 };
    let request = Request::new("/api/v1/pods");
    let mut parameters = ListParams::default().limit(PAGE);
    let mut pods = Vec::new();
    loop {
        let text = send(client, call, request.list(&parameters), CALL_TIMEOUT).await?;
        let garbage =
            |error: serde_json::Error| call.unavailable(format!("the answer is no list of pods: {error}"));
        let page: Page<'_> = serde_json::from_str(&text).map_err(garbage)?;
        for item in page.items() {
            let pod: Value = serde_json::from_str(item.get()).map_err(garbage)?;
            pods.extend(read(&pod));
        }
        match page.next() {
            Some(next) => parameters = parameters.continue_token(next),
            None => return Ok((page.version().and_then(|text| text.parse().ok()), pods)),
        }
    }
}

/// A pod as it is, not from a cache.
///
/// # Errors
/// See [`WriteError::next`].
pub(super) async fn get(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<Arc<QuotaPod>>, WriteError> {
    let object = format!("{namespace}/{name}");
    let call = Call { verb: "get", kind: "Pod", resource: "pods", group: "", object: &object, bytes: 0 };
    let request =
        Request::new(format!("/api/v1/namespaces/{namespace}/pods")).get(name, &GetParams::default());
    match send(client, call, request, CALL_TIMEOUT).await {
        Ok(text) => {
            let pod: Value = serde_json::from_str(&text)
                .map_err(|error| call.unavailable(format!("the answer is no pod: {error}")))?;
            let pod = QuotaPod::read(&pod).map_err(|error| call.unavailable(error.to_string()))?;
            Ok(Some(Arc::new(pod)))
        }
        Err(WriteError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
