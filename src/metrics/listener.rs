//! What happens on the way to whoever answers: sockets, TLS, HTTP.

use http::StatusCode;
use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::GaugeGuard;
use super::families::{IntGauge, register, reloads};
use super::labels::{CodeLabel, ReloadLabel, ReloadResult};
use crate::status::{Health, Part};

/// What one HTTPS listener counts. Clones share it.
#[derive(Clone, Debug)]
pub struct ListenerMetrics {
    http_rejected: Family<CodeLabel, Counter>,
    connections: IntGauge,
    connections_accepted: Counter,
    connection_limit_waits: Counter,
    accept_errors: Counter,
    handshake_failures: Counter,
    not_after: IntGauge,
    renew: IntGauge,
    reloads: Family<ReloadLabel, Counter>,
    health: Health,
    name: String,
}

impl ListenerMetrics {
    /// Families of which each name begins with `prefix`; `name` is what people call the listener.
    pub(super) fn register(r: &mut Registry, prefix: &str, name: &str, health: &Health) -> Self {
        let full = |family: &str| format!("{prefix}{family}");
        let http_rejected: Family<CodeLabel, Counter> = register(
            r,
            &full("http_rejected"),
            &format!(
                "HTTP requests refused by the {name} listener before they were looked at, by status code"
            ),
        );
        for code in [400, 404, 405, 408, 413, 415, 431] {
            http_rejected.get_or_create_owned(&CodeLabel { code });
        }
        Self {
            http_rejected,
            connections: register(
                r,
                &full("connections"),
                &format!("Open connections of the {name} listener"),
            ),
            connections_accepted: register(
                r,
                &full("connections_accepted"),
                &format!("Connections accepted by the {name} listener"),
            ),
            connection_limit_waits: register(
                r,
                &full("connection_limit_waits"),
                &format!(
                    "Times the {name} listener stopped accepting because the connection limit was reached"
                ),
            ),
            accept_errors: register(
                r,
                &full("accept_errors"),
                &format!("Errors while the {name} listener accepted connections"),
            ),
            handshake_failures: register(
                r,
                &full("tls_handshake_failures"),
                &format!("TLS handshakes of the {name} listener that failed or took too long"),
            ),
            not_after: register(
                r,
                &full("tls_certificate_not_after_seconds"),
                &format!(
                    "End of validity of the certificate that the {name} listener serves, in seconds since the epoch"
                ),
            ),
            renew: register(
                r,
                &full("tls_certificate_renew_seconds"),
                &format!(
                    "When the certificate that the {name} listener serves should be replaced, in seconds since the epoch"
                ),
            ),
            reloads: reloads(
                r,
                &full("tls_reloads"),
                &format!("Attempts of the {name} listener to take up a new certificate, by result"),
            ),
            health: health.clone(),
            name: name.to_owned(),
        }
    }

    /// Counts an HTTP request that was refused with `code` before it was looked at.
    pub fn http_rejected(&self, code: StatusCode) {
        self.http_rejected.get_or_create(&CodeLabel { code: code.as_u16() }).inc();
    }

    /// Counts an accepted connection, and counts it as open until the guard is dropped.
    #[must_use]
    pub fn connection(&self) -> GaugeGuard {
        self.connections_accepted.inc();
        GaugeGuard::new(&self.connections)
    }

    /// Counts that accepting stopped because the connection limit was reached.
    pub fn connection_limit_wait(&self) {
        self.connection_limit_waits.inc();
    }

    /// Counts an error of the listening socket.
    pub fn accept_error(&self) {
        self.accept_errors.inc();
    }

    /// Counts a TLS handshake that failed or took too long.
    pub fn tls_handshake_failure(&self) {
        self.handshake_failures.inc();
    }

    /// Notes the end of validity of the served certificate, and by when it should be replaced. While there is none
    /// nothing is noted.
    pub fn tls_certificate(&self, not_after: Timestamp, renew: Timestamp) {
        self.not_after.set(not_after.as_second());
        self.renew.set(renew.as_second());
        self.health.certificate(Part::Certificates, &self.name, not_after, renew);
    }

    /// Counts an attempt to take up changed certificate files.
    pub fn tls_reload(&self, result: ReloadResult) {
        self.reloads.get_or_create(&ReloadLabel { result }).inc();
        if result == ReloadResult::Success {
            self.tls_accepted();
        }
    }

    /// What the files hold is what is served.
    pub fn tls_accepted(&self) {
        self.health.works(Part::Certificates, &self.name);
    }

    /// A changed certificate was refused, and why; the last good one stays.
    pub fn tls_refused(&self, why: &str) {
        self.health.failed_for_good(Part::Certificates, &self.name, why);
    }
}
