//! Keeps what the cluster says about its front proxy up to date.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::Request;
use kube::Client;
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::front_proxy::FrontProxy;
use crate::cluster::describe;
use crate::metrics::Metrics;
use crate::server::health::Condition;
use crate::status::Part;

/// What may fail, as it is told.
const AUTHORITY: &str = "get ConfigMap kube-system/extension-apiserver-authentication";

const PATH: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
/// How long the API server may take.
const LIMIT: Duration = Duration::from_secs(5);
/// As it stands in `plimsoll_degraded`.
const REASON: &str = "front_proxy";

/// What is known of the front proxy.
#[derive(Debug, Default)]
pub(super) enum Known {
    /// Nothing: the ConfigMap could not be read yet.
    #[default]
    Nothing,
    /// The cluster has none: nobody speaks for others.
    None,
    /// This one.
    Proxy(FrontProxy),
}

/// Reads the ConfigMap again and again until `cancelled`. The last that could be used stays. `tried` says when it was
/// looked for once; that it cannot be read must not keep admission from being ready.
pub(super) async fn follow(
    client: Client,
    known: Arc<ArcSwap<Known>>,
    interval: Duration,
    metrics: Arc<Metrics>,
    tried: Condition,
    cancelled: CancellationToken,
) {
    let mut seen = None;
    let mut said = None;
    metrics.degraded(REASON, false);
    loop {
        let problem = match read(&client).await {
            Ok(data) if seen.as_ref() == Some(&data) => None,
            Ok(data) => match FrontProxy::read(&data) {
                Ok(proxy) => {
                    if proxy.is_none() {
                        tracing::warn!("the cluster has no front proxy: only tokens are accepted");
                    } else {
                        tracing::info!("the authority of the front proxy is taken up");
                    }
                    known.store(Arc::new(proxy.map_or(Known::None, Known::Proxy)));
                    seen = Some(data);
                    None
                }
                Err(error) => Some(error.to_string()),
            },
            Err(error) => Some(error),
        };
        metrics.degraded(REASON, problem.is_some());
        match &problem {
            Some(why) => metrics.health().failed(Part::HpaApi, AUTHORITY, why.clone()),
            None => metrics.health().works(Part::HpaApi, AUTHORITY),
        };
        if problem != said {
            if let Some(problem) = &problem {
                tracing::error!(
                    problem,
                    "ConfigMap kube-system/extension-apiserver-authentication cannot be used"
                );
            }
            said = problem;
        }
        tried.ready();
        tokio::select! {
            () = cancelled.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

/// Its `data`, in an object.
async fn read(client: &Client) -> Result<Value, String> {
    let call = async {
        let request = Request::get(PATH).body(Vec::new()).map_err(|error| error.to_string())?;
        client.request::<Value>(request).await.map_err(|error| describe(&error))
    };
    let mut object = timeout(LIMIT, call).await.map_err(|_| format!("no answer within {LIMIT:?}"))??;
    let data = object.get_mut("data").map(Value::take).unwrap_or_default();
    Ok(serde_json::json!({ "data": data }))
}
