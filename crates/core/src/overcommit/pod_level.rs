//! What concerns the pod as a whole: `spec.resources`, and `LimitRange`s on sums.

use plimsoll_quantity::Rounding;

use crate::overcommit::plan::{Cell, Column};
use crate::overcommit::reason::{Held, Kept, Rule};
use crate::overcommit::{Amount, Line, PodBounds, Target, lower};
use crate::pod::{Part, aggregate};
use crate::profile::Mode;
use crate::resource::Resource;

/// The pod-level request of a resource as received, with its original. A missing one, where any
/// pod-level limit is set, counts as the sum of the containers' requests, else as that resource's
/// pod-level limit: so the API server will set it, some versions before us and some after us.
pub(super) fn received(
    column: &Column<'_>,
    believed: impl Fn(&Target, &Amount, Option<&Amount>) -> Option<Amount>,
) -> Option<Line> {
    let resource = column.resource;
    if !resource.pod_level() {
        return None;
    }
    let pod = &column.inputs.pod.pod_level;
    let limit = Amount::read(pod.limits, resource.name());
    let request = Amount::read(pod.requests, resource.name());
    if let Some(Err(text)) = request.as_ref().or(limit.as_ref()).filter(|amount| amount.is_err()) {
        let amount = Amount { nanos: 0, text: text.clone() };
        return Some(line(resource, amount, None, true, Rule::Keep(Kept::Unreadable(text.clone()))));
    }
    let (request, limit) = (request.and_then(Result::ok), limit.and_then(Result::ok));
    if let Some(request) = request {
        if request.nanos <= 0 {
            return None;
        }
        let mut found =
            line(resource, request.clone(), limit.clone(), true, Rule::Keep(Kept::NoRule(String::new())));
        match believed(&Target::Pod, &request, limit.as_ref()) {
            Some(original) => found.original = original,
            None if limit.as_ref().is_some_and(|limit| request.nanos > limit.nanos) => {
                found.rule = Rule::Keep(Kept::AboveLimit);
            }
            None => {}
        }
        return Some(found);
    }
    if pod.limits.is_none_or(serde_json::Map::is_empty) {
        return None;
    }
    let received = defaulted(column, limit.as_ref(), |line| line.received.nanos)?;
    let original = defaulted(column, limit.as_ref(), |line| line.original.nanos)?;
    let mut found = line(resource, received, limit, false, Rule::Keep(Kept::NoRule(String::new())));
    found.original = original;
    Some(found)
}

/// What the API server sets as the pod-level request where there is none.
fn defaulted(column: &Column<'_>, limit: Option<&Amount>, value: impl Fn(&Line) -> i128) -> Option<Amount> {
    if column.cells.is_empty() {
        return limit.cloned().filter(|limit| limit.nanos > 0);
    }
    let sum = sum(&column.cells, value)?;
    Some(Amount::computed(column.resource, sum)).filter(|amount| amount.nanos > 0)
}

fn sum(cells: &[Cell], value: impl Fn(&Line) -> i128) -> Option<i128> {
    // App containers stand before init containers in the cells; the walk needs only the order among the
    // latter.
    aggregate(cells.iter().map(|cell| (cell.part, value(&cell.line))))
}

fn line(resource: Resource, amount: Amount, limit: Option<Amount>, explicit: bool, rule: Rule) -> Line {
    Line {
        target: Target::Pod,
        resource,
        original: amount.clone(),
        result: amount.clone(),
        received: amount,
        explicit,
        limit,
        rule,
        held: None,
        write: false,
    }
}

/// Sets the pod-level request from the containers' results, or gives back to containers what a
/// `LimitRange` of type Pod asks of their sum.
pub(super) fn settle(column: &mut Column<'_>) {
    let Some(mut pod) = column.pod.take() else {
        give_back(column);
        return;
    };
    if matches!(pod.rule, Rule::Keep(Kept::Unreadable(_) | Kept::AboveLimit)) {
        keep_all(column, &mut pod);
    } else {
        lower_pod(column, &mut pod);
    }
    column.pod = Some(pod);
}

fn lower_pod(column: &mut Column<'_>, pod: &mut Line) {
    let resource = column.resource;
    let profile = column.inputs.profile;
    let original = pod.original.nanos;
    let Some(containers) = sum(&column.cells, |line| line.result.nanos).filter(|sum| *sum <= original) else {
        // Written like this the pod would be refused; as received it may be fine.
        keep_all(column, pod);
        return;
    };
    let ruled = match recommended(column) {
        Ok(expanded) => lower::from_sum(resource, "its containers".to_owned(), None, expanded, original),
        Err(missing) => lower::by_factor(profile, resource, original, missing),
    };
    pod.rule = ruled.rule;
    let (mut value, mut held) = (original, None);
    if let Some(wanted) = ruled.wanted {
        match lower::rounded(profile, resource, wanted, original, Rounding::Up) {
            Ok(found) => (value, held) = found,
            Err(why) => pod.rule = Rule::Keep(why),
        }
    }
    if value < containers {
        value = containers;
        held = Some(Held::ContainerSum(Amount::computed(resource, containers).text));
    }
    let limit = pod.limit.as_ref().map(|limit| limit.nanos);
    let bound = PodBounds::new(column.inputs.limit_ranges).pod(resource, limit.or_else(|| limit_sum(column)));
    if let Some((raised, why)) = lower::within(bound, resource, value, original, limit) {
        (value, held) = (raised, Some(why));
    }
    pod.set(value, held);
    // Where the request is missing, the API server may set it after us, from the containers as we leave
    // them. What is right must be written unless that gives the same.
    if !pod.explicit {
        let later = if column.cells.is_empty() { limit.unwrap_or(0) } else { containers };
        pod.write = pod.lowered() || value != later;
    }
}

/// The sum of what the recommendations ask for all app containers and sidecars: at most the original of
/// each that has a request. `Err` unless every one of them has a usable recommendation.
fn recommended(column: &Column<'_>) -> Result<i128, Option<&'static str>> {
    let (resource, profile) = (column.resource, column.inputs.profile);
    if !matches!(profile.mode, Mode::Dynamic | Mode::StaticThenDynamic)
        || !profile.dynamic.resources.contains(&resource)
    {
        return Err(None);
    }
    let mut total: i128 = 0;
    for container in &column.inputs.pod.containers {
        if container.part() == Part::Init {
            continue;
        }
        let target = Target::of(container);
        let found = column.inputs.lookup.find(profile, container.name, resource).map_err(Some)?;
        let original = column.cells.iter().find(|c| c.line.target == target).map(|c| c.line.original.nanos);
        let part = original.map_or(found.expanded, |original| found.expanded.min(original));
        total = total.checked_add(part).ok_or(Some("the sum is too large"))?;
    }
    Ok(total)
}

/// The pod's limit as the API server sums it, where any container has one.
fn limit_sum(column: &Column<'_>) -> Option<i128> {
    let limits = column.inputs.pod.containers.iter().map(|container| {
        let limit = Amount::read(container.resources.limits, column.resource.name());
        (container.part(), limit.and_then(Result::ok).map_or(0, |limit| limit.nanos))
    });
    aggregate(limits).filter(|sum| *sum > 0)
}

/// Raises containers, in the order of the pod and sidecars last, until their sum is what `LimitRange`s of
/// type Pod ask, each up to its original.
fn give_back(column: &mut Column<'_>) {
    let resource = column.resource;
    let pod_limit = Amount::read(column.inputs.pod.pod_level.limits, resource.name())
        .and_then(Result::ok)
        .map(|limit| limit.nanos);
    let bound =
        PodBounds::new(column.inputs.limit_ranges).pod(resource, pod_limit.or_else(|| limit_sum(column)));
    let Some(total) = sum(&column.cells, |line| line.result.nanos) else { return };
    if total >= bound {
        return;
    }
    let running = column.cells.iter().filter(|cell| cell.part != Part::Init);
    let Some(running) = running.map(|cell| cell.line.result.nanos).try_fold(0_i128, i128::checked_add) else {
        return;
    };
    let mut missing = bound.saturating_sub(running);
    for part in [Part::App, Part::Sidecar] {
        for cell in column.cells.iter_mut().filter(|cell| cell.part == part && !cell.fixed) {
            let room = cell.line.original.nanos.saturating_sub(cell.line.result.nanos).max(0);
            let given = room.min(missing);
            if given > 0 {
                let value = cell.line.result.nanos.saturating_add(given);
                let text = Amount::computed(resource, bound).text;
                cell.line.set(value, Some(Held::PodLimitRange(text)));
                missing -= given;
            }
        }
    }
}

/// Leaves every request of this resource as it was received.
fn keep_all(column: &mut Column<'_>, pod: &mut Line) {
    let why = match &pod.rule {
        Rule::Keep(why @ (Kept::Unreadable(_) | Kept::AboveLimit)) => why.clone(),
        _ => Kept::PodLevel,
    };
    for line in column.cells.iter_mut().map(|cell| &mut cell.line).chain([pod]) {
        line.result = line.received.clone();
        line.held = None;
        if !matches!(line.rule, Rule::Keep(_)) || matches!(line.rule, Rule::Keep(Kept::NoRule(_))) {
            line.rule = Rule::Keep(why.clone());
        }
    }
}
