//! What is tested, by subject. Each scenario makes its own namespace and profile and leaves nothing behind.

mod availability;
mod hpa;
mod install;
mod limit_range;
mod manifests;
mod opt_out;
mod placement;
mod pods;
mod profiles;
mod quota;
mod recommendations;
mod recommender;
mod reinvocation;
mod stand_ins;
mod workloads;

use futures_util::FutureExt;

use crate::runner::Scenario;
use hpa::{
    convert as hpa_convert, facts as hpa_facts, intent as hpa_intent, life as hpa_life, native as hpa_native,
    restore as hpa_restore, shim as hpa_shim,
};
use install::{
    certificates as install_certificates, definitions as install_definitions, helm as install_helm,
    overlays as install_overlays,
};
use placement::{
    balance as placement_balance, load as placement_load, outage as placement_outage,
    refusals as placement_refusals, spread as placement_spread, told as placement_told,
    wire as placement_wire,
};
use quota::{
    concurrency as quota_concurrency, flavors as quota_flavors, input as quota_input, ledger as quota_ledger,
    load as quota_load, outage as quota_outage, reclaim as quota_reclaim, resize as quota_resize,
    status as quota_status, trees as quota_trees, verdicts as quota_verdicts, walk as quota_walk,
};

macro_rules! scenarios {
    ($($module:ident: $($name:ident),+ $(,)?;)+) => {
        vec![$($(Scenario {
            name: concat!(stringify!($module), "::", stringify!($name)),
            run: |world| $module::$name(world).boxed_local(),
        }),+),+]
    };
}

/// Measurements, which are no part of the tests: with `PLIMSOLL_E2E_LOAD` set they are all there is.
fn measurements() -> Vec<Scenario> {
    scenarios! { quota_load: throughput; }
}

/// All scenarios, in the order in which they run.
pub(crate) fn all() -> Vec<Scenario> {
    if std::env::var_os("PLIMSOLL_E2E_LOAD").is_some() {
        return measurements();
    }
    scenarios! {
        manifests: accepted_by_the_api_server, sample_profiles_accepted, nothing_lowered_without_a_profile;
        workloads: deployment, stateful_set, job, cron_job, bare_pod;
        pods: originals_recorded_and_limits_kept, pod_level_resources, init_container_and_sidecar,
            extended_resource_untouched, server_side_dry_run, kube_system_untouched, update_untouched,
            namespace_of_the_same_second;
        opt_out: pod_annotation, namespace_label, namespace_annotation, refused_where_enforced, unknown_value_warns;
        limit_range: container_minimum, container_ratio;
        reinvocation: injected_sidecar;
        profiles: every_error_in_one_refusal, schema_refuses, rule_of_the_schema_refuses,
            bad_one_says_so_in_its_status, edit_is_followed;
        stand_ins: prometheus, kruise_workloads, kills_for_memory;
        recommendations: from_metrics_server, static_then_dynamic, asked_but_not_applied, kinds_of_workload,
            rollout_adds_nothing, granularities, kills_raise_memory;
        recommender: restart_forgets_nothing, leader_dies, leader_leaves, shards, source_away, history,
            explained, container_renamed;
        hpa_native: counts;
        hpa_convert: counts;
        hpa_life: never_scaled;
        hpa_intent: edits, applied_again, request_missing, nobody_there, record_cut_off, opted_out;
        hpa_restore: all, one;
        hpa_shim: counts, life;
        hpa_facts: ownership, versions;
        quota_walk: four_deployments;
        quota_verdicts: vectors, two_namespaces_in_a_leaf, dry_runs;
        quota_concurrency: last_slot, burst, twice_the_same_name, replicas_die, others_are_not_slowed;
        quota_reclaim: victims, budget_of_all, disruption_budgets, two_owners_at_once, freed_room_is_held, labels_of_borrowers;
        quota_trees: edited_under_load, wrong_ones_refused, not_from_under_its_pods, wrong_one_stored;
        quota_ledger: deleted, vanished, damaged;
        quota_outage: nobody_there;
        quota_resize: in_place;
        quota_flavors: affinity, refused, scheduled;
        quota_status: used, events, selectors;
        quota_input: large_and_deep;
        placement_wire: stand_in;
        placement_load: idle_node, hot_spot, unmeasured, metrics_server;
        placement_spread: burst, flood, replicas;
        placement_outage: stopped_and_hanging;
        placement_refusals: thresholds;
        placement_told: load_class, crane_and_trimaran;
        placement_balance: the_right_pod, comes_to_rest, only_told, node_lost, leader_dies;
        availability: server_gone, certificate_replaced_twice, certificate_of_our_own_making,
            rolling_restart;
        install_helm: defaults, second_release, upgrade;
        install_definitions: of_another_version;
        install_certificates: rotation, replicas, right_taken_away;
        install_helm: uninstall;
        install_overlays: self_managed, cert_manager, ha, fail_closed, quota, hpa_shim, placement;
    }
}
