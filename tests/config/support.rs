//! A file of configuration, and what becomes of it.

use std::path::PathBuf;

use plimsoll::config::{Config, ConfigErrors, Loaded, Sources, Violation, load};
use tempfile::TempDir;

/// A directory with one configuration file.
pub(crate) struct Workspace {
    pub(crate) directory: TempDir,
    pub(crate) name: &'static str,
}

impl Workspace {
    pub(crate) fn new(name: &'static str, text: &str) -> Self {
        let workspace = Self { directory: tempfile::tempdir().unwrap(), name };
        workspace.write(text);
        workspace
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join(self.name)
    }

    pub(crate) fn write(&self, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(), text).unwrap();
    }

    pub(crate) fn sources(&self) -> Sources {
        Sources { file: Some(self.path()), ..Sources::default() }
    }
}

pub(crate) fn load_yaml(text: &str) -> Result<Loaded, ConfigErrors> {
    load(&Workspace::new("config.yaml", text).sources())
}

pub(crate) fn environment(pairs: &[(&str, &str)]) -> Sources {
    let environment = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Sources { environment, ..Sources::default() }
}

/// A file of this text is taken.
pub(crate) fn config(text: &str) -> Config {
    load_yaml(text).unwrap_or_else(|error| panic!("{text}: {error}")).config
}

/// A file of this text is refused.
pub(crate) fn violations(text: &str) -> Vec<Violation> {
    refused(load_yaml(text))
}

pub(crate) fn refused(loaded: Result<Loaded, ConfigErrors>) -> Vec<Violation> {
    match loaded {
        Err(ConfigErrors::Violations(violations)) => violations,
        other => panic!("not refused: {other:?}"),
    }
}
