//! What `webhook-config` and the Helm chart say.
//!
//! The plain tests read the files. What is rendered needs kubectl and helm, so that runs with the end-to-end tests:
//! `cargo test --features e2e --test kustomize`; `UPDATE_SNAPSHOTS=1` writes the snapshots anew.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "all of this is a test; reading a JSON value that is not there gives null"
)]

#[path = "kustomize/chart.rs"]
mod chart;
#[cfg(feature = "e2e")]
#[path = "kustomize/compared.rs"]
mod compared;
#[path = "kustomize/components.rs"]
mod components;
#[path = "kustomize/files.rs"]
mod files;
#[path = "kustomize/pods.rs"]
mod pods;
#[cfg(feature = "e2e")]
#[path = "kustomize/rendered.rs"]
mod rendered;
#[path = "kustomize/rights.rs"]
mod rights;
#[cfg(feature = "e2e")]
#[path = "kustomize/schema.rs"]
mod schema;
#[cfg(feature = "e2e")]
#[path = "kustomize/snapshots.rs"]
mod snapshots;
#[path = "kustomize/support.rs"]
mod support;
#[path = "uninstall/rights.rs"]
mod uninstall;
#[path = "kustomize/webhooks.rs"]
mod webhooks;
