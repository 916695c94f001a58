//! The models of all profiles, and what the samples of one time have in common under each.

use std::collections::HashMap;

use crate::profile::Profile;
use crate::usage::{Model, ModelError, Scan};

/// Scans of so many different times are kept; nodes report at their own times.
const MOST_SCANS: usize = 4096;

/// The models that are in use. A model is named by its place in the list.
#[derive(Debug)]
pub(super) struct Models {
    list: Vec<Entry>,
    scan_interval: i64,
}

#[derive(Debug)]
struct Entry {
    model: Model,
    scans: HashMap<i64, Scan>,
}

impl Models {
    pub(super) const fn new(scan_interval: i64) -> Self {
        Self { list: Vec::new(), scan_interval }
    }

    /// The place of a profile's model.
    pub(super) fn index_of(&mut self, profile: &Profile) -> Result<usize, ModelError> {
        let model = Model { scan_interval: self.scan_interval, ..Model::from_policy(&profile.dynamic)? };
        if let Some(found) = self.list.iter().position(|entry| entry.model == model) {
            return Ok(found);
        }
        self.list.push(Entry { model, scans: HashMap::new() });
        Ok(self.list.len() - 1)
    }

    pub(super) fn get(&self, index: usize) -> Option<&Model> {
        self.list.get(index).map(|entry| &entry.model)
    }

    /// A model and what all samples of a time have in common under it.
    pub(super) fn scan(&mut self, index: usize, nanos: i64) -> Option<(&Model, Scan)> {
        let entry = self.list.get_mut(index)?;
        if entry.scans.len() >= MOST_SCANS {
            entry.scans.clear();
        }
        let scan = *entry.scans.entry(nanos).or_insert_with(|| Scan::new(&entry.model, nanos));
        Some((&entry.model, scan))
    }
}
