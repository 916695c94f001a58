//! Values of flags.

use std::str::FromStr;

use plimsoll_core::profile::parse_duration;
use plimsoll_core::resource::Resource;
use plimsoll_quantity::{Quantity, Ratio};

/// A value for both resources, or one for each.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PerResource<T> {
    pub(super) cpu: Option<T>,
    pub(super) memory: Option<T>,
}

impl<T> PerResource<T> {
    pub(super) fn of(&self, resource: Resource) -> Option<&T> {
        match resource {
            Resource::Cpu => self.cpu.as_ref(),
            Resource::Memory => self.memory.as_ref(),
            Resource::EphemeralStorage => None,
        }
    }
}

impl<T: FromStr<Err = String> + Clone> FromStr for PerResource<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains('=') {
            let value: T = text.parse()?;
            return Ok(Self { cpu: Some(value.clone()), memory: Some(value) });
        }
        let mut values = Self { cpu: None, memory: None };
        for part in text.split(',') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let place = match name {
                "cpu" => &mut values.cpu,
                "memory" => &mut values.memory,
                _ => return Err(format!("{name:?} is neither cpu nor memory")),
            };
            if place.replace(value.parse()?).is_some() {
                return Err(format!("{name} is there twice"));
            }
        }
        Ok(values)
    }
}

/// A duration as profiles write it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seconds(pub(super) i64);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_duration(text).map(Self).map_err(|error| error.to_string())
    }
}

/// A decimal above 0 and at most 1000, as in profiles.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Factor(pub(super) Ratio);

impl FromStr for Factor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ratio = Ratio::parse_decimal(text).map_err(|error| error.to_string())?;
        let limit = Ratio::new(1000, 1).unwrap_or(Ratio::ONE);
        if ratio > Ratio::ZERO && ratio <= limit {
            Ok(Self(ratio))
        } else {
            Err(format!("{text:?} is not above 0 and at most 1000"))
        }
    }
}

/// A quantity that is not negative.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Amount(pub(super) Quantity);

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let quantity = Quantity::parse(text).map_err(|error| error.to_string())?;
        if quantity.is_negative() { Err(format!("{text:?} is negative")) } else { Ok(Self(quantity)) }
    }
}
