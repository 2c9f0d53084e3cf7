//! Limits of how often one partition is read and written, so that a hot one does not take a shard
//! for itself.
//!
//! ```text
//! operation ── counters (fixed memory, decaying) ── within the limit ──> goes through
//!                                               └── beyond ── policy ──> goes through or is refused
//! ```
//! Callers refuse by themselves what is far beyond its limit (`published.rs`).
//!
//! Invariant: memory is fixed, an operation costs a few probes, and a refusal allocates nothing but
//! its error. `hot.rs` counts all partitions, limited or not, for who looks for the hot ones. Not
//! here: the limits themselves (options of tables), Wasm (`plugin/`).

mod bucket;
mod counters;
mod decaying;
mod held;
mod hot;
mod limiter;
mod published;

#[cfg(test)]
mod tests;

pub use bucket::Buckets;
pub use counters::{CounterStats, Counters};
pub use decaying::Decaying;
pub use hot::{HotPartition, HotPartitions};
pub use limiter::{Limiter, LimiterStats};
pub use published::{Asked, PublishedRates, Verdict};
