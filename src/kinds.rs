//! What is known about kinds by their names alone.

use serde_json::Value;

use crate::config::nearest;
use crate::crd::{GROUP, VERSION};

const OURS: [&str; 2] = ["OvercommitProfile", "Recommendation"];

/// Kinds that belong to no namespace, as far as people have them in their manifests.
const CLUSTER_SCOPED: [&str; 21] = [
    "APIService",
    "CSIDriver",
    "CertificateSigningRequest",
    "ClusterIssuer",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "FlowSchema",
    "IngressClass",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "OvercommitProfile",
    "PersistentVolume",
    "PriorityClass",
    "ResourceFlavor",
    "RuntimeClass",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// Whether objects of this kind belong to no namespace.
pub(crate) fn is_cluster_scoped(kind: &str) -> bool {
    CLUSTER_SCOPED.contains(&kind)
}

/// For an object of none of the kinds that are read: which kind of ours it may have been meant to be, in words.
pub(crate) fn near_miss(manifest: &Value) -> Option<String> {
    let text = |key: &str| manifest.get(key).and_then(Value::as_str);
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    let group = api_version.split_once('/').map_or(api_version, |(group, _)| group);
    let near_group = nearest(group, [GROUP].into_iter()).is_some();
    let same = OURS.into_iter().find(|known| known.eq_ignore_ascii_case(kind));
    let meant = match same {
        // Other programs have recommendations too, in groups that have a dot in their names.
        Some("Recommendation") if !near_group && group.contains('.') => return None,
        Some(known) => known.to_owned(),
        None if near_group => {
            nearest(kind, OURS.into_iter()).map_or_else(|| OURS.join(" or "), str::to_owned)
        }
        None => return None,
    };
    Some(format!("{kind} of {api_version} is not read; {meant} of {GROUP}/{VERSION} may be meant"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::near_miss;

    #[test]
    fn slips_are_told_from_what_is_of_somebody_else() {
        for (rule, api_version, kind, expected) in [
            ("letter case", "plimsoll.dev/v1alpha1", "overcommitprofile", Some("OvercommitProfile")),
            (
                "a letter is missing in the group",
                "plimsol.dev/v1alpha1",
                "OvercommitProfile",
                Some("OvercommitProfile"),
            ),
            ("another group", "example.org/v1", "OvercommitProfile", Some("OvercommitProfile")),
            ("no group", "v1alpha1", "Recommendation", Some("Recommendation")),
            ("no version", "plimsoll.dev", "OvercommitProfile", Some("OvercommitProfile")),
            ("a slip in the kind", "plimsoll.dev/v1alpha1", "OvercomitProfile", Some("OvercommitProfile")),
            ("plural", "plimsoll.dev/v1alpha1", "Recommendations", Some("Recommendation")),
            ("a slip in both", "plimsol.dev/v1alpha1", "Recomendation", Some("Recommendation")),
            ("no such kind", "plimsoll.dev/v1alpha1", "Quota", Some("OvercommitProfile or Recommendation")),
            ("a recommendation of somebody else", "example.org/v1", "Recommendation", None),
            ("a profile of somebody else", "example.org/v1", "Profile", None),
            ("a pod", "v1", "Pod", None),
        ] {
            let said = near_miss(&json!({"apiVersion": api_version, "kind": kind}));
            let expected = expected.map(|meant| format!("; {meant} of plimsoll.dev/v1alpha1 may be meant"));
            assert_eq!(said.is_some(), expected.is_some(), "{rule}: {said:?}");
            assert!(said.unwrap_or_default().ends_with(&expected.unwrap_or_default()), "{rule}");
        }
        assert_eq!(
            near_miss(&json!({"kind": "OvercommitProfile"})),
            None,
            "no apiVersion is an error of its own"
        );
    }
}
