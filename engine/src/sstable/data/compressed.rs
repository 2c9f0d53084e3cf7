//! A compressed data file, read as the bytes that its chunks hold.
//!
//! The page cache lies below: it keeps stored pages, so a page that two chunks share is read once,
//! and a chunk is decompressed anew for each window that moves onto it. A window works in whole
//! chunks and keeps what it holds, so a reader decompresses each chunk once while it moves on.
//!
//! Invariant: the checksum of a chunk is compared before the chunk is decompressed.

use std::path::Path;
use std::rc::Rc;

use super::file::{Access, CheckedFile};
use crate::checksum::crc32;
use crate::error::{Error, Result};
use crate::sstable::format::compression_info::{CRC_BYTES, Chunk, CompressionInfo};

/// Stored bytes that are read at once, if a single chunk does not take more.
const READ_BYTES: u64 = 128 << 10;

/// A data file and its chunk map.
pub(crate) struct CompressedFile {
    stored: Rc<CheckedFile>,
    info: CompressionInfo,
}

impl CompressedFile {
    /// `info` was decoded for the size of `stored`.
    pub(crate) fn new(stored: Rc<CheckedFile>, info: CompressionInfo) -> Rc<Self> {
        Rc::new(CompressedFile { stored, info })
    }

    /// Bytes of the uncompressed data.
    pub(crate) fn size(&self) -> u64 {
        self.info.data_bytes
    }

    pub(crate) fn path(&self) -> &Path {
        self.stored.path()
    }

    /// Holds on to the file's descriptor. Errors: `Io`.
    pub(crate) async fn keep_open(&self) -> Result<()> {
        self.stored.keep_open().await
    }

    pub(crate) fn chunk_bytes(&self) -> u64 {
        self.info.chunk_bytes
    }

    /// Offset in the file of the chunk that holds byte `at` of the data, or the file's end.
    pub(super) fn stored_at(&self, at: u64) -> u64 {
        match at < self.info.data_bytes {
            true => self.info.chunk(at / self.info.chunk_bytes).at,
            false => self.stored.size(),
        }
    }

    /// Appends the data from `from`, where a chunk begins, to `to`, where one ends.
    ///
    /// Errors: `Io`; `Corrupt` for a damaged chunk.
    pub(crate) async fn read_into(
        &self,
        access: Access,
        (from, to): (u64, u64),
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut next = from / self.info.chunk_bytes;
        let end = to.div_ceil(self.info.chunk_bytes);
        let mut stored = Vec::new();
        while next < end {
            let first = next;
            let start = self.info.chunk(first).at;
            let mut after = start;
            while next < end {
                let chunk = self.info.chunk(next);
                let chunk_end = chunk.at + chunk.stored_bytes + CRC_BYTES;
                if next > first && chunk_end - start > READ_BYTES {
                    break;
                }
                after = chunk_end;
                next += 1;
            }
            stored.clear();
            self.stored.append(access, (start, after - start), &mut stored).await?;
            for number in first..next {
                let chunk = self.info.chunk(number);
                let bytes = &stored[(chunk.at - start) as usize..];
                self.decompress(chunk, &bytes[..(chunk.stored_bytes + CRC_BYTES) as usize], out)?;
            }
        }
        Ok(())
    }

    /// Appends the content of a chunk, given with the checksum behind it.
    fn decompress(&self, chunk: Chunk, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let (content, crc) = bytes.split_last_chunk::<4>().expect("the checksum was read too");
        let (wanted, found) = (u32::from_be_bytes(*crc), crc32(content));
        if wanted != found {
            let (wanted, found) = (format!("CRC {wanted:08x}"), format!("CRC {found:08x}"));
            return Err(Error::corrupt(self.path(), chunk.at, wanted, found));
        }
        if chunk.is_raw {
            // The last one may be padded.
            let is_last = chunk.bytes < self.info.chunk_bytes;
            if chunk.stored_bytes == chunk.bytes || (is_last && chunk.stored_bytes > chunk.bytes) {
                out.extend_from_slice(&content[..chunk.bytes as usize]);
                return Ok(());
            }
            let wanted = format!("{} bytes stored as they are", chunk.bytes);
            return Err(Error::corrupt(self.path(), chunk.at, wanted, chunk.stored_bytes));
        }
        let start = out.len();
        out.resize(start + chunk.bytes as usize, 0);
        let codec = self.info.codec;
        codec.decompress(content, &mut out[start..]).map_err(|found| {
            out.truncate(start);
            let wanted = format!("{} bytes compressed with {}", chunk.bytes, codec.name());
            Error::corrupt(self.path(), chunk.at, wanted, found)
        })
    }
}
