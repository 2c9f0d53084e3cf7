//! Sealing memtables and writing them to SSTables.
//!
//! Order of a flush: seal the memtable, wait for its writes in flight, write the SSTable, name it
//! in the manifest with the commitlog position it reaches, show it to reads, merge the memtable
//! into the row cache, drop the memtable, seal the manifest (from then on a torn end is told from
//! damage of what it said), release the commitlog. If it fails before the manifest names the
//! SSTable, the memtable stays and is flushed again.

use std::collections::VecDeque;
use std::rc::Rc;

use super::table::{LiveSstable, Table};
use crate::error::Result;
use crate::io::{Class, run_as};
use crate::ledger::Entry;
use crate::memtable::Memtable;
use crate::mutation::{Direction, Fragment, PartitionRange, Slice, ViewRoom};
use crate::reader::{DroppedCells, Uncovered};
use crate::runtime;
use crate::sstable::manifest::{Edit, Manifest};
use crate::sstable::{Sstable, SstableWriter, WriterOptions, remove_files};

impl Table {
    /// Seals the active memtable, unless it is empty, and starts a new one.
    pub fn seal(&self) {
        let active = self.active();
        if active.is_empty() && active.writes_in_flight() == 0 {
            return;
        }
        active.seal();
        let older = self.sealed.borrow().back().and_then(|older| older.highest_position());
        if let Some((first, _)) = active.positions() {
            assert!(older < Some(first), "a memtable from {first:?} on, an older one to {older:?}");
        }
        self.sealed.borrow_mut().push_back(active);
        *self.active.borrow_mut() = Memtable::new(self.shard_bytes.clone());
    }

    /// Seals the active memtable and writes all sealed ones; returns when what was written before
    /// the call is in SSTables. A flush in the background that is under way hurries up.
    ///
    /// Errors: `Io`, above all a full disk. The memtables stay and the next flush tries again;
    /// where the cause is in this table alone it takes no writes until then.
    pub async fn flush(&self) -> Result<()> {
        let _awaited = self.flushes_awaited.enter()?;
        self.flush_in_background().await
    }

    /// Whether somebody waits for a flush.
    pub fn is_flush_awaited(&self) -> bool {
        self.flushes_awaited.inside_count() > 0
    }

    /// As [`flush`](Self::flush), for which nobody waits.
    ///
    /// Errors: as [`flush`](Self::flush).
    pub async fn flush_in_background(&self) -> Result<()> {
        let flushed = run_as(Class::Flush, self.write_sealed()).await;
        let stuck = flushed.as_ref().err().filter(|error| !error.is_shortage());
        *self.stuck.borrow_mut() = stuck.cloned();
        flushed
    }

    async fn write_sealed(&self) -> Result<()> {
        self.seal();
        let mut manifest = self.manifest.lock().await;
        loop {
            let oldest = self.sealed.borrow().front().cloned();
            let Some(memtable) = oldest else {
                // Of a dropped table nothing is owed.
                return if self.dropped.get() { Ok(()) } else { self.settle(&mut manifest).await };
            };
            memtable.wait_for_writes().await;
            if self.dropped.get() {
                self.sealed.take().iter().for_each(|memtable| memtable.release());
                return Ok(());
            }
            memtable.check_sealed();
            if let Some((first, _)) = memtable.positions() {
                let flushed = manifest.flushed_through();
                assert!(flushed < Some(first), "a write at {first:?}, flushed is {flushed:?}");
            }
            let written = match memtable.is_empty() {
                true => None,
                false => self.write(&memtable).await?,
            };
            let through = memtable.highest_position();
            if let Some(sstable) = written {
                let info = sstable.info().clone();
                let generation = info.generation;
                let add = Edit::Add { info, replay_through: through, run: None };
                if let Err(error) = manifest.append(vec![add]).await {
                    // Perhaps it stands there all the same.
                    self.unnamed.borrow_mut().push(generation);
                    return Err(error);
                }
                let (named, flushed) = (manifest.live(), manifest.flushed_through());
                assert!(named.contains_key(&generation), "the manifest lacks SSTable {generation}");
                assert!(
                    through <= flushed,
                    "{through:?} was written, the manifest has {flushed:?}"
                );
                assert!(
                    !self.has_sstable(generation),
                    "SSTable {generation} takes part in reads before it is written"
                );
                let live = LiveSstable { sstable, is_shared: false, run: generation };
                let generation = self.generation.get() + 1;
                self.generation.set(generation);
                Rc::make_mut(&mut self.sstables.borrow_mut()).0.push(live);
                self.compacting.note_change();
                self.compacting.shapes.borrow_mut().clear();
                self.rows.begin_generation(generation);
                self.merge_into_rows(&memtable, generation).await;
            }
            // Until here readers merged the rows from the memtable as well. Merging is idempotent.
            let oldest = self.sealed.borrow_mut().pop_front();
            assert!(
                oldest.is_some_and(|oldest| Rc::ptr_eq(&oldest, &memtable)),
                "writes would be lost: the memtable that leaves is not the one that was written"
            );
            memtable.release();
            self.owed.set(Some(self.owed.get().flatten().max(through)));
            let settled = self.settle(&mut manifest).await;
            memtable.dismantle().await;
            settled?;
        }
    }

    /// Does what is left to do when SSTables have what memtables had: sees to it that the manifest
    /// cannot lose its edits unnoticed, and only then lets commitlog segments go. What fails is
    /// done by the next flush.
    pub(super) async fn settle(&self, manifest: &mut Manifest) -> Result<()> {
        let Some(through) = self.owed.get() else { return Ok(()) };
        manifest.seal().await?;
        loop {
            let Some(generation) = self.unnamed.borrow().last().copied() else { break };
            assert!(
                !manifest.live().contains_key(&generation) && !self.has_sstable(generation),
                "files of SSTable {generation} would be removed, which is live"
            );
            remove_files(&*self.disk, &self.directory, generation).await?;
            self.unnamed.borrow_mut().pop();
        }
        if let Some(ledger) = &self.ledger {
            let (table, sequence) = (self.id(), manifest.edited());
            ledger.record(vec![Entry::Manifest { table, sequence }]).await?;
        }
        if let (Some(through), Some(commitlog)) = (through, self.commitlog())
            && let Err(error) = commitlog.mark_flushed(self.id(), through).await
        {
            // The log is closed to writes; the flush itself is done.
            let table = self.schema().full_name();
            tracing::warn!(table, %error, "commitlog segments were not released");
        }
        self.owed.set(None);
        self.remove_replaced().await;
        Ok(())
    }

    /// Brings the row cache up to the SSTable that `memtable` became.
    async fn merge_into_rows(&self, memtable: &Rc<Memtable>, generation: u64) {
        let mut last = None;
        while let Some(key) = memtable.next_key(last.as_deref()) {
            let all = Slice::full(Direction::Forward);
            let source = || memtable.read(&PartitionRange::Single((*key).clone()), &all);
            self.rows.merge(&key, source, generation).await;
            runtime::maybe_yield().await;
            last = Some(key);
        }
    }

    /// Whether reads use the own SSTable with this number.
    pub(super) fn has_sstable(&self, generation: u64) -> bool {
        let sstables = self.sstables.borrow();
        let mut own = sstables.0.iter().filter(|live| !live.is_shared);
        own.any(|live| live.sstable.info().generation == generation)
    }

    /// `None` when the memtable held nothing that an SSTable keeps.
    async fn write(&self, memtable: &Rc<Memtable>) -> Result<Option<Rc<Sstable>>> {
        let generation = self.take_generation();
        let written = self.write_generation(memtable, generation).await;
        if written.is_err() {
            // A full disk must not be filled further; what cannot be removed goes at the next
            // start.
            let _ = remove_files(&*self.disk, &self.directory, generation).await;
        }
        written
    }

    /// A number for a new SSTable.
    pub(super) fn take_generation(&self) -> u64 {
        let generation = self.next_generation.get();
        let (shard, count) = (u64::from(self.shard), u64::from(self.shard_count));
        assert_eq!(generation % count, shard, "SSTable {generation} has another shard's number");
        self.next_generation.set(generation + count);
        generation
    }

    /// How new SSTables are written, as far as the table's options say it.
    pub(super) fn writer_options(&self) -> WriterOptions {
        let options = self.options();
        WriterOptions {
            column_index_bytes: options.column_index_bytes,
            compression: options.compression,
            large_data: options.large_data.over(self.large_data),
            ..WriterOptions::default()
        }
    }

    /// Opens an SSTable that was just written.
    pub(super) async fn open_written(&self, generation: u64) -> Result<Rc<Sstable>> {
        let (disk, cache) = (self.disk.clone(), self.cache.clone());
        let schema = self.schema();
        let written = (generation, None);
        let sstable = Sstable::open(disk, cache, &self.directory, written, schema).await?;
        sstable.mended().iter().for_each(|error| self.damage.add_rebuilt(error));
        self.warn_of_large_data(&sstable);
        Ok(sstable)
    }

    async fn write_generation(
        &self,
        memtable: &Rc<Memtable>,
        generation: u64,
    ) -> Result<Option<Rc<Sstable>>> {
        let options = WriterOptions { replay: memtable.positions(), ..self.writer_options() };
        // Of one moment, and later than any write of the memtable: its columns are among them.
        let (schema, dropped) = (self.schema(), self.dropped_cells());
        let mut writer =
            SstableWriter::create(self.disk.clone(), &self.directory, generation, schema, options)
                .await?;
        write_rows(memtable, dropped, &mut writer).await?;
        if writer.finish().await?.is_none() {
            return Ok(None);
        }
        let sstable = self.open_written(generation).await?;
        let (info, held) = (sstable.info(), memtable.stats());
        assert!(
            memtable.contains(&info.first_key) && memtable.contains(&info.last_key),
            "SSTable {generation} has keys that its memtable has not: {:?} to {:?}",
            info.first_key,
            info.last_key
        );
        assert!(
            info.partitions <= held.partitions as u64,
            "SSTable {generation} has {} partitions, its memtable {}",
            info.partitions,
            held.partitions
        );
        // Each partition may have a static row beside its rows.
        assert!(
            info.rows <= (held.rows + held.partitions) as u64,
            "SSTable {generation} has {} rows, its memtable {} in {} partitions",
            info.rows,
            held.rows,
            held.partitions
        );
        Ok(Some(sstable))
    }

    /// Stops using the table's files; they are removed by the caller.
    pub fn mark_dropped(&self) {
        self.dropped.set(true);
    }

    pub fn is_dropped(&self) -> bool {
        self.dropped.get()
    }
}

/// Writes what an SSTable needs of a memtable.
///
/// Errors: those of the writer.
async fn write_rows(
    memtable: &Rc<Memtable>,
    dropped: Option<DroppedCells>,
    writer: &mut SstableWriter,
) -> Result<()> {
    let mut source = memtable.read(&PartitionRange::full(), &Slice::full(Direction::Forward));
    let mut fragments: VecDeque<Fragment> = VecDeque::new();
    let (mut uncovered, mut room) = (Uncovered::default(), ViewRoom::default());
    loop {
        source.fill(&mut fragments).await?;
        if fragments.is_empty() {
            break;
        }
        for fragment in fragments.drain(..) {
            runtime::maybe_yield().await;
            if let Fragment::FlatRow(flat) = &fragment {
                // Of most rows all is left, and the writer has room for them.
                let (is_left, is_written) = room.of_flat(flat, |row| {
                    let is_left = row.is_compacted()
                        && dropped.as_ref().is_none_or(|dropped| dropped.leave(&row))
                        && uncovered.leaves(&row);
                    (is_left, is_left && writer.push_now(flat.key(), &row))
                });
                if is_left {
                    if !is_written {
                        writer.push(fragment).await?;
                    }
                    continue;
                }
            }
            let fragment = match &dropped {
                Some(dropped) => dropped.pass(fragment),
                None => fragment,
            };
            if let Some(fragment) = uncovered.pass(fragment) {
                writer.push(fragment).await?;
            }
        }
    }
    Ok(())
}
