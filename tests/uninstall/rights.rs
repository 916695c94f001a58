//! What `plimsoll uninstall` calls, and so what its role in the chart grants.

/// Group, resource, verbs, names.
type Rule = (&'static str, &'static str, &'static [&'static str], &'static str);

const HOOKS: &str = "plimsoll,plimsoll-quota";
const APIS: &str = "v1beta1.metrics.k8s.io,v1beta1.custom.metrics.k8s.io,v1beta2.custom.metrics.k8s.io,v1beta1.external.metrics.k8s.io";

/// Of the cluster.
pub(crate) const CLUSTER: &[Rule] = &[
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", &["delete"], HOOKS),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", &["list"], ""),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", &["delete"], HOOKS),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", &["list"], ""),
    ("apiregistration.k8s.io", "apiservices", &["delete", "get", "update"], APIS),
    ("autoscaling", "horizontalpodautoscalers", &["get", "list", "patch"], ""),
    ("", "nodes", &["list", "patch"], ""),
    ("", "replicationcontrollers", &["list", "patch"], ""),
    ("apps", "daemonsets", &["list", "patch"], ""),
    ("apps", "deployments", &["list", "patch"], ""),
    ("apps", "replicasets", &["list", "patch"], ""),
    ("apps", "statefulsets", &["list", "patch"], ""),
    ("batch", "jobs", &["list", "patch"], ""),
];

/// Of the server's namespace.
pub(crate) const OWN: &[Rule] = &[
    ("apps", "deployments", &["get"], "plimsoll"),
    ("apps", "deployments/scale", &["patch"], "plimsoll"),
    ("", "pods", &["list"], ""),
    ("plimsoll.dev", "quotaledgers", &["delete", "list", "patch"], ""),
    ("coordination.k8s.io", "leases", &["create", "delete", "get", "list", "update"], ""),
];
