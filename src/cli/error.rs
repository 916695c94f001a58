//! Exit codes and the errors behind them: the table of docs/kubectl-plugin.md.

use std::io;
use std::process::ExitCode;

use crate::config::ConfigErrors;
use crate::input::InputError;
use crate::usage::UsageError;

/// How a command ended when it could do its work, and the codes of all endings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: the input was judged and refused: denied, or violations were found.
    Refused,
    /// 2: wrong usage, or input that cannot be read.
    Usage,
    /// 3: something failed at run time.
    Failed,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Refused => 1,
            Exit::Usage => 2,
            Exit::Failed => 3,
        })
    }
}

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The arguments do not fit together, or name something that is not there.
    #[error("{0}")]
    Usage(String),
    /// Manifests cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// Usage cannot be read.
    #[error(transparent)]
    UsageFile(#[from] UsageError),
    /// Anything that failed although the input was right.
    #[error("{0:#}")]
    Runtime(#[from] anyhow::Error),
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        Self::Runtime(anyhow::Error::new(error))
    }
}

impl CliError {
    /// The exit code of the error.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) | Self::Input(_) | Self::Config(_) | Self::UsageFile(_) => Exit::Usage,
            Self::Runtime(_) => Exit::Failed,
        }
    }
}
