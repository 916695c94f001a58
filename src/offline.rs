//! The cluster's state from manifests, for commands that work without a cluster.

use std::path::PathBuf;

use jiff::Timestamp;
use plimsoll_core::admission::{AbsentNamespace, Context, Decision, Settings, decide};
use plimsoll_core::objects::{Fact, Objects, read_manifest};
use plimsoll_core::pod::{Pruned, defaulted};
use serde_json::Value;

use crate::config::Config;
use crate::input::{self, InputError};
use crate::profiles;

/// Flags that every command without a cluster has.
#[derive(Debug, clap::Args)]
pub struct ClusterArgs {
    /// Manifests that stand for the cluster: files, directories, or - for standard input
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
    limit_ranges: Vec<Value>,
    now: Timestamp,
    /// What was left out, and why. None of it disturbs the rest, as in a cluster.
    pub notes: Vec<String>,
}

impl Offline {
    /// Reads the manifests and the configuration's profiles.
    pub fn load(args: &ClusterArgs, config: &Config) -> Result<Self, InputError> {
        let mut offline = Self {
            objects: Objects::default(),
            settings: Settings {
                excluded_namespaces: profiles::excluded_namespaces(config),
                absent_namespace: AbsentNamespace::Exists,
            },
            limit_ranges: Vec::new(),
            now: args.at.unwrap_or_else(Timestamp::now),
            notes: Vec::new(),
        };
        offline.objects.set_file_profiles(profiles::of_file(config));
        for document in input::read_all(&args.objects)? {
            let at = &document.origin;
            match read_manifest(&document.value) {
                Ok(Some(Fact::BrokenProfile { name, problems })) => {
                    offline
                        .notes
                        .extend(problems.iter().map(|problem| format!("{at}: profile {name:?}: {problem}")));
                    offline.objects.put(Fact::BrokenProfile { name, problems });
                }
                Ok(Some(fact)) => {
                    if matches!(fact, Fact::LimitRange(_)) {
                        offline.limit_ranges.push(document.value.clone());
                    }
                    offline.objects.put(fact);
                }
                Ok(None) => {}
                Err(error) => offline.notes.push(format!("{at}: {error}")),
            }
        }
        Ok(offline)
    }

    /// The decision about a pod that is about to be created, after the defaulting that the API server would do.
    pub fn decide(&self, pod: &Pruned<'_>, namespace: &str) -> Decision {
        let defaulted = self.defaulted(pod, namespace);
        decide(pod, namespace, &Context { defaulted: Some(&defaulted), ..self.context() })
    }

    /// A pod with what the API server would fill in.
    pub fn defaulted(&self, pod: &Pruned<'_>, namespace: &str) -> Pruned<'static> {
        defaulted(pod, self.limit_ranges_of(namespace))
    }

    /// The `LimitRange` manifests of a namespace.
    pub fn limit_ranges_of(&self, namespace: &str) -> impl Iterator<Item = &Value> {
        self.limit_ranges.iter().filter(move |range| {
            range.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("default") == namespace
        })
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
