//! The watches against an API server that is absent, forgetful, wrong, or down.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

#[path = "cluster/autoscalers.rs"]
mod autoscalers;
#[path = "cluster/facts.rs"]
mod facts;
#[path = "cluster/failures.rs"]
mod failures;
#[path = "cluster/fake.rs"]
mod fake;
#[path = "cluster/namespaces.rs"]
mod namespaces;
#[path = "cluster/pods.rs"]
mod pods;
#[path = "cluster/profiles.rs"]
mod profiles;
#[path = "cluster/quota.rs"]
mod quota;
#[path = "cluster/replica.rs"]
mod replica;
#[path = "cluster/rights.rs"]
mod rights;
