//! `OvercommitProfile`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// Which pods, and how their requests are lowered. With no matching profile nothing is lowered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "OvercommitProfile",
    plural = "overcommitprofiles",
    shortname = "ocp",
    category = "plimsoll",
    status = "OvercommitProfileStatus",
    derive = "PartialEq",
    doc = "Says which pods get lowered requests, and how they are lowered. Limits are never changed.",
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "Apply", type_ = "boolean", json_path = ".spec.apply"),
    printcolumn(name = "Basis", type_ = "string", json_path = ".spec.basis", priority = 1),
    printcolumn(
        name = "Valid",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Valid\")].status",
        description = "False: the profile is not used; the condition's message says why"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct OvercommitProfileSpec {
    /// The highest matching profile wins; at equal priority the name that sorts first. Default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub priority: Option<i32>,
    /// Which pods. All given parts must hold; an absent part holds for every pod.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<MatchSpec>,
    /// How requests are lowered. Off: not at all. Static: by factors. Dynamic: by recommendations from measured
    /// usage. StaticThenDynamic: by recommendations where there are usable ones, else by factors. Default Off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Off"))]
    pub mode: Option<Mode>,
    /// False: recommendations are made and can be read, pods are not changed. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub apply: Option<bool>,
    /// The figure that the utilisation target of a HorizontalPodAutoscaler is meant against. Default Request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Request"))]
    pub basis: Option<Basis>,
    /// Lowering by fixed factors.
    #[serde(default, rename = "static", skip_serializing_if = "Option::is_none")]
    pub fixed: Option<StaticSpec>,
    /// Lowering by what was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic: Option<DynamicSpec>,
    /// Whether pods of QoS class Guaranteed are lowered, which makes them Burstable. Default Apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guaranteed_pods: Option<GuaranteedPods>,
    /// Who may opt out with plimsoll.dev/overcommit: "disabled". Pod: pods and namespaces. Namespace: namespaces
    /// only. None: nobody. Default Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opt_out: Option<OptOut>,
    /// What becomes of autoscalers whose pods get lowered requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpa: Option<HpaSpec>,
}

/// Which pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MatchSpec {
    /// By the labels of the pod's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// By the pod's own labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// By pool: the value of the label plimsoll.dev/pool on the namespace, else on the pod, else in its nodeSelector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::pools")]
    pub pools: Option<Vec<String>>,
    /// By the kind of the topmost owner, such as Deployment or CloneSet; a pod without controller is of kind Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::workload_kinds")]
    pub workload_kinds: Option<Vec<String>>,
}

/// A label selector. The empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must be there with these values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::match_labels")]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// Requirements that must all hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "maxItems" = 32))]
    pub match_expressions: Option<Vec<LabelExpression>>,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::expression_rules()))]
pub struct LabelExpression {
    /// The label's key.
    #[schemars(schema_with = "schema::label_key")]
    pub key: String,
    /// In and NotIn compare with values; Exists and DoesNotExist take none.
    pub operator: ExpressionOperator,
    /// The values that In and NotIn compare with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_values")]
    pub values: Option<Vec<String>>,
}

/// Lowering by fixed factors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticSpec {
    /// By resource: the lowered request is the request times this factor, a decimal string above "0" and at most
    /// "1". A resource that is absent is left alone. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::factors")]
    pub factors: Option<BTreeMap<String, String>>,
    /// Lowered memory requests are rounded up to a multiple of this. Default 1Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::rounding")]
    pub rounding_memory: Option<IntOrString>,
    /// By resource: requests are not lowered below this. A map that is given, even an empty one, replaces the
    /// default of 10m for cpu and 16Mi for memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::minimum")]
    pub minimum: Option<BTreeMap<String, IntOrString>>,
}

/// Lowering by what was used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicSpec {
    /// For which resources recommendations are used; leave memory out to keep memory requests as they are.
    /// Default both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "set", "maxItems" = 2))]
    pub resources: Option<Vec<ResourceName>>,
    /// What one recommendation stands for. Default Workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granularity: Option<Granularity>,
    /// Where the fields below that are not given take their values from. Seed: cautious for cpu, little history.
    /// Tuned: what replaying real usage found better, memory above all. Default Seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// By resource: which percentile of the usage is the target, 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::percentile")]
    pub percentile: Option<BTreeMap<String, i32>>,
    /// By resource: after this time a sample counts half, such as 24h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::half_life")]
    pub half_life: Option<BTreeMap<String, String>>,
    /// By resource: the target is multiplied by this decimal string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::expansion")]
    pub expansion: Option<BTreeMap<String, String>>,
    /// By resource: added after the expansion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::margin")]
    pub margin: Option<BTreeMap<String, IntOrString>>,
    /// How CPU samples weigh. Request: by the container's original request in cores. A decimal string: all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::cpu_sample_weight")]
    pub cpu_sample_weight: Option<String>,
    /// PerScan: each scan's working set is a sample. PeakPerInterval: the peak of each day is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_samples: Option<MemorySamples>,
    /// A recommendation is used once its first and last sample are this far apart. Default 24h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub minimum_history: Option<String>,
    /// A recommendation whose last sample is older is not used. Default 8d.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::positive_duration")]
    pub maximum_age: Option<String>,
}

/// What becomes of autoscalers whose pods get lowered requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HpaSpec {
    /// How a HorizontalPodAutoscaler keeps its meaning. Convert: utilisation targets become average values. Shim: the
    /// controller is told scaled usage by metrics.k8s.io. External: it uses the metrics served by
    /// custom.metrics.k8s.io or external.metrics.k8s.io. Off: it means the lowered requests. Default hpa.mode of the
    /// configuration, which is Convert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<HpaMode>,
}

/// What the server found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvercommitProfileStatus {
    /// The generation of the spec that the conditions are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Valid says whether the profile is used; its message lists everything that is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Defines an enum whose variants are the words a field may hold.
macro_rules! words {
    ($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $variant_doc:literal])* $variant:ident $(= $text:literal)?),+ $(,)? }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[doc = $variant_doc])* $(#[serde(rename = $text)])? $variant),+
        }

        // Written by hand: derived, each variant's documentation makes a schema of its own, which a structural
        // schema cannot hold.
        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": [$(words!(@text $variant $($text)?)),+] })
            }
        }
    };
    (@text $variant:ident $text:literal) => { $text };
    (@text $variant:ident) => { stringify!($variant) };
}

words! {
    /// How requests are lowered.
    Mode {
        /// Not at all.
        Off,
        /// By factors.
        Static,
        /// By recommendations only.
        Dynamic,
        /// By recommendations where there are usable ones, else by factors.
        StaticThenDynamic,
    }
}

words! {
    /// The figure that HPA utilisation is meant against.
    Basis {
        /// The original request.
        Request,
        /// The limit.
        Limit,
    }
}

words! {
    /// What happens to pods of QoS class Guaranteed.
    GuaranteedPods {
        /// They are lowered, and become Burstable.
        Apply,
        /// They are left alone.
        Skip,
    }
}

words! {
    /// Who may opt out.
    OptOut {
        /// Pods and namespaces.
        Pod,
        /// Namespaces only.
        Namespace,
        /// Nobody.
        None,
    }
}

words! {
    /// A resource that recommendations exist for.
    ResourceName {
        /// CPU time.
        Cpu = "cpu",
        /// Memory.
        Memory = "memory",
    }
}

words! {
    /// What one recommendation stands for.
    Granularity {
        /// All pods of a namespace, by container name.
        Namespace,
        /// All pods of a workload.
        Workload,
        /// One pod.
        Pod,
    }
}

words! {
    /// Named sets of dynamic values.
    Preset {
        /// P95 and P99, half-life 24h, expansion 1.15, no margin.
        Seed,
        /// CPU P95 with half-life 6h, memory P90 of daily peaks with half-life 168h and a margin of 256Mi.
        Tuned,
    }
}

words! {
    /// Which memory samples count.
    MemorySamples {
        /// Each scan's working set.
        PerScan,
        /// The peak of each window.
        PeakPerInterval,
    }
}

words! {
    /// What must be true of a label.
    ExpressionOperator {
        /// It is there, with one of the values.
        In,
        /// It is absent, or has another value.
        NotIn,
        /// It is there.
        Exists,
        /// It is absent.
        DoesNotExist,
    }
}

words! {
    /// How an autoscaler keeps its meaning.
    HpaMode {
        /// Its utilisation targets are turned into average values.
        Convert,
        /// Its controller is told scaled usage.
        Shim,
        /// It uses metrics that we serve.
        External,
        /// It means the lowered requests.
        Off,
    }
}
