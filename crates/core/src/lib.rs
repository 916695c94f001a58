//! Plimsoll's decisions: what to lower, skip, refuse, and how to say why.
//!
//! Everything here is a pure function of its arguments. There is no clock (the time is an
//! argument), no network, no file and no Kubernetes client type, so the server, the commands and
//! the tests call the same code.
//!
//! A reader who follows one request starts at [`admission`], which reads an `AdmissionReview`,
//! finds the profile in [`profile`], asks [`overcommit`] what the requests become, and answers.
//! What the cluster looks like at that moment is in [`objects`].

pub mod admission;
pub mod balance;
pub mod hpa;
pub mod keys;
pub mod nesting;
pub mod objects;
pub mod overcommit;
pub mod placement;
pub mod pod;
pub mod problem;
pub mod profile;
pub mod quota;
pub mod recommender;
pub mod resource;
pub mod savings;
pub mod simulate;
pub mod usage;
