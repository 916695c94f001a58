//! `/mutate`: which pods are changed, and the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::admission::envelope::Review;
use crate::admission::flavors::{self, FlavorStep};
use crate::admission::load_aware;
use crate::admission::patch::{self, Annotations};
use crate::admission::response::{Answer, Outcome};
use crate::admission::self_check;
use crate::admission::skip::Skip;
use crate::keys::{self, OPT_OUT_VALUES};
use crate::objects::{Namespace, Objects};
use crate::overcommit::{Inputs, Lookup, Plan, plan, write_record};
use crate::pod::{Json, PodView, Presence, Pruned, Workload, is_guaranteed, topmost_owner};
use crate::profile::{Candidate, GuaranteedPods, HpaMode, Mode, OptOut, Profile};

/// What of the configuration decisions depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Pods in these namespaces are never touched.
    pub excluded_namespaces: BTreeSet<String>,
    /// What a namespace is that was not seen.
    pub absent_namespace: AbsentNamespace,
    /// The server's own namespace, which no quota tree may bind; empty if there is none.
    pub own_namespace: String,
    /// Whether a quota tree is refused whose root has more than the cluster.
    pub refuse_above_cluster: bool,
    /// How autoscalers keep their meaning where the profile does not say.
    pub hpa_mode: HpaMode,
    /// Modes that nobody serves here: where a profile asks for one, autoscalers are converted.
    pub hpa_unserved: Vec<HpaMode>,
    /// Whether pods of namespaces with the label [`keys::LOAD_AWARE`] prefer nodes by their load class.
    pub load_class: bool,
}

/// What a namespace is that was not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbsentNamespace {
    /// Unknown: its pods are left untouched.
    #[default]
    Unknown,
    /// There, without labels or annotations: with `--objects` and `--standalone`.
    Exists,
}

/// What a pod is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The cluster.
    pub objects: &'a Objects,
    /// The configuration.
    pub settings: &'a Settings,
    /// The pod's namespace, if it was read apart from the snapshot.
    pub namespace: Option<&'a Namespace>,
    /// The time.
    pub now: Timestamp,
    /// The pod as the API server would have defaulted it, where it did not pass through one.
    pub defaulted: Option<&'a Pruned<'a>>,
}

/// What was decided about a pod.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The answer.
    pub answer: Answer,
    /// The profile that matches, if one does.
    pub profile: Option<Arc<Profile>>,
    /// What was planned, if a profile was applied.
    pub plan: Plan,
    /// Why the patch was not sent, if it was found wrong.
    pub self_check: Option<self_check::SelfCheckError>,
    /// What flavors did, if the pod's quota names any.
    pub flavors: Option<FlavorStep>,
    /// Whether it was told to prefer nodes by their load class.
    pub load_class: bool,
    /// What would become of the pod were the matching profile applied; only [`explain`] fills it in.
    pub would_be: Option<WouldBe>,
}

/// What would become of a pod whose profile has `apply: false`.
#[derive(Clone, Debug)]
pub enum WouldBe {
    /// This.
    Planned(Plan),
    /// Nothing, for another reason.
    Skipped(Skip),
}

/// The namespace that must be read before the review can be judged: that of a pod to be created, if the
/// snapshot does not hold it.
pub fn needs_namespace<'r>(
    review: &'r Review<'_>,
    objects: &Objects,
    settings: &Settings,
) -> Option<&'r str> {
    let name = review.namespace.as_ref();
    (settings.absent_namespace == AbsentNamespace::Unknown
        && not_ours(review).is_none()
        && !name.is_empty()
        && !settings.excluded_namespaces.contains(name)
        && objects.namespace(name).is_none())
    .then_some(name)
}

/// The decision about a review at the mutating stage.
pub fn mutate(review: &Review<'_>, context: &Context<'_>) -> Decision {
    if let Some(skip) = not_ours(review) {
        return skipped(skip, None, Vec::new());
    }
    match &review.object {
        Some(pod) => {
            let is_mirror = review.from_node && flavors::says_mirror(pod);
            decide_as(pod, &review.namespace, context, is_mirror)
        }
        None => skipped(Skip::Malformed, None, vec!["plimsoll: the review has no object".to_owned()]),
    }
}

fn not_ours(review: &Review<'_>) -> Option<Skip> {
    if !review.group.is_empty()
        || review.kind != "Pod"
        || !(review.resource.is_empty() || review.resource == "pods")
    {
        Some(Skip::Kind)
    } else if !review.sub_resource.is_empty() {
        Some(Skip::SubResource)
    } else if review.operation != "CREATE" {
        Some(Skip::Operation)
    } else {
        None
    }
}

/// The decision about a pod that is about to be created in a namespace, by whom is not known.
pub fn decide(pod: &Pruned<'_>, namespace: &str, context: &Context<'_>) -> Decision {
    let is_mirror = flavors::says_mirror(pod) && flavors::is_controlled_by_node(pod);
    decide_as(pod, namespace, context, is_mirror)
}

/// What [`decide`] says, for a person: also what would become of the pod were `apply` of its profile not false. The
/// answer is the same.
pub fn explain(pod: &Pruned<'_>, namespace: &str, context: &Context<'_>) -> Decision {
    let mut decision = decide(pod, namespace, context);
    if decision.answer.outcome != Outcome::Denied {
        decision.would_be = would_be(context.defaulted.unwrap_or(pod), namespace, context);
    }
    decision
}

fn would_be(pod: &Pruned<'_>, namespace: &str, context: &Context<'_>) -> Option<WouldBe> {
    let view = PodView::read(pod).ok()?;
    let Match::Skipped(Skip::NotApplied, Some(profile)) = matched(&view, namespace, context, &mut Vec::new())
    else {
        return None;
    };
    if leaves_guaranteed(profile, &view) {
        return Some(WouldBe::Skipped(Skip::Guaranteed));
    }
    let workload = topmost_owner(&view, namespace, context.objects);
    Some(WouldBe::Planned(planned(&view, profile, &workload, namespace, context)))
}

fn decide_as(pod: &Pruned<'_>, namespace: &str, context: &Context<'_>, is_mirror: bool) -> Decision {
    let mut decision = decide_requests(pod, namespace, context);
    if !is_mirror {
        flavors::add(&mut decision, pod, namespace, context);
        load_aware::add(&mut decision, pod, namespace, context);
    }
    decision
}

fn decide_requests(pod: &Pruned<'_>, namespace: &str, context: &Context<'_>) -> Decision {
    let read = PodView::read(pod).and_then(|received| {
        let defaulted = context.defaulted.map(PodView::read).transpose()?;
        Ok((received, defaulted))
    });
    let (received, defaulted) = match read {
        Ok(read) => read,
        Err(error) => {
            return skipped(Skip::Malformed, None, vec![format!("plimsoll: pod left untouched: {error}")]);
        }
    };
    if received.metadata == Presence::Absent {
        // The originals could not be recorded; no pod that passed an API server is without.
        let warning = "plimsoll: pod left untouched: metadata is missing".to_owned();
        return skipped(Skip::Malformed, None, vec![warning]);
    }
    let view = defaulted.as_ref().unwrap_or(&received);
    let mut warnings = Vec::new();
    let (profile, workload) = match matched(view, namespace, context, &mut warnings) {
        Match::Applies(profile, workload) => (profile, workload),
        Match::Skipped(skip, profile) => return skipped(skip, profile, warnings),
    };
    let plan = planned(view, profile, &workload, namespace, context);
    answer(pod, &received, profile, plan, warnings)
}

fn planned(
    pod: &PodView<'_>,
    profile: &Profile,
    workload: &Workload,
    namespace: &str,
    context: &Context<'_>,
) -> Plan {
    let limit_ranges: Vec<_> = context.objects.limit_ranges(namespace).cloned().collect();
    let lookup =
        Lookup { objects: context.objects, namespace, pod_name: pod.name, workload, now: context.now };
    plan(&Inputs { pod, profile, limit_ranges: &limit_ranges, lookup })
}

/// The profile that a pod falls under, or why none is applied to it.
pub(crate) enum Match<'a> {
    /// This one is, to a pod of this workload.
    Applies(&'a Arc<Profile>, Workload),
    /// None is, for this reason; the profile that matches, if one does.
    Skipped(Skip, Option<&'a Arc<Profile>>),
}

/// Looks for the profile of a pod.
pub(crate) fn matched<'a>(
    view: &PodView<'_>,
    namespace: &str,
    context: &Context<'a>,
    warnings: &mut Vec<String>,
) -> Match<'a> {
    if view.annotations.is_some_and(|annotations| annotations.contains_key(keys::MIRROR)) {
        return Match::Skipped(Skip::MirrorPod, None);
    }
    if context.settings.excluded_namespaces.contains(namespace) {
        return Match::Skipped(Skip::ExcludedNamespace, None);
    }
    let unlabelled = Namespace::default();
    let found = context.namespace.or_else(|| context.objects.namespace(namespace).map(Arc::as_ref));
    let home = match (found, context.settings.absent_namespace) {
        (Some(home), _) => home,
        (None, AbsentNamespace::Exists) => &unlabelled,
        (None, AbsentNamespace::Unknown) => return Match::Skipped(Skip::UnknownNamespace, None),
    };
    let opt_out = OptOuts::read(view, home, warnings);
    let workload = topmost_owner(view, namespace, context.objects);
    let profile = context.objects.profiles().find(&Candidate {
        namespace_labels: &home.labels,
        labels: &view.labels,
        pool: pool(view, home),
        workload_kind: &workload.kind,
    });
    let Some(profile) = profile else {
        let skip = opt_out.honoured(OptOut::Pod, &mut Vec::new()).unwrap_or(Skip::NoProfile);
        return Match::Skipped(skip, None);
    };
    match why_not(profile, view, opt_out, warnings) {
        Some(skip) => Match::Skipped(skip, Some(profile)),
        None => Match::Applies(profile, workload),
    }
}

/// Why no profile matches a pod: of each profile, in the order in which they are asked, the part that does
/// not hold.
pub fn why_no_profile(pod: &Pruned<'_>, namespace: &str, context: &Context<'_>) -> Vec<String> {
    let Ok(view) = PodView::read(pod) else { return Vec::new() };
    let unlabelled = Namespace::default();
    let found = context.namespace.or_else(|| context.objects.namespace(namespace).map(Arc::as_ref));
    let home = found.unwrap_or(&unlabelled);
    let workload = topmost_owner(&view, namespace, context.objects);
    let candidate = Candidate {
        namespace_labels: &home.labels,
        labels: &view.labels,
        pool: pool(&view, home),
        workload_kind: &workload.kind,
    };
    let mut reasons: Vec<String> = context
        .objects
        .profiles()
        .iter()
        .filter_map(|profile| {
            Some(format!("profile {}: {}", profile.name, profile.matches.mismatch(&candidate)?))
        })
        .collect();
    if reasons.is_empty() {
        reasons.push("there are no profiles".to_owned());
    }
    if found.is_none() {
        reasons.push(format!("namespace {namespace} is not among the objects: taken as without labels"));
    }
    reasons
}

fn why_not(
    profile: &Profile,
    pod: &PodView<'_>,
    opt_out: OptOuts,
    warnings: &mut Vec<String>,
) -> Option<Skip> {
    if let Some(skip) = opt_out.honoured(profile.opt_out, warnings) {
        Some(skip)
    } else if profile.mode == Mode::Off {
        Some(Skip::ProfileOff)
    } else if !profile.apply {
        Some(Skip::NotApplied)
    } else if leaves_guaranteed(profile, pod) {
        Some(Skip::Guaranteed)
    } else {
        None
    }
}

fn leaves_guaranteed(profile: &Profile, pod: &PodView<'_>) -> bool {
    profile.guaranteed_pods == GuaranteedPods::Skip && is_guaranteed(pod)
}

fn answer(
    received: &Pruned<'_>,
    pod: &PodView<'_>,
    profile: &Arc<Profile>,
    plan: Plan,
    warnings: Vec<String>,
) -> Decision {
    let annotations =
        Annotations { record: write_record(profile, &plan.lines), applied: plan.applied(&profile.name) };
    let patch = patch::build(pod, &plan, &annotations);
    let mut answer = Answer {
        changed: annotations.applied.clone(),
        profile: Some(profile.name.clone()),
        warnings,
        ..Answer::allow(if patch.is_empty() { Outcome::Unchanged } else { Outcome::Applied })
    };
    let checked =
        if patch.is_empty() { Ok(()) } else { self_check::check(received, pod, &plan, &annotations, &patch) };
    let self_check = answer.send(patch, checked, "pod left untouched");
    Decision {
        answer,
        profile: Some(Arc::clone(profile)),
        plan,
        self_check,
        flavors: None,
        load_class: false,
        would_be: None,
    }
}

fn skipped(skip: Skip, profile: Option<&Arc<Profile>>, warnings: Vec<String>) -> Decision {
    let answer = Answer {
        profile: profile.map(|profile| profile.name.clone()),
        warnings,
        ..Answer::allow(Outcome::Skipped(skip))
    };
    Decision {
        answer,
        profile: profile.map(Arc::clone),
        plan: Plan::default(),
        self_check: None,
        flavors: None,
        load_class: false,
        would_be: None,
    }
}

/// The pool a pod belongs to: administrators set it on the namespace, else it is the pod's own label,
/// else what its node selector asks for.
fn pool<'a>(pod: &'a PodView<'_>, namespace: &'a Namespace) -> Option<&'a str> {
    namespace
        .labels
        .get(keys::POOL)
        .map(String::as_str)
        .or_else(|| pod.label(keys::POOL))
        .or_else(|| pod.node_selector?.get(keys::POOL).and_then(Json::as_str))
}

/// Who says that the pod is to be left alone.
#[derive(Clone, Copy)]
struct OptOuts {
    pod: bool,
    namespace: bool,
}

impl OptOuts {
    fn read(pod: &PodView<'_>, namespace: &Namespace, warnings: &mut Vec<String>) -> Self {
        let of = |labels: &'_ BTreeMap<String, String>| labels.get(keys::OVERCOMMIT).cloned();
        let mut opts_out = |value: Option<&str>, place: &str| match value {
            None => false,
            Some(value) if OPT_OUT_VALUES.contains(&value) => true,
            Some(value) => {
                let value: String = value.chars().take(40).collect();
                warnings.push(format!(
                    "plimsoll: {place} {}: {value:?} is ignored; \"disabled\", \"false\" or \"off\" opt out",
                    keys::OVERCOMMIT
                ));
                false
            }
        };
        let annotation = pod.annotations.and_then(|annotations| annotations.get(keys::OVERCOMMIT));
        let by_pod = opts_out(annotation.and_then(Json::as_str), "annotation");
        let by_annotation = opts_out(of(&namespace.annotations).as_deref(), "namespace annotation");
        let by_label = opts_out(of(&namespace.labels).as_deref(), "namespace label");
        match annotation {
            None | Some(Json::Null | Json::Text(_)) => {}
            // Offline only: an API server refuses such a pod.
            Some(other) => warnings.push(format!(
                "plimsoll: annotation {}: {other} is not a string and is ignored; write it in quotes",
                keys::OVERCOMMIT
            )),
        }
        if pod.label(keys::OVERCOMMIT).is_some() {
            warnings.push(format!(
                "plimsoll: the pod's label {} is ignored; a pod opts out by an annotation",
                keys::OVERCOMMIT
            ));
        }
        Self { pod: by_pod, namespace: by_annotation || by_label }
    }

    fn honoured(self, allowed: OptOut, warnings: &mut Vec<String>) -> Option<Skip> {
        let (pod, namespace) = match allowed {
            OptOut::Pod => (true, true),
            OptOut::Namespace => (false, true),
            OptOut::None => (false, false),
        };
        if self.pod && pod {
            return Some(Skip::PodOptOut);
        }
        if self.namespace && namespace {
            return Some(Skip::NamespaceOptOut);
        }
        if self.pod || self.namespace {
            warnings.push(format!(
                "plimsoll: {} is ignored here: the profile's optOut does not allow it",
                keys::OVERCOMMIT
            ));
        }
        None
    }
}
