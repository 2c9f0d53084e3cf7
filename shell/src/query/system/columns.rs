//! Columns of system tables out of values, and their fields.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};

pub(in crate::query) fn texts(values: impl IntoIterator<Item = impl Into<String>>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values.into_iter().map(Into::into)))
}

pub(in crate::query) fn counts(values: impl IntoIterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

pub(super) fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, false)
}

pub(super) fn count(name: &str) -> Field {
    Field::new(name, DataType::UInt64, false)
}

pub(super) fn shard() -> Field {
    Field::new("shard", DataType::UInt32, false)
}

pub(super) fn optional(name: &str, ty: DataType) -> Field {
    Field::new(name, ty, true)
}

/// Wall clock time.
pub(super) fn moment() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}
