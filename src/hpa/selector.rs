//! Label selectors in the form in which a scale subresource has them.

use plimsoll_core::profile::{Operator, Requirement, Selector};

/// Reads a selector such as `app=web,tier in (a, b),!canary`. `None` for one that cannot be read, and for the empty one:
/// it would select everything, and is no workload's.
pub(super) fn parse(text: &str) -> Option<Selector> {
    let requirements: Vec<_> = split(text).into_iter().map(requirement).collect::<Option<_>>()?;
    (!requirements.is_empty()).then_some(Selector { requirements })
}

/// Splits at the commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut inside = false;
    let parts = text.split(|letter| {
        match letter {
            '(' => inside = true,
            ')' => inside = false,
            _ => {}
        }
        letter == ',' && !inside
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn requirement(text: &str) -> Option<Requirement> {
    if let Some(key) = text.strip_prefix('!') {
        return of(key, Operator::DoesNotExist);
    }
    if let Some((rest, values)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        let (key, word) = rest.trim().rsplit_once(char::is_whitespace)?;
        return match word {
            "in" => of(key, Operator::In(values)),
            "notin" => of(key, Operator::NotIn(values)),
            _ => None,
        };
    }
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some((key, value)) = text.split_once("!=") {
        return of(key, Operator::NotIn(one(value)));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return of(key, Operator::In(one(value)));
    }
    of(text, Operator::Exists)
}

fn of(key: &str, operator: Operator) -> Option<Requirement> {
    let key = key.trim();
    let is_key = !key.is_empty()
        && key
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '/'));
    is_key.then(|| Requirement { key: key.to_owned(), operator })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors() {
        let labels = [("app", "web"), ("tier", "a"), ("kruise.io/x", "1"), ("empty", "")];
        let labels: std::collections::BTreeMap<_, _> =
            labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        for (rule, text, expected) in [
            ("equal", "app=web", Some(true)),
            ("equal, in two signs", "app==web", Some(true)),
            ("equal to another", "app=db", Some(false)),
            ("several", "app=web,tier=a", Some(true)),
            ("several, one does not hold", "app=web,tier=b", Some(false)),
            ("in", "tier in (a,b),app=web", Some(true)),
            ("in others", "tier in (b, c)", Some(false)),
            ("not in", "tier notin (b),app=web", Some(true)),
            ("not equal", "tier!=b", Some(true)),
            ("not equal, absent", "canary!=true", Some(true)),
            ("exists", "kruise.io/x", Some(true)),
            ("does not exist", "!canary", Some(true)),
            ("exists all the same", "!tier", Some(false)),
            ("empty value", "empty=", Some(true)),
            ("empty", "", None),
            ("no word", "tier at (a)", None),
            ("no key", "=web", None),
            ("comparison", "size>5", None),
        ] {
            assert_eq!(parse(text).map(|selector| selector.selects(&labels)), expected, "{rule}");
        }
    }
}
