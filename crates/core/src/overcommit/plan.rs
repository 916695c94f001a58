//! The whole pod: every container and resource, then the pod-level request and bounds on sums.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use plimsoll_quantity::Rounding;

use crate::keys;
use crate::objects::LimitRange;
use crate::overcommit::reason::Kept;
use crate::overcommit::{Amount, Held, Lookup, PodBounds, Record, Rule, final_resources, lower, pod_level};
use crate::pod::{Container, Part, Place, PodView};
use crate::profile::{Mode, OptOut, Profile};
use crate::resource::Resource;

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The pod as received.
    pub pod: &'a PodView<'a>,
    /// The profile that it falls under.
    pub profile: &'a Profile,
    /// The `LimitRange`s of its namespace.
    pub limit_ranges: &'a [Arc<LimitRange>],
    /// Where its recommendations are.
    pub lookup: Lookup<'a>,
}

/// Whose request a line is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// `spec.containers[index]`.
    Container {
        /// Position in the list.
        index: usize,
        /// The container's name.
        name: String,
    },
    /// `spec.initContainers[index]`.
    InitContainer {
        /// Position in the list.
        index: usize,
        /// The container's name.
        name: String,
        /// Whether it keeps running beside the app containers.
        sidecar: bool,
    },
    /// `spec.resources`.
    Pod,
}

/// What happens to one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Whose request.
    pub target: Target,
    /// Of which resource.
    pub resource: Resource,
    /// The request as received; the limit where only a limit is given, as the API server defaults it.
    pub received: Amount,
    /// Whether the request itself is written in the pod.
    pub explicit: bool,
    /// The request that the pod's author wrote.
    pub original: Amount,
    /// The limit, which never changes.
    pub limit: Option<Amount>,
    /// The request that is right.
    pub result: Amount,
    /// The rule that gave it.
    pub rule: Rule,
    /// The bound that changed it, if one did.
    pub held: Option<Held>,
}

/// The lines of a pod, in the order of the patch: containers, init containers, the pod; resources by
/// name within each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// One for each request that the profile's resources cover.
    pub lines: Vec<Line>,
}

impl Plan {
    /// The lines of one target.
    pub fn of(&self, target: &Target) -> &[Line] {
        let from = self.lines.partition_point(|line| &line.target < target);
        let rest = self.lines.get(from..).unwrap_or_default();
        rest.get(..rest.partition_point(|line| &line.target == target)).unwrap_or_default()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container { name, .. } | Self::InitContainer { name, .. } => f.write_str(name),
            Self::Pod => f.write_str("pod"),
        }
    }
}

impl Line {
    /// Whether the result is below the original.
    pub fn lowered(&self) -> bool {
        self.result.nanos < self.original.nanos
    }

    /// Whether the pod must be patched.
    pub fn changes(&self) -> bool {
        if self.target == Target::Pod && !self.explicit {
            // The API server sets it, unless it is to be lower.
            self.lowered()
        } else {
            self.result.nanos != self.received.nanos
        }
    }

    /// Why the result is what it is, in words.
    pub fn why(&self) -> String {
        match &self.held {
            Some(held) => format!("{}; {held}", self.rule),
            None => self.rule.to_string(),
        }
    }
}

/// What the requests of a pod become.
pub fn plan(inputs: &Inputs<'_>) -> Plan {
    let annotation = |key| inputs.pod.annotation(key);
    // Where nobody may opt out, no annotation of the pod may keep a request from being lowered.
    let strict = inputs.profile.opt_out == OptOut::None;
    let vpa = if strict { BTreeSet::new() } else { final_resources(annotation(keys::VPA_UPDATES)) };
    let record = Record::read(annotation(keys::ORIGINAL_RESOURCES));
    let facts = Facts { record, strict, vpa, duplicates: duplicate_names(inputs.pod) };
    let mut lines = Vec::new();
    for resource in resources(inputs.profile) {
        let mut column = column(inputs, &facts, resource);
        pod_level::settle(&mut column);
        lines.extend(column.cells.into_iter().map(|cell| cell.line));
        lines.extend(column.pod);
    }
    lines.sort_by(|a, b| (&a.target, a.resource).cmp(&(&b.target, b.resource)));
    Plan { lines }
}

/// What a pod says of itself beside its requests.
struct Facts<'a> {
    record: Record,
    /// A record is believed only if the profile would have given no more than what is there.
    strict: bool,
    /// Resources of app containers that VPA set.
    vpa: BTreeSet<Resource>,
    /// Names that more than one container has.
    duplicates: BTreeSet<&'a str>,
}

fn duplicate_names<'a>(pod: &PodView<'a>) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    pod.containers.iter().map(|container| container.name).filter(|name| !seen.insert(*name)).collect()
}

/// A container's request of one resource, on its way to a line.
pub(super) struct Cell {
    pub(super) part: Part,
    pub(super) line: Line,
    /// Left as it was, whatever the profile says.
    pub(super) fixed: bool,
}

/// One resource of a pod.
pub(super) struct Column<'a> {
    pub(super) inputs: &'a Inputs<'a>,
    pub(super) resource: Resource,
    pub(super) cells: Vec<Cell>,
    /// The pod-level request, where there is one for this resource.
    pub(super) pod: Option<Line>,
}

/// The resources that a profile may change.
pub(crate) fn resources(profile: &Profile) -> BTreeSet<Resource> {
    let fixed = profile.fixed.factors.keys().copied();
    let dynamic = profile.dynamic.resources.iter().copied();
    match profile.mode {
        Mode::Off => BTreeSet::new(),
        Mode::Static => fixed.collect(),
        Mode::Dynamic => dynamic.collect(),
        Mode::StaticThenDynamic => fixed.chain(dynamic).collect(),
    }
}

fn column<'a>(inputs: &'a Inputs<'a>, facts: &Facts<'_>, resource: Resource) -> Column<'a> {
    let mut column = Column { inputs, resource, cells: Vec::new(), pod: None };
    for container in &inputs.pod.containers {
        column.cells.extend(received(inputs, facts, container, resource));
    }
    column.pod = pod_level::received(&column, &facts.record, facts.strict);
    let direction = if column.pod.is_some() { Rounding::Down } else { Rounding::Up };
    for cell in column.cells.iter_mut().filter(|cell| !cell.fixed) {
        lower_cell(inputs, cell, direction);
    }
    column
}

/// A container's request as received, with its original.
fn received(
    inputs: &Inputs<'_>,
    facts: &Facts<'_>,
    container: &Container<'_>,
    resource: Resource,
) -> Option<Cell> {
    let target = Target::of(container);
    let part = container.part();
    let request = Amount::read(container.resources.requests, resource.name());
    let limit = Amount::read(container.resources.limits, resource.name());
    let explicit = request.is_some();
    let (request, limit, unreadable) = match (request, limit) {
        (Some(Err(text)), _) | (_, Some(Err(text))) => (None, None, Some(text)),
        (request, limit) => (request.and_then(Result::ok), limit.and_then(Result::ok), None),
    };
    if let Some(text) = unreadable {
        let amount = Amount { nanos: 0, text: text.clone() };
        return Some(kept(target, part, resource, amount, None, explicit, Kept::Unreadable(text)));
    }
    let request = request.or_else(|| limit.clone()).filter(|request| request.nanos > 0)?;
    let above_limit = limit.as_ref().is_some_and(|limit| request.nanos > limit.nanos);
    let original = facts.record.original(&target, resource, &request, limit.as_ref());
    let why_kept = if container.name.is_empty() || facts.duplicates.contains(container.name) {
        Some(Kept::Unnamed)
    } else if part == Part::App && facts.vpa.contains(&resource) {
        Some(Kept::Vpa)
    } else if above_limit && original.is_none() {
        Some(Kept::AboveLimit)
    } else {
        None
    };
    if let Some(why) = why_kept {
        return Some(kept(target, part, resource, request, limit, explicit, why));
    }
    let received = request.nanos;
    let mut cell = kept(target, part, resource, request, limit, explicit, Kept::NoRule(String::new()));
    cell.fixed = false;
    if let Some(original) = original {
        let as_written = cell.line.original.clone();
        cell.line.start_from(original);
        if facts.strict {
            let mut alone = Cell { part, line: cell.line.clone(), fixed: false };
            lower_cell(inputs, &mut alone, Rounding::Down);
            if alone.line.result.nanos > received {
                cell.line.start_from(as_written);
            }
        }
    }
    Some(cell)
}

/// What a container of a pod that exists asks for of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requested {
    /// The request in force.
    pub request: Amount,
    /// The request that the pod's author wrote, as the pod's record is believed.
    pub original: Amount,
    /// The limit, if there is one.
    pub limit: Option<Amount>,
}

impl Requested {
    /// `None` without a request that can be read, or one of 0.
    pub fn read(container: &Container<'_>, record: &Record, resource: Resource) -> Option<Self> {
        let read = |list| Amount::read(list, resource.name()).and_then(Result::ok);
        let limit = read(container.resources.limits);
        let request = read(container.resources.requests).or_else(|| limit.clone());
        let request = request.filter(|request| request.nanos > 0)?;
        let original = record.original(&Target::of(container), resource, &request, limit.as_ref());
        Some(Self { original: original.unwrap_or_else(|| request.clone()), request, limit })
    }
}

fn kept(
    target: Target,
    part: Part,
    resource: Resource,
    request: Amount,
    limit: Option<Amount>,
    explicit: bool,
    why: Kept,
) -> Cell {
    let line = Line {
        target,
        resource,
        original: request.clone(),
        result: request.clone(),
        received: request,
        explicit,
        limit,
        rule: Rule::Keep(why),
        held: None,
    };
    Cell { part, line, fixed: true }
}

fn lower_cell(inputs: &Inputs<'_>, cell: &mut Cell, direction: Rounding) {
    let line = &mut cell.line;
    let (resource, original) = (line.resource, line.original.nanos);
    let name = line.target.to_string();
    let ruled = lower::rule(inputs.profile, &inputs.lookup, &name, resource, original);
    line.rule = ruled.rule;
    let Some(wanted) = ruled.wanted else {
        if matches!(line.rule, Rule::Dynamic { .. }) {
            line.held = Some(Held::Original);
        }
        return;
    };
    match lower::rounded(&inputs.profile.fixed, resource, wanted, original, direction) {
        Ok((value, held)) => line.set(value, held),
        Err(why) => {
            line.rule = Rule::Keep(why);
            return;
        }
    }
    let limit = line.limit.as_ref().map(|limit| limit.nanos);
    let bounds = PodBounds::new(inputs.limit_ranges);
    if let Some((value, held)) =
        lower::within_container_bounds(&bounds, resource, line.result.nanos, original, limit)
    {
        line.set(value, Some(held));
    }
}

impl Line {
    /// Takes another original; the result is that until a rule changes it.
    pub(super) fn start_from(&mut self, original: Amount) {
        self.result = original.clone();
        self.original = original;
    }

    /// Sets the result, keeping the original's text where the value is the same.
    pub(super) fn set(&mut self, nanos: i128, held: Option<Held>) {
        self.result = if nanos == self.original.nanos {
            self.original.clone()
        } else if nanos == self.received.nanos && self.explicit {
            self.received.clone()
        } else {
            Amount::computed(self.resource, nanos)
        };
        self.held = held;
    }
}

impl Target {
    /// The container as the target of a line.
    pub fn of(container: &Container<'_>) -> Self {
        let name = container.name.to_owned();
        match container.place {
            Place::App(index) => Self::Container { index, name },
            Place::Init(index) => Self::InitContainer { index, name, sidecar: container.sidecar },
        }
    }

    /// Whether the container is the target's.
    pub(super) fn is(&self, container: &Container<'_>) -> bool {
        match (self, container.place) {
            (Self::Container { index, .. }, Place::App(at))
            | (Self::InitContainer { index, .. }, Place::Init(at)) => *index == at,
            _ => false,
        }
    }

    /// How its request enters the pod's sum; `None` for the pod itself.
    pub const fn part(&self) -> Option<Part> {
        match self {
            Self::Container { .. } => Some(Part::App),
            Self::InitContainer { sidecar: false, .. } => Some(Part::Init),
            Self::InitContainer { sidecar: true, .. } => Some(Part::Sidecar),
            Self::Pod => None,
        }
    }
}
