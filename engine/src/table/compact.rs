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
//! Invariant: at every moment the manifest on disk, in each form in which a crash may leave it,
//! names SSTables that together hold every row, and all their files are there.
//!
//! Not here: what is merged and what goes (`compaction`), when a table is asked (`database`).

use std::collections::BTreeSet;
use std::rc::Rc;

use super::table::{LiveSstable, Table};
use crate::compaction::{
    Choice, Facts, FileFacts, Merge, Merged, Others, Progress, Purge, Purged, choose, major,
};
use crate::error::{Error, Result};
use crate::runtime;
use crate::schema::PartitionKey;
use crate::sstable::manifest::{Edit, Manifest};
use crate::sstable::{
    HashedKey, ORIGIN_COMPACTION, Sstable, SstableInfo, SstableWriter, WriterOptions,
    generation_of, remove_files,
};

/// Partitions of the inputs up to which the bloom filter is sized when all are known, in one step;
/// beyond it by what the inputs say.
const COUNTED_PARTITIONS_MAX: u64 = 1 << 16;

/// A compaction to be run.
pub struct CompactionOrder {
    pub choice: Choice,
    /// Wall clock, seconds since the epoch.
    pub now_seconds: i64,
    /// Whether no log of an earlier run may still bring old writes back.
    pub may_purge: bool,
    pub progress: Rc<Progress>,
}

/// What a compaction came to.
#[derive(Debug, Default)]
pub struct Compacted {
    pub outputs: Vec<SstableInfo>,
    pub purged: Purged,
    /// It was cancelled, or its table dropped: everything is as before.
    pub is_cancelled: bool,
}

/// An SSTable of a table, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct SstableStatus {
    pub info: SstableInfo,
    /// Part of its cells and tombstones whose grace has passed, 0 to 1; an estimate.
    pub droppable: f64,
    /// Written under another number of shards: every shard has it open, and none merges it.
    pub is_shared: bool,
    /// It is being merged.
    pub is_input: bool,
    /// A part of it could not be read, so it is merged no more.
    pub is_set_aside: bool,
}

/// What became of the exchange of files.
enum Exchanged {
    Done,
    /// The table is dropped, or somebody wants no more of it.
    Unwanted,
    /// A write came meanwhile that something covers which was purged.
    Late,
}

impl Table {
    /// Whether it should be asked what to merge.
    pub fn is_compaction_due(&self) -> bool {
        self.compacting.is_due.get() && !self.is_attached && !self.dropped.get()
    }

    /// Has the table be asked, or not before something changes.
    pub fn set_compaction_due(&self, is_due: bool) {
        self.compacting.is_due.set(is_due);
    }

    /// What is known of the SSTables that may be merged, by number.
    fn file_facts(&self, now_seconds: i64) -> Vec<FileFacts> {
        let before = now_seconds - i64::from(self.options().gc_grace_seconds);
        let (mut seen, set_aside) =
            (self.compacting.seen.borrow_mut(), self.compacting.set_aside.borrow());
        let sstables = self.sstables.borrow();
        let numbers: BTreeSet<u64> =
            sstables.0.iter().map(|live| live.sstable.info().generation).collect();
        seen.retain(|number, _| numbers.contains(number));
        let own = sstables.0.iter().filter(|live| !live.is_shared).map(|live| &live.sstable);
        let mut facts: Vec<FileFacts> = own
            .filter(|sstable| !set_aside.contains(&sstable.info().generation))
            .map(|sstable| {
                let info = sstable.info();
                let first_seen = *seen.entry(info.generation).or_insert(now_seconds);
                FileFacts {
                    number: info.generation,
                    bytes: info.data_bytes,
                    level: info.level,
                    min_timestamp: info.min_timestamp,
                    max_timestamp: info.max_timestamp,
                    first: info.first_key.token(),
                    last: info.last_key.token(),
                    droppable: sstable.droppable(before),
                    is_expired: i64::from(info.max_deletion_time) < before,
                    age_seconds: now_seconds - first_seen,
                }
            })
            .collect();
        facts.sort_by_key(|file| file.number);
        facts
    }

    /// What should be merged next, if anything.
    pub fn choose_compaction(&self, now_seconds: i64) -> Option<Choice> {
        let files = self.file_facts(now_seconds);
        let options = self.options().compaction;
        choose(&Facts { files: &files, options: &options, now_seconds })
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
                droppable: live.sstable.droppable(before),
                is_shared: live.is_shared,
                is_input: !live.is_shared && inputs.contains(&number),
                is_set_aside: set_aside.contains(&number),
            }
        };
        let mut statuses: Vec<SstableStatus> = sstables.0.iter().map(status).collect();
        statuses.sort_by_key(|status| status.info.generation);
        statuses
    }

    /// Bytes of the data of these SSTables.
    pub fn bytes_of(&self, numbers: &[u64]) -> u64 {
        let sstables = self.sstables.borrow();
        let infos = sstables.0.iter().filter(|live| !live.is_shared).map(|l| l.sstable.info());
        let chosen = infos.filter(|info| numbers.contains(&info.generation));
        chosen.map(|info| info.data_bytes).sum()
    }

    /// Merges what was chosen and puts the outputs in the place of the inputs. One at a time.
    ///
    /// Errors: `Invalid` when an input is not there; `Io`, above all a full disk; `Corrupt` naming
    /// a file of an input, which is merged no more from now on. Everything is as before then, but
    /// after an error of the manifest files stay until it is known what that says.
    pub async fn compact(self: &Rc<Self>, order: CompactionOrder) -> Result<Compacted> {
        let mut inputs = self.inputs_of(&order.choice)?;
        *self.compacting.inputs.borrow_mut() = order.choice.inputs.iter().copied().collect();
        let compacted = self.compact_inputs(&order, &mut inputs).await;
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
            let mut own = sstables.0.iter().filter(|live| !live.is_shared);
            let live = own.find(|live| live.sstable.info().generation == *number);
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
        let table = self.schema.full_name();
        tracing::error!(table, %error, "a damaged SSTable is left out of compactions");
        self.compacting.set_aside.borrow_mut().insert(number);
        self.compacting.is_due.set(true);
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
        let mut may_purge = order.may_purge;
        loop {
            let known = self.numbers();
            let mut begun = Vec::new();
            let made = self.merge_and_open(order, inputs, may_purge, &mut begun).await;
            let (merged, outputs) = match made {
                Ok(made) => made,
                Err(error) => {
                    self.discard(begun).await;
                    // A table that is being dropped wants nothing of it.
                    let cancelled = Compacted { is_cancelled: true, ..Compacted::default() };
                    return if self.dropped.get() { Ok(cancelled) } else { Err(error) };
                }
            };
            let purged = merged.purged;
            let exchanged = match merged.is_cancelled {
                true => Exchanged::Unwanted,
                false => self.exchange(order, inputs, (merged, &outputs), &known).await?,
            };
            match exchanged {
                Exchanged::Done => {
                    let outputs = outputs.iter().map(|sstable| sstable.info().clone()).collect();
                    return Ok(Compacted { outputs, purged, is_cancelled: false });
                }
                Exchanged::Unwanted => {
                    drop(outputs);
                    self.discard(begun).await;
                    return Ok(Compacted { is_cancelled: true, ..Compacted::default() });
                }
                Exchanged::Late => {
                    drop(outputs);
                    self.discard(begun).await;
                    may_purge = false;
                }
            }
        }
    }

    /// Writes the outputs and opens them; the numbers that it takes are in `begun`.
    async fn merge_and_open(
        self: &Rc<Self>,
        order: &CompactionOrder,
        inputs: &[Rc<Sstable>],
        may_purge: bool,
        begun: &mut Vec<u64>,
    ) -> Result<(Merged, Vec<Rc<Sstable>>)> {
        let purge = may_purge.then(|| {
            let others = OtherSources {
                table: self.clone(),
                inputs: order.choice.inputs.iter().copied().collect(),
            };
            let now = i32::try_from(order.now_seconds).unwrap_or(i32::MAX);
            Purge::new(&self.schema, others, now, self.options().gc_grace_seconds)
        });
        let merge = Merge {
            inputs: inputs.to_vec(),
            purge,
            cut_bytes: order.choice.cut_bytes,
            progress: order.progress.clone(),
        };
        let merged = merge.run(async || self.begin_output(order, inputs, begun).await).await?;
        let mut outputs = Vec::new();
        if !merged.is_cancelled {
            for info in &merged.outputs {
                let sstable = self.open_written(info.generation).await?;
                // Reads could go on without what is damaged. The inputs are better.
                if let Some(error) = sstable.mended().first() {
                    return Err(error.clone());
                }
                if sstable.info() != info {
                    let (wanted, found) = (format!("{info:?}"), format!("{:?}", sstable.info()));
                    return Err(Error::corrupt(sstable.data_path(), 0, wanted, found));
                }
                outputs.push(sstable);
            }
        }
        Ok((merged, outputs))
    }

    /// The writer of a new SSTable of which the manifest says already that its files may go.
    async fn begin_output(
        &self,
        order: &CompactionOrder,
        inputs: &[Rc<Sstable>],
        begun: &mut Vec<u64>,
    ) -> Result<SstableWriter> {
        let generation = {
            let mut manifest = self.manifest.lock().await;
            if self.dropped.get() {
                // Its folder is about to go.
                return Err(Error::Closed);
            }
            let generation = self.take_generation();
            let spent = Edit::Spent { generations: vec![generation] };
            self.append(&mut manifest, vec![spent]).await?;
            assert!(
                manifest.spent().contains(&generation),
                "SSTable {generation} is begun, and a crash would leave its files"
            );
            generation
        };
        begun.push(generation);
        let infos = || inputs.iter().map(|sstable| sstable.info());
        let bases = infos()
            .filter(|info| info.min_timestamp != i64::MIN)
            .map(|info| info.bases())
            .reduce(|a, b| a.least(b))
            .filter(|_| infos().all(|info| info.min_timestamp != i64::MIN));
        let partitions = partitions_of(inputs, order.choice.cut_bytes);
        let options = WriterOptions {
            bases: bases.unwrap_or_default(),
            partitions_expected: (partitions > COUNTED_PARTITIONS_MAX).then_some(partitions),
            level: order.choice.level,
            origin: ORIGIN_COMPACTION,
            ..self.writer_options()
        };
        let (disk, schema) = (self.disk.clone(), self.schema.clone());
        SstableWriter::create(disk, &self.directory, generation, schema, options).await
    }

    /// As the manifest's own, with what it was not told yet.
    async fn append(&self, manifest: &mut Manifest, mut edits: Vec<Edit>) -> Result<()> {
        let generations = self.gone.take();
        if !generations.is_empty() {
            edits.insert(0, Edit::Gone { generations: generations.clone() });
        }
        let appended = manifest.append(edits).await;
        if appended.is_err() {
            self.gone.borrow_mut().extend(generations);
        }
        appended
    }

    /// Numbers of all SSTables that reads use.
    fn numbers(&self) -> BTreeSet<u64> {
        self.sstables.borrow().0.iter().map(|live| live.sstable.info().generation).collect()
    }

    /// No write that came since the SSTables were `known` is older than this.
    fn oldest_since(&self, known: &BTreeSet<u64>) -> i64 {
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

    /// Puts the outputs in the place of the inputs, for good. Then `inputs` is empty: who still has
    /// one of them is a reader.
    async fn exchange(
        &self,
        order: &CompactionOrder,
        inputs: &mut Vec<Rc<Sstable>>,
        (merged, outputs): (Merged, &[Rc<Sstable>]),
        known: &BTreeSet<u64>,
    ) -> Result<Exchanged> {
        let mut manifest = self.manifest.lock().await;
        if self.dropped.get() || order.progress.is_cancelled() {
            return Ok(Exchanged::Unwanted);
        }
        if merged.purged.newest.is_some_and(|newest| self.oldest_since(known) <= newest) {
            return Ok(Exchanged::Late);
        }
        order.progress.settle();
        check_outputs(inputs, outputs);
        let removed = order.choice.inputs.iter();
        let removed = removed.map(|generation| Edit::Remove { generation: *generation });
        let added = outputs.iter().map(|sstable| sstable.info().clone());
        let added = added.map(|info| Edit::Add { info, replay_through: None });
        let edits = removed.chain(added).collect();
        if let Err(error) = self.append(&mut manifest, edits).await {
            // Perhaps it stands there all the same.
            let numbers = outputs.iter().map(|sstable| sstable.info().generation);
            self.unnamed.borrow_mut().extend(numbers);
            self.owe();
            return Err(error);
        }
        {
            let live = manifest.live();
            assert!(
                !order.choice.inputs.iter().any(|generation| live.contains_key(generation))
                    && outputs.iter().all(|new| live.contains_key(&new.info().generation)),
                "the manifest has {:?} after {:?} were merged",
                live.keys(),
                order.choice.inputs
            );
            let mut sstables = self.sstables.borrow_mut();
            let sstables = &mut Rc::make_mut(&mut *sstables).0;
            let is_input = |live: &LiveSstable| {
                !live.is_shared && order.choice.inputs.contains(&live.sstable.info().generation)
            };
            sstables.retain(|live| !is_input(live));
            let new = outputs.iter().cloned();
            sstables.extend(new.map(|sstable| LiveSstable { sstable, is_shared: false }));
            if merged.purged != Purged::default() {
                let generation = self.generation.get() + 1;
                self.generation.set(generation);
                self.rows.begin_generation(generation);
            }
        }
        self.compacting.is_due.set(true);
        self.replaced.borrow_mut().append(inputs);
        self.forget_purged(&merged).await;
        self.owe();
        if let Err(error) = self.settle(&mut manifest).await {
            // The next flush or compaction does it.
            let table = self.schema.full_name();
            tracing::warn!(table, %error, "files that a compaction has replaced stay for now");
        }
        Ok(Exchanged::Done)
    }

    /// The manifest is to be sealed, and what follows from that to be done.
    fn owe(&self) {
        self.owed.set(Some(self.owed.get().flatten()));
    }

    /// What was purged must not be known any more: a write that is older would be hidden by it as
    /// long as the cache has it.
    async fn forget_purged(&self, merged: &Merged) {
        match &merged.purged_tokens {
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
                let table = self.schema.full_name();
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
    async fn discard(&self, begun: Vec<u64>) {
        for generation in begun {
            assert!(
                !self.has_sstable(generation),
                "SSTable {generation} would be thrown away, which reads use"
            );
            match remove_files(&*self.disk, &self.directory, generation).await {
                Ok(()) => self.gone.borrow_mut().push(generation),
                Err(error) => {
                    let table = self.schema.full_name();
                    tracing::warn!(table, generation, %error, "an unfinished SSTable stays");
                }
            }
        }
    }
}

/// A merge brings nothing in: outputs are disjoint, and hold no more than the inputs and nothing of
/// another time.
fn check_outputs(inputs: &[Rc<Sstable>], outputs: &[Rc<Sstable>]) {
    let (old, new) = (infos(inputs), infos(outputs));
    let is_disjoint = new.is_sorted_by(|a, b| a.last_key < b.first_key);
    assert!(is_disjoint, "outputs overlap: {new:?}");
    if inputs.iter().any(|input| !input.mended().is_empty()) {
        // What it says of itself may be lost.
        return;
    }
    let partitions = |infos: &[&SstableInfo]| infos.iter().map(|info| info.partitions).sum::<u64>();
    let rows = |infos: &[&SstableInfo]| infos.iter().map(|info| info.rows).sum::<u64>();
    assert!(
        partitions(&new) <= partitions(&old) && rows(&new) <= rows(&old),
        "{old:?} became {new:?}, which have more"
    );
    let oldest = old.iter().map(|info| info.min_timestamp).min();
    let newest = old.iter().map(|info| info.max_timestamp).max();
    let is_within = |info: &&SstableInfo| {
        oldest <= Some(info.min_timestamp) && Some(info.max_timestamp) <= newest
    };
    assert!(new.iter().all(is_within), "{old:?} became {new:?}, of another time");
}

fn infos(sstables: &[Rc<Sstable>]) -> Vec<&SstableInfo> {
    sstables.iter().map(|sstable| sstable.info()).collect()
}

/// Partitions that an output of these has at most, about, when it is cut at so many bytes.
fn partitions_of(inputs: &[Rc<Sstable>], cut_bytes: Option<u64>) -> u64 {
    let infos = || inputs.iter().map(|sstable| sstable.info());
    let partitions: u64 = infos().map(|info| info.partitions).sum();
    let bytes: u64 = infos().map(|info| info.data_bytes).sum();
    let share = cut_bytes.map_or(1.0, |cut| 1.25 * cut as f64 / bytes.max(1) as f64);
    (partitions as f64 * share.min(1.0)).ceil() as u64
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
