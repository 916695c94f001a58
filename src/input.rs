//! Manifests from files, directories and standard input.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use plimsoll_core::nesting;
use serde_json::{Map, Value, json};

use crate::{files, yaml};

/// One object of the input.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The object; always a JSON object.
    pub value: Value,
    /// Where it stands, for messages: `pods.yaml[2]`, or `pods.yaml[2].items[0]` inside a list.
    /// Documents are counted from 0 and empty ones are not counted.
    pub origin: String,
}

/// Input that cannot be read as manifests.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The operating system refused.
    #[error("{origin}: cannot be read: {reason}")]
    Read {
        /// File, directory or `standard input`.
        origin: String,
        /// What the operating system said.
        reason: io::Error,
    },
    /// Not text in UTF-8.
    #[error("{origin}: {reason}")]
    NotText {
        /// File or `standard input`.
        origin: String,
        /// What was found and what would be right.
        reason: String,
    },
    /// Neither YAML nor JSON.
    #[error("{origin}[{document}]{}: {message}", line_of(*line))]
    Syntax {
        /// File or `standard input`.
        origin: String,
        /// Which document, counted from 0.
        document: usize,
        /// Line in the file, counted from 1, where known.
        line: Option<u64>,
        /// What the parser found.
        message: String,
    },
    /// A document that is a list, a text or a number.
    #[error(
        "{origin}: is {found}, not an object; a manifest is a mapping that begins with apiVersion and kind"
    )]
    NotAnObject {
        /// Where it stands.
        origin: String,
        /// The kind of value found.
        found: &'static str,
    },
    /// A directory without any manifest.
    #[error("{origin}: holds no *.yaml, *.yml or *.json file")]
    EmptyDirectory {
        /// The directory.
        origin: String,
    },
}

fn line_of(line: Option<u64>) -> String {
    line.map_or_else(String::new, |line| format!(": line {line}"))
}

/// The largest input that is read; far above any export of a large cluster, below what takes a machine down.
const MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// Reads all manifests of a file, of the files in a directory (not below it), or of standard input (`-`).
///
/// YAML streams and JSON are accepted; a `List` or `PodList` is replaced by its items. A directory is read in
/// the order of its file names; only `*.yaml`, `*.yml` and `*.json` count, and names that begin with a dot do
/// not.
pub fn read_manifests(path: &Path) -> Result<Vec<Document>, InputError> {
    if path == Path::new("-") {
        let origin = "standard input";
        let bytes = read_limited(io::stdin().lock(), origin)?;
        return parse_manifests(&bytes, origin);
    }
    let origin = path.display().to_string();
    let failed = |reason| InputError::Read { origin: origin.clone(), reason };
    if !path.metadata().map_err(failed)?.is_dir() {
        return parse_manifests(&read_bytes(path)?, &origin);
    }
    let files = manifest_files(path).map_err(failed)?;
    if files.is_empty() {
        return Err(InputError::EmptyDirectory { origin });
    }
    let mut documents = Vec::new();
    for file in files {
        let bytes = read_regular(&file)?;
        documents.append(&mut parse_manifests(&bytes, &file.display().to_string())?);
    }
    Ok(documents)
}

/// Reads several paths one after the other, each as [`read_manifests`] does.
pub fn read_all<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Vec<Document>, InputError> {
    let mut documents = Vec::new();
    for path in paths {
        documents.append(&mut read_manifests(path.as_ref())?);
    }
    Ok(documents)
}

/// The files of a directory that hold manifests, in the order of their names.
pub(crate) fn manifest_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in directory.read_dir()? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let manifest = path.extension().and_then(OsStr::to_str).is_some_and(|extension| {
            ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known))
        });
        // A mounted ConfigMap consists of symbolic links, hence the question to the target.
        if manifest && !hidden && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The bytes of a regular file. Nothing is waited for: in the place of a file there may be a pipe that nobody writes to.
pub(crate) fn read_regular(path: &Path) -> Result<Vec<u8>, InputError> {
    let origin = path.display().to_string();
    let file =
        files::open_regular(path).map_err(|reason| InputError::Read { origin: origin.clone(), reason })?;
    read_limited(file, &origin)
}

/// The bytes of a file, or of standard input (`-`). A pipe is read too: the shell makes one of `-f <(kubectl get ..)`.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, InputError> {
    if path == Path::new("-") {
        return read_limited(io::stdin().lock(), "standard input");
    }
    let origin = path.display().to_string();
    let file = File::open(path).map_err(|reason| InputError::Read { origin: origin.clone(), reason })?;
    read_limited(file, &origin)
}

fn read_limited(reader: impl Read, origin: &str) -> Result<Vec<u8>, InputError> {
    let mut bytes = Vec::new();
    let failed = |reason| InputError::Read { origin: origin.to_owned(), reason };
    let read = reader.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if read as u64 > MAX_BYTES {
        return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, "more than 2 GiB")));
    }
    Ok(bytes)
}

/// Reads manifests from bytes; `origin` is the name that messages and [`Document::origin`] use.
pub fn parse_manifests(bytes: &[u8], origin: &str) -> Result<Vec<Document>, InputError> {
    let text = text_of(bytes, origin)?;
    let values = parse_values(text, origin)?;
    let mut documents = Vec::with_capacity(values.len());
    for (index, value) in values.into_iter().enumerate() {
        expand(value, format!("{origin}[{index}]"), &mut documents)?;
    }
    Ok(documents)
}

/// The text of a file, without a byte order mark.
pub(crate) fn text_of<'a>(bytes: &'a [u8], origin: &str) -> Result<&'a str, InputError> {
    let refuse = |reason: String| InputError::NotText { origin: origin.to_owned(), reason };
    if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
        return Err(refuse("is UTF-16; save it as UTF-8".to_owned()));
    }
    let line_at = |offset: usize| 1 + bytes.iter().take(offset).filter(|byte| **byte == b'\n').count();
    let text = std::str::from_utf8(bytes)
        .map_err(|error| refuse(format!("line {}: is not UTF-8", line_at(error.valid_up_to()))))?;
    if let Some(offset) = bytes.iter().position(|byte| *byte == 0) {
        return Err(refuse(format!("line {}: holds a NUL byte; this is not a text file", line_at(offset))));
    }
    Ok(text.strip_prefix('\u{FEFF}').unwrap_or(text))
}

fn parse_values(text: &str, origin: &str) -> Result<Vec<Value>, InputError> {
    let json_name =
        Path::new(origin).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let json_like = text.trim_start().starts_with('{');
    if !json_name && !json_like {
        return parse_yaml(text, origin);
    }
    match parse_json(text, origin) {
        // `{a: b}` is YAML in JSON's clothes; only the name can say which of the two was meant.
        Err(_) if !json_name => parse_yaml(text, origin),
        parsed => parsed,
    }
}

fn parse_yaml(text: &str, origin: &str) -> Result<Vec<Value>, InputError> {
    yaml::parse_documents(text).map_err(|error| InputError::Syntax {
        origin: origin.to_owned(),
        document: error.document,
        line: error.line,
        message: error.message,
    })
}

fn parse_json(text: &str, origin: &str) -> Result<Vec<Value>, InputError> {
    let mut values = Vec::new();
    for parsed in nesting::stream(text) {
        match parsed {
            Ok(Value::Null) => {}
            Ok(value) => values.push(value),
            Err(error) => {
                return Err(InputError::Syntax {
                    origin: origin.to_owned(),
                    document: values.len(),
                    line: Some(error.line() as u64),
                    message: error.to_string(),
                });
            }
        }
    }
    Ok(values)
}

/// Adds the object, or the items of a list, to the documents.
fn expand(value: Value, origin: String, documents: &mut Vec<Document>) -> Result<(), InputError> {
    let mut object = match value {
        Value::Object(object) => object,
        other => return Err(InputError::NotAnObject { origin, found: kind_of(&other) }),
    };
    let Some(item_kind) = listed_kind(&object) else {
        documents.push(Document { value: Value::Object(object), origin });
        return Ok(());
    };
    let api_version = object.remove("apiVersion").unwrap_or(Value::Null);
    let Some(Value::Array(items)) = object.remove("items") else { return Ok(()) };
    for (index, mut item) in items.into_iter().enumerate() {
        // The items of a typed list come without kind and version where the API server wrote the list.
        if let (Value::Object(item), false) = (&mut item, item_kind.is_empty()) {
            item.entry("kind").or_insert_with(|| json!(item_kind));
            item.entry("apiVersion").or_insert_with(|| api_version.clone());
        }
        expand(item, format!("{origin}.items[{index}]"), documents)?;
    }
    Ok(())
}

/// The kind of a list's items: empty for the plain `List`, `Pod` for a `PodList`; nothing when it is no list.
fn listed_kind(object: &Map<String, Value>) -> Option<String> {
    let kind = object.get("kind")?.as_str()?.strip_suffix("List")?;
    // A list of nothing is written with `items: null` by Go programs.
    matches!(object.get("items"), Some(Value::Array(_) | Value::Null)).then(|| kind.to_owned())
}

/// A value's kind as a person says it.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(documents: &[Document]) -> Vec<&str> {
        documents.iter().map(|document| document.origin.as_str()).collect()
    }

    #[test]
    fn streams_and_lists_become_documents() {
        let table: [(&str, &str, &[&str]); 11] = [
            ("one document", "kind: Pod\n", &["f[0]"]),
            (
                "several, empty ones skipped",
                "---\n---\nkind: A\n---\n# nothing\n---\nkind: B\n...\n",
                &["f[0]", "f[1]"],
            ),
            ("nothing", "", &[]),
            ("null", "null\n---\n~\n", &[]),
            ("list", "kind: List\nitems: [{kind: A}, {kind: B}]\n", &["f[0].items[0]", "f[0].items[1]"]),
            (
                "list in a list",
                "kind: List\nitems: [{kind: List, items: [{kind: A}]}]\n",
                &["f[0].items[0].items[0]"],
            ),
            ("list of nothing", "kind: PodList\nitems: null\n", &[]),
            ("no list: no items", "kind: AllowList\nspec: {}\n", &["f[0]"]),
            ("json", "{\"kind\": \"A\"}", &["f[0]"]),
            ("several json", "{\"kind\": \"A\"}\n{\"kind\": \"B\"}", &["f[0]", "f[1]"]),
            ("flow yaml", "{kind: A, spec: [1]}", &["f[0]"]),
        ];
        for (rule, text, expected) in table {
            let documents = parse_manifests(text.as_bytes(), "f").unwrap();
            assert_eq!(origins(&documents), expected, "{rule}");
        }
    }

    #[test]
    fn items_of_typed_lists_are_told_their_kind() {
        let text =
            "apiVersion: v1\nkind: PodList\nitems: [{metadata: {name: a}}, {apiVersion: v2, kind: Own}]\n";
        let documents = parse_manifests(text.as_bytes(), "f").unwrap();
        let values: Vec<&Value> = documents.iter().map(|document| &document.value).collect();
        let expected = [
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}),
            json!({"apiVersion": "v2", "kind": "Own"}),
        ];
        assert_eq!(values, expected.iter().collect::<Vec<_>>());
    }

    #[test]
    fn text_comes_in_several_dresses() {
        for (rule, bytes) in [
            ("byte order mark", &b"\xEF\xBB\xBFkind: Pod\n"[..]),
            ("carriage returns", b"kind: Pod\r\n"),
            ("json with mark", b"\xEF\xBB\xBF{\"kind\": \"Pod\"}"),
            ("no newline", b"kind: Pod"),
        ] {
            let documents = parse_manifests(bytes, "f").unwrap();
            assert_eq!(
                documents.first().map(|document| &document.value),
                Some(&json!({"kind": "Pod"})),
                "{rule}"
            );
        }
    }

    #[test]
    fn bad_input_is_named() {
        let deep = format!("{}1", "{\"a\":".repeat(100_000));
        let table: [(&str, &[u8], &str, &str); 14] = [
            ("not UTF-8", b"a: 1\nb: \xFF\n", "f.yaml", "f.yaml: line 2: is not UTF-8"),
            ("UTF-16", b"\xFF\xFEa\0", "f.yaml", "UTF-16; save it as UTF-8"),
            ("NUL", b"a: 1\n\0", "f.yaml", "line 2: holds a NUL byte"),
            ("scalar", b"hello\n", "f.yaml", "f.yaml[0]: is text, not an object"),
            ("number", b"kind: A\n---\n5\n", "f.yaml", "f.yaml[1]: is a number, not an object"),
            ("array", b"[{\"kind\": \"A\"}]", "f.json", "f.json[0]: is a list, not an object"),
            (
                "item",
                b"kind: List\nitems: [null]\n",
                "f.yaml",
                "f.yaml[0].items[0]: is nothing, not an object",
            ),
            ("yaml", b"kind: A\n---\nb: [1\n", "f.yaml", "f.yaml[1]: line 3: "),
            ("duplicate key", b"a: 1\na: 2\n", "f.yaml", "f.yaml[0]: line 2: duplicate"),
            ("json", b"{\"a\": 1}\n{\"a\": }", "f.json", "f.json[1]: line 2: "),
            ("json cut short", b"{\"a\": ", "f.json", "f.json[0]: line 1: "),
            ("yaml in a json file", b"a: 1\n", "f.json", "f.json[0]: line 1: "),
            ("neither", b"{\"a\": 1]", "f", "f[0]: line 1: "),
            ("too deep", deep.as_bytes(), "f.json", "deeper than 512 levels"),
        ];
        for (rule, bytes, origin, part) in table {
            let message = parse_manifests(bytes, origin).unwrap_err().to_string();
            assert!(message.contains(part), "{rule}: {message}");
            assert!(!message.contains('\n'), "{rule}: {message}");
        }
    }

    #[test]
    fn json_takes_the_last_of_two_equal_keys() {
        let documents = parse_manifests(b"{\"kind\": \"A\", \"kind\": \"B\"}", "f.json").unwrap();
        assert_eq!(documents.first().map(|document| &document.value), Some(&json!({"kind": "B"})));
    }

    #[test]
    fn directories_are_read_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert!(matches!(read_manifests(path), Err(InputError::EmptyDirectory { .. })));
        for (name, text) in [
            ("b.yaml", "kind: B\n"),
            ("a.json", "{\"kind\": \"A\"}"),
            ("c.YML", "kind: C\n"),
            (".hidden.yaml", "kind: No\n"),
            ("notes.txt", "kind: No\n"),
        ] {
            std::fs::write(path.join(name), text).unwrap();
        }
        std::fs::create_dir(path.join("d.yaml")).unwrap();
        let documents = read_manifests(path).unwrap();
        let kinds: Vec<_> =
            documents.iter().map(|document| document.value["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["A", "B", "C"]);
        assert_eq!(documents[1].origin, format!("{}[0]", path.join("b.yaml").display()));

        let missing = read_manifests(&path.join("missing.yaml")).unwrap_err().to_string();
        assert!(missing.contains("missing.yaml: cannot be read"), "{missing}");
        let all = read_all([path.join("b.yaml"), path.join("a.json")]).unwrap();
        assert_eq!(all.len(), 2);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = parse_manifests(&bytes, "f");
        }

        #[test]
        fn no_yaml_like_text_panics(text in "[-a:{}\\[\\],&*!|>'\"% #\n\t0-9.?~<]{0,120}") {
            let _ = parse_manifests(text.as_bytes(), "f");
        }
    }
}
