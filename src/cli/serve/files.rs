//! The files that `serve` writes for others.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;
use serde_json::json;
use tempfile::NamedTempFile;

/// The addresses that were bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    /// Of the HTTPS listener.
    pub(super) admission: SocketAddr,
    /// Of the listener for probes and metrics.
    pub(super) probes: SocketAddr,
    /// Of the listener for the API, if there is one.
    pub(super) api: Option<SocketAddr>,
    /// Of the aggregated API server, if there is one.
    pub(super) hpa_api: Option<SocketAddr>,
    /// Of the scheduler extender, if there is one.
    pub(super) extender: Option<SocketAddr>,
}

impl Ports {
    /// As the ports file has them.
    pub(super) fn json(&self) -> String {
        let mut ports = json!({ "admission": self.admission.to_string(), "probes": self.probes.to_string() });
        for (name, address) in [("api", self.api), ("hpaApi", self.hpa_api), ("extender", self.extender)] {
            if let (Some(ports), Some(address)) = (ports.as_object_mut(), address) {
                ports.insert(name.to_owned(), json!(address.to_string()));
            }
        }
        format!("{ports:#}\n")
    }
}

/// Finds out whether [`write`] is likely to succeed, so that nobody waits for a file that will never come.
pub(super) fn check(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        anyhow::bail!("{} cannot be written: is a directory", path.display());
    }
    temporary(path).map(drop)
}

/// A new file beside `path`; gone when it is dropped.
fn temporary(path: &Path) -> anyhow::Result<NamedTempFile> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::Builder::new()
        .prefix(".plimsoll-")
        .tempfile_in(folder)
        .with_context(|| format!("{} cannot be written", path.display()))
}

/// Puts a file in place as a whole: a reader sees all of it or none.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let place = || format!("{} cannot be written", path.display());
    let mut file = temporary(path)?;
    file.write_all(text.as_bytes()).with_context(place)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // Temporary files are their owner's alone; these are for others to read.
        let readable = std::fs::Permissions::from_mode(0o644);
        file.as_file().set_permissions(readable).with_context(place)?;
    }
    file.persist(path).map_err(|error| error.error).with_context(place)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ports.json");
        write(&path, "old").unwrap();
        let mut ports = Ports {
            admission: "127.0.0.1:8443".parse().unwrap(),
            probes: "[::1]:8081".parse().unwrap(),
            api: None,
            hpa_api: None,
            extender: None,
        };
        write(&path, &ports.json()).unwrap();
        let read: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(read, json!({"admission": "127.0.0.1:8443", "probes": "[::1]:8081"}));
        ports.api = Some("127.0.0.1:8082".parse().unwrap());
        ports.hpa_api = Some("127.0.0.1:8445".parse().unwrap());
        ports.extender = Some("127.0.0.1:8444".parse().unwrap());
        for port in [
            "\"api\": \"127.0.0.1:8082\"",
            "\"hpaApi\": \"127.0.0.1:8445\"",
            "\"extender\": \"127.0.0.1:8444\"",
        ] {
            assert!(ports.json().contains(port), "{}", ports.json());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");

        std::fs::create_dir(folder.path().join("folder")).unwrap();
        for (rule, place, reason) in [
            ("no folder", "missing/ca.crt", "ca.crt cannot be written: No such file"),
            ("a directory", "folder", "cannot be written: is a directory"),
        ] {
            let place = folder.path().join(place);
            for error in [check(&place), write(&place, "x")] {
                let text = format!("{:#}", error.unwrap_err());
                assert!(text.to_lowercase().contains(&reason.to_lowercase()), "{rule}: {text}");
            }
        }
        check(&path).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "the check leaves nothing");
    }
}
