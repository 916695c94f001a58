//! The custom resources of `plimsoll.dev/v1alpha1` as the API server is told about them.
//!
//! The types here are the schema: what an operator may write, with the words that `kubectl explain` shows. What a
//! profile means, its defaults, and the checks that a schema cannot express are in [`plimsoll_core::profile`];
//! a test holds the two together.

mod profile;
mod recommendation;
mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use serde_json::Value;

pub use self::profile::{
    Basis, DynamicSpec, ExpressionOperator, Granularity, GuaranteedPods, LabelExpression, LabelSelector,
    MatchSpec, MemorySamples, Mode, OptOut, OvercommitProfile, OvercommitProfileSpec,
    OvercommitProfileStatus, Preset, ResourceName, StaticSpec,
};
pub use self::recommendation::{
    ContainerFigures, Figures, Recommendation, RecommendationSpec, RecommendationStatus, TargetReference,
};

/// The group of every kind of ours.
pub const GROUP: &str = "plimsoll.dev";
/// The version that is served and stored.
pub const VERSION: &str = "v1alpha1";

/// Every definition, as it is installed.
pub fn definitions() -> Result<Vec<CustomResourceDefinition>, serde_json::Error> {
    [OvercommitProfile::crd(), Recommendation::crd()].into_iter().map(strict).collect()
}

/// The definition without `nullable`: a field that is written without a value is a mistake, and is refused with its
/// path instead of being stored as a null that means nothing.
fn strict(definition: CustomResourceDefinition) -> Result<CustomResourceDefinition, serde_json::Error> {
    let mut value = serde_json::to_value(definition)?;
    remove_nullable(&mut value);
    serde_json::from_value(value)
}

fn remove_nullable(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.get("nullable").is_some_and(Value::is_boolean) {
                map.remove("nullable");
            }
            map.values_mut().for_each(remove_nullable);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nullable),
        _ => {}
    }
}
