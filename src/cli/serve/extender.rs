//! The scheduler extender as a part of `serve`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::certificates::{poll_interval, tls_options};
use super::process::Process;
use super::{CliError, bind, client_auth, server_options};
use crate::certificates::Held;
use crate::config::Config;
use crate::placement::{PlacementState, extender};
use crate::server::tls::wall_clock;
use crate::server::{
    CertificateSource, CertificateStore, ClientAuth, SelfManaged, ServerOptions, TlsOptions,
};

/// The longest body: 5,000 whole nodes have about 50 MB.
const BODY_BYTES: usize = 64 * 1024 * 1024;
/// What bodies and answers may take together: one such body, and its nodes once more in the answer.
const BODY_MEMORY: usize = 2 * BODY_BYTES;
/// The longest a scheduler waits for its turn; it waits for 200 ms altogether, and then goes on without us.
const QUEUE_DEADLINE: Duration = Duration::from_millis(100);

/// Opens the listener and serves. The address that was bound; `None` where none is configured.
pub(super) async fn start(process: &Process, state: &PlacementState) -> Result<Option<SocketAddr>, CliError> {
    let Process { config, readiness, metrics, shutdown, tasks, held, .. } = process;
    let Some(address) = config.placement.address else { return Ok(None) };
    let tls = tls(config, held)?;
    let certificates = CertificateStore::open_for(tls, wall_clock(), metrics.extender_listener().clone())
        .map_err(|error| CliError::Usage(format!("placement: {error}")))?;
    if config.placement.certificate.is_none() {
        // One of its own that runs out is no reason to stop admission: metrics tell, and schedulers see it.
        let store = Arc::clone(&certificates);
        readiness.check("certificate of the extender", move || store.check());
    }
    let polling = Arc::clone(&certificates).watch(poll_interval(config), shutdown.clone());
    tasks.spawn("certificates of the extender", polling);
    let (listener, address) = bind(address).await?;
    let of_admission = server_options(config);
    let options = ServerOptions {
        address,
        // A decision is nothing but work, so that more at a time would only make each of them slower.
        concurrency: std::thread::available_parallelism().map_or(1, usize::from).max(2),
        queue_deadline: of_admission.queue_deadline.min(QUEUE_DEADLINE),
        body_bytes: BODY_BYTES,
        body_memory: BODY_MEMORY,
        ..of_admission
    };
    let engine: Arc<dyn extender::Engine> = Arc::new(state.clone());
    let serving =
        extender::serve(listener, certificates, options, engine, Arc::clone(metrics), shutdown.clone());
    let cancelled = tasks.cancelled();
    tasks.spawn("extender", async move {
        match serving.await {
            // It may be done before the admission server is; only that one ends the process.
            Ok(()) => cancelled.cancelled().await,
            Err(error) => tracing::error!(%error, "the extender cannot serve"),
        }
    });
    Ok(Some(address))
}

fn tls(config: &Config, held: &Held) -> Result<TlsOptions, CliError> {
    let placement = &config.placement;
    let of_admission = tls_options(config, held);
    let client_auth = client_auth(placement.client_auth);
    let client_ca = placement.client_ca.clone();
    let source = match (&placement.certificate, &placement.key, of_admission.source) {
        (Some(certificate), Some(key), _) => {
            CertificateSource::Files { certificate: certificate.clone(), key: key.clone(), client_ca }
        }
        (_, _, CertificateSource::Files { certificate, key, .. }) => {
            CertificateSource::Files { certificate, key, client_ca }
        }
        (_, _, CertificateSource::SelfManaged(own)) => {
            CertificateSource::SelfManaged(SelfManaged { client_ca, ..own })
        }
        (_, _, ephemeral @ CertificateSource::Ephemeral { .. }) if client_auth == ClientAuth::None => {
            ephemeral
        }
        (_, _, CertificateSource::Ephemeral { .. }) => {
            return Err(CliError::Usage(
                "placement.clientAuth asks schedulers for certificates, which needs certificate files of the extender's \
                 own while tls.source is Ephemeral; set placement.certificate and placement.key, or \
                 placement.clientAuth to None"
                    .to_owned(),
            ));
        }
    };
    Ok(TlsOptions { source, client_auth, http2: false, ..of_admission })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, TlsSource};

    #[test]
    fn certificates_and_clients() {
        let files = |certificate: &str, key: &str, client_ca: Option<&str>| CertificateSource::Files {
            certificate: certificate.into(),
            key: key.into(),
            client_ca: client_ca.map(Into::into),
        };
        let held = Held::new(Duration::from_secs(60));
        let mut config = config::load(&config::Sources::default()).unwrap().config;
        (config.tls.certificate, config.tls.key) = ("/tls.crt".into(), "/tls.key".into());
        config.tls.client_ca = Some("/api-servers.crt".into());
        config.placement.client_auth = config::ClientAuth::Required;
        config.placement.client_ca = Some("/schedulers.crt".into());
        let found = tls(&config, &held).unwrap();
        assert_eq!(
            found.source,
            files("/tls.crt", "/tls.key", Some("/schedulers.crt")),
            "not the API servers' CA"
        );
        assert_eq!(found.client_auth, ClientAuth::Required);

        (config.placement.certificate, config.placement.key) =
            (Some("/own.crt".into()), Some("/own.key".into()));
        let found = tls(&config, &held).unwrap();
        assert_eq!(found.source, files("/own.crt", "/own.key", Some("/schedulers.crt")));

        config.tls.source = TlsSource::Ephemeral;
        assert_eq!(tls(&config, &held).unwrap().source, found.source);
        (config.placement.certificate, config.placement.key) = (None, None);
        assert!(tls(&config, &held).unwrap_err().to_string().contains("set placement.certificate"));
        config.placement.client_auth = config::ClientAuth::None;
        assert!(matches!(tls(&config, &held).unwrap().source, CertificateSource::Ephemeral { .. }));

        config.tls.source = TlsSource::SelfManaged;
        config.placement.client_auth = config::ClientAuth::Required;
        let CertificateSource::SelfManaged(own) = tls(&config, &held).unwrap().source else {
            panic!("another source");
        };
        assert_eq!(own.client_ca, Some("/schedulers.crt".into()), "not the API servers' CA");
        assert_eq!(own.names[0], "plimsoll.plimsoll-system.svc");
    }
}
