//! The recommender of one process.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use kube::Client;
use plimsoll_core::admission::AbsentNamespace;
use plimsoll_core::placement::LearntWeights;
use plimsoll_core::recommender::{Options, PodFacts, read_pod};
use plimsoll_core::usage::nanos_of;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::cluster_store::ClusterStore;
use super::memory_store::MemoryStore;
use super::shard::{Shard, ShardOptions, Superseded};
use super::sources::prometheus::Labels;
use super::sources::{
    File, FileOptions, MetricsServer, MetricsServerOptions, Prometheus, PrometheusError, PrometheusOptions,
    Source,
};
use crate::cluster::{self, ClusterOptions, Leadership, LeadershipOptions, PodChange, Snapshots, wait_until};
use crate::config::{self, UsageSource};
use crate::metrics::Metrics;
use crate::server::Readiness;
use crate::status::Part;

/// What the recommender needs of its process.
#[derive(Clone)]
pub struct Parts {
    /// Its settings.
    pub config: config::Recommender,
    /// How the API server is reached; none without a cluster.
    pub cluster: Option<config::Cluster>,
    /// Where the leases are.
    pub own_namespace: String,
    /// Namespaces where nothing is recommended.
    pub excluded: BTreeSet<String>,
    /// What is known of the cluster.
    pub snapshots: Arc<Snapshots>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Says when the snapshots are complete.
    pub readiness: Readiness,
    /// What placement learnt of workloads, to be kept with their checkpoints.
    pub weights: Option<Arc<ArcSwap<LearntWeights>>>,
}

/// Runs until `cancelled`, on a thread of its own: whatever it does, admission does not wait for it.
///
/// # Panics
/// When it panicked there, so that whoever runs this hears of it.
pub async fn run(parts: Parts, cancelled: CancellationToken) {
    let working = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(work(parts, cancelled)),
            Err(error) => tracing::error!(%error, "the recommender cannot start"),
        }
    });
    if let Err(error) = working.await
        && let Ok(panic) = error.try_into_panic()
    {
        resume_unwind(panic);
    }
}

async fn work(parts: Parts, cancelled: CancellationToken) {
    if !wait_until(|| parts.readiness.holds("snapshots"), &cancelled).await {
        return;
    }
    match parts.cluster.clone() {
        Some(cluster) => {
            match cluster::connect(cluster.kubeconfig.as_deref(), cluster.context.as_deref()).await {
                Ok(client) => lead(&parts, &client, &cancelled).await,
                Err(error) => {
                    parts.metrics.health().failed_for_good(
                        Part::Recommender,
                        "reach the API server",
                        error.to_string(),
                    );
                    tracing::error!(%error, "the recommender cannot reach the API server");
                    cancelled.cancelled().await;
                }
            }
        }
        None => without_cluster(&parts, &cancelled).await,
    }
}

async fn lead(parts: &Parts, client: &Client, cancelled: &CancellationToken) {
    let config = &parts.config;
    let undivided = LeadershipOptions::undivided(
        "recommender",
        parts.own_namespace.clone(),
        config.lease_duration,
        config.renew_interval,
    );
    let options = LeadershipOptions { shards: config.shards, ..undivided };
    let leadership = Leadership::new(client.clone(), options, Arc::clone(&parts.metrics));
    let (jobs, mut received) = mpsc::unbounded_channel::<Job>();
    let mut elections = JoinSet::new();
    for shard in 0..parts.config.shards {
        let (leadership, jobs, cancelled) = (leadership.clone(), jobs.clone(), cancelled.clone());
        elections.spawn(async move {
            let work = |token| {
                let jobs = jobs.clone();
                async move {
                    let (done, ended) = oneshot::channel();
                    if jobs.send(Job { shard, token, done }).is_ok() {
                        // Also when the job panics: then the whole thread does.
                        let _ = ended.await;
                    }
                }
            };
            leadership.run(shard, cancelled, work).await;
        });
    }
    drop(jobs);
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(Job { shard, token, mut done }) = received.recv() => running.push(async move {
                tokio::select! {
                    () = run_shard(parts, client, shard, token) => {}
                    () = done.closed() => {}
                }
                // Nobody waits where the election has ended.
                let _ = done.send(());
            }),
            Some(()) = running.next() => {}
            Some(ended) = elections.join_next() => {
                if let Err(error) = ended
                    && let Ok(panic) = error.try_into_panic()
                {
                    resume_unwind(panic);
                }
            }
            else => return,
        }
    }
}

/// The work of a shard for as long as it is led. Elections go on beside it as tasks of their own; the work stays on
/// this task, and need not be `Send`.
struct Job {
    shard: u32,
    token: CancellationToken,
    done: oneshot::Sender<()>,
}

async fn run_shard(parts: &Parts, client: &Client, shard: u32, token: CancellationToken) {
    let source = match source(&parts.config, Some(client.clone())) {
        Ok(source) => source,
        Err(error) => {
            parts.metrics.health().failed_for_good(
                Part::UsageSource,
                "set up the source of usage",
                error.to_string(),
            );
            tracing::error!(%error, "the source of usage cannot be asked");
            token.cancelled().await;
            return;
        }
    };
    let watching = token.child_token();
    // Whichever way the loop ends, nobody watches pods for it any more.
    let _guard = watching.clone().drop_guard();
    let pods = cluster::watch_pods(
        client.clone(),
        ClusterOptions::default(),
        Arc::clone(&parts.metrics),
        watching,
        read_pod,
    );
    let store = ClusterStore::new(client.clone(), parts.config.writes_per_second, Arc::clone(&parts.metrics))
        .with_weights(parts.weights.clone());
    let options = options(parts, shard, AbsentNamespace::Unknown);
    let work = Shard::new(options, parts.snapshots.current(), Arc::clone(&parts.metrics), store, source);
    if let Err(Superseded) = work.run(pods, token).await {
        tracing::warn!(shard, "the lease is given up");
    }
}

/// Without a cluster there is nobody else, nothing to be kept, and pods are known by their usage alone.
async fn without_cluster(parts: &Parts, cancelled: &CancellationToken) {
    let source = match source(&parts.config, None) {
        Ok(source) => source,
        Err(error) => {
            parts.metrics.health().failed_for_good(
                Part::UsageSource,
                "set up the source of usage",
                error.to_string(),
            );
            tracing::error!(%error, "the source of usage cannot be asked");
            cancelled.cancelled().await;
            return;
        }
    };
    let (told, pods) = mpsc::channel::<PodChange<PodFacts>>(1);
    // The receiver is there, and has room for one.
    let _ = told.send(PodChange::Listed(Vec::new(), None)).await;
    let options = ShardOptions { without_pods: true, ..options(parts, 0, AbsentNamespace::Exists) };
    let store = MemoryStore::new(Arc::clone(&parts.snapshots));
    let work = Shard::new(options, parts.snapshots.current(), Arc::clone(&parts.metrics), store, source);
    if work.run(pods, cancelled.clone()).await.is_err() {
        tracing::error!("the recommender ended");
    }
    drop(told);
}

fn options(parts: &Parts, shard: u32, absent_namespace: AbsentNamespace) -> ShardOptions {
    let config = &parts.config;
    let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    ShardOptions {
        state: Options {
            excluded: parts.excluded.clone(),
            absent_namespace,
            shards: if parts.cluster.is_some() { config.shards } else { 1 },
            shard,
            scan_interval: nanos(config.scan_interval),
            checkpoint_interval: nanos(config.checkpoint_interval),
        },
        scan_interval: config.scan_interval,
        writes_per_second: config.writes_per_second,
        history: config.prometheus.history,
        without_pods: false,
        clock: || nanos_of(Timestamp::now()),
    }
}

/// The source that is configured. Without a client, metrics-server cannot be asked, and Prometheus is.
///
/// # Errors
/// Its address or credentials cannot be used.
pub fn source(config: &config::Recommender, client: Option<Client>) -> Result<Source, PrometheusError> {
    Ok(match (config.source, client, &config.file) {
        (UsageSource::MetricsServer, Some(client), _) => Source::MetricsServer(MetricsServer::new(
            client,
            MetricsServerOptions {
                per_namespace: config.metrics_server.per_namespace,
                timeout: config.source_timeout,
            },
        )),
        (UsageSource::File, _, Some(path)) => Source::File(File::new(FileOptions { path: path.clone() })),
        // The other two were checked with the configuration.
        _ => Source::Prometheus(Prometheus::new(prometheus(config))?),
    })
}

/// Prometheus, where usage is read from it.
///
/// # Errors
/// Its address or credentials cannot be used.
pub fn past_of_usage(config: &config::Recommender) -> Result<Option<Prometheus>, PrometheusError> {
    match config.source {
        UsageSource::Prometheus => Prometheus::new(prometheus(config)).map(Some),
        UsageSource::MetricsServer | UsageSource::File => Ok(None),
    }
}

fn prometheus(config: &config::Recommender) -> PrometheusOptions {
    let set = config.prometheus.clone();
    let access = set.access;
    PrometheusOptions {
        cpu_query: set.cpu_query,
        memory_query: set.memory_query,
        labels: Labels { namespace: set.namespace_label, pod: set.pod_label, container: set.container_label },
        bearer_token_file: access.bearer_token_file,
        username: access.username,
        password_file: access.password_file,
        ca_file: access.ca_file,
        client_certificate: access.client_certificate,
        client_key: access.client_key,
        headers: access.headers,
        timeout: config.source_timeout,
        history_step: set.history_step,
        history_chunk: set.history_chunk,
        ..PrometheusOptions::new(access.address.unwrap_or_default())
    }
}
