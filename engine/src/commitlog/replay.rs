//! Reading a log back after a start.
//!
//! Invariant: records are handed out in the order they were appended, each whole and checked; the
//! log ends at the first place that was never acknowledged. A place that was, and is damaged, is
//! an error: nothing behind it is handed out.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::ReplayPosition;
use super::block::{self, BLOCK_BYTES, PAYLOAD_BYTES};
use super::chunk::{FRAME_BYTES, next_start, offset_of};
use super::segment::{self, Header, RECORDS_START};
use crate::checksum::crc32;
use crate::disk::{Disk, read_file, remove_if_there};
use crate::error::{Error, Result};
use crate::mutation::{Mutation, codec};

/// What replay found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplaySummary {
    /// Segments with at least a header.
    pub segments: u64,
    pub records: u64,
    /// Bytes of mutations.
    pub bytes: u64,
    /// Segments that end in writes that were under way when the process or machine stopped.
    pub torn_tails: u64,
    /// Every segment file found, in order, unused ones included: to be removed once all records
    /// are in SSTables.
    pub paths: Vec<PathBuf>,
}

/// Reads the segments in a shard's directory whose ids are below `before`, in order, and calls
/// `apply` for each record. A log that was started since has the later ids.
///
/// Errors: `Corrupt` with file and offset where an acknowledged record is damaged; `Unavailable`
/// for a newer format; `Io`; whatever `apply` returns.
pub async fn replay(
    disk: &Rc<dyn Disk>,
    directory: &Path,
    before: u64,
    apply: &mut dyn FnMut(ReplayPosition, Mutation) -> Result<()>,
) -> Result<ReplaySummary> {
    let entries = disk.list(directory).await?;
    let mut ids: Vec<(u64, PathBuf)> = entries
        .iter()
        .filter(|entry| !entry.is_directory)
        .filter_map(|entry| Some((segment::id_of(&entry.name)?, directory.join(&entry.name))))
        .filter(|(id, _)| *id < before)
        .collect();
    ids.sort();
    let mut summary = ReplaySummary::default();
    for (id, path) in ids {
        let content = read_file(&**disk, &path).await?;
        let wanted = replay_segment(id, &path, &content, apply, &mut summary)?;
        // A header stands only in a segment whose size was stable before.
        if let Some(wanted) = wanted.filter(|wanted| *wanted as usize != content.len()) {
            let wanted = format!("a segment of {wanted} bytes");
            let found = format!("{} bytes", content.len());
            return Err(Error::corrupt(path, content.len() as u64, wanted, found));
        }
        summary.paths.push(path);
    }
    Ok(summary)
}

/// Removes segment files, oldest first, and makes that durable. Files that are gone are no error.
pub async fn remove_segments(disk: &Rc<dyn Disk>, paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        remove_if_there(&**disk, path).await?;
    }
    let mut directories: Vec<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
    directories.dedup();
    for directory in directories {
        disk.sync_directory(directory).await?;
    }
    Ok(())
}

/// Replays the content of one segment; returns the size that its header tells, if it has one.
pub(super) fn replay_segment(
    id: u64,
    path: &Path,
    content: &[u8],
    apply: &mut dyn FnMut(ReplayPosition, Mutation) -> Result<()>,
    summary: &mut ReplaySummary,
) -> Result<Option<u32>> {
    let (blocks, was_torn) = valid_blocks(id, path, content)?;
    let Some((header, blocks)) = blocks.split_first() else {
        summary.torn_tails += u64::from(was_torn);
        return Ok(None);
    };
    let header = Header::decode(header, path)?;
    if header.segment != id {
        return Err(Error::corrupt(path, 8, format!("segment {id}"), header.segment));
    }
    summary.segments += 1;
    let payload = blocks.concat();
    let mut at = 0;
    let mut was_cut = false;
    while let Some(size) = frame_at(&payload, &mut at, path)? {
        let start = at + FRAME_BYTES;
        let offset = RECORDS_START + offset_of(at);
        let Some(record) = payload.get(start..start + size) else {
            was_cut = true;
            break;
        };
        let mutation = codec::decode(record)
            .map_err(|error| Error::corrupt(path, offset.into(), "a mutation", error))?;
        apply(ReplayPosition { segment: id, offset }, mutation)?;
        summary.records += 1;
        summary.bytes += size as u64;
        at = start + size;
    }
    summary.torn_tails += u64::from(was_torn || was_cut);
    Ok(Some(header.segment_bytes))
}

/// Payloads of the blocks up to the end of the log in this segment, and whether something that is
/// not whole follows.
fn valid_blocks<'a>(id: u64, path: &Path, content: &'a [u8]) -> Result<(Vec<&'a [u8]>, bool)> {
    let mut payloads = Vec::new();
    let mut end = None;
    let mut was_torn = false;
    for (at, block) in content.chunks(BLOCK_BYTES).enumerate() {
        if block::is_zero(block) {
            end.get_or_insert(at);
            continue;
        }
        let offset = (at * BLOCK_BYTES) as u32;
        let trailer = block::inspect(block, offset);
        match (trailer.filter(|trailer| trailer.segment == id), end) {
            (Some(_), None) => payloads.push(&block[..PAYLOAD_BYTES]),
            (Some(trailer), Some(end)) => {
                was_torn = true;
                let missing = (end * BLOCK_BYTES) as u32;
                if trailer.stable > missing {
                    let bad = &content[missing as usize..][..BLOCK_BYTES];
                    let found = block::describe(bad, missing);
                    let wanted = format!("a block of segment {id}");
                    return Err(Error::corrupt(path, missing.into(), wanted, found));
                }
            }
            (None, _) => {
                end.get_or_insert(at);
                was_torn |= trailer.is_none();
            }
        }
    }
    Ok((payloads, was_torn))
}

/// Size of the next record at or behind `at`, which is moved to its frame; none at the end.
fn frame_at(payload: &[u8], at: &mut usize, path: &Path) -> Result<Option<usize>> {
    loop {
        *at = next_start(*at);
        let Some(frame) = payload.get(*at..*at + FRAME_BYTES) else { return Ok(None) };
        if !block::is_zero(frame) {
            let size: [u8; 4] = frame[..4].try_into().expect("a frame has eight bytes");
            let crc = u32::from_be_bytes(frame[4..].try_into().expect("a frame has eight bytes"));
            if crc32(&size) != crc {
                let offset = RECORDS_START + offset_of(*at);
                let wanted = format!("size checksum {:08x}", crc32(&size));
                return Err(Error::corrupt(path, offset.into(), wanted, format!("{crc:08x}")));
            }
            return Ok(Some(u32::from_be_bytes(size) as usize));
        }
        // Padding: the next chunk starts with the next block.
        *at = (*at + 1).next_multiple_of(PAYLOAD_BYTES);
    }
}
