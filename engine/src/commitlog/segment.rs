//! A segment file: its name, its header block, and what the running log knows about it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::block::{BLOCK_BYTES, PAYLOAD_BYTES};
use crate::checksum::crc32;
use crate::disk::DiskFile;
use crate::error::{Error, Result};
use crate::schema::TableId;

const MAGIC: [u8; 4] = *b"TGCL";
/// Version of the format that is written, also in the file name. Of version 1 are segments whose
/// header ends before `previous`, and whose blocks do not say where chunks start.
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 44;

const _: () = assert!(HEADER_BYTES <= PAYLOAD_BYTES);

/// Offset of the first chunk.
pub(super) const RECORDS_START: u32 = BLOCK_BYTES as u32;

pub(super) fn path(directory: &Path, id: u64) -> PathBuf {
    directory.join(format!("CommitLog-{VERSION}-{id}.log"))
}

/// The segment id in a file name, if it is the name of a segment.
pub fn id_of(name: &str) -> Option<u64> {
    let rest = name.strip_prefix("CommitLog-")?.strip_suffix(".log")?;
    let (version, id) = rest.split_once('-')?;
    version.parse::<u32>().ok()?;
    id.parse().ok()
}

/// Content of the header block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub segment: u64,
    pub shard: u32,
    pub shard_count: u32,
    pub segment_bytes: u32,
    /// The segment before it in the same run, and where that has its end block; zeros for none.
    pub previous: (u64, u32),
}

impl Header {
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let (segment, previous) = (self.segment, self.previous.0);
        assert!(previous < segment, "segment {segment} follows segment {previous}");
        let (shard, count) = (self.shard, self.shard_count);
        assert!(shard < count, "a segment of shard {shard} of {count}");
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&VERSION.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.segment.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.shard.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.shard_count.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.segment_bytes.to_be_bytes());
        bytes[28..36].copy_from_slice(&self.previous.0.to_be_bytes());
        bytes[36..40].copy_from_slice(&self.previous.1.to_be_bytes());
        let crc = crc32(&bytes[..40]);
        bytes[40..].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// Reads the header of `file` from the payload of its first block.
    ///
    /// Errors: `Corrupt`, or `Unavailable` for a version this build does not know.
    pub fn decode(payload: &[u8], file: &Path) -> Result<Header> {
        let word = |at: usize| {
            u32::from_be_bytes(payload[at..at + 4].try_into().expect("a header has 32 bytes"))
        };
        if payload[..4] != MAGIC {
            let found = format!("{:02x?}", &payload[..4]);
            return Err(Error::corrupt(file, 0, format!("magic {MAGIC:02x?}"), found));
        }
        let version = word(4);
        let end = if version == 1 { 28 } else { 40 };
        if word(end) != crc32(&payload[..end]) {
            let wanted = format!("header checksum {:08x}", crc32(&payload[..end]));
            return Err(Error::corrupt(file, end as u64, wanted, format!("{:08x}", word(end))));
        }
        if version > VERSION {
            return Err(Error::Unavailable(format!(
                "{} has commitlog version {version}; this build reads up to {VERSION}",
                file.display(),
            )));
        }
        let long = |at| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        Ok(Header {
            segment: long(8),
            shard: word(16),
            shard_count: word(20),
            segment_bytes: word(24),
            previous: if version == 1 { (0, 0) } else { (long(28), word(36)) },
        })
    }
}

/// A segment of the running log.
pub(super) struct Segment {
    /// The open file; none while it is being prepared and after the end block.
    pub file: Option<Rc<dyn DiskFile>>,
    /// Tables with records that are not in SSTables yet, with the offset of each one's last.
    pub tables: BTreeMap<TableId, u32>,
    /// Everything before this offset is written.
    pub written: u32,
    /// Everything before this offset is on stable storage.
    pub stable: u32,
    /// The end block is written; nothing follows.
    pub is_finished: bool,
    /// The ledger says that it is finished.
    pub is_told: bool,
}

impl Segment {
    /// A segment whose file is not ready.
    pub fn preparing() -> Self {
        Segment {
            file: None,
            tables: BTreeMap::new(),
            written: 0,
            stable: 0,
            is_finished: false,
            is_told: false,
        }
    }

    pub fn is_ready(&self) -> bool {
        self.file.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_headers_survive_a_round_trip() {
        let path = path(Path::new("/d"), 42);
        assert_eq!(path, Path::new("/d/CommitLog-2-42.log"));
        assert_eq!(id_of("CommitLog-1-42.log"), Some(42));
        for name in ["CommitLog-1-42.log.tmp", "CommitLog-x-42.log", "CommitLog-1-.log", "a"] {
            assert_eq!(id_of(name), None);
        }
        let header = Header {
            segment: 1 << 40 | 5,
            shard: 1,
            shard_count: 2,
            segment_bytes: 9,
            previous: (1 << 40, 77),
        };
        assert_eq!(Header::decode(&header.encode(), &path).unwrap(), header);
        let mut older = header.encode();
        older[7] = 1;
        let crc = crc32(&older[..28]);
        older[28..32].copy_from_slice(&crc.to_be_bytes());
        let without = Header { previous: (0, 0), ..header };
        assert_eq!(Header::decode(&older, &path).unwrap(), without);
        let mut newer = header.encode();
        newer[7] = 3;
        let crc = crc32(&newer[..40]);
        newer[40..].copy_from_slice(&crc.to_be_bytes());
        assert!(matches!(Header::decode(&newer, &path), Err(Error::Unavailable(_))));
        newer[9] ^= 1;
        assert!(matches!(Header::decode(&newer, &path), Err(Error::Corrupt(_))));
    }
}
