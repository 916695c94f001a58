//! What concerns the pod as a whole: `spec.resources`, and `LimitRange`s on sums.

use plimsoll_quantity::Rounding;

use crate::overcommit::bounds::round_up;
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
    let above_limit = limit.as_ref().is_some_and(|limit| received.nanos > limit.nanos);
    let why = if above_limit { Kept::AboveLimit } else { Kept::NoRule(String::new()) };
    let mut found = line(resource, received, limit, false, Rule::Keep(why));
    found.original = match &found.limit {
        Some(limit) if limit.nanos < original.nanos => limit.clone(),
        _ => original,
    };
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
        match lower::rounded(&profile.fixed, resource, wanted, original, Rounding::Up) {
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

/// Raises requests until their sum is what `LimitRange`s of type Pod ask, each up to its original: app
/// containers by index, then sidecars. Where these cannot reach it, an init container made the sum before,
/// and is raised instead; where nothing else helps, all keep their originals.
fn give_back(column: &mut Column<'_>) {
    let resource = column.resource;
    let pod_limit = Amount::read(column.inputs.pod.pod_level.limits, resource.name())
        .and_then(Result::ok)
        .map(|limit| limit.nanos);
    let bound =
        PodBounds::new(column.inputs.limit_ranges).pod(resource, pod_limit.or_else(|| limit_sum(column)));
    let total = sum(&column.cells, |line| line.result.nanos);
    if total.is_none_or(|total| total >= bound) {
        return;
    }
    let running = |value: fn(&Line) -> i128| {
        let cells = column.cells.iter().filter(|cell| cell.part != Part::Init);
        cells.map(|cell| value(&cell.line)).try_fold(0_i128, i128::checked_add)
    };
    let (Some(now), Some(most)) = (running(|line| line.result.nanos), running(|line| line.original.nanos))
    else {
        return;
    };
    let held = || Some(Held::PodLimitRange(Amount::computed(resource, bound).text));
    if most >= bound {
        raise_running(&mut column.cells, bound.saturating_sub(now), held);
    } else if !raise_init(&mut column.cells, bound, held) {
        for cell in column.cells.iter_mut().filter(|cell| !cell.fixed && cell.line.lowered()) {
            cell.line.set(cell.line.original.nanos, held());
        }
    }
}

fn raise_running(cells: &mut [Cell], mut missing: i128, held: impl Fn() -> Option<Held>) {
    for part in [Part::App, Part::Sidecar] {
        for cell in cells.iter_mut().filter(|cell| cell.part == part && !cell.fixed) {
            let (now, most) = (cell.line.result.nanos, cell.line.original.nanos);
            if missing > 0 && now < most {
                let value = round_up(now.saturating_add(missing), cell.line.resource.step()).min(most);
                cell.line.set(value, held());
                missing = missing.saturating_sub(value.saturating_sub(now));
            }
        }
    }
}

/// Raises the first init container that reaches the bound together with the sidecars before it.
fn raise_init(cells: &mut [Cell], bound: i128, held: impl Fn() -> Option<Held>) -> bool {
    let mut sidecars: i128 = 0;
    for cell in cells {
        match cell.part {
            Part::App => {}
            Part::Sidecar => sidecars = sidecars.saturating_add(cell.line.result.nanos),
            Part::Init => {
                let needed = bound.saturating_sub(sidecars);
                if !cell.fixed && cell.line.original.nanos >= needed {
                    let most = cell.line.original.nanos;
                    cell.line.set(round_up(needed, cell.line.resource.step()).min(most), held());
                    return true;
                }
            }
        }
    }
    false
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
