//! `OvercommitProfile`: which pods, and how their requests are lowered.

mod advice;
mod check;
mod check_selector;
mod duration;
mod matching;
mod model;
mod reader;
mod selector;

pub use advice::advice;
pub use check::{SPEC_FIELDS, from_manifest, from_spec};
pub use check_selector::read_selector;
pub use duration::{DurationError, parse_duration};
pub use matching::{Candidate, ProfileSet};
pub use model::{
    Basis, CpuSampleWeight, DynamicPolicy, Granularity, GuaranteedPods, HpaMode, MemorySamples, Mode, OptOut,
    Preset, Profile, ProfileMatch, StaticPolicy,
};
pub use selector::{Labels, Operator, Requirement, Selector};
