//! Where settings come from, and how the layers are put on top of each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config::{File, FileFormat, Source, ValueKind};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::check::shown;
use super::error::{ConfigErrors, Origin, Violation};
use super::keys;
use crate::{files, input, yaml};

/// A flag of the command line that stands for a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// The flag as the user writes it, such as `--log-level`.
    pub name: &'static str,
    /// The setting it stands for, such as `log.level`.
    pub setting: &'static str,
    /// Its value as written.
    pub value: String,
}

/// Everything a configuration is made from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The configuration file, YAML or TOML by its extension.
    pub file: Option<PathBuf>,
    /// Environment variables, name and value; those that do not concern the program are passed over.
    pub environment: Vec<(String, String)>,
    /// Flags, which beat everything else.
    pub flags: Vec<Flag>,
}

impl Sources {
    /// Sources with the environment of this process.
    pub fn from_process(file: Option<PathBuf>, flags: Vec<Flag>) -> Self {
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let mut environment: Vec<_> =
            std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect();
        environment.sort();
        Self { file, environment, flags }
    }
}

/// The content of a configuration file by its hash.
pub(super) type ContentHash = [u8; 32];

/// One source of settings: a tree of known keys, all from the same origin.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    origin: Origin,
    tree: Map<String, Value>,
}

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<config::Map<String, config::Value>, config::ConfigError> {
        let origin = self.origin.to_string();
        Ok(self.tree.iter().map(|(key, value)| (key.clone(), with_origin(key, value, &origin))).collect())
    }
}

/// A mapping of the operator's keys goes through the merge as JSON text: tables would be merged key by key.
fn with_origin(path: &str, value: &Value, origin: &String) -> config::Value {
    let kind = match value {
        Value::Object(_) if keys::is_mapping(path) => ValueKind::String(value.to_string()),
        Value::Null => ValueKind::Nil,
        Value::Bool(flag) => ValueKind::Boolean(*flag),
        Value::Number(number) => number
            .as_i64()
            .map(ValueKind::I64)
            .or_else(|| number.as_u64().map(ValueKind::U64))
            .unwrap_or_else(|| ValueKind::Float(number.as_f64().unwrap_or_default())),
        Value::String(text) => ValueKind::String(text.clone()),
        Value::Array(items) => {
            // What is in a list has no path of its own.
            ValueKind::Array(items.iter().map(|item| with_origin("", item, origin)).collect())
        }
        Value::Object(fields) => ValueKind::Table(
            fields
                .iter()
                .map(|(key, field)| (key.clone(), with_origin(&keys::join(path, key), field, origin)))
                .collect(),
        ),
    };
    config::Value::new(Some(origin), kind)
}

/// The merged tree of settings and the origin of each.
pub(super) type Merged = (Map<String, Value>, BTreeMap<String, Origin>);

/// The layers, and what was wrong with their keys.
#[derive(Debug, Default)]
pub(super) struct Layers {
    /// The lowest first.
    stack: Vec<Layer>,
    pub(super) violations: Vec<Violation>,
    pub(super) file_hash: Option<ContentHash>,
}

impl Layers {
    pub(super) fn collect(sources: &Sources) -> Result<Self, ConfigErrors> {
        let mut layers = Self::default();
        layers.push(Origin::Default, keys::defaults().clone());
        layers.add_pod_namespace(&sources.environment);
        if let Some(path) = &sources.file {
            let bytes = read_file(path)?;
            layers.file_hash = Some(hash(&bytes));
            let tree = parse_file(path, &bytes)?;
            layers.add_tree(&Origin::File(path.clone()), tree);
        }
        layers.add_environment(&sources.environment);
        for flag in &sources.flags {
            let default =
                keys::leaves().into_iter().find(|(path, _)| path == flag.setting).map(|(_, value)| value);
            let value = typed(&flag.value, default.unwrap_or(&Value::Null));
            layers.push(Origin::Flag(flag.name.to_owned()), tree_of(flag.setting, value));
        }
        Ok(layers)
    }

    /// The defaults with one file's tree on top, as if there were neither environment nor flags.
    pub(super) fn of_tree(file: &Path, tree: Map<String, Value>) -> Self {
        let mut layers = Self::default();
        layers.push(Origin::Default, keys::defaults().clone());
        layers.add_tree(&Origin::File(file.to_owned()), tree);
        layers
    }

    fn push(&mut self, origin: Origin, tree: Map<String, Value>) {
        self.stack.push(Layer { origin, tree });
    }

    fn refuse(&mut self, path: String, origin: &Origin, message: String) {
        self.violations.push(Violation { path, message, origin: origin.clone() });
    }

    /// The pod's namespace, as the downward API gives it, is the default for our own.
    fn add_pod_namespace(&mut self, environment: &[(String, String)]) {
        const VARIABLE: &str = "POD_NAMESPACE";
        if let Some((_, namespace)) =
            environment.iter().find(|(name, value)| name == VARIABLE && !value.is_empty())
        {
            let tree = tree_of("admission.ownNamespace", Value::String(namespace.clone()));
            self.push(Origin::Environment(VARIABLE.to_owned()), tree);
        }
    }

    /// Adds a file's tree without what is unknown, misplaced or null; null means "as if it were not there".
    fn add_tree(&mut self, origin: &Origin, tree: Map<String, Value>) {
        let known = self.known("", tree, keys::defaults(), origin);
        self.push(origin.clone(), known);
    }

    fn known(
        &mut self,
        prefix: &str,
        tree: Map<String, Value>,
        schema: &Map<String, Value>,
        origin: &Origin,
    ) -> Map<String, Value> {
        let mut known = Map::new();
        for (key, value) in tree {
            let path = keys::join(prefix, &key);
            match (schema.get(&key), value) {
                (None, _) => {
                    let meant = keys::near_key(prefix, &key, schema);
                    let meant = meant.map_or_else(String::new, |near| format!("; {near} may be meant"));
                    self.refuse(path, origin, format!("is not a setting{meant}"));
                }
                (Some(_), Value::Null) => {}
                (Some(_), Value::Object(fields)) if keys::is_mapping(&path) => {
                    let given = fields.into_iter().filter(|(_, value)| !value.is_null());
                    known.insert(key, Value::Object(given.collect()));
                }
                (Some(Value::Object(section)), Value::Object(fields)) => {
                    let fields = self.known(&path, fields, section, origin);
                    known.insert(key, Value::Object(fields));
                }
                (Some(Value::Object(_)), other) if !keys::is_mapping(&path) => {
                    let message = format!("{} is not a section; write a mapping of settings", shown(&other));
                    self.refuse(path, origin, message);
                }
                (Some(_), Value::Object(_)) => {
                    self.refuse(path, origin, "is a mapping, but this setting has a single value".to_owned());
                }
                (Some(_), value) => {
                    known.insert(key, value);
                }
            }
        }
        known
    }

    fn add_environment(&mut self, environment: &[(String, String)]) {
        let mut set_by: BTreeMap<String, &str> = BTreeMap::new();
        for (name, value) in environment {
            if !concerns_us(name, value) {
                continue;
            }
            let origin = Origin::Environment(name.clone());
            if let Some((path, default)) = keys::setting_of(name) {
                if let Some(earlier) = set_by.insert(path.clone(), name) {
                    self.refuse(path.clone(), &origin, format!("is set by {earlier} too; leave one out"));
                }
                self.push(origin, tree_of(&path, typed(value, default)));
            } else {
                let meant = keys::near_variable(name);
                let meant = meant.map_or_else(
                    || "; levels are separated by two underscores, as in PLIMSOLL_LOG__LEVEL".to_owned(),
                    |near| format!("; {near} may be meant"),
                );
                self.refuse(name.clone(), &origin, format!("is not a setting{meant}"));
            }
        }
    }

    /// Puts each layer on top of the ones before.
    pub(super) fn merge(&self) -> Result<Merged, config::ConfigError> {
        let mut builder = config::Config::builder();
        for layer in &self.stack {
            builder = builder.add_source(layer.clone());
        }
        let merged = builder.build()?;
        let mut origins = BTreeMap::new();
        for (path, _) in keys::leaves() {
            let name = value_at(&merged.cache, &path).and_then(config::Value::origin).unwrap_or_default();
            let origin =
                self.stack.iter().map(|layer| &layer.origin).find(|origin| origin.to_string() == name);
            origins.insert(path, origin.cloned().unwrap_or(Origin::Default));
        }
        let mut tree: Map<String, Value> = merged.try_deserialize()?;
        unfold_mappings("", &mut tree);
        Ok((tree, origins))
    }
}

/// Makes mappings again of what went through the merge as text; what is none stays, and is refused with its path.
fn unfold_mappings(prefix: &str, tree: &mut Map<String, Value>) {
    for (key, value) in tree {
        let path = keys::join(prefix, key);
        match value {
            Value::String(text) if keys::is_mapping(&path) => {
                if let Ok(mapping @ Value::Object(_)) = serde_json::from_str(text) {
                    *value = mapping;
                }
            }
            Value::Object(section) => unfold_mappings(&path, section),
            _ => {}
        }
    }
}

/// A merged value with its origin, which the crate's own getters lose on the way.
fn value_at<'a>(root: &'a config::Value, path: &str) -> Option<&'a config::Value> {
    path.split('.').try_fold(root, |value, key| match &value.kind {
        ValueKind::Table(table) => table.get(key),
        _ => None,
    })
}

/// Whether an environment variable is meant for us.
///
/// Names without two underscores are left alone: for a Service named `plimsoll` the kubelet sets
/// `PLIMSOLL_SERVICE_HOST`, `PLIMSOLL_PORT` and more in every pod of the namespace.
fn concerns_us(name: &str, value: &str) -> bool {
    let Some(rest) = name.strip_prefix(keys::PREFIX) else { return false };
    let service_link = rest.ends_with("_SERVICE_HOST")
        || rest.contains("_SERVICE_PORT")
        || rest.contains("_PORT_")
        || (rest.ends_with("_PORT") && value.contains("://"));
    (rest.contains("__") || rest.contains('.') || rest == "PROFILES") && !service_link
}

/// The value of a variable or flag, whose text takes the kind of the default; a text that is none of that kind
/// stays text and is refused later with its path.
fn typed(text: &str, default: &Value) -> Value {
    let parsed = match default {
        Value::Bool(_) => text.trim().to_ascii_lowercase().parse().ok().map(Value::Bool),
        Value::Number(number) if number.is_f64() => text.trim().parse::<f64>().ok().map(Value::from),
        Value::Number(_) => {
            let whole = text.trim().parse::<u64>().ok().map(Value::from);
            // The default is whole, but what it is a default for need not be.
            whole.or_else(|| text.trim().parse::<f64>().ok().map(Value::from))
        }
        Value::Array(_) => list_of(text),
        Value::Object(_) => mapping_of(text),
        _ => None,
    };
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// `a, b` or `["a", "b"]`; a text that is empty is the empty list.
fn list_of(text: &str) -> Option<Value> {
    let text = text.trim();
    if text.is_empty() {
        return Some(Value::Array(Vec::new()));
    }
    if text.starts_with(['[', '-', '{']) {
        return yaml::parse_documents(text).ok()?.into_iter().next();
    }
    Some(Value::Array(text.split(',').map(|item| Value::String(item.trim().to_owned())).collect()))
}

/// `cpu=0.5, memory=0.5` or `{cpu: 0.5, memory: 0.5}`; a text that is empty is the empty mapping.
fn mapping_of(text: &str) -> Option<Value> {
    let text = text.trim();
    if text.starts_with('{') {
        return yaml::parse_documents(text).ok()?.into_iter().next();
    }
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let value = value.trim();
        let value = value.parse::<f64>().map_or_else(|_| Value::String(value.to_owned()), Value::from);
        Some((key.trim().to_owned(), value))
    });
    pairs.collect::<Option<Map<_, _>>>().map(Value::Object)
}

/// A tree with a single setting.
fn tree_of(path: &str, value: Value) -> Map<String, Value> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let value = rest.map_or(value.clone(), |rest| Value::Object(tree_of(rest, value)));
    Map::from_iter([(first.to_owned(), value)])
}

/// The hash by which a changed file is recognised.
pub(super) fn hash(bytes: &[u8]) -> ContentHash {
    Sha256::digest(bytes).into()
}

/// Reads the bytes of a configuration file.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, ConfigErrors> {
    files::read_regular(path).map_err(|error| ConfigErrors::File {
        path: path.to_owned(),
        message: format!("cannot be read: {error}"),
    })
}

fn parse_file(path: &Path, bytes: &[u8]) -> Result<Map<String, Value>, ConfigErrors> {
    let refuse = |message: String| ConfigErrors::File { path: path.to_owned(), message };
    let text = input::text_of(bytes, "configuration").map_err(|error| match error {
        input::InputError::NotText { reason, .. } => refuse(reason),
        other => refuse(other.to_string()),
    })?;
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    match extension.as_deref() {
        Some("toml") => parse_toml(text).map_err(refuse),
        Some("yaml" | "yml" | "json") => parse_yaml(text).map_err(refuse),
        _ => Err(refuse("is neither YAML nor TOML by its name; call it *.yaml or *.toml".to_owned())),
    }
}

fn parse_toml(text: &str) -> Result<Map<String, Value>, String> {
    let table = File::from_str(text, FileFormat::Toml).collect().map_err(|error| error.to_string())?;
    let fields = table.into_iter().map(|(key, value)| Ok((key, value.try_deserialize::<Value>()?)));
    fields.collect::<Result<_, config::ConfigError>>().map_err(|error| error.to_string())
}

fn parse_yaml(text: &str) -> Result<Map<String, Value>, String> {
    let documents = yaml::parse_documents(text).map_err(|error| {
        error.line.map_or_else(|| error.message.clone(), |line| format!("line {line}: {}", error.message))
    })?;
    let mut documents = documents.into_iter();
    match (documents.next(), documents.next()) {
        (None, _) => Ok(Map::new()),
        (Some(Value::Object(tree)), None) => Ok(tree),
        (Some(other), None) => Err(format!("is {}, not a mapping of sections", input::kind_of(&other))),
        (Some(_), Some(_)) => Err("holds several documents; a configuration is one".to_owned()),
    }
}
