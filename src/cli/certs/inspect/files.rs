//! What certificate files hold.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::{PemObject, SectionKind};
use serde::Serialize;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::served::Served;
use crate::certificates::authority::Root;
use crate::cli::{CliError, Context, table};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    certificates: Vec<Certificate>,
    keys: Vec<Key>,
    /// What a server serves, when one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) served: Option<Served>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Certificate {
    file: String,
    subject: String,
    issuer: String,
    names: Vec<String>,
    serial: String,
    ca: bool,
    not_before: String,
    not_after: String,
    state: State,
    /// The file of the key that belongs to it, when one was given.
    key: Option<String>,
    /// Whether one of the authorities signed it, when some were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    trusted: Option<bool>,
    #[serde(skip)]
    der: Vec<u8>,
    #[serde(skip)]
    public_key: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum State {
    Valid,
    Expired,
    NotYetValid,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Key {
    file: String,
    /// Whether one of the certificates is for this key.
    matches: bool,
    #[serde(skip)]
    public: Vec<u8>,
}

/// Reads files; `authorities` are PEM files that the certificates are to lead to.
pub(super) fn report(files: &[PathBuf], authorities: &[PathBuf]) -> Result<Report, CliError> {
    let mut report = Report { certificates: Vec::new(), keys: Vec::new(), served: None };
    for file in files {
        read(file, &mut report)?;
    }
    if !authorities.is_empty() {
        trust(&mut report.certificates, &roots(authorities)?);
        // Those that are to be led to are looked at as well.
        for file in authorities {
            read(file, &mut report)?;
        }
    }
    for certificate in &mut report.certificates {
        let key = report.keys.iter_mut().find(|key| key.public == certificate.public_key);
        certificate.key = key.map(|key| {
            key.matches = true;
            key.file.clone()
        });
    }
    Ok(report)
}

/// The certificates of authorities in PEM files.
pub(super) fn roots(files: &[PathBuf]) -> Result<Vec<Root>, CliError> {
    let mut roots = Vec::new();
    for file in files {
        let refuse = |what: String| CliError::Usage(format!("{}: {what}", file.display()));
        let bytes = std::fs::read(file).map_err(|error| refuse(format!("cannot be read: {error}")))?;
        let found = Root::all_of_pem(&bytes).map_err(|error| refuse(error.to_string()))?;
        if found.is_empty() {
            return Err(refuse("holds no certificate in PEM".to_owned()));
        }
        roots.extend(found);
    }
    Ok(roots)
}

/// Notes which certificates lead to an authority, be it over others of them.
fn trust(certificates: &mut [Certificate], roots: &[Root]) {
    let mut trusted: Vec<Vec<u8>> = roots.iter().map(|root| root.der().to_vec()).collect();
    loop {
        let mut more = Vec::new();
        for certificate in certificates.iter_mut().filter(|one| one.trusted != Some(true)) {
            let leads = trusted.iter().any(|by| *by == certificate.der || is_signed_by(&certificate.der, by));
            certificate.trusted = Some(leads);
            if leads {
                more.push(certificate.der.clone());
            }
        }
        if more.is_empty() {
            return;
        }
        trusted = more;
    }
}

/// Whether the key of one certificate signed another.
fn is_signed_by(certificate: &[u8], authority: &[u8]) -> bool {
    let (Ok((_, certificate)), Ok((_, authority))) =
        (X509Certificate::from_der(certificate), X509Certificate::from_der(authority))
    else {
        return false;
    };
    certificate.issuer() == authority.subject()
        && authority.is_ca()
        && certificate.verify_signature(Some(authority.public_key())).is_ok()
}

impl Report {
    /// Whether there is nothing to do.
    pub(super) fn is_well(&self) -> bool {
        self.certificates
            .iter()
            .all(|certificate| certificate.state == State::Valid && certificate.trusted != Some(false))
            && self.keys.iter().all(|key| key.matches)
            && self.served.as_ref().is_none_or(|served| served.problem.is_none())
    }
}

pub(super) fn write_table(report: &Report, ctx: &mut Context<'_>) -> Result<(), CliError> {
    if !report.certificates.is_empty() {
        let mut rows = table(["FILE", "SUBJECT", "NAMES", "SERIAL", "NOT AFTER", "STATE", "KEY"]);
        for certificate in &report.certificates {
            rows.add_row([
                certificate.file.clone(),
                certificate.subject.clone(),
                certificate.names.join(", "),
                certificate.serial.clone(),
                certificate.not_after.clone(),
                format!("{:?}", certificate.state),
                certificate.key.clone().unwrap_or_else(|| "-".to_owned()),
            ]);
        }
        ctx.write_table(&mut rows)?;
    }
    for certificate in report.certificates.iter().filter(|one| one.trusted == Some(false)) {
        ctx.line(&format!(
            "{}: {} does not lead to any of the authorities",
            certificate.file, certificate.subject
        ))?;
    }
    for key in report.keys.iter().filter(|key| !key.matches) {
        ctx.line(&format!("{}: this key belongs to none of the certificates", key.file))?;
    }
    if let Some(served) = &report.served {
        served.write_table(ctx)?;
    }
    Ok(())
}

fn read(path: &Path, report: &mut Report) -> Result<(), CliError> {
    let file = path.display().to_string();
    let refuse = |what: String| CliError::Usage(format!("{file}: {what}"));
    let bytes = std::fs::read(path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
    let mut found = false;
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(&bytes) {
        let (kind, der) = section.map_err(|error| refuse(format!("is not PEM: {error}")))?;
        if kind == SectionKind::Certificate {
            report.certificates.push(certificate(&file, &der).map_err(refuse)?);
            found = true;
        } else if let Some(key) = PrivateKeyDer::from_pem(kind, der) {
            report.keys.push(Key {
                file: file.clone(),
                matches: false,
                public: public_key(&key).map_err(refuse)?,
            });
            found = true;
        }
    }
    if found {
        Ok(())
    } else {
        Err(refuse("holds neither a certificate nor a private key in PEM".to_owned()))
    }
}

/// The public half as it stands in a certificate (`SubjectPublicKeyInfo`).
fn public_key(key: &PrivateKeyDer<'_>) -> Result<Vec<u8>, String> {
    let key = rustls::crypto::ring::sign::any_supported_type(key)
        .map_err(|error| format!("holds a private key that cannot be used: {error}"))?;
    let public = key.public_key().ok_or("holds a private key without a public half")?;
    Ok(public.as_ref().to_vec())
}

fn certificate(file: &str, der: &[u8]) -> Result<Certificate, String> {
    let (_, parsed) = X509Certificate::from_der(der)
        .map_err(|error| format!("holds a certificate that cannot be read: {error}"))?;
    let names = parsed.subject_alternative_name().ok().flatten();
    let names =
        names.map_or_else(Vec::new, |extension| extension.value.general_names.iter().map(name).collect());
    let (from, until) = (parsed.validity().not_before.timestamp(), parsed.validity().not_after.timestamp());
    let now = Timestamp::now().as_second();
    Ok(Certificate {
        file: file.to_owned(),
        subject: parsed.subject().to_string(),
        issuer: parsed.issuer().to_string(),
        names,
        serial: parsed.raw_serial_as_string(),
        ca: parsed.is_ca(),
        not_before: time(from),
        not_after: time(until),
        state: if until < now {
            State::Expired
        } else if from > now {
            State::NotYetValid
        } else {
            State::Valid
        },
        key: None,
        trusted: None,
        der: der.to_vec(),
        public_key: parsed.public_key().raw.to_vec(),
    })
}

fn time(seconds: i64) -> String {
    // Beyond the year 9999, where RFC 5280 ends as well.
    Timestamp::from_second(seconds)
        .map_or_else(|_| format!("{seconds} s after 1970"), |time| time.to_string())
}

fn name(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(name) | GeneralName::RFC822Name(name) | GeneralName::URI(name) => {
            (*name).to_owned()
        }
        GeneralName::IPAddress(bytes) => address(bytes).unwrap_or_else(|| format!("{bytes:02x?}")),
        other => other.to_string(),
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    let four = <[u8; 4]>::try_from(bytes).map(std::net::IpAddr::from);
    let sixteen = || <[u8; 16]>::try_from(bytes).map(std::net::IpAddr::from);
    four.or_else(|_| sixteen()).ok().map(|address| address.to_string())
}
