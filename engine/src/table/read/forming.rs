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

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use futures::executor::block_on;

    use super::super::tombstones::{TombstoneLimits, TombstoneWatch};
    use super::*;
    use crate::admission::{Admission, FailFast, LevelId, ReadMemory};
    use crate::clock::SimulatedClock;
    use crate::mutation::{Cell, FlatRow, Liveness, Row};
    use crate::policy::admission::ReadClass;
    use crate::reader::LiveContent;
    use crate::schema::{ClusteringKey, ColumnId, PartitionKey};

    fn forming() -> Forming {
        let schema = crate::table::tests::schema(false);
        let builder = BatchBuilder::new(schema.clone(), &[ColumnId(1)], 0);
        let watch = Rc::new(TombstoneWatch::from(TombstoneLimits { warn: 10, max: 100 }));
        Forming::new(builder, Page::new(&watch, &schema, 0))
    }

    /// Adds rows with a value of so many bytes; whether more are wanted.
    fn push(forming: &mut Forming, rows: usize, bytes: usize) -> bool {
        let row = Row {
            liveness: Some(Liveness::at(1)),
            cells: vec![(ColumnId(1), Cell::live(1, vec![b'v'; bytes]))],
            ..Row::default()
        };
        let flat = FlatRow::row(ClusteringKey::empty().as_ordered(), &row);
        let all = vec![&flat; rows];
        let partition = Rc::new(PartitionKey::from_bytes(1_i32.to_be_bytes()));
        let content = LiveContent::Flat(&all);
        forming.push(LiveRows { partition: &partition, content, static_row: None }).unwrap()
    }

    #[test]
    fn each_batch_has_twice_the_rows_of_the_one_before_up_to_the_most() {
        let mut forming = forming();
        let mut most = BATCH_ROWS_FIRST;
        for number in 0..9 {
            assert_eq!((forming.rows(), forming.rows_left()), (0, most), "batch {number}");
            push(&mut forming, most - 1, 0);
            assert!(!forming.is_full() && forming.rows_left() == 1, "batch {number}");
            push(&mut forming, 1, 0);
            assert!(forming.is_full() && forming.rows_left() == 0, "batch {number}");
            let formed = forming.finish().unwrap();
            assert_eq!(formed.batch.num_rows(), most, "batch {number}");
            assert!(formed.charge.is_none() && formed.page.is_none(), "batch {number}");
            most = (2 * most).min(BATCH_ROWS_MAX);
        }
        assert_eq!(most, BATCH_ROWS_MAX);
    }

    #[test]
    fn a_batch_ends_by_its_bytes_once_it_is_charged() {
        const CHARGED: usize = 40_000;
        let memory = ReadMemory::new(64 << 20);
        let admission = Admission::new(SimulatedClock::new(1), memory, FailFast::new(1));
        let mut permit = block_on(admission.turn(ReadClass::Keys, LevelId::DEFAULT, None)).unwrap();
        let mut forming = forming();
        for round in 0..3 {
            assert!(!forming.needs_room(), "batch {round} begins without a charge");
            while push(&mut forming, 1, 1000) {}
            assert!((10..=17).contains(&forming.rows()), "batch {round}: {}", forming.rows());
            assert!(!forming.is_full() && forming.needs_room(), "batch {round} is to be charged");
            assert!(forming.uncharged_bytes() >= Some(BATCH_BYTES_UNCHARGED), "batch {round}");
            let charge = block_on(permit.charge_batch(CHARGED)).unwrap();
            forming.charged(charge, CHARGED);
            assert!(!forming.is_full() && !forming.needs_room(), "batch {round} is charged");
            assert_eq!(forming.uncharged_bytes(), None, "batch {round}");
            while push(&mut forming, 1, 1000) {}
            assert!((30..=40).contains(&forming.rows()), "batch {round}: {}", forming.rows());
            assert!(forming.is_full() && forming.rows_left() > 0, "batch {round} ends by bytes");
            let formed = forming.finish().unwrap();
            assert!(formed.bytes >= CHARGED - 1000 && formed.charge.is_some(), "batch {round}");
        }
    }

    #[test]
    fn a_batch_of_half_of_the_most_bytes_is_waited_for_once() {
        const HALF: usize = BATCH_BYTES_MAX / 2;
        for (rows, bytes, is_long) in [(1, HALF, true), (4, HALF / 4, true), (1, HALF / 4, false)] {
            let mut forming = forming();
            assert!(!forming.take_was_long(), "there is none before");
            push(&mut forming, rows, bytes);
            let formed = forming.finish().unwrap();
            let what = format!("{rows} rows of {bytes} bytes, {} in all", formed.bytes);
            assert!(forming.needs_room(), "{what}: another row would be as long");
            assert_eq!(forming.take_was_long(), is_long, "{what}");
            assert!(!forming.take_was_long(), "{what}: it was waited for");
        }
    }

    #[test]
    fn tombstones_of_the_last_page_are_told_whether_it_has_rows_or_not() {
        for (rows, before, behind) in [(0, 0, 0), (0, 10, 0), (3, 9, 9), (3, 10, 0)] {
            let mut forming = forming();
            if rows > 0 {
                push(&mut forming, rows, 5);
            }
            forming.meet(before).unwrap();
            let what = format!("{rows} rows, {before} tombstones, {behind} more");
            forming.meet(behind).unwrap();
            let (last, page) = forming.end().unwrap();
            assert_eq!(last.as_ref().map_or(0, |last| last.batch.num_rows()), rows, "{what}");
            let met = before + behind;
            let told = last.and_then(|last| last.page).or(page).map(|page| (page.met, page.rows));
            assert_eq!(told, (met >= 10).then_some((met, rows)), "{what}");
            let (last, page) = forming.end().unwrap();
            assert!(last.is_none() && page.is_none(), "{what}: it was told already");
        }
    }
}
