//! The aggregated API server as a part of `serve`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::Client;
use plimsoll_core::hpa::HpaPod;

use super::certificates::{poll_interval, tls_options};
use super::process::Process;
use super::{CliError, bind, server_options};
use crate::certificates::Held;
use crate::cluster::{self, Events, News, Snapshots, reference};
use crate::config::Config;
use crate::hpa::Pods;
use crate::hpa::api::{self, Parts, PodTable, Served, Tell, Unkept, UpstreamOptions, World};
use crate::server::tls::wall_clock;
use crate::server::{
    CertificateSource, CertificateStore, ClientAuth, SelfManaged, ServerOptions, TlsOptions,
};
use crate::status::Health;

/// Requests that are answered at the same time: most of the time of one is waiting for others.
const CONCURRENCY: usize = 64;

/// What answers of metrics-server may take together, as text.
const BODY_MEMORY: usize = 32 * 1024 * 1024;

/// What is so is told again after this time if it still is.
const STILL: Duration = Duration::from_secs(600);
/// So many things that were told are remembered.
const REMEMBERED: usize = 10_000;

/// How often it is looked whether the pods are known.
const PODS_POLL: Duration = Duration::from_millis(50);

/// Who tells, in events.
const MANAGER: &str = "plimsoll-hpa";

/// The pods, and whether all else is known too.
struct Known {
    pods: Pods,
    snapshots: Arc<Snapshots>,
}

impl PodTable for Known {
    fn is_complete(&self) -> bool {
        self.pods.is_complete() && self.snapshots.has_autoscalers()
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<HpaPod> {
        self.pods.pod(namespace, name)
    }
}

/// Opens the listener and serves where it is wanted. The address that was bound.
pub(super) async fn start(
    process: &Process,
    client: &Client,
    pods: &Pods,
) -> Result<Option<SocketAddr>, CliError> {
    let Process { config, snapshots, settings, readiness, metrics, shutdown, tasks, held, .. } = process;
    if !config.hpa.serves_metrics() {
        return Ok(None);
    }
    let certificates =
        CertificateStore::open_for(tls(config, held), wall_clock(), metrics.hpa_api_listener().clone())
            .map_err(|error| CliError::Usage(format!("hpa.api: {error}")))?;
    if config.hpa.api.certificate.is_none() {
        // One of its own that runs out is no reason to stop admission: metrics tell, and the API server sees it.
        let store = Arc::clone(&certificates);
        readiness.check("certificate of the aggregated API", move || store.check());
    }
    let polling = Arc::clone(&certificates).watch(poll_interval(config), shutdown.clone());
    tasks.spawn("certificates of the aggregated API", polling);
    let (listener, address) = bind(config.hpa.api.address).await?;

    let credentials =
        cluster::configuration(config.cluster.kubeconfig.as_deref(), config.cluster.context.as_deref())
            .await
            .map_err(|error| CliError::Usage(error.to_string()))?;
    let table = pods.clone();
    let (watching, counting, cancelled) = (client.clone(), Arc::clone(metrics), tasks.cancelled());
    tasks.spawn("pods", async move { table.follow(watching, counting, cancelled).await });
    // Not ready before the pods are known: until then the controller of autoscalers gets errors.
    let complete = readiness.condition("pods");
    complete.missing("the pods of the cluster are not listed yet");
    let (table, cancelled) = (pods.clone(), tasks.cancelled());
    tasks.spawn("pods are known", async move {
        while !table.is_complete() && !cancelled.is_cancelled() {
            tokio::time::sleep(PODS_POLL).await;
        }
        complete.ready();
        cancelled.cancelled().await;
    });

    let hpa = &config.hpa.api;
    let parts = Parts {
        served: Served { metrics: config.hpa.shim.enabled, external: config.hpa.external.enabled },
        options: ServerOptions {
            address,
            concurrency: CONCURRENCY,
            body_memory: BODY_MEMORY,
            ..server_options(config)
        },
        certificates,
        client: client.clone(),
        credentials,
        upstream: UpstreamOptions {
            address: hpa.upstream.clone(),
            ca: hpa.upstream_ca.clone(),
            insecure_skip_verify: hpa.upstream_insecure_skip_verify,
            timeout: hpa.upstream_timeout,
        },
        identities: hpa.identities.clone(),
        front_proxy_interval: hpa.front_proxy_interval,
        world: World {
            pods: Arc::new(Known { pods: pods.clone(), snapshots: Arc::clone(snapshots) }),
            objects: snapshots.current(),
            settings: Arc::clone(settings),
        },
        tell: tell(client.clone(), metrics.health()),
        readiness: readiness.condition("front proxy"),
        metrics: Arc::clone(metrics),
    };
    let (shutdown, cancelled) = (shutdown.clone(), tasks.cancelled());
    tasks.spawn("aggregated API", async move {
        match api::serve(listener, parts, shutdown).await {
            // It may be done before the admission server is; only that one ends the process.
            Ok(()) => cancelled.cancelled().await,
            Err(error) => tracing::error!(%error, "the aggregated API server cannot serve"),
        }
    });
    Ok(Some(address))
}

fn tls(config: &Config, held: &Held) -> TlsOptions {
    let api = &config.hpa.api;
    let of_admission = tls_options(config, held);
    let source = match (&api.certificate, &api.key) {
        (Some(certificate), Some(key)) => {
            CertificateSource::Files { certificate: certificate.clone(), key: key.clone(), client_ca: None }
        }
        _ => match of_admission.source {
            // Whose clients' certificates count is judged elsewhere.
            CertificateSource::SelfManaged(own) => {
                CertificateSource::SelfManaged(SelfManaged { client_ca: None, ..own })
            }
            source => source,
        },
    };
    TlsOptions { source, client_auth: ClientAuth::Unjudged, http2: false, ..of_admission }
}

/// Tells by events on the autoscalers; the same again only after a while.
fn tell(client: Client, health: &Health) -> Tell {
    let events = Arc::new(Events::new(client, MANAGER).with_health(health));
    let told: Mutex<HashMap<[String; 4], Instant>> = Mutex::default();
    Arc::new(move |of: Unkept| {
        let now = Instant::now();
        let key = [&of.namespace, &of.name, &of.uid, &of.why].map(Clone::clone);
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, last| now.saturating_duration_since(*last) < STILL);
        if told.len() >= REMEMBERED || told.contains_key(&key) {
            return;
        }
        told.insert(key, now);
        drop(told);
        let events = Arc::clone(&events);
        tokio::spawn(async move {
            let hpa =
                reference("autoscaling/v2", "HorizontalPodAutoscaler", &of.namespace, &of.name, &of.uid);
            let news = if of.is_lost { News::Warning } else { News::Normal };
            events.publish(&hpa, news, "UsageNotScaled", "Scale", &of.why).await;
        });
    })
}
