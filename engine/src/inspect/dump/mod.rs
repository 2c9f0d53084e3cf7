//! What the files of one SSTable hold, as JSON and as text.

mod data;
mod index;
mod metadata;

pub use data::DataDump;
pub(super) use data::{key_texts, key_values, value_type};
pub use index::{IndexDump, dump_summary};
pub(super) use index::{IndexReader, StoredBlocks, StoredEntry, StoredSummary, prefix_text};
pub use metadata::{dump_scylla, dump_statistics, dump_statistics_json};
