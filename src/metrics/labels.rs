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
    /// A step of the recommender's loop.
    RecommenderStep {
        /// Loading checkpoints at the start.
        Load = "load",
        /// Loading the past from Prometheus at the first start.
        History = "history",
        /// Taking usage from the source and adding it to the aggregates.
        Scan = "scan",
        /// Working out what the recommendations should be.
        Recommend = "recommend",
        /// Writing what changed.
        Write = "write",
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
single_label!(StepLabel, step: RecommenderStep);
single_label!(VersionLabel, version: String);
