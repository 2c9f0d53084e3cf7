//! The batch of a read that is being built.

use super::tombstones::{Page, TombstonePage};
use crate::admission::BatchCharge;
use crate::batch::{BatchBuilder, RecordBatch};
use crate::config::{BATCH_BYTES_MAX, BATCH_BYTES_UNCHARGED, BATCH_ROWS_FIRST, BATCH_ROWS_MAX};
use crate::error::Result;
use crate::probe;
use crate::reader::LiveRows;

/// See the head of this file. It ends by rows or by bytes; what it has beyond a little is charged
/// before it is built.
pub(super) struct Forming {
    builder: BatchBuilder,
    /// Tombstones since the last batch.
    page: Page,
    /// Rows at which the batch ends.
    rows_max: usize,
    /// Bytes at which the batch ends, or its charge is due.
    bytes_max: usize,
    charge: Option<BatchCharge>,
    /// Of the batch before.
    row_bytes: usize,
    /// The batch before was so long that the next is built only when its receiver has taken it.
    was_long: bool,
}

/// A batch that is done.
pub(super) struct Formed {
    pub batch: RecordBatch,
    pub charge: Option<BatchCharge>,
    /// Where it met many tombstones.
    pub page: Option<TombstonePage>,
    pub bytes: usize,
}

impl Forming {
    pub fn new(builder: BatchBuilder, page: Page) -> Self {
        Forming {
            builder,
            page,
            rows_max: BATCH_ROWS_FIRST,
            bytes_max: BATCH_BYTES_UNCHARGED,
            charge: None,
            row_bytes: 0,
            was_long: false,
        }
    }

    pub fn rows(&self) -> usize {
        self.builder.rows()
    }

    /// How many rows more it takes.
    pub fn rows_left(&self) -> usize {
        debug_assert!(self.builder.rows() <= self.rows_max, "a batch has more rows than it may");
        self.rows_max - self.builder.rows()
    }

    /// Adds rows; says whether more are wanted.
    #[inline]
    pub fn push(&mut self, rows: LiveRows<'_>) -> Result<bool> {
        self.builder.push(rows)?;
        Ok(self.builder.bytes() < self.bytes_max)
    }

    /// The read met so many tombstones more.
    ///
    /// Errors: `Invalid` where these are too many.
    pub fn meet(&mut self, tombstones: u64) -> Result<()> {
        self.page.add(tombstones, self.builder.rows())
    }

    pub fn is_full(&self) -> bool {
        let has_all = self.charge.is_some() && self.builder.bytes() >= self.bytes_max;
        self.builder.rows() == self.rows_max || has_all
    }

    /// Whether the batch before is to be taken before more is read.
    pub fn take_was_long(&mut self) -> bool {
        std::mem::take(&mut self.was_long)
    }

    /// Whether another row has to wait, for the batch before or for memory.
    pub fn needs_room(&self) -> bool {
        self.was_long || self.uncharged_bytes().is_some()
    }

    /// Bytes with the next row, if they are so many that a charge is due.
    pub fn uncharged_bytes(&self) -> Option<usize> {
        let next = self.builder.bytes().saturating_add(self.row_bytes);
        (self.charge.is_none() && next >= BATCH_BYTES_UNCHARGED).then_some(next)
    }

    /// It has memory for so many bytes.
    pub fn charged(&mut self, charge: BatchCharge, bytes: usize) {
        assert!(self.charge.is_none(), "a batch is charged twice");
        self.charge = Some(charge);
        self.bytes_max = bytes.min(BATCH_BYTES_MAX);
    }

    /// The batch; a longer one may follow it.
    ///
    /// Errors: those of the builder.
    pub fn finish(&mut self) -> Result<Formed> {
        let rows = self.builder.rows();
        assert!(rows <= self.rows_max, "a batch of {rows} rows, {} is most", self.rows_max);
        let batch = self.builder.finish()?;
        assert_eq!(batch.num_rows(), rows, "a batch has not the rows that were pushed");
        let page = self.page.end(rows);
        let bytes = batch.get_array_memory_size();
        probe::note(|| format!("sends a batch, rows: {rows}, bytes: {bytes}"));
        self.row_bytes = bytes / rows.max(1);
        self.was_long = bytes >= BATCH_BYTES_MAX / 2;
        self.rows_max = (self.rows_max * 2).min(BATCH_ROWS_MAX);
        self.bytes_max = BATCH_BYTES_UNCHARGED;
        let mut charge = self.charge.take();
        if let Some(charge) = &mut charge {
            charge.settle(bytes);
        }
        Ok(Formed { batch, charge, page, bytes })
    }

    /// The last batch, if it has rows; and the tombstones behind it, where they are many.
    ///
    /// Errors: as [`finish`](Self::finish).
    pub fn end(&mut self) -> Result<(Option<Formed>, Option<TombstonePage>)> {
        let last = match self.builder.rows() {
            0 => None,
            _ => Some(self.finish()?),
        };
        let page = self.page.end(0);
        probe::note(|| "all rows are merged and sent".to_owned());
        Ok((last, page))
    }
}
