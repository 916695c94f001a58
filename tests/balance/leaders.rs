//! Several replicas, of which one balances.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use plimsoll::balance::run::{lead, work};
use plimsoll::balance::{PART, Parts, Rounds, balance};
use plimsoll::cluster::{Leadership, LeadershipOptions};
use plimsoll::metrics::Metrics;
use plimsoll::placement::PlacementState;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::fake::FakeApi;
use super::support::{config, eventually, evicted, pod, state};

struct Replica {
    rounds: Rounds,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Replica {
    fn start(fake: &FakeApi, name: &str, placement: PlacementState) -> Self {
        let options = LeadershipOptions {
            part: PART,
            namespace: "plimsoll-system".to_owned(),
            identity: name.to_owned(),
            shards: 1,
            duration: Duration::from_secs(2),
            renew_interval: Duration::from_millis(100),
        };
        let metrics = Arc::new(Metrics::new("test"));
        let client = fake.client_of(name);
        let leadership = Leadership::new(client.clone(), options, Arc::clone(&metrics));
        let config = Arc::new(ArcSwap::from_pointee(config()));
        let rounds = Rounds::new(leadership.holder(), name, Arc::clone(&config));
        let parts = Parts {
            config,
            own_namespace: "plimsoll-system".to_owned(),
            identity: name.to_owned(),
            placement: placement.clone(),
            quota: plimsoll::quota::content::Latest::default(),
            rounds: rounds.clone(),
            metrics,
        };
        let cancel = CancellationToken::new();
        let all = vec![work(move |token| balance(client.clone(), parts.clone(), token))];
        let task = tokio::spawn(lead(leadership, placement, all, cancel.clone()));
        Self { rounds, cancel, task }
    }

    fn leads(&self) -> bool {
        self.rounds.json()["leads"] == true && !self.rounds.all().is_empty()
    }
}

#[tokio::test]
async fn one_balances_and_the_next_one_goes_on() {
    let fake = FakeApi::default();
    let pods = [(pod("web", &json!({})), 1.0), (pod("api", &json!({})), 0.5)];
    let a = Replica::start(&fake, "a", state(&pods));
    eventually("a leads", || a.leads()).await;
    let b = Replica::start(&fake, "b", state(&pods[..1]));
    eventually("both were evicted", || evicted(&fake).len() == 2).await;
    eventually("b sees who leads", || b.rounds.json()["leader"] == "a").await;
    let told = b.rounds.json();
    assert_eq!((&told["leads"], &told["rounds"]), (&json!(false), &json!([])));

    // It gets no answers any more, and must not go on when it gets them again.
    fake.cut_off("a", true);
    eventually("b leads", || b.leads()).await;
    assert!(!a.leads(), "it has stopped before");
    eventually("b has judged", || {
        b.rounds.json()["rounds"].as_array().unwrap().iter().any(|round| round["verdict"] == "no_candidate")
    })
    .await;
    assert_eq!(evicted(&fake), ["web", "api"], "b knows that web was evicted a moment ago");
    fake.cut_off("a", false);
    eventually("a sees who leads", || a.rounds.json()["leader"] == "b").await;

    for replica in [a, b] {
        replica.cancel.cancel();
        replica.task.await.unwrap();
    }
}

#[tokio::test]
async fn nobody_leads_before_the_pods_are_known() {
    let fake = FakeApi::default();
    let state = plimsoll::placement::PlacementState::new(
        plimsoll_core::placement::Settings::default(),
        Arc::default(),
    );
    let replica = Replica::start(&fake, "a", state);
    tokio::task::yield_now().await;
    replica.cancel.cancel();
    replica.task.await.unwrap();
    assert!(fake.seen().is_empty());
}
