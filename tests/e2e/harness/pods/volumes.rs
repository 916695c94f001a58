//! `ConfigMaps` and Secrets as folders, swapped in one step when they change, as a kubelet does it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::harness::cluster::Cluster;

type Files = BTreeMap<String, Vec<u8>>;

/// The volumes of a pod.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    all: Vec<Volume>,
    /// Where containers see a folder, and where it really is; the longest first.
    mounts: Vec<(String, PathBuf)>,
}

#[derive(Debug)]
struct Volume {
    source: Value,
    dir: PathBuf,
    /// What is in the folder now, as it was read.
    files: Files,
    version: u32,
}

impl Volumes {
    /// Those of the pod's first container, below `dir`.
    pub(super) fn of(pod: &Value, dir: &Path) -> Result<Self> {
        let mut volumes = Self::default();
        for mount in pod["spec"]["containers"][0]["volumeMounts"].as_array().into_iter().flatten() {
            let name = mount["name"].as_str().context("a mount without a name")?;
            let path = mount["mountPath"].as_str().context("a mount without a path")?;
            // The token is in the kubeconfig, since the place where it is mounted cannot be moved.
            if path == "/var/run/secrets/kubernetes.io/serviceaccount" {
                continue;
            }
            let mut all = pod["spec"]["volumes"].as_array().into_iter().flatten();
            let source = all.find(|volume| volume["name"] == name);
            let dir = dir.join(name);
            fs::create_dir_all(&dir)?;
            volumes.mounts.push((path.trim_end_matches('/').to_owned(), dir.clone()));
            let source = source.with_context(|| format!("no volume {name}"))?.clone();
            volumes.all.push(Volume { source, dir, files: Files::new(), version: 0 });
        }
        volumes.mounts.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Ok(volumes)
    }

    /// Brings the folders up to date; an error if something that must be there is not.
    pub(super) async fn refresh(&mut self, cluster: &Cluster, namespace: &str) -> Result<()> {
        let mounts = &self.mounts;
        for volume in &mut self.all {
            if let Some(files) = read(cluster, namespace, &volume.source).await? {
                volume.write(files, mounts)?;
            }
        }
        Ok(())
    }

    /// The text with the paths in the container replaced by those of this machine.
    pub(super) fn moved(&self, text: &str) -> String {
        moved(text, &self.mounts)
    }

    /// Where a folder of the container really is.
    pub(super) fn folder(&self, mounted: &str) -> Option<&Path> {
        self.mounts.iter().find(|(path, _)| path == mounted).map(|(_, dir)| dir.as_path())
    }
}

fn moved(text: &str, mounts: &[(String, PathBuf)]) -> String {
    mounts.iter().fold(text.to_owned(), |text, (path, dir)| text.replace(path, &dir.display().to_string()))
}

/// What a volume holds; nothing for one that is just a folder.
async fn read(cluster: &Cluster, namespace: &str, source: &Value) -> Result<Option<Files>> {
    let (kind, name, optional) = if let Some(name) = source["configMap"]["name"].as_str() {
        ("ConfigMap", name, &source["configMap"]["optional"])
    } else if let Some(name) = source["secret"]["secretName"].as_str() {
        ("Secret", name, &source["secret"]["optional"])
    } else if source.get("emptyDir").is_some() {
        return Ok(None);
    } else {
        bail!("a volume of a kind that is not played here: {source}");
    };
    let named = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    let Some(object) = cluster.get_opt(&named).await? else {
        return if optional == true { Ok(Some(Files::new())) } else { bail!("{kind} {name} is not there") };
    };
    let data = object["data"].as_object().into_iter().flatten();
    let files = data.map(|(key, value)| {
        let text = value.as_str().unwrap_or_default();
        let bytes = if kind == "Secret" { BASE64_STANDARD.decode(text)? } else { text.into() };
        Ok((key.clone(), bytes))
    });
    files.collect::<Result<_>>().map(Some)
}

impl Volume {
    fn write(&mut self, files: Files, mounts: &[(String, PathBuf)]) -> Result<()> {
        if self.version > 0 && self.files == files {
            return Ok(());
        }
        self.version += 1;
        let version = format!("..version_{}", self.version);
        fs::create_dir(self.dir.join(&version))?;
        for (name, bytes) in &files {
            // A configuration names files of other volumes.
            let bytes = match std::str::from_utf8(bytes) {
                Ok(text) => moved(text, mounts).into_bytes(),
                Err(_) => bytes.clone(),
            };
            fs::write(self.dir.join(&version).join(name), bytes)?;
            let link = self.dir.join(name);
            if link.symlink_metadata().is_err() {
                symlink(Path::new("..data").join(name), link)?;
            }
        }
        let link = self.dir.join("..data_tmp");
        symlink(&version, &link)?;
        fs::rename(&link, self.dir.join("..data"))?;
        self.files = files;
        Ok(())
    }
}
