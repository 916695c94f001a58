//! Which pods belong to what is of no kind that is watched.

use std::collections::HashMap;
use std::time::Duration;

use plimsoll_core::hpa::Hpa;
use plimsoll_core::objects::WorkloadKind;
use plimsoll_core::profile::Selector;
use tokio::time::Instant;

use super::calls::Calls;
use super::selector;
use crate::cluster::WriteError;

/// A selector seldom changes.
const KNOWN: Duration = Duration::from_secs(60);
/// What is not there may appear.
pub(super) const UNKNOWN: Duration = Duration::from_secs(15);

/// Selectors by target, as their scale subresources told them.
#[derive(Debug, Default)]
pub(super) struct Scales {
    /// By API version and kind.
    plurals: HashMap<(String, String), Told<String>>,
    selectors: HashMap<Target, Told<Selector>>,
}

/// Namespace, API version, kind and name.
type Target = (String, String, String, String);

#[derive(Debug)]
struct Told<T> {
    value: Option<T>,
    until: Instant,
}

impl<T> Told<T> {
    fn of(value: Option<T>) -> Self {
        let lasts = if value.is_some() { KNOWN } else { UNKNOWN };
        Self { value, until: Instant::now() + lasts }
    }

    fn is_fresh(&self) -> bool {
        Instant::now() < self.until
    }
}

/// Whether the target of an autoscaler is of a kind that is not watched.
pub(super) fn is_foreign(hpa: &Hpa) -> bool {
    WorkloadKind::of(&hpa.target.group, &hpa.target.kind).is_none() && !hpa.target_api_version.is_empty()
}

impl Scales {
    /// The selector of an autoscaler's target, asked for if what was told is old. When it cannot be asked for, what was
    /// told last stands.
    pub(super) async fn selector(&mut self, calls: &Calls, hpa: &Hpa) -> Option<&Selector> {
        let key = (
            hpa.namespace.clone(),
            hpa.target_api_version.clone(),
            hpa.target.kind.clone(),
            hpa.target.name.clone(),
        );
        if !self.selectors.get(&key).is_some_and(Told::is_fresh) {
            match self.ask(calls, &key).await {
                Ok(text) => {
                    let told = Told::of(text.as_deref().and_then(selector::parse));
                    self.selectors.insert(key.clone(), told);
                }
                Err(error) => {
                    tracing::debug!(%error, "what an autoscaler scales cannot be asked for; trying again");
                    let last = self.selectors.remove(&key).and_then(|told| told.value);
                    self.selectors.insert(key.clone(), Told { value: last, until: Instant::now() + UNKNOWN });
                }
            }
        }
        self.selectors.get(&key)?.value.as_ref()
    }

    async fn ask(&mut self, calls: &Calls, target: &Target) -> Result<Option<String>, WriteError> {
        let (namespace, api_version, kind, name) = target;
        let of_kind = (api_version.clone(), kind.clone());
        if !self.plurals.get(&of_kind).is_some_and(Told::is_fresh) {
            let found = calls.plural(api_version, kind).await?;
            self.plurals.insert(of_kind.clone(), Told::of(found));
        }
        match self.plurals.get(&of_kind).and_then(|told| told.value.as_deref()) {
            Some(plural) => calls.scale_selector(namespace, api_version, plural, name).await,
            None => Ok(None),
        }
    }

    /// Lets go what nobody has asked for since long.
    pub(super) fn forget(&mut self) {
        let old = |until: Instant| Instant::now().saturating_duration_since(until) < 4 * KNOWN;
        self.selectors.retain(|_, told| old(told.until));
        self.plurals.retain(|_, told| old(told.until));
    }
}
