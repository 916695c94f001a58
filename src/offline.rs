//! The cluster's state from manifests, for commands that work without a cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use plimsoll_core::admission::{
    AbsentNamespace, Context, Decision, Settings, decide, explain, patch_to_json,
};
use plimsoll_core::objects::{Fact, FactKey, Objects, read_manifest};
use plimsoll_core::pod::{Pruned, default_from_limit_ranges, default_requests, defaulted};
use serde_json::Value;

use crate::config::Config;
use crate::input::{self, InputError};
use crate::kinds;
use crate::profiles;
use crate::standalone::object_name;

/// Flags that every command without a cluster has.
#[derive(Debug, clap::Args)]
pub struct ClusterArgs {
    /// Manifests that stand for the cluster: files, directories (their files, not those below), or - for standard input
    #[arg(long, value_name = "FILE|DIR", num_args = 1..)]
    pub objects: Vec<PathBuf>,

    /// The time at which recommendations must be fresh, in place of now; as 2026-03-01T10:00:00Z
    #[arg(long, value_name = "TIME")]
    pub at: Option<Timestamp>,
}

/// The cluster as manifests describe it.
#[derive(Debug)]
pub struct Offline {
    objects: Objects,
    settings: Settings,
    /// By namespace and name.
    limit_ranges: BTreeMap<(String, String), Value>,
    now: Timestamp,
    /// What was left out, and why. None of it disturbs the rest, as in a cluster.
    pub notes: Vec<String>,
    /// Those of the notes that are about objects that cannot be read.
    pub unreadable: Vec<String>,
}

impl Offline {
    /// Reads the manifests and the configuration's profiles.
    pub fn load(args: &ClusterArgs, config: &Config) -> Result<Self, InputError> {
        Ok(Self::of(input::read_all(&args.objects)?, args.at, config))
    }

    /// The same of manifests that were read already.
    pub fn of(documents: Vec<input::Document>, at: Option<Timestamp>, config: &Config) -> Self {
        let mut offline = Self {
            objects: Objects::default(),
            settings: profiles::settings(config, AbsentNamespace::Exists),
            limit_ranges: BTreeMap::new(),
            now: at.unwrap_or_else(Timestamp::now),
            notes: Vec::new(),
            unreadable: Vec::new(),
        };
        offline.objects.set_file_profiles(profiles::of_file(config));
        let mut places: BTreeMap<FactKey, String> = BTreeMap::new();
        for input::Document { value, origin } in documents {
            match read_manifest(&value) {
                Ok(Some(fact)) => offline.add(fact, value, &origin, &mut places),
                Ok(None) => {
                    let meant = kinds::near_miss(&value).map(|meant| format!("{origin}: {meant}"));
                    offline.notes.extend(meant);
                }
                Err(error) => {
                    offline.notes.push(format!("{origin}: {error}"));
                    offline.unreadable.push(format!("{origin}: {error}"));
                }
            }
        }
        offline
    }

    /// Takes a pod in as a list has it, without its type. Nothing is kept of it but what quota counts.
    pub(crate) fn put_pod(&mut self, mut pod: Value) {
        if let Some(members) = pod.as_object_mut() {
            members.insert("apiVersion".to_owned(), "v1".into());
            members.insert("kind".to_owned(), "Pod".into());
        }
        match read_manifest(&pod) {
            Ok(Some(fact)) => {
                self.objects.put(fact);
            }
            Ok(None) => {}
            Err(error) => {
                let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                self.unreadable.push(format!("Pod {name}: {error}"));
            }
        }
    }

    /// Takes an object in; one that is there already gives way, as in a cluster to which both are applied.
    fn add(&mut self, fact: Fact, manifest: Value, origin: &str, places: &mut BTreeMap<FactKey, String>) {
        if let Fact::BrokenProfile { name, problems } = &fact {
            let notes = problems.iter().map(|problem| format!("{origin}: profile {name:?}: {problem}"));
            self.notes.extend(notes);
        }
        let key = fact.key();
        if let Some(earlier) = places.insert(key.clone(), origin.to_owned()) {
            let object = object_name(&key);
            self.notes.push(format!("{origin}: {object} is in {earlier} too; this one is used"));
        }
        if matches!(fact, Fact::LimitRange(_)) {
            self.limit_ranges.insert((key.namespace, key.name), manifest);
        }
        self.objects.put(fact);
    }

    /// The decision about a pod that is about to be created, after the defaulting that the API server would do.
    pub fn decide(&self, pod: &Pruned<'_>, namespace: &str) -> Decision {
        let defaulted = self.defaulted(pod, namespace);
        decide(pod, namespace, &Context { defaulted: Some(&defaulted), ..self.context() })
    }

    /// The same for a person: with `apply: false` also what would become of the pod.
    pub fn explain(&self, pod: &Pruned<'_>, namespace: &str) -> Decision {
        let defaulted = self.defaulted(pod, namespace);
        explain(pod, namespace, &Context { defaulted: Some(&defaulted), ..self.context() })
    }

    /// A pod as it would be stored: changed as [`decide`](Self::decide) says, and with what the API server fills in.
    pub fn stored(&self, pod: &Value, namespace: &str) -> Value {
        let mut stored = pod.clone();
        let decision = self.decide(&Pruned::of(pod), namespace);
        if let Ok(patch) = serde_json::from_slice::<json_patch::Patch>(&patch_to_json(&decision.answer.patch))
            // The patch was checked against this pod before; what does not apply leaves it as it is.
            && json_patch::patch(&mut stored, &patch).is_err()
        {
            stored.clone_from(pod);
        }
        default_requests(&mut stored);
        default_from_limit_ranges(&mut stored, self.limit_ranges_of(namespace));
        stored
    }

    /// A pod with what the API server would fill in.
    pub fn defaulted(&self, pod: &Pruned<'_>, namespace: &str) -> Pruned<'static> {
        defaulted(pod, self.limit_ranges_of(namespace))
    }

    /// The `LimitRange` manifests of a namespace.
    pub fn limit_ranges_of(&self, namespace: &str) -> impl Iterator<Item = &Value> {
        self.limit_ranges
            .iter()
            .filter(move |((of, _), _)| of == namespace)
            .map(|(_, limit_range)| limit_range)
    }

    /// What decisions are made by.
    pub fn context(&self) -> Context<'_> {
        Context {
            objects: &self.objects,
            settings: &self.settings,
            namespace: None,
            now: self.now,
            defaulted: None,
        }
    }
}
