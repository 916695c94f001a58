//! The configuration as it is written: every setting with its default, nothing judged yet.
//!
//! Settings are untyped here so that one wrong value does not hide the next one; [`super::checked`] gives them
//! their types and reports everything that is wrong at once. This struct is the one list of settings: the known
//! keys, the names of the environment variables and the test of `docs/configuration.md` are derived from it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// All settings, as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawConfig {
    pub(crate) server: RawServer,
    pub(crate) tls: RawTls,
    pub(crate) probes: RawProbes,
    pub(crate) admission: RawAdmission,
    pub(crate) cluster: RawCluster,
    pub(crate) recommender: RawRecommender,
    pub(crate) quota: RawQuota,
    pub(crate) hpa: RawHpa,
    pub(crate) placement: RawPlacement,
    pub(crate) api: RawApi,
    pub(crate) log: RawLog,
    pub(crate) profiles: Value,
}

impl Default for RawConfig {
    fn default() -> Self {
        Self {
            server: RawServer::default(),
            tls: RawTls::default(),
            probes: RawProbes::default(),
            admission: RawAdmission::default(),
            cluster: RawCluster::default(),
            recommender: RawRecommender::default(),
            quota: RawQuota::default(),
            hpa: RawHpa::default(),
            placement: RawPlacement::default(),
            api: RawApi::default(),
            log: RawLog::default(),
            profiles: json!([]),
        }
    }
}

/// Defines a section: its settings in the order of the documentation, each with its default; then the sections in it.
macro_rules! section {
    ($(#[$meta:meta])* $name:ident { $($field:ident: $default:tt,)+ } $(with { $($inner:ident: $section:ident,)+ })?) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        pub(crate) struct $name {
            $(pub(crate) $field: Value,)+
            $($(pub(crate) $inner: $section,)+)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: json!($default),)+ $($($inner: $section::default(),)+)? }
            }
        }
    };
}

section! {
    /// The HTTPS listener for admission.
    RawServer {
        address: "0.0.0.0:8443",
        http2: false,
        concurrency: 0,
        queue_deadline: "1s",
        max_connections: 4096,
        header_bytes: "16Ki",
        header_timeout: "5s",
        body_bytes: "7Mi",
        body_timeout: "10s",
        idle_timeout: "120s",
        drain_delay: "10s",
        shutdown_timeout: "30s",
        client_auth: "None",
    }
}

section! {
    /// Certificates.
    RawTls {
        source: "Files",
        certificate: "/etc/plimsoll/tls/tls.crt",
        key: "/etc/plimsoll/tls/tls.key",
        client_ca: null,
        poll_interval: "5s",
        min_version: "1.2",
        names: ["localhost", "127.0.0.1"],
    } with {
        self_managed: RawSelfManaged,
    }
}

section! {
    /// Certificates that replicas sign for themselves.
    RawSelfManaged {
        secret: "plimsoll-ca",
        service: "plimsoll",
        authority_lifetime: "365d",
        certificate_lifetime: "24h",
        publish_for: "1m",
        poll_interval: "5s",
    }
}

section! {
    /// The plain HTTP listener for probes and metrics.
    RawProbes {
        address: "0.0.0.0:8081",
    }
}

section! {
    /// What the admission handlers do with namespaces.
    RawAdmission {
        excluded_namespaces: ["kube-system"],
        own_namespace: "plimsoll-system",
        namespace_read_timeout: "200ms",
    }
}

section! {
    /// How the API server is reached.
    RawCluster {
        kubeconfig: null,
        context: null,
    }
}

section! {
    /// Where usage comes from, and how often it becomes recommendations.
    RawRecommender {
        enabled: false,
        source: "MetricsServer",
        scan_interval: "1m",
        source_timeout: "30s",
        file: null,
        shards: 1,
        checkpoint_interval: "10m",
        writes_per_second: 20,
        lease_duration: "15s",
        renew_interval: "5s",
    } with {
        metrics_server: RawMetricsServer,
        prometheus: RawPrometheus,
    }
}

section! {
    /// How metrics-server is asked.
    RawMetricsServer {
        per_namespace: false,
    }
}

section! {
    /// How Prometheus, or what speaks its API, is asked.
    RawPrometheus {
        address: null,
        cpu_query: (crate::recommender::sources::prometheus::CPU_QUERY),
        memory_query: (crate::recommender::sources::prometheus::MEMORY_QUERY),
        namespace_label: "namespace",
        pod_label: "pod",
        container_label: "container",
        bearer_token_file: null,
        username: null,
        password_file: null,
        ca_file: null,
        client_certificate: null,
        client_key: null,
        headers: [],
        history: "8d",
        history_step: "5m",
        history_chunk: "12h",
    }
}

section! {
    /// Elastic quota trees.
    RawQuota {
        enabled: false,
        refuse_above_cluster: false,
        admission_budget: "2s",
        reservation_age: "60s",
        webhook_timeout: "10s",
        recount_interval: "5m",
        claim_expiry: "2m",
        claim_expiry_unpatchable: "20m",
        status_interval: "5s",
        webhook_name: "plimsoll-quota",
        metrics_per_tree: true,
        lease_duration: "15s",
        renew_interval: "5s",
    } with {
        reclaim: RawReclaim,
    }
}

section! {
    /// How borrowers are evicted.
    RawReclaim {
        enabled: true,
        honour_do_not_evict: [],
    }
}

section! {
    /// How autoscalers keep their meaning.
    RawHpa {
        enabled: true,
        mode: "Convert",
        lease_duration: "15s",
        renew_interval: "5s",
        sync_interval: "1s",
        writes_per_second: 10,
    } with {
        shim: RawShim,
        external: RawExternal,
        api: RawHpaApi,
    }
}

section! {
    /// `metrics.k8s.io` for the autoscaler's controller.
    RawShim {
        enabled: false,
    }
}

section! {
    /// `custom.metrics.k8s.io` and `external.metrics.k8s.io`.
    RawExternal {
        enabled: false,
    }
}

section! {
    /// The aggregated API server.
    RawHpaApi {
        address: "0.0.0.0:8445",
        certificate: null,
        key: null,
        upstream: "https://metrics-server.kube-system.svc:443",
        upstream_ca: null,
        upstream_insecure_skip_verify: false,
        upstream_timeout: "5s",
        identities: [
            "system:serviceaccount:kube-system:horizontal-pod-autoscaler",
            "system:kube-controller-manager"
        ],
        front_proxy_interval: "5s",
    }
}

section! {
    /// Where pods are placed.
    RawPlacement {
        enabled: false,
        address: "0.0.0.0:8444",
        certificate: null,
        key: null,
        client_auth: "Required",
        client_ca: null,
        policies: {"load": 1},
        points: "spread",
        replica_penalty: 2,
        weights: {},
        crane_annotations: false,
        crane_utc_offset: "+08:00",
        lease_duration: "15s",
        renew_interval: "5s",
    } with {
        load: RawPlacementLoad,
        usage: RawPlacementUsage,
        hot_spot: RawHotSpot,
        flood: RawFlood,
        filter: RawFilter,
        load_class: RawLoadClass,
        balance: RawBalance,
    }
}

section! {
    /// How the load of nodes is read.
    RawPlacementLoad {
        source: "Prometheus",
        interval: "30s",
        timeout: "10s",
        maximum_age: "5m",
        windows: {"15m": 0.2, "1h": 0.3, "1d": 0.5},
        metrics: {"cpu": 0.4, "memory": 0.3, "disk": 0.2, "load": 0.1},
        missing: 0.1,
        node_labels: ["node", "nodename", "instance"],
    } with {
        queries: RawLoadQueries,
        prometheus: RawAccess,
    }
}

section! {
    /// What Prometheus is asked about nodes.
    RawLoadQueries {
        cpu: (crate::placement::load::queries::CPU),
        memory: (crate::placement::load::queries::MEMORY),
        disk: (crate::placement::load::queries::DISK),
        load: (crate::placement::load::queries::LOAD),
        network: (crate::placement::load::queries::NETWORK),
        time: (crate::placement::load::queries::TIME),
    }
}

section! {
    /// How another Prometheus than the recommender's is reached.
    RawAccess {
        address: null,
        bearer_token_file: null,
        username: null,
        password_file: null,
        ca_file: null,
        client_certificate: null,
        client_key: null,
        headers: [],
    }
}

section! {
    /// How it is read what containers use.
    RawPlacementUsage {
        enabled: true,
        interval: "1m",
    } with {
        queries: RawUsageQueries,
    }
}

section! {
    /// What Prometheus is asked about containers.
    RawUsageQueries {
        cpu: (crate::placement::load::queries::CONTAINER_CPU),
        memory: (crate::placement::load::queries::CONTAINER_MEMORY),
        bandwidth: (crate::placement::load::queries::POD_BANDWIDTH),
        disk: (crate::placement::load::queries::CONTAINER_DISK),
        total_bandwidth: (crate::placement::load::queries::TOTAL_BANDWIDTH),
        total_disk: (crate::placement::load::queries::TOTAL_DISK),
        idle_disk: (crate::placement::load::queries::IDLE_DISK),
    }
}

section! {
    /// Nodes to which much was bound lately.
    RawHotSpot {
        window: "1m",
        bindings: 5,
        form: "step",
        penalty: 20,
    }
}

section! {
    /// When much is bound at once.
    RawFlood {
        pending_pods: 100,
        window: "5m",
        node_lost: "10m",
        form: "buffer",
    }
}

section! {
    /// Usage above which a node is refused.
    RawFilter {
        cpu: 0.85,
        memory: 0.9,
    }
}

section! {
    /// The label that tells how loaded a node is.
    RawLoadClass {
        enabled: false,
        mid: 0.5,
        high: 0.75,
        hysteresis: 0.05,
        interval: "1m",
    }
}

section! {
    /// Pods are moved off nodes that are loaded more than the others.
    RawBalance {
        enabled: false,
        dry_run: true,
        threshold: 0.1,
        rounds: 3,
        interval: "1m",
        min_replicas: 1,
        minimum_age: "5m",
        cooldown: "10m",
        evictions_per_hour: 60,
        excluded_namespaces: ["kube-system"],
        evict_local_storage: false,
    }
}

section! {
    /// The JSON API for people and tools on this machine.
    RawApi {
        address: "127.0.0.1:8082",
    }
}

section! {
    /// Logging.
    RawLog {
        level: "info",
        format: "Auto",
    }
}
