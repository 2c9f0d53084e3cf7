//! Records that go to disk in one write, while they gather.
//!
//! Invariant: a record starts where its eight bytes of frame fit the block; it may run on over any
//! number of blocks, but never out of its chunk.

use std::rc::Rc;

use super::block::{self, BLOCK_BYTES, PAYLOAD_BYTES, Trailer};
use super::receipt::Receipt;
use super::segment::RECORDS_START;
use crate::checksum::crc32;
use crate::disk::AlignedBuffer;

/// Size and its checksum before each record.
pub(super) const FRAME_BYTES: usize = 8;

/// Byte offset, relative to the first block, of byte `at` of the payloads joined together.
pub(super) fn offset_of(at: usize) -> u32 {
    (at / PAYLOAD_BYTES * BLOCK_BYTES + at % PAYLOAD_BYTES) as u32
}

/// Where in the joined payloads a record after `at` starts.
pub(super) fn next_start(at: usize) -> usize {
    let start = if at % PAYLOAD_BYTES + FRAME_BYTES > PAYLOAD_BYTES {
        at.next_multiple_of(PAYLOAD_BYTES)
    } else {
        at
    };
    debug_assert!(
        (at..at + FRAME_BYTES).contains(&start)
            && start / PAYLOAD_BYTES == (start + FRAME_BYTES - 1) / PAYLOAD_BYTES,
        "behind {at} the frame of a record would start at {start}, across two blocks"
    );
    start
}

/// A chunk on its way to the disk.
pub(super) struct Flight {
    pub number: u64,
    pub segment: u64,
    pub end: u32,
    pub bytes: u64,
    pub record_count: u64,
    pub receipt: Rc<Receipt>,
    pub is_done: bool,
}

/// A chunk in formation.
pub(super) struct Chunk {
    pub segment: u64,
    /// Offset in the segment of the first block.
    pub start: u32,
    pub record_count: u64,
    pub receipt: Rc<Receipt>,
    /// Records with their frames: the payloads of the blocks joined together.
    payload: Vec<u8>,
}

impl Chunk {
    /// Bytes of memory that its records take.
    pub fn memory_bytes(&self) -> usize {
        self.payload.capacity()
    }

    /// An empty one, in the memory of a payload that was written.
    pub fn new(segment: u64, start: u32, mut payload: Vec<u8>) -> Self {
        payload.clear();
        assert!(
            start >= RECORDS_START && (start as usize).is_multiple_of(BLOCK_BYTES),
            "a chunk of segment {segment} starts at {start}, which is no block of records"
        );
        Chunk { segment, start, record_count: 0, receipt: Receipt::new(), payload }
    }

    /// The memory of the payload, for another chunk.
    pub fn into_payload(self) -> Vec<u8> {
        self.payload
    }

    /// The end of a chunk at `start` with one record of `bytes`.
    pub fn end_of_one(start: u32, bytes: usize) -> u32 {
        start + blocks(next_start(0) + FRAME_BYTES + bytes)
    }

    /// Offset in the segment right behind the last block.
    pub fn end(&self) -> u32 {
        self.start + blocks(self.payload.len())
    }

    /// The end if a record of `bytes` were added.
    pub fn end_with(&self, bytes: usize) -> u32 {
        self.start + blocks(next_start(self.payload.len()) + FRAME_BYTES + bytes)
    }

    pub fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    /// Adds a record; returns its offset in the segment.
    pub fn push(&mut self, record: &[u8]) -> u32 {
        let announced = self.end_with(record.len());
        let at = next_start(self.payload.len());
        self.payload.resize(at, 0);
        let size = (record.len() as u32).to_be_bytes();
        self.payload.extend_from_slice(&size);
        self.payload.extend_from_slice(&crc32(&size).to_be_bytes());
        self.payload.extend_from_slice(record);
        self.record_count += 1;
        let (end, offset) = (self.end(), self.start + offset_of(at));
        assert_eq!(end, announced, "the chunk ends elsewhere than was announced for a record");
        assert!(offset < end, "a record stands at {offset}, the chunk ends at {end}");
        offset
    }

    /// The blocks as they go to disk and the offset they go to. A segment's first chunk takes the
    /// header block along.
    pub fn blocks(&self, header: &[u8], stable: u32) -> (u32, AlignedBuffer) {
        let start = if self.start == RECORDS_START { 0 } else { self.start };
        let header = (start == 0).then_some(header);
        let (segment, own) = (self.segment, self.start);
        assert!(self.record_count > 0, "a chunk of segment {segment} at {own} has no record");
        assert!(stable <= own, "segment {segment} is stable up to {stable}, behind {own}");
        let mut buffer = AlignedBuffer::with_capacity((self.end() - start) as usize);
        buffer.set_len(buffer.capacity());
        let mut sealed = 0;
        let payloads = header.into_iter().chain(self.payload.chunks(PAYLOAD_BYTES));
        for (at, payload) in payloads.enumerate() {
            let block = &mut buffer[at * BLOCK_BYTES..][..BLOCK_BYTES];
            block[..payload.len()].copy_from_slice(payload);
            let offset = start + (at * BLOCK_BYTES) as u32;
            let starts_chunk = offset == self.start;
            block::seal(block, offset, Trailer { segment: self.segment, stable, starts_chunk });
            sealed += BLOCK_BYTES;
        }
        assert_eq!(sealed, buffer.len(), "blocks of a chunk of segment {segment} have no trailer");
        (start, buffer)
    }
}

fn blocks(payload_bytes: usize) -> u32 {
    (payload_bytes.div_ceil(PAYLOAD_BYTES) * BLOCK_BYTES) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_lie_where_the_chunk_says() {
        let mut chunk = Chunk::new(3, RECORDS_START, vec![1; 5]);
        assert_eq!(chunk.payload_bytes(), 0, "memory that is used again is empty");
        assert_eq!(chunk.push(&[1; 10]), 4096);
        assert_eq!(chunk.push(&[2; PAYLOAD_BYTES - 18 - 8 - 7]), 4096 + 18);
        assert_eq!(chunk.end(), 8192);
        // Seven bytes are left in the block: no room for a frame.
        assert_eq!(chunk.end_with(5000), 4 * 4096);
        assert_eq!(chunk.push(&[3; 5000]), 8192);
        assert_eq!(chunk.push(&[4; 1]), (12288 + 5008 - PAYLOAD_BYTES) as u32);
        let (start, buffer) = chunk.blocks(b"header", 0);
        assert_eq!((start, buffer.len(), &buffer[..6]), (0, 4 * 4096, &b"header"[..]));
        for at in (0..buffer.len()).step_by(BLOCK_BYTES) {
            let starts_chunk = at as u32 == RECORDS_START;
            let trailer = Some(Trailer { segment: 3, stable: 0, starts_chunk });
            assert_eq!(block::inspect(&buffer[at..at + BLOCK_BYTES], at as u32), trailer);
        }
    }
}
