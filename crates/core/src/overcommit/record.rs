//! The annotation that records what requests were before they were lowered.
//!
//! It is written by us and may be edited by the pod's author: reading it never fails, and what it says
//! is believed only where it fits the pod (see [`Record::original`]).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::overcommit::{Amount, Line, Target};
use crate::profile::Profile;
use crate::resource::Resource;

/// What a pod's annotation says. Empty if there is none or it is broken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record(Value);

impl Record {
    /// Reads the annotation's text.
    pub fn read(annotation: Option<&str>) -> Self {
        Self(annotation.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
    }

    /// The recorded original of a request, if it can be believed: the request is what we set, the
    /// original is at least that, and both are positive quantities. It is capped by the current limit.
    /// Otherwise somebody changed the request after us, and the request is the new original.
    pub fn original(
        &self,
        target: &Target,
        resource: Resource,
        request: &Amount,
        limit: Option<&Amount>,
    ) -> Option<Amount> {
        let entry = match target {
            Target::Container { name, .. } => self.0.get("containers")?.get(name)?,
            Target::InitContainer { name, .. } => self.0.get("initContainers")?.get(name)?,
            Target::Pod => self.0.get("pod")?,
        };
        let figure = |part: &str| entry.get(part)?.get(resource.name())?.as_str().and_then(Amount::parse);
        let (recorded, set) = (figure("requests")?, figure("set")?);
        if set.nanos != request.nanos || set.nanos <= 0 || recorded.nanos < set.nanos {
            return None;
        }
        Some(match limit {
            Some(limit) if limit.nanos < recorded.nanos => limit.clone(),
            _ => recorded,
        })
    }
}

/// The annotation's text for the lines whose result is below the original; `None` if there are none.
/// Keys are sorted and there are no blanks, so the same lines always give the same text.
pub fn write(profile: &Profile, lines: &[Line]) -> Option<String> {
    let mut sections: BTreeMap<&str, BTreeMap<String, Value>> = BTreeMap::new();
    let mut pod: Option<Value> = None;
    for line in lines.iter().filter(|line| line.lowered()) {
        let entry = match &line.target {
            Target::Container { name, .. } => {
                sections.entry("containers").or_default().entry(name.clone()).or_insert_with(empty_entry)
            }
            Target::InitContainer { name, .. } => {
                sections.entry("initContainers").or_default().entry(name.clone()).or_insert_with(empty_entry)
            }
            Target::Pod => pod.get_or_insert_with(empty_entry),
        };
        let mut put = |part: &str, amount: &Amount| {
            if let Some(Value::Object(map)) = entry.get_mut(part) {
                map.insert(line.resource.name().to_owned(), Value::String(amount.text.clone()));
            }
        };
        put("requests", &line.original);
        put("set", &Amount::computed(line.resource, line.result.nanos));
        if let Some(limit) = &line.limit {
            put("limits", limit);
        }
    }
    if sections.is_empty() && pod.is_none() {
        return None;
    }
    let mut map = serde_json::Map::new();
    map.insert("basis".to_owned(), json!(profile.basis.lower_case()));
    map.insert("profile".to_owned(), json!(profile.name));
    for (section, entries) in sections {
        map.insert(section.to_owned(), json!(entries));
    }
    if let Some(pod) = pod {
        map.insert("pod".to_owned(), pod);
    }
    // serde_json's map may keep insertion order, depending on features elsewhere in the build.
    map.sort_keys();
    Some(Value::Object(map).to_string())
}

fn empty_entry() -> Value {
    json!({"limits": {}, "requests": {}, "set": {}})
}
