//! What can be wrong with a configuration, and where a value came from.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// An environment variable, by its name.
    Environment(String),
    /// A flag on the command line, by its name with the dashes.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One thing that is wrong with a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The setting, such as `server.drainDelay` or `admission.excludedNamespaces[1]`; for an environment
    /// variable that names no setting, the variable.
    pub path: String,
    /// What is wrong with it and what would be right.
    pub message: String,
    /// Where the value stands.
    pub origin: Origin,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (from {})", self.path, self.message, self.origin)
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigErrors {
    /// The file cannot be read, or is not YAML or TOML at all.
    #[error("configuration {}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The settings were read and judged; all that is wrong with them, never empty.
    #[error("{}", lines(.0))]
    Violations(Vec<Violation>),
}

fn lines(violations: &[Violation]) -> String {
    violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("\n")
}
