//! Records out of the payloads of blocks, and what reading them back comes to.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::ReplayPosition;
use super::block::{self, PAYLOAD_BYTES};
use super::chunk::{FRAME_BYTES, next_start, offset_of};
use crate::checksum::crc32;
use crate::error::{Error, Result};
use crate::mutation::{Mutation, codec};

/// A segment that is not as it was written.
#[derive(Debug, Clone)]
pub struct Damaged {
    pub segment: u64,
    /// Records at this offset and behind it may be lost.
    pub from: u32,
    pub error: Error,
    /// With [`Recovery::SkipDamagedLog`], the bytes that were left out; a missing file has none.
    pub left_out: Vec<Range<u32>>,
}

/// What replay found.
#[derive(Debug, Clone, Default)]
pub struct ReplaySummary {
    /// Segments with at least a header.
    pub segments: u64,
    pub records: u64,
    /// Bytes of mutations.
    pub bytes: u64,
    /// Segments that end in writes that were under way when the process or machine stopped.
    pub torn_tails: u64,
    /// Segments that are missing or damaged, by id.
    pub damaged: Vec<Damaged>,
    /// Every segment file found, in order, unused ones included: to be removed once all records
    /// are in SSTables.
    pub paths: Vec<PathBuf>,
}

/// Takes what replay finds.
pub(super) type Apply<'a> = dyn FnMut(ReplayPosition, Mutation) -> Result<()> + 'a;

/// Why records come to an end.
pub(super) enum Stop {
    End,
    /// The record at this offset runs out of the blocks.
    Cut(u32),
    /// What stands at this offset is no record.
    Damage(u32, Error),
}

/// Hands out the records in the payloads of blocks, of which the first stands at `place`: a segment
/// and an offset.
///
/// Errors: whatever `apply` returns.
pub(super) fn hand_out(
    place: (u64, u32),
    path: &Path,
    payload: &[u8],
    apply: &mut Apply<'_>,
    summary: &mut ReplaySummary,
) -> Result<Stop> {
    let mut at = 0;
    loop {
        let size = match frame_at(payload, &mut at, path, place.1) {
            Ok(Some(size)) => size,
            Ok(None) => return Ok(Stop::End),
            Err(error) => return Ok(Stop::Damage(place.1 + offset_of(at), error)),
        };
        let start = at + FRAME_BYTES;
        let offset = place.1 + offset_of(at);
        let Some(record) = payload.get(start..start + size) else { return Ok(Stop::Cut(offset)) };
        let mutation = match codec::decode(record) {
            Ok(mutation) => mutation,
            Err(error) => {
                let error = Error::corrupt(path, offset.into(), "a mutation", error);
                return Ok(Stop::Damage(offset, error));
            }
        };
        apply(ReplayPosition { segment: place.0, offset }, mutation)?;
        summary.records += 1;
        summary.bytes += size as u64;
        at = start + size;
    }
}

/// Size of the next record at or behind `at`, which is moved to its frame; none at the end.
fn frame_at(payload: &[u8], at: &mut usize, path: &Path, first: u32) -> Result<Option<usize>> {
    loop {
        *at = next_start(*at);
        let Some(frame) = payload.get(*at..*at + FRAME_BYTES) else { return Ok(None) };
        if !block::is_zero(frame) {
            let size: [u8; 4] = frame[..4].try_into().expect("a frame has eight bytes");
            let crc = u32::from_be_bytes(frame[4..].try_into().expect("a frame has eight bytes"));
            if crc32(&size) != crc {
                let offset = first + offset_of(*at);
                let wanted = format!("size checksum {:08x}", crc32(&size));
                return Err(Error::corrupt(path, offset.into(), wanted, format!("{crc:08x}")));
            }
            return Ok(Some(u32::from_be_bytes(size) as usize));
        }
        // Padding: the next chunk starts with the next block.
        *at = (*at + 1).next_multiple_of(PAYLOAD_BYTES);
    }
}
