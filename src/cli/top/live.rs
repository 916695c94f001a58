//! The JSON API of a server.

use anyhow::Context as _;
use plimsoll_core::placement::NodesReport;

use crate::cli::access::Access;
use crate::cli::{CliError, Context, server};
use crate::config::Config;

const PATH: &str = "/api/v1/nodes";

/// What a server knows of its nodes.
pub(super) fn nodes(
    server: Option<&str>,
    access: &Access,
    config: &Config,
    ctx: &Context<'_>,
) -> Result<NodesReport, CliError> {
    let url = server.map(|server| server::url(server, PATH)).transpose()?;
    let body = ctx.runtime()?.block_on(async {
        if let Some(url) = &url {
            return Ok(server::by_url(url, config).await?);
        }
        let client = access.client(config).await?;
        Ok::<_, CliError>(server::by_any_pod(&client, config, PATH).await?)
    })?;
    let report = serde_json::from_slice(&body);
    let asked = url.map_or_else(|| PATH.to_owned(), |url| url.to_string());
    Ok(report.with_context(|| format!("{asked}: the answer cannot be understood"))?)
}
