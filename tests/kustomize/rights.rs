//! What each part calls is what its roles grant, in both directions; in the kustomize parts, and in the chart.

use std::collections::BTreeSet;

use plimsoll::cluster::{Part, WATCHED};
use serde_json::{Value, json};

use crate::support::{component, documents, files, root};
use crate::uninstall;

/// Group, resource, verb, and where it is for some objects only their names.
pub(crate) type Right = [String; 4];

/// Group, resource, verbs, names.
type Rule = (&'static str, &'static str, &'static [&'static str], &'static str);

/// What the code calls: by the name of the role, of the cluster and of our own namespace. For kinds that are watched see
/// [`watched`].
struct Used {
    role: &'static str,
    /// Where in `webhook-config`; `None`: in the chart only.
    component: Option<&'static str>,
    cluster: &'static [Rule],
    own: &'static [Rule],
    /// Kinds that it watches, of [`WATCHED`].
    watches: fn(Part) -> bool,
}

const NOTHING: fn(Part) -> bool = |_| false;
const LEASES: Rule = ("coordination.k8s.io", "leases", &["create", "get", "update"], "");
/// An aggregated API server asks whose a token is, and who has which right.
const AGGREGATED: &[Rule] = &[
    ("", "pods", &["list", "watch"], ""),
    ("authentication.k8s.io", "tokenreviews", &["create"], ""),
    ("authorization.k8s.io", "subjectaccessreviews", &["create"], ""),
    ("metrics.k8s.io", "nodes", &["get", "list"], ""),
    ("metrics.k8s.io", "pods", &["get", "list"], ""),
];
const HOOKS: [&str; 2] = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
const EXTERNAL: &str =
    "v1beta1.custom.metrics.k8s.io,v1beta2.custom.metrics.k8s.io,v1beta1.external.metrics.k8s.io";

const USED: &[Used] = &[
    Used {
        role: "plimsoll",
        component: Some("base"),
        cluster: &[
            // A namespace that the snapshot does not hold yet.
            ("", "namespaces", &["get"], ""),
            // What the server thinks of a profile; an event repeated is an event patched.
            ("plimsoll.dev", "overcommitprofiles/status", &["patch"], ""),
            ("events.k8s.io", "events", &["create", "patch"], ""),
        ],
        own: &[],
        watches: |part| matches!(part, Part::Always),
    },
    Used {
        role: "plimsoll-recommender",
        component: Some("base"),
        cluster: &[
            ("", "pods", &["list", "watch"], ""),
            ("metrics.k8s.io", "pods", &["list"], ""),
            ("plimsoll.dev", "recommendations", &["create", "delete", "list", "patch"], ""),
            ("plimsoll.dev", "recommendations/status", &["patch"], ""),
            ("plimsoll.dev", "usagecheckpoints", &["create", "delete", "get", "list", "update"], ""),
        ],
        own: &[LEASES],
        watches: NOTHING,
    },
    Used {
        role: "plimsoll-hpa",
        component: Some("base"),
        cluster: &[
            ("", "pods", &["list", "watch"], ""),
            ("autoscaling", "horizontalpodautoscalers", &["get", "patch"], ""),
            ("*", "*/scale", &["get"], ""),
        ],
        own: &[LEASES],
        watches: |part| matches!(part, Part::Hpa),
    },
    Used {
        role: "plimsoll-certs",
        component: Some("base"),
        cluster: &[
            ("admissionregistration.k8s.io", HOOKS[0], &["get", "patch"], "plimsoll"),
            ("admissionregistration.k8s.io", HOOKS[1], &["get", "patch"], "plimsoll"),
        ],
        own: &[("", "secrets", &["get", "update"], "plimsoll-ca"), LEASES],
        watches: NOTHING,
    },
    Used {
        role: "plimsoll-certs-hpa-shim",
        component: Some("hpa-shim"),
        cluster: &[("apiregistration.k8s.io", "apiservices", &["get", "patch"], "v1beta1.metrics.k8s.io")],
        own: &[],
        watches: NOTHING,
    },
    Used {
        role: "plimsoll-certs-hpa-external",
        component: Some("hpa-external"),
        cluster: &[("apiregistration.k8s.io", "apiservices", &["get", "patch"], EXTERNAL)],
        own: &[],
        watches: NOTHING,
    },
    Used {
        role: "plimsoll-hpa-shim",
        component: Some("hpa-shim"),
        cluster: AGGREGATED,
        own: &[],
        watches: NOTHING,
    },
    Used {
        role: "plimsoll-hpa-external",
        component: Some("hpa-external"),
        cluster: AGGREGATED,
        own: &[],
        watches: NOTHING,
    },
    Used {
        role: "plimsoll-quota",
        component: Some("quota"),
        cluster: &[
            ("", "pods", &["get", "list", "watch"], ""),
            ("", "pods/eviction", &["create"], ""),
            ("", "replicationcontrollers", &["patch"], ""),
            ("admissionregistration.k8s.io", HOOKS[0], &["get", "patch"], "plimsoll-quota"),
            ("admissionregistration.k8s.io", HOOKS[1], &["get", "patch"], "plimsoll-quota"),
            ("apps", "daemonsets", &["patch"], ""),
            ("apps", "replicasets", &["patch"], ""),
            ("apps", "statefulsets", &["patch"], ""),
            ("batch", "jobs", &["patch"], ""),
            ("scheduling.sigs.k8s.io", "elasticquotatrees", &["get"], ""),
            ("scheduling.sigs.k8s.io", "elasticquotatrees/status", &["patch"], ""),
        ],
        own: &[LEASES, ("plimsoll.dev", "quotaledgers", &["create", "get", "list", "update"], "")],
        watches: |part| matches!(part, Part::Quota | Part::QuotaOrPlacement),
    },
    Used {
        role: "plimsoll-placement",
        component: Some("placement"),
        cluster: &[
            ("", "pods", &["list", "watch"], ""),
            ("metrics.k8s.io", "nodes", &["list"], ""),
            ("metrics.k8s.io", "pods", &["list"], ""),
            ("plimsoll.dev", "usagecheckpoints", &["list"], ""),
        ],
        own: &[],
        watches: |part| matches!(part, Part::QuotaOrPlacement),
    },
    Used {
        role: "plimsoll-load-class",
        component: Some("load-class"),
        cluster: &[("", "nodes", &["patch"], "")],
        own: &[LEASES],
        watches: NOTHING,
    },
    Used {
        role: "plimsoll-balance",
        component: Some("balance"),
        cluster: &[
            ("", "pods/eviction", &["create"], ""),
            ("", "persistentvolumeclaims", &["get"], ""),
            ("", "persistentvolumes", &["get"], ""),
        ],
        own: &[LEASES],
        watches: NOTHING,
    },
    // `plimsoll uninstall`, whose calls tests/uninstall.rs compares with these.
    Used {
        role: "plimsoll-uninstall",
        component: None,
        cluster: uninstall::CLUSTER,
        own: uninstall::OWN,
        watches: NOTHING,
    },
    // `plimsoll check install`.
    Used {
        role: "plimsoll-test",
        component: None,
        cluster: &[("plimsoll.dev", "overcommitprofiles", &["create"], "")],
        own: &[],
        watches: NOTHING,
    },
];

fn used(rules: &[Rule], watches: fn(Part) -> bool) -> BTreeSet<Right> {
    let right = |group: &str, resource: &str, verb: &str, names: &str| {
        [group, resource, verb, names].map(str::to_owned)
    };
    let mut rights: BTreeSet<_> = rules
        .iter()
        .flat_map(|(group, resource, verbs, names)| {
            verbs.iter().map(move |verb| right(group, resource, verb, names))
        })
        .collect();
    for kind in WATCHED.iter().filter(|kind| watches(kind.part)) {
        rights.extend(["list", "watch"].map(|verb| right(kind.group(), kind.plural, verb, "")));
    }
    rights
}

/// What a role grants.
pub(crate) fn granted(role: &Value) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        let texts = |part: &str| {
            rule[part].as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned())
        };
        let names = texts("resourceNames").collect::<Vec<_>>().join(",");
        for group in texts("apiGroups") {
            for resource in texts("resources") {
                rights.extend(
                    texts("verbs").map(|verb| [group.clone(), resource.clone(), verb, names.clone()]),
                );
            }
        }
    }
    rights
}

/// Compares roles with what the code calls; each role must be one that is known, and be bound to the account of its name.
pub(crate) fn check(objects: &[Value], whose: &str) {
    let roles = |kind: &str| objects.iter().filter(move |object| object["kind"] == kind).collect::<Vec<_>>();
    for role in [roles("ClusterRole"), roles("Role")].concat() {
        let name = role["metadata"]["name"].as_str().unwrap();
        let part = USED.iter().find(|used| used.role == name);
        let part = part.unwrap_or_else(|| panic!("{whose}: nobody knows what {name} is for"));
        let is_own = role["kind"] == "Role";
        let want = if is_own { used(part.own, NOTHING) } else { used(part.cluster, part.watches) };
        assert_eq!(granted(role), want, "{whose}: {} {name}", role["kind"]);
        let binding = if is_own { "RoleBinding" } else { "ClusterRoleBinding" };
        let bound = roles(binding).into_iter().find(|binding| binding["metadata"]["name"] == name);
        let bound = bound.unwrap_or_else(|| panic!("{whose}: {binding} {name} is missing"));
        assert_eq!(bound["roleRef"]["name"], name, "{whose}");
        assert_eq!(bound["roleRef"]["kind"], role["kind"], "{whose}");
        assert_eq!(bound["metadata"]["namespace"], role["metadata"]["namespace"], "{whose}: {name}");
        let account = if ["plimsoll-uninstall", "plimsoll-test"].contains(&name) { name } else { "plimsoll" };
        assert_eq!(
            bound["subjects"],
            json!([{"kind": "ServiceAccount", "name": account, "namespace": "plimsoll-system"}]),
            "{whose}: {name}"
        );
        if is_own {
            assert_eq!(role["metadata"]["namespace"], "plimsoll-system", "{whose}: {name}");
        }
    }
}

/// The objects of the base or a component.
fn objects(of: &str) -> Vec<Value> {
    let folder = root().join("webhook-config");
    let folder = if of == "base" { folder.join(of) } else { folder.join("components").join(of) };
    files().iter().filter(|file| file.starts_with(&folder)).flat_map(|file| documents(file)).collect()
}

#[test]
fn rights_are_those_in_use() {
    let parts: BTreeSet<_> = USED.iter().filter_map(|used| used.component).collect();
    for part in &parts {
        let objects = objects(part);
        check(&objects, part);
        for used in USED.iter().filter(|used| used.component == Some(part)) {
            let has = |kind: &str| {
                objects.iter().any(|object| object["kind"] == kind && object["metadata"]["name"] == used.role)
            };
            assert!(has("ClusterRole"), "{part}: {}", used.role);
            assert_eq!(has("Role"), !used.own.is_empty(), "{part}: {}", used.role);
        }
    }
    for file in files() {
        for object in documents(&file).iter().filter(|object| object["$patch"] != "delete") {
            if matches!(object["kind"].as_str(), Some("ClusterRole" | "Role")) {
                let known = parts.iter().any(|part| file.parent().unwrap().ends_with(part));
                assert!(known, "{}: nobody compares it", file.display());
            }
        }
    }
}

#[test]
fn rights_are_listed_one_by_one() {
    for role in files().iter().flat_map(|file| documents(file)) {
        if !matches!(role["kind"].as_str(), Some("ClusterRole" | "Role")) || role["$patch"] == "delete" {
            continue;
        }
        for rule in role["rules"].as_array().unwrap() {
            // An autoscaler may name a kind of any group; its scale is read and nothing else.
            let is_scale = rule["resources"] == json!(["*/scale"]) && rule["verbs"] == json!(["get"]);
            for part in ["verbs", "resources", "apiGroups"] {
                let list = rule[part].as_array().unwrap_or_else(|| panic!("no {part} in {rule}"));
                assert!(!list.is_empty(), "{part} in {rule}");
                let any_group = part == "apiGroups" && is_scale;
                assert!(any_group || !list.contains(&json!("*")), "{part} in {rule}");
            }
            if rule["resources"].as_array().unwrap().contains(&json!("secrets")) {
                assert_eq!(role["kind"], "Role", "of our own namespace only: {rule}");
                assert_eq!(rule["resourceNames"], json!(["plimsoll-ca"]), "and of those one");
                assert_eq!(rule["resources"], json!(["secrets"]), "{rule}");
            }
        }
    }
}

/// Whose client certificates may speak for others is told by a ConfigMap of Kubernetes' own.
#[test]
fn the_aggregated_api_reads_who_may_speak_for_others() {
    for name in ["hpa-shim", "hpa-external"] {
        let binding = component(name, "RoleBinding")[0].clone();
        assert_eq!(binding["metadata"]["namespace"], "kube-system", "{name}");
        assert_eq!(binding["roleRef"]["name"], "extension-apiserver-authentication-reader", "{name}");
        for kind in ["RoleBinding", "NetworkPolicy"] {
            assert_eq!(component(name, kind)[0]["metadata"]["name"], format!("plimsoll-{name}"), "{name}");
        }
    }
}
