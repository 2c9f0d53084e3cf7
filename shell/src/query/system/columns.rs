//! Columns of system tables out of values.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray, UInt64Array};

pub(in crate::query) fn texts(values: impl IntoIterator<Item = impl Into<String>>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values.into_iter().map(Into::into)))
}

pub(in crate::query) fn counts(values: impl IntoIterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}
