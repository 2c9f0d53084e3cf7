//! The merge of some SSTables into new ones.

use std::collections::VecDeque;
use std::rc::Rc;

use super::chain::streams;
use super::progress::Progress;
use super::purge::{Others, Purge, Purged};
use super::remnant::Remnants;
use crate::error::Result;
use crate::mutation::{Direction, FlatRow, Fragment, RowView, ViewRoom, Weight};
use crate::reader::{DroppedCells, MergeSource, Uncovered};
use crate::runtime;
use crate::schema::{PartitionKey, Token};
use crate::sstable::{Sstable, SstableInfo, SstableWriter};

/// Partitions of which something was purged that are told one by one.
const TOKENS_MAX: usize = if cfg!(test) { 16 } else { 65_536 };

/// A merge to be run.
pub struct Merge<O> {
    pub inputs: Vec<Rc<Sstable>>,
    /// What went with its column, and goes whatever else may.
    pub dropped: Option<DroppedCells>,
    /// What may go; nothing else goes without one.
    pub purge: Option<Purge<O>>,
    /// Bytes of data at which an output ends, behind a partition.
    pub cut_bytes: Option<u64>,
    pub progress: Rc<Progress>,
}

/// Where a merge puts what it makes.
#[expect(async_fn_in_trait, reason = "a shard is one thread: no future has to be sent")]
pub trait Sink {
    /// The writer of the next output.
    ///
    /// Errors: `Io`; `Closed` when nothing is wanted any more.
    async fn begin(&mut self) -> Result<SstableWriter>;

    /// Takes an output that is durable. Everything up to and with `passed` is in it, in those
    /// before it, or was purged. `purged` is the sum so far.
    ///
    /// Errors: `Io`; `Corrupt` when it cannot be read.
    async fn put(
        &mut self,
        output: SstableInfo,
        passed: &PartitionKey,
        purged: Purged,
    ) -> Result<()>;

    /// Whether it wants to be told what is purged.
    fn wants_remnants(&self) -> bool;

    /// Takes the next fragment of what is purged, in order.
    ///
    /// Errors: `Io`.
    async fn put_remnant(&mut self, fragment: Fragment) -> Result<()>;
}

/// What a merge came to.
#[derive(Debug, Default)]
pub struct Merged {
    pub purged: Purged,
    /// Tokens of the partitions of which something was purged; `None` for too many.
    pub purged_tokens: Option<Vec<Token>>,
    /// It was cancelled: what it has not put where it belongs is not to be used.
    pub is_cancelled: bool,
}

impl<O: Others> Merge<O> {
    /// Reads the inputs and writes what is left of them, in ring order.
    ///
    /// Errors: `Io`; `Corrupt` naming the file; those of the sink. What was written is left there,
    /// without a table of contents or with one.
    pub async fn run(self, sink: &mut impl Sink) -> Result<Merged> {
        let Merge { inputs, dropped, purge, cut_bytes, progress } = self;
        progress.begin(inputs.iter().map(entries_of).sum());
        let mut source = MergeSource::merge(streams(inputs, &progress), Direction::Forward);
        let mut fragments = VecDeque::new();
        let mut pass = Pass {
            filters: Filters { dropped, uncovered: Uncovered::default(), purge },
            remnants: sink.wants_remnants().then(Remnants::default),
            partition: None,
            room: ViewRoom::default(),
            merged: Merged { purged_tokens: Some(Vec::new()), ..Merged::default() },
        };
        let mut writer: Option<SstableWriter> = None;
        // Bytes of the outputs before the one that is being written.
        let mut finished_bytes = 0;
        loop {
            source.fill(&mut fragments).await?;
            if fragments.is_empty() {
                break;
            }
            // Most rows are written where they lie.
            for fragment in fragments.iter_mut() {
                runtime::maybe_yield().await;
                if progress.is_cancelled() {
                    return Ok(Merged { is_cancelled: true, ..pass.merged });
                }
                if let (Fragment::FlatRow(flat), Some(output)) = (&*fragment, &mut writer)
                    && pass.hand_on(flat, output)
                {
                    progress.set_written(finished_bytes + output.data_bytes());
                    continue;
                }
                let fragment = std::mem::replace(fragment, Fragment::PartitionEnd);
                let ends = fragment == Fragment::PartitionEnd;
                let Some(fragment) = pass.left_of(fragment, sink).await? else { continue };
                let output = match &mut writer {
                    Some(writer) => writer,
                    None => writer.insert(sink.begin().await?),
                };
                output.push(fragment).await?;
                let bytes = output.data_bytes();
                progress.set_written(finished_bytes + bytes);
                if ends
                    && cut_bytes.is_some_and(|cut| bytes >= cut)
                    && let Some(full) = writer.take()
                {
                    finished_bytes += bytes;
                    put(full, sink, pass.so_far()).await?;
                }
            }
            fragments.clear();
        }
        if let Some(last) = writer {
            put(last, sink, pass.so_far()).await?;
        }
        Ok(pass.merged)
    }
}

/// What decides on a fragment.
struct Filters<O> {
    dropped: Option<DroppedCells>,
    uncovered: Uncovered,
    purge: Option<Purge<O>>,
}

impl<O: Others> Filters<O> {
    /// Whether all of a row without multi-cell columns is left.
    fn leave(&self, row: &RowView<'_>) -> bool {
        row.is_compacted()
            && self.dropped.as_ref().is_none_or(|dropped| dropped.leave(row))
            && self.uncovered.leaves(row)
            && self.purge.as_ref().is_none_or(|purge| !purge.concerns(row))
    }
}

/// What a fragment goes through between the inputs and the output.
struct Pass<O> {
    filters: Filters<O>,
    remnants: Option<Remnants>,
    partition: Option<Rc<PartitionKey>>,
    room: ViewRoom,
    merged: Merged,
}

impl<O: Others> Pass<O> {
    /// Writes a row of which all is left, where the writer need not wait: most rows of most tables.
    /// False where nothing was written.
    fn hand_on(&mut self, flat: &FlatRow, output: &mut SstableWriter) -> bool {
        debug_assert!(flat.has_row() && flat.weight() == Weight::At, "no row: {flat:?}");
        let filters = &self.filters;
        self.room.of_flat(flat, |row| filters.leave(&row) && output.push_now(flat.key(), &row))
    }

    /// What is left of a fragment. The sink is told what is purged, if it wants to be.
    ///
    /// Errors: those of the sink.
    async fn left_of(
        &mut self,
        fragment: Fragment,
        sink: &mut impl Sink,
    ) -> Result<Option<Fragment>> {
        let Pass { filters, remnants, partition, room, merged } = self;
        if let Fragment::FlatRow(flat) = &fragment
            && room.of_flat(flat, |row| filters.leave(&row))
        {
            return Ok(Some(fragment));
        }
        if let Fragment::PartitionStart { key, .. } = &fragment {
            *partition = Some(key.clone());
        }
        let Filters { dropped, uncovered, purge } = filters;
        let fragment = dropped.iter().fold(whole(fragment), |row, gone| gone.pass(row));
        let Some(fragment) = uncovered.pass(fragment) else { return Ok(None) };
        let Some(purge) = purge else { return Ok(Some(fragment)) };
        let before = remnants.as_ref().map(|_| fragment.clone());
        let left = purge.pass(fragment);
        let has_purged = merged.purged != purge.purged();
        if has_purged {
            merged.purged = purge.purged();
            note(&mut merged.purged_tokens, partition.as_deref());
        }
        if let (Some(remnants), Some(before)) = (remnants, before) {
            for gone in remnants.of(before, left.as_ref(), (purge, has_purged)) {
                sink.put_remnant(gone).await?;
            }
        }
        Ok(left)
    }

    /// The last partition that came, and what was purged.
    fn so_far(&self) -> (Option<&PartitionKey>, Purged) {
        (self.partition.as_deref(), self.merged.purged)
    }
}

/// Rows and partitions of an input, about as many as of it count.
fn entries_of(input: &Rc<Sstable>) -> u64 {
    let info = input.info();
    ((info.rows + info.partitions) as f64 * input.share()) as u64
}

/// Ends an output, and hands it over unless nothing is in it.
async fn put(
    writer: SstableWriter,
    sink: &mut impl Sink,
    (passed, purged): (Option<&PartitionKey>, Purged),
) -> Result<()> {
    let output = writer.finish().await?;
    match (output, passed) {
        (Some(output), Some(passed)) => sink.put(output, passed, purged).await,
        _ => Ok(()),
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
pub(crate) fn note(tokens: &mut Option<Vec<Token>>, partition: Option<&PartitionKey>) {
    let Some(known) = tokens else { return };
    let token = partition.map(PartitionKey::token);
    if known.last().copied() == token {
        return;
    }
    if known.len() < TOKENS_MAX {
        known.extend(token);
    } else {
        *tokens = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::token::key_with_token;

    /// Of those that are not told one by one nobody knows which they are.
    #[test]
    fn partitions_are_told_once_each_up_to_the_most_and_of_more_none() {
        let key = |token: i64| PartitionKey::from_bytes(key_with_token(Token(token), 0));
        let most = TOKENS_MAX as i64;
        for count in [0, 1, most - 1, most] {
            let mut tokens = Some(Vec::new());
            for token in 0..count {
                note(&mut tokens, Some(&key(token)));
                note(&mut tokens, Some(&key(token)));
            }
            assert_eq!(tokens, Some((0..count).map(Token).collect()), "{count}");
        }
        let mut tokens = Some((0..most).map(Token).collect());
        for token in most..most + 3 {
            note(&mut tokens, Some(&key(token)));
            assert_eq!(tokens, None, "{token}");
        }
    }
}
