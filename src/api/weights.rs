//! `/api/v1/weights/NAMESPACE/KIND/NAME`.

use std::collections::BTreeSet;

use plimsoll_core::placement::{Placed, Weights, WorkloadKey};
use plimsoll_core::pod::Workload;
use serde_json::{Map, Value, json};

use crate::placement::PlacementState;

/// By what weights nodes are scored for a workload, and where they come from: its own, else those of its images, else
/// the configuration's. A workload of which nothing runs, and nothing is known, has the latter.
pub(crate) fn of_workload(state: &PlacementState, namespace: &str, kind: &str, name: &str) -> String {
    let weights = state.weights.load();
    let is_meant = |found: &str, of_kind: &str, of_name: &str| {
        found == namespace && of_kind.eq_ignore_ascii_case(kind) && of_name == name
    };
    let placed = state.pods.read().clone();
    let (pods, images, running) = of_pods(&placed, &is_meant);
    // One that does not run at the moment may have been learnt of before.
    let learnt = || {
        let mut all = weights.workloads.keys();
        all.find(|key| is_meant(&key.namespace, &key.workload.kind, &key.workload.name)).cloned()
    };
    let default = state.settings.load().default_weights;
    let nobody = || WorkloadKey {
        namespace: namespace.into(),
        workload: Workload { group: String::new(), kind: kind.to_owned(), name: name.to_owned() }.into(),
    };
    let key = running.or_else(learnt).unwrap_or_else(nobody);
    let (found, from) = weights.of(&key, images.iter().map(String::as_str), default);
    let of_images = images.iter().map(|image| {
        let known = weights.images.get(image.as_str()).map_or(Value::Null, shown);
        json!({ "image": image, "weights": known })
    });
    json!({
        "namespace": namespace,
        "kind": key.workload.kind,
        "name": name,
        "pods": pods,
        "weights": shown(&found),
        "weightsFrom": from.name(),
        "images": of_images.collect::<Vec<_>>(),
        "taken": taken(state.uses.load().taken),
    })
    .to_string()
}

/// How many pods of it are known, what images they run, and its key.
fn of_pods(
    placed: &Placed,
    is_meant: &impl Fn(&str, &str, &str) -> bool,
) -> (usize, BTreeSet<String>, Option<WorkloadKey>) {
    let (mut pods, mut images, mut key) = (0, BTreeSet::new(), None);
    for pod in placed.pods() {
        let of = &pod.shape.workload;
        if is_meant(&of.namespace, &of.workload.kind, &of.workload.name) {
            pods += 1;
            let known = pod.shape.containers.iter().map(|container| container.image.to_string());
            images.extend(known.filter(|image| !image.is_empty()));
            key.get_or_insert_with(|| of.clone());
        }
    }
    (pods, images, key)
}

fn shown(weights: &Weights) -> Value {
    Value::Object(
        weights
            .iter()
            .map(|(resource, weight)| (resource.name().to_owned(), json!(weight)))
            .collect::<Map<_, _>>(),
    )
}

/// When usage was read last; nothing if it never was.
fn taken(nanos: i64) -> Value {
    if nanos == 0 {
        return Value::Null;
    }
    jiff::Timestamp::from_nanosecond(i128::from(nanos)).map_or(Value::Null, |time| json!(time.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_core::objects::Objects;
    use plimsoll_core::placement::{
        ByResource, LearntWeights, NodeResource, PlacedPod, Settings, workload_key,
    };

    use super::*;
    use crate::placement::PlacedPods;

    fn pod(name: &str, workload: &str, image: &str) -> PlacedPod {
        let manifest = json!({
            "metadata": {
                "name": name, "namespace": "shop", "uid": name,
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": workload, "uid": "w", "controller": true},
                ],
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": image}]},
        });
        PlacedPod::read(&manifest, &Objects::default()).unwrap()
    }

    #[test]
    fn where_weights_come_from() {
        let mut cpu = ByResource::default();
        cpu.set(NodeResource::Cpu, 1.0);
        let mut disk = ByResource::default();
        disk.set(NodeResource::Disk, 1.0);
        let mut state = PlacementState::new(Settings::default(), Arc::default());
        let pods = [pod("web-0", "web", "a:1"), pod("web-1", "web", "a:1"), pod("db-0", "db", "b:1")];
        state.pods = PlacedPods::of(Placed::listed(pods));
        let learnt =
            ["shop/StatefulSet/web", "shop/StatefulSet/asleep"].map(|key| (workload_key(key).unwrap(), cpu));
        let images = [("b:1".into(), disk)].into();
        state.weights.store(Arc::new(LearntWeights { workloads: learnt.into(), images }));
        let of = |kind: &str, name: &str| -> Value {
            serde_json::from_str(&of_workload(&state, "shop", kind, name)).unwrap()
        };
        for (rule, kind, name, from, first, pods) in [
            ("its own", "StatefulSet", "web", "workload", 1.0, 2),
            ("kinds in any case", "statefulset", "web", "workload", 1.0, 2),
            ("its images'", "StatefulSet", "db", "image", 0.0, 1),
            ("nothing runs, but it is known", "StatefulSet", "asleep", "workload", 1.0, 0),
            ("nobody knows it", "Job", "new", "default", 0.25, 0),
        ] {
            let answer = of(kind, name);
            assert_eq!(answer["weightsFrom"], from, "{rule}: {answer}");
            assert_eq!((&answer["weights"]["cpu"], &answer["pods"]), (&json!(first), &json!(pods)), "{rule}");
        }
        let web = of("StatefulSet", "web");
        assert_eq!(web["images"], json!([{"image": "a:1", "weights": null}]));
        assert_eq!((&web["taken"], &web["kind"]), (&Value::Null, &json!("StatefulSet")));
    }
}
