//! A control plane, the server under test, and what scenarios need to talk to both.

pub(crate) mod aggregated;
pub(crate) mod autoscaling;
pub(crate) mod certificates;
pub(crate) mod cluster;
pub(crate) mod control_plane;
pub(crate) mod creates;
pub(crate) mod extender;
pub(crate) mod helm;
pub(crate) mod hpa;
pub(crate) mod install;
pub(crate) mod kruise;
pub(crate) mod kubelet;
pub(crate) mod metrics_server;
pub(crate) mod net;
pub(crate) mod network;
pub(crate) mod node_load;
pub(crate) mod objects;
pub(crate) mod placement;
pub(crate) mod playground;
pub(crate) mod pod_watch;
pub(crate) mod pods;
pub(crate) mod process;
pub(crate) mod prometheus;
pub(crate) mod quota;
pub(crate) mod scheduler;
pub(crate) mod server;
pub(crate) mod service;
pub(crate) mod tools;
pub(crate) mod usage;
pub(crate) mod wait;
pub(crate) mod webhook;
pub(crate) mod world;

pub(crate) use wait::until;
pub(crate) use world::{Unsuited, World};

/// Fails the scenario, naming what was compared, unless both sides are equal.
macro_rules! check_eq {
    ($got:expr, $want:expr, $($what:tt)+) => {{
        match (&$got, &$want) {
            (got, want) => {
                anyhow::ensure!(got == want, "{}: got {:?}, want {:?}", format!($($what)+), got, want);
            }
        }
    }};
}
pub(crate) use check_eq;
