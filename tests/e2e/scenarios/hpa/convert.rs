//! Targets in per cent become targets in cores: the HPA controller decides as their authors meant it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::harness::autoscaling::{group_profile, grouped, told, with_autoscalers};
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

/// Ten pods that use 500m each of 1000m that were asked for and 500m that they got, unless said.
pub(in crate::scenarios) async fn counts(world: &World) -> Result<()> {
    world.metrics_server().await?;
    with_autoscalers(world, &json!({}), async |_| {
        let plain = |namespace: &str| deployment(namespace, &[usual()], "500m");
        let mut cases = Cases { world, all: Vec::new() };
        let to_800m: &'static [&'static str] = &["cpu 800m"];
        let old = cases.add("no pod is lowered yet", REQUEST, plain, &[eighty()], (to_800m, 7)).await?;
        let half =
            cases.add("half of the pods are lowered", REQUEST, plain, &[eighty()], (to_800m, 7)).await?;
        for namespace in [&old, &half] {
            rolled(world, namespace).await?;
        }
        group_profile(world, REQUEST, &json!({})).await?;
        group_profile(world, LIMIT, &json!({"basis": "Limit"})).await?;
        group_profile(world, OFF, &json!({"hpa": {"mode": "Off"}})).await?;
        for group in [REQUEST, LIMIT, OFF] {
            let namespace = grouped(world, &format!("{group}-probe"), group).await?;
            world.lowers(&namespace, "500m").await?;
        }
        let stage = |stage: &str| json!({"metadata": {"annotations": {"e2e/stage": stage}}});
        roll_half(world, &half, &stage("half")).await?;

        cases.add("all pods are lowered", REQUEST, plain, &[eighty()], (to_800m, 7)).await?;
        cases.add("of the limit", LIMIT, plain, &[eighty()], (&["cpu 1600m"], 4)).await?;
        let limited = |namespace: &str| alone(deployment(namespace, &[asking("app", "100m", "1")], "500m"));
        cases
            .add(
                "five times its request, half of its limit",
                LIMIT,
                limited,
                &[eighty()],
                (to_800m, UNCHANGED),
            )
            .await?;
        cases.add("left alone by the profile's wish", OFF, plain, &[eighty()], (&["cpu 80%"], 13)).await?;
        let two = |namespace: &str| deployment(namespace, &[usual(), asking("side", "3", "")], "500m");
        cases.add("of two containers", REQUEST, two, &[eighty()], (&["cpu 3200m"], 4)).await?;
        let of_one = of_container("app", &json!({"type": "Utilization", "averageUtilization": 80}));
        cases.add("of one container of two", REQUEST, two, &[of_one], (&["app/cpu 800m"], 7)).await?;
        cases.add("of a pod's own request", REQUEST, whole, &[eighty()], (to_800m, 7)).await?;
        let memory = |namespace: &str| {
            let resources = json!({"requests": {"cpu": "1", "memory": "128Mi"}});
            deployment(namespace, &[container("app", &resources)], "500m")
        };
        cases
            .add("of memory", REQUEST, memory, &[utilization("memory", 80)], (&["memory 107374183"], 7))
            .await?;
        cases
            .add(
                "the user's own target in cores",
                REQUEST,
                plain,
                &[average("cpu", "1600m")],
                (&["cpu 1600m"], 4),
            )
            .await?;
        let bases = |namespace: &str| deployment(namespace, &[asking("app", "1", "")], "900m");
        let mixed = cases
            .add("bases of 1000m and of 2000m", REQUEST, bases, &[eighty()], (&["cpu 1200m"], 5))
            .await?;
        let bigger = json!({
            "metadata": {"annotations": {"kwok.x-k8s.io/usage-cpu": "100m"}},
            "spec": {"containers": [asking("app", "2", "")]},
        });
        roll_half(world, &mixed, &bigger).await?;

        // Autoscalers that are there before what they scale, and one whose author changes his mind.
        let early = grouped(world, "hpa-convert-early", REQUEST).await?;
        world.cluster.create(&pinned(hpa(&early, &[eighty()]))).await?;
        has_targets(world, &early, &["cpu 80%"]).await?;
        world.cluster.create(&plain(&early)).await?;
        has_targets(world, &early, to_800m).await.context("its Deployment appeared")?;
        let edited = grouped(world, "hpa-convert-edited", REQUEST).await?;
        world.cluster.create(&plain(&edited)).await?;
        world.cluster.create(&pinned(hpa(&edited, &[eighty()]))).await?;
        has_targets(world, &edited, to_800m).await?;
        // `autoscaling/v1` cannot say that it wants to shrink at once: this one grows.
        let first = grouped(world, "hpa-convert-v1", REQUEST).await?;
        world.cluster.create(&deployment(&first, &[usual()], "1")).await?;
        // What cannot be converted.
        let lacking = grouped(world, "hpa-convert-lacking", REQUEST).await?;
        let containers = [usual(), container("no-request", &json!({}))];
        world.cluster.create(&deployment(&lacking, &containers, "250m")).await?;

        let mut loaded: Vec<&str> = cases
            .all
            .iter()
            .filter(|case| case.want != UNCHANGED)
            .map(|case| case.namespace.as_str())
            .collect();
        loaded.extend([early.as_str(), &edited, &first, &lacking]);
        measured(world, &loaded, PODS).await?;
        for case in cases.all.iter().filter(|case| case.want == UNCHANGED) {
            measured(world, &[&case.namespace], 1).await?;
        }

        let mut expected: Vec<Expected<'_>> = Vec::new();
        for case in &cases.all {
            world.cluster.create(&case.hpa).await?;
            expected.push((case.rule, &case.namespace, case.want));
        }
        world.cluster.merge(&hpa(&early, &[]), &unpinned(&json!({}))).await?;
        world
            .cluster
            .merge(&hpa(&edited, &[]), &unpinned(&json!({"metrics": [utilization("cpu", 60)]})))
            .await?;
        world.cluster.create(&hpa_v1(&first, 80)).await?;
        world.cluster.create(&hpa(&lacking, &[eighty()])).await?;
        expected.extend([
            ("there before its Deployment", early.as_str(), 7),
            ("60 % instead of 80 %", &edited, 9),
            ("of autoscaling/v1, at twice the load", &first, 13),
        ]);
        decided(world, &expected).await?;
        for case in &cases.all {
            has_targets(world, &case.namespace, case.targets).await.context(case.rule)?;
        }
        has_targets(world, &edited, &["cpu 600m"]).await?;
        has_targets(world, &first, to_800m).await?;

        let stored = has_targets(world, &lacking, &["cpu 80%"]).await?;
        told(world, &lacking, &["no-request"]).await?;
        until("the controller to say that it cannot decide", async || {
            let stored = world.cluster.get(&stored).await?;
            let active = condition(&stored, "ScalingActive").context("no condition")?;
            ensure!(active["status"] == "False" && active["reason"] == "FailedGetResourceMetric", "{active}");
            Ok(Some(()))
        })
        .await?;
        check_eq!(rescales(world, &lacking).await?, Vec::<usize>::new(), "decisions without a request");
        Ok(())
    })
    .await
}
