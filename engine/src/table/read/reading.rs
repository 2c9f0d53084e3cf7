//! A read under way, between two waits.

use std::rc::Rc;
use std::sync::Arc;
use std::vec;

use super::command::{Partitions, ReadCommand};
use super::forming::{Formed, Forming};
use super::tombstones::{Page, TombstonePage};
use crate::batch::{BatchBuilder, RecordBatch};
use crate::error::{Error, Result};
use crate::mutation::{Filled, PartitionRange, Slice};
use crate::reader::QueryReader;
use crate::runtime;
use crate::table::Table;

/// See the head of this file.
pub struct Reading {
    pub(super) table: Rc<Table>,
    now_seconds: i32,
    slice: Slice,
    past_cache: bool,
    partition_limit: Option<usize>,
    show_static_only: bool,
    /// What is to be read behind the range that is read.
    ranges: vec::IntoIter<PartitionRange>,
    /// Of the range that is read.
    reader: Option<QueryReader>,
    /// Rows that are still wanted.
    rows_left: usize,
    pub(super) forming: Forming,
}

/// What a reading comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// More is to be read; others may have their turn.
    Pause,
    /// What is read has to be waited for.
    Wait,
    /// The next row has to wait, for the batch before or for memory.
    Room,
    /// A batch is full.
    Full,
    End,
}

/// All that a read gives.
pub struct Whole {
    /// `None` where there are no rows.
    pub batch: Option<RecordBatch>,
    /// Where it met many tombstones.
    pub page: Option<TombstonePage>,
}

impl Table {
    /// Begins a read.
    ///
    /// Errors: `Invalid` for a command that contradicts itself or the table.
    pub fn begin(self: Rc<Self>, command: ReadCommand, now_seconds: i32) -> Result<Reading> {
        if !command.slice.is_normal() {
            let why = "ranges of a read are in order, disjoint, and none is empty";
            return Err(Error::invalid(why));
        }
        if command.partition_limit == Some(0) {
            return Err(Error::invalid("a read wants at least one row of each partition"));
        }
        if command.partition_limit.is_some() && command.filter.is_some() {
            return Err(Error::invalid("rows of a partition are counted before a filter"));
        }
        self.check_columns(&command)?;
        let ReadCommand { schema, partitions, slice, columns, stamps, filter, .. } = command;
        let owned = match &partitions {
            Partitions::Owned { ranges, .. } => Some(Arc::clone(ranges)),
            _ => None,
        };
        let ranges = self.ranges(partitions).into_iter();
        // A partition without live rows shows its static row, unless rows were asked for by key.
        // So does none of a read that was planned before there were static columns.
        let is_full = slice.is_full();
        let show_static_only = is_full && schema.has_static_columns();
        let page = Page::new(&self.tombstones, &schema, now_seconds);
        let builder = BatchBuilder::with_stamps(schema, (&columns, &stamps), now_seconds);
        Ok(Reading {
            table: self,
            now_seconds,
            slice,
            past_cache: command.past_cache,
            partition_limit: command.partition_limit,
            show_static_only,
            ranges,
            reader: None,
            rows_left: command.row_limit.unwrap_or(usize::MAX),
            forming: Forming::new(builder.filtered(filter).owned(owned), page),
        })
    }

    /// Errors: `Invalid` for a stamp of a column that has none, and for a read of a column that was
    /// dropped since it was planned.
    fn check_columns(&self, command: &ReadCommand) -> Result<()> {
        command.stamps.iter().try_for_each(|stamp| stamp.check(&command.schema))?;
        let schema = self.schema();
        if schema.drops.is_empty() {
            return Ok(());
        }
        let stamped = command.stamps.iter().map(|stamp| &stamp.column);
        let named = command.columns.iter().chain(stamped);
        let mut columns = named.flat_map(|id| schema.columns.get(id.0 as usize));
        match columns.find(|column| column.is_dropped()) {
            None => Ok(()),
            Some(column) => Err(Error::invalid(format!(
                "column '{}' of {} was dropped while it was read: ask again",
                column.name,
                schema.full_name()
            ))),
        }
    }

    /// What is read one after another.
    fn ranges(&self, partitions: Partitions) -> Vec<PartitionRange> {
        let mut keys = match partitions {
            Partitions::Keys(keys) => keys,
            Partitions::Shard(_) | Partitions::Owned { .. } => return vec![PartitionRange::full()],
            Partitions::Tokens { min, max, .. } => {
                return vec![PartitionRange::Tokens { min, max }];
            }
        };
        keys.sort();
        keys.dedup();
        for key in &keys {
            let shard = key.token().shard(self.shard_count);
            debug_assert_eq!(shard, self.shard, "{key:?} is read on another shard");
        }
        keys.into_iter().map(PartitionRange::Single).collect()
    }
}

impl Reading {
    /// Reads on, as far as that needs no waiting. Where it does, another step says so again.
    ///
    /// Errors: those of the reader; `Invalid` where too many tombstones were met.
    pub(super) fn step(&mut self) -> Result<Step> {
        if self.rows_left == 0 || !self.is_in_range() {
            return Ok(Step::End);
        }
        let Reading { reader: Some(reader), forming, .. } = self else {
            unreachable!("it stands in a range")
        };
        if forming.needs_room() {
            return Ok(Step::Room);
        }
        if forming.is_full() {
            return Ok(Step::Full);
        }
        let before = forming.rows();
        let wanted = self.rows_left.min(forming.rows_left());
        let pulled = reader.pull(wanted, &mut |rows| forming.push(rows))?;
        let dead = reader.take_dead();
        if pulled == Filled::End {
            self.reader = None;
        }
        let added = forming.rows() - before;
        assert!(added <= wanted, "{added} rows came where {wanted} were wanted");
        self.rows_left -= added;
        forming.meet(dead)?;
        // What is full is sent before more is waited for.
        Ok(match pulled {
            _ if forming.is_full() => Step::Full,
            Filled::Waits => Step::Wait,
            Filled::Some | Filled::End => Step::Pause,
        })
    }

    /// Goes to the next range, where the last one is over; false where there is none.
    fn is_in_range(&mut self) -> bool {
        if self.reader.is_none()
            && let Some(range) = self.ranges.next()
        {
            let source = self.table.read(&range, &self.slice, self.past_cache);
            let reader = QueryReader::new(source, self.now_seconds, self.show_static_only);
            let reader = reader.without(self.table.dropped_cells());
            self.reader = Some(reader.at_most(self.partition_limit));
        }
        self.reader.is_some()
    }

    /// Waits for more of the range that is read.
    ///
    /// Errors: those of the source.
    pub(super) async fn refill(&mut self) -> Result<()> {
        debug_assert!(self.reader.is_some(), "a read waits between two ranges");
        if let Some(reader) = &mut self.reader
            && !reader.refill().await?
        {
            self.reader = None;
        }
        Ok(())
    }

    /// All that the read gives, where that needs no waiting and fits one batch; else it goes on.
    ///
    /// Errors: as those of a step.
    pub fn at_once(&mut self) -> Result<Option<Whole>> {
        let whole = self.whole();
        self.table.noting_damage(whole)
    }

    fn whole(&mut self) -> Result<Option<Whole>> {
        loop {
            match self.step()? {
                Step::End => break,
                Step::Pause if !runtime::need_preempt() => {}
                Step::Pause | Step::Wait | Step::Room | Step::Full => return Ok(None),
            }
        }
        let (last, behind) = self.forming.end()?;
        let Some(Formed { batch, page, .. }) = last else {
            return Ok(Some(Whole { batch: None, page: behind }));
        };
        assert!(batch.num_rows() > 0, "a read without rows has a batch");
        debug_assert!(behind.is_none(), "a page ended twice");
        Ok(Some(Whole { batch: Some(batch), page }))
    }
}
