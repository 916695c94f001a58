//! What objects say of usage and volumes that is not read into facts.

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll_core::balance::{Claim, Claims};
use plimsoll_core::placement::{Figures, units};
use plimsoll_quantity::Quantity;
use serde_json::Value;

use crate::cli::CliError;
use crate::input::Document;

/// What pods use, by `namespace/name`: of the `PodMetrics` among the objects that give CPU and memory of all containers.
pub(super) fn pods(documents: &[Document]) -> Result<HashMap<String, Figures>, CliError> {
    let mut found = HashMap::new();
    for document in of_kind(documents, "PodMetrics") {
        let mut sum = Some(Figures::default());
        let containers = document.value.get("containers").and_then(Value::as_array);
        for (index, container) in containers.into_iter().flatten().enumerate() {
            let amount = |resource: &str| {
                match container.pointer(&format!("/usage/{resource}")) {
                None | Some(Value::Null) => Ok(None),
                Some(value) => serde_json::from_value::<Quantity>(value.clone())
                    .map(|quantity| Some(units(quantity.nanos()).max(0.0)))
                    .map_err(|_| {
                        CliError::Usage(format!(
                            "{}: containers[{index}].usage.{resource}: {value} is not a quantity; write one such as 250m or 64Mi",
                            document.origin
                        ))
                    }),
            }
            };
            match (amount("cpu")?, amount("memory")?) {
                (Some(cpu), Some(memory)) => {
                    if let Some(sum) = &mut sum {
                        sum.add(Figures { cpu, memory }, 1.0);
                    }
                }
                // Half of what it uses would be taken for all of it.
                _ => sum = None,
            }
        }
        found.extend(sum.map(|sum| (name_of(&document.value), sum)));
    }
    Ok(found)
}

/// Where the volumes of the claims among the objects can be used.
pub(super) fn claims(documents: &[Document]) -> Claims {
    let volumes: HashMap<&str, &Value> = of_kind(documents, "PersistentVolume")
        .filter_map(|document| Some((document.value.pointer("/metadata/name")?.as_str()?, &document.value)))
        .collect();
    of_kind(documents, "PersistentVolumeClaim")
        .map(|document| {
            let text = |pointer: &str| document.value.pointer(pointer).and_then(Value::as_str);
            let namespace = text("/metadata/namespace").unwrap_or("default");
            let claim = match text("/spec/volumeName").filter(|name| !name.is_empty()) {
                None => Claim::Unknown("it is not bound to a volume".to_owned()),
                Some(name) => volumes.get(name).map_or_else(
                    || Claim::Unknown(format!("its volume {name} is not among the objects")),
                    |volume| Claim::of_volume(volume),
                ),
            };
            let name = text("/metadata/name").unwrap_or_default();
            ((Arc::from(namespace), Box::from(name)), claim)
        })
        .collect()
}

fn of_kind<'d>(documents: &'d [Document], kind: &'static str) -> impl Iterator<Item = &'d Document> {
    documents.iter().filter(move |document| document.value.get("kind").and_then(Value::as_str) == Some(kind))
}

fn name_of(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    format!(
        "{}/{}",
        text("/metadata/namespace").unwrap_or("default"),
        text("/metadata/name").unwrap_or_default()
    )
}
