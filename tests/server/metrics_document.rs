//! `docs/metrics.md` says exactly what is exposed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::StatusCode;
use plimsoll::metrics::{
    LoadOf, Metrics, NamespaceRead, Operation, ProfileState, ReloadResult, SampleOutcome,
};
use plimsoll::server::Stage;
use plimsoll_core::quota::Amounts;

type Families = BTreeMap<String, (String, BTreeSet<String>)>;

/// Names, types and labels in the table of the document.
fn documented() -> Families {
    let document = include_str!("../../docs/metrics.md");
    let mut families = Families::new();
    for line in
        document.lines().filter(|line| line.starts_with("| `plimsoll_") || line.starts_with("| `process_"))
    {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, meaning] = cells[..] else { panic!("four columns expected: {line}") };
        assert!(!meaning.is_empty(), "{line}");
        let labels = labels.split(',').map(|label| label.trim().trim_matches('`').to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        let name = name.trim_matches('`').to_owned();
        assert!(families.insert(name, (kind.to_owned(), labels)).is_none(), "twice: {line}");
    }
    families
}

/// Names, types and labels in what a registry prints.
fn exposed(text: &str) -> Families {
    let mut families = Families::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            current = format!("{name}{suffix}");
            let twice = families.insert(current.clone(), (kind.to_owned(), BTreeSet::new()));
            assert!(twice.is_none(), "{current} is registered twice");
        } else if let Some((_, rest)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
            let labels = rest.split_once('}').unwrap().0.split(',');
            let names = labels.map(|label| label.split_once('=').unwrap().0.to_owned());
            families.get_mut(&current).unwrap().1.extend(names.filter(|name| name != "le"));
        }
    }
    families
}

/// Metrics in which every family has a series.
fn used() -> Metrics {
    let metrics = Metrics::new("1.2.3");
    metrics.admission_request(Stage::Mutate, Operation::Create, "applied");
    metrics.snapshot_objects("pods", 3);
    metrics.snapshot_synced("pods", true);
    metrics.snapshot_heard("pods");
    metrics.watch_error("pods");
    metrics.object_refused("pods");
    metrics.degraded("crd_absent", true);
    metrics.leader("recommender", 0, true);
    metrics.recommender_size(0, 3, 900);
    metrics.recommender_source(0, Some(5.0), None);
    metrics.recommender_skipped(SampleOutcome::Future, 2);
    let cores = Amounts::from_iter([("cpu", 40_000_000_000)]);
    metrics.load_answered(LoadOf::Nodes, "prometheus");
    metrics.load_window_missing("1d", 1);
    metrics.quota_tree("elastic", &cores, &cores, &cores);
    metrics
}

#[test]
#[cfg(target_os = "linux")]
fn the_document_and_the_program_agree() {
    let (documented, exposed) = (documented(), exposed(&used().encode()));
    for (name, family) in &exposed {
        assert_eq!(documented.get(name), Some(family), "{name} is exposed; what does docs/metrics.md say?");
    }
    for name in documented.keys() {
        assert!(exposed.contains_key(name), "{name} is documented and not exposed");
    }
}

#[test]
fn no_label_grows_with_the_cluster() {
    for (name, (_, labels)) in documented() {
        for label in ["namespace", "pod", "workload", "node", "name"] {
            assert!(!labels.contains(label), "{name}");
        }
    }
}

#[test]
fn what_is_counted_is_printed() {
    let metrics = used();
    metrics.admission_duration(Stage::Validate, Duration::from_micros(300));
    metrics.requested_cpu(1.5, 0.5);
    metrics.requested_cpu(f64::NAN, -1.0);
    metrics.requested_memory(1024.0, 1024.0);
    metrics.namespace_read(NamespaceRead::Found);
    metrics.self_check_failure();
    metrics.listener().http_rejected(StatusCode::NOT_FOUND);
    metrics.config_reload(ReloadResult::Refused);
    metrics.config_loaded(1.5);
    metrics.profiles(ProfileState::Valid, 2);
    metrics.degraded("crd_absent", false);
    let in_flight = metrics.admission_in_flight();
    let text = metrics.encode();
    drop(in_flight);
    for line in [
        "plimsoll_build_info{version=\"1.2.3\"} 1",
        "plimsoll_admission_requests_total{stage=\"mutate\",operation=\"create\",outcome=\"applied\"} 1",
        "plimsoll_admission_duration_seconds_bucket{le=\"0.00025\",stage=\"validate\"} 0",
        "plimsoll_admission_duration_seconds_bucket{le=\"0.0005\",stage=\"validate\"} 1",
        "plimsoll_admission_duration_seconds_bucket{le=\"1.0\",stage=\"validate\"} 1",
        "plimsoll_admission_in_flight 1",
        "plimsoll_requested_before_cpu_cores_total 1.5",
        "plimsoll_requested_after_cpu_cores_total 0.5",
        "plimsoll_requested_after_memory_bytes_total 1024.0",
        "plimsoll_namespace_reads_total{result=\"found\"} 1",
        "plimsoll_self_check_failures_total 1",
        "plimsoll_http_rejected_total{code=\"404\"} 1",
        "plimsoll_config_reloads_total{result=\"refused\"} 1",
        "plimsoll_config_reloads_total{result=\"success\"} 0",
        "plimsoll_config_last_reload_success_timestamp_seconds 1.5",
        "plimsoll_profiles{state=\"valid\"} 2",
        "plimsoll_snapshot_objects{kind=\"pods\"} 3",
        "plimsoll_snapshot_synced{kind=\"pods\"} 1",
        "plimsoll_watch_errors_total{kind=\"pods\"} 1",
        "plimsoll_degraded{reason=\"crd_absent\"} 0",
        "plimsoll_leader{part=\"recommender\",shard=\"0\"} 1",
        "plimsoll_recommender_samples_total{outcome=\"future\"} 2",
        "plimsoll_recommender_samples_total{outcome=\"accepted\"} 0",
        "plimsoll_recommender_aggregates{shard=\"0\"} 3",
        "plimsoll_recommender_writes_total{kind=\"UsageCheckpoint\",result=\"conflict\"} 0",
        "plimsoll_quota_decisions_total{outcome=\"reclaim\"} 0",
        "plimsoll_quota_evictions_total{result=\"refused\"} 0",
        "plimsoll_quota_max{tree=\"elastic\",resource=\"cpu\"} 40.0",
    ] {
        assert!(text.lines().any(|printed| printed == line), "{line} is missing in\n{text}");
    }
    assert!(metrics.encode().contains("plimsoll_admission_in_flight 0\n"));
}
