//! Load and usage as they are configured, on a thread of their own.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio_util::sync::CancellationToken;

use super::learner::Learner;
use super::loader::{Loader, Source};
use super::metrics_server::MetricsServerLoad;
use super::options::{LoadOptions, LoadQueries};
use super::prometheus::PrometheusLoad;
use super::usage::{Usage, UsageQueries};
use crate::cluster;
use crate::config::{self, LoadSource};
use crate::metrics::Metrics;
use crate::placement::{PlacementState, now};
use crate::recommender::sources::prometheus::{Endpoint, Labels};
use crate::recommender::sources::{MetricsServer, MetricsServerOptions, PrometheusError};
use crate::status::Part;

/// What reading load needs of its process.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Its settings.
    pub config: config::Placement,
    /// The labels that name a container in Prometheus.
    pub labels: Labels,
    /// How the API server is reached: for metrics-server, and for checkpoints.
    pub cluster: config::Cluster,
    /// Where what is read is put.
    pub state: PlacementState,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// Reads load and usage until `cancelled`, on a thread of its own: an answer about a hundred thousand containers takes a
/// moment to be read, and neither admission nor a scheduler waits for it.
///
/// # Panics
/// When it panicked there, so that whoever runs this hears of it.
pub async fn run(parts: Parts, cancelled: CancellationToken) {
    let working = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(work(parts, cancelled)),
            Err(error) => tracing::error!(%error, "the load of nodes cannot be read"),
        }
    });
    if let Err(error) = working.await
        && let Ok(panic) = error.try_into_panic()
    {
        resume_unwind(panic);
    }
}

async fn work(parts: Parts, cancelled: CancellationToken) {
    let Parts { config, labels, cluster, state, metrics } = parts;
    let connected = cluster::connect(cluster.kubeconfig.as_deref(), cluster.context.as_deref()).await;
    let client = match connected {
        Ok(client) => client,
        Err(error) => {
            metrics.health().failed_for_good(Part::PlacementLoad, "set up", error.to_string());
            tracing::error!(%error, "the load of nodes cannot be read: there is no way to the API server");
            cancelled.cancelled().await;
            return;
        }
    };
    let made = source(&config, &client).and_then(|source| Ok((source, usage(&config, labels, &client)?)));
    let (source, usage) = match made {
        Ok(made) => made,
        Err(error) => {
            metrics.health().failed_for_good(Part::PlacementLoad, "set up", error.to_string());
            tracing::error!(%error, "the load of nodes cannot be read; correct placement.load.prometheus");
            cancelled.cancelled().await;
            return;
        }
    };
    let loading = Loader::new(source, state.clone(), Arc::clone(&metrics));
    let loading = loading.run(config.load.interval, now, cancelled.clone());
    let learning = async {
        match usage {
            Some(usage) => {
                let learner = Learner::new(usage, state, metrics);
                learner.run(Some(client), config.usage.interval, now, cancelled).await;
            }
            None => cancelled.cancelled().await,
        }
    };
    tokio::join!(loading, learning);
}

fn source(config: &config::Placement, client: &Client) -> Result<Source, PrometheusError> {
    let load = &config.load;
    let queries = &load.queries;
    let usage = config.usage.enabled.then_some(&config.usage.queries);
    let options = LoadOptions {
        interval: load.interval,
        maximum_age: load.maximum_age,
        node_labels: load.node_labels.clone(),
        queries: LoadQueries {
            cpu: queries.cpu.clone(),
            memory: queries.memory.clone(),
            disk: queries.disk.clone(),
            load: queries.load.clone(),
            network: queries.network.clone(),
            time: queries.time.clone(),
            total_bandwidth: usage.and_then(|queries| queries.total_bandwidth.clone()),
            total_disk: usage.and_then(|queries| queries.total_disk.clone()),
            idle_disk: usage.and_then(|queries| queries.idle_disk.clone()),
        },
    };
    Ok(match load.source {
        LoadSource::Prometheus => Source::Prometheus(PrometheusLoad::new(&endpoint(load), options)?),
        LoadSource::MetricsServer => {
            Source::MetricsServer(MetricsServerLoad::new(metrics_server(client, load.timeout), options))
        }
    })
}

fn usage(
    config: &config::Placement,
    labels: Labels,
    client: &Client,
) -> Result<Option<Usage>, PrometheusError> {
    let config::WhatContainersUse { enabled, interval, queries } = &config.usage;
    if !enabled {
        return Ok(None);
    }
    match config.load.source {
        LoadSource::Prometheus => {
            let queries = UsageQueries {
                cpu: Some(queries.cpu.clone()),
                memory: Some(queries.memory.clone()),
                bandwidth: queries.bandwidth.clone(),
                disk: queries.disk.clone(),
                labels,
            };
            Usage::prometheus(&endpoint(&config.load), queries, *interval).map(Some)
        }
        LoadSource::MetricsServer => {
            Ok(Some(Usage::metrics_server(metrics_server(client, config.load.timeout), *interval)))
        }
    }
}

fn endpoint(load: &config::HowLoadIsRead) -> Endpoint {
    let access = load.prometheus.clone();
    Endpoint {
        address: access.address.unwrap_or_default(),
        bearer_token_file: access.bearer_token_file,
        username: access.username,
        password_file: access.password_file,
        ca_file: access.ca_file,
        client_certificate: access.client_certificate,
        client_key: access.client_key,
        headers: access.headers,
        timeout: load.timeout,
    }
}

fn metrics_server(client: &Client, timeout: Duration) -> MetricsServer {
    MetricsServer::new(client.clone(), MetricsServerOptions { per_namespace: false, timeout })
}
