//! The files that `serve` writes for others.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;
use serde_json::json;

/// The addresses that were bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    /// Of the HTTPS listener.
    pub(super) admission: SocketAddr,
    /// Of the listener for probes and metrics.
    pub(super) probes: SocketAddr,
}

impl Ports {
    /// As the ports file has them.
    pub(super) fn json(&self) -> String {
        format!(
            "{:#}\n",
            json!({ "admission": self.admission.to_string(), "probes": self.probes.to_string() })
        )
    }
}

/// Puts a file in place as a whole: a reader sees all of it or none.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let place = || format!("{} cannot be written", path.display());
    let mut file = tempfile::Builder::new().prefix(".plimsoll-").tempfile_in(folder).with_context(place)?;
    file.write_all(text.as_bytes()).with_context(place)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // Temporary files are their owner's alone; these are for others to read.
        let readable = std::fs::Permissions::from_mode(0o644);
        file.as_file().set_permissions(readable).with_context(place)?;
    }
    file.persist(path).with_context(place)?;
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
        let ports =
            Ports { admission: "127.0.0.1:8443".parse().unwrap(), probes: "[::1]:8081".parse().unwrap() };
        write(&path, &ports.json()).unwrap();
        let read: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(read, json!({"admission": "127.0.0.1:8443", "probes": "[::1]:8081"}));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");

        let error = write(&folder.path().join("missing/ca.crt"), "x").unwrap_err();
        assert!(format!("{error:#}").contains("ca.crt cannot be written"), "{error:#}");
    }
}
