//! Whether webhooks trust the certificate that is served, as far as a person with some rights can tell.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::{CertificateError, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::Value;

use super::replicas::On;
use crate::cli::access::{Kind, Read, get};
use crate::config::Config;
use crate::status::Part;

const SECRETS: Kind = Kind::new("", "v1", "Secret", "secrets");
/// The volume of the Deployment that has the certificate, where it comes from files.
const VOLUME: &str = "tls";

/// What a `caBundle` is compared with.
#[derive(Clone, Debug)]
pub(super) enum Trust {
    /// The authority that replicas sign their certificates with, of the Secret that is named.
    Authority(String, Vec<CertificateDer<'static>>),
    /// The chain that is served, of the Secret that is named.
    Chain(String, Vec<CertificateDer<'static>>),
    /// It cannot be compared, and why.
    Unknown(String),
}

impl Trust {
    /// Of the Secret that is in use: which one that is, the replicas and the Deployment say.
    pub(super) async fn read(
        client: &Client,
        config: &Config,
        deployment: &Read<Value>,
        on: Option<&On>,
    ) -> Self {
        let own = config.admission.own_namespace.as_str();
        let Some(on) = on else {
            return Self::Unknown(
                "whether caBundle is right is not known: no replica says whether it makes its certificates itself".to_owned(),
            );
        };
        let is_self_managed = on.is(Part::CertificateAuthority);
        let name = if is_self_managed {
            config.tls.self_managed.secret.as_str()
        } else if let Some(name) = mounted(deployment) {
            name
        } else {
            return Self::Unknown(format!(
                "whether caBundle is right is not known: the Deployment plimsoll has no volume {VOLUME} of a Secret; \
                 `plimsoll certs inspect` tells"
            ));
        };
        let key = if is_self_managed { "ca.crt" } else { "tls.crt" };
        match get(client, SECRETS, Some(own), name).await {
            Read::Found(secret) => match certificates(&secret, key) {
                found if found.is_empty() => Self::Unknown(format!(
                    "whether caBundle is right is not known: the Secret {own}/{name} has no certificate in {key} yet"
                )),
                found if is_self_managed => Self::Authority(name.to_owned(), found),
                found => Self::Chain(name.to_owned(), found),
            },
            Read::Absent => Self::Unknown(format!(
                "whether caBundle is right is not known: there is no Secret {own}/{name}"
            )),
            Read::Unknown(why) => Self::Unknown(format!("whether caBundle is right is not known: {why}")),
        }
    }

    /// Why who has this `caBundle` does not take the certificate; `Err` where that is not known.
    pub(super) fn judge(&self, bundle: &str) -> Result<Option<String>, String> {
        let bundle: Vec<_> =
            CertificateDer::pem_slice_iter(bundle.as_bytes()).filter_map(Result::ok).collect();
        let has_one_of = |wanted: &[CertificateDer<'_>]| wanted.iter().any(|one| bundle.contains(one));
        let (is_trusted, what) = match self {
            Self::Unknown(why) => return Err(why.clone()),
            Self::Authority(name, wanted) => (has_one_of(wanted), format!("ca.crt of the Secret {name}")),
            Self::Chain(name, chain) => (
                has_one_of(chain) || !is_of_unknown_issuer(chain, &bundle),
                format!("the authority of tls.crt of the Secret {name}"),
            ),
        };
        Ok((!is_trusted)
            .then(|| format!("caBundle does not have {what}, so that calls fail; see docs/certificates.md")))
    }
}

/// The Secret of the volume with the certificate.
fn mounted(deployment: &Read<Value>) -> Option<&str> {
    let Read::Found(deployment) = deployment else { return None };
    let volumes = deployment.pointer("/spec/template/spec/volumes")?.as_array()?;
    let volume = volumes.iter().find(|volume| volume.get("name").and_then(Value::as_str) == Some(VOLUME))?;
    volume.pointer("/secret/secretName")?.as_str()
}

fn certificates(secret: &Value, key: &str) -> Vec<CertificateDer<'static>> {
    let text = secret.get("data").and_then(|data| data.get(key)).and_then(Value::as_str).unwrap_or_default();
    let pem = STANDARD.decode(text).unwrap_or_default();
    CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok).collect()
}

/// Whether no certificate of the bundle stands behind the chain. Whatever else is wrong with it is told elsewhere.
fn is_of_unknown_issuer(chain: &[CertificateDer<'_>], bundle: &[CertificateDer<'_>]) -> bool {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(bundle.iter().cloned().map(CertificateDer::into_owned));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (Some((leaf, between)), Ok(verifier), Ok(name)) = (
        chain.split_first(),
        WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider).build(),
        ServerName::try_from("plimsoll"),
    ) else {
        return true;
    };
    let judged = verifier.verify_server_cert(leaf, between, &name, &[], UnixTime::now());
    matches!(
        judged,
        Err(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature
        ))
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::certificates::Authority;

    #[test]
    fn whom_a_bundle_trusts() {
        let now = Timestamp::now();
        let day = Duration::from_secs(86_400);
        let make = |name| Authority::make(name, day, now).unwrap();
        let (ours, other) = (make("ours"), make("other"));
        let names = ["plimsoll".to_owned()];
        let leaf = ours.issue(&names, now, now + day).unwrap().certificate;
        let der = |authority: &Authority| CertificateDer::from(authority.root().der().to_vec());
        let pem = |authority: &Authority| authority.root().pem();
        let authority = || Trust::Authority("plimsoll-ca".to_owned(), vec![der(&ours)]);
        let chain = || Trust::Chain("plimsoll-tls".to_owned(), vec![leaf.clone()]);
        let itself = json!({"data": {"tls.crt": STANDARD.encode(pem(&ours))}});
        let itself = Trust::Chain("plimsoll-tls".to_owned(), certificates(&itself, "tls.crt"));
        for (rule, trust, bundle, expected) in [
            ("the authority", authority(), pem(&ours), Ok(None)),
            ("among others", authority(), pem(&other) + &pem(&ours), Ok(None)),
            ("another one", authority(), pem(&other), Ok(Some("ca.crt of the Secret plimsoll-ca"))),
            ("who signed the chain", chain(), pem(&other) + &pem(&ours), Ok(None)),
            ("who did not", chain(), pem(&other), Ok(Some("tls.crt of the Secret plimsoll-tls"))),
            ("the certificate itself", itself, pem(&ours), Ok(None)),
            ("not known", Trust::Unknown("no right".to_owned()), pem(&ours), Err("no right")),
        ] {
            let judged = trust.judge(&bundle);
            let said = match (&judged, expected) {
                (Ok(None), Ok(None)) => true,
                (Ok(Some(said)), Ok(Some(expected))) => said.contains(expected),
                (Err(said), Err(expected)) => said.contains(expected),
                _ => false,
            };
            assert!(said, "{rule}: {judged:?}");
        }
    }

    #[test]
    fn the_secret_of_the_deployment() {
        let deployment = |volume: Value| {
            Read::Found(json!({"spec": {"template": {"spec": {"volumes": [{"name": "config"}, volume]}}}}))
        };
        for (rule, deployment, expected) in [
            (
                "its own name",
                deployment(json!({"name": "tls", "secret": {"secretName": "mine"}})),
                Some("mine"),
            ),
            ("no Secret", deployment(json!({"name": "tls", "csi": {}})), None),
            ("no volume", deployment(json!({"name": "other"})), None),
            ("no Deployment", Read::Absent, None),
        ] {
            assert_eq!(mounted(&deployment), expected, "{rule}");
        }
    }
}
