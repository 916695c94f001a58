//! Usage that is scaled for the HPA controller and true for everybody else; and metrics of our own.

use anyhow::{Context, Result, anyhow, ensure};
use futures_util::FutureExt as _;
use serde_json::{Value, json};

use crate::harness::aggregated::Direct;
use crate::harness::autoscaling::{Autoscaling, group_profile, grouped, told, with_autoscalers};
use crate::harness::hpa::{
    Expected, PODS, UNCHANGED, asking, average, condition, decided, deployment, eighty, has_targets, hpa,
    measured, of_container, rescales, roll_half, rolled, usual,
};
use crate::harness::install::{self, Endpoint, NAMESPACE};
use crate::harness::net::free_ports;
use crate::harness::{World, check_eq, until};

const SHIM: &str = "hpa-shim";
const LIMIT: &str = "hpa-shim-limit";
const EXTERNAL: &str = "hpa-external";
/// All that is installed; metrics-server's own first.
const GROUPS: [&str; 4] = [
    "v1beta1.metrics.k8s.io",
    "v1beta1.custom.metrics.k8s.io",
    "v1beta2.custom.metrics.k8s.io",
    "v1beta1.external.metrics.k8s.io",
];

fn api_service(name: &str) -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name},
    })
}

/// Our server behind the API server, which is told of it, while a scenario runs.
struct Installed<'w> {
    world: &'w World,
    port: u16,
    /// What metrics-server's `APIService` was before.
    before: Value,
}

impl Installed<'_> {
    fn run(&self, verb: &str, what: &str) -> Result<String> {
        self.run_with(verb, what, &[])
    }

    fn run_with(&self, verb: &str, what: &str, more: &[&str]) -> Result<String> {
        let service = format!("{NAMESPACE}/plimsoll:{}", self.port);
        let address = format!("https://127.0.0.1:{}", self.port);
        let ca = self.world.setup.dir.join("shim-ca.crt");
        std::fs::write(&ca, self.world.authority.pem())?;
        let ca = ca.display().to_string();
        let args =
            ["hpa", "apiservice", verb, what, "--service", &service, "--ca-file", &ca, "--address", &address];
        let args = if verb == "install" { &args[..] } else { &args[..6] };
        self.world.cluster.kubectl.plimsoll(&[args, more].concat())
    }

    /// Waits until the API server finds who serves a group.
    async fn available(&self, name: &str) -> Result<()> {
        until(format!("{name} to be available"), async || {
            let stored = self.world.cluster.get(&api_service(name)).await?;
            let mut conditions = stored["status"]["conditions"].as_array().into_iter().flatten();
            let available = conditions.find(|condition| condition["type"] == "Available");
            let available = available.context("no condition")?;
            ensure!(available["status"] == "True", "{available}");
            Ok(Some(()))
        })
        .await
    }
}

/// Runs a scenario with the shim and our metrics installed; afterwards metrics-server serves as before.
async fn with_api<'w>(
    world: &'w World,
    scenario: impl AsyncFnOnce(&Autoscaling<'w>, &Installed<'w>) -> Result<()>,
) -> Result<()> {
    world.metrics_server().await?;
    let components = ["webhook-config/components/hpa-shim", "webhook-config/components/hpa-external"];
    let objects = install::with_components(&world.cluster, &world.folder("hpa-components")?, &components)?;
    let ca = world.authority.pem();
    let endpoint = Endpoint { host: &world.host, port: world.service.port(), ca: &ca };
    world.install_more(objects, &endpoint).await?;
    let [port] = free_ports()?;
    let before = world.cluster.get(&api_service(GROUPS[0])).await?["spec"].clone();
    let installed = Installed { world, port, before: before.clone() };
    let config = json!({"hpa": {
        "shim": {"enabled": true},
        "external": {"enabled": true},
        "api": {
            "address": format!("127.0.0.1:{port}"),
            "upstream": world.usage_url().await?,
            "upstreamInsecureSkipVerify": true,
            "frontProxyInterval": "1s",
        },
    }});
    let outcome = with_autoscalers(world, &config, async |run| scenario(run, &installed).await);
    let outcome = std::panic::AssertUnwindSafe(outcome).catch_unwind().await;
    // Whatever came of it: namespaces cannot go while a group is served by nobody.
    for name in GROUPS {
        world.cluster.delete(&api_service(name)).await?;
    }
    let mut metrics = api_service(GROUPS[0]);
    metrics["spec"] = before;
    world.cluster.apply(&metrics).await?;
    world.metrics_server().await?;
    outcome.unwrap_or_else(|_| Err(anyhow!("panicked")))
}

/// The metric of pods or of workloads that is usage in per cent of what was asked for.
fn percent_of_pods() -> Value {
    let target = json!({"type": "AverageValue", "averageValue": "80"});
    json!({"type": "Pods", "pods": {"metric": {"name": "plimsoll_cpu_percent"}, "target": target}})
}

/// Ten pods that use 500m each of 1000m that were asked for and 500m that they got, unless said.
pub(in crate::scenarios) async fn counts(world: &World) -> Result<()> {
    with_api(world, async |_, installed| {
        let plain = |namespace: &str| deployment(namespace, &[usual()], "500m");
        let half = grouped(world, "hpa-shim-half", SHIM).await?;
        world.cluster.create(&plain(&half)).await?;
        rolled(world, &half).await?;
        group_profile(world, SHIM, &json!({"hpa": {"mode": "Shim"}})).await?;
        group_profile(world, LIMIT, &json!({"hpa": {"mode": "Shim"}, "basis": "Limit"})).await?;
        group_profile(world, EXTERNAL, &json!({"hpa": {"mode": "External"}})).await?;
        let [all, one, own, both] = [
            grouped(world, "hpa-shim-all", SHIM).await?,
            grouped(world, "hpa-shim-one", SHIM).await?,
            grouped(world, "hpa-shim-own", SHIM).await?,
            grouped(world, "hpa-shim-both", SHIM).await?,
        ];
        let limit = grouped(world, "hpa-shim-limit", LIMIT).await?;
        let [pods, workload] = [
            grouped(world, "hpa-external-pods", EXTERNAL).await?,
            grouped(world, "hpa-external-workload", EXTERNAL).await?,
        ];
        for namespace in [&all, &limit, &pods] {
            world.lowers(namespace, "500m").await?;
        }
        roll_half(world, &half, &json!({"metadata": {"annotations": {"e2e/stage": "half"}}})).await?;
        for namespace in [&all, &own, &both, &limit, &pods, &workload] {
            world.cluster.create(&plain(namespace)).await?;
        }
        world.cluster.create(&deployment(&one, &[usual(), asking("side", "3", "")], "500m")).await?;
        let everywhere: Vec<&str> = [&half, &all, &one, &own, &both, &limit, &pods, &workload].map(String::as_str).into();
        measured(world, &everywhere, PODS).await?;

        for what in ["metrics", "custom", "external"] {
            installed.run("install", what)?;
        }
        for name in GROUPS {
            installed.available(name).await?;
        }
        let of_one = of_container("app", &json!({"type": "Utilization", "averageUtilization": 80}));
        let workload_metric = json!({"type": "External", "external": {
            "metric": {"name": "plimsoll_cpu_percent", "selector": {"matchLabels": {"workload": "web", "kind": "Deployment"}}},
            "target": {"type": "Value", "value": "80"},
        }});
        let cases: [(&str, &str, &[Value], usize); 8] = [
            ("half of the pods are lowered", &half, &[eighty()], 7),
            ("all pods are lowered", &all, &[eighty()], 7),
            ("of one container of two", &one, &[of_one], 7),
            ("a target in cores is held against true usage", &own, &[average("cpu", "800m")], 7),
            ("a percentage beside it is too", &both, &[eighty(), average("cpu", "800m")], 13),
            ("of the limit", &limit, &[eighty()], 4),
            ("our metric of pods", &pods, &[percent_of_pods()], 7),
            ("our metric of the workload", &workload, &[workload_metric], 7),
        ];
        let mut expected: Vec<Expected<'_>> = Vec::new();
        for (rule, namespace, metrics, want) in &cases {
            world.cluster.create(&hpa(namespace, metrics)).await?;
            expected.push((rule, namespace, *want));
        }
        decided(world, &expected).await?;
        for namespace in [&half, &all, &limit] {
            has_targets(world, namespace, &["cpu 80%"]).await.context("nothing is converted")?;
        }
        told(world, &own, &["AverageValue", "as it is meant"]).await?;
        told(world, &both, &["AverageValue", "falsify"]).await.context("where that loses a meaning")?;
        for what in ["custom", "external"] {
            installed.run("remove", what)?;
        }
        for name in &GROUPS[1..] {
            ensure!(world.cluster.get_opt(&api_service(name)).await?.is_none(), "{name} is there still");
        }
        Ok(())
    })
    .await
}

/// What people see, who is let in, and what happens when metrics-server dies.
pub(in crate::scenarios) async fn life(world: &World) -> Result<()> {
    with_api(world, async |_, installed| {
        group_profile(world, SHIM, &json!({"hpa": {"mode": "Shim"}})).await?;
        let namespace = grouped(world, "hpa-shim-life", SHIM).await?;
        world.lowers(&namespace, "500m").await?;
        world.cluster.create(&deployment(&namespace, &[usual()], "800m")).await?;
        measured(world, &[&namespace], PODS).await?;
        let strange = installed.run_with("install", "metrics", &["--upstream-service", "kube-system/other"]);
        ensure!(strange.is_err(), "it takes the place of somebody it does not know");
        check_eq!(world.cluster.get(&api_service(GROUPS[0])).await?["spec"], installed.before, "still there");
        installed.run("install", "metrics")?;
        installed.available(GROUPS[0]).await?;
        let object = hpa(&namespace, &[eighty()]);
        world.cluster.create(&object).await?;
        decided(world, &[("at its target", &namespace, UNCHANGED)]).await?;
        let stored = world.cluster.get(&object).await?;
        let current = &stored["status"]["currentMetrics"][0]["resource"]["current"];
        near(&current["averageValue"], 400).context("what the controller is told")?;

        until("kubectl top to show all pods", async || {
            let args = ["top", "pods", "--no-headers", "--namespace", &namespace];
            let top = world.cluster.kubectl.run(args, None)?;
            check_eq!(top.lines().count(), PODS, "lines of kubectl top: {top}");
            for line in top.lines() {
                near(&line.split_whitespace().nth(1).unwrap_or_default().into(), 800)?;
            }
            Ok(Some(()))
        })
        .await?;
        callers(world, installed, &namespace).await?;

        // With what serves it there, a namespace goes as ever.
        let goes = world.namespace("hpa-shim-goes").await?;
        let goes = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": goes}});
        world.cluster.delete(&goes).await?;
        until("the namespace to be gone", async || {
            let there = world.cluster.get_opt(&goes).await?;
            there.map_or(Ok(Some(())), |there| Err(anyhow!("{}", there["status"])))
        })
        .await?;

        world.stop_metrics_server().await;
        until("the controller to have no usage", async || {
            let stored = world.cluster.get(&object).await?;
            let active = condition(&stored, "ScalingActive").context("no condition")?;
            ensure!(active["status"] == "False" && active["reason"] == "FailedGetResourceMetric", "{active}");
            Ok(Some(()))
        })
        .await?;
        check_eq!(rescales(world, &namespace).await?, Vec::<usize>::new(), "new numbers of replicas");

        installed.run("remove", "metrics")?;
        let after = world.cluster.get(&api_service(GROUPS[0])).await?;
        check_eq!(after["spec"], installed.before, "metrics-server's APIService");
        Ok(())
    })
    .await
}

/// Millicores, nearly.
fn near(text: &Value, want: u32) -> Result<()> {
    let milli: u32 = text.as_str().unwrap_or_default().trim_end_matches('m').parse()?;
    ensure!(milli.abs_diff(want) * 20 < want, "{text}, not {want}m");
    Ok(())
}

/// Who is let in, and what they are told.
async fn callers(world: &World, installed: &Installed<'_>, namespace: &str) -> Result<()> {
    let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
    let headers = [("X-Remote-User", "system:kube-controller-manager"), ("X-Remote-Group", "system:masters")];
    let nobody = Direct::new(world, installed.port, None)?;
    check_eq!(nobody.get(&path, &[]).await?.0, 401, "nobody");
    check_eq!(nobody.get(&path, &headers).await?.0, 401, "nobody who says to speak for somebody");
    let stranger = Direct::new(world, installed.port, Some((namespace, "default")))?;
    check_eq!(stranger.get(&path, &[]).await?.0, 403, "an account without rights");
    check_eq!(stranger.get(&path, &headers).await?.0, 403, "the same who says to speak for somebody");

    let usage = |body: &Value| body["items"][0]["containers"][0]["usage"]["cpu"].clone();
    let ours = Direct::new(world, installed.port, Some((NAMESPACE, "plimsoll")))?;
    let (code, body) = ours.get(&path, &[]).await?;
    check_eq!(code, 200, "an account with rights: {body}");
    in_nano(&usage(&body), 800).context("an account with rights")?;
    let controller = Direct::new(world, installed.port, Some(("kube-system", "horizontal-pod-autoscaler")))?;
    let (code, body) = controller.get(&path, &[]).await?;
    check_eq!(code, 200, "the controller's account: {body}");
    in_nano(&usage(&body), 400).context("the controller's account")?;

    // Through the API server.
    let as_user = |user: &str| {
        world
            .cluster
            .kubectl
            .run(["get", "--raw", &path, "--as", user], None)
            .map_err(|error| error.to_string())
    };
    let account = format!("system:serviceaccount:{namespace}:default");
    let said = as_user(&account).err().context("a stranger is told usage through the API server")?;
    ensure!(said.contains("orbidden"), "{said}");
    let body: Value =
        serde_json::from_str(&as_user("admin-of-something").unwrap_or_default()).unwrap_or_default();
    check_eq!(body, Value::Null, "a user without rights");
    let answer = as_user("system:serviceaccount:kube-system:horizontal-pod-autoscaler");
    let body: Value = serde_json::from_str(&answer.map_err(anyhow::Error::msg)?)?;
    in_nano(&usage(&body), 400).context("the controller's account through the API server")?;
    in_nano(&usage(&world.cluster.get_path(&path).await?), 800).context("the administrator")
}

/// A quantity of cores in any unit, nearly so many thousandths.
fn in_nano(text: &Value, want: u32) -> Result<()> {
    let quantity = text.as_str().unwrap_or_default();
    let (number, divisor) = match quantity.strip_suffix('n') {
        Some(number) => (number, 1_000_000.0),
        None => match quantity.strip_suffix('u') {
            Some(number) => (number, 1000.0),
            None => (quantity.trim_end_matches('m'), 1.0),
        },
    };
    let milli = number.parse::<f64>().with_context(|| format!("{text} is no usage"))? / divisor;
    ensure!((milli - f64::from(want)).abs() * 20.0 < f64::from(want), "{text}, not {want}m");
    Ok(())
}
