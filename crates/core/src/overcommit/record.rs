//! The annotation that records what requests were before they were lowered.
//!
//! It is written by us and may be edited by the pod's author: reading it never fails, and what it says
//! is believed only where it fits the pod (see [`Record::original`]).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::Value;

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
        let no_limit = limit.is_some_and(|limit| limit.nanos <= 0);
        if set.nanos != request.nanos || set.nanos <= 0 || recorded.nanos < set.nanos || no_limit {
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
    let mut text = Text {
        basis: profile.basis.lower_case(),
        containers: BTreeMap::new(),
        init_containers: BTreeMap::new(),
        pod: None,
        profile: &profile.name,
    };
    let lowered: Vec<&Line> = lines.iter().filter(|line| line.lowered()).collect();
    if lowered.is_empty() {
        return None;
    }
    for line in lowered {
        let entry = match &line.target {
            Target::Container { name, .. } => text.containers.entry(name).or_default(),
            Target::InitContainer { name, .. } => text.init_containers.entry(name).or_default(),
            Target::Pod => text.pod.get_or_insert_default(),
        };
        entry.requests.set(line.resource, line.original.text.as_str().into());
        entry.set.set(line.resource, Amount::computed(line.resource, line.result.nanos).text.into());
        if let Some(limit) = &line.limit {
            entry.limits.set(line.resource, limit.text.as_str().into());
        }
    }
    // Strings and maps of them can always be written.
    serde_json::to_string(&text).ok()
}

/// The annotation's members, in the order of their names.
#[derive(Serialize)]
struct Text<'a> {
    basis: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    containers: BTreeMap<&'a str, Entry<'a>>,
    #[serde(rename = "initContainers", skip_serializing_if = "BTreeMap::is_empty")]
    init_containers: BTreeMap<&'a str, Entry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<Entry<'a>>,
    profile: &'a str,
}

#[derive(Default, Serialize)]
struct Entry<'a> {
    limits: Figures<'a>,
    requests: Figures<'a>,
    set: Figures<'a>,
}

/// Texts by resource, in the order of [`Resource::ALL`], which is that of the names.
#[derive(Default)]
struct Figures<'a>([Option<Cow<'a, str>>; Resource::ALL.len()]);

impl<'a> Figures<'a> {
    fn set(&mut self, resource: Resource, text: Cow<'a, str>) {
        if let Some((slot, _)) = self.0.iter_mut().zip(Resource::ALL).find(|(_, of)| *of == resource) {
            *slot = Some(text);
        }
    }
}

impl Serialize for Figures<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let figures = Resource::ALL.iter().zip(&self.0);
        serializer.collect_map(figures.filter_map(|(resource, text)| Some((resource.name(), text.as_ref()?))))
    }
}
