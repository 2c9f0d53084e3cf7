//! SSTables that were written under another number of shards, and how they go.
//!
//! ```text
//! each shard that owns something of such an SSTable:
//!   rewrites its part as a compaction does, past the others'        (compact.rs, exchange.rs)
//!   own manifest: the new SSTable live, its part of the old one taken    one edit
//!   own manifest sealed, then says on the board that it needs the old one no more
//! one shard for each manifest of the other shard count, when no shard needs an SSTable:
//!   that manifest: the SSTable not live; sealed
//!   its files removed                                 readers that have them keep them open
//! ```
//! Between these steps an SSTable is read without the parts that were taken: what took them over
//! may have purged since. So every shard goes on by itself, and a start under any number of shards
//! finds all of it in the manifests.
//!
//! Invariant: an SSTable is live in the manifest that names it until each partition in it belongs
//! to a shard whose own manifest, which cannot lose that, says that its part was taken.

use std::rc::Rc;

use crate::compaction::{Choice, Reason};
use crate::error::Result;
use crate::runtime;
use crate::schema::CompactionClass;
use crate::sstable::manifest::Edit;
use crate::sstable::remove_files;
use crate::table::table::{LiveSstable, Table};

impl Table {
    /// Whether there is something of another shard count to be rewritten, to be told or to go.
    pub fn is_resharding(&self) -> bool {
        let own = &self.resharding;
        let may_remove =
            || own.foreign_count.get() > 0 && !own.board.unneeded(self.id()).is_empty();
        let has_step = || !own.left.borrow().is_empty() || may_remove();
        !self.is_attached
            && !self.dropped.get()
            && (has_step() || self.choose_resharding().is_some())
    }

    /// The next rewrite of an SSTable of another shard count, if there is any.
    pub fn choose_resharding(&self) -> Option<Choice> {
        if self.is_attached {
            return None;
        }
        let set_aside = self.compacting.set_aside.borrow();
        let sstables = self.sstables.borrow();
        let is_left = |live: &&LiveSstable| {
            live.is_shared && !set_aside.contains(&live.sstable.info().generation)
        };
        let next =
            sstables.0.iter().filter(is_left).min_by_key(|live| live.sstable.info().generation)?;
        let info = next.sstable.info();
        // A level from 1 on stays disjoint.
        let meets = |live: &LiveSstable| {
            let other = live.sstable.info();
            !live.is_shared
                && other.level == info.level
                && other.first_key.token() <= info.last_key.token()
                && info.first_key.token() <= other.last_key.token()
        };
        let level = if sstables.0.iter().any(meets) { 0 } else { info.level };
        Some(Choice {
            inputs: vec![info.generation],
            level,
            cut_bytes: None,
            is_incremental: false,
            reason: Reason::Reshard,
        })
    }

    /// The run of what an SSTable of another shard count becomes here, as far as there is one: its
    /// fragments become fragments.
    pub(in crate::table) fn run_here(&self, number: u64) -> Option<u64> {
        let run = self.foreign_run(number)?;
        self.resharding.runs.borrow().get(&run).copied()
    }

    /// What an SSTable of another shard count became is of this run.
    pub(in crate::table) fn note_run(&self, number: u64, run: u64) {
        if let Some(foreign) = self.foreign_run(number) {
            self.resharding.runs.borrow_mut().entry(foreign).or_insert(run);
        }
    }

    fn foreign_run(&self, number: u64) -> Option<u64> {
        if self.options().compaction.class != CompactionClass::Incremental {
            return None;
        }
        let sstables = self.sstables.borrow();
        let mut foreign = sstables.0.iter().filter(|live| live.is_shared);
        foreign.find(|live| live.sstable.info().generation == number).map(|live| live.run)
    }

    /// Says what this shard needs no more, and removes what no shard needs.
    ///
    /// Errors: `Io`; what is left is done by the next call.
    pub async fn hand_over(&self) -> Result<()> {
        self.tell_of_left().await?;
        if self.resharding.foreign_count.get() > 0 {
            self.remove_unneeded().await?;
        }
        Ok(())
    }

    async fn tell_of_left(&self) -> Result<()> {
        let own = &self.resharding;
        if own.has_begun.get() && own.left.borrow().is_empty() {
            return Ok(());
        }
        {
            let mut manifest = self.manifest.lock().await;
            if self.dropped.get() {
                return Ok(());
            }
            self.settle(&mut manifest).await?;
        }
        let (table, shard) = (self.id(), self.shard);
        if !own.has_begun.replace(true) {
            own.board.begin(table, shard, own.foreign_count.get());
        }
        loop {
            let Some(left) = own.left.borrow().last().cloned() else { break };
            // This one and the list have it; others are readers.
            if let Some(sstable) = &left.sstable
                && Rc::strong_count(sstable) > 2
            {
                sstable.keep_open().await?;
            }
            if self.dropped.get() {
                return Ok(());
            }
            own.board.leave(table, shard, left.number);
            own.left.borrow_mut().pop();
        }
        Ok(())
    }

    async fn remove_unneeded(&self) -> Result<()> {
        let own = &self.resharding;
        // A drop waits for this, and for what is removed here.
        let _manifest = self.manifest.lock().await;
        if self.dropped.get() {
            return Ok(());
        }
        let unneeded = own.board.unneeded(self.id());
        for foreign in own.foreign.lock().await.iter_mut() {
            let live = foreign.manifest.live();
            let leaving: Vec<u64> =
                unneeded.iter().copied().filter(|number| live.contains_key(number)).collect();
            if !leaving.is_empty() {
                let removed = leaving.iter().map(|number| Edit::Remove { generation: *number });
                let gone = Edit::Gone { generations: foreign.gone.clone() };
                foreign.manifest.append([gone].into_iter().chain(removed).collect()).await?;
                foreign.gone.clear();
                foreign.unneeded.extend(leaving);
            }
            if !foreign.unneeded.is_empty() {
                foreign.manifest.seal().await?;
            }
            while let Some(number) = foreign.unneeded.last().copied() {
                assert!(
                    !self.numbers().contains(&number),
                    "files of SSTable {number} would be removed, which reads use"
                );
                remove_files(&*self.disk, &self.directory, number).await?;
                foreign.unneeded.pop();
                foreign.gone.push(number);
                own.foreign_count.set(own.foreign_count.get() - 1);
                if own.board.end(self.id(), number) {
                    let (table, shards) = (self.schema().full_name(), self.shard_count);
                    tracing::info!(
                        table,
                        shards,
                        "every SSTable of another number of shards is rewritten for this one"
                    );
                }
                runtime::maybe_yield().await;
            }
        }
        Ok(())
    }
}
