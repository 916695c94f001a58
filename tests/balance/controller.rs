//! Evictions, and what is said of them.

use std::sync::Arc;

use plimsoll::config::Balance;
use serde_json::{Value, json};

use super::fake::FakeApi;
use super::support::{
    LEASE, MEMO, Running, config, events, eventually, evicted, evictions, lease, pod, state,
};

/// An API server that knows a lease of ours.
fn api() -> FakeApi {
    let fake = FakeApi::default();
    fake.put(LEASE, lease("a", None));
    fake
}

fn two() -> Vec<(Value, f64)> {
    vec![
        (pod("web", &json!({})), 1.0),
        (pod("api", &json!({})), 0.5),
        (pod("critical", &json!({"priority": 2_000_000_000})), 1.0),
    ]
}

fn memo(fake: &FakeApi) -> Value {
    let object = fake.object(LEASE).unwrap();
    let text = object["metadata"]["annotations"][MEMO].as_str().unwrap_or("null").to_owned();
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn one_pod_of_a_round_is_evicted() {
    let fake = api();
    let running = Running::start(&fake, state(&two()), config());
    let told = running.told("evict").await;
    assert_eq!(told["source"]["name"], "n1");
    let candidates = told["candidates"].as_array().unwrap();
    let of = |index: usize| {
        (candidates[index]["name"].as_str().unwrap(), candidates[index]["outcome"].as_str().unwrap())
    };
    assert_eq!([of(0), of(1)], [("web", "evicted"), ("api", "later")]);
    assert_eq!((&candidates[0]["target"], &candidates[0]["cpu"]), (&json!("n4"), &json!(1.0)));
    assert_eq!(
        told["spared"],
        json!([{"namespace": "shop", "name": "critical", "reason": "critical",
        "why": "it is critical for the system (priority 2000000000)"}])
    );
    let call = &evictions(&fake)[0];
    assert_eq!(call.path, "/api/v1/namespaces/shop/pods/web/eviction");
    assert_eq!(call.body["deleteOptions"], json!({"preconditions": {"uid": "uid-web"}}));

    // It was noted before.
    let seen = fake.seen();
    let at = |part: &str, method: &str| {
        seen.iter().position(|seen| seen.path.contains(part) && seen.method == method)
    };
    assert!(at("/leases/", "PUT") < at("/eviction", "POST"));
    let noted = memo(&fake);
    assert_eq!(
        (&noted["evictions"][0]["w"], &noted["evictions"][0]["n"]),
        (&json!("shop/ReplicaSet/web"), &json!("n1"))
    );
    let object = fake.object(LEASE).unwrap();
    assert_eq!(
        (&object["spec"]["holderIdentity"], &object["metadata"]["labels"]["of"]),
        (&json!("a"), &json!("others"))
    );

    // The load still shows it, and it counts no more: one is enough until the next.
    let next = running.told("evict").await;
    assert!(next["source"]["usage"].as_f64().unwrap() <= 0.80);
    eventually("events", || events(&fake, "Pod").len() + events(&fake, "Node").len() >= 2).await;
    let (reason, note) = &events(&fake, "Pod")[0];
    assert_eq!(reason, "BalanceEvicted");
    assert!(
        note.contains("node n1 is used by 0.800, 0.300 above the mean") && note.contains("n4 has room"),
        "{note}"
    );
    assert_eq!(events(&fake, "Node")[0].0, "BalanceEvicted");
    let text = running.metrics.encode();
    for line in ["plimsoll_balance_rounds_total{verdict=\"waiting\"} 2", "plimsoll_balance_mean_usage 0.5"] {
        assert!(text.contains(&format!("{line}\n")), "{line}: {text}");
    }
    running.end().await;
}

#[tokio::test]
async fn a_workload_is_left_alone_and_the_next_one_goes() {
    let fake = api();
    let running = Running::start(&fake, state(&two()), config());
    running.told("no_candidate").await;
    assert_eq!(evicted(&fake), ["web", "api"], "each once; after that both wait");
    assert!(events(&fake, "Node").iter().any(|(reason, _)| reason == "BalanceImpossible"));
    let told = running.told("no_candidate").await;
    let reasons: Vec<_> = told["spared"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| pod["reason"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(reasons, ["cooldown", "critical", "cooldown"]);
    assert!(told["source"]["usage"].as_f64().unwrap() < 0.66, "the two are taken off: {told}");
    running.end().await;
}

#[tokio::test]
async fn in_a_dry_run_nothing_is_changed() {
    let fake = api();
    let running = Running::start(&fake, state(&two()), Balance { dry_run: true, ..config() });
    let told = running.told("evict").await;
    assert_eq!(told["candidates"][0]["outcome"], "wouldBeEvicted");
    eventually("an event", || !events(&fake, "Pod").is_empty()).await;
    assert_eq!(events(&fake, "Pod")[0].0, "BalanceDryRun");
    running.told("no_candidate").await;
    let mut asked = 0;
    for seen in fake.seen().iter().filter(|seen| seen.method != "GET" && !seen.path.contains("/events")) {
        assert!(seen.path.ends_with("/eviction"), "{seen:?}");
        assert_eq!(seen.body["deleteOptions"]["dryRun"], json!(["All"]), "it is only asked");
        asked += 1;
    }
    assert_eq!(asked, 2);
    assert!(running.metrics.encode().contains("plimsoll_balance_evictions_total{result=\"dry_run\"} 2\n"));
    assert_eq!(running.rounds.json()["dryRun"], true);
    running.end().await;
}

#[tokio::test]
async fn a_dry_run_asks_whether_a_budget_allows_it() {
    for (rule, code, reason, message, outcome, told_why) in [
        (
            "a budget does not",
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
            "refused",
            "disruption budget",
        ),
        (
            "without the right it is told as before",
            403,
            "Forbidden",
            "pods \"web\" is forbidden: User \"p\" cannot create resource \"pods/eviction\"",
            "wouldBeEvicted",
            "could not be asked",
        ),
        ("a webhook does not", 403, "Forbidden", "denied the request: not now", "refused", "not now"),
    ] {
        let fake = api();
        fake.fail_at("POST", code, reason, message);
        let running = Running::start(&fake, state(&two()), Balance { dry_run: true, ..config() });
        running.told("no_candidate").await;
        let all = running.rounds.json();
        let rounds = all["rounds"].as_array().unwrap();
        let first = rounds.iter().rev().find(|round| round["verdict"] == "evict").unwrap();
        assert_eq!(first["candidates"][0]["outcome"], outcome, "{rule}: {first}");
        let why = first["candidates"][0]["message"].as_str().unwrap_or_default();
        assert!(why.contains(told_why), "{rule}: {why}");
        running.end().await;
    }
}

#[tokio::test]
async fn evictions_can_be_stopped_at_any_time() {
    let fake = api();
    let stopped = Balance { dry_run: true, ..config() };
    let running = Running::start(&fake, state(&two()), config());
    eventually("one was evicted", || evicted(&fake).len() == 1).await;
    running.config.store(Arc::new(Balance { threshold: 1.0, ..stopped.clone() }));
    running.told("balanced").await;
    assert_eq!(running.rounds.json()["dryRun"], true);
    running.config.store(Arc::new(stopped));
    running.told("no_candidate").await;
    for (index, call) in evictions(&fake).iter().enumerate() {
        let really = call.body["deleteOptions"]["dryRun"].is_null();
        assert_eq!(really, index == 0, "{call:?}");
    }
    running.end().await;
}

#[tokio::test]
async fn a_pod_with_a_disruption_budget_is_skipped() {
    let fake = api();
    let budget = "Cannot evict pod as it would violate the pod's disruption budget.";
    fake.fail_at("POST", 429, "TooManyRequests", budget);
    let running = Running::start(&fake, state(&two()), config());
    let told = running.told("evict").await;
    let of = |index: usize| {
        (told["candidates"][index]["name"].clone(), told["candidates"][index]["outcome"].clone())
    };
    assert_eq!([of(0), of(1)], [(json!("web"), json!("refused")), (json!("api"), json!("evicted"))]);
    assert!(told["candidates"][0]["message"].as_str().unwrap().contains("disruption budget"), "{told}");
    assert_eq!(evicted(&fake)[..2], ["web", "api"]);
    let text = running.metrics.encode();
    assert!(text.contains("plimsoll_balance_evictions_total{result=\"refused\"} 1\n"), "{text}");
    eventually("it may go later", || evicted(&fake).len() > 2).await;
    assert_eq!(evicted(&fake)[2], "web", "what did not happen is no reason to wait");
    running.end().await;
}

#[tokio::test]
async fn evictions_that_fail() {
    for (rule, code, reason, message, outcome, later) in [
        ("gone", 404, "NotFound", "pods \"web\" not found", "gone", "web"),
        ("another of its name", 409, "Conflict", "the UID in the precondition does not match", "gone", "web"),
        // It may have happened all the same.
        ("no answer", 504, "Timeout", "the request did not complete", "failed", "api"),
        (
            "an API server with too much to do",
            429,
            "TooManyRequests",
            "please try again later",
            "failed",
            "api",
        ),
    ] {
        let fake = api();
        fake.fail_about("POST", code, reason, message, &json!({"name": "web"}));
        let running = Running::start(&fake, state(&two()), config());
        let told = running.told("evict").await;
        let first = told["candidates"].as_array().unwrap().iter().find(|pod| pod["name"] == "web");
        // The round after may have been the one that was told.
        assert!(
            first.is_none_or(|first| first["outcome"] == outcome || first["outcome"] == "evicted"),
            "{rule}: {told}"
        );
        eventually(rule, || evicted(&fake).len() >= 2).await;
        assert_eq!(
            evicted(&fake)[..2],
            ["web", later],
            "{rule}: the round was over, and this is the next one"
        );
        running.end().await;
    }
}

#[tokio::test]
async fn without_the_right_the_advice_is_told() {
    let fake = api();
    fake.fail_at("POST", 403, "Forbidden", "cannot create resource");
    let running = Running::start(&fake, state(&two()[..1]), config());
    let told = running.told("evict").await;
    let message = told["candidates"][0]["message"].as_str().unwrap_or_default().to_owned();
    if told["candidates"][0]["outcome"] == "refused" {
        assert!(message.contains("grant create on pods/eviction"), "{message}");
    }
    running.end().await;
}

#[tokio::test]
async fn who_does_not_lead_evicts_nobody() {
    let fake = FakeApi::default();
    fake.put(LEASE, lease("b", None));
    let running = Running::start(&fake, state(&two()), config());
    let told = running.told("evict").await;
    assert_eq!(told["candidates"][0]["outcome"], "withheld");
    assert_eq!(told["candidates"][0]["message"], "another replica leads now");
    running.end().await;

    fake.put(LEASE, lease("a", None));
    fake.fail_at("PUT", 403, "Forbidden", "cannot update resource");
    let running = Running::start(&fake, state(&two()), config());
    eventually("it is tried again", || !evicted(&fake).is_empty()).await;
    let text = running.metrics.encode();
    assert!(text.contains("plimsoll_balance_evictions_total{result=\"withheld\"} 1\n"), "{text}");
    running.end().await;
}

#[tokio::test]
async fn the_next_leader_keeps_to_the_pauses() {
    let now = plimsoll::placement::now() / 1_000_000_000;
    let fake = FakeApi::default();
    let memo =
        json!({"evictions": [{"w": "shop/ReplicaSet/web", "n": "n1", "t": now, "c": 0.1}]}).to_string();
    fake.put(LEASE, lease("a", Some(&memo)));
    let running = Running::start(&fake, state(&two()), config());
    running.told("no_candidate").await;
    assert_eq!(evicted(&fake), ["api"]);
    running.end().await;

    let fake = FakeApi::default();
    fake.put(LEASE, lease("a", Some(&memo)));
    let running = Running::start(&fake, state(&two()), Balance { evictions_per_hour: 1, ..config() });
    running.told("capped").await;
    assert!(evicted(&fake).is_empty());
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_last_leader_left_may_be_unreadable() {
    let fake = FakeApi::default();
    fake.put(LEASE, lease("a", Some("edited by hand")));
    let running = Running::start(&fake, state(&two()), config());
    tokio::time::sleep(std::time::Duration::from_secs(3_599)).await;
    assert!(running.rounds.all().is_empty(), "until the hour of the cap is over");
    running.told("evict").await;
    running.end().await;
}

#[tokio::test]
async fn claims_are_read_before_anybody_is_moved() {
    let with =
        |claim: &str| json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]});
    let fake = api();
    for (name, volume) in [("far", json!({"csi": {}})), ("near", json!({"local": {"path": "/d"}}))] {
        fake.put(
            &format!("/api/v1/namespaces/shop/persistentvolumeclaims/{name}"),
            json!({"metadata": {"name": name}, "spec": {"volumeName": name}}),
        );
        fake.put(
            &format!("/api/v1/persistentvolumes/{name}"),
            json!({"metadata": {"name": name}, "spec": volume}),
        );
    }
    fake.put(
        "/api/v1/namespaces/shop/persistentvolumeclaims/pending",
        json!({"metadata": {"name": "pending"}, "spec": {}}),
    );
    let pods = ["far", "near", "pending", "absent"].map(|claim| (pod(claim, &with(claim)), 1.0));
    let running = Running::start(&fake, state(&pods), config());
    let told = running.told("no_candidate").await;
    assert_eq!(evicted(&fake), ["far"]);
    let why: Vec<_> = told["spared"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| (pod["name"].as_str().unwrap(), pod["reason"].as_str().unwrap()))
        .collect();
    assert_eq!(
        why,
        [
            ("absent", "volume_unknown"),
            ("far", "cooldown"),
            ("near", "local_volume"),
            ("pending", "volume_unknown")
        ]
    );
    let reads = |name: &str| {
        fake.seen()
            .iter()
            .filter(|seen| seen.path.ends_with(&format!("persistentvolumeclaims/{name}")))
            .count()
    };
    assert_eq!(reads("far"), 1, "what is known is not asked again");
    running.end().await;
}
