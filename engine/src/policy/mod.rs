//! Words and rules of policies: the trait of each world, its events, how it is judged and retried.
//!
//! A policy orders, the cache decides what is legal: nothing a policy answers can make the cache
//! wrong, only worse. Not here: Wasm (`plugin/`), the cache itself (`cache/`).

pub mod admission;
mod backoff;
pub mod cache_admission;
pub mod compaction;
pub mod event;
pub mod eviction;
mod governed;
pub mod io_priority;
mod native;
pub mod rate;
mod slot_array;
mod snapshot;
mod tally;
mod trial;

pub use backoff::{AfterFailure, Backoff};
pub use eviction::{EvictionPolicy, FailureKind, PolicyFailure, PolicyUsage, Slot};
pub use governed::{Governed, PlanStatus};
pub use native::{LRU, Lru, NATIVES, Native};
pub use slot_array::SlotArray;
pub use snapshot::{PolicySnapshot, SNAPSHOT_FILE_BYTES_MAX};
pub use tally::Tally;
pub use trial::{Trial, TrialVerdict, WINDOWS_JUDGED, WINDOWS_MAX};
