//! All pods, page by page.

use std::time::Duration;

use kube::Client;
use kube::core::Request;
use kube::core::params::ListParams;
use serde_json::Value;

use crate::cluster::{Call, Page, WriteError, send};

/// How many pods a page of a list holds.
const PAGE: u32 = 500;
/// The longest that a page may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Gives each pod to `each`, one at a time, so that only what is made of them is kept.
pub(crate) async fn pods(
    client: &Client,
    namespace: Option<&str>,
    each: &mut (dyn FnMut(Value) + Send),
) -> Result<(), WriteError> {
    let call = Call {
        verb: "list",
        kind: "Pod",
        resource: "pods",
        group: "",
        object: namespace.unwrap_or_default(),
        bytes: 0,
    };
    let request = Request::new(namespace.map_or_else(
        || "/api/v1/pods".to_owned(),
        |namespace| format!("/api/v1/namespaces/{namespace}/pods"),
    ));
    let mut parameters = ListParams::default().limit(PAGE);
    loop {
        let text = send(client, call, request.list(&parameters), CALL_TIMEOUT).await?;
        let garbage =
            |error: serde_json::Error| call.unavailable(format!("the answer is no list of pods: {error}"));
        let page: Page<'_> = serde_json::from_str(&text).map_err(garbage)?;
        for item in page.items() {
            each(serde_json::from_str(item.get()).map_err(garbage)?);
        }
        match page.next() {
            Some(next) => parameters = parameters.continue_token(next),
            None => return Ok(()),
        }
    }
}
