//! kubectl and helm, as they are built for the end-to-end tests, else those in `PATH`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::root;

fn tool(name: &str) -> PathBuf {
    let script = root().join("tests/e2e/controlplane/build.sh");
    let output = Command::new("bash").arg(script).arg("--dir").output().unwrap();
    let built = Path::new(String::from_utf8(output.stdout).unwrap().trim()).join(name);
    if built.exists() { built } else { name.into() }
}

fn run(name: &str, args: &[&str]) -> Output {
    Command::new(tool(name)).args(args).current_dir(root()).output().unwrap_or_else(|error| {
        panic!("{name}: {error}; build it with tests/e2e/controlplane/build.sh or install it")
    })
}

fn text(output: Output, what: &str) -> String {
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What kubectl makes of a folder of this repository.
pub(crate) fn kustomize(folder: &str) -> String {
    text(run("kubectl", &["kustomize", folder]), folder)
}

/// What kubectl makes of the base and components, in this order.
pub(crate) fn with_components(components: &[&str]) -> String {
    // kustomize takes relative paths only, and none that lead out by a link.
    let parent = root().join("target");
    std::fs::create_dir_all(&parent).unwrap();
    let folder = tempfile::tempdir_in(parent.canonicalize().unwrap()).unwrap();
    let up = "../".repeat(folder.path().components().count() - 1);
    let whole = root().canonicalize().unwrap();
    let path =
        |what: &str| format!("{up}{}/webhook-config/{what}", whole.strip_prefix("/").unwrap().display());
    let components: Vec<_> = components.iter().map(|name| path(&format!("components/{name}"))).collect();
    let kustomization = serde_json::json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": [path("base")], "components": components,
    });
    std::fs::write(folder.path().join("kustomization.yaml"), kustomization.to_string()).unwrap();
    kustomize(folder.path().to_str().unwrap())
}

const RELEASE: [&str; 5] = ["template", "plimsoll", "chart", "--namespace", "plimsoll-system"];

/// What helm makes of the chart with these values, YAML or JSON; or what it says is wrong.
pub(crate) fn chart(values: &str) -> Result<Vec<Value>, String> {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), values).unwrap();
    let args = [&RELEASE[..], &["--values", file.path().to_str().unwrap()]].concat();
    let output = run("helm", &args);
    if !output.status.success() {
        return Err(String::from_utf8(output.stderr).unwrap());
    }
    Ok(objects(&String::from_utf8(output.stdout).unwrap()))
}

/// What helm tells whoever installs the chart with these values.
pub(crate) fn notes(values: &str) -> String {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), values).unwrap();
    let args = ["install", "plimsoll", "chart", "--namespace", "plimsoll-system", "--dry-run=client"];
    let output = run("helm", &[&args[..], &["--values", file.path().to_str().unwrap()]].concat());
    let text = text(output, values);
    text.split_once("\nNOTES:\n").unwrap().1.to_owned()
}

/// The objects of a text.
pub(crate) fn objects(text: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    all.into_iter().filter(Value::is_object).collect()
}
