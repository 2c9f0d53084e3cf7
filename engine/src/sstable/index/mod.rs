//! The indexes: the filter, the summary, the partition index and the promoted index.

pub(crate) mod block_index;
pub(crate) mod filter;
pub(crate) mod index_page;
pub(crate) mod partition_index;
pub(crate) mod promoted_index;
pub(crate) mod summary;
