//! From what is known, and what is configured, to what the plan needs.

use std::time::Duration;

use plimsoll_core::balance::{
    BalanceNode, BalanceSettings, Claims, Input, PodUses, QuotaRoom, Round, State, plan,
};
use plimsoll_core::placement::{ContainerUse, View};

use crate::config;

/// Plans by what is known at one moment.
pub fn plan_by(
    view: &View<'_>,
    containers: &[ContainerUse],
    claims: &Claims,
    quota: Option<&QuotaRoom<'_>>,
    settings: &BalanceSettings,
    state: &State,
) -> Round {
    let nodes = BalanceNode::all(view);
    let uses = PodUses::new(containers, &nodes, view.placed);
    let input = Input {
        nodes: &nodes,
        pods: view.placed,
        usage: &|pod| uses.of(pod),
        claims,
        quota,
        load: &view.settings.load,
        settings,
        now: view.now,
        node_lost: view.node_lost,
    };
    plan(&input, state)
}

/// What the plan needs of the configuration. `node_lost` is in seconds.
pub fn settings(config: &config::Balance, node_lost: i64) -> BalanceSettings {
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    BalanceSettings {
        threshold: config.threshold,
        rounds: config.rounds,
        min_replicas: config.min_replicas,
        minimum_age: seconds(config.minimum_age),
        cooldown: seconds(config.cooldown),
        evictions_per_hour: config.evictions_per_hour,
        excluded_namespaces: config.excluded_namespaces.iter().cloned().collect(),
        evict_local_storage: config.evict_local_storage,
        node_lost,
    }
}
