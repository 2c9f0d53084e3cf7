//! Collects live rows into an Arrow batch, a builder a column.
//!
//! Not here: where parts of rows go (`layout.rs`), how stored values become those of one Arrow
//! column (`column.rs`).

use std::rc::Rc;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};

use super::column::ColumnBuilder;
use super::layout::{Layout, ValueColumn};
use super::stamp::Stamp;
use crate::error::{Error, Result};
use crate::mutation::{FlatRow, MultiCell, Row};
use crate::reader::{LiveContent, LiveRows, RowFilter};
use crate::schema::order::{decode_component, is_null};
use crate::schema::table_schema::SchemaRef as TableSchemaRef;
use crate::schema::{ColumnId, DataType, PartitionKey, Token};

/// See the head of this file.
pub struct BatchBuilder {
    layout: Rc<Layout>,
    columns: Columns,
    now_seconds: i32,
    rows: usize,
    filter: Option<Filtering>,
    /// Ranges of tokens, where partitions outside of them are left out.
    owned: Option<Arc<[(Token, Token)]>>,
    /// Such a key is stored as its value is, and need not be split.
    has_one_partition_column: bool,
    /// The partition key last split, since neighbours mostly share it.
    last_partition: Option<Rc<PartitionKey>>,
    partition_components: Vec<Vec<u8>>,
    /// Room for a component.
    component: Vec<u8>,
}

/// The columns' builders, in the order of the batch.
struct Columns {
    schema: TableSchemaRef,
    columns: Vec<OutputColumn>,
    /// Of the values since the last batch, as they are stored.
    bytes: usize,
}

/// Rows that are judged before it is asked whether that is worth its time, and rows that pass
/// unjudged where it was not: whoever looks at the batch judges them all.
const JUDGED_AT_ONCE: u64 = 4096;
const PASSED_UNJUDGED: u64 = 16 * JUDGED_AT_ONCE;
/// It is worth it where one row in so many is left out.
const WORTH_ONE_IN: u64 = 16;

/// A filter, and the rows that it left out since that was told.
struct Filtering {
    filter: RowFilter,
    left_out: u64,
    /// Whether the rows at hand are judged.
    judges: bool,
    /// Rows of this stretch, and those of them that were left out.
    judged: u64,
    judged_out: u64,
    /// Rows that still pass unjudged.
    passing: u64,
}

impl Filtering {
    fn new(filter: RowFilter) -> Self {
        let (left_out, judges, judged, judged_out, passing) = Default::default();
        Filtering { filter, left_out, judges, judged, judged_out, passing }
    }

    /// So many rows come next: whether they are judged.
    #[inline]
    fn begin(&mut self, rows: u64) -> bool {
        self.judges = self.passing == 0;
        if !self.judges {
            self.passing = self.passing.saturating_sub(rows);
            return false;
        }
        if self.judged >= JUDGED_AT_ONCE {
            let is_worth_it = self.judged_out * WORTH_ONE_IN >= self.judged;
            self.passing = if is_worth_it { 0 } else { PASSED_UNJUDGED };
            (self.judged, self.judged_out) = (0, 0);
        }
        self.judged += rows;
        true
    }

    /// Leaves rows out, or not; says which.
    #[inline]
    fn keep(&mut self, keeps: bool, rows: u64) -> bool {
        if !keeps {
            self.left_out += rows;
            self.judged_out += rows;
        }
        keeps
    }

    /// Begins with rows of a partition: whether any of them may be kept.
    #[inline]
    fn keeps_partition(&mut self, key: &PartitionKey, rows: u64) -> bool {
        let keeps = !self.begin(rows) || self.filter.keeps_partition(key);
        self.keep(keeps, rows)
    }

    #[inline]
    fn keeps(&mut self, flat: &FlatRow, now_seconds: i32) -> bool {
        let keeps = !self.judges || self.filter.keeps(flat, now_seconds);
        self.keep(keeps, 1)
    }

    fn keeps_row(&mut self, row: &Row, now_seconds: i32) -> bool {
        let keeps = !self.judges || self.filter.keeps_row(row, now_seconds);
        self.keep(keeps, 1)
    }
}

impl Drop for Filtering {
    fn drop(&mut self) {
        self.filter.leave_out(self.left_out);
    }
}

struct OutputColumn {
    id: ColumnId,
    builder: ColumnBuilder,
}

impl BatchBuilder {
    /// A builder for the named columns, in that order; values as of `now_seconds`.
    pub fn new(schema: TableSchemaRef, columns: &[ColumnId], now_seconds: i32) -> Self {
        BatchBuilder::with_stamps(schema, (columns, &[]), now_seconds)
    }

    /// The same with stamps behind the columns.
    pub fn with_stamps(
        schema: TableSchemaRef,
        (columns, stamps): (&[ColumnId], &[Stamp]),
        now_seconds: i32,
    ) -> Self {
        let output =
            |id: ColumnId, ty: &DataType| OutputColumn { id, builder: ColumnBuilder::new(ty) };
        let values = columns.iter().map(|id| output(*id, &schema.column(*id).ty));
        let stamped = stamps.iter().map(|stamp| output(stamp.column, &stamp.kind.data_type()));
        let outputs = values.chain(stamped).collect();
        BatchBuilder {
            has_one_partition_column: schema.partition_key().count() == 1,
            layout: Layout::of(&schema, columns, stamps),
            columns: Columns { schema, columns: outputs, bytes: 0 },
            now_seconds,
            rows: 0,
            filter: None,
            owned: None,
            last_partition: None,
            partition_components: Vec::new(),
            component: Vec::new(),
        }
    }

    /// As it is, but that it leaves rows out.
    pub fn filtered(mut self, filter: Option<RowFilter>) -> Self {
        self.filter = filter.map(Filtering::new);
        self
    }

    /// As it is, but that it leaves out partitions outside of these ranges of tokens, which are
    /// sorted and disjoint, if there are any.
    pub fn owned(mut self, ranges: Option<Arc<[(Token, Token)]>>) -> Self {
        debug_assert!(ranges.iter().all(|ranges| ranges.is_sorted()), "{ranges:?}");
        self.owned = ranges;
        self
    }

    fn owns(&self, key: &PartitionKey) -> bool {
        let Some(ranges) = &self.owned else { return true };
        let token = key.token();
        let place = ranges.partition_point(|(_, last)| *last < token);
        ranges.get(place).is_some_and(|(first, _)| *first <= token)
    }

    /// Rows collected since the last `finish`.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the values collected since the last `finish`, as they are stored: about what the
    /// batch has, but for fixed parts of each row.
    pub fn bytes(&self) -> usize {
        self.columns.bytes
    }

    /// Adds rows, but for those that a filter leaves out.
    ///
    /// Errors: `Invalid` when stored bytes are no value of their column's type.
    pub fn push(&mut self, live: LiveRows<'_>) -> Result<()> {
        if !self.owns(live.partition) {
            return Ok(());
        }
        if let Some(filter) = &mut self.filter
            && !filter.keeps_partition(live.partition, live.content.rows())
        {
            return Ok(());
        }
        let rows = match live.content {
            LiveContent::Flat(rows) => {
                let mut kept = 0;
                for flat in rows {
                    if let Some(filter) = &mut self.filter
                        && !filter.keeps(flat, self.now_seconds)
                    {
                        continue;
                    }
                    kept += 1;
                    self.push_clustering(flat.key())?;
                    self.push_flat(flat)?;
                    if !self.layout.regular_stamps.is_empty() {
                        self.push_stamps(Some(&flat.thaw()))?;
                    }
                }
                kept
            }
            LiveContent::Row { row, .. }
                if let Some(filter) = &mut self.filter
                    && !filter.keeps_row(row, self.now_seconds) =>
            {
                0
            }
            LiveContent::Row { key, row } => {
                self.push_clustering(key.as_ordered())?;
                self.push_row(Some(row))?;
                self.push_stamps(Some(row))?;
                1
            }
            LiveContent::StaticOnly => {
                self.push_clustering(&[])?;
                self.push_row(None)?;
                self.push_stamps(None)?;
                1
            }
        };
        if !self.layout.partition.is_empty() && rows > 0 {
            self.push_partition(live.partition, rows)?;
        }
        for column in &self.layout.statics {
            for _ in 0..rows {
                self.columns.push_of(*column, live.static_row, self.now_seconds)?;
            }
        }
        for (stamp, output) in &self.layout.static_stamps {
            for _ in 0..rows {
                self.columns.push_stamp((*stamp, *output), live.static_row, self.now_seconds)?;
            }
        }
        self.rows += rows;
        Ok(())
    }

    fn push_partition(&mut self, key: &Rc<PartitionKey>, rows: usize) -> Result<()> {
        if self.has_one_partition_column {
            for (_, output) in &self.layout.partition {
                for _ in 0..rows {
                    self.columns.push(*output, Some(key.as_bytes()))?;
                }
            }
            return Ok(());
        }
        if !self.last_partition.as_ref().is_some_and(|last| Rc::ptr_eq(last, key)) {
            let components = key.components(&self.columns.schema)?;
            self.partition_components = components.into_iter().map(<[u8]>::to_vec).collect();
            self.last_partition = Some(key.clone());
        }
        for (position, output) in &self.layout.partition {
            let component = self.partition_components.get(usize::from(*position));
            let stored = component.map(Vec::as_slice);
            for _ in 0..rows {
                self.columns.push(*output, stored)?;
            }
        }
        Ok(())
    }

    /// Takes a clustering key apart, as far as that is wanted.
    #[inline]
    fn push_clustering(&mut self, key: &[u8]) -> Result<()> {
        let mut rest = key;
        let mut room = [0; 8];
        for part in &self.layout.clustering {
            let plain = part.plain.and_then(|plain| plain.decode(rest, &mut room));
            let stored = if let Some((stored, taken)) = plain {
                rest = &rest[taken..];
                Some(stored)
            } else if rest.is_empty() {
                None
            } else {
                self.component.clear();
                let taken = decode_component(&part.ty, part.order, rest, &mut self.component)?;
                let has_value = !is_null(part.order, rest);
                rest = &rest[taken..];
                has_value.then_some(self.component.as_slice())
            };
            for output in &part.outputs {
                self.columns.push(*output, stored)?;
            }
        }
        Ok(())
    }

    /// Goes once over the cells, which come in the order of columns.
    #[inline]
    fn push_flat(&mut self, flat: &FlatRow) -> Result<()> {
        if self.layout.regular.is_empty() {
            return Ok(());
        }
        let mut wanted = self.layout.regular.iter();
        let mut next = wanted.next();
        for (id, value) in flat.values(self.now_seconds) {
            while let Some(column) = next
                && column.id <= id
            {
                let stored = if column.id == id { value } else { None };
                self.columns.push(column.output, stored)?;
                next = wanted.next();
            }
            if next.is_none() {
                break;
            }
        }
        for column in next.into_iter().chain(wanted) {
            self.columns.push(column.output, None)?;
        }
        Ok(())
    }

    fn push_row(&mut self, row: Option<&Row>) -> Result<()> {
        for column in &self.layout.regular {
            self.columns.push_of(*column, row, self.now_seconds)?;
        }
        Ok(())
    }

    fn push_stamps(&mut self, row: Option<&Row>) -> Result<()> {
        for wanted in &self.layout.regular_stamps {
            self.columns.push_stamp(*wanted, row, self.now_seconds)?;
        }
        Ok(())
    }

    /// The collected rows as a batch; the builder starts anew.
    ///
    /// Errors: `Invalid` when a key column has no value (a partition of static columns only), or
    /// stored text is none.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let arrays = self.columns.finish()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        self.columns.bytes = 0;
        RecordBatch::try_new_with_options(self.layout.arrow.clone(), arrays, &options)
            .map_err(|error| Error::invalid(error.to_string()))
    }
}

impl Columns {
    /// Appends what a row has of a static or regular column.
    fn push_of(&mut self, column: ValueColumn, row: Option<&Row>, now: i32) -> Result<()> {
        if column.is_multi_cell {
            let multi = row.and_then(|row| row.multi_cell(column.id));
            self.bytes += multi.map_or(0, MultiCell::heap_bytes);
            let pushed = self.columns[column.output].builder.push_multi(multi, now);
            return pushed.map_err(|wanted| self.wrong(column.output, wanted));
        }
        let cell = row.and_then(|row| row.cell(column.id));
        self.push(column.output, cell.and_then(|cell| cell.value_at(now)))
    }

    /// Appends what a row says of a cell beside its value.
    fn push_stamp(
        &mut self,
        (stamp, output): (Stamp, usize),
        row: Option<&Row>,
        now: i32,
    ) -> Result<()> {
        let cell = row.and_then(|row| row.cell(stamp.column));
        let stored = cell.and_then(|cell| stamp.stored(cell, now));
        self.push(output, stored.as_ref().map(|stored| stored.bytes()))
    }

    /// Appends a stored value, or null.
    #[inline]
    fn push(&mut self, output: usize, stored: Option<&[u8]>) -> Result<()> {
        self.bytes += stored.map_or(0, <[u8]>::len);
        let pushed = self.columns[output].builder.push(stored);
        pushed.map_err(|wanted| self.wrong(output, wanted))
    }

    fn finish(&mut self) -> Result<Vec<ArrayRef>> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        for output in 0..self.columns.len() {
            let finished = self.columns[output].builder.finish();
            arrays.push(finished.map_err(|wanted| self.wrong(output, wanted))?);
        }
        Ok(arrays)
    }

    #[cold]
    fn wrong(&self, output: usize, wanted: &'static str) -> Error {
        let column = self.schema.column(self.columns[output].id);
        Error::invalid(format!(
            "a stored value of {}.{} is no {}: {wanted}",
            self.schema.full_name(),
            column.name,
            column.ty.sql_name()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;
    use crate::mutation::Liveness;
    use crate::schema::token::key_with_token;

    #[test]
    fn rows_pass_unjudged_where_few_are_left_out() {
        let filter = RowFilter::among(&table(&DataType::Int), ColumnId(1), &[1]).unwrap();
        let mut filtering = Filtering::new(filter);
        // Of so many rows, how many are judged where one in `one_in` is left out.
        let mut judged = |rows: u64, one_in: u64| {
            let judges = |row: &u64| {
                let judges = filtering.begin(1);
                filtering.keep(!(judges && row.is_multiple_of(one_in)), 1);
                judges
            };
            (0..rows).filter(judges).count() as u64
        };
        assert_eq!(judged(10 * JUDGED_AT_ONCE, WORTH_ONE_IN), 10 * JUDGED_AT_ONCE);
        let stretch = JUDGED_AT_ONCE + PASSED_UNJUDGED;
        let few = judged(10 * stretch, 2 * WORTH_ONE_IN);
        assert!((10 * JUDGED_AT_ONCE..=11 * JUDGED_AT_ONCE).contains(&few), "{few} are judged");
        // What comes behind may be worth it again.
        let again = judged(10 * stretch, 2);
        assert!(again > 9 * stretch, "{again} are judged");
    }

    #[test]
    fn partitions_of_owned_ranges_are_kept_to_both_their_ends() {
        let schema = table(&DataType::Int);
        let row = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
        let flat = FlatRow::row(b"", &row);
        let flats = [&flat];
        let kept = |ranges: Option<&[(i64, i64)]>, token: i64| {
            let owned = |ranges: &[(i64, i64)]| -> Arc<[(Token, Token)]> {
                ranges.iter().map(|(first, last)| (Token(*first), Token(*last))).collect()
            };
            let builder = BatchBuilder::new(schema.clone(), &[ColumnId(1)], 0);
            let mut builder = builder.owned(ranges.map(owned));
            let partition = Rc::new(PartitionKey::from_bytes(key_with_token(Token(token), 0)));
            let content = LiveContent::Flat(&flats);
            builder.push(LiveRows { partition: &partition, content, static_row: None }).unwrap();
            builder.rows() == 1
        };
        let ranges = [(-100, -50), (0, 0), (10, i64::MAX)];
        for token in [-100, -75, -50, 0, 10, 11, i64::MAX] {
            assert!(kept(Some(&ranges), token), "{token} is in one of them");
        }
        for token in [i64::MIN + 1, -101, -49, -1, 1, 9] {
            assert!(!kept(Some(&ranges), token), "{token} is in none of them");
        }
        assert!(kept(None, 5) && !kept(Some(&[]), 5));
    }
}
