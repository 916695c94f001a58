//! How the API server is reached.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use thiserror::Error;

/// How long a connection to the API server may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no client.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The file that was named cannot be used.
    #[error("kubeconfig {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: Box<kube::config::KubeconfigError>,
    },
    /// The context is not there, or the default kubeconfig cannot be used.
    #[error("context {context}: {reason}; `kubectl config get-contexts` lists those there are")]
    Context {
        /// The context.
        context: String,
        /// What is wrong with it.
        reason: Box<kube::config::KubeconfigError>,
    },
    /// There is neither a kubeconfig nor a service account.
    #[error(
        "no way to the API server: {0}; give --kubeconfig FILE, run in a cluster, or use --standalone DIR without one"
    )]
    Nothing(Box<kube::config::InferConfigError>),
    /// The configuration was read and makes no client.
    #[error("the API server's address or credentials cannot be used: {0}")]
    Client(Box<kube::Error>),
}

/// A client by the file and context that were named; else by `KUBECONFIG`, `~/.kube/config`, or the service account
/// of the pod. Nothing is called yet.
///
/// # Errors
/// What is missing or wrong, and what would be right.
pub async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Client, ConnectError> {
    client(configuration(kubeconfig, context).await?)
}

/// The address and the credentials that [`connect`] makes a client of.
///
/// # Errors
/// As [`connect`].
pub async fn configuration(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    match (kubeconfig, context) {
        (Some(path), _) => {
            let failed = |reason| ConnectError::File { path: path.to_owned(), reason: Box::new(reason) };
            let file = Kubeconfig::read_from(path).map_err(failed)?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(failed)
        }
        (None, Some(context)) => Config::from_kubeconfig(&options).await.map_err(|reason| {
            ConnectError::Context { context: context.to_owned(), reason: Box::new(reason) }
        }),
        (None, None) => Config::infer().await.map_err(|error| ConnectError::Nothing(Box::new(error))),
    }
}

/// A client for an API server that is known already.
///
/// # Errors
/// The address or the credentials cannot be used.
pub fn client(mut config: Config) -> Result<Client, ConnectError> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // Whoever calls tries again, and counts: retries inside the client would hide for how long it has failed.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| ConnectError::Client(Box::new(error)))
}
