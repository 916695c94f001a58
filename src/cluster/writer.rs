//! The one task that turns changes into snapshots, and says how complete they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::objects::FactKind;
use tokio::sync::mpsc;

use super::fold::{Change, Folder, Refusal, SeenProfile};
use super::kinds::{PROFILE, Part, WATCHED, WatchedKind, watched_with};
use super::{ClusterOptions, Snapshots};
use crate::metrics::Metrics;
use crate::server::health::Condition;

/// How many changes that have already arrived are folded into one snapshot.
const BATCH: usize = 1024;

/// What the keeper of the profiles' statuses is told, after the snapshot holds it.
#[derive(Debug, PartialEq)]
pub(super) enum ProfileNews {
    /// These are all profiles.
    All(Vec<SeenProfile>),
    /// One was added or changed.
    Seen(Box<SeenProfile>),
    /// One is gone.
    Gone(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Waiting,
    Synced,
    Absent,
    /// We may not list it.
    Forbidden,
}

pub(super) struct Writer {
    snapshots: Arc<Snapshots>,
    metrics: Arc<Metrics>,
    readiness: Condition,
    profiles: mpsc::UnboundedSender<ProfileNews>,
    folder: Folder,
    progress: BTreeMap<&'static str, Progress>,
}

impl Writer {
    pub(super) fn new(
        snapshots: Arc<Snapshots>,
        metrics: Arc<Metrics>,
        readiness: Condition,
        profiles: mpsc::UnboundedSender<ProfileNews>,
        options: &ClusterOptions,
    ) -> Self {
        for kind in watched_with(options) {
            metrics.snapshot_synced(kind.label, false);
        }
        let progress = watched_with(options).map(|kind| (kind.label, Progress::Waiting)).collect();
        let writer = Self { snapshots, metrics, readiness, profiles, folder: Folder::default(), progress };
        writer.say_how_complete();
        writer
    }

    /// Writes until every watch has ended.
    pub(super) async fn run(mut self, mut changes: mpsc::Receiver<Change>) {
        let mut batch = Vec::new();
        while changes.recv_many(&mut batch, BATCH).await > 0 {
            self.write(batch.drain(..));
        }
    }

    /// Folds the changes into one new snapshot.
    fn write(&mut self, batch: impl Iterator<Item = Change>) {
        let mut news = Vec::new();
        let mut refusals = Vec::new();
        let mut arrived = Vec::new();
        let (folder, snapshots) = (&mut self.folder, &self.snapshots);
        snapshots.update(|objects| {
            for change in batch {
                news.extend(profile_news(&change));
                arrived.extend(match &change {
                    Change::Listed(kind, _) => Some((*kind, Progress::Synced)),
                    Change::Absent(kind) => Some((*kind, Progress::Absent)),
                    Change::Forbidden(kind) => Some((*kind, Progress::Forbidden)),
                    Change::Put(_) | Change::Gone(_) => None,
                });
                refusals.extend(folder.apply(objects, change));
            }
        });
        for Refusal { key, reason } in refusals {
            self.metrics.object_refused(kind_name(&key));
            tracing::warn!(
                kind = kind_name(&key),
                namespace = key.namespace,
                name = key.name,
                reason,
                "an object cannot be used; it counts as absent"
            );
        }
        self.metrics.degraded("objects_refused", self.folder.refused() > 0);
        for news in news {
            // Without a keeper there is nobody who wants to know.
            let _ = self.profiles.send(news);
        }
        if !arrived.is_empty() {
            for (kind, progress) in arrived {
                self.note(kind, progress);
            }
            self.say_how_complete();
        }
    }

    fn note(&mut self, kind: &'static WatchedKind, progress: Progress) {
        let before = self.progress.get(kind.label).copied();
        // A right that is taken away later leaves what was known before.
        let stays = progress == Progress::Forbidden && before == Some(Progress::Synced);
        if before == Some(progress) || stays {
            return;
        }
        self.progress.insert(kind.label, progress);
        self.metrics.snapshot_synced(kind.label, progress == Progress::Synced);
        match progress {
            Progress::Absent if kind.is_optional() => tracing::info!(
                crd = kind.crd_name(),
                "the CRD is not installed; going on without its objects until it is"
            ),
            Progress::Absent => tracing::warn!(
                crd = kind.crd_name(),
                "the CRD is not installed; going on without it, and asking again (`plimsoll manifests crds` prints it)"
            ),
            Progress::Synced => tracing::info!(kind = kind.label, "snapshot complete"),
            Progress::Forbidden if kind.part != Part::Always => tracing::warn!(
                kind = kind.label,
                "the right to list it is missing; going on without it, and asking again (grant list and watch on {})",
                kind.resource()
            ),
            // The watch has said so.
            Progress::Forbidden | Progress::Waiting => {}
        }
    }

    fn say_how_complete(&self) {
        let of =
            |progress| WATCHED.iter().filter(move |kind| self.progress.get(kind.label) == Some(&progress));
        let absent: Vec<_> =
            of(Progress::Absent).filter(|kind| !kind.is_optional()).map(WatchedKind::crd_name).collect();
        self.metrics.degraded("crd_absent", !absent.is_empty());
        let (later, waiting): (Vec<_>, Vec<_>) =
            of(Progress::Waiting).partition(|kind| kind.part == Part::Hpa);
        // Pods can be answered without what only a part needs, and must be: a right that is missing after an upgrade would
        // otherwise keep every replica from starting. What quota binds is denied until the tree is known.
        let (left_out, needed): (Vec<_>, Vec<_>) =
            of(Progress::Forbidden).partition(|kind| kind.part != Part::Always);
        self.metrics.degraded("right_missing", !(left_out.is_empty() && needed.is_empty()));
        self.snapshots.note_complete(waiting.is_empty() && needed.is_empty());
        self.snapshots.note_autoscalers(
            later.is_empty()
                && waiting.is_empty()
                && needed.is_empty()
                && left_out.iter().all(|kind| kind.part != Part::Hpa),
        );
        let tree = WATCHED.iter().find(|kind| kind.fact == FactKind::QuotaTree);
        let tree = tree.and_then(|kind| self.progress.get(kind.label));
        self.snapshots.note_quota_tree(matches!(tree, Some(Progress::Synced | Progress::Absent)));

        let list = |kinds: &[&WatchedKind], name: fn(&WatchedKind) -> String| {
            kinds.iter().map(|kind| name(kind)).collect::<Vec<_>>().join(", ")
        };
        let label = |kind: &WatchedKind| kind.label.to_owned();
        let rights = |kinds: &[&WatchedKind]| {
            format!("grant list and watch on {}", list(kinds, WatchedKind::resource))
        };
        if !waiting.is_empty() {
            self.readiness.missing(format!("waiting for the first list of {}", list(&waiting, label)));
        } else if !needed.is_empty() {
            self.readiness.stuck(format!("rights are missing: {} to the service account", rights(&needed)));
        } else if !left_out.is_empty() {
            self.readiness.degraded(format!(
                "rights are missing, and the parts that need them do without: {} to the service account",
                rights(&left_out)
            ));
        } else if !later.is_empty() {
            self.readiness.degraded(format!("waiting for the first list of {}", list(&later, label)));
        } else if absent.is_empty() {
            self.readiness.ready();
        } else {
            self.readiness.degraded(format!("not installed: CRD {}", absent.join(", ")));
        }
    }
}

fn kind_name(key: &plimsoll_core::objects::FactKey) -> &'static str {
    WATCHED.iter().find(|kind| kind.fact == key.kind).map_or("unknown", |kind| kind.label)
}

fn profile_news(change: &Change) -> Option<ProfileNews> {
    match change {
        Change::Listed(kind, readings) if kind.fact == PROFILE.fact => Some(ProfileNews::All(
            readings.iter().filter_map(|reading| reading.profile.as_deref().cloned()).collect(),
        )),
        Change::Absent(kind) if kind.fact == PROFILE.fact => Some(ProfileNews::All(Vec::new())),
        Change::Put(reading) => reading.profile.clone().map(ProfileNews::Seen),
        Change::Gone(key) if key.kind == PROFILE.fact => Some(ProfileNews::Gone(key.name.clone())),
        _ => None,
    }
}
