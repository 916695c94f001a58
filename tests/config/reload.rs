//! What a reload does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll::config::{Config, ConfigErrors, ConfigWatcher, Observer, Poll, Sources, TlsSource, load};

use crate::support::Workspace;

/// Counts what a watcher tells.
#[derive(Debug, Clone, Default)]
struct Counter(Arc<[AtomicUsize; 2]>);

impl Counter {
    fn counts(&self) -> [usize; 2] {
        [0, 1].map(|index: usize| self.0[index].load(Ordering::Relaxed))
    }
}

impl Observer for Counter {
    fn reloaded(&self) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
    }

    fn refused(&self, _: &ConfigErrors) {
        self.0[1].fetch_add(1, Ordering::Relaxed);
    }
}

type Receiver = tokio::sync::watch::Receiver<Arc<Config>>;

fn watch(workspace: &Workspace) -> (ConfigWatcher<Counter>, Receiver, Counter) {
    let counter = Counter::default();
    let sources = workspace.sources();
    let loaded = load(&sources).unwrap();
    let (watcher, receiver) = ConfigWatcher::new(sources, loaded, counter.clone());
    (watcher, receiver, counter)
}

#[test]
fn a_changed_file_is_taken_over() {
    let workspace = Workspace::new("config.yaml", "log: {level: warn}\n");
    let (mut watcher, mut receiver, counter) = watch(&workspace);
    assert!(matches!(watcher.poll_once(), Poll::Unchanged));

    workspace.write("log: {level: debug}\nadmission: {excludedNamespaces: [a]}\n");
    let Poll::Reloaded { changed, needs_restart } = watcher.poll_once() else { panic!("not taken over") };
    assert_eq!(changed, ["admission.excludedNamespaces", "log.level"]);
    assert!(needs_restart.is_empty());
    assert!(receiver.has_changed().unwrap());
    assert_eq!(receiver.borrow_and_update().log.level, "debug");

    // A comment changes the content, not the configuration.
    workspace.write("# why\nlog: {level: debug}\nadmission: {excludedNamespaces: [a]}\n");
    assert!(matches!(watcher.poll_once(), Poll::Reloaded { changed, .. } if changed.is_empty()));
    assert!(!receiver.has_changed().unwrap());
    assert!(matches!(watcher.poll_once(), Poll::Unchanged));
    assert_eq!(counter.counts(), [2, 0]);
}

#[test]
fn the_last_good_configuration_stays() {
    let workspace = Workspace::new("config.yaml", "log: {level: warn}\n");
    let (mut watcher, receiver, counter) = watch(&workspace);
    for (rule, text) in [
        ("syntax", "log: {level: [\n"),
        ("violations", "log: {level: loud}\nserver: {drainDelay: 5x}\n"),
        ("unknown key", "lgo: {}\n"),
        ("not text", "\0"),
    ] {
        workspace.write(text);
        assert!(matches!(watcher.poll_once(), Poll::Refused(_)), "{rule}");
        // Said once, not every five seconds.
        assert!(matches!(watcher.poll_once(), Poll::Unchanged), "{rule}");
        assert!(!receiver.has_changed().unwrap(), "{rule}");
        assert_eq!(receiver.borrow().log.level, "warn", "{rule}");
    }
    std::fs::remove_file(workspace.path()).unwrap();
    assert!(matches!(watcher.poll_once(), Poll::Refused(ConfigErrors::File { .. })));
    assert!(matches!(watcher.poll_once(), Poll::Unchanged));
    assert_eq!(counter.counts(), [0, 5]);

    workspace.write("log: {level: warn}\n");
    assert!(matches!(watcher.poll_once(), Poll::Reloaded { changed, .. } if changed.is_empty()));
    assert_eq!(counter.counts(), [1, 5]);
}

#[test]
fn what_needs_a_restart_stays_and_is_named() {
    let workspace = Workspace::new("config.yaml", "tls: {source: Ephemeral}\n");
    let (mut watcher, receiver, _) = watch(&workspace);
    workspace.write(
        "server: {address: '127.0.0.1:1', drainDelay: 1s}\ncluster: {context: other}\nlog: {level: debug, format: Json}\n",
    );
    let Poll::Reloaded { changed, needs_restart } = watcher.poll_once() else { panic!("not taken over") };
    assert_eq!(changed, ["log.level"]);
    let expected = ["cluster.context", "log.format", "server.address", "server.drainDelay", "tls.source"];
    assert_eq!(needs_restart, expected);
    let config = receiver.borrow().clone();
    assert_eq!(config.server.address, "0.0.0.0:8443".parse().unwrap());
    assert_eq!(config.tls.source, TlsSource::Ephemeral);
    assert_eq!(config.cluster.context, None);
    assert_eq!(config.server.drain_delay, Duration::from_secs(10));
    assert_eq!(config.log.level, "debug");

    // Back to the values in force: nothing waits any more.
    workspace.write("tls: {source: Ephemeral}\nlog: {level: debug}\n");
    let Poll::Reloaded { changed, needs_restart } = watcher.poll_once() else { panic!("not taken over") };
    assert_eq!((changed.len(), needs_restart.len()), (0, 0));
}

#[test]
fn evictions_for_balance_are_stopped_by_a_reload() {
    let of = |text: &str| format!("placement: {{balance: {{{text}}}}}\n");
    let workspace = Workspace::new("config.yaml", &of("dryRun: false"));
    let (mut watcher, receiver, _) = watch(&workspace);
    workspace.write(of("dryRun: true, interval: 10s, excludedNamespaces: [a], evictionsPerHour: 1"));
    let Poll::Reloaded { changed, needs_restart } = watcher.poll_once() else { panic!("not taken over") };
    let expected = ["dryRun", "evictionsPerHour", "excludedNamespaces"];
    let expected = expected.map(|key| format!("placement.balance.{key}"));
    let sorted: std::collections::BTreeSet<_> = changed.into_iter().collect();
    assert_eq!(sorted.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(needs_restart, ["placement.balance.interval"]);
    let balance = receiver.borrow().placement.balance.clone();
    assert_eq!((balance.dry_run, balance.evictions_per_hour), (true, 1));
    assert_eq!(balance.interval, Duration::from_secs(60));
}

#[test]
fn a_mounted_config_map_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let generation = |name: &str, text: &str| {
        std::fs::create_dir(root.join(name)).unwrap();
        std::fs::write(root.join(name).join("config.yaml"), text).unwrap();
        std::os::unix::fs::symlink(name, root.join("..data_tmp")).unwrap();
        std::fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
    };
    generation("..1", "log: {level: warn}\n");
    std::os::unix::fs::symlink("..data/config.yaml", root.join("config.yaml")).unwrap();
    let sources = Sources { file: Some(root.join("config.yaml")), ..Sources::default() };
    let loaded = load(&sources).unwrap();
    let (mut watcher, receiver) = ConfigWatcher::new(sources, loaded, ());
    generation("..2", "log: {level: error}\n");
    assert!(matches!(watcher.poll_once(), Poll::Reloaded { .. }));
    assert_eq!(receiver.borrow().log.level, "error");
}

#[tokio::test]
async fn the_watcher_runs_until_it_is_cancelled() {
    let workspace = Workspace::new("config.yaml", "log: {level: warn}\n");
    let (watcher, mut receiver, _) = watch(&workspace);
    let cancel = tokio_util::sync::CancellationToken::new();
    // The first look is at once.
    workspace.write("log: {level: error}\n");
    let task = tokio::spawn(watcher.run(cancel.clone()));
    receiver.changed().await.unwrap();
    assert_eq!(receiver.borrow().log.level, "error");
    cancel.cancel();
    task.await.unwrap();
}
