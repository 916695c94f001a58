//! The closed sets that metric labels are drawn from.
//!
//! No label carries a namespace, a pod or a workload, so the number of series does not grow with the cluster.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

/// Declares an enum whose variants are the values of one label.
macro_rules! label_values {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant),+
        }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The label's value.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
                EncodeLabelValue::encode(&self.as_str(), encoder)
            }
        }
    };
}

label_values! {
    /// What the API server is about to do with the object under review.
    Operation {
        /// A new object.
        Create = "create",
        /// A changed object.
        Update = "update",
        /// An object that goes away.
        Delete = "delete",
        /// A connection to a subresource, such as `exec`.
        Connect = "connect",
        /// A request that could not be read, or an operation that this version does not know.
        Unknown = "unknown",
    }
}

label_values! {
    /// How a reload of certificates or of the configuration ended.
    ReloadResult {
        /// The new content is in use.
        Success = "success",
        /// The new content was refused; what was in use before stays.
        Refused = "refused",
    }
}

label_values! {
    /// How a live read of a namespace that the snapshot did not hold ended.
    NamespaceRead {
        /// It is there.
        Found = "found",
        /// There is no such namespace.
        Missing = "missing",
        /// The read failed or took too long.
        Error = "error",
    }
}

label_values! {
    /// Whether a profile passed its checks.
    ProfileState {
        /// In use.
        Valid = "valid",
        /// Refused; the reason is in the log and in the profile's status.
        Invalid = "invalid",
    }
}

label_values! {
    /// How a write of an object ended.
    WriteResult {
        /// It is written.
        Success = "success",
        /// It was changed in the meantime.
        Conflict = "conflict",
        /// It was refused, or no answer came.
        Failure = "failure",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AdmissionLabels {
    pub(super) stage: &'static str,
    pub(super) operation: Operation,
    pub(super) outcome: &'static str,
}

/// Declares a label set with one label.
macro_rules! single_label {
    ($name:ident, $label:ident: $type:ty) => {
        #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub(super) struct $name {
            pub(super) $label: $type,
        }
    };
}

single_label!(StageLabel, stage: &'static str);
single_label!(CodeLabel, code: u16);
single_label!(ReloadLabel, result: ReloadResult);
single_label!(NamespaceReadLabel, result: NamespaceRead);
single_label!(ProfileLabel, state: ProfileState);
single_label!(KindLabel, kind: &'static str);
single_label!(ReasonLabel, reason: &'static str);
single_label!(VersionLabel, version: String);
single_label!(StepLabel, step: RecommenderStep);
single_label!(OutcomeLabel, outcome: SampleOutcome);
single_label!(ShardLabel, shard: u32);

label_values! {
    /// A part of a scan of the recommender.
    RecommenderStep {
        /// Whose pods are, and which profile they fall under.
        Assign = "assign",
        /// Asking the source, and taking its samples in.
        Usage = "usage",
        /// Making recommendations.
        Recommend = "recommend",
        /// Writing recommendations.
        Write = "write",
        /// Writing checkpoints.
        Checkpoint = "checkpoint",
        /// Reading checkpoints and recommendations at the start.
        Load = "load",
        /// Reading the past at the first start.
        History = "history",
    }
}

label_values! {
    /// What became of a sample.
    SampleOutcome {
        /// It was taken.
        Accepted = "accepted",
        /// It is more than 10 minutes ahead of the clock.
        Future = "future",
        /// Its value or time is nonsense.
        Invalid = "invalid",
        /// There was one of that time.
        Duplicate = "duplicate",
        /// It is earlier than the container's last, or weighs nothing any more.
        Old = "old",
        /// No such pod or container is known.
        UnknownPod = "unknown_pod",
        /// The pod does not run.
        NotRunning = "not_running",
        /// No profile asks for recommendations for it.
        Unmatched = "unmatched",
        /// The source does not say whose it is.
        MissingLabels = "missing_labels",
        /// It has no value.
        NoValue = "no_value",
    }
}

/// The labels of writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WriteLabels {
    pub(super) kind: &'static str,
    pub(super) result: WriteResult,
}

/// The labels of what says who leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LeaderLabels {
    pub(super) part: &'static str,
    pub(super) shard: u32,
}

label_values! {
    /// What was decided about a pod, or the resize of one, in a bound namespace.
    QuotaOutcome {
        /// There was room.
        Admitted = "admitted",
        /// There was none.
        Refused = "refused",
        /// There was none, and the leaf is entitled to it: borrowers are evicted.
        Reclaim = "reclaim",
        /// What is wrong with the tree blocks its namespace.
        Blocked = "blocked",
        /// The ledger could not be written in the time there was.
        Busy = "busy",
        /// The ledger is not initialised, or is about another state of the tree.
        NotReady = "not_ready",
    }
}

label_values! {
    /// How a write of the ledger ended.
    LedgerWrite {
        /// It is written.
        Success = "success",
        /// Another replica was faster.
        Conflict = "conflict",
        /// It was refused, or no answer came.
        Failure = "failure",
    }
}

label_values! {
    /// How an eviction ended.
    EvictionResult {
        /// The pod goes.
        Evicted = "evicted",
        /// It was gone already.
        Gone = "gone",
        /// A `PodDisruptionBudget` did not allow it.
        Refused = "refused",
        /// The call failed.
        Failed = "failed",
    }
}

label_values! {
    /// How an eviction from the busiest node ended.
    BalanceEviction {
        /// The pod goes.
        Evicted = "evicted",
        /// It would have gone; nothing was done.
        DryRun = "dry_run",
        /// It was gone already.
        Gone = "gone",
        /// A `PodDisruptionBudget`, or a webhook, did not allow it.
        Refused = "refused",
        /// The call failed.
        Failed = "failed",
        /// It could not be written down first, or the lease was lost meanwhile: nothing was done.
        Withheld = "withheld",
    }
}

label_values! {
    /// What became of a metric of an autoscaler at admission.
    HpaOutcome {
        /// A utilization became an average value, or that follows its base.
        Converted = "converted",
        /// An average value is a utilization again.
        Restored = "restored",
        /// A utilization stays one: a container has no such request or limit.
        NoBase = "no_base",
        /// A utilization stays one: no target can have that value.
        OutOfRange = "out_of_range",
        /// Utilizations stay: there are several of one metric.
        Several = "several",
        /// The record was edited by hand, and put back.
        Edited = "edited",
        /// The record cannot be read; nothing was changed.
        Unreadable = "unreadable",
    }
}

label_values! {
    /// How an autoscaler stands.
    HpaState {
        /// Its targets are converted.
        Converted = "converted",
        /// Its targets are as its author wrote them, and are to be.
        Native = "native",
        /// What it scales is not known.
        Unknown = "unknown",
        /// A target cannot be converted.
        Incomplete = "incomplete",
        /// What it is to become was written, and no webhook took it over.
        Pending = "pending",
        /// Its record cannot be read.
        Unreadable = "unreadable",
    }
}

label_values! {
    /// How a write of the keeper of autoscalers ended.
    HpaWrite {
        /// The webhook took it over.
        Success = "success",
        /// It is stored, but no webhook took it over.
        Pending = "pending",
        /// The autoscaler is gone.
        Gone = "gone",
        /// It was changed in the meantime.
        Conflict = "conflict",
        /// It was refused, or no answer came.
        Failure = "failure",
    }
}

single_label!(HpaOutcomeLabel, outcome: HpaOutcome);
single_label!(HpaStateLabel, state: HpaState);
single_label!(HpaWriteLabel, result: HpaWrite);

label_values! {
    /// What became of a claim.
    ClaimEvent {
        /// An entitled pod was refused.
        Opened = "opened",
        /// A pod of its owner was admitted.
        Served = "served",
        /// Nobody came for the room.
        Expired = "expired",
    }
}

single_label!(QuotaOutcomeLabel, outcome: QuotaOutcome);
single_label!(LedgerWriteLabel, result: LedgerWrite);
single_label!(EvictionLabel, result: EvictionResult);
single_label!(VerdictLabel, verdict: &'static str);
single_label!(BalanceEvictionLabel, result: BalanceEviction);
single_label!(ClaimLabel, event: ClaimEvent);

/// The labels of what a tree has; there is one tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TreeLabels {
    pub(super) tree: String,
    pub(super) resource: String,
}

label_values! {
    /// What a request to the aggregated API server is about.
    ApiGroup {
        /// `metrics.k8s.io`.
        Metrics = "metrics",
        /// `custom.metrics.k8s.io`.
        Custom = "custom",
        /// `external.metrics.k8s.io`.
        External = "external",
        /// Something that is not served here.
        Other = "other",
    }
}

label_values! {
    /// How a request to the aggregated API server ended.
    ApiOutcome {
        /// With what was asked for.
        Ok = "ok",
        /// With an answer of metrics-server that is no success.
        Upstream = "upstream",
        /// It asked for what there is not, or asked wrongly.
        Refused = "refused",
        /// Nobody knows who asked.
        Unauthenticated = "unauthenticated",
        /// Whoever asked has no right to it.
        Forbidden = "forbidden",
        /// It cannot be answered now.
        Unavailable = "unavailable",
        /// There were too many at the same time.
        Shed = "shed",
        /// A panic was caught.
        Error = "error",
    }
}

label_values! {
    /// Why metrics-server brought nothing to pass on.
    UpstreamError {
        /// No connection, or it broke.
        NoAnswer = "no_answer",
        /// It took too long.
        Timeout = "timeout",
        /// It does not know us, or we have no right.
        Credentials = "credentials",
        /// The answer is too large.
        TooLarge = "too_large",
        /// The answer is not what was asked for.
        BadAnswer = "bad_answer",
    }
}

label_values! {
    /// What became of the usage of a resource in an answer to the autoscaler's controller.
    ScaleOutcome {
        /// It was scaled.
        Scaled = "scaled",
        /// Nothing is lowered, so there is nothing to scale.
        NotLowered = "not_lowered",
        /// The profile or the configuration has another way for these pods.
        OtherMode = "other_mode",
        /// An autoscaler of these pods has a target in absolute terms.
        AverageValue = "average_value",
        /// Autoscalers of these pods look at it in ways that need different factors.
        Mixed = "mixed",
        /// A pod does not say what its usage is meant against.
        NoBase = "no_base",
        /// None of the pods is known.
        UnknownPods = "unknown_pods",
    }
}

label_values! {
    /// What the API server is asked about a request to the aggregated API server.
    ReviewKind {
        /// Whose token it is.
        Token = "token",
        /// Whether there is a right.
        Access = "access",
    }
}

label_values! {
    /// How such a review ended.
    ReviewResult {
        /// Yes.
        Allowed = "allowed",
        /// No.
        Denied = "denied",
        /// There was no answer.
        Error = "error",
    }
}

label_values! {
    /// What a request to the scheduler extender asks for.
    ExtenderVerb {
        /// Points for nodes.
        Prioritize = "prioritize",
        /// Which nodes are too full.
        Filter = "filter",
        /// The load of nodes.
        Watcher = "watcher",
        /// Whether the load is known.
        Health = "health",
        /// Something that is not served here.
        Other = "other",
    }
}

label_values! {
    /// How a request to the scheduler extender ended.
    ExtenderOutcome {
        /// With what was asked for.
        Ok = "ok",
        /// Nothing was decided by load: a panic was caught, and all nodes are equal.
        Equal = "equal",
        /// It asked for what there is not, or asked wrongly.
        Refused = "refused",
        /// The load is not known.
        Unavailable = "unavailable",
        /// There were too many at the same time.
        Shed = "shed",
        /// A panic was caught.
        Error = "error",
    }
}

label_values! {
    /// Which of the pods that placement knows.
    PlacedState {
        /// All.
        All = "all",
        /// Those that wait for a node, and for nothing else.
        Pending = "pending",
    }
}

label_values! {
    /// What is written on nodes.
    NodeWrite {
        /// The label that tells how loaded it is.
        Label = "label",
        /// Annotations in Crane's format.
        Annotations = "annotations",
    }
}

single_label!(PlacedStateLabel, state: PlacedState);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct NodeWriteLabels {
    pub(super) kind: NodeWrite,
    pub(super) result: WriteResult,
}

label_values! {
    /// What is asked about.
    LoadOf {
        /// How loaded nodes are.
        Nodes = "nodes",
        /// What containers use.
        Containers = "containers",
    }
}

label_values! {
    /// Whether a node has a load.
    LoadState {
        /// It has one.
        Fresh = "fresh",
        /// Nothing is known of it, or what is known is too old.
        Without = "without",
    }
}

label_values! {
    /// What weights were learnt of.
    WeightsOf {
        /// A workload.
        Workload = "workload",
        /// An image.
        Image = "image",
    }
}

single_label!(QueryLabel, query: &'static str);

label_values! {
    /// A step by which the authority of certificates changes.
    RotationStep {
        /// A new one was put beside that in force.
        Make = "make",
        /// Those of another source, which some `caBundle` held, stay trusted beside it.
        Adopt = "adopt",
        /// It was put in force.
        Switch = "switch",
        /// The former one was given up.
        Drop = "drop",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RotationLabels {
    pub(super) step: RotationStep,
    pub(super) result: WriteResult,
}

single_label!(WriteResultLabel, result: WriteResult);
