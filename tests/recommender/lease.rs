//! Who leads, while leases are released, lost, taken and unreachable.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll::cluster::{Leadership, LeadershipOptions, stand_still};
use plimsoll::metrics::Metrics;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::fake::FakeApi;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/plimsoll-system/leases/plimsoll-recommender";

/// What happened, in order.
#[derive(Clone, Default)]
struct Story(Arc<Mutex<Vec<String>>>);

impl Story {
    fn tell(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    fn told(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    async fn until(&self, what: &str) {
        eventually(what, || self.told().iter().any(|told| told == what)).await;
    }
}

async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), wait).await.is_ok(), "never came true: {what}");
}

struct Replica {
    cancel: CancellationToken,
    metrics: Arc<Metrics>,
    tasks: Vec<JoinHandle<()>>,
}

impl Replica {
    fn start(fake: &FakeApi, name: &str, shards: u32, story: &Story) -> Self {
        let options = LeadershipOptions {
            part: "recommender",
            namespace: "plimsoll-system".to_owned(),
            identity: name.to_owned(),
            shards,
            duration: Duration::from_secs(2),
            renew_interval: Duration::from_millis(200),
        };
        let metrics = Arc::new(Metrics::new("test"));
        let leadership = Leadership::new(fake.client_of(name), options, Arc::clone(&metrics));
        let cancel = CancellationToken::new();
        let run = |shard| {
            let (leadership, cancel) = (leadership.clone(), cancel.clone());
            let (story, name) = (story.clone(), name.to_owned());
            tokio::spawn(async move {
                let work = |token: CancellationToken| {
                    let (story, name) = (story.clone(), name.clone());
                    async move {
                        story.tell(format!("{name} begins {shard}"));
                        token.cancelled().await;
                        story.tell(format!("{name} ends {shard}"));
                    }
                };
                leadership.run(shard, cancel, work).await;
            })
        };
        let tasks = (0..shards).map(run).collect();
        Self { cancel, metrics, tasks }
    }

    fn leads(&self) -> usize {
        self.metrics
            .encode()
            .lines()
            .filter(|line| line.starts_with("plimsoll_leader{") && line.ends_with(" 1"))
            .count()
    }

    async fn stop(self) {
        self.cancel.cancel();
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

#[tokio::test]
async fn one_leads_and_the_next_takes_over_when_it_stops() {
    let (fake, story) = (FakeApi::default(), Story::default());
    let first = Replica::start(&fake, "a", 1, &story);
    story.until("a begins 0").await;
    let lease = fake.object(LEASE).unwrap();
    assert_eq!(
        (&lease["spec"]["holderIdentity"], &lease["spec"]["leaseDurationSeconds"]),
        (&json!("a"), &json!(2))
    );
    assert_eq!(first.leads(), 1);
    let second = Replica::start(&fake, "b", 1, &story);
    let renewed = |fake: &FakeApi| fake.object(LEASE).unwrap()["spec"]["renewTime"].clone();
    let before = renewed(&fake);
    eventually("renewed", || renewed(&fake) != before).await;
    assert_eq!(second.leads(), 0);

    let start = std::time::Instant::now();
    first.stop().await;
    story.until("b begins 0").await;
    assert!(start.elapsed() < Duration::from_secs(2), "released, not run out: {:?}", start.elapsed());
    assert_eq!(fake.object(LEASE).unwrap()["spec"]["leaseTransitions"], 1);
    second.stop().await;
    assert_eq!(fake.object(LEASE).unwrap()["spec"]["holderIdentity"], "");
    assert_eq!(story.told(), ["a begins 0", "a ends 0", "b begins 0", "b ends 0"]);
}

#[tokio::test]
async fn who_is_cut_off_stops_before_another_begins() {
    let (fake, story) = (FakeApi::default(), Story::default());
    let first = Replica::start(&fake, "a", 1, &story);
    story.until("a begins 0").await;
    let second = Replica::start(&fake, "b", 1, &story);
    fake.cut_off("a", true);
    story.until("b begins 0").await;
    assert_eq!(story.told(), ["a begins 0", "a ends 0", "b begins 0"]);
    fake.cut_off("a", false);
    second.stop().await;
    eventually("a leads again", || first.leads() == 1).await;
    first.stop().await;
}

#[tokio::test]
async fn who_finds_another_name_in_the_lease_stops() {
    let (fake, story) = (FakeApi::default(), Story::default());
    let replica = Replica::start(&fake, "a", 1, &story);
    story.until("a begins 0").await;
    let mut lease = fake.object(LEASE).unwrap();
    lease["spec"]["holderIdentity"] = json!("somebody");
    fake.put(LEASE, lease);
    story.until("a ends 0").await;
    // It is not renewed, so it runs out.
    eventually("a leads again", || replica.leads() == 1).await;
    assert_eq!(story.told().len(), 3);
    replica.stop().await;

    let replica = Replica::start(&fake, "b", 1, &story);
    story.until("b begins 0").await;
    fake.remove(LEASE);
    story.until("b ends 0").await;
    replica.stop().await;
}

#[tokio::test]
async fn labels_and_lost_answers_do_not_cost_the_lease() {
    let (fake, story) = (FakeApi::default(), Story::default());
    let replica = Replica::start(&fake, "a", 1, &story);
    story.until("a begins 0").await;
    let mut lease = fake.object(LEASE).unwrap();
    lease["metadata"]["labels"] = json!({"team": "x"});
    fake.put(LEASE, lease.clone());
    let renewed = || fake.object(LEASE).unwrap()["spec"]["renewTime"] != lease["spec"]["renewTime"];
    eventually("renewed", renewed).await;
    assert_eq!(fake.object(LEASE).unwrap()["metadata"]["labels"]["team"], "x", "and labels stay");
    for code in [500, 503, 429] {
        fake.fail_next(code, "", "on purpose", &json!({}));
    }
    let lease = fake.object(LEASE).unwrap();
    eventually("renewed", || fake.object(LEASE).unwrap()["spec"]["renewTime"] != lease["spec"]["renewTime"])
        .await;
    replica.stop().await;
    assert_eq!(story.told(), ["a begins 0", "a ends 0"]);
}

#[tokio::test]
async fn shards_are_shared() {
    let (fake, story) = (FakeApi::default(), Story::default());
    let first = Replica::start(&fake, "a", 4, &story);
    let second = Replica::start(&fake, "b", 4, &story);
    eventually("all are led", || first.leads() + second.leads() == 4).await;
    assert!(first.leads() >= 1 && second.leads() >= 1, "{:?}", story.told());
    let (left, right) = (first.leads(), second.leads());
    first.stop().await;
    eventually("all are led by one", || second.leads() == 4).await;
    assert!(left <= 3 && right <= 3);
    second.stop().await;
}

#[tokio::test]
async fn nobody_leads_while_the_lease_is_held_by_a_command() {
    let (fake, story) = (FakeApi::default(), Story::default());
    let hold = Duration::from_secs(1);
    let standing = |fake: &FakeApi| {
        let client = fake.client_of("command");
        async move { stand_still(&client, "recommender", "plimsoll-system", "command", hold).await.unwrap() }
    };
    assert_eq!(standing(&fake).await, Duration::ZERO, "there was no lease");
    let replica = Replica::start(&fake, "a", 1, &story);
    story.until("a begins 0").await;
    assert_eq!(standing(&fake).await, Duration::from_millis(1500), "until it has surely stopped");
    story.until("a ends 0").await;
    assert_eq!(
        fake.object(LEASE).unwrap()["spec"]["holderIdentity"],
        "command",
        "it did not release what is not its own"
    );
    assert_eq!(replica.leads(), 0);
    // After its time the work goes on.
    eventually("a leads again", || story.told() == ["a begins 0", "a ends 0", "a begins 0"]).await;
    replica.stop().await;
}

#[tokio::test]
async fn work_that_ends_gives_the_lease_up() {
    let fake = FakeApi::default();
    let options = LeadershipOptions {
        part: "recommender",
        namespace: "plimsoll-system".to_owned(),
        identity: "a".to_owned(),
        shards: 1,
        duration: Duration::from_secs(2),
        renew_interval: Duration::from_millis(50),
    };
    let leadership = Leadership::new(fake.client(), options, Arc::new(Metrics::new("test")));
    let cancel = CancellationToken::new();
    let times = Arc::new(Mutex::new(0));
    let (counted, stop) = (Arc::clone(&times), cancel.clone());
    let work = move |_: CancellationToken| {
        let mut times = counted.lock().unwrap();
        *times += 1;
        if *times == 3 {
            stop.cancel();
        }
        std::future::ready(())
    };
    leadership.run(0, cancel, work).await;
    assert_eq!(*times.lock().unwrap(), 3);
    assert_eq!(fake.object(LEASE).unwrap()["spec"]["holderIdentity"], "");
    assert_eq!(fake.object(LEASE).unwrap()["spec"]["leaseTransitions"], 2);
}

#[tokio::test]
async fn work_that_panics_is_heard_of() {
    let fake = FakeApi::default();
    let options = LeadershipOptions {
        part: "recommender",
        namespace: "plimsoll-system".to_owned(),
        identity: "a".to_owned(),
        shards: 1,
        duration: Duration::from_secs(2),
        renew_interval: Duration::from_millis(50),
    };
    let leadership = Leadership::new(fake.client(), options, Arc::new(Metrics::new("test")));
    let run = tokio::spawn(async move {
        leadership.run(0, CancellationToken::new(), |_| async { panic!("on purpose") }).await;
    });
    assert!(run.await.unwrap_err().is_panic());
    assert_eq!(fake.object(LEASE).unwrap()["spec"]["holderIdentity"], "", "and another may try");
}
