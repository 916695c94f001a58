//! What is written into the status of profiles.

use serde_json::json;

use crate::fake::{FakeApi, PROFILES, eventually};
use crate::replica::{Replica, half, profile};

#[tokio::test]
async fn a_broken_profile_is_told_once() {
    let fake = FakeApi::start().await;
    let broken = json!({"mode": "Static", "static": {"factors": {"cpu": "5"}}});
    fake.put(PROFILES, profile("shared", 1, &broken));
    let replica = Replica::start_ready(&fake).await;
    eventually("the status", || !fake.writes("/shared/status").is_empty()).await;
    eventually("the event", || !fake.writes("/events").is_empty()).await;
    let write = &fake.writes("/shared/status")[0];
    assert_eq!(write.method, http::Method::PATCH);
    let condition = &write.body["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Valid"), &json!("False")));
    assert!(condition["message"].as_str().unwrap().contains("spec.static.factors.cpu"), "{condition}");
    assert_eq!(write.body["status"]["observedGeneration"], 1);
    let event = &fake.writes("/events")[0].body;
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("ProfileInvalid")));
    assert_eq!(event["regarding"]["name"], "shared");

    // Sent again with the status in it, it is nothing new. The next profile's status shows that it was looked at.
    let mut labelled = profile("shared", 1, &broken);
    labelled["status"] = write.body["status"].clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    fake.put(PROFILES, labelled);
    fake.put(PROFILES, profile("second", 1, &half()));
    eventually("the second's status", || !fake.writes("/second/status").is_empty()).await;
    assert_eq!(fake.writes("/shared/status").len(), 1);

    // A new generation is told anew, and that it is well now is worth an event.
    let mut repaired = profile("shared", 2, &half());
    repaired["status"] = write.body["status"].clone();
    fake.put(PROFILES, repaired);
    eventually("the new status", || fake.writes("/shared/status").len() == 2).await;
    assert_eq!(fake.writes("/shared/status")[1].body["status"]["conditions"][0]["status"], "True");
    eventually("the new event", || fake.writes("/events").len() == 2).await;
    assert_eq!(fake.writes("/events")[1].body["reason"], "ProfileValid");
    assert_eq!(fake.writes("/second/status").len(), 1);
    replica.stop().await;
}

#[tokio::test]
async fn somebody_who_contradicts_is_not_fought() {
    let fake = FakeApi::start().await;
    fake.put(PROFILES, profile("shared", 1, &half()));
    let replica = Replica::start_ready(&fake).await;
    eventually("the status", || fake.writes("/shared/status").len() == 1).await;
    let mut other = profile("shared", 1, &half());
    other["status"] = json!({"conditions": [{"type": "Valid", "status": "False", "reason": "Other", "message": "",
        "observedGeneration": 1}]});
    fake.put(PROFILES, other);
    fake.put(PROFILES, profile("second", 1, &half()));
    eventually("the second's status", || fake.writes("/second/status").len() == 1).await;
    assert_eq!(fake.writes("/shared/status").len(), 1, "not before the time between two writes is over");
    replica.stop().await;
}

#[tokio::test]
async fn a_second_replica_finds_nothing_to_write() {
    let fake = FakeApi::start().await;
    fake.put(PROFILES, profile("shared", 1, &half()));
    let first = Replica::start_ready(&fake).await;
    eventually("the status", || fake.writes("/shared/status").len() == 1).await;
    let second = Replica::start_ready(&fake).await;
    fake.put(PROFILES, profile("later", 1, &json!({"mode": "Nonsense"})));
    eventually("the later one's status", || !fake.writes("/later/status").is_empty()).await;
    assert_eq!(fake.writes("/shared/status").len(), 1);
    first.stop().await;
    second.stop().await;
}
