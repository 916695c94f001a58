//! The settings of certificates that the server looks after itself.

use std::time::Duration;

use serde_json::Value;

use super::check::{Check, is_label, shown};
use super::checked::{HOUR, MINUTE, SECOND};
use super::quota::object_name;
use super::raw::RawSelfManaged;
use super::units::duration_text;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Certificates that replicas sign for themselves, with an authority in a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfManaged {
    /// The Secret of the own namespace that holds the authority.
    pub secret: String,
    /// The Service that the certificates are for, and by which our entries in webhook configurations are known.
    pub service: String,
    /// How long an authority is valid; at least five times [`certificate_lifetime`](Self::certificate_lifetime).
    pub authority_lifetime: Duration,
    /// How long a certificate is valid.
    pub certificate_lifetime: Duration,
    /// How long a new authority is published before anybody signs with it.
    pub publish_for: Duration,
    /// How often the Secret, and what is published, is looked at.
    pub poll_interval: Duration,
}

pub(super) fn check(check: &mut Check<'_>, raw: &RawSelfManaged) -> SelfManaged {
    let noted = check.count_noted();
    let own = SelfManaged {
        secret: object_name(check, "tls.selfManaged.secret", &raw.secret),
        service: label(check, "tls.selfManaged.service", &raw.service),
        authority_lifetime: check.duration(
            "tls.selfManaged.authorityLifetime",
            &raw.authority_lifetime,
            5 * MINUTE..=3650 * DAY,
        ),
        certificate_lifetime: check.duration(
            "tls.selfManaged.certificateLifetime",
            &raw.certificate_lifetime,
            10 * SECOND..=90 * DAY,
        ),
        publish_for: check.duration("tls.selfManaged.publishFor", &raw.publish_for, SECOND..=HOUR),
        poll_interval: check.duration(
            "tls.selfManaged.pollInterval",
            &raw.poll_interval,
            SECOND..=10 * MINUTE,
        ),
    };
    if check.count_noted() > noted {
        return own;
    }
    if own.authority_lifetime < own.certificate_lifetime * 5 {
        let message = format!(
            "{} is less than five times tls.selfManaged.certificateLifetime ({}); certificates would end with their authority",
            duration_text(own.authority_lifetime),
            duration_text(own.certificate_lifetime)
        );
        check.refuse("tls.selfManaged.authorityLifetime", message);
    }
    if own.authority_lifetime / 5 < own.publish_for * 2 {
        let message = format!(
            "{} is more than a tenth of tls.selfManaged.authorityLifetime ({}); an authority would end before the next is published",
            duration_text(own.publish_for),
            duration_text(own.authority_lifetime)
        );
        check.refuse("tls.selfManaged.publishFor", message);
    }
    if own.publish_for < own.poll_interval {
        let message = format!(
            "{} is more than tls.selfManaged.publishFor ({}); replicas would learn too late which authority is in force",
            duration_text(own.poll_interval),
            duration_text(own.publish_for)
        );
        check.refuse("tls.selfManaged.pollInterval", message);
    }
    if own.certificate_lifetime < own.poll_interval * 6 {
        let message = format!(
            "{} is less than six times tls.selfManaged.pollInterval ({}); certificates would end before they are renewed",
            duration_text(own.certificate_lifetime),
            duration_text(own.poll_interval)
        );
        check.refuse("tls.selfManaged.certificateLifetime", message);
    }
    own
}

/// The name of a Service.
fn label(check: &mut Check<'_>, path: &str, value: &Value) -> String {
    let name = value.as_str().unwrap_or_default();
    if !is_label(name) {
        let right = "write at most 63 lower-case letters, digits and '-', as in plimsoll";
        check.refuse(path, format!("{} is not the name of a Service; {right}", shown(value)));
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    type Change = fn(&mut RawSelfManaged);

    #[test]
    fn what_cannot_be_right_is_named() {
        let rows: [(&str, Change, &str); 8] = [
            ("the defaults", |_| (), ""),
            ("no name", |raw| raw.secret = json!(""), "tls.selfManaged.secret: "),
            ("no Service", |raw| raw.service = json!("a.b"), "tls.selfManaged.service: "),
            (
                "too short",
                |raw| raw.certificate_lifetime = json!("1s"),
                "tls.selfManaged.certificateLifetime: ",
            ),
            ("a number", |raw| raw.publish_for = json!(60), "tls.selfManaged.publishFor: "),
            (
                "certificates as long as their authority",
                |raw| raw.authority_lifetime = json!("48h"),
                "tls.selfManaged.authorityLifetime: ",
            ),
            (
                "published too long",
                |raw| {
                    raw.authority_lifetime = json!("1h");
                    raw.certificate_lifetime = json!("1m");
                    raw.publish_for = json!("10m");
                },
                "tls.selfManaged.publishFor: ",
            ),
            ("read too seldom", |raw| raw.poll_interval = json!("2m"), "tls.selfManaged.pollInterval: "),
        ];
        for (rule, change, begins) in rows {
            let mut raw = RawSelfManaged::default();
            change(&mut raw);
            let origins = BTreeMap::new();
            let mut noted = Check::new(&origins);
            check(&mut noted, &raw);
            let found: Vec<_> = noted
                .into_violations()
                .iter()
                .map(|violation| format!("{}: {}", violation.path, violation.message))
                .collect();
            let right = if begins.is_empty() { found.is_empty() } else { found.len() == 1 };
            assert!(right && found.iter().all(|found| found.starts_with(begins)), "{rule}: {found:?}");
        }
    }
}
