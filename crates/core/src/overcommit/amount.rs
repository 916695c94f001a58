//! A quantity with the text it was written in.

use plimsoll_quantity::Quantity;

use crate::pod::{Json, Members};
use crate::resource::Resource;

/// A quantity and its text, so that a value that does not change keeps how it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Nano-units.
    pub nanos: i128,
    /// As received, or canonical if we computed it.
    pub text: String,
}

/// Whether the number is what was written: beyond 2^53 a parser that reads numbers as floats has rounded it.
fn is_exact(number: &serde_json::Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|value| value.abs() < 9_007_199_254_740_992.0)
}

impl Amount {
    /// A value that we computed.
    pub fn computed(resource: Resource, nanos: i128) -> Self {
        Self { nanos, text: Quantity::from_nanos(nanos, resource.format()).to_string() }
    }

    /// A value as it stands in a resource list. `None`: absent. `Some(Err)`: unreadable, with the text.
    pub fn read(list: Option<&Members<'_>>, name: &str) -> Option<Result<Self, String>> {
        let text = match list?.get(name)? {
            Json::Null => return None,
            // Blanks only: other white space can come from JSON escapes alone, and is refused.
            Json::Text(text) => text.trim_matches(' ').to_owned(),
            Json::Number(number) if is_exact(number) => number.to_string(),
            other => return Some(Err(other.to_string())),
        };
        Some(Self::parse(&text).ok_or(text))
    }

    /// A value from its text.
    pub fn parse(text: &str) -> Option<Self> {
        Quantity::parse(text).ok().map(|quantity| Self { nanos: quantity.nanos(), text: text.to_owned() })
    }
}
