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

    /// Bytes of memory that its checksums and its map of chunks take.
    pub(crate) fn checks_bytes(&self) -> usize {
        self.stored.checks_bytes() + self.info.heap_bytes()
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
        let before = out.len() as u64;
        let (mut next, end) = self.chunks(from, to);
        let mut stored = Vec::new();
        while next < end {
            let first = next;
            let start = self.info.chunk(first).at;
            while next < end && (next == first || self.stored_end(next) - start <= READ_BYTES) {
                next += 1;
            }
            let bytes = self.stored_end(next - 1) - start;
            stored.clear();
            self.stored.append(access, (start, bytes), &mut stored).await?;
            self.decompress_all((first, next), &stored, out)?;
        }
        let added = out.len() as u64 - before;
        debug_assert_eq!(added, to.saturating_sub(from), "bytes of the chunks from {from} to {to}");
        Ok(())
    }

    /// Numbers of the chunks of the data from `from`, where one begins, to `to`.
    fn chunks(&self, from: u64, to: u64) -> (u64, u64) {
        let chunk_bytes = self.info.chunk_bytes;
        debug_assert!(from.is_multiple_of(chunk_bytes), "data from {from} on, within a chunk");
        (from / chunk_bytes, to.div_ceil(chunk_bytes))
    }

    /// Where a chunk and its checksum end in the file.
    fn stored_end(&self, number: u64) -> u64 {
        let chunk = self.info.chunk(number);
        chunk.at + chunk.stored_bytes + CRC_BYTES
    }

    /// The stored bytes of the data from `from`, where a chunk begins, to `to`, where one ends,
    /// read past the page cache. [`unpack`](Self::unpack) makes data of them.
    ///
    /// Errors: `Io`; `Corrupt` where the file as stored is damaged.
    pub(super) async fn packed(&self, (from, to): (u64, u64)) -> Result<Vec<u8>> {
        let (first, end) = self.chunks(from, to);
        let mut stored = Vec::new();
        if first < end {
            let start = self.info.chunk(first).at;
            let range = (start, self.stored_end(end - 1) - start);
            self.stored.append(Access::Scan, range, &mut stored).await?;
            debug_assert_eq!(stored.len() as u64, range.1, "the chunks {first}..{end} as stored");
        }
        Ok(stored)
    }

    /// The data of what [`packed`](Self::packed) returned.
    ///
    /// Errors: `Corrupt` for a damaged chunk.
    pub(super) fn unpack(&self, (from, to): (u64, u64), stored: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(to.saturating_sub(from) as usize);
        self.decompress_all(self.chunks(from, to), stored, &mut out)?;
        Ok(out)
    }

    /// Appends the content of the chunks from `first` to before `end`, given as they are stored.
    fn decompress_all(
        &self,
        (first, end): (u64, u64),
        stored: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut rest = stored;
        for number in first..end {
            let chunk = self.info.chunk(number);
            let (bytes, behind) = rest.split_at((chunk.stored_bytes + CRC_BYTES) as usize);
            self.decompress(chunk, bytes, out)?;
            rest = behind;
        }
        debug_assert!(rest.is_empty(), "bytes behind the chunks {first}..{end}");
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use futures::executor::block_on;

    use super::super::file::Checks;
    use super::*;
    use crate::cache::PageCache;
    use crate::policy::event::EntryKind;
    use crate::sstable::Version;
    use crate::sstable::tests::memory_disk::MemoryDisk;

    const CHUNK: usize = 512;
    const DATA_BYTES: usize = 3 * CHUNK - 12;

    /// The data of a file whose chunks did not shrink, so that they are stored as they are.
    fn data() -> Vec<u8> {
        (0..DATA_BYTES).map(|at| (at * 7) as u8).collect()
    }

    /// The stored bytes, each chunk with its checksum.
    fn stored() -> Vec<u8> {
        let with_crc = |chunk: &[u8]| [chunk, &crc32(chunk).to_be_bytes()].concat();
        data().chunks(CHUNK).flat_map(with_crc).collect()
    }

    fn open(content: Vec<u8>) -> Rc<CompressedFile> {
        let class = b"LZ4Compressor";
        let mut map = (class.len() as u16).to_be_bytes().to_vec();
        map.extend_from_slice(class);
        map.extend_from_slice(&0u32.to_be_bytes());
        map.extend_from_slice(&(CHUNK as u32).to_be_bytes());
        // Longer than that and it is not compressed: the last chunk is shorter.
        map.extend_from_slice(&(CHUNK as u32 - 12).to_be_bytes());
        map.extend_from_slice(&(DATA_BYTES as u64).to_be_bytes());
        map.extend_from_slice(&3u32.to_be_bytes());
        let starts = (0..3u64).map(|number| number * (CHUNK as u64 + CRC_BYTES));
        starts.for_each(|start| map.extend_from_slice(&start.to_be_bytes()));
        let path = PathBuf::from("/data/nb-1-big-Data.db");
        let size = content.len() as u64;
        let info = CompressionInfo::decode(&map, Version::Nb, size, &path).unwrap();
        let disk = MemoryDisk::default();
        disk.set_content(&path, content);
        let (cache, kind) = (PageCache::new(1 << 20, 1), EntryKind::DataPage);
        let opening = CheckedFile::open(&disk, cache, (path, kind), None, Checks::None);
        CompressedFile::new(block_on(opening).unwrap(), info)
    }

    fn read(file: &CompressedFile) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        block_on(file.read_into(Access::Cached, (0, DATA_BYTES as u64), &mut out))?;
        Ok(out)
    }

    #[test]
    fn chunks_that_are_stored_as_they_are_come_back() {
        assert_eq!(read(&open(stored())).unwrap(), data());
    }

    #[test]
    fn a_flipped_byte_of_a_chunk_stored_as_it_is_is_found() {
        for at in 0..stored().len() {
            let mut damaged = stored();
            damaged[at] ^= 1;
            let Err(Error::Corrupt(corruption)) = read(&open(damaged)) else {
                panic!("byte {at}: nothing noticed it");
            };
            let chunk = at / (CHUNK + CRC_BYTES as usize) * (CHUNK + CRC_BYTES as usize);
            assert_eq!(corruption.offset, chunk as u64, "byte {at}");
            assert!(corruption.wanted.starts_with("CRC"), "byte {at}: {}", corruption.wanted);
        }
    }
}
