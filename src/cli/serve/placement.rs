//! Placement as a part of `serve`.

use std::sync::Arc;

use kube::Client;

use super::process::Process;
use crate::placement::{PlacementState, lead, load, run};
use crate::recommender::sources::prometheus::Labels;

/// What placement knows, where it is enabled: nothing yet.
pub(super) fn state(process: &Process) -> Option<PlacementState> {
    let placement = &process.config.placement;
    placement.enabled.then(|| PlacementState::new(placement.settings.clone(), process.snapshots.current()))
}

/// Starts what keeps it.
pub(super) fn start(process: &Process, client: &Client, state: &PlacementState) {
    let Process { config, metrics, readiness, tasks, snapshots, .. } = process;
    let following = run::follow_pods(
        client.clone(),
        state.clone(),
        Arc::clone(snapshots),
        Arc::clone(metrics),
        readiness.condition("pods of placement"),
        tasks.cancelled(),
    );
    tasks.spawn("pods of placement", following);
    let reading = load::Parts {
        config: config.placement.clone(),
        labels: Labels {
            namespace: config.recommender.prometheus.namespace_label.clone(),
            pod: config.recommender.prometheus.pod_label.clone(),
            container: config.recommender.prometheus.container_label.clone(),
        },
        cluster: config.cluster.clone(),
        state: state.clone(),
        metrics: Arc::clone(metrics),
    };
    tasks.spawn("load of nodes", load::run(reading, tasks.cancelled()));
    let load = readiness.condition("load of nodes");
    load.degraded("the load of nodes was not read yet");
    let looking = run::look_at_nodes(
        state.clone(),
        Arc::clone(snapshots),
        Arc::clone(metrics),
        load,
        config.placement.load.maximum_age,
        tasks.cancelled(),
    );
    tasks.spawn("nodes of placement", looking);
    if config.placement.leads() {
        let parts = lead::Parts {
            config: config.placement.clone(),
            own_namespace: config.admission.own_namespace.clone(),
            state: state.clone(),
            snapshots: Arc::clone(snapshots),
            metrics: Arc::clone(metrics),
        };
        tasks.spawn("placement leader", lead::lead(client.clone(), parts, tasks.cancelled()));
    }
}
