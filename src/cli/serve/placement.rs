//! Placement as a part of `serve`.

use std::sync::Arc;

use arc_swap::ArcSwap;
use kube::Client;

use super::process::Process;
use crate::balance::Rounds;
use crate::balance::run::work;
use crate::cluster::{Leadership, LeadershipOptions};
use crate::config;
use crate::placement::publish;
use crate::placement::{PlacementState, load, run};
use crate::quota::content::Latest;
use crate::recommender::sources::prometheus::Labels;

/// What placement knows, where it is enabled: nothing yet.
pub(super) fn state(process: &Process) -> Option<PlacementState> {
    let placement = &process.config.placement;
    placement.enabled.then(|| PlacementState::new(placement.settings.clone(), process.snapshots.current()))
}

/// Starts what keeps it, and what one replica does for all. Where the last rounds of balance are told, if there are any.
pub(super) fn start(
    process: &Process,
    client: &Client,
    state: &PlacementState,
    balance: &Arc<ArcSwap<config::Balance>>,
    quota: &Latest,
) -> Option<Rounds> {
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
    lead(process, client, state, balance, quota)
}

/// Starts what one replica does for all.
fn lead(
    process: &Process,
    client: &Client,
    state: &PlacementState,
    balance: &Arc<ArcSwap<config::Balance>>,
    quota: &Latest,
) -> Option<Rounds> {
    let Process { config, metrics, tasks, .. } = process;
    let placement = &config.placement;
    if !placement.leads() {
        let telling = publish::tell_of_left_labels(Arc::clone(&process.snapshots), tasks.cancelled());
        tasks.spawn("labels of nodes", telling);
        return None;
    }
    let own_namespace = config.admission.own_namespace.clone();
    let options = LeadershipOptions::undivided(
        crate::balance::PART,
        own_namespace.clone(),
        placement.lease_duration,
        placement.renew_interval,
    );
    let identity = options.identity.clone();
    let leadership = Leadership::new(client.clone(), options, Arc::clone(metrics));
    let mut all = Vec::new();
    let mut rounds = None;
    if placement.balance.enabled {
        let told = Rounds::new(leadership.holder(), &identity, Arc::clone(balance));
        rounds = Some(told.clone());
        let parts = crate::balance::Parts {
            config: Arc::clone(balance),
            own_namespace,
            identity,
            placement: state.clone(),
            quota: Arc::clone(quota),
            rounds: told,
            metrics: Arc::clone(metrics),
        };
        let client = client.clone();
        all.push(work(move |token| crate::balance::balance(client.clone(), parts.clone(), token)));
    }
    if let Some(options) = publish::Options::of(placement) {
        let (client, state) = (client.clone(), state.clone());
        let metrics = Arc::clone(metrics);
        all.push(work(move |token| {
            publish::publish(client.clone(), options, state.clone(), Arc::clone(&metrics), token)
        }));
    }
    tasks.spawn(
        "balance leader",
        crate::balance::run::lead(leadership, state.clone(), all, tasks.cancelled()),
    );
    rounds
}
