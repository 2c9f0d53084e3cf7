//! Rows to Arrow batches and back: the one owner of the `arrow` crate in the engine.
//!
//! A batch is the only thing that crosses from a shard to another thread: immutable and `Send`.

mod builder;
mod ingest;
mod types;

pub use arrow::array::RecordBatch;
pub use builder::BatchBuilder;
pub use ingest::{RowError, WriteOptions, mutations, value_at};
pub use types::{arrow_schema, arrow_type};
