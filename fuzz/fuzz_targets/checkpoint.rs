//! Any JSON as a checkpoint: it is refused whole, or its state can be saved, and saving is then a fixed point.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_core::profile::from_spec;
use plimsoll_core::resource::Resource;
use plimsoll_core::usage::{Checkpoint, Model};

fuzz_target!(|text: &[u8]| {
    let Ok(found) = serde_json::from_slice::<Checkpoint>(text) else { return };
    let spec = serde_json::json!({"dynamic": {"halfLife": {"memory": "168h"}}});
    let model = Model::from_policy(&from_spec("fuzz", &spec).unwrap().dynamic).unwrap();
    let aggregate = match found.load(&model) {
        Ok(aggregate) => aggregate,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for resource in [Resource::Cpu, Resource::Memory] {
        if let Some(estimate) = aggregate.estimate(&model, resource) {
            assert!(estimate.target.is_finite() && estimate.lower <= estimate.target);
        }
    }
    let saved = Checkpoint::of(&aggregate, &model);
    let again = saved.load(&model).expect("what was saved can be loaded");
    assert_eq!(Checkpoint::of(&again, &model), saved);
});
