//! What events of quota are about: the tree, who was evicted, and who waits.

use k8s_openapi::api::core::v1::ObjectReference;
use plimsoll_core::pod::Owner;
use plimsoll_core::quota::{QuotaPod, TREE_NAMESPACE, Tree};

use crate::cluster::reference;

/// A pod.
pub fn of_pod(pod: &QuotaPod) -> ObjectReference {
    reference("v1", "Pod", &pod.namespace, &pod.name, &pod.uid)
}

/// A controller of pods.
pub fn of_owner(namespace: &str, owner: &Owner) -> ObjectReference {
    reference(&owner.api_version, &owner.workload.kind, namespace, &owner.workload.name, &owner.uid)
}

/// A tree.
pub fn of_tree(tree: &Tree) -> ObjectReference {
    reference("scheduling.sigs.k8s.io/v1beta1", "ElasticQuotaTree", TREE_NAMESPACE, &tree.name, &tree.uid)
}
