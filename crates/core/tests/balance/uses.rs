//! What pods use, from what containers use.

use plimsoll_core::balance::{BalanceNode, PodUses};
use plimsoll_core::placement::{
    ByResource, ContainerUse, Figures, LearntWeights, LoadSnapshot, NodeResource, Placed, PlacedPod,
    Settings, View,
};
use serde_json::json;

use crate::support::{World, pod};

#[test]
fn containers_add_up_to_pods() {
    let mut world = World::of_busy(&[0.5, 0.5, 0.5]);
    world.node("n4", &json!({"status": {"capacity": {"cpu": "20"}}}));
    let read = |node: &str, name: &str, owner: &str| {
        let mut pod = pod(node, owner, &json!({}));
        pod["metadata"]["name"] = json!(name);
        PlacedPod::read(&pod, &world.objects).unwrap()
    };
    let two = pod("n1", "two", &json!({"spec": {"containers": [{"name": "app"}, {"name": "new"}]}}));
    let two = PlacedPod::read(&two, &world.objects).unwrap();
    let pods = [
        read("n1", "web-1", "web"),
        read("n4", "web-2", "web"),
        read("n1", "api-1", "api"),
        read("n1", "api-2", "api"),
        read("n1", "job-1", "job"),
        read("gone", "lost-1", "lost"),
        read("n1", "half-1", "half"),
        read("n1", "part-1", "part"),
        two,
    ];
    let container = |of: &PlacedPod, pod: &str, cpu: Option<f64>, memory: Option<f64>| {
        let mut local = ByResource::default();
        local.set(NodeResource::Cpu, cpu);
        local.set(NodeResource::Memory, memory);
        ContainerUse {
            workload: of.shape.workload.clone(),
            pod: pod.into(),
            container: "c".into(),
            image: "".into(),
            node: of.node.clone().unwrap(),
            local,
        }
    };
    let containers = [
        container(&pods[0], "shop/web-1", Some(0.1), Some(0.01)),
        container(&pods[0], "shop/web-1", Some(0.2), Some(0.0)),
        container(&pods[1], "shop/web-2", Some(0.1), Some(2.0)),
        // Of which of the two is not said.
        container(&pods[2], "", Some(0.1), Some(0.1)),
        container(&pods[2], "", Some(0.3), Some(0.1)),
        container(&pods[4], "shop/job-1", None, None),
        container(&pods[6], "shop/half-1", Some(0.1), Some(0.1)),
        container(&pods[6], "shop/half-1", Some(0.1), None),
        container(&pods[8], "shop/two", Some(0.1), Some(0.1)),
        container(&pods[7], "", None, Some(0.1)),
        container(&pods[7], "", Some(0.1), Some(0.1)),
        container(&pods[5], "shop/lost-1", Some(0.1), Some(0.1)),
        // One of the same name that was on another node before.
        container(&pods[1], "shop/web-1", Some(0.9), None),
    ];
    let placed = Placed::listed(pods.iter().cloned());
    let (load, weights, settings) = (LoadSnapshot::default(), LearntWeights::default(), Settings::default());
    let view = View {
        objects: &world.objects,
        load: &load,
        placed: &placed,
        weights: &weights,
        settings: &settings,
        now: 0,
        node_lost: 0,
        bindings: None,
    };
    let nodes = BalanceNode::all(&view);
    let uses = PodUses::new(&containers, &nodes, &placed);
    let gibi = 1024.0 * 1024.0 * 1024.0;
    let expected = [
        ("all containers of a pod", Some((3.0, gibi))),
        ("a share above 1 counts as 1; another node is larger", Some((2.0, 100.0 * gibi))),
        ("an equal part of what is the workload's", Some((2.0, 10.0 * gibi))),
        ("and so the other one", Some((2.0, 10.0 * gibi))),
        ("nothing was measured", None),
        ("a node that nobody knows", None),
        ("the memory of one container is not known", None),
        ("the CPU of one of the workload's is not known", None),
        ("of one of its containers nothing is known", None),
    ];
    for (pod, (rule, expected)) in pods.iter().zip(expected) {
        let found = uses.of(pod);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6 * b.max(1.0);
        let same = match (found, expected) {
            (Some(Figures { cpu, memory }), Some((cores, bytes))) => {
                close(cpu, cores) && close(memory, bytes)
            }
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(same, "{rule}: {found:?}");
    }
}
