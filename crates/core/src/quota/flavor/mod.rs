//! On which nodes a quota's pods may run.
//!
//! ```text
//! tree, leaf, flavors -> Placement::of -> inject (at /mutate: what to add to the pod's node affinity)
//!                                      \-> check  (at /validate: the final pod still implies it)
//! ```

mod affinity;
mod inject;
mod placement;
mod refusal;

pub use inject::{Injection, check, inject};
pub use placement::{MOST_TERMS, Placement, Requirement};
pub use refusal::FlavorRefusal;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// A `ResourceFlavor`, of which only the node labels count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flavor {
    /// Its name.
    pub name: Arc<str>,
    /// `spec.nodeLabels`
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

impl Flavor {
    /// Reads a flavor's manifest of either version; they do not differ in what counts.
    ///
    /// # Errors
    /// `spec.nodeLabels` is no map of texts: the path and what is wrong there.
    pub fn read(name: &str, manifest: &Value) -> Result<Self, (String, String)> {
        let mut labels = BTreeMap::new();
        match manifest.pointer("/spec/nodeLabels") {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => {
                for (key, value) in map {
                    let text = value.as_str().ok_or_else(|| {
                        (
                            format!("spec.nodeLabels.{key}"),
                            format!("{value} is not a text; write it in quotes"),
                        )
                    })?;
                    labels.insert(key.as_str().into(), text.into());
                }
            }
            Some(other) => {
                return Err(("spec.nodeLabels".to_owned(), format!("{other} is not a map of labels")));
            }
        }
        Ok(Self { name: name.into(), labels })
    }
}
