//! Builds an Arrow column of bytes or text.
//!
//! It grows by what its first values are long: most reads are a few dozen or some thousand rows of
//! about one size, and every further growth copies all that is there.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, NullBufferBuilder, StringArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};

use crate::config::BATCH_BYTES_MAX;

/// Room that the first value brings, bytes.
const FIRST_BYTES: usize = 1024;
/// Values by which the length of all is guessed.
const SAMPLE: usize = 4;
/// Rows for which there is room at first, and then by a guess.
const GUESSED_ROWS: usize = 128;
/// Most bytes that are set aside by a guess.
const GUESSED_BYTES_MAX: usize = 128 << 10;

/// Why a stored value is none of its type.
pub(super) type Wrong = &'static str;

const TOO_LONG: Wrong = "over 2 GB in one batch";

/// See the head of this file.
#[derive(Default)]
pub(super) struct BytesBuilder {
    /// Empty before the first value, else one more than values.
    offsets: Vec<i32>,
    bytes: Vec<u8>,
    present: Option<NullBufferBuilder>,
    /// Of the batch before.
    rows_before: usize,
    bytes_before: usize,
}

impl BytesBuilder {
    #[inline]
    pub(super) fn push(&mut self, value: Option<&[u8]>) -> Result<(), Wrong> {
        if self.offsets.len() == self.offsets.capacity() {
            self.grow_offsets();
        }
        if let Some(value) = value {
            if value.len() > self.bytes.capacity() - self.bytes.len() {
                self.grow(value.len());
            }
            self.bytes.extend_from_slice(value);
            if let Some(present) = &mut self.present {
                present.append_non_null();
            }
        } else {
            self.push_null();
        }
        self.offsets.push(i32::try_from(self.bytes.len()).map_err(|_| TOO_LONG)?);
        Ok(())
    }

    /// Null bits are kept from the first null on.
    fn push_null(&mut self) {
        let values = self.offsets.len() - 1;
        let present = self.present.get_or_insert_with(|| {
            let mut present = NullBufferBuilder::new(values);
            present.append_n_non_nulls(values);
            present
        });
        present.append_null();
    }

    #[cold]
    fn grow_offsets(&mut self) {
        let is_first = self.offsets.is_empty();
        let more = if is_first { self.rows_before.max(GUESSED_ROWS) } else { self.offsets.len() };
        self.offsets.reserve_exact(more + usize::from(is_first));
        if is_first {
            self.offsets.push(0);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let (rows, wanted) = (self.offsets.len(), self.bytes.len() + more);
        let guess = match rows {
            1 => self.bytes_before.min(GUESSED_BYTES_MAX),
            ..=SAMPLE => 2 * wanted,
            _ => (wanted / rows * GUESSED_ROWS).min(GUESSED_BYTES_MAX).max(2 * wanted),
        };
        // A batch ends before it would be much longer than that.
        let room = guess.min(BATCH_BYTES_MAX).max(wanted).max(FIRST_BYTES);
        self.bytes.reserve_exact(room - self.bytes.len());
    }

    fn parts(&mut self) -> (OffsetBuffer<i32>, Buffer, Option<NullBufferBuilder>) {
        let (mut offsets, bytes) =
            (std::mem::take(&mut self.offsets), std::mem::take(&mut self.bytes));
        (self.rows_before, self.bytes_before) = (offsets.len().saturating_sub(1), bytes.len());
        if offsets.is_empty() {
            offsets.push(0);
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        (offsets, Buffer::from_vec(bytes), self.present.take())
    }

    /// The values as bytes.
    pub(super) fn finish_bytes(&mut self) -> ArrayRef {
        let (offsets, bytes, present) = self.parts();
        let nulls = present.and_then(|mut present| present.finish());
        Arc::new(BinaryArray::new(offsets, bytes, nulls))
    }

    /// The values as text.
    ///
    /// Errors: one of them is none.
    pub(super) fn finish_text(&mut self) -> Result<ArrayRef, Wrong> {
        let (offsets, bytes, present) = self.parts();
        let nulls = present.and_then(|mut present| present.finish());
        let array = StringArray::try_new(offsets, bytes, nulls).map_err(|_| "not UTF-8")?;
        Ok(Arc::new(array))
    }
}
