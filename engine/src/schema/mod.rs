//! Pure words about tables: types, values, keys, their order and their place on the ring.

pub mod compaction;
pub mod counter;
pub mod frozen;
pub mod key;
mod key_bytes;
pub mod options;
pub mod order;
pub mod scalar;
pub mod table_schema;
pub mod token;
pub mod types;
pub mod value;
pub mod varint;
pub mod vint;

pub use compaction::{CompactionClass, CompactionOptions, Thousandths, WindowUnit};
pub use key::{ClusteringKey, ClusteringShape, PartitionKey};
pub use options::{Compression, Compressor, LargeDataOptions, LargeDataThresholds, OnCorruption};
pub use scalar::Scalar;
pub use table_schema::{
    ClusteringOrder, Column, ColumnDrop, ColumnId, ColumnKind, RateLimit, TableId, TableOptions,
    TableSchema,
};
pub use token::Token;
pub use types::{DataType, UserType, in_quotes, named};
pub use value::Value;
