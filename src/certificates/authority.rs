//! An authority and the certificates it signs, in memory: nothing here is read or written.

use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData as _,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest as _, Sha256};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

/// Clients whose clocks are this far behind still accept a certificate.
pub const SKEW: Duration = Duration::from_secs(60 * 60);
/// An authority is valid from so long before it is made: by a clock that is days ahead it is still one that clients
/// accept once the clock is mended.
const BACKDATED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Why there is no authority, or no certificate from it. Says nothing of keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// A certificate without a name is valid for nobody.
    #[error("no name to be valid for; give at least one DNS name or IP")]
    NoName,
    /// X.509 cannot say this time.
    #[error("the clock says {0}; set it right")]
    Clock(Timestamp),
    /// The certificate cannot be read.
    #[error("holds no certificate that can be read: {0}")]
    Certificate(String),
    /// The certificate may not sign others.
    #[error("holds a certificate that is no CA")]
    NotCa,
    /// The key cannot be read.
    #[error("holds no private key that can be used; expected PKCS#8 in PEM")]
    Key,
    /// The key is another certificate's.
    #[error("the key does not belong to the certificate")]
    Mismatch,
    /// The library failed.
    #[error("{0}")]
    Failed(String),
}

// Not derived: the text holds all of the error, so that it must not be named as the cause once more.
impl From<rcgen::Error> for AuthorityError {
    fn from(error: rcgen::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// The certificate of an authority, without its key: what clients trust.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Root {
    der: Vec<u8>,
    not_before: i64,
    not_after: i64,
}

impl Root {
    /// Reads DER. Any certificate will do: what other tools put into a `caBundle` is not always a CA's.
    ///
    /// # Errors
    /// It is no X.509.
    pub fn from_der(der: &[u8]) -> Result<Self, AuthorityError> {
        let (rest, parsed) =
            X509Certificate::from_der(der).map_err(|error| AuthorityError::Certificate(error.to_string()))?;
        if !rest.is_empty() {
            return Err(AuthorityError::Certificate("there are bytes after its end".to_owned()));
        }
        let validity = parsed.validity();
        Ok(Self {
            der: der.to_vec(),
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
        })
    }

    /// All certificates of a PEM text, in order.
    ///
    /// # Errors
    /// It is no PEM, or something in it is no certificate.
    pub fn all_of_pem(text: &[u8]) -> Result<Vec<Self>, AuthorityError> {
        CertificateDer::pem_slice_iter(text)
            .map(|der| {
                let der = der.map_err(|error| AuthorityError::Certificate(error.to_string()))?;
                Self::from_der(&der)
            })
            .collect()
    }

    /// As DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// As PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
        let mut text = BASE64_STANDARD.encode(&self.der);
        while text.len() > 64 {
            let rest = text.split_off(64);
            pem.push_str(&text);
            pem.push('\n');
            text = rest;
        }
        pem.push_str(&text);
        pem.push_str("\n-----END CERTIFICATE-----\n");
        pem
    }

    /// The end of its validity.
    #[must_use]
    pub fn not_after(&self) -> Timestamp {
        // X.509 ends in the year 9999, as timestamps do.
        Timestamp::from_second(self.not_after).unwrap_or(Timestamp::MAX)
    }

    /// The end of its validity, and `margin` before.
    #[must_use]
    pub fn ends_and_renew(&self, margin: Duration) -> (Timestamp, Timestamp) {
        let ends = self.not_after();
        (ends, ends.checked_sub(margin).unwrap_or(Timestamp::MIN))
    }

    /// The beginning of its validity.
    #[must_use]
    pub fn not_before(&self) -> Timestamp {
        Timestamp::from_second(self.not_before).unwrap_or(Timestamp::MIN)
    }

    /// Whether it is past its end.
    #[must_use]
    pub fn has_ended(&self, now: Timestamp) -> bool {
        now > self.not_after()
    }

    /// Whether it is not yet at its beginning: it was made by a clock that was ahead, or this one is behind.
    #[must_use]
    pub fn begins_later(&self, now: Timestamp) -> bool {
        now < self.not_before()
    }

    /// Whether clients accept it.
    #[must_use]
    pub fn is_valid(&self, now: Timestamp) -> bool {
        !self.has_ended(now) && !self.begins_later(now)
    }

    /// The SHA-256 of its DER, in hexadecimal: tells it from all others.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        hexadecimal(&Sha256::digest(&self.der))
    }

    /// The subject, for people.
    #[must_use]
    pub fn subject(&self) -> String {
        X509Certificate::from_der(&self.der)
            .map_or_else(|_| String::new(), |(_, certificate)| certificate.subject().to_string())
    }
}

// The bytes would tell a person nothing.
impl std::fmt::Debug for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fingerprint = self.fingerprint();
        let short = fingerprint.get(..12).unwrap_or_default();
        write!(f, "Root({short}, ends {})", self.not_after())
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A certificate with its key.
pub struct Signed {
    /// The certificate; whoever trusts the authority needs no more of a chain.
    pub certificate: CertificateDer<'static>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
}

/// An authority that can sign.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: Root,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Authority").field(&self.root).finish()
    }
}

impl PartialEq for Authority {
    fn eq(&self, other: &Self) -> bool {
        // There is one key to a certificate.
        self.root == other.root
    }
}

impl Eq for Authority {}

impl Authority {
    /// Makes one: a new ECDSA key on P-256, and a certificate for it, valid from a week before `now` until `lifetime`
    /// after it. Its name ends in a part of the key's hash, so that two of them are never taken for each other.
    ///
    /// # Errors
    /// The clock is beyond what X.509 can say.
    pub fn make(name: &str, lifetime: Duration, now: Timestamp) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let hash = hexadecimal(&Sha256::digest(key.subject_public_key_info()));
        let mut params = CertificateParams::default();
        params.distinguished_name = named(&format!("{name} {}", hash.get(..8).unwrap_or_default()));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_validity(&mut params, now, BACKDATED, later(now, lifetime)?)?;
        let certificate = params.self_signed(&key)?;
        let root = Root::from_der(certificate.der())?;
        Ok(Self { issuer: Issuer::new(params, key), root })
    }

    /// One that was kept as PEM.
    ///
    /// # Errors
    /// Either text is not what it should be, or they do not belong together.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, AuthorityError> {
        let der = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|error| AuthorityError::Certificate(error.to_string()))?;
        let root = Root::from_der(&der)?;
        let (_, parsed) = X509Certificate::from_der(&der)
            .map_err(|error| AuthorityError::Certificate(error.to_string()))?;
        if !parsed.is_ca() {
            return Err(AuthorityError::NotCa);
        }
        let key = KeyPair::from_pem(key).map_err(|_| AuthorityError::Key)?;
        if key.subject_public_key_info() != parsed.public_key().raw {
            return Err(AuthorityError::Mismatch);
        }
        Ok(Self { issuer: Issuer::from_ca_cert_der(&der, key)?, root })
    }

    /// What clients trust.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The private key as PEM. It belongs into the Secret and nowhere else.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Signs a certificate for a new key, valid from an hour before `now` until `until`, or as long as the authority
    /// itself.
    ///
    /// # Errors
    /// There is no name, or one that no certificate can be for, or the clock is beyond what X.509 can say.
    pub fn issue(
        &self,
        names: &[String],
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Signed, AuthorityError> {
        if names.is_empty() {
            return Err(AuthorityError::NoName);
        }
        let mut params = CertificateParams::new(names.to_vec())
            .map_err(|error| AuthorityError::Failed(format!("names {names:?}: {error}")))?;
        params.distinguished_name = named("plimsoll");
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, now, SKEW, until.min(self.root.not_after()))?;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(Signed { certificate: certificate.der().clone(), key })
    }
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// `now` and a duration.
///
/// # Errors
/// There is no such time.
pub fn later(now: Timestamp, duration: Duration) -> Result<Timestamp, AuthorityError> {
    now.checked_add(duration).map_err(|_| AuthorityError::Clock(now))
}

fn set_validity(
    params: &mut CertificateParams,
    now: Timestamp,
    backdated: Duration,
    until: Timestamp,
) -> Result<(), AuthorityError> {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let at = |second: i64| {
        let offset = u64::try_from(second).ok().map(Duration::from_secs);
        // 9999 is the last year that X.509 can say.
        offset
            .filter(|_| second < 253_402_300_800)
            .map(|offset| epoch + offset)
            .ok_or(AuthorityError::Clock(now))
    };
    let backdated = i64::try_from(backdated.as_secs()).unwrap_or(i64::MAX);
    params.not_before = at(now.as_second().saturating_sub(backdated))?;
    params.not_after = at(until.as_second())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn now() -> Timestamp {
        "2026-03-01T10:00:00Z".parse().unwrap()
    }

    #[test]
    fn an_authority_survives_being_kept() {
        let made = Authority::make("plimsoll CA", 24 * HOUR, now()).unwrap();
        assert_eq!(made.root().not_after(), later(now(), 24 * HOUR).unwrap());
        assert_eq!(made.root().not_before(), now() - BACKDATED);
        let kept = Authority::from_pem(&made.root().pem(), &made.key_pem()).unwrap();
        assert_eq!(kept, made);
        assert!(made.root().subject().starts_with("CN=plimsoll CA "), "{}", made.root().subject());
        let other = Authority::make("plimsoll CA", HOUR, now()).unwrap();
        assert_ne!(other.root().subject(), made.root().subject());
        assert!(!format!("{made:?}").contains("PRIVATE"));

        let names = ["plimsoll.a.svc".to_owned()];
        let signed = kept.issue(&names, now(), later(now(), HOUR).unwrap()).unwrap();
        let (_, leaf) = X509Certificate::from_der(&signed.certificate).unwrap();
        let (_, root) = X509Certificate::from_der(made.root().der()).unwrap();
        assert_eq!(leaf.issuer(), root.subject());
        assert_eq!(leaf.validity().not_before.timestamp(), (now() - SKEW).as_second());
        assert!(!leaf.is_ca());
        let beyond = kept.issue(&names, now(), later(now(), 48 * HOUR).unwrap()).unwrap();
        let beyond = Root::from_der(&beyond.certificate).unwrap();
        assert_eq!(beyond.not_after(), made.root().not_after(), "no longer than the authority");
    }

    #[test]
    fn what_is_no_authority_is_refused() {
        let made = Authority::make("a", HOUR, now()).unwrap();
        let other = Authority::make("a", HOUR, now()).unwrap();
        let leaf = made.issue(&["a".to_owned()], now(), now() + HOUR).unwrap();
        let leaf = Root::from_der(&leaf.certificate).unwrap().pem();
        let (certificate, key) = (made.root().pem(), made.key_pem());
        for (rule, certificate, key, expected) in [
            ("another's key", certificate.as_str(), other.key_pem(), AuthorityError::Mismatch),
            ("no CA", &leaf, key.clone(), AuthorityError::NotCa),
            ("no key", &certificate, "key".to_owned(), AuthorityError::Key),
            ("a certificate as key", &certificate, certificate.clone(), AuthorityError::Key),
        ] {
            assert_eq!(Authority::from_pem(certificate, &key).unwrap_err(), expected, "{rule}");
        }
        for (rule, text) in [
            ("nothing", ""),
            ("words", "hello"),
            ("no X.509", "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n"),
        ] {
            let error = Authority::from_pem(text, &key).unwrap_err();
            assert!(matches!(error, AuthorityError::Certificate(_)), "{rule}: {error}");
        }
        assert_eq!(made.issue(&[], now(), now()).err(), Some(AuthorityError::NoName));
        assert!(matches!(Authority::make("a", HOUR, Timestamp::MAX), Err(AuthorityError::Clock(_))));
        assert!(matches!(Authority::make("a", HOUR, Timestamp::MIN), Err(AuthorityError::Clock(_))));
    }

    #[test]
    fn pem_is_read_back() {
        let all: Vec<_> = (0..3).map(|_| Authority::make("a", HOUR, now()).unwrap().root().clone()).collect();
        let text: String = all.iter().map(Root::pem).collect();
        assert_eq!(Root::all_of_pem(text.as_bytes()).unwrap(), all);
        assert_eq!(Root::all_of_pem(b"").unwrap(), []);
        assert!(Root::all_of_pem(b"-----BEGIN CERTIFICATE-----\n").is_err());
    }
}
