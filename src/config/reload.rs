//! Reading the configuration file again when its content changes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::error::ConfigErrors;
use super::layers::{self, ContentHash};
use super::{Config, Loaded, Sources, load};

/// How often the file is compared.
pub const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Is told what became of a changed file, for counters; logging is done by the watcher.
pub trait Observer: Send + Sync {
    /// A changed file was taken over.
    fn reloaded(&self) {}
    /// A changed file was refused for these reasons; the last good configuration stays.
    fn refused(&self, _errors: &ConfigErrors) {}
}

impl Observer for () {}

/// What a look at the file found.
#[derive(Debug)]
pub enum Poll {
    /// The same content as at the last look.
    Unchanged,
    /// A new content was taken over.
    Reloaded {
        /// The settings whose values are new and in force.
        changed: Vec<String>,
        /// The settings whose values are new but wait for a restart.
        needs_restart: Vec<String>,
    },
    /// A new content was refused, once for each content; the last good configuration stays.
    Refused(ConfigErrors),
}

/// What was at the file's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Content(ContentHash),
    Unreadable,
}

/// Looks at the configuration file and hands each good new configuration on.
///
/// The *content* is compared, not the time stamp: a mounted `ConfigMap` changes by a swap of symbolic links.
#[derive(Debug)]
pub struct ConfigWatcher<O> {
    sources: Sources,
    /// The configuration in force, with the values that wait for a restart left as they were.
    current: Loaded,
    seen: Option<Seen>,
    sender: watch::Sender<Arc<Config>>,
    observer: O,
}

impl<O: Observer> ConfigWatcher<O> {
    /// A watcher over the sources that `loaded` came from, and the channel on which new configurations arrive.
    pub fn new(sources: Sources, loaded: Loaded, observer: O) -> (Self, watch::Receiver<Arc<Config>>) {
        let (sender, receiver) = watch::channel(Arc::new(loaded.config.clone()));
        let seen = loaded.file_hash.map(Seen::Content);
        (Self { sources, current: loaded, seen, sender, observer }, receiver)
    }

    /// Looks at the file once.
    pub fn poll_once(&mut self) -> Poll {
        let Some(path) = &self.sources.file else { return Poll::Unchanged };
        let seen =
            layers::read_file(path).map_or(Seen::Unreadable, |bytes| Seen::Content(layers::hash(&bytes)));
        if self.seen == Some(seen) {
            return Poll::Unchanged;
        }
        self.seen = Some(seen);
        let loaded = load(&self.sources).and_then(|loaded| {
            // The file may have changed once more since it was hashed.
            self.seen = loaded.file_hash.map(Seen::Content);
            let different = differences(&self.current, &loaded);
            Ok((different, keep_fixed(&self.current, loaded)?))
        });
        match loaded {
            Ok((different, loaded)) => self.take_over(different, loaded),
            Err(errors) => {
                report_refusal(&errors);
                self.observer.refused(&errors);
                Poll::Refused(errors)
            }
        }
    }

    fn take_over(&mut self, different: Vec<String>, loaded: Loaded) -> Poll {
        let (needs_restart, changed): (Vec<_>, Vec<_>) =
            different.into_iter().partition(|path| is_fixed_at_start(path));
        for path in &needs_restart {
            tracing::warn!(setting = %path, "configuration: the new value needs a restart; the old one stays");
        }
        tracing::info!(changed = ?changed, "configuration reloaded");
        let config = Arc::new(loaded.config.clone());
        self.current = loaded;
        self.sender.send_if_modified(|current| {
            let modified = *current != config;
            *current = config;
            modified
        });
        self.observer.reloaded();
        Poll::Reloaded { changed, needs_restart }
    }
}

impl<O: Observer + 'static> ConfigWatcher<O> {
    /// Looks at the file every [`POLL_INTERVAL`] until the token is cancelled.
    pub async fn run(self, cancelled: CancellationToken) {
        if self.sources.file.is_none() {
            // The channel stays open all the same: its receivers take a closed one for the end of the program.
            cancelled.cancelled().await;
            return;
        }
        let mut watcher = self;
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = cancelled.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let look = move || {
                watcher.poll_once();
                watcher
            };
            match tokio::task::spawn_blocking(look).await {
                Ok(back) => watcher = back,
                Err(error) => {
                    tracing::error!(%error, "configuration: the file is no longer watched");
                    cancelled.cancelled().await;
                    return;
                }
            }
        }
    }
}

fn report_refusal(errors: &ConfigErrors) {
    match errors {
        ConfigErrors::File { .. } => {
            tracing::error!(error = %errors, "configuration refused; the last good one stays");
        }
        ConfigErrors::Violations(violations) => {
            for violation in violations {
                tracing::error!(error = %violation, "configuration refused; the last good one stays");
            }
        }
    }
}

/// All but these are read once, when the program starts.
const TAKEN_OVER: [&str; 4] =
    ["profiles", "admission.excludedNamespaces", "admission.ownNamespace", "log.level"];

/// The same: how nodes are scored. The windows are not among them: what was measured goes by them.
const TAKEN_OVER_PLACEMENT: [&str; 6] = [
    "placement.load.metrics",
    "placement.load.missing",
    "placement.points",
    "placement.policies",
    "placement.replicaPenalty",
    "placement.weights",
];
/// Sections of which the same is true.
const TAKEN_OVER_SECTIONS: [&str; 4] =
    ["placement.balance.", "placement.filter.", "placement.flood.", "placement.hotSpot."];
/// But not these of them: whether there are rounds, and when.
const FIXED_IN_SECTIONS: [&str; 2] = ["placement.balance.enabled", "placement.balance.interval"];

fn is_fixed_at_start(path: &str) -> bool {
    !(TAKEN_OVER.contains(&path)
        || TAKEN_OVER_PLACEMENT.contains(&path)
        || TAKEN_OVER_SECTIONS.iter().any(|section| path.starts_with(section))
            && !FIXED_IN_SECTIONS.contains(&path))
}

/// Puts the values in force back in the place of those that need a restart, and checks the mixture: what was
/// consistent in the file need not be with an old value in it.
fn keep_fixed(current: &Loaded, loaded: Loaded) -> Result<Loaded, ConfigErrors> {
    let Loaded { mut values, mut origins, file_hash, .. } = loaded;
    for (path, origin) in current.origins.iter().filter(|(path, _)| is_fixed_at_start(path)) {
        let old = super::value_at(&current.values, path);
        if let (Some(slot), Some(old)) = (slot_at(&mut values, path), old) {
            *slot = old.clone();
            origins.insert(path.clone(), origin.clone());
        }
    }
    super::checked(values, origins, file_hash, Vec::new())
}

fn slot_at<'a>(tree: &'a mut Map<String, Value>, path: &str) -> Option<&'a mut Value> {
    let mut parts = path.split('.');
    let first = tree.get_mut(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get_mut(part))
}

fn differences(old: &Loaded, new: &Loaded) -> Vec<String> {
    let (old, new) = (old.settings(), new.settings());
    let pairs = old.into_iter().zip(new);
    pairs.filter(|(old, new)| old.value != new.value).map(|(_, new)| new.path).collect()
}
