//! How much of each resource: charges, bounds and sums.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use plimsoll_quantity::{Format, Quantity};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Amounts by resource name, in nano-units; any name counts. Arithmetic saturates: a sum beyond the range is above
/// every maximum, which is the safe side.
///
/// A resource that is not there is 0 in a charge, and no bound in a maximum; an entry of 0 is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Amounts(Vec<(Arc<str>, i128)>);

impl Amounts {
    /// No resource at all.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(found, _)| found.as_ref().cmp(name))
    }

    /// The amount of a resource, if there is an entry.
    pub fn get(&self, name: &str) -> Option<i128> {
        self.0.get(self.find(name).ok()?).map(|(_, nanos)| *nanos)
    }

    /// The amount of a resource; 0 if there is no entry.
    pub fn of(&self, name: &str) -> i128 {
        self.get(name).unwrap_or(0)
    }

    /// Sets the amount of a resource.
    pub fn set(&mut self, name: impl Into<Arc<str>>, nanos: i128) {
        let name = name.into();
        match self.find(&name) {
            Ok(index) => {
                if let Some(entry) = self.0.get_mut(index) {
                    entry.1 = nanos;
                }
            }
            Err(index) => self.0.insert(index, (name, nanos)),
        }
    }

    /// Takes the entry of a resource out.
    pub fn remove(&mut self, name: &str) {
        if let Ok(index) = self.find(name) {
            self.0.remove(index);
        }
    }

    /// Adds to the amount of a resource.
    pub fn add_one(&mut self, name: &Arc<str>, nanos: i128) {
        match self.find(name) {
            Ok(index) => {
                if let Some(entry) = self.0.get_mut(index) {
                    entry.1 = entry.1.saturating_add(nanos);
                }
            }
            Err(index) => self.0.insert(index, (Arc::clone(name), nanos)),
        }
    }

    /// Adds every amount of `other`.
    pub fn add(&mut self, other: &Self) {
        for (name, nanos) in &other.0 {
            self.add_one(name, *nanos);
        }
    }

    /// Takes every amount of `other` away; the result may be negative.
    pub fn subtract(&mut self, other: &Self) {
        for (name, nanos) in &other.0 {
            self.add_one(name, nanos.saturating_neg());
        }
    }

    /// The greater of the two for each resource.
    pub fn raise_to(&mut self, other: &Self) {
        for (name, nanos) in &other.0 {
            if self.get(name).is_none_or(|own| own < *nanos) {
                self.set(Arc::clone(name), *nanos);
            }
        }
    }

    /// The lesser of the two for each resource; what one of them does not have is 0.
    pub fn lower_to(&mut self, other: &Self) {
        for (name, nanos) in &mut self.0 {
            *nanos = (*nanos).min(other.of(name));
        }
        for (name, nanos) in &other.0 {
            if self.get(name).is_none() {
                self.set(Arc::clone(name), (*nanos).min(0));
            }
        }
    }

    /// Without the entries that are 0 or less.
    #[must_use]
    pub fn positive(mut self) -> Self {
        self.0.retain(|(_, nanos)| *nanos > 0);
        self
    }

    /// Whether every amount is at most that of `other`, absent there meaning 0.
    pub fn fits_in(&self, other: &Self) -> bool {
        self.0.iter().all(|(name, nanos)| *nanos <= other.of(name))
    }

    /// All entries, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, i128)> + Clone {
        self.0.iter().map(|(name, nanos)| (name, *nanos))
    }

    /// Whether there is no entry.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The amounts as quantities, as people write them.
    pub fn quantities(&self) -> BTreeMap<String, String> {
        self.iter().map(|(name, nanos)| (name.to_string(), shown(name, nanos))).collect()
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, i128)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (N, i128)>>(entries: I) -> Self {
        let mut amounts = Self::new();
        for (name, nanos) in entries {
            amounts.set(name, nanos);
        }
        amounts
    }
}

/// `cpu=5, memory=1Gi`, or `nothing`.
impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        for (index, (name, nanos)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name}={}", shown(name, *nanos))?;
        }
        Ok(())
    }
}

/// An amount as a quantity: bytes with binary suffixes, everything else with decimal ones.
pub fn shown(resource: &str, nanos: i128) -> String {
    let bytes =
        matches!(resource, "memory" | "ephemeral-storage" | "storage") || resource.starts_with("hugepages-");
    let format = if bytes { Format::BinarySi } else { Format::DecimalSi };
    Quantity::from_nanos(nanos, format).to_string()
}

/// Quantities, exact to the nano-unit.
impl Serialize for Amounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let plain = |nanos| Quantity::from_nanos(nanos, Format::DecimalSi).to_string();
        serializer.collect_map(self.iter().map(|(name, nanos)| (name.as_ref(), plain(nanos))))
    }
}

impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = BTreeMap::<String, Quantity>::deserialize(deserializer)?;
        Ok(entries.into_iter().map(|(name, quantity)| (name, quantity.nanos())).collect())
    }
}
