//! The cluster and its load from files, for commands about placement.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use plimsoll_core::placement::{
    KnownNodes, LearntWeights, LoadFile, Placed, PlacedPod, Settings, Totals, View, learn,
};

use super::{CliError, Context};
use crate::config::Config;
use crate::input::{self, Document};
use crate::offline::{ClusterArgs, Offline};

/// What is known of a cluster.
pub(super) struct PlacementWorld {
    pub(super) offline: Offline,
    pub(super) file: LoadFile,
    pub(super) placed: Placed,
    pub(super) weights: LearntWeights,
    /// All objects, for what is not read into a fact.
    pub(super) documents: Vec<Document>,
    /// Nanoseconds since 1970.
    pub(super) now: i64,
}

impl PlacementWorld {
    /// Reads the objects and the load file, and says what was left out.
    pub(super) fn load(
        args: &ClusterArgs,
        load: Option<&PathBuf>,
        config: &Config,
        ctx: &mut Context<'_>,
    ) -> Result<Self, CliError> {
        let documents = input::read_all(&args.objects)?;
        let offline = Offline::of(documents.clone(), args.at, config);
        if !offline.unreadable.is_empty() {
            return Err(CliError::Usage(offline.unreadable.join("\n")));
        }
        offline.notes.iter().for_each(|note| ctx.note(note));
        let now = i64::try_from(offline.context().now.as_nanosecond()).unwrap_or(i64::MAX);
        let file = match load {
            Some(path) => read_load(path, config, now)?,
            None => LoadFile::default(),
        };
        file.notes.iter().for_each(|note| ctx.note(note));
        let objects = offline.context().objects;
        let pods = documents
            .iter()
            .filter(|document| {
                let text = |key: &str| document.value.get(key).and_then(serde_json::Value::as_str);
                text("kind") == Some("Pod") && text("apiVersion") == Some("v1")
            })
            .filter_map(|document| PlacedPod::read(&document.value, objects));
        let placed = Placed::listed(pods);
        let known = KnownNodes::of(objects);
        let totals = |node: &str| totals(node, &file, &known);
        let names = objects.nodes().map(|node| node.name.as_str());
        let names: BTreeSet<&str> = names.chain(file.load.nodes.keys().map(AsRef::as_ref)).collect();
        let weights = learn(&file.containers, totals, names.into_iter().map(totals));
        Ok(Self { offline, file, placed, weights, documents, now })
    }

    /// What decisions are made by.
    pub(super) fn view<'v>(&'v self, settings: &'v Settings) -> View<'v> {
        View {
            objects: self.offline.context().objects,
            load: &self.file.load,
            placed: &self.placed,
            weights: &self.weights,
            settings,
            now: self.now,
            node_lost: 0,
            bindings: self.file.bindings.as_ref(),
        }
    }

    /// The nodes of the objects, and those of the load file; by name.
    pub(super) fn node_names(&self) -> Vec<&str> {
        let of_objects = self.offline.context().objects.nodes().map(|node| node.name.as_str());
        let all: BTreeSet<&str> = of_objects.chain(self.file.load.nodes.keys().map(AsRef::as_ref)).collect();
        all.into_iter().collect()
    }
}

/// What a node has: as the load file says, else its capacity.
fn totals(node: &str, file: &LoadFile, known: &KnownNodes) -> Totals {
    let mut totals = known.capacity(node).unwrap_or_default();
    if let Some(load) = file.load.nodes.get(node) {
        for (resource, total) in load.totals.iter().filter(|(_, total)| total.is_some()) {
            totals.set(resource, total);
        }
    }
    totals
}

fn read_load(path: &Path, config: &Config, now: i64) -> Result<LoadFile, CliError> {
    let documents = input::read_all(&[path.to_owned()])?;
    let [document] = &documents[..] else {
        let message = format!("{}: is {} documents; a load file is one", path.display(), documents.len());
        return Err(CliError::Usage(message));
    };
    let placement = &config.placement;
    LoadFile::read(&document.value, &placement.settings.load, now).map_err(|problems| {
        let lines: Vec<_> = problems
            .iter()
            .map(|problem| format!("{}: {}: {}", path.display(), problem.path, problem.message))
            .collect();
        CliError::Usage(lines.join("\n"))
    })
}
