//! What containers use, and what is learnt from it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use plimsoll_core::placement::{
    ByResource, ContainerUse, ContainerUses, DropReason, Dropped, KnownNodes, LoadSnapshot, NodeResource,
    Totals, checked,
};

use super::loader::QueryFailure;
use super::prometheus::nanos;
use super::running::{RunningPods, container, is_on_host_network};
use crate::recommender::sources::prometheus::{Ask, Client, Endpoint, Labels, Query, Series, Subject};
use crate::recommender::sources::{Attempts, MetricsServer, PrometheusError, Sample};

/// Most bytes of an answer: about 250,000 containers without further labels.
const ANSWER_BYTES: usize = 128 << 20;
/// So many intervals the last answer counts where a question fails.
const KEPT_INTERVALS: u32 = 5;
/// How many intervals apart a question is asked at most that always fails.
const LONGEST_PAUSE: u32 = 4;
/// What metrics count failures of metrics-server under.
const PODS: &str = "pods";

/// What Prometheus is asked of containers. A resource without a query has no part in weights.
#[derive(Clone, Debug, Default)]
pub struct UsageQueries {
    /// Cores, by container.
    pub cpu: Option<String>,
    /// Bytes, by container.
    pub memory: Option<String>,
    /// Bits a second, by pod or container.
    pub bandwidth: Option<String>,
    /// Bytes stored, by container or pod.
    pub disk: Option<String>,
    /// The labels that name a container.
    pub labels: Labels,
}

impl UsageQueries {
    fn of(&self, resource: NodeResource) -> Option<&str> {
        match resource {
            NodeResource::Cpu => self.cpu.as_deref(),
            NodeResource::Memory => self.memory.as_deref(),
            NodeResource::Bandwidth => self.bandwidth.as_deref(),
            NodeResource::Disk => self.disk.as_deref(),
        }
    }
}

/// Where usage comes from.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of it in a program")]
enum Source {
    Prometheus { client: Client, queries: UsageQueries },
    MetricsServer(MetricsServer),
}

/// What containers use of one resource, by the uid of the pod and the place of the container.
type Column = HashMap<(Arc<str>, usize), f64>;

/// The last answer about a resource.
#[derive(Debug)]
struct Kept {
    column: Column,
    asked: Option<i64>,
    attempts: Attempts,
}

/// Reads what containers use.
#[derive(Debug)]
pub struct Usage {
    source: Source,
    interval: Duration,
    kept: HashMap<NodeResource, Kept>,
}

/// What became of one look.
#[derive(Clone, Debug, Default)]
pub struct UsageLook {
    /// What containers use, of pods of which CPU and memory are known of all containers that anything is known of; as old
    /// as the oldest answer in it. `None`: nothing was answered this time.
    pub uses: Option<ContainerUses>,
    /// Whether it tells of each resource that is asked for, but for those that have not been answered for long.
    pub is_whole: bool,
    /// Samples that are not used.
    pub dropped: Dropped,
    /// What could not be asked or understood.
    pub failures: Vec<QueryFailure>,
}

/// An answer for each resource that was asked for.
type Answers = Vec<(NodeResource, Result<Column, (String, Option<Duration>)>)>;

impl Usage {
    /// From Prometheus. Nothing is called, and no file read, yet.
    ///
    /// # Errors
    /// The address or a header cannot be used, or credentials contradict each other.
    pub fn prometheus(
        endpoint: &Endpoint,
        queries: UsageQueries,
        interval: Duration,
    ) -> Result<Self, PrometheusError> {
        let source = Source::Prometheus { client: Client::new(endpoint)?, queries };
        Ok(Self { source, interval, kept: HashMap::new() })
    }

    /// From metrics-server: CPU and memory only.
    pub fn metrics_server(source: MetricsServer, interval: Duration) -> Self {
        Self { source: Source::MetricsServer(source), interval, kept: HashMap::new() }
    }

    /// Its name in metrics.
    pub const fn name(&self) -> &'static str {
        match self.source {
            Source::Prometheus { .. } => "prometheus",
            Source::MetricsServer(_) => "metrics-server",
        }
    }

    /// Asks what is due at `now`, in nanoseconds since 1970. Where a question fails, its last answer counts for some
    /// intervals: weights without one resource would be others.
    pub(super) async fn look(
        &mut self,
        now: i64,
        pods: &RunningPods,
        totals: impl Fn(&str) -> Totals,
    ) -> UsageLook {
        let mut look = UsageLook::default();
        let answers = self.ask(now, pods, &mut look.dropped).await;
        let mut answered = false;
        for (resource, answer) in answers {
            answered |= answer.is_ok();
            self.take(resource, answer, now, &mut look);
        }
        if answered {
            look.uses = Some(self.uses(now, pods, totals));
            look.is_whole = self.kept.values().all(|kept| {
                let given_up = kept.attempts.failing_since().is_some_and(|since| since < self.oldest(now));
                self.counts(kept, now) || given_up
            });
        }
        look
    }

    async fn ask(&self, now: i64, pods: &RunningPods, dropped: &mut Dropped) -> Answers {
        let is_due =
            |resource: &NodeResource| self.kept.get(resource).is_none_or(|kept| kept.attempts.is_due(now));
        match &self.source {
            Source::Prometheus { client, queries } => {
                let due = NodeResource::ALL.into_iter().filter(is_due);
                let asked = due.filter_map(|resource| Some((resource, queries.of(resource)?)));
                let answers = join_all(asked.map(|(resource, text)| async move {
                    let mut series = UseSeries::new(resource, pods).with_labels(&queries.labels);
                    let query = Query::new(format!("usage.queries.{}", resource.name()), Subject::Container);
                    let parameters = [("query", text.to_owned())];
                    let ask = Ask {
                        query: &query,
                        endpoint: "query",
                        parameters: &parameters,
                        limit: ANSWER_BYTES,
                        expected: "vector",
                    };
                    let answer = client.ask(ask, &mut series).await;
                    (resource, answer.map(|()| (series.column, series.dropped)))
                }));
                let mut all = Vec::new();
                for (resource, answer) in answers.await {
                    let answer = answer.map(|(column, counted)| {
                        dropped.add(&counted);
                        column
                    });
                    all.push((resource, answer.map_err(|error| (error.to_string(), error.retry_after()))));
                }
                all
            }
            Source::MetricsServer(source) => {
                if !is_due(&NodeResource::Cpu) {
                    return Vec::new();
                }
                let mut cpu = UseSeries::new(NodeResource::Cpu, pods);
                let mut memory = UseSeries::new(NodeResource::Memory, pods);
                let scan = source
                    .scan(&mut |sample: &Sample<'_>| {
                        let Sample { namespace, pod, container, .. } = *sample;
                        for (series, value) in [(&mut cpu, sample.cpu), (&mut memory, sample.memory)] {
                            if value.is_some() {
                                series.put(namespace, pod, Some(container), value);
                            }
                        }
                    })
                    .await;
                let failure = || {
                    let failure = scan.failures.first();
                    failure.map(|failure| (failure.message.clone(), failure.retry_after))
                };
                let answer = |series: UseSeries<'_>| failure().map_or(Ok(series.column), Err);
                dropped.add(&cpu.dropped);
                dropped.add(&memory.dropped);
                vec![(NodeResource::Cpu, answer(cpu)), (NodeResource::Memory, answer(memory))]
            }
        }
    }

    fn take(
        &mut self,
        resource: NodeResource,
        answer: Result<Column, (String, Option<Duration>)>,
        now: i64,
        look: &mut UsageLook,
    ) {
        let query = match self.source {
            Source::Prometheus { .. } => query_name(resource),
            Source::MetricsServer(_) => PODS,
        };
        let interval = self.interval;
        let kept = self.kept.entry(resource).or_insert_with(|| Kept {
            column: Column::new(),
            asked: None,
            attempts: Attempts::new(interval / 2, interval * LONGEST_PAUSE),
        });
        match answer {
            Ok(column) => {
                if kept.attempts.failing_since().is_some() {
                    tracing::info!(query, "the usage of containers is answered again");
                }
                kept.attempts.succeed(now);
                (kept.column, kept.asked) = (column, Some(now));
            }
            Err((message, retry_after)) => {
                if kept.attempts.last_error() != Some(&message) {
                    tracing::warn!(query, error = message, "the usage of containers cannot be read");
                }
                kept.attempts.fail(now, &message, retry_after);
                // One call of metrics-server answers for both.
                if !look.failures.iter().any(|failure| failure.query == query) {
                    look.failures.push(QueryFailure { query, message });
                }
            }
        }
    }

    /// What must be known of a container for anything to be made of it: CPU and memory, where they are asked for. Memory is
    /// there with the first scrape, and a rate of CPU with the second: a workload that just came would seem to use nothing
    /// but memory, and a pod of three cores nothing at all.
    fn needed(&self) -> impl Iterator<Item = NodeResource> {
        let is_asked = |resource: &NodeResource| match &self.source {
            Source::Prometheus { queries, .. } => queries.of(*resource).is_some(),
            Source::MetricsServer(_) => true,
        };
        [NodeResource::Cpu, NodeResource::Memory].into_iter().filter(is_asked)
    }

    /// Whether the last answer counts yet.
    fn counts(&self, kept: &Kept, now: i64) -> bool {
        kept.asked.is_some_and(|asked| asked >= self.oldest(now))
    }

    fn oldest(&self, now: i64) -> i64 {
        now.saturating_sub(nanos(self.interval * KEPT_INTERVALS))
    }

    fn uses(&self, now: i64, pods: &RunningPods, totals: impl Fn(&str) -> Totals) -> ContainerUses {
        let counted: Vec<_> = self.kept.iter().filter(|(_, kept)| self.counts(kept, now)).collect();
        let columns: Vec<_> = counted.iter().map(|(resource, kept)| (**resource, &kept.column)).collect();
        let taken = counted.iter().filter_map(|(_, kept)| kept.asked).min().unwrap_or(now);
        let needed: Vec<_> = self.needed().collect();
        let mut of_nodes: HashMap<&str, Totals> = HashMap::new();
        let mut containers = Vec::new();
        for pod in pods.all() {
            let Some(node) = &pod.node else { continue };
            let totals = *of_nodes.entry(node).or_insert_with(|| totals(node));
            let mut name = None;
            let (before, mut is_whole) = (containers.len(), true);
            for (index, container) in pod.shape.containers.iter().enumerate() {
                let key = (Arc::clone(&pod.uid), index);
                let mut local = ByResource::default();
                for (resource, column) in &columns {
                    let used = column.get(&key).copied();
                    let share = used.zip(totals.get(*resource)).map(|(used, total)| used / total);
                    local.set(*resource, share.filter(|share| share.is_finite()));
                }
                if local == ByResource::default() {
                    continue;
                }
                is_whole &= needed.iter().all(|resource| local.get(*resource).is_some());
                let shown = || Arc::from(format!("{}/{}", pod.namespace(), pod.name));
                containers.push(ContainerUse {
                    workload: pod.shape.workload.clone(),
                    pod: Arc::clone(name.get_or_insert_with(shown)),
                    container: container.name.as_ref().into(),
                    image: container.image.as_ref().into(),
                    node: Arc::clone(node),
                    local,
                });
            }
            // The sum of some of its containers would be as wrong.
            if !is_whole {
                containers.truncate(before);
            }
        }
        ContainerUses { containers, taken }
    }
}

/// What nodes have: what the load says, else what Kubernetes does.
pub(super) fn totals(node: &str, nodes: &KnownNodes, load: &LoadSnapshot) -> Totals {
    load.nodes.get(node).map_or_else(|| nodes.capacity(node).unwrap_or_default(), |load| load.totals)
}

/// What metrics count failures of the query under.
const fn query_name(resource: NodeResource) -> &'static str {
    match resource {
        NodeResource::Cpu => "containerCpu",
        NodeResource::Memory => "containerMemory",
        NodeResource::Bandwidth => "containerBandwidth",
        NodeResource::Disk => "containerDisk",
    }
}

/// Series that are about containers of pods that run.
struct UseSeries<'r> {
    resource: NodeResource,
    pods: &'r RunningPods,
    column: Column,
    dropped: Dropped,
    /// Those of namespace, pod and container.
    labels: [&'r str; 3],
    /// Of the series that is being read.
    point: Option<f64>,
}

impl<'r> UseSeries<'r> {
    fn new(resource: NodeResource, pods: &'r RunningPods) -> Self {
        let labels = ["namespace", "pod", "container"];
        Self { resource, pods, column: Column::new(), dropped: Dropped::default(), labels, point: None }
    }

    fn with_labels(self, labels: &'r Labels) -> Self {
        Self { labels: [&labels.namespace, &labels.pod, &labels.container], ..self }
    }

    /// Takes a value if it can be true. Of several of one container the greatest counts: it was restarted, or two
    /// replicas of Prometheus tell of it.
    fn put(&mut self, namespace: &str, pod: &str, name: Option<&str>, value: Option<f64>) {
        // CPU and memory of a whole pod are told beside those of its containers.
        let of_pod = matches!(self.resource, NodeResource::Bandwidth | NodeResource::Disk);
        let name = name.filter(|name| !name.is_empty());
        let found = self.pods.find(namespace, pod).filter(|_| name.is_some() || of_pod);
        let place = found.and_then(|pod| Some((pod, container(pod, name)?)));
        let Some((pod, index)) = place else { return self.dropped.count(DropReason::UnknownPod) };
        if self.resource == NodeResource::Bandwidth && is_on_host_network(pod) {
            return;
        }
        match checked(value, f64::INFINITY) {
            Err(reason) => self.dropped.count(reason),
            Ok(value) => {
                self.column
                    .entry((Arc::clone(&pod.uid), index))
                    .and_modify(|known| {
                        self.dropped.count(DropReason::Duplicate);
                        *known = known.max(value);
                    })
                    .or_insert(value);
            }
        }
    }
}

impl Series for UseSeries<'_> {
    fn wanted(&self) -> usize {
        3
    }

    fn place(&self, label: &str) -> Option<usize> {
        self.labels.iter().position(|wanted| *wanted == label)
    }

    fn point(&mut self, _: Option<i64>, value: Option<f64>) {
        self.point = value;
    }

    fn finish(&mut self, labels: &[Option<Cow<'_, str>>]) {
        let value = self.point.take();
        match labels {
            [Some(namespace), Some(pod), container] => {
                self.put(namespace, pod, container.as_deref(), value);
            }
            _ => self.dropped.count(DropReason::UnknownPod),
        }
    }
}
