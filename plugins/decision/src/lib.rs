//! Write a Tidegate policy that decides one case at a time, makes plans, or chooses merges: implement
//! the trait of its world, call the macro of the same name, build for `wasm32-unknown-unknown`.
//!
//! | world | trait | macro |
//! |---|---|---|
//! | `cache-admission-policy` | [`AdmissionPolicy`] | [`export_admission!`] |
//! | `rate-limiter-policy` | [`RatePolicy`] | [`export_rate!`] |
//! | `read-admission-policy` | [`ReadAdmissionPolicy`] | [`export_read_admission!`] |
//! | `load-shedding-policy` | [`LoadSheddingPolicy`] | [`export_load_shedding!`] |
//! | `io-priority-policy` | [`IoPriorityPolicy`] | [`export_io_priority!`] |
//! | `compaction-policy` | [`CompactionPolicy`] | [`export_compaction!`] |
//!
//! What a policy may rely on and what it owes is in the file of its world in `wit/v0.1/`. The bindings
//! are made in the crate of the policy, because a component is of one world and this crate serves six.
//!
//! Invariant: nothing here reads a clock, draws a random number or iterates a hash map.

mod admission;
mod compaction;
mod export;
mod io_priority;
mod plan;
mod rate;
mod setup;

pub use admission::{AdmissionPolicy, Candidate, Fate, words_of_fates};
pub use compaction::{Choice, CompactionPolicy, Job, Sstable, Strategy, Table};
pub use io_priority::{ClassLoad, DiskLoad, IoClass, IoPriorityPolicy};
pub use plan::{
    LoadSheddingPolicy, ReadAdmissionPolicy, ReadLimits, ReadLoad, Shedding, Signals, WorkLoad,
};
pub use rate::{Excess, KeyLoad, PlannedRate, RatePolicy};
pub use setup::{Draw, Setup};

/// For the export macros.
#[cfg(target_arch = "wasm32")]
pub use wit_bindgen;
