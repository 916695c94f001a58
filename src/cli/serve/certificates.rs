//! Where the certificates of all listeners come from, and self-managed ones as a part of `serve`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use plimsoll_core::hpa::MetricsGroup;

use super::process::Process;
use super::{CliError, client_auth, files};
use crate::certificates::bundles::{Bundles, Service, Target, WEBHOOKS};
use crate::certificates::keeper::{self, keep};
use crate::certificates::leaf::Follower;
use crate::certificates::plan::Timing;
use crate::certificates::store::SecretStore;
use crate::certificates::{Held, PART, service_names};
use crate::cluster::{Leadership, LeadershipOptions};
use crate::config::{self, Config, TlsSource, TlsVersion};
use crate::server::tls::{TlsError, wall_clock};
use crate::server::{CertificateSource, CertificateStore, SelfManaged, TlsOptions};

/// After this time without a sign of life of the leader another replica takes over.
const LEASE: Duration = Duration::from_secs(15);
/// How often the leader gives a sign of life.
const RENEW: Duration = Duration::from_secs(5);

/// Says so where the source of certificates cannot be had.
pub(super) fn check(config: &Config, standalone: bool, ca_file: bool) -> Result<(), CliError> {
    let source = config.tls.source;
    if standalone && source == TlsSource::SelfManaged {
        return Err(CliError::Usage(
            "tls.source is SelfManaged, whose authority lives in a Secret of a cluster, but --standalone runs without \
             one; set tls.source to Ephemeral, or to Files with tls.certificate and tls.key"
                .to_owned(),
        ));
    }
    if ca_file && source != TlsSource::Ephemeral {
        return Err(CliError::Usage(format!(
            "--ca-file writes the CA of a certificate made on the fly, but tls.source is {source:?}; leave it out, or \
             set tls.source to Ephemeral"
        )));
    }
    Ok(())
}

/// The certificate of the admission listener, and what keeps it new; its CA goes to `ca_file` where it is made on the fly.
pub(super) fn open(process: &Process, ca_file: Option<&Path>) -> Result<Arc<CertificateStore>, CliError> {
    let Process { config, metrics, readiness, shutdown, tasks, held, .. } = process;
    let store = CertificateStore::open(tls_options(config, held), wall_clock(), metrics)
        .map_err(|error| CliError::Usage(with_way_out(&error)))?;
    if let (Some(path), Some(ca)) = (ca_file, store.ca_pem()) {
        files::write(path, ca)?;
    }
    let checked = Arc::clone(&store);
    readiness.check("certificate", move || checked.check());
    tasks.spawn("certificates", Arc::clone(&store).watch(poll_interval(config), shutdown.clone()));
    Ok(store)
}

/// The error, and for a pair that is not there what to do about it at the start.
fn with_way_out(error: &TlsError) -> String {
    let missing = matches!(error, TlsError::Read { what: "certificate" | "key", .. });
    let way_out =
        if missing { ", or set tls.certificate and tls.key (`plimsoll certs` makes them)" } else { "" };
    format!("{error}{way_out}")
}

/// How TLS is spoken at the admission listener; others begin with this.
pub(super) fn tls_options(config: &Config, held: &Held) -> TlsOptions {
    let tls = &config.tls;
    let source = match tls.source {
        TlsSource::Files => CertificateSource::Files {
            certificate: tls.certificate.clone(),
            key: tls.key.clone(),
            client_ca: tls.client_ca.clone(),
        },
        TlsSource::Ephemeral => CertificateSource::Ephemeral { names: tls.names.clone() },
        TlsSource::SelfManaged => CertificateSource::SelfManaged(SelfManaged {
            held: held.clone(),
            names: service_names(&tls.self_managed.service, &config.admission.own_namespace),
            lifetime: tls.self_managed.certificate_lifetime,
            client_ca: match config.server.client_auth {
                config::ClientAuth::None => None,
                config::ClientAuth::Optional | config::ClientAuth::Required => tls.client_ca.clone(),
            },
        }),
    };
    TlsOptions {
        source,
        client_auth: client_auth(config.server.client_auth),
        tls13_only: tls.min_version == TlsVersion::Tls13,
        http2: config.server.http2,
    }
}

/// How often a listener looks whether another certificate is due.
pub(super) fn poll_interval(config: &Config) -> Duration {
    match config.tls.source {
        TlsSource::Files | TlsSource::Ephemeral => config.tls.poll_interval,
        TlsSource::SelfManaged => config.tls.poll_interval.min(config.tls.self_managed.poll_interval),
    }
}

/// What a replica may sign with: nothing yet.
pub(super) fn held(config: &Config) -> Held {
    Held::new(config.tls.self_managed.publish_for)
}

/// Starts what reads the authority, and what one replica does for all, where certificates are self-managed.
pub(super) fn start(process: &Process, client: &Client) {
    let Process { config, metrics, readiness, tasks, held, .. } = process;
    if config.tls.source != TlsSource::SelfManaged {
        return;
    }
    let own = &config.tls.self_managed;
    let namespace = &config.admission.own_namespace;
    let store = SecretStore::new(client.clone(), namespace.clone(), own.secret.clone());
    let timing = Timing {
        authority_lifetime: own.authority_lifetime,
        certificate_lifetime: own.certificate_lifetime,
        publish_for: own.publish_for,
    };
    let follower = Follower {
        store: store.clone(),
        held: held.clone(),
        interval: own.poll_interval,
        margin: timing.margin(),
        clock: wall_clock(),
        condition: readiness.condition("self-managed certificates"),
        metrics: Arc::clone(metrics),
    };
    tasks.spawn("self-managed certificates", follower.run(tasks.cancelled()));

    let condition = readiness.condition("certificate authority");
    condition.ready();
    let service = Service { namespace: namespace.clone(), name: own.service.clone() };
    let parts = keeper::Parts {
        store,
        bundles: Bundles::new(client.clone(), service, targets(config)),
        timing,
        interval: own.poll_interval,
        clock: wall_clock(),
        condition,
        metrics: Arc::clone(metrics),
    };
    let options = LeadershipOptions::undivided(PART, namespace.clone(), LEASE, RENEW);
    let leadership = Leadership::new(client.clone(), options, Arc::clone(metrics));
    let cancelled = tasks.cancelled();
    tasks.spawn("certificate authority", async move {
        leadership.run(0, cancelled, |token| keep(parts.clone(), token)).await;
    });
}

/// The objects that tell the API server whom to trust, by the parts that are on.
pub(in crate::cli) fn targets(config: &Config) -> Vec<Target> {
    let mut targets: Vec<Target> = Target::webhooks(WEBHOOKS).into();
    if config.quota.enabled && config.quota.webhook_name != WEBHOOKS {
        targets.extend(Target::webhooks(&config.quota.webhook_name));
    }
    // One with a certificate of its own is not ours to vouch for.
    if config.hpa.api.certificate.is_none() {
        let mut groups = Vec::new();
        if config.hpa.shim.enabled {
            groups.push(MetricsGroup::Metrics);
        }
        if config.hpa.external.enabled {
            groups.extend([MetricsGroup::Custom, MetricsGroup::External]);
        }
        for group in groups {
            for version in group.versions() {
                targets.push(Target::api_service(format!("{version}.{}", group.name())));
            }
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, load};

    #[test]
    fn what_is_kept_follows_the_parts_that_are_on() {
        let mut config = load(&Sources::default()).unwrap().config;
        assert_eq!(targets(&config), Target::webhooks("plimsoll"));
        config.quota.enabled = true;
        config.hpa.shim.enabled = true;
        config.hpa.external.enabled = true;
        let mut expected: Vec<_> = Target::webhooks("plimsoll").into();
        expected.extend(Target::webhooks("plimsoll-quota"));
        expected.extend(
            [
                "v1beta1.metrics.k8s.io",
                "v1beta1.custom.metrics.k8s.io",
                "v1beta2.custom.metrics.k8s.io",
                "v1beta1.external.metrics.k8s.io",
            ]
            .map(Target::api_service),
        );
        assert_eq!(targets(&config), expected);
        config.hpa.api.certificate = Some("/own.crt".into());
        assert_eq!(targets(&config), expected[..4]);
    }

    #[test]
    fn what_needs_a_cluster_is_refused_without_one() {
        let mut config = load(&Sources::default()).unwrap().config;
        assert!(check(&config, true, false).is_ok());
        assert!(check(&config, false, true).unwrap_err().to_string().contains("tls.source is Files"));
        config.tls.source = TlsSource::SelfManaged;
        assert!(check(&config, false, false).is_ok());
        assert!(check(&config, true, false).unwrap_err().to_string().contains("Ephemeral, or to Files"));
        assert!(check(&config, false, true).is_err());
    }
}
