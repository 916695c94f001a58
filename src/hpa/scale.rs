//! Which pods belong to what is of no kind that is watched.

use std::collections::HashMap;
use std::time::Duration;

use plimsoll_core::hpa::Hpa;
use plimsoll_core::objects::WorkloadKind;
use plimsoll_core::profile::Selector;
use tokio::time::Instant;

use super::calls::{Calls, Served};
use super::selector;
use crate::cluster::WriteError;

/// A selector seldom changes.
const KNOWN: Duration = Duration::from_secs(60);
/// What is not there may appear.
pub(super) const UNKNOWN: Duration = Duration::from_secs(15);

/// So many targets are asked for in one round; each costs a call or two, and the other autoscalers wait for it.
const ASKED_AT_ONCE: u32 = 20;

/// Selectors by target, as their scale subresources told them.
#[derive(Debug, Default)]
pub(super) struct Scales {
    /// By API version and kind.
    kinds: HashMap<(String, String), Told<Served>>,
    selectors: HashMap<Target, Told<Selector>>,
    /// How many more may be asked for in this round.
    budget: u32,
}

/// What is known of a target.
pub(super) struct Found<'a> {
    pub(super) selector: Option<&'a Selector>,
    /// Why it could not be asked for.
    pub(super) failure: Option<&'a str>,
}

/// Namespace, API version, kind and name.
type Target = (String, String, String, String);

#[derive(Debug)]
struct Told<T> {
    value: Option<T>,
    until: Instant,
    failure: Option<String>,
}

impl<T> Told<T> {
    fn of(value: Option<T>) -> Self {
        let lasts = if value.is_some() { KNOWN } else { UNKNOWN };
        Self { value, until: Instant::now() + lasts, failure: None }
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
    /// A new round of looking at autoscalers: so many targets may be asked for in it.
    pub(super) fn begin(&mut self) {
        self.budget = ASKED_AT_ONCE;
    }

    /// The selector of an autoscaler's target, asked for if what was told is old. When it cannot be asked for, what was
    /// told last stands.
    pub(super) async fn selector(&mut self, calls: &Calls, hpa: &Hpa) -> Found<'_> {
        let key = (
            hpa.namespace.clone(),
            hpa.target_api_version.clone(),
            hpa.target.kind.clone(),
            hpa.target.name.clone(),
        );
        if self.budget > 0 && !self.selectors.get(&key).is_some_and(Told::is_fresh) {
            self.budget -= 1;
            let told = match self.ask(calls, &key).await {
                Ok(text) => Told::of(text.as_deref().and_then(selector::parse)),
                Err(error) => {
                    // The next ones would wait as long, and all other autoscalers with them.
                    self.budget = 0;
                    let value = self.selectors.remove(&key).and_then(|told| told.value);
                    Told { value, until: Instant::now() + UNKNOWN, failure: Some(error.to_string()) }
                }
            };
            self.selectors.insert(key.clone(), told);
        }
        let told = self.selectors.get(&key);
        Found {
            selector: told.and_then(|told| told.value.as_ref()),
            failure: told.and_then(|told| told.failure.as_deref()),
        }
    }

    async fn ask(&mut self, calls: &Calls, target: &Target) -> Result<Option<String>, WriteError> {
        let (namespace, api_version, kind, name) = target;
        let of_kind = (api_version.clone(), kind.clone());
        if !self.kinds.get(&of_kind).is_some_and(Told::is_fresh) {
            let found = calls.served(api_version, kind).await?;
            self.kinds.insert(of_kind.clone(), Told::of(found));
        }
        match self.kinds.get(&of_kind).and_then(|told| told.value.as_ref()) {
            Some(served) => calls.scale_selector(namespace, served, name).await,
            None => Ok(None),
        }
    }

    /// Lets go what nobody has asked for since long.
    pub(super) fn forget(&mut self) {
        let old = |until: Instant| Instant::now().saturating_duration_since(until) < 4 * KNOWN;
        self.selectors.retain(|_, told| old(told.until));
        self.kinds.retain(|_, told| old(told.until));
    }
}
