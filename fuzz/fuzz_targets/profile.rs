//! Any JSON as a manifest: never a panic, and a profile that is refused says why.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_core::objects::{Fact, Objects, read_manifest};
use plimsoll_core::profile::from_manifest;
use serde_json::Value;

fuzz_target!(|text: &[u8]| {
    let Ok(value) = serde_json::from_slice::<Value>(text) else { return };
    match from_manifest(&value) {
        Ok(profile) => assert!(!profile.name.is_empty()),
        Err(problems) => {
            assert!(!problems.is_empty());
            assert!(problems.iter().all(|problem| !problem.path.is_empty() && !problem.message.is_empty()));
        }
    }
    if let Ok(Some(fact)) = read_manifest(&value) {
        let mut objects = Objects::default();
        let (key, profile) = (fact.key(), matches!(fact, Fact::Profile(_)));
        objects.put(fact);
        assert_eq!(objects.count(key.kind), 1);
        assert_eq!(objects.profiles().iter().count(), usize::from(profile));
        objects.remove(&key);
        assert_eq!(objects.count(key.kind), 0);
    }
});
