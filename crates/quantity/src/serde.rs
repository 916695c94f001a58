//! The JSON form the Kubernetes API uses: written as a string, read from a string or a number.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Format, Quantity};

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(QuantityVisitor)
        } else {
            deserializer.deserialize_str(QuantityVisitor)
        }
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity: a string such as \"500m\" or \"1Gi\", or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        // The API server trims blanks before it looks at JSON escapes. A control character can stand in a
        // JSON string only as an escape, so it is not trimmed here either, and the text is refused.
        let text = text.trim_matches(|c: char| c.is_whitespace() && !c.is_ascii_control());
        Quantity::parse(text).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_i128(number.into())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        self.visit_i128(number.into())
    }

    fn visit_i128<E: de::Error>(self, number: i128) -> Result<Quantity, E> {
        match Quantity::from_units(number, Format::DecimalSi) {
            Some(quantity) => Ok(quantity),
            // Fails in the same way, with the same words, as the number as a string would.
            None => Quantity::parse(&number.to_string()).map_err(E::custom),
        }
    }

    fn visit_u128<E: de::Error>(self, number: u128) -> Result<Quantity, E> {
        Quantity::parse(&number.to_string()).map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        // `Display` prints the shortest decimal that reads back as the same number: 0.1 is 100m exactly.
        Quantity::parse(&number.to_string()).map_err(E::custom)
    }
}
