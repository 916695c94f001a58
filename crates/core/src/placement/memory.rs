//! What was learnt of workloads, over the time in which they are not measured.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::placement::pod::WorkloadKey;
use crate::placement::weights::{ByResource, ContainerUse, LearntWeights, Weights, learn, normalised};

/// How long the weights of a workload are kept of which nothing runs: until tomorrow's run of a daily one.
const KEPT: i64 = 2 * 86_400 * 1_000_000_000;

/// The weights of workloads with what is needed to keep them.
#[derive(Clone, Debug, Default)]
pub struct WeightsMemory(HashMap<WorkloadKey, Known>);

#[derive(Clone, Debug)]
struct Known {
    weights: Weights,
    images: BTreeSet<Arc<str>>,
    /// When it was last measured, or restored; nanoseconds since 1970.
    seen: i64,
}

impl WeightsMemory {
    /// Takes up weights that were kept over a restart, and the images that the workload runs. What was measured already
    /// stays. Weights that cannot be any are passed over.
    pub fn restore(
        &mut self,
        workload: WorkloadKey,
        weights: ByResource<f64>,
        images: impl IntoIterator<Item = Arc<str>>,
        now: i64,
    ) {
        let possible = weights.iter().all(|(_, weight)| weight.is_finite() && weight >= 0.0);
        if let Some(weights) = normalised(weights).filter(|_| possible) {
            let images = images.into_iter().collect();
            self.0.entry(workload).or_insert(Known { weights, images, seen: now });
        }
    }

    /// Learns from what containers use at `now`; see [`learn`]. A workload that is measured and uses nothing is
    /// forgotten, one of which nothing is measured stays for two days.
    pub fn learn(
        &mut self,
        containers: &[ContainerUse],
        totals: impl Fn(&str) -> ByResource<Option<f64>>,
        nodes: impl IntoIterator<Item = ByResource<Option<f64>>>,
        now: i64,
    ) -> LearntWeights {
        let learnt = learn(containers, totals, nodes);
        let mut images: HashMap<&WorkloadKey, BTreeSet<Arc<str>>> = HashMap::new();
        for container in containers {
            let of_workload = images.entry(&container.workload).or_default();
            if !container.image.is_empty() && !of_workload.contains(&container.image) {
                of_workload.insert(Arc::clone(&container.image));
            }
        }
        self.0.retain(|workload, known| {
            !images.contains_key(workload) && now.saturating_sub(known.seen) <= KEPT
        });
        for (workload, weights) in learnt.workloads {
            let images = images.remove(&workload).unwrap_or_default();
            self.0.insert(workload, Known { weights, images, seen: now });
        }
        self.weights()
    }

    /// The weights of all workloads, and those of images: the plain mean of the workloads that run them.
    pub fn weights(&self) -> LearntWeights {
        let mut sums: HashMap<&Arc<str>, ByResource<f64>> = HashMap::new();
        for known in self.0.values() {
            for image in &known.images {
                let sum = sums.entry(image).or_default();
                for (resource, weight) in known.weights.iter() {
                    sum.set(resource, sum.get(resource) + weight);
                }
            }
        }
        // Each has the sum 1, so that to normalise the sum is to divide by their number.
        let images = sums.into_iter().filter_map(|(image, sum)| Some((Arc::clone(image), normalised(sum)?)));
        LearntWeights {
            workloads: self.0.iter().map(|(workload, known)| (workload.clone(), known.weights)).collect(),
            images: images.collect(),
        }
    }

    /// How many workloads are known.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::NodeResource;
    use crate::pod::Workload;

    const DAY: i64 = 86_400 * 1_000_000_000;

    fn key(name: &str) -> WorkloadKey {
        let workload = Workload { group: "apps".into(), kind: "Deployment".into(), name: name.into() };
        WorkloadKey { namespace: "shop".into(), workload: Arc::new(workload) }
    }

    fn uses(name: &str, image: &str, cpu: f64, memory: f64) -> ContainerUse {
        let mut local = ByResource::default();
        local.set(NodeResource::Cpu, Some(cpu));
        local.set(NodeResource::Memory, Some(memory));
        ContainerUse {
            workload: key(name),
            pod: format!("shop/{name}-0").into(),
            container: "app".into(),
            image: image.into(),
            node: "n1".into(),
            local,
        }
    }

    fn totals() -> ByResource<Option<f64>> {
        ByResource::all(Some(10.0))
    }

    fn weights(cpu: f64, memory: f64) -> ByResource<f64> {
        let mut weights = ByResource::default();
        weights.set(NodeResource::Cpu, cpu);
        weights.set(NodeResource::Memory, memory);
        weights
    }

    fn learn_at(memory: &mut WeightsMemory, containers: &[ContainerUse], now: i64) -> LearntWeights {
        memory.learn(containers, |_| totals(), [totals()], now)
    }

    #[test]
    fn what_is_measured_replaces_what_was_restored() {
        let mut memory = WeightsMemory::default();
        memory.restore(key("web"), weights(3.0, 1.0), ["img".into()], 0);
        memory.restore(key("db"), weights(0.0, 2.0), ["img".into(), "pg".into()], 0);
        memory.restore(key("bad"), weights(f64::NAN, 1.0), [], 0);
        memory.restore(key("worse"), weights(-1.0, 2.0), [], 0);
        memory.restore(key("empty"), weights(0.0, 0.0), [], 0);
        let found = memory.weights();
        assert_eq!(found.workloads.len(), 2, "impossible ones are passed over");
        assert_eq!(found.workloads[&key("web")], weights(0.75, 0.25));
        assert_eq!(found.images["img"], weights(0.375, 0.625), "the plain mean");
        assert_eq!(found.images["pg"], weights(0.0, 1.0));

        let found = learn_at(&mut memory, &[uses("web", "img2", 0.25, 0.75)], 1);
        assert_eq!(found.workloads[&key("web")], weights(0.25, 0.75));
        assert_eq!(found.images["img2"], weights(0.25, 0.75));
        assert_eq!(found.images["img"], weights(0.0, 1.0), "web runs it no more, db is not measured yet");
        memory.restore(key("web"), weights(1.0, 0.0), [], 2);
        assert_eq!(memory.weights().workloads[&key("web")], weights(0.25, 0.75), "measured is newer");
    }

    #[test]
    fn how_long_weights_are_kept() {
        let web = [uses("web", "img", 0.1, 0.1)];
        for (rule, later, containers, kept) in [
            ("it runs", 9 * DAY, &web[..], true),
            ("nothing runs since a day", DAY, &[][..], true),
            ("nothing runs since three days", 3 * DAY, &[][..], false),
            ("it runs and uses nothing", 1, &[uses("web", "img", 0.0, 0.0)][..], false),
        ] {
            let mut memory = WeightsMemory::default();
            learn_at(&mut memory, &web, 0);
            let found = learn_at(&mut memory, containers, later);
            assert_eq!(found.workloads.contains_key(&key("web")), kept, "{rule}");
            assert_eq!(found.images.contains_key("img"), kept, "{rule}");
        }
    }
}
