//! The certificate that is served now, and how it is replaced while connections stay open.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jiff::{SignedDuration, Timestamp};
use rustls::ServerConfig;

use super::Shutdown;
use super::ephemeral::Authority;
use super::pem::{self, Pair};
use super::reload::{Content, Digest};
use super::self_managed::{self, SelfManaged};
pub use super::tls_error::TlsError;
use super::verify::client_verifier;
pub(crate) use super::verify::provider;
use crate::certificates::authority::AuthorityError;
use crate::certificates::leaf::Validity;
use crate::metrics::{ListenerMetrics, Metrics, ReloadResult};

/// A certificate from files that has a sixth of its life left, and no more than this, was not renewed in time.
const LATE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Tells the time; passed in so that expiry can be tested.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The clock on the wall.
#[must_use]
pub fn wall_clock() -> Clock {
    Arc::new(Timestamp::now)
}

/// Where certificates come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// PEM files, as cert-manager or a mounted Secret provides them. Their content is polled for changes.
    Files {
        /// The certificate, followed by its chain.
        certificate: PathBuf,
        /// Its private key: PKCS#8, SEC1 or PKCS#1, not encrypted.
        key: PathBuf,
        /// The authorities that client certificates must come from.
        client_ca: Option<PathBuf>,
    },
    /// An authority and a certificate made at start and kept in memory only.
    Ephemeral {
        /// The DNS names and IP addresses to be valid for.
        names: Vec<String>,
    },
    /// Signed by this replica with the authority that all replicas share; there is none until that could be read.
    SelfManaged(SelfManaged),
}

/// Whether clients show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked.
    #[default]
    None,
    /// They are asked; those that show one must show a valid one.
    Optional,
    /// They must show a valid one.
    Required,
    /// They are asked, and any is taken; whoever answers judges what was shown, by authorities that may change from one
    /// request to the next. That the client has the key is checked.
    Unjudged,
}

/// How TLS is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// Where certificates come from.
    pub source: CertificateSource,
    /// Whether clients show a certificate.
    pub client_auth: ClientAuth,
    /// Refuse TLS 1.2.
    pub tls13_only: bool,
    /// Offer HTTP/2 beside HTTP/1.1, which comes first: it is what the API server speaks to webhook Services.
    pub http2: bool,
}

/// What a poll found.
#[derive(Debug)]
pub enum Reload {
    /// Nothing to do.
    Unchanged,
    /// A new certificate is served to new connections.
    Replaced,
    /// What is there cannot be used; the last good certificate stays.
    Refused(TlsError),
}

/// One certificate with all that is needed to serve it.
struct Served {
    config: Arc<ServerConfig>,
    not_before: Timestamp,
    not_after: Timestamp,
    /// By when it should be replaced.
    renew: Timestamp,
    serial: String,
    digest: Digest,
    /// When it is replaced, if this replica signed it itself.
    validity: Option<Validity>,
}

/// The certificate that is served now. New connections take the newest one; open ones keep theirs.
pub struct CertificateStore {
    options: TlsOptions,
    authority: Option<Authority>,
    /// Nothing: it is not there yet.
    current: ArcSwapOption<Served>,
    /// The content that was refused last, so that it is reported once.
    refused: Mutex<Option<Digest>>,
    clock: Clock,
    metrics: ListenerMetrics,
}

impl CertificateStore {
    /// Loads or makes the first certificate.
    ///
    /// # Errors
    ///
    /// When there is none that can be served: at start there is no last good one to fall back on.
    pub fn open(options: TlsOptions, clock: Clock, metrics: &Metrics) -> Result<Arc<Self>, TlsError> {
        Self::open_for(options, clock, metrics.listener().clone())
    }

    /// The same for another listener than that for admission.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_for(
        options: TlsOptions,
        clock: Clock,
        metrics: ListenerMetrics,
    ) -> Result<Arc<Self>, TlsError> {
        let (authority, served) = match &options.source {
            CertificateSource::Files { .. } => {
                let content = Content::read(&options.source)?;
                (None, Some(build(&options, &content.pair()?, content.digest())?))
            }
            CertificateSource::Ephemeral { names } => {
                let authority = Authority::new(names, clock())?;
                let pair = authority.issue(clock())?;
                let served = build(&options, &pair, Digest::default())?;
                (Some(authority), Some(served))
            }
            CertificateSource::SelfManaged(own) => {
                // What can be wrong from the start is found at the start.
                let clients = self_managed::client_ca(own.client_ca.as_deref())?;
                let clients = clients.as_ref().map(pem::certificates).transpose()?.unwrap_or_default();
                client_verifier(options.client_auth, &clients)?;
                if own.names.is_empty() {
                    return Err(AuthorityError::NoName.into());
                }
                (None, None)
            }
        };
        let store = Self {
            options,
            authority,
            current: ArcSwapOption::from_pointee(served),
            refused: Mutex::new(None),
            clock,
            metrics,
        };
        store.note();
        store.report("serving certificate");
        Ok(Arc::new(store))
    }

    /// What a new connection is served with. None: there is no certificate yet.
    #[must_use]
    pub fn server_config(&self) -> Option<Arc<ServerConfig>> {
        self.current.load().as_ref().map(|served| Arc::clone(&served.config))
    }

    /// The end of validity of the served certificate; long ago if there is none yet.
    #[must_use]
    pub fn not_after(&self) -> Timestamp {
        self.current.load().as_ref().map_or(Timestamp::MIN, |served| served.not_after)
    }

    /// The serial number of the served certificate, in hexadecimal; empty if there is none yet.
    #[must_use]
    pub fn serial(&self) -> String {
        self.current.load().as_ref().map_or_else(String::new, |served| served.serial.clone())
    }

    /// The authority of an ephemeral certificate, for clients to verify it with.
    #[must_use]
    pub fn ca_pem(&self) -> Option<&str> {
        self.authority.as_ref().map(Authority::ca_pem)
    }

    /// Whether the served certificate is past its end at `now`.
    #[must_use]
    pub fn expired(&self, now: Timestamp) -> bool {
        now > self.not_after()
    }

    /// The readiness check: fails while there is no certificate, or the served one is expired or not yet valid.
    ///
    /// # Errors
    ///
    /// Says what it waits for, or since when it is expired, or when it begins.
    pub fn check(&self) -> Result<(), String> {
        if self.current.load().is_none() {
            return Err(format!("there is no certificate yet: {}", self.why_none()));
        }
        let now = (self.clock)();
        let why = || match &self.options.source {
            CertificateSource::SelfManaged(_) => self.why_none(),
            CertificateSource::Files { .. } | CertificateSource::Ephemeral { .. } => "renew it".to_owned(),
        };
        if self.expired(now) {
            let (serial, end) = (self.serial(), self.not_after());
            return Err(format!("the served certificate {serial} expired at {end}; {}", why()));
        }
        let not_before = self.current.load().as_ref().map_or(Timestamp::MIN, |served| served.not_before);
        if now < not_before {
            let serial = self.serial();
            return Err(format!(
                "the served certificate {serial} begins at {not_before}, and it is {now} by this machine's clock; {}",
                why()
            ));
        }
        Ok(())
    }

    /// Why this replica cannot sign one.
    fn why_none(&self) -> String {
        match &self.options.source {
            CertificateSource::SelfManaged(own) => match own.held.why() {
                why if why.is_empty() => "it is about to be signed".to_owned(),
                why => why,
            },
            CertificateSource::Files { .. } | CertificateSource::Ephemeral { .. } => String::new(),
        }
    }

    /// Looks once for a new certificate and takes it up. Reads files: call it where blocking is allowed.
    pub fn poll_once(&self) -> Reload {
        let outcome = match (&self.authority, &self.options.source) {
            (Some(authority), _) => self.renew(authority),
            (None, CertificateSource::SelfManaged(own)) => self.sign(own),
            (None, _) => self.reload(),
        };
        match &outcome {
            Ok(false) => {
                self.metrics.tls_accepted();
                return Reload::Unchanged;
            }
            Ok(true) => {
                self.metrics.tls_reload(ReloadResult::Success);
                self.note();
                self.report("certificate replaced");
            }
            Err(error) => {
                self.metrics.tls_reload(ReloadResult::Refused);
                self.metrics.tls_refused(&error.to_string());
            }
        }
        outcome.map_or_else(Reload::Refused, |_| Reload::Replaced)
    }

    /// Polls each `interval` until `shutdown` is finished.
    pub async fn watch(self: Arc<Self>, interval: Duration, shutdown: Shutdown) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = self.has_news() => {}
                () = shutdown.finished() => return,
            }
            let store = Arc::clone(&self);
            if let Err(error) = tokio::task::spawn_blocking(move || store.poll_once()).await {
                tracing::error!(%error, "looking for a new certificate failed");
            }
        }
    }

    /// Waits for what is known before the next look; for ever where nothing is.
    async fn has_news(&self) {
        match &self.options.source {
            CertificateSource::SelfManaged(own) => own.held.changed().await,
            CertificateSource::Files { .. } | CertificateSource::Ephemeral { .. } => {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Signs a certificate where one is due. Without an authority to sign with, what is served stays.
    fn sign(&self, own: &SelfManaged) -> Result<bool, TlsError> {
        let now = (self.clock)();
        let Some(authority) = own.held.usable(now) else { return Ok(false) };
        let refuse = |digest, error| Err(self.refuse(digest, error));
        let clients = match self_managed::client_ca(own.client_ca.as_deref()) {
            Ok(clients) => clients,
            Err(error) => return refuse(Digest::of_text(&error.to_string()), error),
        };
        let digest = self_managed::digest(&authority, clients.as_ref());
        let is_due = self.current.load().as_ref().is_none_or(|served| {
            served.digest != digest || served.validity.is_none_or(|validity| validity.is_due(now))
        });
        if !is_due {
            return Ok(false);
        }
        let signed = own.sign(&authority, clients.as_ref(), now).and_then(|leaf| {
            let served = build(&self.options, &leaf.pair, leaf.digest)?;
            Ok(Served { validity: Some(leaf.validity), renew: leaf.validity.renew, ..served })
        });
        match signed {
            Ok(served) => {
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = None;
                self.current.store(Some(Arc::new(served)));
                Ok(true)
            }
            Err(error) => refuse(digest, error),
        }
    }

    fn renew(&self, authority: &Authority) -> Result<bool, TlsError> {
        let now = (self.clock)();
        if now <= Authority::due(self.not_after()) {
            return Ok(false);
        }
        let served = build(&self.options, &authority.issue(now)?, Digest::default())?;
        self.current.store(Some(Arc::new(served)));
        Ok(true)
    }

    fn reload(&self) -> Result<bool, TlsError> {
        // Between two reads the kubelet may have put the next pair in place; the second attempt sees all of it.
        match self.load_changed().or_else(|_| self.load_changed()) {
            Ok(served) => {
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = None;
                let replaced = served.is_some();
                if let Some(served) = served {
                    self.current.store(Some(Arc::new(served)));
                }
                Ok(replaced)
            }
            Err((digest, error)) => Err(self.refuse(digest, error)),
        }
    }

    /// What the files hold now, if it is not what is served. An error comes with what tells it from others.
    fn load_changed(&self) -> Result<Option<Served>, (Digest, TlsError)> {
        let content = Content::read(&self.options.source)
            .map_err(|error| (Digest::of_text(&error.to_string()), error))?;
        let digest = content.digest();
        if self.current.load().as_ref().is_some_and(|served| served.digest == digest) {
            return Ok(None);
        }
        let served = content.pair().and_then(|pair| build(&self.options, &pair, digest));
        served.map(Some).map_err(|error| (digest, error))
    }

    /// Reports an unusable content once, however often it is polled.
    fn refuse(&self, digest: Digest, error: TlsError) -> TlsError {
        let last = self.refused.lock().unwrap_or_else(PoisonError::into_inner).replace(digest);
        if last != Some(digest) {
            tracing::error!(%error, "new certificate refused; the last good one stays");
        }
        error
    }

    /// Notes when what is served ends. While there is none that says nothing of an end.
    fn note(&self) {
        if let Some(served) = self.current.load().as_ref() {
            self.metrics.tls_certificate(served.not_after, served.renew);
        }
    }

    fn report(&self, what: &str) {
        let served = self.current.load();
        let Some(served) = served.as_ref() else {
            tracing::info!(why = self.why_none(), "no certificate is served yet");
            return;
        };
        tracing::info!(serial = %served.serial, not_after = %served.not_after, "{what}");
        if let Err(problem) = self.check() {
            tracing::warn!("{problem}");
        }
    }
}

impl std::fmt::Debug for CertificateStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertificateStore")
            .field("serial", &self.serial())
            .field("not_after", &self.not_after())
            .finish_non_exhaustive()
    }
}

fn build(options: &TlsOptions, pair: &Pair, digest: Digest) -> Result<Served, TlsError> {
    let versions: &[&rustls::SupportedProtocolVersion] =
        if options.tls13_only { &[&rustls::version::TLS13] } else { rustls::ALL_VERSIONS };
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(versions)?;
    let builder = match client_verifier(options.client_auth, &pair.client_ca)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let key = pair.key.clone_key();
    let mut config = match builder.with_single_cert(pair.chain.clone(), key) {
        Err(rustls::Error::InconsistentKeys(_)) => return Err(mismatch(&options.source)),
        result => result?,
    };
    config.alpn_protocols.push(b"http/1.1".to_vec());
    if options.http2 {
        config.alpn_protocols.push(b"h2".to_vec());
    }
    Ok(Served {
        config: Arc::new(config),
        not_before: pair.not_before,
        not_after: pair.not_after,
        renew: match &options.source {
            CertificateSource::Ephemeral { .. } => Authority::due(pair.not_after),
            CertificateSource::Files { .. } | CertificateSource::SelfManaged(_) => late(pair),
        },
        serial: pair.serial.clone(),
        digest,
        validity: None,
    })
}

/// When whoever renews files should have done so, whoever that is: cert-manager does with a third left.
fn late(pair: &Pair) -> Timestamp {
    let margin = (pair.not_after.duration_since(pair.not_before) / 6).min(LATE);
    pair.not_after.checked_sub(margin).unwrap_or(Timestamp::MIN)
}

fn mismatch(source: &CertificateSource) -> TlsError {
    match source {
        CertificateSource::Files { certificate, key, .. } => {
            TlsError::Mismatch { certificate: certificate.clone(), key: key.clone() }
        }
        CertificateSource::Ephemeral { .. } | CertificateSource::SelfManaged(_) => {
            TlsError::Generate("the key does not match".to_owned())
        }
    }
}
