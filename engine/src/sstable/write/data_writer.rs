//! The data file being written: as it is, or compressed in chunks with a checksum behind each.
//!
//! Invariant: positions count bytes of data, whatever is stored.

use std::path::Path;

use crate::checksum::crc32;
use crate::disk::Disk;
use crate::error::Result;
use crate::schema::Compression;
use crate::sstable::data::file::{FileWriter, Written};
use crate::sstable::format::codec::ChunkEncoder;
use crate::sstable::format::compression_info;

/// A data file that grows.
pub(super) enum DataWriter {
    Plain(Box<FileWriter>),
    Compressed(Box<ChunkWriter>),
}

/// Gathers chunks and stores them compressed.
pub(super) struct ChunkWriter {
    file: FileWriter,
    compression: Compression,
    encoder: ChunkEncoder,
    chunk: Vec<u8>,
    stored: Vec<u8>,
    /// Where each chunk begins in the file.
    offsets: Vec<u64>,
    data_bytes: u64,
}

/// A data file that is whole.
pub(super) struct WrittenData {
    /// What is stored.
    pub(crate) file: Written,
    /// Content of `CompressionInfo.db`, and stored bytes for each byte of data.
    pub(crate) compression: Option<(Vec<u8>, f64)>,
}

impl DataWriter {
    /// Creates the file. Errors: `Io`, also when it exists.
    pub(crate) async fn create(
        disk: &dyn Disk,
        path: &Path,
        compression: Option<Compression>,
    ) -> Result<Self> {
        let file = FileWriter::create(disk, path).await?;
        let Some(compression) = compression else { return Ok(DataWriter::Plain(Box::new(file))) };
        Ok(DataWriter::Compressed(Box::new(ChunkWriter {
            file,
            encoder: ChunkEncoder::new(compression),
            compression,
            chunk: Vec::with_capacity(compression.chunk_bytes as usize),
            stored: Vec::new(),
            offsets: Vec::new(),
            data_bytes: 0,
        })))
    }

    /// Bytes of data so far.
    pub(crate) fn position(&self) -> u64 {
        match self {
            DataWriter::Plain(file) => file.position(),
            DataWriter::Compressed(chunks) => chunks.data_bytes,
        }
    }

    /// Bytes that can be appended without waiting.
    pub(crate) fn room(&self) -> usize {
        match self {
            DataWriter::Plain(file) => file.room(),
            DataWriter::Compressed(chunks) => chunks.room(),
        }
    }

    /// Appends bytes if there is room for them in memory. False where nothing was appended.
    pub(crate) fn append_now(&mut self, bytes: &[u8]) -> bool {
        match self {
            DataWriter::Plain(file) => file.append_now(bytes),
            DataWriter::Compressed(chunks) => chunks.append_now(bytes),
        }
    }

    /// Appends bytes. Errors: `Io`; the file is then unusable.
    pub(crate) async fn append(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            DataWriter::Plain(file) => file.append(bytes).await,
            DataWriter::Compressed(chunks) => chunks.append(bytes).await,
        }
    }

    /// Writes what is left and syncs.
    pub(crate) async fn finish(self) -> Result<WrittenData> {
        match self {
            DataWriter::Plain(file) => {
                Ok(WrittenData { file: file.finish().await?, compression: None })
            }
            DataWriter::Compressed(chunks) => chunks.finish().await,
        }
    }
}

impl ChunkWriter {
    fn room(&self) -> usize {
        let (gathered, chunk_bytes) = (self.chunk.len(), self.compression.chunk_bytes as usize);
        debug_assert!(gathered < chunk_bytes, "a chunk of {gathered} bytes was not stored");
        // It is stored as soon as it is full.
        chunk_bytes - gathered - 1
    }

    fn append_now(&mut self, bytes: &[u8]) -> bool {
        let has_room = bytes.len() <= self.room();
        if has_room {
            self.chunk.extend_from_slice(bytes);
            self.data_bytes += bytes.len() as u64;
        }
        has_room
    }

    async fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.data_bytes += bytes.len() as u64;
        let chunk_bytes = self.compression.chunk_bytes as usize;
        while !bytes.is_empty() {
            let gathered = self.chunk.len();
            assert!(gathered < chunk_bytes, "a chunk of {gathered} bytes was not stored");
            let take = bytes.len().min(chunk_bytes - gathered);
            self.chunk.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            if self.chunk.len() == chunk_bytes {
                self.store().await?;
            }
        }
        Ok(())
    }

    async fn store(&mut self) -> Result<()> {
        assert!(!self.chunk.is_empty(), "an empty chunk is stored");
        self.stored.clear();
        self.encoder.compress(&self.chunk, &mut self.stored);
        self.chunk.clear();
        let crc = crc32(&self.stored);
        self.stored.extend_from_slice(&crc.to_be_bytes());
        let (last, at) = (self.offsets.last(), self.file.position());
        assert!(last.is_none_or(|last| *last < at), "a chunk at {at} behind one at {last:?}");
        self.offsets.push(at);
        self.file.append(&self.stored).await
    }

    async fn finish(mut self) -> Result<WrittenData> {
        if !self.chunk.is_empty() {
            self.store().await?;
        }
        let file = self.file.finish().await?;
        let chunks = self.offsets.len() as u64;
        let wanted = self.data_bytes.div_ceil(u64::from(self.compression.chunk_bytes));
        assert_eq!(chunks, wanted, "chunks of {} bytes of data", self.data_bytes);
        let crcs = chunks * compression_info::CRC_BYTES;
        assert!(crcs <= file.size, "{chunks} chunks in a file of {} bytes", file.size);
        let ratio = (file.size - crcs) as f64 / self.data_bytes as f64;
        let info = compression_info::encode(&self.compression, self.data_bytes, &self.offsets);
        Ok(WrittenData { file, compression: Some((info, ratio)) })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use futures::executor::block_on;

    use super::*;
    use crate::cache::PageCache;
    use crate::policy::event::EntryKind;
    use crate::schema::Compressor;
    use crate::sstable::Version;
    use crate::sstable::data::compressed::CompressedFile;
    use crate::sstable::data::file::{Access, CheckedFile, Checks};
    use crate::sstable::format::compression_info::{CRC_BYTES, CompressionInfo};
    use crate::sstable::tests::memory_disk::MemoryDisk;

    const CHUNK: usize = 1024;
    const PATH: &str = "/data/file";

    /// Appends all of it, so much at once, and what has room without waiting.
    async fn append(writer: &mut DataWriter, content: &[u8], given: usize) {
        let mut at = 0;
        for part in content.chunks(given) {
            let room = writer.room();
            let is_there = writer.append_now(part);
            assert_eq!(is_there, part.len() <= room, "{} bytes, room for {room}", part.len());
            if !is_there {
                assert_eq!(writer.position(), at, "nothing was appended");
                writer.append(part).await.unwrap();
            }
            at += part.len() as u64;
            assert_eq!(writer.position(), at, "positions count what was given");
        }
    }

    /// The data that a file of chunks holds.
    fn unpacked(disk: &MemoryDisk, map: &[u8], length: usize) -> Vec<u8> {
        let path = PathBuf::from(PATH);
        let size = disk.content(&path).len() as u64;
        let info = CompressionInfo::decode(map, Version::Me, size, &path).unwrap();
        assert_eq!((info.data_bytes, info.chunk_bytes), (length as u64, CHUNK as u64));
        let (cache, place) = (PageCache::new(1 << 20, 1), (path, EntryKind::DataPage));
        let opening = CheckedFile::open(disk, cache, place, None, Checks::None);
        let file = CompressedFile::new(block_on(opening).unwrap(), info);
        let mut out = Vec::new();
        block_on(file.read_into(Access::Cached, (0, length as u64), &mut out)).unwrap();
        out
    }

    #[test]
    fn data_of_any_length_is_stored_in_whole_chunks_and_a_shorter_last_one() {
        let codecs = [None].into_iter().chain(Compressor::ALL.map(Some));
        let lengths = [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 5 * CHUNK + 3];
        for codec in codecs {
            let ways = lengths.iter().flat_map(|l| [1, 100, CHUNK, 3000].map(|g| (*l, g)));
            for (length, given) in ways {
                let what = format!("{codec:?}: {length} bytes, given {given} at once");
                let content: Vec<u8> = (0..length).map(|at| (at / 7) as u8).collect();
                let compression = codec.map(|codec| Compression {
                    chunk_bytes: CHUNK as u32,
                    ..Compression::new(codec)
                });
                let disk = MemoryDisk::default();
                let written = block_on(async {
                    let created = DataWriter::create(&disk, Path::new(PATH), compression).await;
                    let mut writer = created.unwrap();
                    append(&mut writer, &content, given).await;
                    writer.finish().await.unwrap()
                });
                let stored = disk.content(Path::new(PATH));
                assert_eq!(written.file.size, stored.len() as u64, "{what}");
                assert_eq!(written.file.whole, crc32(&stored), "{what}");
                let Some((map, ratio)) = written.compression else {
                    assert!(codec.is_none() && stored == content, "{what}");
                    continue;
                };
                assert!(unpacked(&disk, &map, length) == content, "{what}");
                let crcs = length.div_ceil(CHUNK) * CRC_BYTES as usize;
                let wanted = (stored.len() - crcs) as f64 / length as f64;
                assert!((ratio - wanted).abs() < 1e-9, "{what}: {ratio}, not {wanted}");
            }
        }
    }
}
