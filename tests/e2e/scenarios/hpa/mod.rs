//! Autoscalers: what the HPA controller makes of them on its own, and with us.

pub(super) mod convert;
pub(super) mod facts;
pub(super) mod intent;
pub(super) mod life;
pub(super) mod native;
pub(super) mod restore;
pub(super) mod shim;
