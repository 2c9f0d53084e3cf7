//! The parts of a table on one shard, and what a read of it merges.
//!
//! Invariant: every write of the table that this shard acknowledged is in `active`, in `sealed` or
//! in `sstables`, at every moment; sealed memtables stand oldest first and leave in that order.

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::{ready, try_join_all};

use super::compacting::Compacting;
use super::read::TombstoneWatch;
use super::resharding::Resharding;
use crate::cache::{PageCache, RowCache, RowFuture, Underlying};
use crate::commitlog::{Commitlog, ReplayPosition};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::ledger::{Entry, Ledger};
use crate::memtable::Memtable;
use crate::mutation::{FragmentSource, Mutation, PartitionRange, Slice};
use crate::probe::{self, Count};
use crate::reader::{DroppedCells, MergeSource};
use crate::runtime::{self, Gate};
use crate::schema::table_schema::SchemaRef;
use crate::schema::{
    ClusteringKey, ClusteringShape, ColumnId, LargeDataThresholds, OnCorruption, PartitionKey,
    TableId, TableOptions,
};
use crate::sstable::manifest::Manifest;
use crate::sstable::{DamageLog, HashedKey, HeldMemory, ReadPlan, Sstable, SstableInfo};

/// See the head of this file.
pub struct Table {
    /// As it was changed last.
    pub(super) schema: RefCell<SchemaRef>,
    /// Columns that are about to be dropped: they take no writes.
    pub(super) refused_columns: RefCell<Vec<ColumnId>>,
    /// What of the table's cells went with their columns.
    pub(super) dropped_cells: RefCell<Option<DroppedCells>>,
    pub(super) clustering: ClusteringShape,
    pub(super) directory: PathBuf,
    pub(super) disk: Rc<dyn Disk>,
    /// None where the shard has none, for want of room.
    pub(super) commitlog: RefCell<Option<Rc<Commitlog>>>,
    /// Where the manifest's edits are recorded; none of a table that is never written.
    pub(super) ledger: Option<Rc<Ledger>>,
    /// A flush was not settled yet. The position is that up to which SSTables have everything and
    /// which the commitlog was not told; memtables of another shard count's log have none.
    pub(super) owed: Cell<Option<Option<ReplayPosition>>>,
    pub(super) shard: u32,
    pub(super) shard_count: u32,
    /// Bytes of all memtables of the shard, this table's among them.
    pub(super) shard_bytes: Rc<Cell<usize>>,
    pub(super) active: RefCell<Rc<Memtable>>,
    pub(super) sealed: RefCell<VecDeque<Rc<Memtable>>>,
    pub(super) sstables: RefCell<Rc<Sstables>>,
    /// Rises with every change of `sstables`.
    pub(super) generation: Cell<u64>,
    /// What is known in memory of the SSTables' content.
    pub(super) rows: Rc<RowCache>,
    /// Taken for the length of a flush: flushes of a table go one at a time, oldest memtable first.
    pub(super) manifest: tokio::sync::Mutex<Manifest>,
    /// What other shard counts' logs need not replay, by shard and shard count.
    pub(super) foreign_flushed: BTreeMap<(u32, u32), ReplayPosition>,
    pub(super) cache: Rc<PageCache>,
    pub(super) next_generation: Cell<u64>,
    /// Generations that were written and that the manifest could not be told of: to be removed when
    /// it is known again what it says.
    pub(super) unnamed: RefCell<Vec<u64>>,
    /// SSTables that others have replaced and whose files are still there.
    pub(super) replaced: RefCell<Vec<Rc<Sstable>>>,
    /// Numbers of spent files that are gone, which the manifest was not told.
    pub(super) gone: RefCell<Vec<u64>>,
    /// SSTables of which a part was taken and that are gone, which the manifest was not told.
    pub(super) released: RefCell<Vec<u64>>,
    /// SSTables of other shard counts, and how they go.
    pub(super) resharding: Resharding,
    /// SSTables that the manifests name and that could not be opened.
    pub(super) left_out: Vec<SstableInfo>,
    /// What compactions know of the SSTables.
    pub(super) compacting: Compacting,
    pub(super) dropped: Cell<bool>,
    /// What the last flush met, if its cause is in this table alone.
    pub(super) stuck: RefCell<Option<Error>>,
    /// The table is being dropped or truncated.
    pub(super) is_frozen: Cell<bool>,
    /// Who waits for a flush is inside; it is never closed.
    pub(super) flushes_awaited: Gate,
    /// The table is one of foreign SSTables.
    pub(super) is_attached: bool,
    /// From which sizes on data is large, where the table does not say.
    pub(super) large_data: LargeDataThresholds,
    /// How many tombstones reads may meet.
    pub(super) tombstones: Rc<TombstoneWatch>,
    /// The damage that reads met.
    pub(super) damage: Rc<DamageLog>,
}

/// The set of SSTables as of one moment.
#[derive(Clone)]
pub(super) struct Sstables(pub(super) Vec<LiveSstable>);

impl Sstables {
    /// Those that may have a partition, or any one.
    fn admitting(&self, key: Option<HashedKey<'_>>) -> impl Iterator<Item = &LiveSstable> {
        self.0.iter().filter(move |live| key.is_none_or(|key| live.sstable.may_contain(&key)))
    }
}

impl Underlying for Sstables {
    fn read(&self, range: &PartitionRange, slice: &Slice) -> Box<dyn FragmentSource> {
        let plan = ReadPlan::of(range, slice).for_rows();
        let sources = self.0.iter().filter_map(|live| live.sstable.read(&plan));
        MergeSource::merge(sources.collect(), slice.direction)
    }

    fn read_row(
        &self,
        partition: &Rc<PartitionKey>,
        row: ClusteringKey,
        wants_front: bool,
    ) -> RowFuture {
        let read = |live: &LiveSstable, row| {
            live.sstable.clone().read_row(partition.clone(), row, wants_front)
        };
        let mut admitting = self.admitting(Some(HashedKey::of(partition)));
        let first = admitting.next();
        let others: Vec<&LiveSstable> = admitting.collect();
        let passed = self.0.len() - others.len() - usize::from(first.is_some());
        probe::count(Count::SstablesPassed, passed as u64);
        if passed > 0 {
            probe::note(|| format!("SSTables left out by filter or range of keys: {passed}"));
        }
        let Some(first) = first else { return ready(Ok(None)).boxed_local() };
        if others.is_empty() {
            return read(first, row);
        }
        // All at once: each waits for the disk alone.
        let all = [first].into_iter().chain(others).map(|live| read(live, row.clone()));
        let all = try_join_all(all);
        let merged = async {
            Ok(all.await?.into_iter().flatten().reduce(|mut all, one| {
                all.merge(one);
                all
            }))
        };
        merged.boxed_local()
    }

    fn rows_per_opening(&self, range: &PartitionRange) -> usize {
        let (mut files, mut bytes, mut rows) = (0, 0, 0);
        for live in self.admitting(HashedKey::of_range(range)) {
            let info = live.sstable.info();
            files += 1;
            bytes += info.data_bytes;
            rows += info.rows.max(info.partitions);
        }
        ((files * OPENING_BYTES).saturating_mul(rows) / bytes.max(1)) as usize
    }

    fn entries(&self) -> usize {
        let of = |live: &LiveSstable| live.sstable.info().rows + live.sstable.info().partitions;
        self.0.iter().map(of).sum::<u64>() as usize
    }
}

/// Bytes that are read in sequence at the cost of beginning to read an SSTable: of some reads of
/// index and data before it goes on in large pieces, and of what was read ahead for nothing.
const OPENING_BYTES: u64 = 1 << 20;

/// Cached rows that are freed before other tasks have their turn.
const FREED_AT_ONCE_MAX: usize = 64;

/// An SSTable that reads take part in.
#[derive(Clone)]
pub(super) struct LiveSstable {
    pub(super) sstable: Rc<Sstable>,
    /// Written under another shard count: it may hold partitions of other shards too.
    pub(super) is_shared: bool,
    /// The run that it is a fragment of; its own number for one that is a run by itself.
    pub(super) run: u64,
}

/// Sizes of a table on one shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Memtables that take no more writes and are not flushed yet.
    pub sealed_memtables: u64,
    pub memtable_rows: u64,
    pub memtable_bytes: u64,
    pub sstables: u64,
    pub sstable_bytes: u64,
    pub sstable_rows: u64,
}

impl Table {
    /// Stops writes, and waits for those under way, or lets them go on.
    pub async fn freeze(&self, is_frozen: bool) {
        self.is_frozen.set(is_frozen);
        if is_frozen {
            let sealed: Vec<Rc<Memtable>> = self.sealed.borrow().iter().cloned().collect();
            for memtable in sealed.into_iter().chain([self.active()]) {
                memtable.wait_for_writes().await;
            }
            let writes = self.active().writes_in_flight();
            let is_frozen = self.is_frozen.get();
            assert!(writes == 0 || !is_frozen, "{writes} writes to a table that is frozen");
        }
    }

    /// Errors: `Unavailable` while the table is being dropped or truncated.
    pub(super) fn check_not_frozen(&self) -> Result<()> {
        if !self.is_frozen.get() {
            return Ok(());
        }
        let table = self.schema().full_name();
        Err(Error::Unavailable(format!(
            "table '{table}' takes no writes: it is being dropped or truncated, or the catalog \
             could not be written when it was: do that again, or open the database again"
        )))
    }

    /// Checks that a write can be flushed.
    ///
    /// Errors: `Invalid` naming the key or column that does not fit; `Unavailable` for a column
    /// that is being dropped.
    pub fn check(&self, mutation: &Mutation) -> Result<()> {
        let (schema, refused) = (self.schema.borrow(), self.refused_columns.borrow());
        mutation.check(&schema, &self.clustering)?;
        match refused.iter().find(|column| mutation.names(**column)) {
            None => Ok(()),
            Some(column) => Err(Error::Unavailable(format!(
                "column '{}' of {} takes no writes: it is being dropped, or the catalog could not \
                 be written when it was: do that again, or open the database again",
                schema.column(*column).name,
                schema.full_name()
            ))),
        }
    }

    /// Takes no writes to these columns from here on, until the definition is replaced.
    pub fn refuse_columns(&self, columns: Vec<ColumnId>) {
        *self.refused_columns.borrow_mut() = columns;
    }

    pub fn id(&self) -> TableId {
        self.schema.borrow().id
    }

    /// The table's definition as of now.
    pub fn schema(&self) -> SchemaRef {
        self.schema.borrow().clone()
    }

    /// The table's options as of now.
    pub fn options(&self) -> Ref<'_, TableOptions> {
        Ref::map(self.schema.borrow(), |schema| &schema.options)
    }

    /// Replaces the definition by another of the same table: what is read and written from now on
    /// follows it. Memtables, row cache and SSTables know columns by ids, which stay.
    pub fn set_schema(&self, schema: SchemaRef) {
        let before = self.schema.replace(schema.clone());
        assert_eq!(before.id, schema.id, "{} would become another table", before.full_name());
        *self.dropped_cells.borrow_mut() = DroppedCells::of(&schema);
        self.refused_columns.borrow_mut().clear();
        self.compacting.note_change();
    }

    /// What of the table's cells went with their columns, as of now.
    pub(super) fn dropped_cells(&self) -> Option<DroppedCells> {
        self.dropped_cells.borrow().clone()
    }

    /// Whether reads leave damaged parts of files out. What they give is not the whole truth then.
    pub fn skips_damage(&self) -> bool {
        self.options().on_corruption == OnCorruption::Skip
    }

    /// The damage that reads of the table met on this shard.
    pub fn damage(&self) -> &Rc<DamageLog> {
        &self.damage
    }

    /// What is known in memory of the SSTables' rows.
    pub fn rows(&self) -> &Rc<RowCache> {
        &self.rows
    }

    /// Frees what the row cache has forgotten, in turns with other tasks.
    pub async fn free_rows(&self) {
        while self.rows.free(FREED_AT_ONCE_MAX) {
            runtime::maybe_yield().await;
        }
    }

    /// The memtable that takes writes now.
    pub fn active(&self) -> Rc<Memtable> {
        self.active.borrow().clone()
    }

    /// Bytes of all memtables, sealed ones included.
    pub fn memtable_bytes(&self) -> usize {
        let own = self.active.borrow().stats().bytes
            + self.sealed.borrow().iter().map(|sealed| sealed.stats().bytes).sum::<usize>();
        let all = self.shard_bytes.get();
        debug_assert!(own <= all, "memtables of {own} bytes, all of the shard have {all}");
        own
    }

    pub fn stats(&self) -> TableStats {
        let memtables = self.sealed.borrow().iter().cloned().chain([self.active()]).fold(
            (0, 0),
            |(rows, bytes), memtable| {
                let stats = memtable.stats();
                (rows + stats.rows as u64, bytes + stats.bytes as u64)
            },
        );
        let sstables = self.sstables.borrow();
        // Files that every shard has open count once.
        let is_elsewhere = self.is_attached() && self.shard != 0;
        let sstables = if is_elsewhere { &[] } else { sstables.0.as_slice() };
        TableStats {
            sealed_memtables: self.sealed.borrow().len() as u64,
            memtable_rows: memtables.0,
            memtable_bytes: memtables.1,
            sstables: sstables.len() as u64,
            sstable_bytes: sstables.iter().map(|live| live.sstable.info().data_bytes).sum(),
            sstable_rows: sstables.iter().map(|live| live.sstable.info().rows).sum(),
        }
    }

    /// Bytes of the active memtable, and of those that are sealed.
    pub fn memtables_bytes(&self) -> (usize, usize) {
        let sealed = self.sealed.borrow();
        (self.active().stats().bytes, sealed.iter().map(|sealed| sealed.stats().bytes).sum())
    }

    /// Bytes of memory that its SSTables hold outside caches, those that are replaced and that
    /// readers may have included.
    pub fn held_memory(&self) -> HeldMemory {
        let (sstables, replaced) = (self.sstables.borrow(), self.replaced.borrow());
        let left = self.resharding.of_readers();
        let all = sstables.0.iter().map(|live| &live.sstable).chain(&*replaced).chain(&left);
        let mut held = HeldMemory::default();
        all.for_each(|sstable| held += sstable.held_memory());
        held
    }

    /// A merged stream over everything the table holds, as of now: memtables and SSTables that join
    /// or leave later do not change it. `past_cache` asks the row cache for nothing and leaves
    /// nothing in the caches.
    pub fn read(
        &self,
        range: &PartitionRange,
        slice: &Slice,
        past_cache: bool,
    ) -> Box<dyn FragmentSource> {
        debug_assert!(slice.is_normal(), "ranges of a read are not in order: {:?}", slice.ranges);
        debug_assert!(
            matches!(range, PartitionRange::Tokens { .. })
                || matches!(range, PartitionRange::Single(key) if self.owns(key)),
            "a read on shard {} of {} for {range:?}",
            self.shard,
            self.shard_count
        );
        let mut sources: Vec<Box<dyn FragmentSource>> = Vec::new();
        let mut add = |memtable: &Rc<Memtable>| {
            let holds = match range {
                PartitionRange::Single(key) => memtable.contains(key),
                PartitionRange::Tokens { .. } => !memtable.is_empty(),
            };
            if holds {
                sources.push(memtable.read(range, slice));
            }
        };
        self.sealed.borrow().iter().for_each(&mut add);
        add(&self.active.borrow());
        if !sources.is_empty() {
            probe::note(|| format!("merges memtables: {}", sources.len()));
        }
        let sstables = self.sstables.borrow().clone();
        // What is left of damaged files is no truth that the cache could keep.
        let salvages = self.skips_damage();
        match range {
            PartitionRange::Single(key) if !salvages && !past_cache => {
                let cached = self.rows.read(key, slice, sstables, self.generation.get());
                if sources.is_empty() {
                    return cached;
                }
                sources.push(cached);
            }
            // A scan pushes nothing out: it brings in what there is room for.
            PartitionRange::Tokens { min, max }
                if min <= max
                    && slice.is_full()
                    && !past_cache
                    && !salvages
                    && !self.is_attached()
                    && !sstables.0.iter().any(|live| live.is_shared) =>
            {
                let generation = self.generation.get();
                let stretch = (*min, *max);
                sources.push(self.rows.scan(stretch, slice.direction, sstables, generation));
            }
            _ => sources.extend(self.files(&sstables.0, range, slice, past_cache)),
        }
        MergeSource::merge(sources, slice.direction)
    }

    fn owns(&self, key: &PartitionKey) -> bool {
        key.token().shard(self.shard_count) == self.shard
    }

    /// The files that may hold something of a range, each read on its own.
    fn files<'a>(
        &'a self,
        sstables: &'a [LiveSstable],
        range: &'a PartitionRange,
        slice: &'a Slice,
        past_cache: bool,
    ) -> impl Iterator<Item = Box<dyn FragmentSource>> {
        let mut plan = ReadPlan::of(range, slice).for_queries();
        if self.skips_damage() {
            plan.on_damage = Some(self.damage.clone());
        } else if past_cache {
            plan = plan.past_cache();
        }
        sstables.iter().filter_map(move |live| live.sstable.read(&plan))
    }

    /// Newest position of the commitlog that `log` (shard and shard count) wrote that SSTables
    /// hold.
    pub async fn flushed_through(&self, log: (u32, u32)) -> Option<ReplayPosition> {
        if log == (self.shard, self.shard_count) {
            self.manifest.lock().await.flushed_through()
        } else {
            self.foreign_flushed.get(&log).copied()
        }
    }

    /// Whether some memtable has anything in it.
    pub fn has_unflushed(&self) -> bool {
        !self.active.borrow().is_empty() || !self.sealed.borrow().is_empty()
    }

    /// What keeps the table from being flushed, other than want of room or of descriptors, which
    /// concerns all tables.
    pub fn stuck(&self) -> Option<Error> {
        self.stuck.borrow().clone()
    }

    /// Whether the table takes writes.
    ///
    /// Errors: `Invalid` where it is attached; `Unavailable` while it cannot be flushed.
    pub fn check_writable(&self) -> Result<()> {
        self.check_own()?;
        match &*self.stuck.borrow() {
            None => Ok(()),
            Some(error) => {
                let table = self.schema().full_name();
                Err(Error::Unavailable(format!(
                    "table '{table}' takes no writes while it cannot be flushed: {error}; what was \
                     acknowledged is in the commitlog, and writes go on once the cause is mended"
                )))
            }
        }
    }

    /// Lets who still reads a table that was dropped read on when its files have no names any more.
    ///
    /// Errors: `Io`.
    pub async fn keep_files_of_readers(self: Rc<Self>) -> Result<()> {
        let sstables = self.sstables.borrow().clone();
        let left = self.resharding.of_readers();
        if Rc::strong_count(&self) == 1
            && left.is_empty()
            && self.replaced.borrow().is_empty()
            && sstables.0.iter().all(|live| Rc::strong_count(&live.sstable) == 1)
        {
            return Ok(());
        }
        let replaced = self.replaced.borrow().clone();
        for sstable in sstables.0.iter().map(|live| &live.sstable).chain(&replaced).chain(&left) {
            sstable.keep_open().await?;
        }
        Ok(())
    }

    /// Forgets the table's commitlog records: it was dropped.
    ///
    /// Errors: `Io` from removing segments.
    pub async fn release_commitlog(&self) -> Result<()> {
        let everything = ReplayPosition { segment: u64::MAX, offset: u32::MAX };
        if let Some(ledger) = &self.ledger {
            ledger.record_later(Entry::Dropped { table: self.id() });
        }
        match self.commitlog() {
            Some(commitlog) => commitlog.mark_flushed(self.id(), everything).await,
            None => Ok(()),
        }
    }

    pub(super) fn commitlog(&self) -> Option<Rc<Commitlog>> {
        self.commitlog.borrow().clone()
    }

    /// Gives the table the shard's commitlog, which could not be made when the table was opened.
    pub fn set_commitlog(&self, commitlog: Rc<Commitlog>) {
        let before = self.commitlog.borrow_mut().replace(commitlog);
        assert!(before.is_none(), "a table has a commitlog, and is given another");
    }
}
