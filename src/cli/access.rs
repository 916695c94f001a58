//! How commands reach a cluster, and what they are not allowed to read there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, ListParams};
use serde_json::Value;
use tokio::time::timeout;

use super::CliError;
use super::again::Again;
use super::output::Form;
use crate::cluster::{self, Call, WriteError, describe, send};
use crate::config::Config;

/// How long one call may take.
const LIMIT: Duration = Duration::from_secs(30);
/// How many objects a page of a list holds.
const PAGE: u32 = 500;

/// How the cluster is reached.
#[derive(Debug, clap::Args)]
pub(super) struct Access {
    /// Kubeconfig file, in place of cluster.kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig, in place of cluster.context
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl Access {
    /// A client with the rights of who calls.
    pub(super) async fn client(&self, config: &Config) -> Result<Client, CliError> {
        connect(self.kubeconfig.as_deref(), self.context.as_deref(), config).await
    }
}

/// What the commands have in common that look at a cluster: the way there, how often, and the form of the answer. `F` is
/// of those that have more forms than a table, JSON and YAML.
#[derive(Debug, clap::Args)]
pub(super) struct Look<F: clap::ValueEnum + Clone + Send + Sync + 'static = Form> {
    #[command(flatten)]
    pub(super) access: Access,

    #[command(flatten)]
    pub(super) again: Again,

    /// Form of the answer
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "table")]
    pub(super) output: F,
}

/// A client by what was named, else by the configuration. Nothing is called yet; what was named, or should have been,
/// cannot be used: that is wrong usage.
pub(super) async fn connect(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    config: &Config,
) -> Result<Client, CliError> {
    let kubeconfig = kubeconfig.or(config.cluster.kubeconfig.as_deref());
    let context = context.or(config.cluster.context.as_deref());
    cluster::connect(kubeconfig, context).await.map_err(|error| CliError::Usage(error.to_string()))
}

/// Whether the API server answers who we are, whatever it answers.
///
/// # Errors
/// It cannot be reached, or does not take our credentials: no other call would come to anything.
pub(super) async fn reach(client: &Client) -> Result<(), CliError> {
    let request = http::Request::get("/version").body(Vec::new()).map_err(anyhow::Error::new)?;
    let why = match timeout(LIMIT, client.request_text(request)).await {
        Err(_) => format!("no answer within {LIMIT:?}"),
        Ok(Err(kube::Error::Api(status))) if status.code == 401 => {
            format!("the credentials are not accepted: {}; check the kubeconfig", status.message)
        }
        Ok(Ok(_) | Err(kube::Error::Api(_))) => return Ok(()),
        Ok(Err(error)) => describe(&error),
    };
    Err(anyhow::anyhow!("the cluster cannot be asked: {why}").into())
}

/// The time by the API server's clock, to the second, by which Leases are renewed; by our own where it does not say it.
pub(super) async fn time(client: &Client) -> Timestamp {
    let request = http::Request::get("/version").body(kube::client::Body::empty());
    let asked = async { client.send(request.ok()?).await.ok() };
    let answer = timeout(LIMIT, asked).await.ok().flatten();
    let date = answer.as_ref().and_then(|answer| answer.headers().get(http::header::DATE)?.to_str().ok());
    let date = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok());
    date.unwrap_or_else(Timestamp::now)
}

/// A kind of object, and where it is served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    /// As manifests have it.
    pub(super) word: &'static str,
    pub(super) plural: &'static str,
}

impl Kind {
    pub(super) const fn new(
        group: &'static str,
        version: &'static str,
        word: &'static str,
        plural: &'static str,
    ) -> Self {
        Self { group, version, word, plural }
    }

    fn path(&self, namespace: Option<&str>) -> String {
        let Self { group, version, plural, .. } = self;
        let root =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        namespace.map_or_else(
            || format!("{root}/{plural}"),
            |namespace| format!("{root}/namespaces/{namespace}/{plural}"),
        )
    }

    fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    const fn call<'a>(&self, verb: &'static str, object: &'a str) -> Call<'a> {
        Call { verb, kind: self.word, resource: self.plural, group: self.group, object, bytes: 0 }
    }

    /// Items of lists come without their type.
    fn typed(&self, mut object: Value) -> Value {
        if let Some(map) = object.as_object_mut() {
            map.insert("apiVersion".to_owned(), self.api_version().into());
            map.insert("kind".to_owned(), self.word.into());
        }
        object
    }
}

/// What came of a question to the API server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Read<T> {
    /// This is it.
    Found(T),
    /// It is not there, or the cluster does not know its kind.
    Absent,
    /// It could not be asked: why, and the right that is missing.
    Unknown(String),
}

impl<T> Read<T> {
    fn of(result: Result<T, WriteError>) -> Self {
        match result {
            Ok(found) => Self::Found(found),
            Err(WriteError::NotFound { .. } | WriteError::NotInstalled { .. }) => Self::Absent,
            Err(error) => Self::Unknown(told(&error)),
        }
    }

    /// As a command says it that cannot go on without.
    pub(super) fn needed(self, what: &str) -> Result<T, CliError> {
        match self {
            Self::Found(found) => Ok(found),
            Self::Absent => Err(anyhow::anyhow!("there is no {what}; is Plimsoll installed?").into()),
            Self::Unknown(why) => Err(anyhow::anyhow!(why).into()),
        }
    }
}

/// A failure for who has the rights of a person, not of a service account.
pub(super) fn told(error: &WriteError) -> String {
    match error {
        WriteError::Forbidden { what, grant, .. } => {
            format!("{what}: not allowed; you lack the right to {grant}")
        }
        error => error.to_string(),
    }
}

/// All objects of a kind, of one namespace or of all.
pub(super) async fn list(client: &Client, kind: Kind, namespace: Option<&str>) -> Read<Vec<Value>> {
    list_with(client, kind, namespace, ListParams::default(), false).await
}

/// The same with parameters, or with nothing but metadata.
pub(super) async fn list_with(
    client: &Client,
    kind: Kind,
    namespace: Option<&str>,
    parameters: ListParams,
    metadata_only: bool,
) -> Read<Vec<Value>> {
    let request = Request::new(kind.path(namespace));
    let mut parameters = parameters.limit(PAGE);
    let call = kind.call("list", namespace.unwrap_or_default());
    let mut items = Vec::new();
    loop {
        let asked =
            if metadata_only { request.list_metadata(&parameters) } else { request.list(&parameters) };
        let answer = send(client, call, asked, LIMIT).await.and_then(|text| {
            serde_json::from_str::<Value>(&text)
                .map_err(|error| call.unavailable(format!("the answer is no list: {error}")))
        });
        let mut page = match answer {
            Ok(page) => page,
            Err(error) => return Read::of(Err(error)),
        };
        if let Some(Value::Array(found)) = page.get_mut("items").map(Value::take) {
            items.extend(found.into_iter().map(|item| kind.typed(item)));
        }
        let next = page.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default();
        if next.is_empty() {
            return Read::Found(items);
        }
        parameters = parameters.continue_token(next);
    }
}

/// One object.
pub(super) async fn get(client: &Client, kind: Kind, namespace: Option<&str>, name: &str) -> Read<Value> {
    let object = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
    let call = kind.call("get", &object);
    let request = Request::new(kind.path(namespace)).get(name, &GetParams::default());
    let answer = send(client, call, request, LIMIT).await.and_then(|text| {
        serde_json::from_str::<Value>(&text)
            .map(|object| kind.typed(object))
            .map_err(|error| call.unavailable(format!("the answer is no object: {error}")))
    });
    Read::of(answer)
}
