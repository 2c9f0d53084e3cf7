//! The promoted index of a partition held against its rows.

use std::path::PathBuf;

use super::verification::Verification;
use crate::error::Error;
use crate::inspect::dump::{StoredBlocks, prefix_text};
use crate::inspect::order::Prefix;
use crate::inspect::rows::{StoredFront, StoredLayout};
use crate::mutation::Tombstone;

/// The promoted index of one partition against its rows, as they come.
pub(super) struct BlockCheck<'a> {
    layout: &'a StoredLayout,
    blocks: Option<StoredBlocks>,
    path: PathBuf,
    partition_at: u64,
    /// Blocks that have started.
    started: usize,
    /// End of the last row or marker, its prefix, and the tombstone in force after it.
    last: Option<(u64, Prefix, Option<Tombstone>)>,
}

/// What a block says, at this place of the index, and what it should.
struct Mismatch {
    at: u64,
    wanted: String,
    stored: String,
}

/// A range tombstone as people read it.
pub(super) fn tombstone_text(tombstone: Option<Tombstone>) -> String {
    match tombstone {
        Some(Tombstone { timestamp, deletion_time }) => {
            format!("the range tombstone of {timestamp}, local deletion time {deletion_time}")
        }
        None => "no range tombstone".to_owned(),
    }
}

impl<'a> BlockCheck<'a> {
    pub(crate) fn new(
        layout: &'a StoredLayout,
        front: &StoredFront,
        blocks: Option<StoredBlocks>,
        path: PathBuf,
        found: &mut Verification,
    ) -> Self {
        if let Some(blocks) = &blocks {
            let wanted = (front.body - front.at, front.deletion);
            let stored = (blocks.header_bytes, blocks.deletion);
            if wanted != stored {
                let text = |(bytes, deletion): (u64, Option<Tombstone>)| {
                    format!("a front of {bytes} bytes with deletion {deletion:?}")
                };
                found.add(Error::corrupt(&path, blocks.at, text(wanted), text(stored)));
            }
        }
        BlockCheck { layout, blocks, path, partition_at: front.at, started: 0, last: None }
    }

    /// A row or marker starts at `at`.
    pub(crate) fn start(&mut self, at: u64, prefix: &Prefix, found: &mut Verification) {
        let Some(blocks) = &self.blocks else { return };
        let layout = self.layout;
        let text = |prefix: &Prefix| prefix_text(layout, prefix);
        let offset = at - self.partition_at;
        let Some(block) = blocks.blocks.get(self.started) else { return };
        let problem = if block.offset == offset {
            self.started += 1;
            let differs = block.first != *prefix;
            let first = || Mismatch {
                at: block.at,
                wanted: format!("a first key {}", text(prefix)),
                stored: text(&block.first),
            };
            differs.then(first).or_else(|| {
                let before = self.started.checked_sub(2)?;
                self.closed(before, &[at])
            })
        } else if self.started == 0 || block.offset < offset {
            let wanted = format!("an offset of {offset}");
            Some(Mismatch { at: block.at, wanted, stored: block.offset.to_string() })
        } else {
            None
        };
        self.report(problem, found);
    }

    pub(crate) fn done(&mut self, end: u64, prefix: &Prefix, open: Option<Tombstone>) {
        if self.blocks.is_some() {
            self.last = Some((end, prefix.clone(), open));
        }
    }

    /// The partition ended with the byte before `end`.
    pub(crate) fn end(&mut self, end: u64, found: &mut Verification) {
        let Some(blocks) = &self.blocks else { return };
        let problem = match blocks.blocks.get(self.started) {
            Some(block) => {
                let wanted = "an offset at which a row or marker starts".to_owned();
                Some(Mismatch { at: block.at, wanted, stored: block.offset.to_string() })
            }
            // The mark of the end may count.
            None => self.closed(self.started - 1, &[end - 1, end]),
        };
        self.report(problem, found);
    }

    /// What is wrong with the end of a block, which may be one of `ends`.
    fn closed(&self, number: usize, ends: &[u64]) -> Option<Mismatch> {
        let block = &self.blocks.as_ref()?.blocks[number];
        let (_, prefix, open) = self.last.as_ref()?;
        if block.last != *prefix {
            let text = |prefix: &Prefix| prefix_text(self.layout, prefix);
            let wanted = format!("a last key {}", text(prefix));
            return Some(Mismatch { at: block.at, wanted, stored: text(&block.last) });
        }
        if block.open != *open {
            let wanted = format!("{} after the block", tombstone_text(*open));
            return Some(Mismatch { at: block.at, wanted, stored: tombstone_text(block.open) });
        }
        let start = self.partition_at + block.offset;
        let widths: Vec<i64> = ends.iter().map(|end| (end - start) as i64).collect();
        (!widths.contains(&block.width)).then(|| Mismatch {
            at: block.at,
            wanted: format!("a width of {}", widths[0]),
            stored: block.width.to_string(),
        })
    }

    /// One problem a promoted index is enough.
    fn report(&mut self, problem: Option<Mismatch>, found: &mut Verification) {
        if let Some(Mismatch { at, wanted, stored }) = problem {
            found.add(Error::corrupt(&self.path, at, wanted, stored));
            self.blocks = None;
        }
    }
}
