//! The known keys: paths, environment variables, and which key a misspelt one may have meant.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::raw::RawConfig;

/// What every name of an environment variable begins with.
pub(crate) const PREFIX: &str = "PLIMSOLL_";

/// The tree of all settings with their defaults.
static DEFAULTS: LazyLock<Map<String, Value>> =
    LazyLock::new(|| match serde_json::to_value(RawConfig::default()) {
        Ok(Value::Object(tree)) => tree,
        _ => Map::new(),
    });

/// Settings whose value is a mapping with keys that are the operator's to choose. As a list does, it replaces that of
/// the layer below.
const MAPPINGS: [&str; 4] =
    ["placement.load.metrics", "placement.load.windows", "placement.policies", "placement.weights"];

/// Whether a setting's value is a mapping, and not a section of further settings.
pub(crate) fn is_mapping(path: &str) -> bool {
    MAPPINGS.contains(&path)
}

/// The tree of all settings with their defaults.
pub(crate) fn defaults() -> &'static Map<String, Value> {
    &DEFAULTS
}

/// The paths of all settings with their defaults, section by section in alphabetical order.
pub(crate) fn leaves() -> Vec<(String, &'static Value)> {
    let mut leaves = Vec::new();
    collect("", defaults(), &mut leaves);
    leaves
}

fn collect(prefix: &str, tree: &'static Map<String, Value>, leaves: &mut Vec<(String, &'static Value)>) {
    for (key, value) in tree {
        let path = join(prefix, key);
        match value {
            Value::Object(section) if !is_mapping(&path) => collect(&path, section, leaves),
            leaf => leaves.push((path, leaf)),
        }
    }
}

/// `server` and `address` to `server.address`.
pub(crate) fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// The environment variable for a setting: `server.drainDelay` is `PLIMSOLL_SERVER__DRAIN_DELAY`.
pub fn environment_name(path: &str) -> String {
    let mut name = String::from(PREFIX);
    for letter in path.chars() {
        match letter {
            '.' => name.push_str("__"),
            upper if upper.is_ascii_uppercase() => {
                name.push('_');
                name.push(upper);
            }
            other => name.push(other.to_ascii_uppercase()),
        }
    }
    name
}

/// The setting that an environment variable means; letter case and single underscores do not matter.
pub(crate) fn setting_of(variable: &str) -> Option<(String, &'static Value)> {
    let rest = variable.strip_prefix(PREFIX)?;
    let wanted: Vec<String> = rest.split("__").map(fold).collect();
    leaves().into_iter().find(|(path, _)| path.split('.').map(fold).eq(wanted.iter().cloned()))
}

/// The variable that a misspelt one may have meant.
pub(crate) fn near_variable(variable: &str) -> Option<String> {
    let paths: Vec<String> = leaves().into_iter().map(|(path, _)| environment_name(&path)).collect();
    nearest(variable, paths.iter().map(String::as_str)).map(ToOwned::to_owned)
}

/// The path that an unknown key may have meant: a near one in the same section, else the same key elsewhere.
pub(crate) fn near_key(prefix: &str, key: &str, section: &Map<String, Value>) -> Option<String> {
    if let Some(near) = nearest(key, section.keys().map(String::as_str)) {
        return Some(join(prefix, near));
    }
    let folded = fold(key);
    leaves()
        .into_iter()
        .map(|(path, _)| path)
        .find(|path| path.rsplit('.').next().map(fold).as_ref() == Some(&folded))
}

/// The candidate nearest to a word, when it is near enough to be a slip.
pub(crate) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = fold(word);
    // A word longer than any key is no slip, and comparing it would take long.
    if word.len() > 100 {
        return None;
    }
    candidates
        .map(|candidate| {
            let folded = fold(candidate);
            let slips = if is_swap(&word, &folded) { 1 } else { distance(&word, &folded) };
            (slips, candidate)
        })
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).min(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn fold(word: &str) -> String {
    word.chars().filter(|letter| !matches!(letter, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// Whether two words differ by two neighbouring letters that changed places: the commonest slip of all.
fn is_swap(left: &str, right: &str) -> bool {
    let different: Vec<(usize, (char, char))> =
        left.chars().zip(right.chars()).enumerate().filter(|(_, (left, right))| left != right).collect();
    match different.as_slice() {
        [(first, (a, b)), (second, (c, d))] => {
            left.len() == right.len() && first + 1 == *second && a == d && b == c
        }
        _ => false,
    }
}

/// Levenshtein's distance, one row at a time.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.chars().enumerate() {
        let mut diagonal = index;
        let mut previous = index + 1;
        for (cell, other) in row.iter_mut().skip(1).zip(&right) {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = *cell;
            previous = replaced.min(*cell + 1).min(previous + 1);
            *cell = previous;
        }
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (left, right, expected) in
            [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("ab", "ba", 2), ("", "abc", 3)]
        {
            assert_eq!(distance(left, right), expected, "{left} {right}");
        }
    }

    #[test]
    fn every_setting_has_a_variable_that_leads_back_to_it() {
        for (path, _) in leaves() {
            let variable = environment_name(&path);
            assert_eq!(setting_of(&variable).map(|(path, _)| path), Some(path.clone()), "{variable}");
            let plain = format!("{PREFIX}{}", path.replace('.', "__").to_uppercase());
            assert_eq!(setting_of(&plain).map(|(path, _)| path), Some(path), "{plain}");
        }
    }

    #[test]
    fn slips_are_recognised() {
        let server = defaults()["server"].as_object().unwrap();
        let table = [
            ("letter missing", "drainDela", Some("server.drainDelay")),
            ("underscore", "drain_delay", Some("server.drainDelay")),
            ("swapped in a short word", "htpt2", Some("server.http2")),
            ("swapped", "drianDelay", Some("server.drainDelay")),
            ("other section", "level", Some("log.level")),
            ("nothing near", "colour", None),
        ];
        for (rule, key, expected) in table {
            assert_eq!(near_key("server", key, server).as_deref(), expected, "{rule}");
        }
    }
}
