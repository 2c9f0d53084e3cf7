//! Words and rules of policies: the trait of each world, its events and its verdicts.
//!
//! A policy orders, the cache decides what is legal: nothing a policy answers can make the cache
//! wrong, only worse. Not here: Wasm (`plugin/`), the cache itself (`cache/`).

pub mod admission;
pub mod event;
pub mod eviction;
mod lru;
pub mod rate;

pub use eviction::{EvictionPolicy, FailureKind, PolicyFailure, Slot};
pub use lru::Lru;
