//! Write a Tidegate policy that decides one case at a time, or makes plans: implement
//! [`AdmissionPolicy`], [`RatePolicy`], [`ReadAdmissionPolicy`] or [`LoadSheddingPolicy`], call
//! [`export_admission!`], [`export_rate!`], [`export_read_admission!`] or [`export_load_shedding!`],
//! build for `wasm32-unknown-unknown`.
//!
//! What a policy may rely on and what it owes is in the file of its world in `wit/v0.1/`. The bindings
//! are made in the crate of the policy, because a component is of one world and this crate serves four.
//!
//! Invariant: nothing here reads a clock, draws a random number or iterates a hash map.

mod admission;
mod export;
mod plan;
mod rate;
mod setup;

pub use admission::{AdmissionPolicy, Candidate, Fate, words_of_fates};
pub use plan::{
    LoadSheddingPolicy, ReadAdmissionPolicy, ReadLimits, ReadLoad, Shedding, Signals, WorkLoad,
};
pub use rate::{Excess, KeyLoad, PlannedRate, RatePolicy};
pub use setup::{Draw, Setup};

/// For the export macros.
#[cfg(target_arch = "wasm32")]
pub use wit_bindgen;
