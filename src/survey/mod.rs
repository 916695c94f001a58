//! What is saved in the whole cluster, for people who look: a list of pods and what they use, read only while somebody
//! looks.
//!
//! [`take`] reads once. [`Surveys`] reads again and again for the pages of the server: the first look starts it, and
//! some minutes after the last one it forgets everything, so that nobody pays for what nobody reads.

mod history;
mod list;
mod past;
mod watch;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use plimsoll_core::objects::Objects;
use plimsoll_core::placement::WorkloadKey;
use plimsoll_core::savings::{Savings, SavingsPod, Usage};
use serde_json::Value;

pub use self::history::{History, Point};
pub(crate) use self::list::pods as each_pod;
pub use self::past::{LastDay, Pasts};
pub use self::watch::{SurveyParts, Surveys};
use crate::cluster::WriteError;
use crate::recommender::sources::Source;

/// So many pods that make no sense are told.
const PROBLEMS: usize = 10;

/// One look at the whole cluster.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// What was found, by workload.
    pub savings: Savings,
    /// The name of one pod of each workload, to be asked what it is like: the newest that is not being deleted, which is
    /// of the revision in force.
    pub examples: HashMap<WorkloadKey, Arc<str>>,
    /// When it was complete.
    pub taken: Timestamp,
    /// What could not be read, and what can be done about it: parts of usage that are missing, pods that make no sense.
    pub problems: Vec<String>,
}

/// Reads all pods once, and what they use if there is a source.
///
/// # Errors
/// The pods cannot be listed; what is missing then is named by verb and resource.
pub async fn take(
    client: &Client,
    objects: &Objects,
    source: Option<&mut Source>,
) -> Result<Survey, WriteError> {
    take_in(client, objects, source, None).await
}

/// The same of one namespace, for who may not read others.
///
/// # Errors
/// As [`take`].
pub async fn take_in(
    client: &Client,
    objects: &Objects,
    source: Option<&mut Source>,
    namespace: Option<&str>,
) -> Result<Survey, WriteError> {
    let mut problems = Vec::new();
    let mut pods: Vec<SavingsPod> = Vec::new();
    let mut names = Names::default();
    let mut newest = Newest::default();
    list::pods(client, namespace, &mut |pod| match SavingsPod::read(&pod, objects) {
        Ok(found) => pods.extend(found.map(|found| newest.offered(&pod, names.shared(found)))),
        Err(error) if problems.len() < PROBLEMS => problems.push(format!("a pod cannot be counted: {error}")),
        Err(_) => {}
    })
    .await?;
    drop(names);
    let mut usage = Usage::default();
    if let Some(source) = source {
        let namespaces: BTreeSet<&str> = pods.iter().map(|pod| &*pod.workload.namespace).collect();
        source.set_namespaces(namespaces.into_iter().map(str::to_owned).collect());
        let now = i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX);
        let scan = source
            .scan(now, &mut |sample| usage.add(sample.namespace, sample.pod, sample.cpu, sample.memory))
            .await;
        problems.extend(scan.failures.iter().map(|failure| format!("usage: {failure}")));
    }
    let savings = Savings::of(&pods, &usage);
    Ok(Survey { savings, examples: newest.names(), taken: Timestamp::now(), problems })
}

/// The newest pod of each workload.
#[derive(Default)]
struct Newest(HashMap<WorkloadKey, (Rank, Arc<str>)>);

/// Whether it stays, and when it was made; the greater is the newer.
type Rank = (bool, Option<Timestamp>);

impl Newest {
    fn offered(&mut self, manifest: &Value, pod: SavingsPod) -> SavingsPod {
        let stays = manifest.pointer("/metadata/deletionTimestamp").is_none_or(Value::is_null);
        let made = manifest.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
        let rank = (stays, made.and_then(|made| made.parse().ok()));
        if self.0.get(&pod.workload).is_none_or(|(known, _)| *known < rank) {
            self.0.insert(pod.workload.clone(), (rank, Arc::clone(&pod.name)));
        }
        pod
    }

    fn names(self) -> HashMap<WorkloadKey, Arc<str>> {
        self.0.into_iter().map(|(key, (_, name))| (key, name)).collect()
    }
}

/// What many pods have in common, kept once.
#[derive(Default)]
struct Names {
    namespaces: HashSet<Arc<str>>,
    workloads: HashSet<WorkloadKey>,
}

impl Names {
    fn shared(&mut self, mut pod: SavingsPod) -> SavingsPod {
        if let Some(known) = self.workloads.get(&pod.workload) {
            pod.workload = known.clone();
            return pod;
        }
        match self.namespaces.get(&pod.workload.namespace) {
            Some(known) => pod.workload.namespace = Arc::clone(known),
            None => {
                self.namespaces.insert(Arc::clone(&pod.workload.namespace));
            }
        }
        self.workloads.insert(pod.workload.clone());
        pod
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_example_is_not_of_an_old_revision() {
        let pod = |name: &str, made: &str, deleted: Option<&str>| {
            json!({
                "metadata": {
                    "namespace": "shop", "name": name, "creationTimestamp": made, "deletionTimestamp": deleted,
                    "ownerReferences": [
                        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "w", "controller": true},
                    ],
                },
                "spec": {"containers": [{"name": "app"}]},
            })
        };
        let (old, new, newer) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z");
        for (rule, pods, expected) in [
            ("the newest", vec![pod("a", new, None), pod("b", old, None)], "a"),
            ("the newest, last", vec![pod("a", old, None), pod("b", new, None)], "b"),
            ("not one that ends", vec![pod("a", old, None), pod("b", newer, Some(newer))], "a"),
            ("if there is no other", vec![pod("b", newer, Some(newer))], "b"),
        ] {
            let mut newest = Newest::default();
            for pod in &pods {
                let read = SavingsPod::read(pod, &Objects::default()).unwrap().unwrap();
                newest.offered(pod, read);
            }
            let names: Vec<String> = newest.names().into_values().map(|name| name.to_string()).collect();
            assert_eq!(names, [expected], "{rule}");
        }
    }
}
