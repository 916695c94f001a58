//! The parts of the server, and what they have in common.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kube::Client;
use plimsoll_core::admission::Settings;

use super::tasks::Tasks;
use super::{CliError, certificates, settings};
use crate::api;
use crate::certificates::Held;
use crate::cluster::{self, ClusterOptions, Snapshots};
use crate::config::{Config, TlsSource};
use crate::dashboard::Cluster;
use crate::hpa::{self, Pods};
use crate::metrics::Metrics;
use crate::placement::PlacementState;
use crate::profiles;
use crate::quota::content::Latest;
use crate::quota::{self, run::Door};
use crate::recommender;
use crate::server::{CertificateStore, Readiness, Shutdown};
use crate::standalone::{self, StandaloneFolder};
use crate::status::StatusSources;
use crate::survey::{Pasts, SurveyParts, Surveys};

/// What every part of the server needs.
pub(super) struct Process {
    pub(super) config: Arc<Config>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) shutdown: Shutdown,
    pub(super) readiness: Readiness,
    pub(super) tasks: Tasks,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) settings: Arc<ArcSwap<Settings>>,
    /// What certificates may be signed with, where they are self-managed.
    pub(super) held: Held,
    standalone: bool,
}

impl Process {
    pub(super) fn new(config: &Config, standalone: bool, shutdown: &Shutdown) -> Self {
        let metrics = Arc::new(Metrics::new(env!("CARGO_PKG_VERSION")));
        let readiness = Readiness::new(shutdown.clone());
        Self {
            config: Arc::new(config.clone()),
            shutdown: shutdown.clone(),
            tasks: Tasks::new(readiness.clone()),
            readiness,
            snapshots: Arc::new(Snapshots::new(Arc::clone(&metrics))),
            settings: Arc::new(ArcSwap::from_pointee(settings(config, standalone))),
            metrics,
            held: certificates::held(config),
            standalone,
        }
    }

    /// What the JSON API answers from, but for what single parts know.
    pub(super) fn known(&self, client: Option<&Client>) -> api::Sources {
        let (config, metrics) = (Arc::clone(&self.config), Arc::clone(&self.metrics));
        api::Sources {
            objects: self.snapshots.current(),
            surveys: client.map(|client| self.survey(client)),
            pasts: recommender::past_of_usage(&self.config.recommender).ok().flatten().map(Pasts::new),
            readiness: self.readiness.clone(),
            status: Some(StatusSources::new(
                config,
                self.standalone,
                self.readiness.clone(),
                Arc::clone(&metrics),
            )),
            settings: Arc::clone(&self.settings),
            metrics: Some(metrics),
            cluster: client.cloned().map(Cluster::new),
            ..api::Sources::default()
        }
    }

    /// Objects come from a folder.
    pub(super) fn follow_folder(&self, folder: &Path) -> Result<(), CliError> {
        let folder = StandaloneFolder::open(folder, Arc::clone(&self.snapshots), Arc::clone(&self.metrics));
        let folder = folder.map_err(|errors| {
            let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
            CliError::Usage(lines.join("\n"))
        })?;
        let condition = self.readiness.condition("snapshots");
        condition.ready();
        let watching = folder.watch(standalone::POLL_INTERVAL, condition, self.tasks.cancelled());
        self.tasks.spawn("standalone", watching);
        Ok(())
    }

    /// Objects come from the API server.
    pub(super) async fn follow_cluster(&self) -> Result<Client, CliError> {
        let at = &self.config.cluster;
        let client = cluster::connect(at.kubeconfig.as_deref(), at.context.as_deref())
            .await
            .map_err(|error| CliError::Usage(error.to_string()))?;
        let options = ClusterOptions {
            quota: self.config.quota.enabled,
            hpa: self.config.hpa.enabled,
            placement: self.config.placement.enabled,
            ..ClusterOptions::default()
        };
        let watches = cluster::run(
            client.clone(),
            Arc::clone(&self.snapshots),
            Arc::clone(&self.metrics),
            self.readiness.condition("snapshots"),
            options,
            self.tasks.cancelled(),
        );
        self.tasks.spawn("watches", watches);
        Ok(client)
    }

    pub(super) fn recommend(&self, placement: Option<&PlacementState>) {
        let config = &self.config;
        if !config.recommender.runs(self.standalone) {
            return;
        }
        let parts = recommender::Parts {
            config: config.recommender.clone(),
            cluster: (!self.standalone).then(|| config.cluster.clone()),
            own_namespace: config.admission.own_namespace.clone(),
            excluded: profiles::excluded_namespaces(config),
            snapshots: Arc::clone(&self.snapshots),
            metrics: Arc::clone(&self.metrics),
            readiness: self.readiness.clone(),
            weights: placement.map(|placement| Arc::clone(&placement.weights)),
        };
        self.tasks.spawn("recommender", recommender::run(parts, self.tasks.cancelled()));
    }

    /// Where pods in bound namespaces are decided about, and the part of the work that one replica does for all.
    pub(super) fn decide_quota(
        &self,
        client: &Client,
        latest: &Latest,
        certificate: &Arc<CertificateStore>,
    ) -> Option<Door> {
        if !self.config.quota.enabled {
            return None;
        }
        let parts = quota::leader::Parts {
            config: self.config.quota.clone(),
            own_namespace: self.config.admission.own_namespace.clone(),
            snapshots: Arc::clone(&self.snapshots),
            metrics: Arc::clone(&self.metrics),
            latest: Arc::clone(latest),
            certificate: (self.config.tls.source == TlsSource::SelfManaged).then(|| Arc::clone(certificate)),
        };
        let (door, deciding) = quota::run::open(client, &parts);
        self.tasks.spawn("quota", deciding);
        let (readiness, cancelled) = (self.readiness.clone(), self.tasks.cancelled());
        self.tasks.spawn("quota leader", quota::run::lead(client.clone(), parts, readiness, cancelled));
        Some(door)
    }

    /// The part of the keeping of autoscalers that one replica does for all.
    pub(super) fn keep_autoscalers(&self, client: &Client, pods: &Pods) {
        if !self.config.hpa.enabled {
            return;
        }
        let parts = hpa::run::Parts {
            config: self.config.hpa.clone(),
            own_namespace: self.config.admission.own_namespace.clone(),
            snapshots: Arc::clone(&self.snapshots),
            settings: Arc::clone(&self.settings),
            pods: pods.clone(),
            metrics: Arc::clone(&self.metrics),
        };
        self.tasks.spawn("hpa leader", hpa::run::lead(client.clone(), parts, self.tasks.cancelled()));
    }

    /// What pages show of the whole cluster; it is read only while somebody looks.
    fn survey(&self, client: &Client) -> Surveys {
        let surveys = Surveys::default();
        let source = recommender::source(&self.config.recommender, Some(client.clone()))
            .inspect_err(|error| tracing::warn!(%error, "pages show no usage"))
            .ok();
        let parts = SurveyParts {
            client: client.clone(),
            objects: self.snapshots.current(),
            source,
            health: self.metrics.health().clone(),
        };
        self.tasks.spawn("survey", surveys.clone().run(parts, self.tasks.cancelled()));
        surveys
    }
}
