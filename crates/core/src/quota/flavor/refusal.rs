//! Why a pod is refused because of flavors, and what to do.

use thiserror::Error;

use crate::pod::Malformed;

/// Why a pod cannot be placed as its quota's flavors say. Each text names the leaf, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FlavorRefusal {
    /// A flavor that the tree names is not there.
    #[error(
        "ResourceFlavor {flavor:?}, which quota node {node} names for the pods of leaf {leaf}, does not exist: create \
         it (that needs the CRD resourceflavors.kueue.x-k8s.io), or take it out of attributes.resourceflavors of {node}"
    )]
    Missing {
        /// Its name.
        flavor: String,
        /// Path of the node that names it.
        node: String,
        /// Path of the pod's leaf.
        leaf: String,
    },
    /// The levels contradict each other, whatever alternative is taken of each.
    #[error(
        "no node can satisfy all flavors of quota leaf {leaf}: {levels} contradict each other; change nodeLabels of a \
         flavor, or attributes.resourceflavors of one of these nodes"
    )]
    Contradiction {
        /// Path of the pod's leaf.
        leaf: String,
        /// The levels, with their flavors and labels.
        levels: String,
    },
    /// There are too many combinations.
    #[error(
        "the flavors of quota leaf {leaf} ({levels}) and the pod's node affinity combine to more than {most} \
         nodeSelectorTerms; name fewer flavors, or write fewer terms in the pod"
    )]
    TooManyTerms {
        /// Path of the pod's leaf.
        leaf: String,
        /// The levels with their flavors.
        levels: String,
        /// How many are taken.
        most: usize,
    },
    /// The affinity would become too large for the API server.
    #[error(
        "the flavors of quota leaf {leaf} ({levels}) would make the pod's node affinity larger than {most} bytes; \
         write fewer or shorter nodeSelectorTerms in the pod, or name fewer flavors"
    )]
    TooLarge {
        /// Path of the pod's leaf.
        leaf: String,
        /// The levels with their flavors.
        levels: String,
        /// How many bytes are taken.
        most: usize,
    },
    /// The node selector leaves no alternative.
    #[error(
        "spec.nodeSelector (the pod's or its RuntimeClass's) has {key}: {value}, but quota leaf {leaf} ({levels}) \
         allows only nodes with {allowed}; take {key} out of nodeSelector, or use a namespace whose quota has such nodes"
    )]
    NodeSelector {
        /// Path of the pod's leaf.
        leaf: String,
        /// The levels with their flavors.
        levels: String,
        /// The label that no alternative allows.
        key: String,
        /// What the selector wants of it.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// After all webhooks the pod may still run elsewhere.
    #[error(
        "{place} lets the pod run outside of quota leaf {leaf} ({levels}), which allows only nodes with {allowed}; a \
         webhook after Plimsoll's changed the affinity, or Plimsoll's /mutate was not called: create the pod again, \
         and let that webhook keep the required node affinity"
    )]
    NotImplied {
        /// Path of the pod's leaf.
        leaf: String,
        /// The levels with their flavors.
        levels: String,
        /// Where in the pod.
        place: String,
        /// What is allowed.
        allowed: String,
    },
    /// The affinity is not of the form that Kubernetes gives it.
    #[error(
        "{error}, so the flavors of quota leaf {leaf} cannot be applied; write it as Kubernetes defines it"
    )]
    Malformed {
        /// Path of the pod's leaf.
        leaf: String,
        /// What is wrong.
        error: Malformed,
    },
}
