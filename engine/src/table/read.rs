//! What a read asks for, and how its rows become batches.

use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::table::Table;
use super::tombstones::{ManyTombstones, Page};
use crate::admission::{BatchCharge, LevelId, Permit};
use crate::batch::{BatchBuilder, RecordBatch, Stamp};
use crate::clock::Deadline;
use crate::config::{BATCH_BYTES_MAX, BATCH_BYTES_UNCHARGED, BATCH_ROWS_FIRST, BATCH_ROWS_MAX};
use crate::error::{Error, Result};
use crate::mutation::{ClusteringRange, Filled, PartitionRange, Slice};
use crate::probe::{self, Count, timer};
use crate::reader::{LiveRows, QueryReader, RowFilter};
use crate::runtime;
use crate::schema::table_schema::SchemaRef;
use crate::schema::{ColumnId, PartitionKey, Token};

/// A read of one table on one shard.
#[derive(Debug, Clone)]
pub struct ReadCommand {
    pub schema: SchemaRef,
    pub partitions: Partitions,
    /// Rows of each partition, and the direction in which they come.
    pub slice: Slice,
    /// Columns of the result, in order; none to count rows only.
    pub columns: Vec<ColumnId>,
    /// Write times and times to live, which stand behind the columns.
    pub stamps: Vec<Stamp>,
    /// Stop after so many rows.
    pub row_limit: Option<usize>,
    /// After so many rows of a partition read on at the next one; at least 1.
    pub partition_limit: Option<usize>,
    /// End with `Timeout` where not all was read by then.
    pub deadline: Option<Deadline>,
    /// Whose part of the shard it takes.
    pub level: LevelId,
    /// Ask the row cache for nothing and leave nothing in the caches: for reads that will not come
    /// again.
    pub past_cache: bool,
    /// Leaves out rows that fail its comparisons, as far as their bytes tell; not beside a
    /// `partition_limit`.
    pub filter: Option<RowFilter>,
}

/// Partitions of a read.
#[derive(Debug, Clone)]
pub enum Partitions {
    /// These, visited in ring order, each once. [`Database::read`](crate::Database::read) asks each
    /// shard for its own; one shard refuses those of another.
    Keys(Vec<PartitionKey>),
    /// Every partition of this shard, in ring order.
    Shard(u32),
    /// Those of a shard that lie between two tokens, both included, in ring order. They are read
    /// past the row cache.
    Tokens { shard: u32, min: Token, max: Token },
}

/// A batch on its way to its receiver, with the memory that it has; a short one has none of its
/// own.
#[derive(Debug)]
pub struct Sent {
    pub batch: RecordBatch,
    pub charge: Option<BatchCharge>,
}

/// What is told of a read beside its batches.
#[derive(Debug, Default)]
pub struct Told {
    /// All batches were sent.
    pub is_complete: AtomicBool,
    pub tombstones: ManyTombstones,
}

/// Where the batches of a read go.
type Batches = mpsc::Sender<Result<Sent>>;

impl Table {
    /// Runs a read and sends its batches; stops early when the receiver is gone. While the receiver
    /// takes nothing, others have the turn of the permit.
    pub async fn stream(
        self: Rc<Self>,
        command: ReadCommand,
        now_seconds: i32,
        (batches, many): (Batches, &ManyTombstones),
        permit: &mut Permit,
    ) {
        let ended = self.run(command, now_seconds, (&batches, many), permit).await;
        permit.answer(0);
        if let Err(error) = ended {
            self.damage.add(&error, false);
            permit.step_aside();
            // The receiver may be gone already; then nobody wants the error.
            let _ = batches.send(Err(error)).await;
        }
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
            Partitions::Shard(_) => return vec![PartitionRange::full()],
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

    async fn run(
        &self,
        command: ReadCommand,
        now_seconds: i32,
        (batches, many): (&Batches, &ManyTombstones),
        permit: &mut Permit,
    ) -> Result<()> {
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
        let dropped = self.dropped_cells();
        let ranges = self.ranges(command.partitions);
        let has_statics = command.schema.has_static_columns();
        let selected = (&command.columns[..], &command.stamps[..]);
        let page = Page::new(&self.tombstones, &command.schema, now_seconds, many);
        let builder = BatchBuilder::with_stamps(command.schema.clone(), selected, now_seconds);
        let builder = builder.filtered(command.filter);
        let mut output = Output::new((builder, page), batches, permit);
        let mut left = command.row_limit.unwrap_or(usize::MAX);
        // A partition without live rows shows its static row, unless rows were asked for by key.
        // So does none of a read that was planned before there were static columns.
        let show_static_only = command.slice.ranges == [ClusteringRange::full()] && has_statics;
        'ranges: for range in &ranges {
            let source = self.read(range, &command.slice, command.past_cache);
            let reader = QueryReader::new(source, now_seconds, show_static_only);
            let mut reader = reader.without(dropped.clone()).at_most(command.partition_limit);
            loop {
                if left == 0 {
                    break 'ranges;
                }
                if !output.make_room().await? {
                    return Ok(());
                }
                if output.is_full() && !output.send_and_go_on().await? {
                    return Ok(());
                }
                let before = output.builder.rows();
                let wanted = left.min(output.rows_max - before);
                let pulled = reader.pull(wanted, &mut |rows| output.push(rows))?;
                let added = output.builder.rows() - before;
                assert!(added <= wanted, "{added} rows came where {wanted} were wanted");
                left -= added;
                output.meet(reader.take_dead())?;
                if output.is_full() && !output.send_and_go_on().await? {
                    return Ok(());
                }
                if pulled == Filled::End {
                    break;
                }
                runtime::maybe_yield().await;
                if batches.is_closed() {
                    return Ok(());
                }
                if pulled == Filled::Waits && !reader.refill().await? {
                    break;
                }
            }
        }
        output.end().await?;
        probe::note(|| "all rows are merged and sent".to_owned());
        Ok(())
    }
}

/// The batch in formation. It ends by rows or by bytes; what it has beyond a little is charged
/// before it is built.
struct Output<'a> {
    builder: BatchBuilder,
    /// Tombstones since the last batch.
    page: Page<'a>,
    batches: &'a Batches,
    permit: &'a mut Permit,
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

impl<'a> Output<'a> {
    fn new(
        (builder, page): (BatchBuilder, Page<'a>),
        batches: &'a Batches,
        permit: &'a mut Permit,
    ) -> Self {
        Output {
            builder,
            page,
            batches,
            permit,
            rows_max: BATCH_ROWS_FIRST,
            bytes_max: BATCH_BYTES_UNCHARGED,
            charge: None,
            row_bytes: 0,
            was_long: false,
        }
    }

    /// Adds rows; says whether more are wanted.
    fn push(&mut self, rows: LiveRows<'_>) -> Result<bool> {
        self.builder.push(rows)?;
        Ok(self.builder.bytes() < self.bytes_max)
    }

    /// The read met so many tombstones more.
    ///
    /// Errors: `Invalid` where these are too many.
    fn meet(&mut self, tombstones: u64) -> Result<()> {
        self.page.add(tombstones, self.builder.rows())
    }

    fn is_full(&self) -> bool {
        let has_all = self.charge.is_some() && self.builder.bytes() >= self.bytes_max;
        self.builder.rows() == self.rows_max || has_all
    }

    /// Sees to it that there is memory for another row; false when the receiver is gone.
    ///
    /// Errors: `Overloaded` when it takes too long.
    async fn make_room(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.was_long) && !self.wait_until_taken().await {
            return Ok(false);
        }
        let at_hand = self.builder.bytes();
        let next = at_hand.saturating_add(self.row_bytes);
        if self.charge.is_some() || next < BATCH_BYTES_UNCHARGED {
            return Ok(true);
        }
        let bytes = self.permit.batch_bytes().max(next);
        let _waiting = timer(Count::TimeAdmission);
        let charge = tokio::select! {
            biased;
            charge = self.permit.charge_batch(bytes) => charge?,
            () = self.batches.closed() => return Ok(false),
        };
        self.charge = Some(charge);
        self.bytes_max = bytes.min(BATCH_BYTES_MAX);
        Ok(true)
    }

    /// Hands over the batch; false when the receiver is gone.
    async fn send(&mut self) -> Result<bool> {
        let rows = self.builder.rows();
        assert!(rows <= self.rows_max, "a batch of {rows} rows, {} is most", self.rows_max);
        let batch = self.builder.finish()?;
        assert_eq!(batch.num_rows(), rows, "a batch has not the rows that were pushed");
        self.page.end(rows);
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
        self.permit.answer(bytes);
        let sent = match self.batches.try_send(Ok(Sent { batch, charge })) {
            Ok(()) => return Ok(true),
            Err(TrySendError::Closed(_)) => return Ok(false),
            Err(TrySendError::Full(sent)) => sent,
        };
        self.permit.step_aside();
        Ok(self.batches.send(sent).await.is_ok())
    }

    /// Hands over the last batch, if there is one. A receiver that is gone wants nothing more.
    async fn end(&mut self) -> Result<()> {
        if self.builder.rows() > 0 {
            self.send().await?;
        }
        self.page.end(0);
        Ok(())
    }

    /// As `send`, when more comes.
    async fn send_and_go_on(&mut self) -> Result<bool> {
        let is_sent = self.send().await?;
        // Nobody waits for the rest of a read whose receiver is gone.
        if is_sent {
            self.step_in().await;
        }
        Ok(is_sent)
    }

    /// Waits until the receiver has taken all that was sent; false when it is gone.
    async fn wait_until_taken(&mut self) -> bool {
        let all = self.batches.max_capacity();
        match self.batches.try_reserve_many(all) {
            Ok(_) => return true,
            Err(TrySendError::Closed(())) => return false,
            Err(TrySendError::Full(())) => {}
        }
        self.permit.step_aside();
        let is_there = self.batches.reserve_many(all).await.is_ok();
        if is_there {
            self.step_in().await;
        }
        is_there
    }

    async fn step_in(&mut self) {
        let _waiting = timer(Count::TimeAdmission);
        self.permit.step_in().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::super::tombstones::{TombstoneLimits, TombstoneWatch};
    use super::*;
    use crate::admission::{Admission, FailFast, ReadMemory};
    use crate::clock::SimulatedClock;
    use crate::mutation::{Cell, Liveness, Row};
    use crate::policy::admission::ReadClass;
    use crate::reader::LiveContent;
    use crate::schema::ClusteringKey;

    #[test]
    fn the_next_batch_of_long_rows_is_charged_before_a_row_of_it_is_read() {
        const LONG: usize = 3 << 20;
        let memory = ReadMemory::new(64 << 20);
        let admission = Admission::new(SimulatedClock::new(1), memory.clone(), FailFast::new(1));
        let mut permit = block_on(admission.turn(ReadClass::Keys, LevelId::DEFAULT, None)).unwrap();
        let (sender, mut receiver) = mpsc::channel(2);
        let schema = crate::table::tests::schema(false);
        let builder = BatchBuilder::new(schema.clone(), &[ColumnId(1)], 0);
        let watch = TombstoneWatch::from(TombstoneLimits::default());
        let many = ManyTombstones::default();
        let page = Page::new(&watch, &schema, 0, &many);
        let mut output = Output::new((builder, page), &sender, &mut permit);
        let partition = Rc::new(PartitionKey::from_bytes(1_i32.to_be_bytes()));
        let row = Row {
            liveness: Some(Liveness::at(1)),
            cells: vec![(ColumnId(1), Cell::live(1, vec![b'v'; LONG]))],
            ..Row::default()
        };
        for round in 0..3 {
            assert!(block_on(output.make_room()).unwrap());
            // How long rows are, the first batch shows.
            if round > 0 {
                let charged = memory.status().used;
                assert!(charged >= LONG as u64, "batch {round} is charged with {charged} bytes");
            }
            let content = LiveContent::Row { key: &ClusteringKey::empty(), row: &row };
            output.push(LiveRows { partition: &partition, content, static_row: None }).unwrap();
            assert!(block_on(output.make_room()).unwrap());
            assert!(memory.status().used >= LONG as u64, "a batch that is there is charged");
            assert!(block_on(output.send_and_go_on()).unwrap());
            drop(receiver.try_recv().unwrap());
            assert_eq!(memory.status().used, 0, "its receiver has let go of it");
        }
    }
}
