//! Builds an Arrow column of numbers.
//!
//! It begins with room for a short read and not, as Arrow's builders do, for a thousand rows;
//! behind the first batch there is room for as many as that had.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, NullBufferBuilder, PrimitiveArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType as ArrowType;

/// Rows for which there is room at first.
const FIRST_ROWS: usize = 128;

/// See the head of this file.
pub(super) struct FixedBuilder<T: ArrowPrimitiveType> {
    ty: ArrowType,
    values: Vec<T::Native>,
    present: NullBufferBuilder,
    /// Of the batch before.
    rows_before: usize,
}

impl<T: ArrowPrimitiveType> FixedBuilder<T> {
    /// A builder of a column of this type, which must be one of `T`'s.
    pub(super) fn new(ty: ArrowType) -> Self {
        let present = NullBufferBuilder::new(0);
        FixedBuilder { ty, values: Vec::new(), present, rows_before: 0 }
    }

    #[inline]
    pub(super) fn append_value(&mut self, value: T::Native) {
        if self.values.len() == self.values.capacity() {
            self.grow();
        }
        self.values.push(value);
        self.present.append_non_null();
    }

    pub(super) fn append_null(&mut self) {
        if self.values.len() == self.values.capacity() {
            self.grow();
        }
        self.values.push(T::Native::default());
        self.present.append_null();
    }

    #[cold]
    fn grow(&mut self) {
        let more = match self.values.len() {
            0 => self.rows_before.max(FIRST_ROWS),
            rows => rows,
        };
        self.values.reserve_exact(more);
    }

    /// The values as an array; the builder starts anew.
    pub(super) fn finish(&mut self) -> ArrayRef {
        let values = std::mem::take(&mut self.values);
        self.rows_before = values.len();
        let nulls = self.present.finish();
        let array = PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls);
        Arc::new(array.with_data_type(self.ty.clone()))
    }
}
