//! Usage from files.
//!
//! [`Rows`] reads one row after the other, compressed or not; [`replay`] lets them pass through the model, series
//! by series, and [`histories`] keeps them all.

mod bytes;
mod histories;
mod passed_over;
mod replay;
mod rows;

pub use bytes::{Told, origin};
pub use histories::{Histories, histories};
pub use passed_over::{PassedOver, Why};
pub use replay::{Clock, Replay, Series, replay};
pub use rows::{COLUMNS, Row, Rows, UsageError};
