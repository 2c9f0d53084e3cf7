//! The cache of a shard: everything of its files that it keeps in memory, under one budget and one
//! eviction policy.
//!
//! `budget` decides what enters and what leaves, and knows slots and sizes only. `pages` and `rows`
//! own the contents of slots. `shard_cache.rs` holds all three together, so that a use costs one
//! borrow. `owners.rs` maps each slot to its owner.
//!
//! Where `config::is_strict` says so, the cache checks the whole structure after each change.
//!
//! Invariant: a policy decides which entries leave first, never whether the cache is right.

mod budget;
mod fingerprint;
mod owners;
mod pages;
mod policies;
mod rows;
mod shard_cache;
mod slab;

pub use budget::{
    AdmissionFilterStats, AdmissionFilterStatus, EntryId, ExitRecord, Governor, Owner,
    PageCacheStats, PageCounts, PolicyCounters, PolicyIdentity, PolicyRole, PolicyState,
    PolicyStatus, ShadowLimits, ShadowPurpose, ShadowStatus, SwapStep,
};
pub use pages::{Keep, Page, PagedFile, ParsedFile, Verifier};
pub use rows::{
    AtHand, CachedEntry, CachedPartition, RowCache, RowCacheStats, RowFuture, Underlying,
};
pub use shard_cache::PageCache;
