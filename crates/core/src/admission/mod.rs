//! From an `AdmissionReview` to its answer.
//!
//! ```text
//! bytes -> envelope::read -> mutate::decide -> patch -> self_check -> flavors -> load_aware -> response::write -> bytes
//!                         \-> validate::decide ------------------/
//! ```

mod apply;
mod decide;
mod envelope;
mod flavors;
mod load_aware;
mod patch;
mod quota;
mod response;
mod self_check;
mod shed;
mod skip;
mod validate;

pub(crate) use apply::apply as apply_patch;
pub use decide::{
    AbsentNamespace, Context, Decision, Settings, WouldBe, decide, explain, mutate, needs_namespace,
    why_no_profile,
};
pub(crate) use decide::{Match, matched};
pub use envelope::{EnvelopeError, Review, Stage, Version, read};
pub use flavors::FlavorStep;
pub use patch::{Operation, build as build_patch, to_json as patch_to_json};
pub use quota::{QuotaStep, is_about_pods, judge_pod, quota_answer, quota_step, quota_step_without_tree};
pub use response::{ANNOTATIONS_LIMIT, Answer, Denial, DenialKind, Outcome, write, write_to};
pub use self_check::SelfCheckError;
pub(crate) use self_check::fits as fits_annotations;
pub use shed::turn_away;
pub use skip::Skip;
pub use validate::{ValidateContext, needs_usage, validate};
