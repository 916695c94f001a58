//! What quota trees are judged by: the manifests of `--objects`, the settings, and the trees before it in the input.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_core::objects::{Fact, Objects, read_manifest};
use plimsoll_core::quota::{
    Judgement, StoredTree, TREE_GROUP, TREE_KIND, TreePlace, UsageByNamespace, usage_by_namespace,
};
use serde_json::Value;

use crate::config::Config;
use crate::input::{self, Document, InputError};

/// The cluster that trees are judged in.
pub(super) struct Cluster {
    objects: Objects,
    /// Whether there are manifests at all; without, nothing is said about what is missing.
    given: bool,
    /// By namespace and name, with whether changes are forced.
    old: BTreeMap<(String, String), (StoredTree, bool)>,
    stored: Vec<Arc<StoredTree>>,
    usage: UsageByNamespace,
    own_namespace: String,
    refuse_above_cluster: bool,
}

impl Cluster {
    /// Reads the manifests. What of them cannot be used is noted and left out, as in a cluster.
    pub(super) fn read(
        paths: &[PathBuf],
        config: &Config,
        note: &mut impl FnMut(&str),
    ) -> Result<Self, InputError> {
        let mut objects = Objects::default();
        let mut old = BTreeMap::new();
        let documents = input::read_all(paths)?;
        for Document { value, origin } in &documents {
            match read_manifest(value) {
                Ok(Some(Fact::QuotaTree(_))) => {
                    let tree = StoredTree::read(value);
                    let key = (tree.namespace.clone(), tree.name.clone());
                    old.insert(key, (tree, StoredTree::is_forced(value)));
                }
                Ok(Some(fact)) => objects.put(fact),
                Ok(None) => {}
                Err(error) => note(&format!("{origin}: {error}")),
            }
        }
        let stored = old.values().map(|(tree, _)| Arc::new(tree.clone())).collect();
        let usage = usage_by_namespace(objects.pods().map(AsRef::as_ref));
        Ok(Self {
            given: !documents.is_empty(),
            old,
            stored,
            usage,
            objects,
            own_namespace: config.admission.own_namespace.clone(),
            refuse_above_cluster: config.quota.refuse_above_cluster,
        })
    }

    /// Whether a document is a quota tree, of whatever version.
    pub(super) fn is_tree(manifest: &Value) -> bool {
        let text = |key: &str| manifest.get(key).and_then(Value::as_str).unwrap_or_default();
        let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
        group == TREE_GROUP && text("kind") == TREE_KIND
    }

    /// Everything about a tree; it then counts for those after it.
    pub(super) fn judge(&mut self, manifest: &Value) -> Judgement {
        let tree = StoredTree::read(manifest);
        let old = self.old.get(&(tree.namespace.clone(), tree.name.clone()));
        let has_flavor = |name: &str| self.objects.flavor(name).is_some();
        let place = TreePlace {
            own_namespace: Some(&self.own_namespace),
            allocatable: self.objects.allocatable(),
            refuse_above_cluster: self.refuse_above_cluster,
            has_flavor: self.given.then_some(&has_flavor),
            stored: &self.stored,
            usage: Some(&self.usage),
            old: old.map(|(tree, _)| tree),
            forced: old.is_some_and(|(_, forced)| *forced),
        };
        let judgement = place.judge(&tree);
        self.stored.push(Arc::new(tree));
        judgement
    }
}
