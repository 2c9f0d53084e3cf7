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
