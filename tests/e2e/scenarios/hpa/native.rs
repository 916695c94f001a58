//! What the HPA controller decides without our help: the counts that the others are compared with.

use anyhow::Result;
use serde_json::{Value, json};

use crate::harness::World;
use crate::harness::hpa::{
    PODS, asking, average, decided, deployment, eighty, hpa, measured, roll_half, usual, utilization,
};

/// Ten pods that use 500m each.
pub(in crate::scenarios) async fn counts(world: &World) -> Result<()> {
    let halved = || asking("app", "500m", "2");
    let cases = [
        ("as the user meant it", usual(), eighty(), 7),
        ("the request is halved and the autoscaler is not told", halved(), eighty(), 13),
        ("the halved request with the target in cores", halved(), average("cpu", "800m"), 7),
        ("80 % of the limit, in cores", usual(), average("cpu", "1600m"), 4),
        ("half of the pods are halved", usual(), eighty(), 9),
        ("half of the pods are halved and the target is doubled", usual(), utilization("cpu", 160), 5),
    ];
    world.metrics_server().await?;
    let mut namespaces = Vec::new();
    for (number, (rule, container, ..)) in cases.iter().enumerate() {
        let namespace = world.namespace(&format!("hpa-native-{number}")).await?;
        world.cluster.create(&deployment(&namespace, std::slice::from_ref(container), "500m")).await?;
        if rule.starts_with("half") {
            roll_half(world, &namespace, &json!({"spec": {"containers": [halved()]}})).await?;
        }
        namespaces.push(namespace);
    }
    let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
    measured(world, &namespaces, PODS).await?;
    let mut expected = Vec::new();
    for ((rule, _, metric, want), namespace) in cases.iter().zip(&namespaces) {
        world.cluster.create(&hpa(namespace, std::slice::from_ref::<Value>(metric))).await?;
        expected.push((*rule, *namespace, *want));
    }
    decided(world, &expected).await
}
