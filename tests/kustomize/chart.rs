//! The chart's files, as far as they can be judged without helm.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::support::root;

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&read(path)).unwrap()
}

/// Paths of all values, with their defaults. A map that is empty is a value.
#[cfg_attr(not(feature = "e2e"), allow(dead_code, reason = "only compared.rs asks for them"))]
pub(crate) fn leaves() -> Vec<(String, Value)> {
    documented().into_iter().map(|(path, default, _)| (path, default)).collect()
}

/// Path, default and comment of each value, in the order of `values.yaml`. A comment stands above its value.
fn documented() -> Vec<(String, Value, String)> {
    let values = yaml("chart/values.yaml");
    let (mut found, mut comment, mut path) = (Vec::new(), String::new(), Vec::<(usize, String)>::new());
    let mut inside = None;
    for line in read("chart/values.yaml").lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if let Some(words) = text.strip_prefix('#') {
            comment = if comment.is_empty() {
                words.trim().to_owned()
            } else {
                format!("{comment} {}", words.trim())
            };
            continue;
        }
        if text.is_empty() {
            comment.clear();
            continue;
        }
        // What is in a map that is itself the value.
        if inside.is_some_and(|outer| indent > outer) {
            continue;
        }
        inside = None;
        let key = text.split(':').next().unwrap();
        path.retain(|(of, _)| *of < indent);
        path.push((indent, key.to_owned()));
        let whole = path.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>().join(".");
        let value = &values.pointer(&format!("/{}", whole.replace('.', "/"))).unwrap();
        let is_group = value.as_object().is_some_and(|map| !map.is_empty());
        if is_group && comment.is_empty() {
            continue;
        }
        assert!(!comment.is_empty(), "{whole}: a comment is missing above it in chart/values.yaml");
        found.push((whole, (*value).clone(), std::mem::take(&mut comment)));
        if is_group {
            inside = Some(indent);
        }
    }
    found
}

#[test]
fn the_chart_is_of_this_version() {
    let chart = yaml("chart/Chart.yaml");
    for key in ["version", "appVersion"] {
        assert_eq!(chart[key], env!("CARGO_PKG_VERSION"), "{key}");
    }
    let base = yaml("webhook-config/base/kustomization.yaml");
    let values = yaml("chart/values.yaml");
    assert_eq!(values["image"]["repository"], base["images"][0]["newName"]);
    assert_eq!(
        base["images"][0]["newTag"],
        format!("v{}", env!("CARGO_PKG_VERSION")),
        "the chart's default tag"
    );
}

/// Definitions are copies, since a chart cannot read what is outside of its folder.
#[test]
fn copies_are_the_same() {
    for (copy, of) in [
        ("chart/files/crds.yaml", "webhook-config/base/crds.yaml"),
        ("chart/files/resourceflavor-crd.yaml", "webhook-config/components/resourceflavor-crd/crd.yaml"),
    ] {
        assert!(read(copy) == read(of), "{copy} differs: cp {of} {copy}");
    }
    assert!(
        read("chart/files/crds.yaml") == plimsoll::crd::yaml().unwrap(),
        "UPDATE=1 cargo test --test crds, then copy"
    );
}

#[test]
fn every_value_is_in_the_schema_and_the_other_way_round() {
    fn walk(schema: &Value, values: &Value, path: &str) {
        let Some(properties) = schema["properties"].as_object() else { return };
        let Some(values) = values.as_object() else { panic!("{path} is not in values.yaml") };
        if schema["patternProperties"].is_object() {
            return;
        }
        assert_eq!(schema["additionalProperties"], false, "{path} takes anything");
        let known = properties.keys().filter(|key| !(path.is_empty() && *key == "global"));
        let (known, there): (BTreeSet<_>, BTreeSet<_>) = (known.collect(), values.keys().collect());
        assert_eq!(known, there, "{path}: values.schema.json, and values.yaml");
        for (key, schema) in properties {
            if key != "global" && schema["type"] == "object" {
                walk(schema, &values[key], &format!("{path}/{key}"));
            }
        }
    }
    let schema: Value = serde_json::from_str(&read("chart/values.schema.json")).unwrap();
    walk(&schema, &yaml("chart/values.yaml"), "");
}

/// The table in the README is what `values.yaml` says; `UPDATE_DOCS=1` writes it.
#[test]
fn the_readme_lists_the_values() {
    const START: &str = "<!-- values: begin -->\n";
    const END: &str = "<!-- values: end -->";
    let rows: Vec<_> = documented()
        .into_iter()
        .map(|(path, default, comment)| {
            format!("| `{path}` | `{default}` | {} |\n", comment.replace('|', "\\|"))
        })
        .collect();
    let table = format!("\n| value | default | meaning |\n| --- | --- | --- |\n{}\n", rows.concat());
    let readme = read("chart/README.md");
    let (head, rest) = readme.split_once(START).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    let want = format!("{head}{START}{table}{END}{tail}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(root().join("chart/README.md"), &want).unwrap();
        return;
    }
    assert!(
        readme == want,
        "chart/README.md differs from chart/values.yaml; UPDATE_DOCS=1 cargo test --test kustomize writes it"
    );
}
