//! What the shard keeps in memory of its files, under one budget and one eviction policy.

mod page_cache;

pub use page_cache::{Page, PageCache, PagedFile};
