//! How many pods a second are admitted by the ledger, next to a webhook that only allows. `make bench-quota`; what the
//! figures mean is in `docs/benchmarks.md`.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::{join_all, try_join};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::quota::{Quota, cores, with_configured_quota};
use crate::harness::webhook::TestWebhook;
use crate::harness::world::SCENARIO;
use crate::harness::{World, until};

const WORKERS: usize = 32;
const ROUNDS: usize = 4;
const ROUND: Duration = Duration::from_secs(8);
/// How often the size of the ledger is looked at.
const SAMPLE: Duration = Duration::from_millis(200);

/// Pods created in a round, and answers of the API server that say that something failed.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    pods: u32,
    busy: u32,
    failed: u32,
    seconds: f64,
}

impl Figures {
    fn rate(&self) -> f64 {
        f64::from(self.pods) / self.seconds
    }
}

/// Creates pods for a while, as fast as they are taken.
async fn round(world: &World, namespace: &str, number: usize) -> Result<Figures> {
    let [pods, busy, failed] = [const { Cell::new(0) }; 3];
    let start = Instant::now();
    let count = |cell: &Cell<u32>| cell.set(cell.get() + 1);
    let worker = async |worker: usize| {
        let mut next = 0;
        while start.elapsed() < ROUND {
            let pod = cores(namespace, &format!("pod-{number}-{worker}-{next}"), "1m");
            next += 1;
            match world.cluster.attempt(&pod).await? {
                Ok(_) => count(&pods),
                Err(refused) if refused.code == 429 => count(&busy),
                Err(refused) => {
                    println!("{refused}");
                    count(&failed);
                }
            }
        }
        anyhow::Ok(())
    };
    join_all((0..WORKERS).map(worker)).await.into_iter().collect::<Result<()>>()?;
    let seconds = start.elapsed().as_secs_f64();
    // The next round finds the API server as this one did.
    world.cluster.kubectl.run(["delete", "--raw", &format!("/api/v1/namespaces/{namespace}/pods")], None)?;
    until("the pods to be gone", async || {
        let left = world.cluster.list("v1", "Pod", Some(namespace), "").await?;
        Ok(left.is_empty().then_some(()))
    })
    .await?;
    Ok(Figures { pods: pods.get(), busy: busy.get(), failed: failed.get(), seconds })
}

/// Has the API server ask a webhook that allows everything about pods of the scenario's namespace with this name.
async fn allow_only(world: &World, name: &str) -> Result<TestWebhook> {
    let identity = world.authority.issue_serving(&[&world.host], 1)?;
    let webhook = TestWebhook::listen(world.listen, &identity, |_| Vec::new()).await?;
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "plimsoll-e2e-allow"},
        "webhooks": [{
            "name": "allow.e2e.plimsoll.dev",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "url": format!("https://{}:{}/", world.host, webhook.port()),
                "caBundle": BASE64_STANDARD.encode(world.authority.pem()),
            },
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "namespaceSelector": {"matchLabels": {SCENARIO: name}},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
            }],
        }],
    });
    world.create_for_now(&configuration).await?;
    Ok(webhook)
}

#[derive(Default)]
struct Ledger {
    conflicts: f64,
    writes: f64,
    bytes: f64,
}

impl Ledger {
    async fn read(quota: &Quota<'_>) -> Result<Self> {
        let writes = async |result: &str| {
            quota.metric("plimsoll_quota_ledger_writes_total", &[&format!("result=\"{result}\"")]).await
        };
        let bytes = quota.metrics("plimsoll_quota_ledger_bytes", &[]).await?;
        Ok(Self {
            conflicts: writes("conflict").await?,
            writes: writes("success").await?,
            bytes: bytes.into_iter().fold(0.0, f64::max),
        })
    }
}

/// Rounds of all three in turn, by two replicas: no webhook, one that only allows, and ours.
pub(in crate::scenarios) async fn throughput(world: &World) -> Result<()> {
    // As in production, but for the shortest age.
    let config = json!({
        "quota": {"admissionBudget": "2s", "webhookTimeout": "10s", "leaseDuration": "15s", "renewInterval": "2s"},
        "log": {"level": "info"},
    });
    with_configured_quota(world, "load", 2, &config, async |quota| {
        let namespaces = quota.namespaces(["free", "allowed", "bound"]).await?;
        let [free, allowed, bound] = namespaces.each_ref().map(String::as_str);
        let webhook = allow_only(world, "load-allowed").await?;
        let all = json!({"cpu": 1000});
        let root = json!({
            "name": "root", "max": all, "min": all,
            "children": [{"name": "leaf", "namespaces": [bound], "max": all, "min": all}],
        });
        quota.plant(&root, &[bound.to_owned()]).await?;
        until("the webhook that allows to be asked", async || {
            world.cluster.create_dry(&cores(allowed, "probe", "1m")).await?;
            Ok((!webhook.seen().is_empty()).then_some(()))
        })
        .await?;
        let mut rates = [const { Vec::new() }; 3];
        let (mut ledger, mut ours, mut bytes) = (Ledger::default(), Figures::default(), 0.0_f64);
        for number in 0..ROUNDS {
            for (kind, namespace) in [free, allowed, bound].into_iter().enumerate() {
                let before = Ledger::read(quota).await?;
                let done = Cell::new(false);
                let measured = async {
                    let figures = round(world, namespace, number).await;
                    done.set(true);
                    figures
                };
                let watched = async {
                    let mut bytes = 0.0_f64;
                    while !done.get() {
                        bytes = bytes.max(Ledger::read(quota).await?.bytes);
                        tokio::time::sleep(SAMPLE).await;
                    }
                    anyhow::Ok(bytes)
                };
                let (figures, most) = try_join(measured, watched).await?;
                println!("round {number}, {namespace}: {figures:?}, {:.0} pods/s", figures.rate());
                rates[kind].push(figures.rate());
                ensure!(figures.failed == 0, "{} requests failed", figures.failed);
                if namespace == bound {
                    let after = Ledger::read(quota).await?;
                    ledger.conflicts += after.conflicts - before.conflicts;
                    ledger.writes += after.writes - before.writes;
                    bytes = bytes.max(most);
                    ours.pods += figures.pods;
                    ours.busy += figures.busy;
                    ours.seconds += figures.seconds;
                    quota.nothing_reserved().await?;
                }
            }
        }
        let [none, allow, quota] = rates.map(median);
        let figures: Value = json!({
            "podsPerSecond": {"noWebhook": none.round(), "allowOnly": allow.round(), "quota": quota.round()},
            "quotaOfAllowOnly": (quota / allow * 100.0).round(),
            "conflictsPerPod": ledger.conflicts / f64::from(ours.pods),
            "ledgerWritesPerSecond": (ledger.writes / ours.seconds).round(),
            "podsPerWrite": f64::from(ours.pods) / ledger.writes,
            "ledgerBytes": bytes,
            "busyAnswers": ours.busy,
        });
        println!("{figures:#}");
        Ok(())
    })
    .await
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
