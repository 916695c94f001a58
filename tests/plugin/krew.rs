//! The krew manifest, and the script that makes one of a release.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

const PLATFORMS: [&str; 4] = ["linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"];

fn render(version: &str, folder: &Path) -> (Option<i32>, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("krew/render.sh");
    let output = Command::new("sh").arg(script).arg(version).arg(folder).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// What krew demands of a manifest.
#[test]
fn a_release_is_rendered() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(render("1.2.3", folder.path()).0, Some(1), "no archives");
    for platform in PLATFORMS {
        std::fs::write(folder.path().join(format!("kubectl-plimsoll-{platform}.tar.gz")), platform).unwrap();
    }
    assert_eq!(render("1.2 3", folder.path()).0, Some(2), "no version");
    let (code, text) = render("v1.2.3", folder.path());
    assert_eq!(code, Some(0));
    assert!(!text.contains("{{"), "{text}");
    let manifest: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(manifest["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!((&manifest["kind"], &manifest["metadata"]["name"]), (&json!("Plugin"), &json!("plimsoll")));
    let spec = &manifest["spec"];
    assert_eq!(spec["version"], "v1.2.3");
    assert!(spec["shortDescription"].as_str().unwrap().len() < 50, "krew cuts it in lists");
    let platforms = spec["platforms"].as_array().unwrap();
    assert_eq!(platforms.len(), PLATFORMS.len());
    for (platform, name) in platforms.iter().zip(PLATFORMS) {
        let labels = &platform["selector"]["matchLabels"];
        let found = format!("{}-{}", labels["os"].as_str().unwrap(), labels["arch"].as_str().unwrap());
        assert_eq!(found, name);
        let uri = platform["uri"].as_str().unwrap();
        assert!(
            uri.starts_with("https://") && uri.ends_with(&format!("v1.2.3/kubectl-plimsoll-{name}.tar.gz")),
            "{uri}"
        );
        let sum = platform["sha256"].as_str().unwrap();
        assert!(sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()), "{sum}");
        assert_eq!(platform["bin"], "kubectl-plimsoll", "kubectl finds it by this name");
        let files = platform["files"].as_array().unwrap();
        assert!(files.contains(&json!({"from": "kubectl-plimsoll", "to": "."})), "{files:?}");
        assert!(files.contains(&json!({"from": "LICENSE", "to": "."})), "{files:?}");
    }
}
