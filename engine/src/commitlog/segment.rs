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
/// Version of the format, also in the file name.
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 32;

const _: () = assert!(HEADER_BYTES <= PAYLOAD_BYTES);

/// Offset of the first chunk.
pub(super) const RECORDS_START: u32 = BLOCK_BYTES as u32;

pub(super) fn path(directory: &Path, id: u64) -> PathBuf {
    directory.join(format!("CommitLog-{VERSION}-{id}.log"))
}

/// The segment id in a file name, if it is the name of a segment.
pub(super) fn id_of(name: &str) -> Option<u64> {
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
}

impl Header {
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&VERSION.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.segment.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.shard.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.shard_count.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.segment_bytes.to_be_bytes());
        let crc = crc32(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_be_bytes());
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
        if word(28) != crc32(&payload[..28]) {
            let wanted = format!("header checksum {:08x}", crc32(&payload[..28]));
            return Err(Error::corrupt(file, 28, wanted, format!("{:08x}", word(28))));
        }
        if word(4) != VERSION {
            return Err(Error::Unavailable(format!(
                "{} has commitlog version {}; this build reads {VERSION}",
                file.display(),
                word(4)
            )));
        }
        let segment = u64::from(word(8)) << 32 | u64::from(word(12));
        Ok(Header { segment, shard: word(16), shard_count: word(20), segment_bytes: word(24) })
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
}

impl Segment {
    /// A segment whose file is not ready.
    pub fn preparing() -> Self {
        Segment { file: None, tables: BTreeMap::new(), written: 0, stable: 0, is_finished: false }
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
        assert_eq!(path, Path::new("/d/CommitLog-1-42.log"));
        assert_eq!(id_of("CommitLog-1-42.log"), Some(42));
        for name in ["CommitLog-1-42.log.tmp", "CommitLog-x-42.log", "CommitLog-1-.log", "a"] {
            assert_eq!(id_of(name), None);
        }
        let header = Header { segment: 1 << 40 | 5, shard: 1, shard_count: 2, segment_bytes: 9 };
        assert_eq!(Header::decode(&header.encode(), &path).unwrap(), header);
        let mut newer = header.encode();
        newer[7] = 2;
        let crc = crc32(&newer[..28]);
        newer[28..].copy_from_slice(&crc.to_be_bytes());
        assert!(matches!(Header::decode(&newer, &path), Err(Error::Unavailable(_))));
        newer[9] ^= 1;
        assert!(matches!(Header::decode(&newer, &path), Err(Error::Corrupt(_))));
    }
}
