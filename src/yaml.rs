//! YAML text to JSON values, read the way kubectl reads it.
//!
//! What a cluster would receive is the reference, not the letter of YAML 1.2: `0644` is octal, `yes` is a
//! boolean, a whole-numbered float such as `1e3` or `1.0` is written as an integer. Anything else would make an
//! answer given offline differ from the one given in a cluster.

use plimsoll_core::nesting::MOST_NESTING;
use serde_json::{Number, Value};
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};

/// A YAML text that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct YamlError {
    /// Which document of the stream is wrong, counted from 0; empty documents are not counted.
    pub document: usize,
    /// The line in the stream, counted from 1, where the parser knows it.
    pub line: Option<u64>,
    /// What is wrong, in one line.
    pub message: String,
}

/// Nesting a manifest may have. Quota trees are the deepest; everything else stays below an eighth of it. The parser has
/// limits of its own, 255 levels of brackets and as many of indentation, enough for a tree of depth 120; deeper ones
/// are written as JSON.
const MAX_DEPTH: usize = MOST_NESTING;

/// Stack for the parser: unoptimised it takes 23 KiB a level, more than a thread's usual 2 MiB allow.
const STACK_BYTES: usize = 32 * 1024 * 1024;

/// Reads every document of a YAML stream; documents that are empty or null are left out.
///
/// The parser recurses, so it is given a thread with enough stack, whoever calls.
pub fn parse_documents(text: &str) -> Result<Vec<Value>, YamlError> {
    let failed = |message: &str| YamlError { document: 0, line: None, message: message.to_owned() };
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("yaml".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || parse_on_this_thread(text))
            .map_err(|error| failed(&format!("no thread for the parser: {error}")))?
            .join()
            .unwrap_or_else(|_| Err(failed("the YAML parser failed on this text")))
    })
}

fn parse_on_this_thread(text: &str) -> Result<Vec<Value>, YamlError> {
    let mut reader = text.as_bytes();
    let mut documents = Vec::new();
    for parsed in serde_saphyr::read_with_options::<_, Value>(&mut reader, options(text.len())) {
        match parsed {
            Ok(mut value) => {
                normalise(&mut value);
                documents.push(value);
            }
            Err(error) => return Err(describe(&error, documents.len())),
        }
    }
    Ok(documents)
}

fn options(length: usize) -> serde_saphyr::Options {
    // Each event takes at least a byte of input, so these follow the input; what aliases may add to it
    // has a limit of its own, which is what stops a "billion laughs".
    let events = length.saturating_add(1_000);
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_documents: events,
            max_events: events,
            max_nodes: events,
            max_total_scalar_bytes: length.saturating_add(64 * 1024 * 1024),
            max_reader_input_bytes: None,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        legacy_octal_numbers: true,
        emit_comments: false,
        with_snippet: false,
    }
}

fn describe(error: &serde_saphyr::Error, document: usize) -> YamlError {
    let location = error.location().filter(|location| location.line() > 0);
    let message = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
    let mut message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(location) = location {
        // The line is a field of its own; said twice it only makes the message longer.
        let suffix = format!(" at line {}, column {}", location.line(), location.column());
        message.truncate(message.strip_suffix(&suffix).unwrap_or(&message).len());
    }
    YamlError { document, line: location.map(|location| location.line()), message }
}

/// Whole-numbered floats become integers, as Go's JSON writer prints them.
fn normalise(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(whole_number) {
                *value = Value::Number(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        Value::Object(entries) => entries.values_mut().for_each(normalise),
        _ => {}
    }
}

/// The integer a float stands for, within the range in which every integer has a float of its own.
fn whole_number(float: f64) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if float.fract() != 0.0 || float.abs() > EXACT {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53: exact in an i64")]
    let whole = float as i64;
    Some(Number::from(whole))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_are_read_as_kubectl_reads_them() {
        let table = [
            ("integer", "1", json!(1)),
            ("fraction", "0.5", json!(0.5)),
            ("quoted", "\"1\"", json!("1")),
            ("exponent", "1e3", json!(1000)),
            ("whole float", "1.0", json!(1)),
            ("suffix stays text", "100m", json!("100m")),
            ("octal", "0644", json!(420)),
            ("octal 1.2", "0o644", json!(420)),
            ("hexadecimal", "0x10", json!(16)),
            ("not octal after all", "08", json!(8)),
            ("beyond 64 bits", "123456789012345678901234567890", json!(1.234_567_890_123_456_8e29)),
            ("largest", "18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
            ("negative", "-9223372036854775808", json!(i64::MIN)),
            ("negative whole float", "-2.0", json!(-2)),
            ("boolean 1.1", "yes", json!(true)),
            ("date stays text", "2024-01-02", json!("2024-01-02")),
            ("exponent letters E", "1E", json!("1E")),
        ];
        for (rule, text, expected) in table {
            let parsed = parse_documents(&format!("a: {text}\n"));
            assert_eq!(parsed, Ok(vec![json!({ "a": expected })]), "{rule}");
        }
    }

    #[test]
    fn bad_text_is_named_by_document_and_line() {
        let table = [
            ("duplicate key", "a: 1\nb: 2\na: 3\n", 0, 3, "uplicate"),
            ("second document", "a: 1\n---\nb: [1\n", 1, 3, "bracket"),
            ("tab", "a:\n\tb: 1\n", 0, 2, "tab"),
            ("not a number", "a: .nan\n", 0, 1, ""),
            ("infinite", "a: .inf\n", 0, 1, ""),
            ("unknown alias", "a: *nothing\n", 0, 1, "unknown"),
        ];
        for (rule, text, document, line, part) in table {
            let error = parse_documents(text).unwrap_err();
            assert_eq!((error.document, error.line), (document, Some(line)), "{rule}: {error}");
            assert!(error.message.contains(part), "{rule}: {error}");
        }
    }

    #[test]
    fn aliases_work_and_are_bounded() {
        let parsed = parse_documents("a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}\n");
        assert_eq!(parsed, Ok(vec![json!({"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}})]));

        let level = |level: usize| {
            let lower = format!("*a{}", level - 1);
            format!("a{level}: &a{level} [{}]", [lower.as_str(); 10].join(","))
        };
        let mut laughs = vec!["a0: &a0 [x,x,x,x,x,x,x,x,x,x]".to_owned()];
        laughs.extend((1..12).map(level));
        assert!(parse_documents(&laughs.join("\n")).is_err());
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("a: {}1{}\n", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(parse_documents(&nested(250)).err(), None);
        assert!(parse_documents(&nested(100_000)).is_err());
        let block =
            |depth: usize| (0..depth).map(|i| format!("{}a:", " ".repeat(i))).collect::<Vec<_>>().join("\n");
        assert_eq!(parse_documents(&block(250)).err(), None);
        assert!(parse_documents(&block(3_000)).is_err());
    }
}
