//! All containers, redeployed again and again.

use std::collections::BTreeMap;
use std::ops::Range;

use thiserror::Error;

use crate::resource::Resource;
use crate::simulate::figures::{Figures, Sums};
use crate::simulate::history::{Known, Series};
use crate::simulate::learn::Learner;
use crate::simulate::nodes::{Node, Nodes, Placed};
use crate::simulate::policy::Policy;
use crate::simulate::{Each, Units, to_f64};

/// How a cluster is replayed. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// From one deployment of a container to the next; the first is at the first row of all.
    pub redeploy: i64,
    /// For how long after its first row a container is only learned from.
    pub warm_up: i64,
    /// What a node has.
    pub node: Node,
    /// What a container requests whose request is not known.
    pub assumed: Each<Option<Units>>,
}

/// A history that cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SimulateError {
    /// There is nothing.
    #[error("there are no rows")]
    Empty,
    /// A time or a node that is none.
    #[error("the time between deployments and what a node has must be above 0, and the warm-up not below")]
    Options,
    /// Nothing is requested.
    #[error("no row says what was requested, so there is nothing that could be lowered")]
    Unrequested,
    /// There is nothing after the warm-up.
    #[error("no container has rows after the warm-up")]
    WarmUp,
}

/// How many containers used a resource whose request is not known. They are left out of its figures.
pub type Unrequested = Each<usize>;

/// The containers of a cluster and the times at which they are deployed.
#[derive(Clone, Debug)]
pub struct Cluster {
    containers: Vec<Container>,
    options: Options,
    start: i64,
    unrequested: Unrequested,
}

#[derive(Clone, Debug)]
struct Container {
    series: Series,
    deployments: Vec<Deployment>,
}

/// A container from one deployment to the next.
#[derive(Clone, Debug)]
struct Deployment {
    /// Counted from the first row of all; a container has none in periods without rows.
    period: i64,
    rows: Range<usize>,
    /// What the manifest says.
    originals: Each<Option<Units>>,
    /// False during the warm-up.
    measured: bool,
}

/// What a policy would have led to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// For each resource; `None` where no container requests it.
    pub figures: Each<Option<Figures>>,
    /// The nodes that were needed.
    pub nodes: Nodes,
    /// One period after the other; those without containers are absent.
    pub periods: Vec<Period>,
}

/// The cluster from one deployment to the next. Amounts are in cores and bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Period {
    /// When it begins, in nanoseconds since 1970.
    pub start: i64,
    /// How many containers there are.
    pub containers: usize,
    /// How many nodes they need.
    pub nodes: usize,
    /// What they request.
    pub requested: Each<f64>,
    /// What they use, each on average over what was measured.
    pub used: Each<f64>,
}

impl Cluster {
    /// The cluster whose containers had these histories.
    ///
    /// # Errors
    /// Nothing would be left to compare.
    pub fn new(series: Vec<Series>, options: Options) -> Result<Self, SimulateError> {
        let good =
            options.redeploy > 0 && options.warm_up >= 0 && options.node.cpu > 0 && options.node.memory > 0;
        if !good {
            return Err(SimulateError::Options);
        }
        let first = |series: &Series| series.rows().first().map(|row| row.nanos);
        let start = series.iter().filter_map(first).min().ok_or(SimulateError::Empty)?;
        let mut containers: Vec<_> = series
            .into_iter()
            .map(|series| Container { deployments: deployments(&series, start, &options), series })
            .collect();
        containers.sort_by(|a, b| a.series.name().cmp(b.series.name()));
        let mut deployments = containers.iter().flat_map(|container| &container.deployments);
        if !deployments.clone().any(Deployment::requests) {
            return Err(SimulateError::Unrequested);
        }
        if !deployments.any(|deployment| deployment.measured && deployment.requests()) {
            return Err(SimulateError::WarmUp);
        }
        let unrequested = Each::from_fn(|resource| {
            containers.iter().filter(|container| container.uses_unrequested(resource)).count()
        });
        Ok(Self { containers, options, start, unrequested })
    }

    /// How many containers there are, also those that nothing is compared of.
    pub fn containers(&self) -> usize {
        self.containers.len()
    }

    /// How many of them are left out.
    pub const fn unrequested(&self) -> Unrequested {
        self.unrequested
    }

    /// When the first and the last period begin that have containers, in nanoseconds since 1970.
    pub fn span(&self) -> (i64, i64) {
        let measured = |deployment: &&Deployment| deployment.measured;
        let periods = self.containers.iter().flat_map(|container| &container.deployments).filter(measured);
        let periods = periods.map(|deployment| self.start_of(deployment.period));
        (periods.clone().min().unwrap_or(self.start), periods.max().unwrap_or(self.start))
    }

    /// Lives through the history under a policy. `progress` is called after each container.
    pub fn replay(&self, policy: &Policy, progress: &mut dyn FnMut()) -> Outcome {
        let mut sums: Each<Sums> = Each::default();
        let mut placed: BTreeMap<i64, Vec<(Placed<'_>, Each<Mean>)>> = BTreeMap::new();
        for container in &self.containers {
            self.live(container, policy, |deployment, requests, means, deployment_sums| {
                sums.cpu += deployment_sums.cpu;
                sums.memory += deployment_sums.memory;
                let (series, rows) = (&container.series, deployment.rows.clone());
                placed.entry(deployment.period).or_default().push((Placed { series, rows, requests }, means));
            });
            progress();
        }
        let mut nodes = Nodes::default();
        let mut periods = Vec::with_capacity(placed.len());
        for (period, items) in placed {
            let (placed, means): (Vec<_>, Vec<_>) = items.into_iter().unzip();
            let (start, end) = (self.start_of(period), self.start_of(period.saturating_add(1)));
            let sum = |of: &dyn Fn(usize) -> f64| (0..placed.len()).map(of).sum::<f64>();
            periods.push(Period {
                start,
                containers: placed.len(),
                nodes: nodes.take(self.options.node, &placed, start, end),
                requested: Each::from_fn(|resource| {
                    sum(&|at| {
                        let placed: Option<&Placed<'_>> = placed.get(at);
                        let request =
                            placed.and_then(|placed| placed.requests.get(resource).copied().flatten());
                        whole(resource, request.unwrap_or(0).into())
                    })
                }),
                used: Each::from_fn(|resource| {
                    sum(&|at| {
                        let mean = means.get(at).and_then(|means: &Each<Mean>| means.get(resource));
                        mean.map_or(0.0, |mean| mean.of(resource))
                    })
                }),
            });
        }
        let counts: Vec<_> = periods.iter().map(|period| period.nodes as i128).collect();
        nodes.mean = to_f64(counts.iter().sum()) / to_f64((counts.len() as i128).max(1));
        let figures =
            Each { cpu: sums.cpu.figures(Resource::Cpu), memory: sums.memory.figures(Resource::Memory) };
        Outcome { figures, nodes, periods }
    }

    /// What a container requests at each of its deployments, also during the warm-up, in the order of time: when (in
    /// nanoseconds since 1970), and how much.
    pub fn requests(&self, policy: &Policy, name: &str) -> Vec<(i64, Each<Option<Units>>)> {
        let mut found = Vec::new();
        for container in self.containers.iter().filter(|container| container.series.name() == name) {
            self.deploy(container, policy, |deployment, requests| {
                found.push((self.start_of(deployment.period), requests));
            });
        }
        found
    }

    fn start_of(&self, period: i64) -> i64 {
        self.start.saturating_add(period.saturating_mul(self.options.redeploy))
    }

    fn deploy<'c>(
        &self,
        container: &'c Container,
        policy: &Policy,
        mut each: impl FnMut(&'c Deployment, Each<Option<Units>>),
    ) {
        let mut learner = Learner::new(policy);
        let rows = container.series.rows();
        for deployment in &container.deployments {
            let past = rows.get(..deployment.rows.start).unwrap_or_default();
            let coming = rows.get(deployment.rows.clone()).unwrap_or_default();
            let at = self.start_of(deployment.period);
            each(deployment, learner.requests(past, coming, at, deployment.originals));
        }
    }

    fn live<'c>(
        &self,
        container: &'c Container,
        policy: &Policy,
        mut each: impl FnMut(&'c Deployment, Each<Option<Units>>, Each<Mean>, Each<Sums>),
    ) {
        self.deploy(container, policy, |deployment, requests| {
            if !(deployment.measured && deployment.requests()) {
                return;
            }
            let end = self.start_of(deployment.period.saturating_add(1));
            let (mut sums, mut means): (Each<Sums>, Each<Mean>) = Default::default();
            for (resource, sums, mean) in [
                (Resource::Cpu, &mut sums.cpu, &mut means.cpu),
                (Resource::Memory, &mut sums.memory, &mut means.memory),
            ] {
                let of = |each: &Each<Option<Units>>| each.get(resource).copied().flatten();
                let (Some(request), Some(original)) = (of(&requests), of(&deployment.originals)) else {
                    continue;
                };
                for index in deployment.rows.clone() {
                    let Some(row) = container.series.rows().get(index) else { continue };
                    let Some(used) = row.used(resource) else { continue };
                    let nanos = container.series.duration(index).min(end.saturating_sub(row.nanos));
                    sums.measure(request, original, used, nanos);
                    mean.used += i128::from(used) * i128::from(nanos);
                    mean.nanos += i128::from(nanos);
                }
                sums.end_deployment();
            }
            each(deployment, requests, means, sums);
        });
    }
}

/// What a container used on average.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    used: i128,
    nanos: i128,
}

impl Mean {
    fn of(&self, resource: Resource) -> f64 {
        whole(resource, self.used) / to_f64(self.nanos.max(1))
    }
}

/// Units in cores or bytes.
fn whole(resource: Resource, units: i128) -> f64 {
    if resource == Resource::Cpu { to_f64(units) / 1e9 } else { to_f64(units) }
}

impl Container {
    fn uses_unrequested(&self, resource: Resource) -> bool {
        let requested =
            |deployment: &Deployment| deployment.originals.get(resource).is_some_and(Option::is_some);
        !self.deployments.iter().any(requested)
            && self.series.rows().iter().any(|row| row.used(resource).is_some())
    }
}

impl Deployment {
    const fn requests(&self) -> bool {
        self.originals.cpu.is_some() || self.originals.memory.is_some()
    }
}

/// The times at which a container is deployed: those that are followed by a row before the next. Its manifest is known then,
/// so the original is what its first row says, or else the last row before that says something.
fn deployments(series: &Series, start: i64, options: &Options) -> Vec<Deployment> {
    let rows = series.rows();
    let Some(first) = rows.first() else { return Vec::new() };
    let measured_from = first.nanos.saturating_add(options.warm_up);
    let period_of = |nanos: i64| nanos.saturating_sub(start).div_euclid(options.redeploy);
    let mut known = Known::default();
    let mut found: Vec<Deployment> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        known.follow(row);
        let period = period_of(row.nanos);
        match found.last_mut() {
            Some(last) if last.period == period => last.rows.end = index + 1,
            _ => {
                let requests = known.requests();
                found.push(Deployment {
                    period,
                    rows: index..index + 1,
                    originals: Each {
                        cpu: requests.cpu.or(options.assumed.cpu),
                        memory: requests.memory.or(options.assumed.memory),
                    },
                    measured: row.nanos >= measured_from,
                });
            }
        }
    }
    found
}
