//! Rows to Arrow batches and back: the one owner of the `arrow` crate in the engine.
//!
//! A batch is the only thing that crosses from a shard to another thread: immutable and `Send`.

mod builder;
mod bytes;
mod column;
mod fixed;
mod ingest;
mod layout;
mod row_values;
mod stamp;
#[cfg(test)]
mod tests;
mod types;
mod value;
mod wide;

pub use arrow::array::RecordBatch;
pub use builder::BatchBuilder;
pub use ingest::{
    ElementChange, Expiry, RowError, WriteOptions, change_elements, expiry, mutations, put_value,
};
pub use row_values::columns_of;
pub use stamp::{Stamp, StampKind, read_schema};
pub use types::{arrow_schema, arrow_type, column_type};
pub use value::value_at;
