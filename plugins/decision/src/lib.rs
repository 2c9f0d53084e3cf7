//! Write a Tidegate policy that decides one case at a time: implement [`AdmissionPolicy`] or
//! [`RatePolicy`], call [`export_admission!`] or [`export_rate!`], build for `wasm32-unknown-unknown`.
//!
//! What a policy may rely on and what it owes is in `wit/v0.1/cache-admission.wit` and
//! `wit/v0.1/rate-limiter.wit`. The bindings are made in the crate of the policy, because a component
//! is of one world and this crate serves two.
//!
//! Invariant: nothing here reads a clock, draws a random number or iterates a hash map.

mod admission;
mod export;
mod rate;
mod setup;

pub use admission::{AdmissionPolicy, Candidate, Fate, words_of_fates};
pub use rate::{Excess, KeyLoad, PlannedRate, RatePolicy};
pub use setup::{Draw, Setup};

/// For the export macros.
#[cfg(target_arch = "wasm32")]
pub use wit_bindgen;
