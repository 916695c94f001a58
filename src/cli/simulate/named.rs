//! The policies that are asked for.

use std::path::Path;

use plimsoll_core::simulate::{HALF_LIFE_OPTIONS, HalfLifePolicy, NAMES, ParseError, Policy, parse};

use crate::cli::CliError;
use crate::cli::recommend::policy::read_profile;
use crate::config::nearest;

/// What is compared where nothing is asked for.
const DEFAULT: [&str; 8] =
    ["original", "static:cpu=0.5,memory=1", "seed", "tuned", "vpa", "krr", "max-ever", "oracle"];

/// A policy and the text that asked for it.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) policy: Policy,
}

pub(super) fn read(texts: &[String]) -> Result<Vec<Named>, CliError> {
    let texts: Vec<&str> =
        if texts.is_empty() { DEFAULT.to_vec() } else { texts.iter().map(String::as_str).collect() };
    let mut named: Vec<Named> = Vec::with_capacity(texts.len());
    for name in texts {
        if named.iter().any(|earlier| earlier.name == name) {
            return Err(CliError::Usage(format!("--policy: {name} is there twice")));
        }
        named.push(Named { name: name.to_owned(), policy: policy(name)? });
    }
    Ok(named)
}

fn policy(text: &str) -> Result<Policy, CliError> {
    if let Some(file) = text.strip_prefix("profile:") {
        let policy = HalfLifePolicy::of_profile(&read_profile(Path::new(file))?);
        let policy = policy.map_err(|error| CliError::Usage(format!("{file}: {error}")))?;
        return Ok(Policy::HalfLife(Box::new(policy)));
    }
    parse(text).map_err(|error| {
        let near = match &error {
            ParseError::Unknown(name) => nearest(name, NAMES.into_iter().chain(["profile"])),
            ParseError::Option { policy: "half-life", option, .. } => {
                nearest(option, HALF_LIFE_OPTIONS.into_iter().map(|(name, _)| name))
            }
            _ => None,
        };
        let file = if matches!(error, ParseError::Unknown(_)) { ", profile:FILE" } else { "" };
        let near = near.map_or_else(String::new, |near| format!("; {near} may be meant"));
        CliError::Usage(format!("--policy: {error}{file}{near}"))
    })
}
