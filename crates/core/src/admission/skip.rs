//! Why a request is let through untouched.

/// The reasons, each a word for metrics and audit annotations and a sentence for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Skip {
    /// Not a pod.
    Kind,
    /// A subresource such as `pods/resize`.
    SubResource,
    /// Not CREATE.
    Operation,
    /// A static pod's mirror object.
    MirrorPod,
    /// `kube-system`, the server's own namespace, or another from the configuration.
    ExcludedNamespace,
    /// The namespace could not be read.
    UnknownNamespace,
    /// The pod opts out.
    PodOptOut,
    /// The namespace opts out.
    NamespaceOptOut,
    /// No profile matches.
    NoProfile,
    /// The profile that matches has mode Off.
    ProfileOff,
    /// The profile that matches has `apply: false`.
    NotApplied,
    /// The pod is Guaranteed and the profile skips such pods.
    Guaranteed,
    /// The pod is not of the form Kubernetes gives it.
    Malformed,
    /// No quota tree binds the namespace.
    NotBound,
}

impl Skip {
    /// All of them, for the list of metric labels.
    pub const ALL: [Self; 14] = [
        Self::Kind,
        Self::SubResource,
        Self::Operation,
        Self::MirrorPod,
        Self::ExcludedNamespace,
        Self::UnknownNamespace,
        Self::PodOptOut,
        Self::NamespaceOptOut,
        Self::NoProfile,
        Self::ProfileOff,
        Self::NotApplied,
        Self::Guaranteed,
        Self::Malformed,
        Self::NotBound,
    ];

    /// The outcome's word in metrics and audit annotations.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kind => "skipped_kind",
            Self::SubResource => "skipped_subresource",
            Self::Operation => "skipped_operation",
            Self::MirrorPod => "skipped_mirror_pod",
            Self::ExcludedNamespace => "skipped_excluded_namespace",
            Self::UnknownNamespace => "skipped_unknown_namespace",
            Self::PodOptOut => "skipped_pod_opt_out",
            Self::NamespaceOptOut => "skipped_namespace_opt_out",
            Self::NoProfile => "skipped_no_profile",
            Self::ProfileOff => "skipped_profile_off",
            Self::NotApplied => "skipped_not_applied",
            Self::Guaranteed => "skipped_guaranteed",
            Self::Malformed => "skipped_malformed",
            Self::NotBound => "skipped_not_bound",
        }
    }

    /// The reason in words, and what to do about it.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Kind => "only pods are changed, and only when they are created",
            Self::SubResource => "subresources of pods are never changed",
            Self::Operation => "pods are changed only when they are created",
            Self::MirrorPod => "mirror pods of static pods cannot be changed",
            Self::ExcludedNamespace => {
                "the namespace is excluded (kube-system, the server's own, or admission.excludedNamespaces)"
            }
            Self::UnknownNamespace => {
                "the namespace was not seen yet and could not be read, so its profile is not known"
            }
            Self::PodOptOut => "the pod opts out by the annotation plimsoll.dev/overcommit",
            Self::NamespaceOptOut => {
                "the namespace opts out by the annotation or label plimsoll.dev/overcommit"
            }
            Self::NoProfile => "no OvercommitProfile matches",
            Self::ProfileOff => "the profile that matches has mode Off",
            Self::NotApplied => "the profile that matches has apply: false",
            Self::Guaranteed => "the pod is Guaranteed and the profile has guaranteedPods: Skip",
            Self::Malformed => "the pod is not of the form that Kubernetes gives it",
            Self::NotBound => "no quota tree binds the namespace",
        }
    }
}
