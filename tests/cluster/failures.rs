//! An API server that is forgetful, wrong, or down.

use plimsoll_core::objects::FactKind;
use serde_json::json;

use crate::fake::{FakeApi, LIMIT_RANGES, PROFILES, RECOMMENDATIONS, eventually};
use crate::replica::{Replica, half, limit_range, limit_range_names, profile, recommendation};

#[tokio::test]
async fn a_version_that_is_too_old_leads_to_a_new_list() {
    let fake = FakeApi::start().await;
    fake.put(LIMIT_RANGES, limit_range("old", "1"));
    let replica = Replica::start_ready(&fake).await;
    let lists = fake.lists(LIMIT_RANGES);
    fake.put_silently(LIMIT_RANGES, limit_range("missed", "1"));
    fake.expire(LIMIT_RANGES);
    eventually("what was missed", || limit_range_names(&replica.objects()) == ["missed", "old"]).await;
    assert!(fake.lists(LIMIT_RANGES) > lists);
    // And the watch goes on from there.
    fake.put(LIMIT_RANGES, limit_range("new", "1"));
    eventually("what is new", || replica.objects().count(FactKind::LimitRange) == 3).await;
    replica.stop().await;
}

#[tokio::test]
async fn garbage_costs_nothing_but_itself() {
    let fake = FakeApi::start().await;
    let mut nameless = limit_range("", "1");
    nameless["metadata"] = json!({});
    fake.put(LIMIT_RANGES, nameless);
    fake.put(LIMIT_RANGES, limit_range("bad", "many"));
    fake.put(LIMIT_RANGES, limit_range("good", "1"));
    let mut aimless = recommendation("aimless");
    aimless["spec"] = json!({});
    fake.put(RECOMMENDATIONS, aimless);
    let replica = Replica::start_ready(&fake).await;
    assert_eq!(limit_range_names(&replica.objects()), ["good"]);
    assert_eq!(replica.objects().count(FactKind::Recommendation), 0);
    assert_eq!(replica.metric("plimsoll_objects_refused_total{kind=\"LimitRange\"}"), Some(1.0));
    assert_eq!(replica.metric("plimsoll_objects_refused_total{kind=\"Recommendation\"}"), Some(1.0));
    assert_eq!(replica.metric("plimsoll_degraded{reason=\"objects_refused\"}"), Some(1.0));

    // Lines of a watch that make no sense, then one that does.
    fake.send_line(LIMIT_RANGES, "{\"type\": \"ADDED\", \"object\": ");
    fake.send_line(LIMIT_RANGES, "{\"type\": \"WHATEVER\", \"object\": {}}");
    fake.send_line(LIMIT_RANGES, "{\"type\": \"ADDED\", \"object\": {\"metadata\": 5}}");
    fake.put(LIMIT_RANGES, limit_range("bad", "2"));
    eventually("good now", || limit_range_names(&replica.objects()) == ["bad", "good"]).await;

    // One that goes bad is gone; said once although it is sent twice.
    fake.put(LIMIT_RANGES, limit_range("good", "few"));
    fake.put(LIMIT_RANGES, limit_range("good", "few"));
    fake.put(LIMIT_RANGES, limit_range("last", "1"));
    eventually("bad now", || limit_range_names(&replica.objects()) == ["bad", "last"]).await;
    assert_eq!(replica.metric("plimsoll_objects_refused_total{kind=\"LimitRange\"}"), Some(2.0));
    replica.stop().await;
}

#[tokio::test]
async fn an_api_server_that_is_away_leaves_the_last_snapshot() {
    let fake = FakeApi::start().await;
    fake.put(PROFILES, profile("shared", 1, &half()));
    let replica = Replica::start_ready(&fake).await;
    fake.set_down(true);
    eventually("errors are counted", || {
        replica
            .metric("plimsoll_watch_errors_total{kind=\"OvercommitProfile\"}")
            .is_some_and(|count| count > 2.0)
    })
    .await;
    assert_eq!(replica.objects().profiles().iter().count(), 1);
    assert!(replica.readiness.is_ready());
    assert!(replica.metric("plimsoll_snapshot_age_seconds{kind=\"OvercommitProfile\"}").is_some());

    fake.set_down(false);
    fake.put(PROFILES, profile("other", 1, &half()));
    eventually("back", || replica.objects().profiles().iter().count() == 2).await;
    replica.stop().await;
}

#[tokio::test]
async fn an_api_server_that_is_away_at_the_start_is_waited_for() {
    let fake = FakeApi::start().await;
    fake.set_down(true);
    let replica = Replica::start(&fake);
    eventually("tried", || {
        replica.metric("plimsoll_watch_errors_total{kind=\"Job\"}").is_some_and(|count| count > 1.0)
    })
    .await;
    assert!(!replica.readiness.is_ready());
    fake.set_down(false);
    eventually("ready", || replica.readiness.is_ready()).await;
    replica.stop().await;
}
