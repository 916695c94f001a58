//! The tree and the counted pods among the objects of the command.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use plimsoll_core::quota::{Amounts, PodNames, QuotaPod, StoredTree, TREE_KIND, TREE_NAMESPACE, Tree, Used};

use super::budgets;
use crate::cli::access::{self, Kind};
use crate::cli::{CliError, Context, server};
use crate::config::Config;
use crate::input;
use crate::offline::{ClusterArgs, Offline};
use crate::survey::each_pod;

const TREES: Kind = Kind::new("scheduling.sigs.k8s.io", "v1beta1", "ElasticQuotaTree", "elasticquotatrees");

/// A cluster as far as quota is concerned.
pub(super) struct World {
    pub(super) offline: Offline,
    /// The tree in force; one without nodes if there is none.
    pub(super) tree: Arc<Tree>,
    /// Pods (namespace and name) that disruption budgets keep from being evicted.
    pub(super) guarded: PodNames,
}

impl World {
    /// Reads the objects, and says what is wrong with their trees.
    pub(super) fn load(args: &ClusterArgs, config: &Config, ctx: &mut Context<'_>) -> Result<Self, CliError> {
        Self::of(input::read_all(&args.objects)?, args.at, config, ctx)
    }

    /// The same of a cluster: its trees, and its pods, with the rights of who calls.
    pub(super) async fn live(
        client: &Client,
        config: &Config,
        ctx: &mut Context<'_>,
    ) -> Result<Self, CliError> {
        let trees = access::list(client, TREES, None).await;
        let trees = trees.needed("CRD elasticquotatrees.scheduling.sigs.k8s.io: no quota is in force")?;
        let documents = trees.into_iter().map(|value| {
            let origin = format!("{} {}", TREES.word, server::name(&value));
            input::Document { value, origin }
        });
        let mut offline = Offline::of(documents.collect(), None, config);
        // One at a time: of a large cluster there are too many to be kept.
        let mut put = |pod| offline.put_pod(pod);
        each_pod(client, None, &mut put).await.map_err(|error| anyhow::anyhow!(access::told(&error)))?;
        Self::about(offline, PodNames::new(), ctx)
    }

    fn of(
        documents: Vec<input::Document>,
        at: Option<Timestamp>,
        config: &Config,
        ctx: &mut Context<'_>,
    ) -> Result<Self, CliError> {
        let guarded = budgets::guarded(&documents).map_err(CliError::Usage)?;
        Self::about(Offline::of(documents, at, config), guarded, ctx)
    }

    fn about(offline: Offline, guarded: PodNames, ctx: &mut Context<'_>) -> Result<Self, CliError> {
        if !offline.unreadable.is_empty() {
            return Err(CliError::Usage(offline.unreadable.join("\n")));
        }
        offline.notes.iter().for_each(|note| ctx.note(note));
        let objects = offline.context().objects;
        let in_force = objects.quota_tree().cloned();
        for stored in objects.quota_trees() {
            about(stored, in_force.as_ref(), ctx);
        }
        if in_force.is_none() {
            ctx.note(&format!(
                "the objects have no {TREE_KIND} of the namespace {TREE_NAMESPACE}, so no namespace is bound"
            ));
        }
        let tree = in_force.map(|stored| Arc::clone(&stored.tree)).unwrap_or_default();
        Ok(Self { offline, tree, guarded })
    }

    /// The pods that count, without one of this namespace and name.
    pub(super) fn pods<'w>(
        &'w self,
        without: Option<(&'w str, &'w str)>,
    ) -> impl Iterator<Item = &'w Arc<QuotaPod>> {
        let pods = self.offline.context().objects.pods();
        pods.filter(move |pod| pod.counts() && without != Some((pod.namespace.as_ref(), pod.name.as_ref())))
    }

    /// What pods use at every node.
    pub(super) fn used<'p>(&self, pods: impl Iterator<Item = &'p Arc<QuotaPod>>) -> Used {
        let mut by_namespace = BTreeMap::<&str, Amounts>::new();
        for pod in pods {
            by_namespace.entry(pod.namespace.as_ref()).or_default().add(&pod.charge);
        }
        let mut used = Used::new(&self.tree);
        for (namespace, amounts) in by_namespace {
            if let Some(leaf) = self.tree.leaf_of(namespace) {
                used.add(&self.tree, leaf, &amounts);
            }
        }
        used
    }
}

fn about(stored: &Arc<StoredTree>, in_force: Option<&Arc<StoredTree>>, ctx: &mut Context<'_>) {
    let name = format!("{TREE_KIND} {}/{}", stored.namespace, stored.name);
    let is_in_force = in_force.is_some_and(|tree| Arc::ptr_eq(tree, stored));
    if !is_in_force {
        let why = if stored.namespace == TREE_NAMESPACE {
            let other = in_force.map(|tree| tree.name.as_str()).unwrap_or_default();
            format!("{other} is older and counts")
        } else {
            format!("write metadata.namespace: {TREE_NAMESPACE}")
        };
        ctx.note(&format!("{name} has no effect: {why}"));
        return;
    }
    for problem in stored.problems.iter().chain(&stored.warnings) {
        ctx.note(&format!("{name}: {problem}"));
    }
    if let Some(why) = &stored.tree.no_reclaim {
        ctx.note(&format!("{name}: nothing is reclaimed until it is mended: {why}"));
    }
}
