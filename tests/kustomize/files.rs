//! Which files there are, and that each is used.

use crate::support::{documents, files, root};

#[test]
fn every_file_is_yaml() {
    assert!(files().len() > 15, "{:?}", files());
    for file in files() {
        assert!(!documents(&file).is_empty(), "{} is empty", file.display());
    }
}

#[test]
fn every_file_of_the_base_is_listed() {
    let kustomization = &documents(&root().join("webhook-config/base/kustomization.yaml"))[0];
    for file in files().iter().filter(|file| file.parent().unwrap().ends_with("base")) {
        let name = file.file_name().unwrap().to_str().unwrap();
        let listed = kustomization["resources"].as_array().unwrap().iter().any(|entry| entry == name);
        assert!(listed || name == "kustomization.yaml", "{name} is not in the base's resources");
    }
}
