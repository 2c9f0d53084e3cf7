//! Reading a log back after a start.
//!
//! Invariant: records are handed out in the order they were appended, each whole and checked; the
//! log ends at the first place that was never acknowledged. A place that was, and is damaged, ends
//! its segment and is told; what follows in later segments is handed out, so the caller must see
//! which tables may lack something.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;

use super::block::{self, BLOCK_BYTES, PAYLOAD_BYTES};
use super::records::{Apply, Damaged, ReplaySummary, Stop, hand_out};
use super::salvage::salvage;
use super::segment::{self, Header, RECORDS_START};
use crate::disk::{Disk, read_file, remove_if_there};
use crate::error::{Error, Result};
use crate::ledger::SegmentEntry;

/// What is done about damage of a commitlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recovery {
    /// Tables that may have lost writes are refused until the log is whole again.
    #[default]
    Refuse,
    /// Writes that cannot be read are left out, each place is told, and the segments go.
    SkipDamagedLog,
}

impl FromStr for Recovery {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "skip-damaged-log" => Ok(Recovery::SkipDamagedLog),
            _ => Err(Error::invalid(format!("recover is skip-damaged-log, not '{text}'"))),
        }
    }
}

/// One log to be read back.
pub struct Replay<'a> {
    pub disk: &'a Rc<dyn Disk>,
    /// The shard's own directory.
    pub directory: &'a Path,
    /// Only segments with lesser ids are read: a log that was started since has the later ones.
    pub before: u64,
    /// The segments that must be there.
    pub known: &'a BTreeMap<u64, SegmentEntry>,
    pub recovery: Recovery,
}

impl Replay<'_> {
    /// Reads the segments in the order of their ids and calls `apply` for each record.
    ///
    /// Errors: `Unavailable` for a newer format; whatever `apply` returns; `Io` when the directory
    /// cannot be listed, and where trying again may help. Damage is told in the summary.
    pub async fn run(&self, apply: &mut Apply<'_>) -> Result<ReplaySummary> {
        let entries = match self.disk.list(self.directory).await {
            Err(error) if error.is_missing_file() => Vec::new(),
            entries => entries?,
        };
        let found = entries.iter().filter(|entry| !entry.is_directory);
        let found = found.filter_map(|entry| Some((segment::id_of(&entry.name)?, &entry.name)));
        let found: BTreeMap<u64, &String> = found.filter(|(id, _)| *id < self.before).collect();
        let known = self.known.keys().copied().filter(|id| *id < self.before);
        let ids: BTreeSet<u64> = found.keys().copied().chain(known).collect();
        let mut summary = ReplaySummary::default();
        let mut ends = BTreeMap::new();
        for id in ids {
            let damage = match found.get(&id) {
                Some(name) => {
                    let path = self.directory.join(name);
                    summary.paths.push(path.clone());
                    self.one(id, &path, &mut ends, apply, &mut summary).await?
                }
                None => Some(self.missing(id)),
            };
            summary.damaged.extend(damage);
        }
        summary.damaged.sort_by_key(|damaged| damaged.segment);
        Ok(summary)
    }

    fn missing(&self, segment: u64) -> Damaged {
        let path = segment::path(self.directory, segment);
        let bytes = self.known.get(&segment).map_or(0, |entry| entry.bytes);
        let wanted = format!("a commitlog segment of {bytes} bytes");
        let error = Error::corrupt(path, 0, wanted, "no file");
        Damaged { segment, from: 0, error, left_out: Vec::new() }
    }

    async fn one(
        &self,
        id: u64,
        path: &Path,
        ends: &mut BTreeMap<u64, (PathBuf, u32)>,
        apply: &mut Apply<'_>,
        summary: &mut ReplaySummary,
    ) -> Result<Option<Damaged>> {
        let content = match read_file(&**self.disk, path).await {
            Ok(content) => content,
            Err(error) if error.is_retryable() => return Err(error),
            Err(error) => {
                let left_out = Vec::new();
                return Ok(Some(Damaged { segment: id, from: 0, error, left_out }));
            }
        };
        let read = replay_segment(id, path, &content, apply, summary)?;
        if let Some(Header { previous: (before, end), .. }) = read.header
            && let Some((path, found)) = ends.remove(&before)
            && found < end
        {
            let wanted = format!("blocks up to {end}, as segment {id} says");
            let error = Error::corrupt(path, found.into(), wanted, format!("none from {found}"));
            let left_out = std::iter::once(found..end).collect();
            summary.damaged.push(Damaged { segment: before, from: found, error, left_out });
        }
        let cut = || {
            // A header stands only in a segment whose size was stable before.
            let stated = read.header.map(|header| u64::from(header.segment_bytes));
            let wanted = stated.max(self.known.get(&id).map(|entry| entry.bytes))?;
            let bytes = content.len() as u64;
            let wanted_words = format!("a commitlog segment of {wanted} bytes");
            let found = format!("{bytes} bytes");
            let error = || Error::corrupt(path, bytes, wanted_words, found);
            (wanted != bytes).then(|| (read.end.min(bytes as u32), error()))
        };
        let Some((from, error)) = read.damage.or_else(cut) else {
            ends.insert(id, (path.to_owned(), read.end));
            return Ok(None);
        };
        let left_out = match self.recovery {
            Recovery::Refuse => Vec::new(),
            Recovery::SkipDamagedLog => salvage(id, path, &content, from, apply, summary)?,
        };
        Ok(Some(Damaged { segment: id, from, error, left_out }))
    }
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

/// What the content of a segment gave.
#[derive(Default)]
pub(super) struct SegmentRead {
    pub header: Option<Header>,
    /// Offset behind the last block that is whole.
    pub end: u32,
    /// Where acknowledged records are damaged, and how.
    pub damage: Option<(u32, Error)>,
}

/// Replays the content of one segment up to its end or to damage.
///
/// Errors: `Unavailable` for a newer format; whatever `apply` returns.
pub(super) fn replay_segment(
    id: u64,
    path: &Path,
    content: &[u8],
    apply: &mut Apply<'_>,
    summary: &mut ReplaySummary,
) -> Result<SegmentRead> {
    let (blocks, was_torn, gap) = valid_blocks(id, path, content);
    let mut read = SegmentRead { header: None, end: end_of(&blocks), damage: None };
    if let Some(gap) = gap {
        read.damage = Some((read.end, gap));
    }
    let Some((header, blocks)) = blocks.split_first() else {
        summary.torn_tails += u64::from(was_torn && read.damage.is_none());
        return Ok(read);
    };
    match Header::decode(header, path) {
        Ok(header) if header.segment == id => read.header = Some(header),
        Ok(header) => {
            let error = Error::corrupt(path, 8, format!("segment {id}"), header.segment);
            read.damage = Some((0, error));
            return Ok(read);
        }
        Err(error @ Error::Corrupt(_)) => {
            read.damage = Some((0, error));
            return Ok(read);
        }
        Err(error) => return Err(error),
    }
    summary.segments += 1;
    let payload = blocks.concat();
    let stopped = hand_out((id, RECORDS_START), path, &payload, apply, summary)?;
    let was_cut = matches!(stopped, Stop::Cut(_));
    match stopped {
        Stop::Damage(at, error) => read.damage = Some((at, error)),
        // A record that runs into the damage is lost with it.
        Stop::Cut(at) => read.damage = read.damage.map(|(_, error)| (at, error)),
        Stop::End => {}
    }
    summary.torn_tails += u64::from((was_torn || was_cut) && read.damage.is_none());
    Ok(read)
}

fn end_of(blocks: &[&[u8]]) -> u32 {
    (blocks.len() * BLOCK_BYTES) as u32
}

/// Payloads of the blocks up to the end of the log in this segment, whether something that is not
/// whole follows, and damage: a block that is not there though a later one vouches for it.
fn valid_blocks<'a>(
    id: u64,
    path: &Path,
    content: &'a [u8],
) -> (Vec<&'a [u8]>, bool, Option<Error>) {
    let mut payloads = Vec::new();
    let mut end = None;
    let mut was_torn = false;
    let mut damage = None;
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
                if trailer.stable > missing && damage.is_none() {
                    let bad = &content[missing as usize..][..BLOCK_BYTES];
                    let found = block::describe(bad, missing);
                    let wanted = format!("a block of segment {id}");
                    damage = Some(Error::corrupt(path, missing.into(), wanted, found));
                }
            }
            (None, _) => {
                end.get_or_insert(at);
                was_torn |= trailer.is_none();
            }
        }
    }
    (payloads, was_torn, damage)
}
