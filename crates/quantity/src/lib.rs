#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
mod parse;
mod print;
mod quantity;
mod ratio;
mod scale;
#[cfg(feature = "serde")]
mod serde;
mod wide;

pub use error::ParseQuantityError;
pub use quantity::{Format, Quantity};
pub use ratio::{ParseRatioError, Ratio};
pub use scale::{Rounding, scale};
