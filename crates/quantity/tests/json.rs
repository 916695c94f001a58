//! The JSON form, as the Kubernetes API reads and writes it.
#![cfg(feature = "serde")]

use plimsoll_quantity::Quantity;

#[test]
fn strings_and_numbers_are_read() {
    for (rule, json, printed) in [
        ("string", r#""500m""#, "500m"),
        ("kept text", r#""+1""#, "+1"),
        ("blanks around are trimmed", r#""  1Gi ""#, "1Gi"),
        ("blanks beyond ASCII are trimmed", "\"\u{a0}1\u{2003}\"", "1"),
        ("whole number", "1", "1"),
        ("whole number", "1000", "1k"),
        ("fraction", "0.5", "500m"),
        ("fraction, not exact in binary", "0.1", "100m"),
        ("trailing zero", "1.10", "1100m"),
        ("exponent", "1e3", "1k"),
        ("negative", "-1", "-1"),
        ("negative zero", "-0.0", "0"),
        ("above 64 bits signed", "18446744073709551615", "18446744073709551615"),
        ("below nano", "1e-300", "1n"),
    ] {
        let quantity: Quantity = serde_json::from_str(json).unwrap_or_else(|e| panic!("{rule}: {json}: {e}"));
        assert_eq!(quantity.to_string(), printed, "{rule}: {json}");
        // The same through a tree of values, which hands over owned strings.
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::from_value::<Quantity>(value).unwrap(), quantity, "{rule}: {json}");
    }
}

#[test]
fn everything_else_is_refused_with_a_reason() {
    for (rule, json, reason) in [
        ("boolean", "true", "boolean `true`, expected a quantity"),
        ("null without Option", "null", "null, expected a quantity"),
        ("list", "[1]", "sequence, expected a quantity"),
        ("map", "{}", "map, expected a quantity"),
        ("empty", r#""""#, "an empty text is not a quantity"),
        ("blank", r#""  ""#, "an empty text is not a quantity"),
        ("JSON escape", r#""\t1""#, r#""\t1" is not a quantity"#),
        ("JSON escape", r#""1\n""#, r#""1\n" is not a quantity"#),
        ("blank inside", r#""1 Gi""#, r#"" Gi" is no suffix"#),
        ("suffix", r#""1K""#, r#""K" is no suffix"#),
        ("too large", "1e30", "too large"),
        ("too large", r#""1e30""#, "too large"),
    ] {
        let error = serde_json::from_str::<Quantity>(json).expect_err(rule).to_string();
        assert!(error.contains(reason), "{rule}: {json}: {error}");
    }
}

#[test]
fn null_is_for_option() {
    assert_eq!(serde_json::from_str::<Option<Quantity>>("null").unwrap(), None);
    assert_eq!(serde_json::from_str::<Option<Quantity>>("\"1\"").unwrap().map(|q| q.value()), Some(1));
}

#[test]
fn a_quantity_is_written_as_a_string() {
    for (rule, text, json) in [
        ("canonical", "1.5Gi", r#""1536Mi""#),
        ("kept text", "1e03", r#""1e03""#),
        ("number", "1000", r#""1k""#),
    ] {
        let quantity = Quantity::parse(text).unwrap();
        assert_eq!(serde_json::to_string(&quantity).unwrap(), json, "{rule}");
    }
}
