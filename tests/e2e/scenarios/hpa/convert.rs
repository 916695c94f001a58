//! Targets in per cent become targets in cores: the HPA controller decides as their authors meant it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::harness::autoscaling::{Autoscaling, group_profile, grouped, told, with_autoscalers};
use crate::harness::hpa::{
    Expected, PODS, UNCHANGED, asking, average, condition, decided, deployment, eighty, has_targets, hpa,
    hpa_v1, measured, of_container, rescales, roll_half, rolled, usual, utilization,
};
use crate::harness::objects::container;
use crate::harness::{World, check_eq, until};

/// By request, by limit, and with autoscalers left alone.
const REQUEST: &str = "hpa-request";
const LIMIT: &str = "hpa-limit";
const OFF: &str = "hpa-off";
/// By request, of which a quarter is left.
const QUARTER: &str = "hpa-quarter";

/// A workload and its autoscaler.
struct Case {
    rule: &'static str,
    namespace: String,
    hpa: Value,
    /// What its targets become.
    targets: &'static [&'static str],
    want: usize,
}

/// The cases of a scenario, each in a namespace of its own.
struct Cases<'w> {
    world: &'w World,
    all: Vec<Case>,
}

impl Cases<'_> {
    /// Creates the workload. Its autoscaler, with these metrics, is created later, when its load is known.
    async fn add(
        &mut self,
        rule: &'static str,
        group: &str,
        workload: impl Fn(&str) -> Value,
        metrics: &[Value],
        (targets, want): (&'static [&'static str], usize),
    ) -> Result<String> {
        let namespace = grouped(self.world, &format!("hpa-convert-{}", self.all.len()), group).await?;
        self.world.cluster.create(&workload(&namespace)).await?;
        let hpa = hpa(&namespace, metrics);
        let hpa = if want == UNCHANGED { hpa } else { pinned(hpa) };
        self.all.push(Case { rule, namespace: namespace.clone(), hpa, targets, want });
        Ok(namespace)
    }
}

/// Keeps the autoscaler from deciding anything yet.
fn pinned(mut hpa: Value) -> Value {
    hpa["spec"]["minReplicas"] = PODS.into();
    hpa["spec"]["maxReplicas"] = PODS.into();
    hpa
}

fn unpinned(more: &Value) -> Value {
    let mut spec = json!({"minReplicas": 1, "maxReplicas": 30});
    json_patch::merge(&mut spec, more);
    json!({"spec": spec})
}

fn alone(mut deployment: Value) -> Value {
    deployment["spec"]["replicas"] = 1.into();
    deployment
}

/// A pod of two containers, with a request for the whole.
fn whole(namespace: &str) -> Value {
    let containers = [container("a", &json!({})), container("b", &json!({}))];
    let mut deployment = deployment(namespace, &containers, "250m");
    deployment["spec"]["template"]["spec"]["resources"] =
        json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}});
    deployment
}

const TO_800M: &[&str] = &["cpu 800m"];

/// Ten pods that use 500m each of the 1000m that they ask for.
fn plain(namespace: &str) -> Value {
    deployment(namespace, &[usual()], "500m")
}

/// Pods of before the profiles, which then come; half of the second workload's pods are made anew.
async fn with_old_pods(cases: &mut Cases<'_>) -> Result<()> {
    let world = cases.world;
    let old = cases.add("no pod is lowered yet", REQUEST, plain, &[eighty()], (TO_800M, 7)).await?;
    let half = cases.add("half of the pods are lowered", REQUEST, plain, &[eighty()], (TO_800M, 7)).await?;
    for namespace in [&old, &half] {
        rolled(world, namespace).await?;
    }
    group_profile(world, REQUEST, &json!({})).await?;
    group_profile(world, LIMIT, &json!({"basis": "Limit"})).await?;
    group_profile(world, OFF, &json!({"hpa": {"mode": "Off"}})).await?;
    group_profile(world, QUARTER, &json!({"static": {"factors": {"cpu": "0.25"}}})).await?;
    for (group, lowered) in [(REQUEST, "500m"), (LIMIT, "500m"), (OFF, "500m"), (QUARTER, "250m")] {
        let namespace = grouped(world, &format!("{group}-probe"), group).await?;
        world.lowers(&namespace, lowered).await?;
    }
    roll_half(world, &half, &json!({"metadata": {"annotations": {"e2e/stage": "half"}}})).await
}

async fn with_new_pods(cases: &mut Cases<'_>) -> Result<()> {
    let world = cases.world;
    cases.add("all pods are lowered", REQUEST, plain, &[eighty()], (TO_800M, 7)).await?;
    cases.add("halved twice", QUARTER, plain, &[eighty()], (TO_800M, 7)).await?;
    cases.add("of the limit", LIMIT, plain, &[eighty()], (&["cpu 1600m"], 4)).await?;
    let limited = |namespace: &str| alone(deployment(namespace, &[asking("app", "100m", "1")], "500m"));
    let rule = "five times its request, half of its limit";
    cases.add(rule, LIMIT, limited, &[eighty()], (TO_800M, UNCHANGED)).await?;
    cases.add("left alone as the profile says", OFF, plain, &[eighty()], (&["cpu 80%"], 13)).await?;
    let two = |namespace: &str| deployment(namespace, &[usual(), asking("side", "3", "")], "500m");
    cases.add("of two containers", REQUEST, two, &[eighty()], (&["cpu 3200m"], 4)).await?;
    let of_one = of_container("app", &json!({"type": "Utilization", "averageUtilization": 80}));
    cases.add("of one container of two", REQUEST, two, &[of_one], (&["app/cpu 800m"], 7)).await?;
    cases.add("of a pod's own request", REQUEST, whole, &[eighty()], (TO_800M, 7)).await?;
    let memory = |namespace: &str| {
        let resources = json!({"requests": {"cpu": "1", "memory": "128Mi"}});
        deployment(namespace, &[container("app", &resources)], "500m")
    };
    let memory_target = utilization("memory", 80);
    cases.add("of memory", REQUEST, memory, &[memory_target], (&["memory 107374183"], 7)).await?;
    let own = average("cpu", "1600m");
    cases.add("the author's own target in cores", REQUEST, plain, &[own], (&["cpu 1600m"], 4)).await?;

    let bases = |namespace: &str| deployment(namespace, &[asking("app", "1", "")], "900m");
    let mixed = (&["cpu 1200m"][..], 5);
    let mixed = cases.add("requests of 1000m and of 2000m", REQUEST, bases, &[eighty()], mixed).await?;
    let bigger = json!({
        "metadata": {"annotations": {"kwok.x-k8s.io/usage-cpu": "100m"}},
        "spec": {"containers": [asking("app", "2", "")]},
    });
    roll_half(world, &mixed, &bigger).await
}

/// Workloads whose autoscalers have a story.
struct Stories {
    /// The autoscaler is there before what it scales.
    early: String,
    /// Its author changes his mind.
    edited: String,
    /// It is of `autoscaling/v1`, which cannot say that it wants to shrink at once: this one grows.
    v1: String,
    /// A container has no request: it cannot be converted.
    lacking: String,
    /// It is let go when no replica is there any more.
    orphan: String,
}

impl Stories {
    async fn begin(world: &World) -> Result<Self> {
        let early = grouped(world, "hpa-convert-early", REQUEST).await?;
        world.cluster.create(&pinned(hpa(&early, &[eighty()]))).await?;
        has_targets(world, &early, &["cpu 80%"]).await?;
        world.cluster.create(&plain(&early)).await?;
        has_targets(world, &early, TO_800M).await.context("its Deployment appeared")?;
        let edited = grouped(world, "hpa-convert-edited", REQUEST).await?;
        world.cluster.create(&plain(&edited)).await?;
        world.cluster.create(&pinned(hpa(&edited, &[eighty()]))).await?;
        has_targets(world, &edited, TO_800M).await?;
        let v1 = grouped(world, "hpa-convert-v1", REQUEST).await?;
        world.cluster.create(&deployment(&v1, &[usual()], "1")).await?;
        let lacking = grouped(world, "hpa-convert-lacking", REQUEST).await?;
        let containers = [usual(), container("no-request", &json!({}))];
        world.cluster.create(&deployment(&lacking, &containers, "250m")).await?;
        let orphan = grouped(world, "hpa-convert-orphan", REQUEST).await?;
        world.cluster.create(&plain(&orphan)).await?;
        world.cluster.create(&pinned(hpa(&orphan, &[eighty()]))).await?;
        has_targets(world, &orphan, TO_800M).await?;
        Ok(Self { early, edited, v1, lacking, orphan })
    }

    fn namespaces(&self) -> [&str; 5] {
        [&self.early, &self.edited, &self.v1, &self.lacking, &self.orphan]
    }

    /// The load is known: from now on they may decide.
    async fn go_on(&self, world: &World) -> Result<[Expected<'_>; 3]> {
        world.cluster.merge(&hpa(&self.early, &[]), &unpinned(&json!({}))).await?;
        let sixty = json!({"metrics": [utilization("cpu", 60)]});
        world.cluster.merge(&hpa(&self.edited, &[]), &unpinned(&sixty)).await?;
        world.cluster.create(&hpa_v1(&self.v1, 80)).await?;
        world.cluster.create(&hpa(&self.lacking, &[eighty()])).await?;
        Ok([
            ("there before its Deployment", &self.early, 7),
            ("60 % instead of 80 %", &self.edited, 9),
            ("of autoscaling/v1, at twice the load", &self.v1, 13),
        ])
    }

    async fn end(&self, world: &World) -> Result<()> {
        has_targets(world, &self.edited, &["cpu 600m"]).await?;
        has_targets(world, &self.v1, TO_800M).await?;
        let stored = has_targets(world, &self.lacking, &["cpu 80%"]).await?;
        told(world, &self.lacking, &["no-request"]).await?;
        until("the controller to say that it cannot decide", async || {
            let stored = world.cluster.get(&stored).await?;
            let active = condition(&stored, "ScalingActive").context("no condition")?;
            ensure!(active["status"] == "False" && active["reason"] == "FailedGetResourceMetric", "{active}");
            Ok(Some(()))
        })
        .await?;
        check_eq!(rescales(world, &self.lacking).await?, Vec::<usize>::new(), "decisions without a request");
        Ok(())
    }

    /// Nobody keeps the targets any more: what was written last counts.
    async fn outlive(&self, world: &World) -> Result<()> {
        world.cluster.merge(&hpa(&self.orphan, &[]), &unpinned(&json!({}))).await?;
        decided(world, &[("with no replica left", &self.orphan, 7)]).await
    }
}

/// Ten pods that use 500m each of 1000m that were asked for and 500m that they got, unless said.
pub(in crate::scenarios) async fn counts(world: &World) -> Result<()> {
    world.metrics_server().await?;
    with_autoscalers(world, &json!({}), async |run: &Autoscaling<'_>| {
        let mut cases = Cases { world, all: Vec::new() };
        with_old_pods(&mut cases).await?;
        with_new_pods(&mut cases).await?;
        let stories = Stories::begin(world).await?;
        let (single, tens): (Vec<&Case>, Vec<&Case>) =
            cases.all.iter().partition(|case| case.want == UNCHANGED);
        let of = |cases: &[&'_ Case]| cases.iter().map(|case| case.namespace.clone()).collect::<Vec<_>>();
        let (single, tens) = (of(&single), of(&tens));
        let tens: Vec<&str> = tens.iter().map(String::as_str).chain(stories.namespaces()).collect();
        measured(world, &tens, PODS).await?;
        measured(world, &single.iter().map(String::as_str).collect::<Vec<_>>(), 1).await?;

        for case in &cases.all {
            world.cluster.create(&case.hpa).await?;
        }
        for case in &cases.all {
            has_targets(world, &case.namespace, case.targets).await.context(case.rule)?;
        }
        let mut expected: Vec<Expected<'_>> = stories.go_on(world).await?.into();
        for case in &cases.all {
            if case.want != UNCHANGED {
                world.cluster.merge(&case.hpa, &unpinned(&json!({}))).await?;
            }
            expected.push((case.rule, &case.namespace, case.want));
        }
        decided(world, &expected).await?;
        stories.end(world).await?;
        run.kill_replicas();
        stories.outlive(world).await
    })
    .await
}
