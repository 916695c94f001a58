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
            log: RawLog::default(),
            profiles: json!([]),
        }
    }
}

/// Defines a section: its settings in the order of the documentation, each with its default.
macro_rules! section {
    ($(#[$meta:meta])* $name:ident { $($field:ident: $default:tt,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        pub(crate) struct $name {
            $(pub(crate) $field: Value,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: json!($default),)+ }
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
    /// Logging.
    RawLog {
        level: "info",
        format: "Auto",
    }
}
