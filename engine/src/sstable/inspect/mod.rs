//! SSTables of any table and product looked into: dumped, described and verified.
//!
//! Nothing here needs a schema: the types come from the serialization header. It reads files in
//! order and past the cache, by a reader of its own (`rows`), and knows every type that Cassandra
//! has (`types`, `value`, `order`). Not here: reading for queries (`source`).

mod block_check;
mod cql;
mod dump_data;
mod dump_index;
mod dump_metadata;
mod files;
mod json;
mod metadata;
mod order;
mod rows;
mod schema;
mod seen;
mod stored;
mod types;
pub(super) mod value;
mod verify;

pub use dump_data::DataDump;
pub(super) use dump_data::key_texts;
pub use dump_index::{IndexDump, dump_summary};
pub use dump_metadata::{dump_scylla, dump_statistics, dump_statistics_json};
pub use files::{Inspector, list, locate};
pub use metadata::{LogPosition, Metadata};
pub use schema::{FoundSchema, find_schema, names_of_directory};
pub use types::{KeyType, StoredType, UserType};
pub(super) use value::text as value_text;
pub use verify::{PROBLEMS_KEPT_MAX, Verification, VerifyProgress, verify};
