//! What is counted about the authority of self-managed certificates.

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::Metrics;
use super::families::{IntGauge, register};
use super::labels::{RotationLabels, RotationStep, WriteResult, WriteResultLabel};

/// The end of the authority on every replica; the rest by the leader.
#[derive(Debug)]
pub(super) struct CertificateFamilies {
    not_after: IntGauge,
    renew: IntGauge,
    rotations: Family<RotationLabels, Counter>,
    patches: Family<WriteResultLabel, Counter>,
}

impl CertificateFamilies {
    pub(super) fn register(r: &mut Registry) -> Self {
        let rotations: Family<RotationLabels, Counter> = register(
            r,
            "certificate_authority_rotations",
            "Steps by which the authority of self-managed certificates changed, by how they ended",
        );
        let patches: Family<WriteResultLabel, Counter> = register(
            r,
            "ca_bundle_patches",
            "Patches of the caBundle of webhook configurations and APIServices, by how they ended",
        );
        for &result in WriteResult::ALL {
            patches.get_or_create_owned(&WriteResultLabel { result });
            for &step in RotationStep::ALL {
                rotations.get_or_create_owned(&RotationLabels { step, result });
            }
        }
        Self {
            not_after: register(
                r,
                "certificate_authority_not_after_seconds",
                "End of validity of the authority of self-managed certificates, in seconds since the epoch",
            ),
            renew: register(
                r,
                "certificate_authority_renew_seconds",
                "When the authority of self-managed certificates should be replaced, in seconds since the epoch",
            ),
            rotations,
            patches,
        }
    }
}

impl Metrics {
    /// Notes the end of the authority that is in force, and by when it should be replaced; nothing: there is none.
    pub fn certificate_authority(&self, ends_and_renew: Option<(Timestamp, Timestamp)>) {
        let (not_after, renew) =
            ends_and_renew.map_or((0, 0), |(ends, renew)| (ends.as_second(), renew.as_second()));
        self.certificates.not_after.set(not_after);
        self.certificates.renew.set(renew);
    }

    /// Counts a step of a rotation.
    pub fn certificate_rotation(&self, step: RotationStep, result: WriteResult) {
        self.certificates.rotations.get_or_create(&RotationLabels { step, result }).inc();
    }

    /// Counts a patch of a `caBundle`.
    pub fn ca_bundle_patch(&self, result: WriteResult) {
        self.certificates.patches.get_or_create(&WriteResultLabel { result }).inc();
    }
}
