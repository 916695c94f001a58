//! `--standalone DIR`: the manifests of a folder in the place of a cluster.
//!
//! The content of the files is polled. A change is read completely and put in force as a whole; one in which
//! anything is wrong is reported, and the last good objects stay.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::objects::{Fact, FactKey, FactKind, ManifestError, read_manifest};
use plimsoll_core::problem::Problem;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use crate::cluster::Snapshots;
use crate::input::{self, InputError};
use crate::kinds;
use crate::metrics::Metrics;
use crate::server::health::Condition;

/// How often the files are compared.
pub const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// What is wrong with a manifest.
#[derive(Debug, thiserror::Error)]
pub enum StandaloneError {
    /// A file cannot be read, or is not YAML or JSON.
    #[error(transparent)]
    Input(#[from] InputError),
    /// An object has a field that cannot be used.
    #[error("{origin}: {reason}")]
    Manifest {
        /// Where it stands.
        origin: String,
        /// What is wrong.
        reason: ManifestError,
    },
    /// A field of a profile is wrong.
    #[error("{origin}: OvercommitProfile {name}: {problem}")]
    Profile {
        /// Where it stands.
        origin: String,
        /// Its name.
        name: String,
        /// What is wrong.
        problem: Problem,
    },
    /// An object is there twice.
    #[error("{origin}: {object} is in {earlier} too; leave one out")]
    Twice {
        /// Where the second one stands.
        origin: String,
        /// Which object.
        object: String,
        /// Where the first one stands.
        earlier: String,
    },
}

/// What a look at the folder found.
#[derive(Debug)]
pub enum Poll {
    /// The same content as at the last look.
    Unchanged,
    /// So many objects are in force now.
    Loaded(usize),
    /// The new content cannot be used; said once for each content. The last good objects stay.
    Refused(Vec<StandaloneError>),
}

type ContentHash = [u8; 32];

/// The folder and what was seen in it.
#[derive(Debug)]
pub struct StandaloneFolder {
    path: PathBuf,
    snapshots: Arc<Snapshots>,
    metrics: Arc<Metrics>,
    seen: Option<ContentHash>,
}

impl StandaloneFolder {
    /// Reads the folder for the first time.
    ///
    /// # Errors
    /// Everything that is wrong in it; there are no last good objects to go on with.
    pub fn open(
        path: &Path,
        snapshots: Arc<Snapshots>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Vec<StandaloneError>> {
        let mut folder = Self { path: path.to_owned(), snapshots, metrics, seen: None };
        match folder.poll_once() {
            Poll::Refused(errors) => Err(errors),
            Poll::Loaded(_) | Poll::Unchanged => Ok(folder),
        }
    }

    /// Looks at the files once. Reads files: call it where blocking is allowed.
    pub fn poll_once(&mut self) -> Poll {
        let (hash, files) = match read_files(&self.path) {
            Ok(files) => (hash(&files), Ok(files)),
            Err(error) => (Sha256::digest(error.to_string()).into(), Err(error)),
        };
        if self.seen == Some(hash) {
            return Poll::Unchanged;
        }
        self.seen = Some(hash);
        match files.map_err(|error| vec![error.into()]).and_then(|files| read_facts(&files)) {
            Ok(facts) => {
                let count = facts.len();
                self.put_in_force(facts);
                self.metrics.degraded("standalone_refused", false);
                tracing::info!(folder = %self.path.display(), objects = count, "objects loaded");
                Poll::Loaded(count)
            }
            Err(errors) => {
                self.metrics.degraded("standalone_refused", true);
                Poll::Refused(errors)
            }
        }
    }

    fn put_in_force(&self, facts: Vec<Fact>) {
        let mut by_kind: BTreeMap<FactKind, Vec<Fact>> = BTreeMap::new();
        for fact in facts {
            by_kind.entry(fact.key().kind).or_default().push(fact);
        }
        self.snapshots.update(|objects| {
            for kind in Snapshots::kinds() {
                objects.replace(kind, by_kind.remove(&kind).unwrap_or_default());
            }
        });
    }

    /// Looks each `interval` until `cancelled`, and reports what is wrong; `condition` is degraded as long as it is.
    pub async fn watch(mut self, interval: Duration, condition: Condition, cancelled: CancellationToken) {
        loop {
            tokio::select! {
                () = cancelled.cancelled() => return,
                () = tokio::time::sleep(interval) => {}
            }
            let look = move || {
                let poll = self.poll_once();
                (self, poll)
            };
            match tokio::task::spawn_blocking(look).await {
                Ok((folder, poll)) => {
                    self = folder;
                    match poll {
                        Poll::Unchanged => {}
                        Poll::Loaded(_) => condition.ready(),
                        Poll::Refused(errors) => {
                            let first = errors.first().map(ToString::to_string).unwrap_or_default();
                            condition
                                .degraded(format!("manifests refused; the last good objects stay: {first}"));
                            for error in errors {
                                tracing::error!(%error, "manifests refused; the last good objects stay");
                            }
                        }
                    }
                }
                Err(error) => {
                    if let Ok(panic) = error.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                    return;
                }
            }
        }
    }
}

/// A file and its content.
type ReadFile = (PathBuf, Vec<u8>);

fn read_files(path: &Path) -> Result<Vec<ReadFile>, InputError> {
    let failed = |reason| InputError::Read { origin: path.display().to_string(), reason };
    let paths = if path.metadata().map_err(failed)?.is_dir() {
        input::manifest_files(path).map_err(failed)?
    } else {
        vec![path.to_owned()]
    };
    if paths.is_empty() {
        return Err(InputError::EmptyDirectory { origin: path.display().to_string() });
    }
    paths
        .into_iter()
        .map(|path| {
            let bytes = input::read_regular(&path)?;
            Ok((path, bytes))
        })
        .collect()
}

fn hash(files: &[ReadFile]) -> ContentHash {
    let mut hash = Sha256::new();
    for (path, bytes) in files {
        // The hash of each content has a fixed length, so nothing can move from one file into the next.
        hash.update(Sha256::digest(path.as_os_str().as_encoded_bytes()));
        hash.update(Sha256::digest(bytes));
    }
    hash.finalize().into()
}

/// The facts in the files. Objects of kinds that decisions do not read are passed over.
fn read_facts(files: &[ReadFile]) -> Result<Vec<Fact>, Vec<StandaloneError>> {
    let mut facts = Vec::new();
    let mut errors = Vec::new();
    let mut places: BTreeMap<FactKey, String> = BTreeMap::new();
    for (path, bytes) in files {
        let documents = match input::parse_manifests(bytes, &path.display().to_string()) {
            Ok(documents) => documents,
            Err(error) => {
                errors.push(error.into());
                continue;
            }
        };
        for input::Document { value, origin } in documents {
            match read_manifest(&value) {
                Ok(None) => {
                    tracing::debug!(origin, "not a kind that decisions read; passed over");
                    if let Some(meant) = kinds::near_miss(&value) {
                        tracing::warn!(origin, "{meant}");
                    }
                }
                Ok(Some(Fact::BrokenProfile { name, problems })) => {
                    errors.extend(problems.into_iter().map(|problem| StandaloneError::Profile {
                        origin: origin.clone(),
                        name: name.clone(),
                        problem,
                    }));
                }
                Ok(Some(fact)) => {
                    let key = fact.key();
                    let object = object_name(&key);
                    match places.insert(key, origin.clone()) {
                        Some(earlier) => errors.push(StandaloneError::Twice { origin, object, earlier }),
                        None => facts.push(fact),
                    }
                }
                Err(reason) => errors.push(StandaloneError::Manifest { origin, reason }),
            }
        }
    }
    if errors.is_empty() { Ok(facts) } else { Err(errors) }
}

/// An object as messages name it.
pub(crate) fn object_name(key: &FactKey) -> String {
    if key.namespace.is_empty() {
        format!("{:?} {}", key.kind, key.name)
    } else {
        format!("{:?} {}/{}", key.kind, key.namespace, key.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "apiVersion: plimsoll.dev/v1alpha1\nkind: OvercommitProfile\n\
                           metadata: {name: shared}\nspec: {mode: Static, static: {factors: {cpu: '0.5'}}}\n";
    const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";

    struct Fixture {
        folder: tempfile::TempDir,
        snapshots: Arc<Snapshots>,
        metrics: Arc<Metrics>,
    }

    impl Fixture {
        fn new(files: &[(&str, &str)]) -> Self {
            let metrics = Arc::new(Metrics::new("test"));
            let snapshots = Arc::new(Snapshots::new(Arc::clone(&metrics)));
            let fixture = Self { folder: tempfile::tempdir().unwrap(), snapshots, metrics };
            for (name, text) in files {
                fixture.write(name, text);
            }
            fixture
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.folder.path().join(name), text).unwrap();
        }

        fn open(&self) -> Result<StandaloneFolder, Vec<StandaloneError>> {
            StandaloneFolder::open(self.folder.path(), Arc::clone(&self.snapshots), Arc::clone(&self.metrics))
        }

        fn profiles(&self) -> usize {
            self.snapshots.current().load().profiles().iter().count()
        }
    }

    #[test]
    fn a_change_is_taken_over_as_a_whole() {
        let fixture = Fixture::new(&[("profile.yaml", PROFILE), ("namespace.yaml", NAMESPACE)]);
        let mut folder = fixture.open().unwrap();
        assert_eq!(fixture.profiles(), 1);
        assert!(matches!(folder.poll_once(), Poll::Unchanged));

        fixture.write("namespace.yaml", &NAMESPACE.replace("shop", "other"));
        assert!(matches!(folder.poll_once(), Poll::Loaded(2)));
        let objects = fixture.snapshots.current().load_full();
        assert!(objects.namespace("shop").is_none() && objects.namespace("other").is_some());

        std::fs::remove_file(fixture.folder.path().join("profile.yaml")).unwrap();
        assert!(matches!(folder.poll_once(), Poll::Loaded(1)));
        assert_eq!(fixture.profiles(), 0);
    }

    #[test]
    fn what_is_wrong_is_said_once_and_changes_nothing() {
        let fixture = Fixture::new(&[("profile.yaml", PROFILE)]);
        let mut folder = fixture.open().unwrap();
        for (rule, text, expected) in [
            ("no YAML", "a: [", "profile.yaml[0]"),
            ("no object", "- 1\n", "is a list"),
            ("broken profile", &PROFILE.replace("0.5", "5"), "spec.static.factors.cpu"),
            ("object without a name", "apiVersion: v1\nkind: Namespace\n", "metadata.name is missing"),
            ("twice", &format!("{PROFILE}---\n{PROFILE}"), "Profile shared is in"),
        ] {
            fixture.write("profile.yaml", text);
            let Poll::Refused(errors) = folder.poll_once() else { panic!("{rule}: not refused") };
            let message = errors[0].to_string();
            assert!(message.contains(expected), "{rule}: {message}");
            assert!(matches!(folder.poll_once(), Poll::Unchanged), "{rule}: said again");
            assert_eq!(fixture.profiles(), 1, "{rule}: the last good objects are gone");
        }
        fixture.write("profile.yaml", PROFILE);
        assert!(matches!(folder.poll_once(), Poll::Loaded(1)), "good again");
    }

    #[test]
    fn all_errors_are_reported_together() {
        let broken = PROFILE.replace("0.5", "5").replace("Static,", "Statik,");
        let fixture = Fixture::new(&[("a.yaml", &broken), ("b.yaml", "kind: [")]);
        let errors = fixture.open().unwrap_err();
        assert_eq!(errors.len(), 3, "{errors:?}");
    }

    #[test]
    fn an_empty_folder_and_a_missing_one_are_errors() {
        let fixture = Fixture::new(&[]);
        assert!(fixture.open().unwrap_err()[0].to_string().contains("holds no *.yaml"));
        let missing = fixture.folder.path().join("missing");
        let opened =
            StandaloneFolder::open(&missing, Arc::clone(&fixture.snapshots), Arc::clone(&fixture.metrics));
        assert!(opened.unwrap_err()[0].to_string().contains("cannot be read"));
    }

    #[test]
    fn profiles_of_the_configuration_stay() {
        let fixture = Fixture::new(&[("namespace.yaml", NAMESPACE)]);
        let profile = plimsoll_core::profile::from_spec("file", &serde_json::json!({"mode": "Off"})).unwrap();
        fixture.snapshots.update(|objects| objects.set_file_profiles([Arc::new(profile)]));
        fixture.open().unwrap();
        assert_eq!(fixture.profiles(), 1);
    }
}
