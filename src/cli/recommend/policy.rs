//! The flags that stand for fields of a profile.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use plimsoll_core::profile::{
    CpuSampleWeight, DynamicPolicy, MemorySamples, Profile, from_manifest, from_spec,
};
use plimsoll_core::resource::Resource;
use plimsoll_core::usage::{EPSILON, Model};
use serde_json::{Value, json};

use super::CliError;
use crate::cli::values::{Amount, Factor, PerResource, Seconds};
use crate::input;

/// The profile, and what a flag says instead of it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Model")]
pub(super) struct PolicyArgs {
    /// A manifest of an overcommit profile whose values hold where no flag is given
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,

    /// Values that hold where neither a flag nor a profile says otherwise
    #[arg(long, value_enum, value_name = "NAME", default_value = "seed", conflicts_with = "profile")]
    preset: PresetName,

    /// In which time a sample's weight halves: 24h, or cpu=6h,memory=168h
    #[arg(long, value_name = "DURATION")]
    half_life: Option<PerResource<Seconds>>,

    /// The percentile of CPU that is the target, 0 to 100
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    cpu_percentile: Option<u32>,

    /// The percentile of memory that is the target, 0 to 100
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    memory_percentile: Option<u32>,

    /// What a CPU sample weighs: request (in cores, at least 0.1), or a number
    #[arg(long, value_name = "request|NUMBER")]
    cpu_sample_weight: Option<Weight>,

    /// Which memory samples count
    #[arg(long, value_enum, value_name = "WHICH")]
    memory_samples: Option<MemorySamplesName>,

    /// What the target is multiplied by: 1.15, or cpu=1.15,memory=1.1
    #[arg(long, value_name = "NUMBER")]
    expansion: Option<PerResource<Factor>>,

    /// What is added after that, by resource: cpu=50m,memory=256Mi
    #[arg(long, value_name = "QUANTITIES")]
    margin: Option<PerResource<Amount>>,

    /// The share of the weight that a first or last bucket needs to bound an answer
    #[arg(long, value_name = "NUMBER", default_value_t = EPSILON, value_parser = share)]
    epsilon: f64,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum PresetName {
    Seed,
    Tuned,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum MemorySamplesName {
    /// Each scan's working set
    PerScan,
    /// The peak of each 24 hours
    Peak,
}

impl PolicyArgs {
    /// The profile with the flags' values, and the model that it describes.
    pub(super) fn resolve(&self) -> Result<(Profile, Model), CliError> {
        let mut profile = self.base()?;
        self.apply(&mut profile.dynamic);
        let mut model =
            Model::from_policy(&profile.dynamic).map_err(|error| CliError::Usage(error.to_string()))?;
        model.epsilon = self.epsilon;
        Ok((profile, model))
    }

    fn apply(&self, dynamic: &mut DynamicPolicy) {
        for resource in [Resource::Cpu, Resource::Memory] {
            let half_life = self.half_life.as_ref().and_then(|flag| flag.of(resource));
            dynamic.half_life.extend(half_life.map(|seconds| (resource, seconds.0)));
            let expansion = self.expansion.as_ref().and_then(|flag| flag.of(resource));
            dynamic.expansion.extend(expansion.map(|factor| (resource, factor.0)));
            let margin = self.margin.as_ref().and_then(|flag| flag.of(resource));
            dynamic.margin.extend(margin.map(|amount| (resource, amount.0.clone())));
        }
        dynamic.percentile.extend(self.cpu_percentile.map(|percent| (Resource::Cpu, percent)));
        dynamic.percentile.extend(self.memory_percentile.map(|percent| (Resource::Memory, percent)));
        if let Some(Weight(weight)) = &self.cpu_sample_weight {
            dynamic.cpu_sample_weight = weight.clone();
        }
        if let Some(samples) = self.memory_samples {
            dynamic.memory_samples = match samples {
                MemorySamplesName::PerScan => MemorySamples::PerScan,
                MemorySamplesName::Peak => MemorySamples::PeakPerInterval,
            };
        }
    }

    fn base(&self) -> Result<Profile, CliError> {
        let Some(file) = &self.profile else {
            let preset = match self.preset {
                PresetName::Seed => "Seed",
                PresetName::Tuned => "Tuned",
            };
            let profile = from_spec("flags", &json!({"dynamic": {"preset": preset}}));
            return profile.map_err(|problems| refused("--preset", &problems));
        };
        read_profile(file)
    }
}

/// The only profile of a file.
pub(in crate::cli) fn read_profile(file: &Path) -> Result<Profile, CliError> {
    let mut profiles = input::read_manifests(file)?
        .into_iter()
        .filter(|document| document.value.get("kind").and_then(Value::as_str) == Some("OvercommitProfile"));
    match (profiles.next(), profiles.next()) {
        (Some(only), None) => from_manifest(&only.value).map_err(|problems| refused(&only.origin, &problems)),
        (None, _) => Err(CliError::Usage(format!("{}: holds no OvercommitProfile", file.display()))),
        (Some(_), Some(_)) => Err(CliError::Usage(format!(
            "{}: holds several OvercommitProfiles; give a file with one",
            file.display()
        ))),
    }
}

fn refused(origin: &str, problems: &[plimsoll_core::problem::Problem]) -> CliError {
    let lines: Vec<_> = problems.iter().map(|problem| format!("{origin}: {problem}")).collect();
    CliError::Usage(lines.join("\n"))
}

#[derive(Debug, Clone, PartialEq)]
struct Weight(CpuSampleWeight);

impl FromStr for Weight {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("request") {
            return Ok(Self(CpuSampleWeight::Request));
        }
        let factor: Factor = text.parse().map_err(|error| format!("{error}, or the word request"))?;
        Ok(Self(CpuSampleWeight::Fixed(factor.0)))
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{text:?} is not a number from 0 to 1"))
}
