//! The settings of autoscalers.

use std::time::Duration;

use plimsoll_core::profile::HpaMode;
use serde_json::Value;

use super::check::Check;
use super::checked::{MILLISECOND, MINUTE, SECOND};
use super::hpa_api::{self, HpaApi};
use super::raw::RawHpa;
use super::units::duration_text;

/// How autoscalers keep their meaning when requests are lowered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hpa {
    /// Whether `HorizontalPodAutoscaler`s and what they scale are watched, and a leader keeps their targets right.
    pub enabled: bool,
    /// What becomes of an autoscaler where the profile does not say.
    pub mode: HpaMode,
    /// After this time without a sign of life of the leader another replica takes over; whole seconds.
    pub lease_duration: Duration,
    /// How often the leader gives a sign of life.
    pub renew_interval: Duration,
    /// The least time between two looks at the autoscalers that a change concerns.
    pub sync_interval: Duration,
    /// How many autoscalers the leader writes at most in a second.
    pub writes_per_second: usize,
    /// Usage for the controller, scaled.
    pub shim: Shim,
    /// Metrics of our own.
    pub external: External,
    /// The server that answers for both.
    pub api: HpaApi,
}

/// `metrics.k8s.io` with usage that is scaled for the autoscaler's controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shim {
    /// Whether it is served.
    pub enabled: bool,
}

/// `custom.metrics.k8s.io` and `external.metrics.k8s.io`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
    /// Whether they are served.
    pub enabled: bool,
}

impl Hpa {
    /// Whether a mode that a profile asks for has effect here.
    pub fn offers(&self, mode: HpaMode) -> bool {
        match mode {
            HpaMode::Convert => self.enabled,
            HpaMode::Shim => self.shim.enabled,
            HpaMode::External => self.external.enabled,
            HpaMode::Off => true,
        }
    }

    /// Whether autoscalers, what they scale, and pods must be known to every replica.
    pub fn serves_metrics(&self) -> bool {
        self.shim.enabled || self.external.enabled
    }

    /// What no setting shows on its own.
    fn check_together(&self, check: &mut Check<'_>) {
        let needs = match self.mode {
            HpaMode::Shim if !self.shim.enabled => Some("hpa.shim.enabled"),
            HpaMode::External if !self.external.enabled => Some("hpa.external.enabled"),
            _ => None,
        };
        if let Some(needs) = needs {
            let message = format!("{} needs {needs}: true", self.mode.name());
            check.refuse("hpa.mode", message);
        }
        if self.serves_metrics() && !self.enabled {
            let message =
                "is false, but hpa.shim or hpa.external is enabled, which need to know the autoscalers";
            check.refuse("hpa.enabled", message);
        }
        if self.renew_interval * 2 > self.lease_duration {
            let message = format!(
                "{} is more than half of hpa.leaseDuration ({}): one call that fails would cost the lease",
                duration_text(self.renew_interval),
                duration_text(self.lease_duration)
            );
            check.refuse("hpa.renewInterval", message);
        }
        if !self.lease_duration.as_millis().is_multiple_of(1000) {
            let message = format!(
                "{} is not in whole seconds, as a Lease needs it",
                duration_text(self.lease_duration)
            );
            check.refuse("hpa.leaseDuration", message);
        }
    }
}

pub(super) fn check(check: &mut Check<'_>, raw: &RawHpa) -> Hpa {
    let noted = check.count_noted();
    let mut duration = |key: &str, value: &Value, least: Duration, most: Duration| {
        check.duration(&format!("hpa.{key}"), value, least..=most)
    };
    let lease_duration = duration("leaseDuration", &raw.lease_duration, 2 * SECOND, 5 * MINUTE);
    let renew_interval = duration("renewInterval", &raw.renew_interval, 500 * MILLISECOND, MINUTE);
    let sync_interval = duration("syncInterval", &raw.sync_interval, 100 * MILLISECOND, MINUTE);
    let modes = HpaMode::ALL.map(|mode| (mode.name(), mode));
    let hpa = Hpa {
        enabled: check.flag("hpa.enabled", &raw.enabled),
        mode: check.choice("hpa.mode", &raw.mode, &modes, HpaMode::Convert),
        lease_duration,
        renew_interval,
        sync_interval,
        writes_per_second: check.count("hpa.writesPerSecond", &raw.writes_per_second, 1..=1000),
        shim: Shim { enabled: check.flag("hpa.shim.enabled", &raw.shim.enabled) },
        external: External { enabled: check.flag("hpa.external.enabled", &raw.external.enabled) },
        api: hpa_api::check(check, &raw.api),
    };
    if check.count_noted() == noted {
        hpa.check_together(check);
    }
    hpa
}
