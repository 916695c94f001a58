//! The answers themselves: true usage, scaled usage, metrics of our own.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::header::ACCEPT;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use plimsoll_core::hpa::{Scaling, Unscaled, scaled, scaling};
use plimsoll_core::resource::Resource;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answer::{Answer, Refusal};
use super::discovery;
use super::identity::Identity;
use super::percent::percent_encoded;
use super::route::Route;
use super::upstream::{Fetched, Upstream};
use super::usage::PodUsage;
use super::world::{Shapes, World};
use crate::metrics::{ApiOutcome, Metrics, ScaleOutcome};

/// What we read ourselves.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An autoscaler that is told usage as it is though its pods are lowered, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unkept {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which of all objects of that name, over time.
    pub uid: String,
    /// Whether its meaning is lost by it.
    pub is_lost: bool,
    /// What it looks at that is told as it is, and why.
    pub why: String,
}

/// Is told of autoscalers that are told usage as it is, again and again while that is so.
pub type Tell = Arc<dyn Fn(Unkept) + Send + Sync>;

/// So many answers of metrics-server are taken apart at the same time. In memory one is many times its text.
const AT_ONCE: usize = 2;

/// The usage of pods, and the text that it was read from.
pub(super) struct Usage {
    pub(super) pods: PodUsage,
    pub(super) fetched: Fetched,
    _turn: OwnedSemaphorePermit,
}

/// The turns of those who take an answer apart.
pub(super) fn turns() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(AT_ONCE))
}

/// Makes the answers.
pub(super) struct Resources {
    pub(super) upstream: Upstream,
    pub(super) world: World,
    pub(super) identities: BTreeSet<String>,
    pub(super) tell: Tell,
    pub(super) metrics: Arc<Metrics>,
    pub(super) turns: Arc<Semaphore>,
}

impl Resources {
    /// Answers a request of somebody who may ask.
    pub(super) async fn answer(
        &self,
        route: &Route,
        head: &Parts,
        who: &Identity,
    ) -> Result<Answer, Refusal> {
        match route {
            Route::MetricsResources => Ok(Answer::object(&discovery::metrics())),
            Route::CustomResources(version) => Ok(Answer::object(&discovery::custom(*version))),
            Route::ExternalResources => Ok(Answer::object(&discovery::external())),
            Route::Pods { namespace: Some(namespace), name } if self.identities.contains(&who.user) => {
                self.scaled(head, namespace, name.as_deref()).await
            }
            Route::Nodes | Route::Pods { .. } => self.passed_on(head).await,
            Route::PodMetric { version, namespace, name, metric } => {
                self.pod_metric(*version, namespace, name.as_deref(), metric, head.uri.query()).await
            }
            Route::WorkloadMetric { namespace, metric } => {
                self.workload_metric(namespace, metric, head.uri.query()).await
            }
        }
    }

    /// The answer of metrics-server, byte for byte.
    async fn passed_on(&self, head: &Parts) -> Result<Answer, Refusal> {
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        self.fetch(path, head.headers.get(ACCEPT)).await.map(as_it_is)
    }

    pub(super) async fn fetch(&self, path: &str, accept: Option<&HeaderValue>) -> Result<Fetched, Refusal> {
        let fetched = self.upstream.get(path, accept).await;
        fetched.map_err(|failure| Refusal::unavailable(failure.to_string()))
    }

    /// The usage of pods as metrics-server tells it; what it says instead, if that is no success, is an answer too.
    pub(super) async fn pods(
        &self,
        namespace: &str,
        name: Option<&str>,
        query: Option<&str>,
    ) -> Result<Result<Usage, Answer>, Refusal> {
        let mut path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
        if let Some(name) = name {
            path = format!("{path}/{name}");
        }
        if let Some(query) = query.filter(|query| !query.is_empty()) {
            path = format!("{path}?{query}");
        }
        let fetched = self.fetch(&path, Some(&JSON)).await?;
        if fetched.status != StatusCode::OK {
            return Ok(Err(as_it_is(fetched)));
        }
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.map_err(|error| Refusal::unavailable(error.to_string()))?;
        let pods = PodUsage::read(&fetched.body, namespace, name)
            .map_err(|reason| Refusal::unavailable(self.upstream.not_understood(&fetched.body, &reason)))?;
        Ok(Ok(Usage { pods, fetched, _turn: turn }))
    }

    /// Refuses while not everything is known: what is not known would be told as if nothing were lowered.
    pub(super) fn check_complete(&self) -> Result<(), Refusal> {
        if self.world.pods.is_complete() {
            return Ok(());
        }
        Err(Refusal::unavailable("the pods of the cluster are not known yet; try again"))
    }

    /// What the autoscaler's controller is told.
    async fn scaled(&self, head: &Parts, namespace: &str, name: Option<&str>) -> Result<Answer, Refusal> {
        self.check_complete()?;
        let Usage { pods: mut usage, fetched, _turn } =
            match self.pods(namespace, name, head.uri.query()).await? {
                Ok(found) => found,
                Err(answer) => return Ok(answer),
            };
        let mut shapes = Shapes::default();
        let mut any = false;
        for pod in usage.pods() {
            any = true;
            let known = self.world.pods.pod(namespace, pod.name).filter(|known| known.counts);
            if let Some(known) = known {
                shapes.add(&known.shape);
            }
        }
        if !any {
            return Ok(as_it_is(fetched));
        }
        let mut changed = false;
        for resource in [Resource::Cpu, Resource::Memory] {
            let found = self.world.decide(|context| scaling(namespace, &shapes.seen(), resource, context));
            let found = found.map_err(|unknown| {
                self.metrics.hpa_api_scaled(resource.name(), ScaleOutcome::UnknownPods);
                Refusal::unavailable(format!("usage cannot be scaled: {unknown}; try again"))
            })?;
            self.note(namespace, resource, &found);
            changed |= multiply(&mut usage, resource, &found).map_err(Refusal::unavailable)?;
        }
        if !changed {
            return Ok(as_it_is(fetched));
        }
        Ok(Answer::object(usage.object()))
    }

    fn note(&self, namespace: &str, resource: Resource, found: &Scaling) {
        let outcome = match found {
            Scaling::Pods(_) | Scaling::Containers(_) => ScaleOutcome::Scaled,
            // Nobody looks at it, so nothing became of it.
            Scaling::Unscaled(Unscaled::NotUsed) => return,
            Scaling::Unscaled(Unscaled::NotLowered) => ScaleOutcome::NotLowered,
            Scaling::Unscaled(Unscaled::OtherMode) => ScaleOutcome::OtherMode,
            Scaling::Unscaled(Unscaled::AverageValue { .. }) => ScaleOutcome::AverageValue,
            Scaling::Unscaled(Unscaled::Mixed { .. }) => ScaleOutcome::Mixed,
            Scaling::Unscaled(Unscaled::NoBase { .. }) => ScaleOutcome::NoBase,
        };
        self.metrics.hpa_api_scaled(resource.name(), outcome);
        let Scaling::Unscaled(unscaled) = found else { return };
        let objects = self.world.objects.load();
        let told = unscaled.lost().iter().map(|name| (name, true));
        for (name, is_lost) in told.chain(unscaled.kept().iter().map(|name| (name, false))) {
            let Some(hpa) = objects.hpa(namespace, name) else { continue };
            let means = if is_lost { ", so that utilization is of the lowered requests" } else { "" };
            (self.tell)(Unkept {
                namespace: namespace.to_owned(),
                name: name.clone(),
                uid: hpa.uid.clone(),
                is_lost,
                why: format!("usage of {resource} is not scaled{means}: {unscaled}"),
            });
        }
    }
}

/// Multiplies the usage in an answer; whether there was anything to multiply.
fn multiply(usage: &mut PodUsage, resource: Resource, found: &Scaling) -> Result<bool, String> {
    let factor = |container: &str| match found {
        Scaling::Pods(factor) => Some(factor),
        Scaling::Containers(factors) => factors.get(container),
        Scaling::Unscaled(_) => None,
    };
    if matches!(found, Scaling::Unscaled(_)) {
        return Ok(false);
    }
    usage.change(resource, |container, nanos| {
        let Some(factor) = factor(container) else { return Ok(None) };
        let result = scaled(nanos, factor, resource);
        result
            .map(Some)
            .ok_or_else(|| format!("usage of {resource} by container {container} is beyond all quantities"))
    })?;
    Ok(true)
}

fn as_it_is(fetched: Fetched) -> Answer {
    let outcome = if fetched.status.is_success() { ApiOutcome::Ok } else { ApiOutcome::Upstream };
    Answer { status: fetched.status, content_type: fetched.content_type, body: fetched.body, outcome }
}

/// The query that selects pods by their labels.
pub(super) fn by_labels(selector: Option<&str>) -> Option<String> {
    let selector = selector.filter(|selector| !selector.is_empty())?;
    Some(format!("labelSelector={}", percent_encoded(selector)))
}
