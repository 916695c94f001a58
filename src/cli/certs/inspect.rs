//! `plimsoll certs inspect`: what certificate files hold.

use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::{PemObject, SectionKind};
use serde::Serialize;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::cli::{CliError, Context, Exit, examples, table};

/// Show what certificates say, and whether keys belong to them
///
/// Exit code 0: all is well; 1: a certificate is not valid now, or a key belongs to none of the certificates;
/// 2: a file holds neither.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "a pair" => "plimsoll certs inspect tls.crt tls.key",
    "when does it end" => "plimsoll certs inspect tls.crt -o json | jq -r '.certificates[0].notAfter'",
))]
pub(super) struct Args {
    /// PEM files with certificates, private keys, or both
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Form of the answer
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "table")]
    output: Form,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Form {
    Table,
    Json,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    certificates: Vec<Certificate>,
    keys: Vec<Key>,
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

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let mut report = Report { certificates: Vec::new(), keys: Vec::new() };
    for file in &args.files {
        read(file, &mut report)?;
    }
    for certificate in &mut report.certificates {
        let key = report.keys.iter_mut().find(|key| key.public == certificate.public_key);
        certificate.key = key.map(|key| {
            key.matches = true;
            key.file.clone()
        });
    }
    match args.output {
        Form::Json => {
            let text = serde_json::to_string_pretty(&report).map_err(anyhow::Error::new)?;
            writeln!(ctx.out, "{text}")?;
        }
        Form::Table => write_table(&report, ctx.out)?,
    }
    let well = report.certificates.iter().all(|certificate| certificate.state == State::Valid)
        && report.keys.iter().all(|key| key.matches);
    Ok(if well { Exit::Done } else { Exit::Refused })
}

fn write_table(report: &Report, out: &mut dyn Write) -> Result<(), CliError> {
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
        writeln!(out, "{}", rows.trim_fmt())?;
    }
    for key in report.keys.iter().filter(|key| !key.matches) {
        writeln!(out, "{}: this key belongs to none of the certificates", key.file)?;
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
