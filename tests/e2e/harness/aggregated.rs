//! A server behind the API server, asked directly: who is let in, and what is said.

use anyhow::{Context, Result};
use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::{Client, Config};
use serde_json::Value;

use super::World;
use super::install::SERVER_NAME;

/// Asks the server at a port of this machine.
pub(crate) struct Direct {
    client: Client,
}

impl Direct {
    /// With the token of a service account (`namespace/name`), or without any.
    pub(crate) fn new(world: &World, port: u16, account: Option<(&str, &str)>) -> Result<Self> {
        let mut config = Config::new(format!("https://localhost:{port}").parse()?);
        config.root_cert = Some(vec![world.authority.der().to_vec()]);
        config.tls_server_name = Some(SERVER_NAME.to_owned());
        config.default_retry = false;
        if let Some((namespace, name)) = account {
            let token =
                world.cluster.kubectl.run(["create", "token", name, "--namespace", namespace], None)?;
            config.auth_info.token = Some(token.trim().to_owned().into());
        }
        Ok(Self { client: Client::try_from(config)? })
    }

    /// `GET path` with these further headers: the status code and the body.
    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Result<(u16, Value)> {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.client.send(request.body(Body::empty())?).await?;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        let body = serde_json::from_slice(&body);
        Ok((code, body.with_context(|| format!("{path} answers {code} and no JSON"))?))
    }
}
