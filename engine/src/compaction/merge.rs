//! The merge of some SSTables into new ones.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::purge::{Others, Purge, Purged};
use crate::error::Result;
use crate::mutation::{Direction, Fragment, FragmentSource, PartitionRange, Slice};
use crate::reader::{MergeSource, Uncovered};
use crate::runtime;
use crate::schema::Token;
use crate::sstable::{ReadPlan, Sstable, SstableInfo, SstableWriter};

/// Partitions of which something was purged that are told one by one.
const TOKENS_MAX: usize = if cfg!(test) { 16 } else { 65_536 };

/// How far a merge is, for onlookers and for whoever wants it to end.
#[derive(Debug, Default)]
pub struct Progress {
    /// Rows and partitions that were read, and that the inputs have.
    read: Cell<u64>,
    total: Cell<u64>,
    written_bytes: Cell<u64>,
    is_cancelled: Cell<bool>,
    /// Its outputs are taking the place of its inputs.
    is_settled: Cell<bool>,
}

impl Progress {
    /// Part that is done, 0 to 1.
    pub fn share(&self) -> f64 {
        (self.read.get() as f64 / self.total.get().max(1) as f64).min(1.0)
    }

    /// Bytes of data that were written.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.get()
    }

    /// Has the merge end at the next place where it can; false where it is too late for that.
    pub fn cancel(&self) -> bool {
        let is_in_time = !self.is_settled.get();
        if is_in_time {
            self.is_cancelled.set(true);
        }
        is_in_time
    }

    /// From now on it is too late to cancel.
    pub fn settle(&self) {
        assert!(!self.is_cancelled.get(), "what was cancelled takes no place");
        self.is_settled.set(true);
    }

    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.get()
    }
}

/// A merge to be run.
pub struct Merge<O> {
    pub inputs: Vec<Rc<Sstable>>,
    /// What may go; nothing goes without one.
    pub purge: Option<Purge<O>>,
    /// Bytes of data at which an output ends, behind a partition.
    pub cut_bytes: Option<u64>,
    pub progress: Rc<Progress>,
}

/// What a merge came to.
#[derive(Debug, Default)]
pub struct Merged {
    /// The new SSTables, which are durable, in ring order.
    pub outputs: Vec<SstableInfo>,
    pub purged: Purged,
    /// Tokens of the partitions of which something was purged; `None` for too many.
    pub purged_tokens: Option<Vec<Token>>,
    /// It was cancelled: what it wrote is not to be used.
    pub is_cancelled: bool,
}

impl<O: Others> Merge<O> {
    /// Reads the inputs and writes what is left of them. `begin` makes the writer of each output.
    ///
    /// Errors: `Io`; `Corrupt` naming the file. What was written is left there, without a table of
    /// contents or with one.
    pub async fn run(
        self,
        mut begin: impl AsyncFnMut() -> Result<SstableWriter>,
    ) -> Result<Merged> {
        let Merge { inputs, mut purge, cut_bytes, progress } = self;
        let infos = inputs.iter().map(|sstable| sstable.info());
        progress.read.set(0);
        progress.total.set(infos.map(|info| info.rows + info.partitions).sum());
        let mut source = merged(&inputs, &progress);
        let mut merged = Merged { purged_tokens: Some(Vec::new()), ..Merged::default() };
        let mut fragments = VecDeque::new();
        let mut uncovered = Uncovered::default();
        let mut writer: Option<SstableWriter> = None;
        // Bytes of the outputs before the one that is being written.
        let mut finished_bytes = 0;
        let mut token = None;
        loop {
            source.fill(&mut fragments).await?;
            if fragments.is_empty() {
                break;
            }
            for fragment in fragments.drain(..) {
                runtime::maybe_yield().await;
                if progress.is_cancelled() {
                    return Ok(Merged { is_cancelled: true, ..merged });
                }
                let ends = fragment == Fragment::PartitionEnd;
                if let Fragment::PartitionStart { key, .. } = &fragment {
                    token = Some(key.token());
                }
                let Some(fragment) = uncovered.pass(whole(fragment)) else { continue };
                let before = merged.purged;
                let fragment = match &mut purge {
                    Some(purge) => {
                        let left = purge.pass(fragment);
                        merged.purged = purge.purged();
                        left
                    }
                    None => Some(fragment),
                };
                if merged.purged != before {
                    note(&mut merged.purged_tokens, token);
                }
                let Some(fragment) = fragment else { continue };
                let output = match &mut writer {
                    Some(writer) => writer,
                    None => writer.insert(begin().await?),
                };
                output.push(fragment).await?;
                let bytes = output.data_bytes();
                progress.written_bytes.set(finished_bytes + bytes);
                if ends
                    && cut_bytes.is_some_and(|cut| bytes >= cut)
                    && let Some(full) = writer.take()
                {
                    finished_bytes += bytes;
                    merged.outputs.extend(full.finish().await?);
                }
            }
        }
        if let Some(last) = writer {
            merged.outputs.extend(last.finish().await?);
        }
        Ok(merged)
    }
}

/// A row without what its own tombstone covers, as files of other products may have it.
fn whole(fragment: Fragment) -> Fragment {
    match fragment.thawed() {
        Fragment::Row { key, mut row } if !row.is_compacted() => {
            Rc::make_mut(&mut row).apply_own_tombstone();
            Fragment::Row { key, row }
        }
        other => other,
    }
}

/// Takes note of a partition of which something was purged.
fn note(tokens: &mut Option<Vec<Token>>, token: Option<Token>) {
    let Some(known) = tokens else { return };
    if known.last().copied() == token {
        return;
    }
    if known.len() < TOKENS_MAX {
        known.extend(token);
    } else {
        *tokens = None;
    }
}

/// One stream of all inputs, past the caches.
fn merged(inputs: &[Rc<Sstable>], progress: &Rc<Progress>) -> Box<dyn FragmentSource> {
    let (range, slice) = (PartitionRange::full(), Slice::full(Direction::Forward));
    let plan = ReadPlan::of(&range, &slice);
    let sources = inputs.iter().filter_map(|sstable| {
        let source = sstable.read(&plan)?;
        Some(Box::new(Counted { source, progress: progress.clone() }) as Box<dyn FragmentSource>)
    });
    MergeSource::merge(sources.collect(), Direction::Forward)
}

/// Counts what an input gives.
struct Counted {
    source: Box<dyn FragmentSource>,
    progress: Rc<Progress>,
}

impl FragmentSource for Counted {
    fn announce_long_rows(&mut self) {
        self.source.announce_long_rows();
    }

    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>> {
        async move {
            let before = out.len();
            self.source.fill(out).await?;
            let counts = |fragment: &&Fragment| {
                !matches!(fragment, Fragment::RangeTombstoneChange { .. } | Fragment::PartitionEnd)
            };
            let count = out.range(before..).filter(counts).count() as u64;
            self.progress.read.set(self.progress.read.get() + count);
            Ok(())
        }
        .boxed_local()
    }
}
