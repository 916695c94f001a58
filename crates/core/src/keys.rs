//! Annotation and label keys that Plimsoll reads or writes.

/// What all of them begin with, but for those of others.
pub const PREFIX: &str = "plimsoll.dev/";
/// Opt-out: annotation on a pod, annotation or label on a namespace.
pub const OVERCOMMIT: &str = "plimsoll.dev/overcommit";
/// Written on pods: the requests as they were before they were lowered.
pub const ORIGINAL_RESOURCES: &str = "plimsoll.dev/original-resources";
/// Written on pods: a short text that says what was lowered by which profile.
pub const APPLIED: &str = "plimsoll.dev/applied";
/// Written on autoscalers: the targets as they were before they were converted.
pub const HPA_ORIGINAL: &str = "plimsoll.dev/hpa-original";
/// Written on autoscalers by the keeper, and taken off again in the same request: what the webhook is to write.
pub const HPA_SYNC: &str = "plimsoll.dev/hpa-sync";
/// Written on `APIService`s that were taken over: what stood there before.
pub const APISERVICE_ORIGINAL: &str = "plimsoll.dev/apiservice-original";
/// Label on namespaces, pods and nodes: the pool they belong to.
pub const POOL: &str = "plimsoll.dev/pool";
/// Annotation of static pods' mirror objects, written by the kubelet.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// Annotation that the Vertical Pod Autoscaler's webhook writes on pods it changed.
pub const VPA_UPDATES: &str = "vpaUpdates";
/// Label by which a Deployment tells its ReplicaSets apart.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// The values of [`OVERCOMMIT`] that opt out. The webhook's match conditions list the same ones.
pub const OPT_OUT_VALUES: [&str; 3] = ["disabled", "false", "off"];
/// Annotation on pods that shall not be moved or reclaimed, where that is honoured.
pub const DO_NOT_EVICT: &str = "plimsoll.dev/do-not-evict";
/// Annotation on a quota tree: changes that would leave counted pods without a quota are allowed.
pub const FORCE: &str = "plimsoll.dev/force";
/// Annotation that is written on a pod's controller to make it create the pod again at once.
pub const QUOTA_RETRY: &str = "plimsoll.dev/quota-retry";
/// Labels by which other schedulers' users say that a pod must not be preempted: `"false"`.
pub const PREEMPTIBLE: [&str; 2] =
    ["quota.scheduling.alibabacloud.com/preemptible", "quota.scheduling.koordinator.sh/preemptible"];
/// Label that is written on nodes: how loaded they are.
pub const LOAD_CLASS: &str = "plimsoll.dev/load-class";
/// Label on namespaces: `"true"` lets their pods prefer nodes by [`LOAD_CLASS`].
pub const LOAD_AWARE: &str = "plimsoll.dev/load-aware";
