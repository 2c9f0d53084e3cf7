//! What a compaction makes, and how that takes the place of what it merges.
//!
//! ```text
//! whole        all outputs for all inputs, in one edit of the manifest
//! incremental  when an output ends: all outputs so far for the inputs that the merge has passed
//! ```
//! Between the edits of an incremental merge, outputs overlap with inputs that are left. Merging is
//! idempotent, so reads see the same. What was purged stands in remnants, SSTables of their own, as
//! long as an input reaches into them: that may have what a purged tombstone covers.
//!
//! Invariant: at every moment the manifest on disk, in each form in which a crash may leave it,
//! names SSTables that together hold every row, and all their files are there.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::compacting::CompactionOrder;
use super::table::{LiveSstable, Table};
use crate::compaction::{Merge, Merged, Others, Purged, Sink, note};
use crate::error::{Error, Result};
use crate::mutation::Fragment;
use crate::schema::table_schema::SchemaRef;
use crate::schema::{PartitionKey, Token};
use crate::sstable::manifest::Edit;
use crate::sstable::{ORIGIN_COMPACTION, Sstable, SstableInfo, SstableWriter, WriterOptions};

/// Partitions of the inputs up to which the bloom filter is sized when all are known, in one step;
/// beyond it by what the inputs say.
const COUNTED_PARTITIONS_MAX: u64 = 1 << 16;

/// What became of the exchange of files.
pub(super) enum Exchanged {
    Done,
    /// The table is dropped, or somebody wants no more of it.
    Unwanted,
    /// A write came meanwhile that something covers which was purged.
    Late,
}

/// What a compaction has made so far.
pub(super) struct Making<'a> {
    table: &'a Rc<Table>,
    order: &'a CompactionOrder,
    /// What the outputs follow, whatever becomes of the definition meanwhile.
    schema: SchemaRef,
    /// What is to be replaced yet.
    inputs: &'a mut Vec<Rc<Sstable>>,
    /// All inputs as they were at first.
    sources: Vec<SstableInfo>,
    /// What an input says of itself may be lost.
    is_mended: bool,
    /// It replaces inputs on its way: what becomes one output is exchanged at once.
    goes_by_steps: bool,
    /// SSTables that reads used when it began, and those that it brought.
    known: BTreeSet<u64>,
    /// Numbers that it took and that are not live.
    begun: Vec<u64>,
    /// Outputs that are whole and not live.
    ready: Vec<Rc<Sstable>>,
    /// Outputs that are live.
    live: Vec<SstableInfo>,
    /// Run of the outputs, once there is one.
    run: Option<u64>,
    /// The remnant that is being written, and the tokens of its partitions.
    remnant: Option<(SstableWriter, Option<Vec<Token>>)>,
    remnants: Vec<Remnant>,
}

/// An SSTable of what was purged.
struct Remnant {
    sstable: Rc<Sstable>,
    /// Of its partitions; `None` for too many.
    tokens: Option<Vec<Token>>,
    /// Timestamp of the newest that was purged by then.
    newest: Option<i64>,
    is_live: bool,
}

impl<'a> Making<'a> {
    pub(super) fn new(
        table: &'a Rc<Table>,
        order: &'a CompactionOrder,
        inputs: &'a mut Vec<Rc<Sstable>>,
    ) -> Self {
        let sources: Vec<SstableInfo> = inputs.iter().map(|input| input.info().clone()).collect();
        assert!(!sources.is_empty(), "a compaction of no SSTable");
        let run = match &sources[..] {
            // Within the range of one fragment nothing else of its run is.
            [only] if order.choice.is_incremental => table.run_of(only.generation),
            [only] if order.choice.is_resharding() => table.run_here(only.generation),
            _ => None,
        };
        let bytes: u64 = sources.iter().map(|info| info.data_bytes).sum();
        let becomes_several = order.choice.cut_bytes.is_some_and(|cut| bytes > cut);
        Making {
            table,
            order,
            schema: table.schema(),
            goes_by_steps: order.choice.is_incremental && sources.len() > 1 && becomes_several,
            sources,
            is_mended: inputs.iter().any(|input| !input.mended().is_empty()),
            inputs,
            known: table.numbers(),
            begun: Vec::new(),
            ready: Vec::new(),
            live: Vec::new(),
            run,
            remnant: None,
            remnants: Vec::new(),
        }
    }

    /// Outputs that are live, and remnants that stay because something older came late.
    pub(super) fn into_outputs(self) -> Vec<SstableInfo> {
        let stay = self.remnants.iter().filter(|remnant| remnant.is_live);
        let stay = stay.map(|remnant| remnant.sstable.info().clone());
        self.live.into_iter().chain(stay).collect()
    }

    /// Removes what it wrote and what is not live.
    pub(super) async fn discard(&mut self) {
        self.remnant = None;
        self.ready.clear();
        self.table.discard(std::mem::take(&mut self.begun)).await;
    }

    /// Runs the merge, and puts what it made in the place of its inputs.
    pub(super) async fn run<O: Others>(&mut self, merge: Merge<O>) -> Result<(Exchanged, Purged)> {
        let merged = merge.run(self).await?;
        let exchanged = match merged.is_cancelled {
            true => Exchanged::Unwanted,
            false => self.finish(&merged).await?,
        };
        Ok((exchanged, merged.purged))
    }

    /// The writer of a new SSTable of which the manifest says already that its files may go.
    async fn begin_output(&mut self, is_remnant: bool) -> Result<SstableWriter> {
        let table = self.table;
        let generation = {
            let mut manifest = table.manifest.lock().await;
            if table.dropped.get() {
                // Its folder is about to go.
                return Err(Error::Closed);
            }
            let generation = table.take_generation();
            let spent = Edit::Spent { generations: vec![generation] };
            table.append(&mut manifest, vec![spent]).await?;
            assert!(
                manifest.spent().contains(&generation),
                "SSTable {generation} is begun, and a crash would leave its files"
            );
            generation
        };
        self.begun.push(generation);
        let are_known = self.sources.iter().all(|info| info.min_timestamp != i64::MIN);
        let bases = self.sources.iter().map(|info| info.bases()).reduce(|a, b| a.least(b));
        let choice = &self.order.choice;
        let share: f64 = self.inputs.iter().map(|input| input.share()).sum();
        let share = if choice.is_resharding() { (1.1 * share).min(1.0) } else { 1.0 };
        let partitions = (partitions_of(&self.sources, choice.cut_bytes) as f64 * share) as u64;
        let is_many = partitions > COUNTED_PARTITIONS_MAX && !is_remnant;
        let options = WriterOptions {
            bases: bases.filter(|_| are_known).unwrap_or_default(),
            partitions_expected: is_many.then_some(partitions),
            level: choice.level,
            origin: ORIGIN_COMPACTION,
            ..table.writer_options()
        };
        let (disk, schema) = (table.disk.clone(), self.schema.clone());
        SstableWriter::create(disk, &table.directory, generation, schema, options).await
    }

    async fn open(&self, info: &SstableInfo) -> Result<Rc<Sstable>> {
        let sstable = self.table.open_written(info.generation).await?;
        // Reads could go on without what is damaged. The inputs are better.
        if let Some(error) = sstable.mended().first() {
            return Err(error.clone());
        }
        if sstable.info() != info {
            let (wanted, found) = (format!("{info:?}"), format!("{:?}", sstable.info()));
            return Err(Error::corrupt(sstable.data_path(), 0, wanted, found));
        }
        Ok(sstable)
    }

    /// Ends the remnant that is being written.
    async fn end_remnant(&mut self, newest: Option<i64>) -> Result<()> {
        let Some((writer, tokens)) = self.remnant.take() else { return Ok(()) };
        if let Some(info) = writer.finish().await? {
            let sstable = self.open(&info).await?;
            let number = info.generation;
            assert!(self.begun.contains(&number), "remnant {number} would outlive a crash");
            self.remnants.push(Remnant { sstable, tokens, newest, is_live: false });
        }
        Ok(())
    }

    /// Puts everything in the place of all inputs that are left, for good. Then `inputs` is empty:
    /// who still has one of them is a reader.
    ///
    /// Errors: `Io`; nothing is exchanged then, but files stay until it is known what the manifest
    /// says.
    async fn finish(&mut self, merged: &Merged) -> Result<Exchanged> {
        self.end_remnant(merged.purged.newest).await?;
        self.exchange(None, (merged.purged, &merged.purged_tokens)).await
    }

    /// Puts the outputs that are ready in the place of the inputs that were passed: of all, without
    /// `passed`. Something of these `tokens` was purged; remnants know their own.
    async fn exchange(
        &mut self,
        passed: Option<&PartitionKey>,
        (purged, tokens): (Purged, &Option<Vec<Token>>),
    ) -> Result<Exchanged> {
        let table = self.table;
        let mut manifest = table.manifest.lock().await;
        if table.dropped.get() || self.order.progress.is_cancelled() {
            return Ok(Exchanged::Unwanted);
        }
        let oldest = table.oldest_since(&self.known);
        if !self.goes_by_steps && purged.newest.is_some_and(|newest| oldest <= newest) {
            return Ok(Exchanged::Late);
        }
        if passed.is_none() {
            self.order.progress.settle();
            self.check_outputs();
        }
        let step = self.step(passed, oldest);
        assert!(
            !step.removed.iter().any(|number| step.added.contains(number)),
            "{:?} are replaced by {:?}",
            step.removed,
            step.added
        );
        let edits = self.edits(&step);
        if let Err(error) = table.append(&mut manifest, edits).await {
            // Perhaps it stands there all the same.
            self.begun.retain(|number| !step.added.contains(number));
            table.unnamed.borrow_mut().extend(&step.added);
            table.owe();
            return Err(error);
        }
        let live = manifest.live();
        assert!(
            !step.removed.iter().any(|number| live.contains_key(number))
                && step.added.iter().all(|number| live.contains_key(number)),
            "the manifest has {:?} after {:?} were merged into {:?}",
            live.keys(),
            step.removed,
            step.added
        );
        let has_purged = match self.goes_by_steps {
            true => !step.ended.is_empty(),
            false => purged != Purged::default(),
        };
        self.show(&step, has_purged);
        let ended = self.take_ended(&step);
        if !self.goes_by_steps && has_purged {
            table.forget_purged(tokens).await;
        }
        for remnant in &ended {
            table.forget_purged(&remnant.tokens).await;
        }
        table.owe();
        if let Err(error) = table.settle(&mut manifest).await {
            // The next flush or compaction does it.
            let table = table.schema().full_name();
            tracing::warn!(table, %error, "files that a compaction has replaced stay for now");
        }
        drop(manifest);
        let unused: Vec<u64> =
            ended.iter().filter(|remnant| !remnant.is_live).map(number).collect();
        drop(ended);
        self.begun.retain(|number| !unused.contains(number));
        table.discard(unused).await;
        Ok(Exchanged::Done)
    }

    /// What an exchange changes. No write that came meanwhile is older than `oldest`.
    fn step(&self, passed: Option<&PartitionKey>, oldest: i64) -> Step {
        let is_passed =
            |input: &&Rc<Sstable>| passed.is_none_or(|passed| input.info().last_key <= *passed);
        let (gone, left): (Vec<&Rc<Sstable>>, Vec<_>) = self.inputs.iter().partition(is_passed);
        assert!(passed.is_some() || left.is_empty(), "{} inputs are left at the end", left.len());
        let is_needed = |remnant: &&Remnant| {
            let own = remnant.sstable.info();
            let reaches = |input: &&Rc<Sstable>| {
                input.info().first_key <= own.last_key && own.first_key <= input.info().last_key
            };
            // What is older than a purged tombstone and came meanwhile is to be covered as well.
            let is_late = remnant.newest.is_some_and(|newest| oldest <= newest);
            is_late || left.iter().any(reaches)
        };
        let (needed, ended): (Vec<&Remnant>, Vec<_>) = self.remnants.iter().partition(is_needed);
        let removed = gone.iter().map(|input| input.info().generation);
        let replaced =
            ended.iter().filter(|remnant| remnant.is_live).map(|remnant| number(remnant));
        let added = self.ready.iter().map(|output| output.info().generation);
        let new = needed.iter().filter(|remnant| !remnant.is_live).map(|remnant| number(remnant));
        Step {
            removed: removed.chain(replaced).collect(),
            added: added.chain(new).collect(),
            ended: ended.iter().map(|remnant| number(remnant)).collect(),
        }
    }

    fn edits(&self, step: &Step) -> Vec<Edit> {
        let remove = |number: &u64| match self.order.choice.is_resharding() {
            true => Edit::Taken { generation: *number },
            false => Edit::Remove { generation: *number },
        };
        let removed = step.removed.iter().map(remove);
        let add = |sstable: &Rc<Sstable>| Edit::Add {
            info: sstable.info().clone(),
            replay_through: None,
            run: self.run_of_new(sstable),
        };
        removed.chain(self.added(step).iter().map(add)).collect()
    }

    /// The outputs are one run. Remnants are gone soon: each is its own.
    fn run_of_new(&self, sstable: &Rc<Sstable>) -> Option<u64> {
        let is_output = self.ready.iter().any(|output| Rc::ptr_eq(output, sstable));
        let (choice, number) = (&self.order.choice, sstable.info().generation);
        let is_of_run =
            |run: &u64| choice.is_incremental || choice.is_resharding() && *run != number;
        self.run.filter(|run| is_output && is_of_run(run))
    }

    fn added(&self, step: &Step) -> Vec<Rc<Sstable>> {
        let remnants = self.remnants.iter().map(|remnant| &remnant.sstable);
        let all = self.ready.iter().chain(remnants);
        all.filter(|sstable| step.added.contains(&sstable.info().generation)).cloned().collect()
    }

    /// Lets reads use what is live now.
    fn show(&mut self, step: &Step, has_purged: bool) {
        let table = self.table;
        let new = self.added(step).into_iter().map(|sstable| {
            let number = sstable.info().generation;
            let run = self.run_of_new(&sstable).unwrap_or(number);
            LiveSstable { sstable, is_shared: false, run }
        });
        let new: Vec<LiveSstable> = new.collect();
        let reshards = self.order.choice.is_resharding();
        if reshards && let (Some(new), [number]) = (new.first(), &step.removed[..]) {
            table.note_run(*number, new.run);
        }
        {
            let mut sstables = table.sstables.borrow_mut();
            let sstables = &mut Rc::make_mut(&mut *sstables).0;
            let is_removed = |live: &LiveSstable| {
                live.is_shared == reshards && step.removed.contains(&live.sstable.info().generation)
            };
            sstables.retain(|live| !is_removed(live));
            sstables.extend(new);
        }
        if has_purged {
            let generation = table.generation.get() + 1;
            table.generation.set(generation);
            table.rows.begin_generation(generation);
        }
        table.compacting.note_change();
        let is_gone = |input: &Rc<Sstable>| step.removed.contains(&input.info().generation);
        let gone = self.inputs.extract_if(.., |input| is_gone(input));
        match reshards {
            true => gone.for_each(|input| table.resharding.leave(input)),
            false => table.replaced.borrow_mut().extend(gone),
        }
        self.live.extend(self.ready.drain(..).map(|output| output.info().clone()));
        self.known.extend(&step.added);
        self.begun.retain(|number| !step.added.contains(number));
    }

    /// Takes the remnants that are needed no more out of the list; the others are live.
    fn take_ended(&mut self, step: &Step) -> Vec<Remnant> {
        let ended = self.remnants.extract_if(.., |remnant| step.ended.contains(&number(remnant)));
        let ended: Vec<Remnant> = ended.collect();
        let were_live = ended.iter().filter(|remnant| remnant.is_live);
        let were_live = were_live.map(|remnant| remnant.sstable.clone());
        self.table.replaced.borrow_mut().extend(were_live);
        self.remnants.iter_mut().for_each(|remnant| remnant.is_live = true);
        ended
    }

    /// A merge brings nothing in: outputs are disjoint, and hold no more than the inputs and
    /// nothing of another time.
    fn check_outputs(&self) {
        let ready = self.ready.iter().map(|output| output.info());
        let new: Vec<&SstableInfo> = self.live.iter().chain(ready).collect();
        let old: Vec<&SstableInfo> = self.sources.iter().collect();
        let is_disjoint = new.is_sorted_by(|a, b| a.last_key < b.first_key);
        assert!(is_disjoint, "outputs overlap: {new:?}");
        if self.is_mended {
            return;
        }
        let partitions =
            |infos: &[&SstableInfo]| infos.iter().map(|info| info.partitions).sum::<u64>();
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
}

/// Numbers of SSTables that an exchange concerns.
struct Step {
    /// Live no more.
    removed: Vec<u64>,
    /// Live from now on.
    added: Vec<u64>,
    /// Remnants that are needed no more, live or not.
    ended: Vec<u64>,
}

fn number(remnant: &Remnant) -> u64 {
    remnant.sstable.info().generation
}

impl Sink for Making<'_> {
    async fn begin(&mut self) -> Result<SstableWriter> {
        self.begin_output(false).await
    }

    async fn put(
        &mut self,
        output: SstableInfo,
        passed: &PartitionKey,
        purged: Purged,
    ) -> Result<()> {
        let sstable = self.open(&output).await?;
        self.run.get_or_insert(output.generation);
        self.ready.push(sstable);
        let is_passed = |input: &Rc<Sstable>| input.info().last_key <= *passed;
        if self.goes_by_steps && self.inputs.iter().any(is_passed) {
            self.end_remnant(purged.newest).await?;
            // What is unwanted ends at the next fragment.
            self.exchange(Some(passed), (purged, &None)).await?;
        }
        Ok(())
    }

    fn wants_remnants(&self) -> bool {
        self.goes_by_steps
    }

    async fn put_remnant(&mut self, fragment: Fragment) -> Result<()> {
        if self.remnant.is_none() {
            let writer = self.begin_output(true).await?;
            self.remnant = Some((writer, Some(Vec::new())));
        }
        let Some((writer, tokens)) = &mut self.remnant else { unreachable!("it was just begun") };
        if let Fragment::PartitionStart { key, .. } = &fragment {
            note(tokens, Some(key));
        }
        writer.push(fragment).await
    }
}

/// Partitions that an output of these has at most, about, when it is cut at so many bytes.
fn partitions_of(infos: &[SstableInfo], cut_bytes: Option<u64>) -> u64 {
    let partitions: u64 = infos.iter().map(|info| info.partitions).sum();
    let bytes: u64 = infos.iter().map(|info| info.data_bytes).sum();
    let share = cut_bytes.map_or(1.0, |cut| 1.25 * cut as f64 / bytes.max(1) as f64);
    (partitions as f64 * share.min(1.0)).ceil() as u64
}
