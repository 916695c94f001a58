//! Which replica does the work that only one may do: the one that holds a `Lease`.

mod begin;
mod leadership;
mod lease;
mod memo;
mod standstill;

pub use self::begin::wait_until;
pub use self::leadership::{Leadership, LeadershipOptions, identity, lease_name};
pub use self::memo::LeaseMemo;
pub use self::standstill::stand_still;
