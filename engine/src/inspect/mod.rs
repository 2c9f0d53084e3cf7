//! SSTables of any table and product looked into: dumped, described and verified.
//!
//! Nothing here needs a schema: the types come from the serialization header. It reads files in
//! order and past the cache, by a reader of its own (`rows`), and knows every type that Cassandra
//! has (`types`, `value`, `order`).
//!
//! What it judges is the reader in `sstable`. It shares with that reader
//!
//! - `sstable::format`: names of components and types, numbers and byte strings, the serialization
//!   header, and the content of `Statistics.db`, `CompressionInfo.db`, `Scylla.db` and
//!   `Tidegate.db`;
//! - `sstable::data`: files, chunks that are decompressed, and windows over them;
//! - the bits of the bloom filter in `sstable::index`.
//!
//! A fault in those shows in both. Entries of the index, promoted indexes, the summary, rows,
//! markers and keys it parses itself. Not here: reading for queries (`sstable`).

mod cql;
mod dump;
mod files;
mod json;
mod large_data;
mod metadata;
mod order;
mod rows;
mod schema;
#[cfg(test)]
mod tests;
mod types;
mod value;
mod verify;

pub use dump::{
    DataDump, IndexDump, dump_scylla, dump_statistics, dump_statistics_json, dump_summary,
};
pub use files::{Inspector, list, locate};
pub use large_data::{clustering_key_text, partition_key_text};
pub use metadata::{LogPosition, Metadata};
pub use schema::{FoundSchema, find_schema, names_of_directory};
pub use types::{KeyType, StoredType, UserType};
pub use verify::{PROBLEMS_KEPT_MAX, Verification, VerifyProgress, verify};
