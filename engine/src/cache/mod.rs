//! What the shard keeps in memory of its files, under one budget and one eviction policy.
//!
//! Invariant: a policy decides which entries leave first, never whether the cache is right.

mod doorkeeper;
mod admission_filter;
mod governor;
mod index_share;
mod page_cache;
mod page_counts;
mod paged_file;
mod parsed_file;
mod rows;

pub use admission_filter::{AdmissionFilterStats, AdmissionFilterStatus};
pub use governor::{
    Contents, EntryId, ExitRecord, Governor, PolicyCounters, PolicyIdentity, PolicyRole,
    PolicyState, PolicyStatus, ShadowLimits, ShadowPurpose, ShadowStatus, SwapStep,
};
pub use page_cache::{Page, PageCache};
pub use page_counts::{PageCacheStats, PageCounts};
pub use paged_file::{Keep, PagedFile, Verifier};
pub use parsed_file::ParsedFile;
pub use rows::{CachedEntry, CachedPartition, RowCache, RowCacheStats, RowFuture, Underlying};
