//! The JSON API of a server.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::Uri;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use plimsoll_core::placement::NodesReport;
use serde_json::Value;

use crate::cli::{CliError, Context};
use crate::config::Config;

/// The longest that an answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// More than 100,000 nodes are.
const LARGEST: usize = 128 << 20;

/// What a server knows of its nodes.
pub(super) fn nodes(
    server: Option<&str>,
    config: &Config,
    ctx: &Context<'_>,
) -> Result<NodesReport, CliError> {
    let base = match (server, config.api.address) {
        (Some(server), _) => server.trim_end_matches('/').to_owned(),
        (None, Some(address)) => format!("http://{address}"),
        (None, None) => {
            let message = "api.address is empty, so that there is no JSON API; give one by --server";
            return Err(CliError::Usage(message.to_owned()));
        }
    };
    let url: Uri = format!("{base}/api/v1/nodes")
        .parse()
        .ok()
        .filter(|url: &Uri| url.scheme_str() == Some("http") && url.host().is_some())
        .ok_or_else(|| {
            CliError::Usage(format!(
                "--server {base:?} is not the URL of a JSON API; write it as in http://127.0.0.1:8082"
            ))
        })?;
    let answered = ctx.runtime()?.block_on(async { tokio::time::timeout(TIMEOUT, get(url.clone())).await });
    let namespace = &config.admission.own_namespace;
    let port = url.port_u16().unwrap_or(80);
    let body = answered
        .map_err(|_| anyhow::anyhow!("no answer within {} s", TIMEOUT.as_secs()))
        .and_then(|answer| answer)
        .with_context(|| {
            format!(
                "{url}: the server cannot be asked; in another shell run `kubectl -n {namespace} port-forward \
                 deployment/plimsoll {port}:8082`"
            )
        })?;
    let report = serde_json::from_slice(&body);
    Ok(report.with_context(|| format!("{url}: the answer cannot be understood"))?)
}

async fn get(url: Uri) -> anyhow::Result<Bytes> {
    let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let answer = client.get(url).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), LARGEST).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("{error}"))?.to_bytes();
    if status.is_success() {
        return Ok(body);
    }
    let said = serde_json::from_slice::<Value>(&body).ok();
    let said = said.as_ref().and_then(|answer| answer.get("message")).and_then(Value::as_str);
    anyhow::bail!("{status}: {}", said.unwrap_or("no reason is given"))
}
