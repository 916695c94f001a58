//! Pods that nothing but their usage tells of, where there is no cluster to ask.

use std::sync::Arc;

use crate::pod::{Owner, Workload};
use crate::recommender::past::is_suffix;
use crate::recommender::pods::{ContainerShape, PodFacts, PodShape};
use crate::recommender::state::{Recommender, Sample};

/// What stands for the UID of an owner that is only guessed.
const GUESSED: &str = "guessed";

impl Recommender {
    /// Makes the pod and container of a sample known, if they are not. Its workload is guessed by its name: that is as
    /// good as it gets without owner references. Whether anything is new.
    pub fn introduce(&mut self, sample: &Sample<'_>) -> bool {
        if !self.covers(sample.namespace) {
            return false;
        }
        let known = self.pods.get(sample.namespace).and_then(|pods| pods.get(sample.pod));
        let mut containers = known.map(|pod| pod.facts.shape.containers.clone()).unwrap_or_default();
        if containers.iter().any(|container| container.name == sample.container) {
            return false;
        }
        containers.push(ContainerShape { name: sample.container.to_owned(), cpu: None, memory: None });
        let workload = guess_workload(sample.pod);
        let api_version = if workload.kind == "CronJob" { "batch/v1" } else { "apps/v1" };
        self.put_pod(PodFacts {
            namespace: sample.namespace.to_owned(),
            name: sample.pod.to_owned(),
            uid: GUESSED.to_owned(),
            created: sample.nanos,
            running: true,
            ended: false,
            controller: Some(Owner {
                workload,
                api_version: api_version.to_owned(),
                uid: GUESSED.to_owned(),
            }),
            shape: Arc::new(PodShape { containers, ..PodShape::default() }),
            kills: Vec::new(),
        });
        true
    }
}

/// The workload that a pod of this name most probably belongs to. A name without a random or counted end is taken
/// for that of a Deployment.
fn guess_workload(pod: &str) -> Workload {
    let fits = |kind: &'static str| {
        let mut ends = pod.match_indices('-').map(|(at, _)| at).filter(|at| *at > 0);
        let at = ends.rfind(|at| pod.get(at + 1..).is_some_and(|rest| is_suffix(kind, rest)))?;
        Some((kind, pod.get(..at)?))
    };
    let found = ["CronJob", "Deployment", "StatefulSet", "DaemonSet"].into_iter().find_map(fits);
    let (kind, name) = found.unwrap_or(("Deployment", pod));
    let group = if kind == "CronJob" { "batch" } else { "apps" };
    Workload { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::guess_workload;

    #[test]
    fn workloads_by_the_names_of_their_pods() {
        for (rule, pod, kind, name) in [
            ("a Deployment's", "web-7d4f9c8b6d-x2x4z", "Deployment", "web"),
            ("a dash in the name", "web-shop-7d4f9c8b6d-x2x4z", "Deployment", "web-shop"),
            ("a StatefulSet's", "db-12", "StatefulSet", "db"),
            ("a CronJob's", "nightly-28471930-x2x4z", "CronJob", "nightly"),
            ("a DaemonSet's", "agent-x2x4z", "DaemonSet", "agent"),
            ("a workload's own name", "checkout", "Deployment", "checkout"),
            ("with a dash", "check-out", "Deployment", "check-out"),
            ("nothing before the dash", "-0", "Deployment", "-0"),
        ] {
            let workload = guess_workload(pod);
            assert_eq!((workload.kind.as_str(), workload.name.as_str()), (kind, name), "{rule}");
        }
    }
}
