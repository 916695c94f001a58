//! Keys and certificates for the control plane and for webhooks.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SerialNumber,
};
use rustls_pki_types::CertificateDer;

/// A certificate authority that lives in memory.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// What a server or client needs: chain and key, both PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn der(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// A certificate for both ends. `user` and `group` are what the API server reads from a client's subject.
    pub(crate) fn issue(&self, user: &str, group: Option<&str>, names: &[&str]) -> Result<Identity> {
        self.issue_numbered(user, group, names, None)
    }

    /// A serving certificate with the given serial number.
    pub(crate) fn issue_serving(&self, names: &[&str], serial: u64) -> Result<Identity> {
        self.issue_numbered(names.first().context("no name")?, None, names, Some(serial))
    }

    fn issue_numbered(
        &self,
        user: &str,
        group: Option<&str>,
        names: &[&str],
        serial: Option<u64>,
    ) -> Result<Identity> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.serial_number = serial.map(SerialNumber::from);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }
}

impl Identity {
    /// Reads a pair from files.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Self> {
        Ok(Self { certificate: fs::read_to_string(certificate)?, key: fs::read_to_string(key)? })
    }

    /// Writes `NAME.crt` and `NAME.key`.
    pub(crate) fn write(&self, dir: &Path, name: &str) -> Result<(PathBuf, PathBuf)> {
        let (certificate, key) = (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")));
        fs::write(&certificate, &self.certificate)?;
        fs::write(&key, &self.key)?;
        Ok((certificate, key))
    }
}

/// A folder as a kubelet mounts a Secret: `tls.crt` and `tls.key` point through the link `..data` into a folder
/// of the current version, and an update only swaps that link.
#[derive(Debug, Clone)]
pub(crate) struct MountedSecret {
    dir: PathBuf,
}

impl MountedSecret {
    pub(crate) fn create(dir: PathBuf, identity: &Identity) -> Result<Self> {
        fs::create_dir_all(&dir)?;
        let secret = Self { dir };
        secret.update(identity)?;
        for file in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(file), secret.dir.join(file))?;
        }
        Ok(secret)
    }

    /// Replaces the content in one step.
    pub(crate) fn update(&self, identity: &Identity) -> Result<()> {
        let version = (1..=u32::MAX)
            .map(|n| format!("..version_{n}"))
            .find(|name| !self.dir.join(name).exists())
            .context("no free folder name")?;
        fs::create_dir(self.dir.join(&version))?;
        identity.write(&self.dir.join(&version), "tls")?;
        let link = self.dir.join("..data_tmp");
        symlink(&version, &link)?;
        fs::rename(&link, self.dir.join("..data"))?;
        Ok(())
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.dir.join("tls.crt")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.dir.join("tls.key")
    }
}
