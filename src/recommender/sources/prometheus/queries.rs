//! The two queries, for all namespaces or for some.

use super::PrometheusError;
use super::client::Query;

/// What stands for the namespaces in a query, inside of a regular expression as in `namespace=~"$namespace"`. It is
/// what dashboards use, so a query can be taken from one.
const PLACEHOLDER: &str = "$namespace";
const PLACEHOLDER_IN_BRACES: &str = "${namespace}";

/// A query with the places at which namespaces go.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pub(super) query: Query,
    text: String,
}

/// Both.
#[derive(Clone, Debug)]
pub(super) struct Queries {
    pub(super) cpu: Template,
    pub(super) memory: Template,
}

impl Template {
    pub(super) fn new(query: Query, text: &str) -> Result<Self, PrometheusError> {
        let wrong = |reason: &str| {
            Err(PrometheusError::Setting { setting: query.name().to_owned(), reason: reason.to_owned() })
        };
        if text.trim().is_empty() {
            return wrong("is empty; PromQL that gives a value for each container is right");
        }
        let text = text.replace(PLACEHOLDER_IN_BRACES, PLACEHOLDER);
        for (at, _) in text.match_indices(PLACEHOLDER) {
            let before = text.get(..at).unwrap_or_default().trim_end_matches(['"', '\'', '`']).trim_end();
            if !before.ends_with("=~") {
                return wrong("$namespace becomes a regular expression; namespace=~\"$namespace\" is right");
            }
        }
        Ok(Self { query, text })
    }

    /// The query for all namespaces.
    pub(super) fn whole(&self) -> String {
        self.text.replace(PLACEHOLDER, ".+")
    }

    /// The query for these.
    pub(super) fn of(&self, namespaces: &[&str]) -> String {
        self.text.replace(PLACEHOLDER, &namespaces.join("|"))
    }

    fn is_divisible(&self) -> bool {
        self.text.contains(PLACEHOLDER)
    }
}

impl Queries {
    /// Whether both can be asked for some namespaces only.
    pub(super) fn are_divisible(&self) -> bool {
        self.cpu.is_divisible() && self.memory.is_divisible()
    }
}

/// Whether it can stand in a query as it is: a name in Kubernetes has no character that needs care.
pub(super) fn is_namespace(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 63
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// A time as Prometheus takes it: seconds since 1970, to the millisecond.
pub(super) fn time(nanos: i64) -> String {
    let millis = nanos.div_euclid(1_000_000);
    let sign = if millis < 0 { "-" } else { "" };
    let millis = millis.unsigned_abs();
    format!("{sign}{}.{:03}", millis / 1000, millis % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_take_the_place_of_the_placeholder() {
        for (rule, text, whole, some) in [
            ("no placeholder: always all", "up", "up", "up"),
            (
                "a placeholder",
                r#"sum(a{namespace=~"$namespace"})"#,
                r#"sum(a{namespace=~".+"})"#,
                r#"sum(a{namespace=~"shop|bank-1"})"#,
            ),
            (
                "in each selector, with any quotes and braces",
                "a{ns =~ '$namespace'} * b{ns=~`${namespace}`}",
                "a{ns =~ '.+'} * b{ns=~`.+`}",
                "a{ns =~ 'shop|bank-1'} * b{ns=~`shop|bank-1`}",
            ),
        ] {
            let template = Template::new(Query::CPU, text).unwrap();
            assert_eq!(template.whole(), whole, "{rule}");
            assert_eq!(template.of(&["shop", "bank-1"]), some, "{rule}");
        }
        for (rule, text) in [
            ("nothing", " "),
            ("an equation cannot take several", r#"a{namespace="$namespace"}"#),
            ("not outside of a matcher", "a{$namespace}"),
            ("nor inside a text", r#"a{namespace=~"x$namespace"}"#),
        ] {
            assert!(Template::new(Query::CPU, text).is_err(), "{rule}");
        }
    }

    #[test]
    fn only_names_of_namespaces_go_into_queries() {
        for (name, expected) in [
            ("shop", true),
            ("a-1", true),
            ("", false),
            ("a|b", false),
            ("a\"", false),
            (".+", false),
            ("A", false),
        ] {
            assert_eq!(is_namespace(name), expected, "{name}");
        }
    }

    #[test]
    fn times_are_seconds() {
        for (nanos, expected) in [
            (0, "0.000"),
            (1_764_493_511_123_456_789, "1764493511.123"),
            (1_000_000, "0.001"),
            (-1, "-0.001"),
            (-1_500_000_000, "-1.500"),
        ] {
            assert_eq!(time(nanos), expected);
        }
    }
}
