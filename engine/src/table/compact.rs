//! Compactions of one table: its SSTables become others that hold the same.
//!
//! ```text
//! manifest: the numbers of the outputs are spent    their files may go until they are live
//! outputs written, durable
//! manifest: inputs not live, outputs live           one edit
//! the set that reads use: the same
//! row cache: forgets the partitions of which something was purged
//! manifest sealed, ledger told                      from now on the edit cannot get lost unnoticed
//! files of the inputs removed                       readers that have them keep them open
//! ```
//! Not here: what is merged and what goes (`compaction`), the exchange itself (`exchange.rs`), when
//! a table is asked (`database`).

use std::collections::BTreeSet;
use std::rc::Rc;

use super::compacting::CompactionOrder;
use super::exchange::{Exchanged, Making};
use super::table::{LiveSstable, Table};
use crate::compaction::{
    Choice, Facts, FileFacts, Merge, Others, Purge, Purged, Reason, backlog, choose_by, major,
};
use crate::error::{Error, Result};
use crate::policy::compaction::Chooser;
use crate::runtime;
use crate::schema::{PartitionKey, Token};
use crate::sstable::manifest::{Edit, Manifest};
use crate::sstable::{HashedKey, Sstable, SstableInfo, generation_of, remove_files};

/// What a compaction came to.
#[derive(Debug, Default)]
pub struct Compacted {
    pub outputs: Vec<SstableInfo>,
    pub purged: Purged,
    /// It was cancelled, or its table dropped: what is no input of an output is as before.
    pub is_cancelled: bool,
}

/// An SSTable of a table, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct SstableStatus {
    pub info: SstableInfo,
    /// The run that it is a fragment of; its own number for one that is a run by itself.
    pub run: u64,
    /// Part of its cells and tombstones whose grace has passed, 0 to 1; an estimate.
    pub droppable: f64,
    /// Written under another number of shards: each shard that owns some of it has it open, and
    /// rewrites its part.
    pub is_shared: bool,
    /// It is being merged.
    pub is_input: bool,
    /// A part of it could not be read, so it is merged no more.
    pub is_set_aside: bool,
}

impl Table {
    /// Whether it should be asked what to merge.
    pub fn is_compaction_due(&self) -> bool {
        self.compacting.is_due.get() && !self.is_attached && !self.dropped.get()
    }

    /// Has the table be asked, or not before something changes.
    pub fn set_compaction_due(&self, is_due: bool) {
        match is_due {
            // Time alone makes more to do as well.
            true => self.compacting.note_change(),
            false => self.compacting.is_due.set(false),
        }
    }

    /// Whether its backlog is to be looked at anew.
    pub fn is_backlog_stale(&self) -> bool {
        self.compacting.backlog.get().is_none() && !self.is_attached && !self.dropped.get()
    }

    /// What is known of the SSTables that may be merged, by number.
    fn file_facts(&self, now_seconds: i64) -> Vec<FileFacts> {
        let before = now_seconds - i64::from(self.options().gc_grace_seconds);
        let (mut seen, set_aside) =
            (self.compacting.seen.borrow_mut(), self.compacting.set_aside.borrow());
        let (sstables, schema) = (self.sstables.borrow(), self.schema());
        let numbers: BTreeSet<u64> =
            sstables.0.iter().map(|live| live.sstable.info().generation).collect();
        seen.retain(|number, _| numbers.contains(number));
        let own = sstables.0.iter().filter(|live| !live.is_shared);
        let mut facts: Vec<FileFacts> = own
            .filter(|live| !set_aside.contains(&live.sstable.info().generation))
            .map(|live| {
                let (sstable, info) = (&live.sstable, live.sstable.info());
                let first_seen = *seen.entry(info.generation).or_insert(now_seconds);
                FileFacts {
                    number: info.generation,
                    bytes: info.data_bytes,
                    partitions: info.partitions,
                    rows: info.rows,
                    level: info.level,
                    run: live.run,
                    min_timestamp: info.min_timestamp,
                    max_timestamp: info.max_timestamp,
                    first: info.first_key.token(),
                    last: info.last_key.token(),
                    droppable: sstable.droppable(before),
                    is_expired: i64::from(info.max_deletion_time) < before,
                    has_dropped: sstable.may_have_dropped(&schema),
                    age_seconds: now_seconds - first_seen,
                }
            })
            .collect();
        facts.sort_by_key(|file| file.number);
        facts
    }

    /// What should be merged next, if anything, by the policy in charge or the strategy.
    pub fn choose_compaction(&self, chooser: &Chooser, now_seconds: i64) -> Option<Choice> {
        let files = self.file_facts(now_seconds);
        let options = self.options().compaction;
        let facts = Facts { files: &files, options: &options, now_seconds };
        let shapes = self.compacting.shapes.borrow();
        choose_by(chooser, || self.schema().full_name(), &facts, &shapes)
    }

    /// Bytes that its strategy has before it.
    pub fn compaction_backlog(&self, now_seconds: i64) -> u64 {
        if self.is_attached || self.dropped.get() {
            return 0;
        }
        self.compacting.backlog.get().unwrap_or_else(|| {
            let files = self.file_facts(now_seconds);
            let options = self.options().compaction;
            let bytes = backlog(&Facts { files: &files, options: &options, now_seconds });
            self.compacting.backlog.set(Some(bytes));
            bytes
        })
    }

    /// A step of the merge of everything, and whether it is the last one.
    pub fn choose_major(&self, now_seconds: i64) -> Option<(Choice, bool)> {
        let files = self.file_facts(now_seconds);
        let options = self.options().compaction;
        let choice = major(&Facts { files: &files, options: &options, now_seconds })?;
        let is_last = choice.inputs.len() == files.len();
        Some((choice, is_last))
    }

    /// Its SSTables on this shard, by number.
    pub fn sstable_statuses(&self, now_seconds: i64) -> Vec<SstableStatus> {
        if self.is_attached && self.shard != 0 {
            return Vec::new();
        }
        let before = now_seconds - i64::from(self.options().gc_grace_seconds);
        let (set_aside, inputs) =
            (self.compacting.set_aside.borrow(), self.compacting.inputs.borrow());
        let sstables = self.sstables.borrow();
        let status = |live: &LiveSstable| {
            let number = live.sstable.info().generation;
            SstableStatus {
                info: live.sstable.info().clone(),
                run: live.run,
                droppable: live.sstable.droppable(before),
                is_shared: live.is_shared,
                is_input: inputs.contains(&number),
                is_set_aside: set_aside.contains(&number),
            }
        };
        let mut statuses: Vec<SstableStatus> = sstables.0.iter().map(status).collect();
        statuses.sort_by_key(|status| status.info.generation);
        statuses
    }

    /// Bytes of the data of these SSTables; of those of another shard count about this shard's.
    pub fn bytes_of(&self, numbers: &[u64]) -> u64 {
        let sstables = self.sstables.borrow();
        let all = sstables.0.iter().map(|live| &live.sstable);
        let chosen = all.filter(|sstable| numbers.contains(&sstable.info().generation));
        chosen.map(|sstable| (sstable.info().data_bytes as f64 * sstable.share()) as u64).sum()
    }

    /// Merges what was chosen and puts the outputs in the place of the inputs. One at a time.
    ///
    /// Errors: `Invalid` when an input is not there; `Io`, above all a full disk; `Corrupt` naming
    /// a file of an input, which is merged no more from now on. Everything is as before then, but
    /// after an error of the manifest files stay until it is known what that says.
    pub async fn compact(self: &Rc<Self>, order: CompactionOrder) -> Result<Compacted> {
        let mut inputs = self.inputs_of(&order.choice)?;
        *self.compacting.inputs.borrow_mut() = order.choice.inputs.iter().copied().collect();
        let before = match order.choice.reason {
            Reason::Policy => Some(self.file_facts(order.now_seconds)),
            _ => None,
        };
        let compacted = self.compact_inputs(&order, &mut inputs).await;
        if let (Some(before), Ok(_)) = (before, &compacted) {
            self.compacting.shapes.borrow_mut().leave(&before);
        }
        self.compacting.inputs.borrow_mut().clear();
        if let Err(error @ Error::Corrupt(_)) = &compacted {
            self.set_aside(error, &order.choice.inputs);
        }
        compacted
    }

    fn inputs_of(&self, choice: &Choice) -> Result<Vec<Rc<Sstable>>> {
        let numbers = &choice.inputs;
        assert!(
            !numbers.is_empty() && numbers.is_sorted_by(|a, b| a < b),
            "a merge of {numbers:?}, which are none or not in order"
        );
        let sstables = self.sstables.borrow();
        let find = |number: &u64| {
            let is_kind = |live: &&LiveSstable| live.is_shared == choice.is_resharding();
            let mut those = sstables.0.iter().filter(is_kind);
            let live = those.find(|live| live.sstable.info().generation == *number);
            let gone = || Error::invalid(format!("SSTable {number} is not there to be merged"));
            live.map(|live| live.sstable.clone()).ok_or_else(gone)
        };
        choice.inputs.iter().map(find).collect()
    }

    /// An input that cannot be read stays as it is, and is merged no more. Damage of what was just
    /// written concerns no input.
    fn set_aside(&self, error: &Error, inputs: &[u64]) {
        let Error::Corrupt(corruption) = error else { return };
        let name = corruption.file.file_name().and_then(|name| name.to_str());
        let number = name.and_then(generation_of).filter(|number| inputs.contains(number));
        let Some(number) = number else { return };
        self.damage.add_set_aside(error);
        let table = self.schema().full_name();
        tracing::error!(table, %error, "a damaged SSTable is left out of compactions");
        self.compacting.set_aside.borrow_mut().insert(number);
        self.compacting.note_change();
    }

    /// Whether one of these was found damaged by a compaction.
    pub fn has_set_aside(&self, numbers: &[u64]) -> bool {
        let set_aside = self.compacting.set_aside.borrow();
        numbers.iter().any(|number| set_aside.contains(number))
    }

    async fn compact_inputs(
        self: &Rc<Self>,
        order: &CompactionOrder,
        inputs: &mut Vec<Rc<Sstable>>,
    ) -> Result<Compacted> {
        // What is rewritten for another number of shards stays as it is.
        let mut may_purge = order.may_purge && !order.choice.is_resharding();
        loop {
            let merge = Merge {
                inputs: inputs.clone(),
                // Of the moment at which `making` takes the definition that outputs follow.
                dropped: self.dropped_cells(),
                purge: may_purge.then(|| self.purge_of(order)),
                cut_bytes: order.choice.cut_bytes,
                progress: order.progress.clone(),
            };
            let mut making = Making::new(self, order, inputs);
            let ended = making.run(merge).await;
            making.discard().await;
            match ended {
                Ok((Exchanged::Done, purged)) => {
                    let outputs = making.into_outputs();
                    return Ok(Compacted { outputs, purged, is_cancelled: false });
                }
                // A table that is being dropped wants nothing of it.
                Err(error) if !self.dropped.get() => return Err(error),
                Ok((Exchanged::Unwanted, _)) | Err(_) => {
                    let outputs = making.into_outputs();
                    return Ok(Compacted { outputs, is_cancelled: true, ..Compacted::default() });
                }
                Ok((Exchanged::Late, _)) => may_purge = false,
            }
        }
    }

    fn purge_of(self: &Rc<Self>, order: &CompactionOrder) -> Purge<OtherSources> {
        let inputs = order.choice.inputs.iter().copied().collect();
        let others = OtherSources { table: self.clone(), inputs };
        let now = i32::try_from(order.now_seconds).unwrap_or(i32::MAX);
        Purge::new(&self.schema(), others, now, self.options().gc_grace_seconds)
    }

    /// As the manifest's own, with what it was not told yet.
    pub(super) async fn append(&self, manifest: &mut Manifest, mut edits: Vec<Edit>) -> Result<()> {
        let (gone, released) = (self.gone.take(), self.released.take());
        if !gone.is_empty() {
            edits.insert(0, Edit::Gone { generations: gone.clone() });
        }
        if !released.is_empty() {
            edits.insert(0, Edit::Released { generations: released.clone() });
        }
        let appended = manifest.append(edits).await;
        if appended.is_err() {
            self.gone.borrow_mut().extend(gone);
            self.released.borrow_mut().extend(released);
        }
        appended
    }

    /// The run of an SSTable of its own.
    pub(super) fn run_of(&self, number: u64) -> Option<u64> {
        let sstables = self.sstables.borrow();
        let mut own = sstables.0.iter().filter(|live| !live.is_shared);
        own.find(|live| live.sstable.info().generation == number).map(|live| live.run)
    }

    /// Numbers of all SSTables that reads use.
    pub(super) fn numbers(&self) -> BTreeSet<u64> {
        self.sstables.borrow().0.iter().map(|live| live.sstable.info().generation).collect()
    }

    /// No write that came since the SSTables were `known` is older than this.
    pub(super) fn oldest_since(&self, known: &BTreeSet<u64>) -> i64 {
        let sstables = self.sstables.borrow();
        let infos = sstables.0.iter().map(|live| live.sstable.info());
        let new = infos.filter(|info| !known.contains(&info.generation));
        let new = new.map(|info| info.min_timestamp).min().unwrap_or(i64::MAX);
        new.min(self.oldest_in_memory())
    }

    /// No write in a memtable, or on its way there, is older than this.
    fn oldest_in_memory(&self) -> i64 {
        let sealed = self.sealed.borrow();
        let sealed = sealed.iter().map(|memtable| memtable.oldest_timestamp());
        sealed.fold(self.active.borrow().oldest_timestamp(), i64::min)
    }

    /// The manifest is to be sealed, and what follows from that to be done.
    pub(super) fn owe(&self) {
        self.owed.set(Some(self.owed.get().flatten()));
    }

    /// What was purged must not be known any more: a write that is older would be hidden by it as
    /// long as the cache has it.
    pub(super) async fn forget_purged(&self, tokens: &Option<Vec<Token>>) {
        match tokens {
            Some(tokens) => self.rows.forget_tokens(tokens).await,
            None => {
                self.rows.invalidate();
                self.free_rows().await;
            }
        }
    }

    /// Removes the files of SSTables that others have replaced; the manifest must be sealed. What
    /// cannot be removed stays for the next time, or the next start.
    pub(super) async fn remove_replaced(&self) {
        loop {
            let Some(sstable) = self.replaced.borrow().last().cloned() else { return };
            let generation = sstable.info().generation;
            assert!(
                !self.has_sstable(generation),
                "files of SSTable {generation} would be removed, which reads use"
            );
            let removed = async {
                // This one and the list have it; others are readers.
                if Rc::strong_count(&sstable) > 2 {
                    sstable.keep_open().await?;
                }
                remove_files(&*self.disk, &self.directory, generation).await
            };
            if let Err(error) = removed.await {
                let table = self.schema().full_name();
                tracing::warn!(table, generation, %error, "files that were replaced stay for now");
                return;
            }
            self.replaced.borrow_mut().pop();
            self.gone.borrow_mut().push(generation);
            runtime::maybe_yield().await;
        }
    }

    /// Removes what a compaction wrote that is not used. What cannot be removed goes at the next
    /// start.
    pub(super) async fn discard(&self, begun: Vec<u64>) {
        for generation in begun {
            assert!(
                !self.has_sstable(generation),
                "SSTable {generation} would be thrown away, which reads use"
            );
            match remove_files(&*self.disk, &self.directory, generation).await {
                Ok(()) => self.gone.borrow_mut().push(generation),
                Err(error) => {
                    let table = self.schema().full_name();
                    tracing::warn!(table, generation, %error, "an unfinished SSTable stays");
                }
            }
        }
    }
}

/// All that a table has beside the inputs of a merge.
struct OtherSources {
    table: Rc<Table>,
    inputs: BTreeSet<u64>,
}

impl Others for OtherSources {
    fn oldest(&self, key: &PartitionKey) -> i64 {
        let hashed = HashedKey::of(key);
        let sstables = self.table.sstables.borrow();
        let others = sstables.0.iter().filter(|live| {
            let is_input = !live.is_shared && self.inputs.contains(&live.sstable.info().generation);
            !is_input && live.sstable.may_contain(&hashed)
        });
        let others = others.map(|live| live.sstable.info().min_timestamp);
        let left_out = self.table.left_out.iter();
        let left_out = left_out.filter(|info| info.first_key <= *key && *key <= info.last_key);
        let left_out = left_out.map(|info| info.min_timestamp);
        others.chain(left_out).fold(self.table.oldest_in_memory(), i64::min)
    }
}
