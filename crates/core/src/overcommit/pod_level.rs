//! What concerns the pod as a whole: `spec.resources`, and `LimitRange`s on sums.

use plimsoll_quantity::Rounding;

use crate::overcommit::bounds::round_up;
use crate::overcommit::plan::{Cell, Column};
use crate::overcommit::reason::{Held, Kept, Rule};
use crate::overcommit::{Amount, Line, PodBounds, Record, Target, lower};
use crate::pod::{Members, Part, aggregate, requests_any};
use crate::profile::Mode;
use crate::resource::Resource;

/// The pod-level request of a resource as received, with its original. A missing one, where any
/// pod-level limit is set, counts as the sum of the containers' requests, else as that resource's
/// pod-level limit: so the API server will set it, some versions before us and some after us.
pub(super) fn received(column: &Column<'_>, record: &Record, strict: bool) -> Option<Line> {
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
    let explicit = request.is_some();
    let request = match request {
        Some(request) => Some(request).filter(|request| request.nanos > 0),
        None if pod.limits.is_none_or(Members::is_empty) => None,
        None => defaulted(column, limit.as_ref(), |line| line.received.nanos),
    }?;
    let recorded = Some(&request)
        .filter(|_| explicit)
        .and_then(|request| record.original(&Target::Pod, resource, request, limit.as_ref()))
        .filter(|original| !strict || own_value(column, original.nanos) <= request.nanos);
    let above_limit = limit.as_ref().is_some_and(|limit| request.nanos > limit.nanos);
    // What somebody wrote below the sum of the containers stays as it is, for the API server to refuse.
    let below_sum =
        explicit && sum(&column.cells, |line| line.original.nanos).is_none_or(|sum| sum > request.nanos);
    let why = match recorded {
        None if above_limit => Kept::AboveLimit,
        None if below_sum => Kept::PodLevel,
        _ => Kept::NoRule(String::new()),
    };
    let mut found = line(resource, request, limit, explicit, Rule::Keep(why));
    let original = match recorded {
        // A webhook that added a container after us could not know that the figure here is ours.
        Some(recorded) => match sum(&column.cells, |line| line.original.nanos) {
            Some(sum) if sum > recorded.nanos => Amount::computed(resource, sum),
            _ => recorded,
        },
        None if explicit => found.received.clone(),
        None => defaulted(column, found.limit.as_ref(), |line| line.original.nanos)?,
    };
    found.original = match &found.limit {
        Some(limit) if limit.nanos < original.nanos => limit.clone(),
        _ => original,
    };
    Some(found)
}

/// The least that the profile can have made of a pod-level request: by factor, or by the recommendations of
/// the containers that have one, since others may have been added later.
fn own_value(column: &Column<'_>, original: i128) -> i128 {
    let (profile, resource) = (column.inputs.profile, column.resource);
    let by_recommendations = asked(column).map(|all| all.into_iter().flatten().fold(0, i128::saturating_add));
    let candidates = [
        by_recommendations.ok().map(|sum| lower::from_sum(resource, String::new(), None, sum, original)),
        Some(lower::by_factor(profile, resource, original, None)),
    ];
    let values = candidates.into_iter().flatten().filter_map(|ruled| ruled.wanted).filter_map(|wanted| {
        lower::rounded(&profile.fixed, resource, wanted, original, Rounding::Down).ok().map(|(value, _)| value)
    });
    values.min().unwrap_or(original)
}

/// The rule for the pod-level request: by recommendations if every container has one, else by factor.
fn rule(column: &Column<'_>, original: i128) -> lower::Ruled {
    match recommended(column) {
        Ok(expanded) => {
            lower::from_sum(column.resource, "its containers".to_owned(), None, expanded, original)
        }
        Err(missing) => lower::by_factor(column.inputs.profile, column.resource, original, missing),
    }
}

/// What the API server sets as the pod-level request where there is none: the sum of the containers'
/// requests if any container has one, else the limit. A sum of 0 is no request.
fn defaulted(column: &Column<'_>, limit: Option<&Amount>, value: impl Fn(&Line) -> i128) -> Option<Amount> {
    if !is_named(column) {
        return limit.cloned().filter(|limit| limit.nanos > 0);
    }
    let sum = sum(&column.cells, value)?;
    Some(Amount::computed(column.resource, sum)).filter(|amount| amount.nanos > 0)
}

/// Whether any container has a request of the resource, be it 0, or a limit, which sets one.
fn is_named(column: &Column<'_>) -> bool {
    requests_any(column.inputs.pod, column.resource.name())
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
    }
}

/// Sets the pod-level request from the containers' results, or gives back to containers what a
/// `LimitRange` of type Pod asks of their sum.
pub(super) fn settle(column: &mut Column<'_>) {
    let Some(mut pod) = column.pod.take() else {
        give_back(column);
        return;
    };
    if matches!(pod.rule, Rule::Keep(Kept::Unreadable(_) | Kept::AboveLimit | Kept::PodLevel)) {
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
    let ruled = rule(column, original);
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
    if !pod.lowered() {
        // Lower containers would gain nothing: the pod-level figure is what counts. And where it is missing, the
        // API server will form it from the containers as they are then, also after another webhook added one.
        for cell in column.cells.iter_mut().filter(|cell| !cell.fixed && cell.line.lowered()) {
            cell.line.set(cell.line.original.nanos, Some(Held::WithPod));
        }
    }
}

/// The sum of what the recommendations ask for all app containers and sidecars. `Err` unless every one of
/// them has a usable recommendation.
fn recommended(column: &Column<'_>) -> Result<i128, Option<&'static str>> {
    let mut total: i128 = 0;
    for part in asked(column)? {
        total = total.checked_add(part.map_err(Some)?).ok_or(Some("the sum is too large"))?;
    }
    Ok(total)
}

/// What the recommendation of each app container and sidecar asks, at most the original of one that has a
/// request; or why it has none. `Err` where recommendations are not used at all.
fn asked(column: &Column<'_>) -> Result<Vec<Result<i128, &'static str>>, Option<&'static str>> {
    let (resource, profile) = (column.resource, column.inputs.profile);
    if !matches!(profile.mode, Mode::Dynamic | Mode::StaticThenDynamic)
        || !profile.dynamic.resources.contains(&resource)
        || column.inputs.pod.containers.iter().all(|container| container.part() == Part::Init)
    {
        return Err(None);
    }
    // The cells are in the order of the containers; one without a request has none.
    let mut cells = column.cells.iter().peekable();
    let mut all = Vec::new();
    for container in &column.inputs.pod.containers {
        let cell = cells.next_if(|cell| cell.line.target.is(container));
        if container.part() != Part::Init {
            let found = column.inputs.lookup.find(profile, container.name, resource);
            all.push(found.map(|found| match cell {
                Some(cell) => found.expanded.min(cell.line.original.nanos),
                None => found.expanded,
            }));
        }
    }
    Ok(all)
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
    pod.original = pod.received.clone();
    for line in column.cells.iter_mut().map(|cell| &mut cell.line).chain([pod]) {
        line.result = line.received.clone();
        line.held = None;
        if !matches!(line.rule, Rule::Keep(_)) || matches!(line.rule, Rule::Keep(Kept::NoRule(_))) {
            line.rule = Rule::Keep(why.clone());
        }
    }
}
