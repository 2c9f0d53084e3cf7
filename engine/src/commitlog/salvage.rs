//! Reading on behind damage: what stands in a segment from the next chunk on.
//!
//! Invariant: a record is only looked for where a block says that a chunk starts. What merely looks
//! like a record, in a value that somebody wrote, is never taken for one. Blocks of segments of
//! version 1 do not say it: of those, all behind the damage is left out.

use std::ops::Range;
use std::path::Path;

use super::block::{self, BLOCK_BYTES, PAYLOAD_BYTES, Trailer};
use super::records::{Apply, ReplaySummary, Stop, hand_out};
use super::segment::RECORDS_START;
use crate::error::Result;

/// Hands out the records behind the damage at `from`; returns the bytes that were left out.
///
/// Errors: whatever `apply` returns.
pub(super) fn salvage(
    id: u64,
    path: &Path,
    content: &[u8],
    from: u32,
    apply: &mut Apply<'_>,
    summary: &mut ReplaySummary,
) -> Result<Vec<Range<u32>>> {
    let blocks = Blocks::of(id, content);
    let mut left_out = Vec::new();
    // Of a damaged header nothing is lost but the header.
    let (mut lost, mut search) = (from.max(RECORDS_START), from.max(RECORDS_START - 1) + 1);
    loop {
        let Some(start) = blocks.next_chunk(search) else {
            let end = blocks.stable.max(blocks.end());
            if lost < end {
                left_out.push(lost..end);
            }
            return Ok(left_out);
        };
        assert!(start >= search, "chunk {start} of segment {id} is looked at again");
        if lost < start {
            left_out.push(lost..start);
        }
        let (payload, end) = blocks.run(content, start);
        lost = match hand_out((id, start), path, &payload, apply, summary)? {
            Stop::Damage(at, _) => at,
            Stop::Cut(at) if end < blocks.stable => at,
            // Nobody was told that what stands behind this place is done.
            Stop::End | Stop::Cut(_) if end >= blocks.stable => return Ok(left_out),
            Stop::End | Stop::Cut(_) => end,
        };
        search = lost + 1;
    }
}

/// The blocks of one segment, by place; none where there is no whole one of it.
struct Blocks {
    trailers: Vec<Option<Trailer>>,
    /// Everything before this offset was on stable storage once.
    stable: u32,
}

impl Blocks {
    fn of(id: u64, content: &[u8]) -> Self {
        let blocks = content.chunks(BLOCK_BYTES).enumerate();
        let trailers: Vec<Option<Trailer>> = blocks
            .map(|(at, block)| block::inspect(block, (at * BLOCK_BYTES) as u32))
            .map(|trailer| trailer.filter(|trailer| trailer.segment == id))
            .collect();
        let stable = trailers.iter().flatten().map(|trailer| trailer.stable).max().unwrap_or(0);
        Blocks { trailers, stable }
    }

    /// Offset behind the last whole block.
    fn end(&self) -> u32 {
        let last = self.trailers.iter().rposition(Option::is_some);
        last.map_or(0, |last| ((last + 1) * BLOCK_BYTES) as u32)
    }

    /// Offset of the first block at or behind `from` where a chunk starts.
    fn next_chunk(&self, from: u32) -> Option<u32> {
        let first = (from as usize).div_ceil(BLOCK_BYTES);
        let starts = |trailer: &Option<Trailer>| trailer.is_some_and(|t| t.starts_chunk);
        let at = self.trailers.get(first..)?.iter().position(starts)?;
        Some(((first + at) * BLOCK_BYTES) as u32)
    }

    /// Joined payloads of the whole blocks from `start` on, and the offset behind them.
    fn run(&self, content: &[u8], start: u32) -> (Vec<u8>, u32) {
        assert!((start as usize).is_multiple_of(BLOCK_BYTES), "a chunk at {start}, in a block");
        let first = start as usize / BLOCK_BYTES;
        let count = self.trailers[first..].iter().take_while(|trailer| trailer.is_some()).count();
        let blocks = content.chunks(BLOCK_BYTES).skip(first).take(count);
        let payload = blocks.flat_map(|block| &block[..PAYLOAD_BYTES]).copied().collect();
        (payload, ((first + count) * BLOCK_BYTES) as u32)
    }
}
