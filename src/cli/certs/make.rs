//! A CA and a serving certificate signed by it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, Error, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, date_time_ymd,
};

use super::files::{NewFile, Secrecy};

/// The files and what they are for.
pub(super) const MEANINGS: [(&str, &str); 4] = [
    ("ca.crt", "the CA's certificate, for the caBundle of the webhook configurations"),
    ("ca.key", "the CA's key; keep it away from the cluster"),
    ("tls.crt", "the serving certificate"),
    ("tls.key", "its key"),
];

const DAY: Duration = Duration::from_secs(86_400);
const CA_DAYS: u32 = 3_650;
/// Clocks of a cluster differ; a certificate that is valid from this moment on would be refused by some.
const BACKDATED: Duration = Duration::from_secs(3_600);

/// The texts of the four files, PEM.
#[derive(Debug)]
pub(super) struct Made {
    ca_certificate: String,
    ca_key: String,
    certificate: String,
    key: String,
}

impl Made {
    pub(super) fn files(&self) -> [NewFile<'_>; 4] {
        let file = |name, text, secrecy| NewFile { name, text, secrecy };
        [
            file("ca.crt", &self.ca_certificate, Secrecy::Public),
            file("ca.key", &self.ca_key, Secrecy::Secret),
            file("tls.crt", &self.certificate, Secrecy::Public),
            file("tls.key", &self.key, Secrecy::Secret),
        ]
    }
}

/// Makes a new CA and a certificate for the names, ECDSA on P-256.
pub(super) fn make(names: &[String], days: u32) -> Result<Made, Error> {
    let ca_key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut ca = parameters(Vec::new(), "plimsoll CA", days.max(CA_DAYS))?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca_certificate = ca.self_signed(&ca_key)?;

    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut serving = parameters(names.to_vec(), "plimsoll", days)?;
    serving.is_ca = IsCa::ExplicitNoCa;
    serving.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    serving.use_authority_key_identifier_extension = true;
    let certificate = serving.signed_by(&key, &Issuer::from_params(&ca, &ca_key))?;

    Ok(Made {
        ca_certificate: ca_certificate.pem(),
        ca_key: ca_key.serialize_pem(),
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

fn parameters(names: Vec<String>, common_name: &str, days: u32) -> Result<CertificateParams, Error> {
    let mut parameters = CertificateParams::new(names)?;
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, common_name);
    parameters.distinguished_name = subject;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Whole seconds: a certificate knows no smaller ones.
    let now = Duration::from_secs(now.as_secs());
    let epoch = date_time_ymd(1970, 1, 1);
    parameters.not_before = epoch + now.saturating_sub(BACKDATED);
    parameters.not_after = epoch + now + DAY * days;
    Ok(parameters)
}
