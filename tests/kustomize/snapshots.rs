//! What kubectl renders, as it was looked at.

use std::fs;

use crate::rendered::kustomize;
use crate::support::root;

fn compare(folder: &str, name: &str) {
    let rendered = kustomize(folder);
    // The CRDs are a generated file that stands beside the base already.
    let kept = |document: &&str| !document.contains("\nkind: CustomResourceDefinition\n");
    let got = rendered.split("---\n").filter(kept).collect::<Vec<_>>().join("---\n");
    let file = root().join("tests/fixtures/kustomize").join(format!("{name}.yaml"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&file, &got).unwrap();
    }
    let want = fs::read_to_string(&file).unwrap_or_default();
    let line = got.lines().zip(want.lines()).position(|(got, want)| got != want);
    let line = line.unwrap_or_else(|| got.lines().count().min(want.lines().count()));
    assert!(
        got == want,
        "{folder} differs from {} in line {}:\n  rendered: {:?}\n  snapshot: {:?}\nif that is meant, run again \
         with UPDATE_SNAPSHOTS=1 and commit the file",
        file.display(),
        line + 1,
        got.lines().nth(line),
        want.lines().nth(line),
    );
}

#[test]
fn rendered_as_before() {
    for (folder, name) in [
        ("webhook-config/base", "base"),
        ("webhook-config/overlays/cert-manager", "cert-manager"),
        ("webhook-config/overlays/fail-closed", "fail-closed"),
        ("webhook-config/overlays/ha", "ha"),
        ("tests/fixtures/kustomize/enforce", "enforce"),
        ("tests/fixtures/kustomize/hpa-off", "hpa-off"),
        ("tests/fixtures/kustomize/hpa-shim", "hpa-shim"),
        ("tests/fixtures/kustomize/placement", "placement"),
        ("tests/fixtures/kustomize/load-class", "load-class"),
        ("tests/fixtures/kustomize/quota", "quota"),
        ("webhook-config/profiles", "profiles"),
    ] {
        compare(folder, name);
    }
}
