//! Certificates that Plimsoll looks after itself (`tls.source: SelfManaged`).
//!
//! One authority for all replicas lives in a Secret. Every replica reads it there and signs a short-lived certificate of
//! its own in memory ([`leaf`]). One replica, found by a Lease, makes the authority, replaces it before it ends, and
//! writes it into the `caBundle` of exactly our webhook configurations and `APIService`s ([`keeper`]). What is done next
//! is decided by a pure function ([`plan`]).
//!
//! Nobody signs with an authority before every `caBundle` has held it for a while, and it leaves them only after every
//! certificate signed with it has ended: so no call fails while authorities change.

pub mod authority;
pub mod bundles;
pub mod keeper;
pub mod leaf;
pub mod plan;
pub mod secret;
pub mod store;

pub use self::authority::Authority;
pub use self::leaf::Held;

/// The name of the part, in the Lease (`plimsoll-certs`) and in metrics.
pub const PART: &str = "certs";

/// The names by which a Service is reached, the one of the API server's calls first.
#[must_use]
pub fn service_names(service: &str, namespace: &str) -> Vec<String> {
    vec![
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
        format!("{service}.{namespace}"),
        service.to_owned(),
    ]
}
