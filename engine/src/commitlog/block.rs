//! The unit of the commitlog on disk: payload and a trailer that tells whose block it is.

use crate::checksum::Crc32;
use crate::config::PAGE_BYTES;

/// Size of a block, and what writes are padded to.
pub(super) const BLOCK_BYTES: usize = PAGE_BYTES;
const TRAILER_BYTES: usize = 16;
/// Set in the segment of a trailer where a chunk starts. Ids are milliseconds and never get there.
const STARTS_CHUNK: u64 = 1 << 63;
/// Bytes of records in one block.
pub(super) const PAYLOAD_BYTES: usize = BLOCK_BYTES - TRAILER_BYTES;

/// What a valid block says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trailer {
    pub segment: u64,
    /// Every byte of the segment before this offset was on stable storage when the block formed.
    pub stable: u32,
    /// The block is the first of its chunk: a record starts with it.
    pub starts_chunk: bool,
}

/// Writes the trailer of the block that stands at `offset` of its segment.
pub(super) fn seal(block: &mut [u8], offset: u32, trailer: Trailer) {
    assert_eq!(block.len(), BLOCK_BYTES, "a block at {offset} of another size");
    assert!((offset as usize).is_multiple_of(BLOCK_BYTES), "a block at {offset}, within another");
    let segment = trailer.segment;
    assert!(segment & STARTS_CHUNK == 0, "the id of segment {segment} takes the chunk's mark");
    let mark = if trailer.starts_chunk { STARTS_CHUNK } else { 0 };
    block[PAYLOAD_BYTES..][..8].copy_from_slice(&(trailer.segment | mark).to_be_bytes());
    block[PAYLOAD_BYTES + 8..][..4].copy_from_slice(&trailer.stable.to_be_bytes());
    let crc = crc(block, offset);
    block[BLOCK_BYTES - 4..].copy_from_slice(&crc.to_be_bytes());
}

/// The trailer of a block at `offset`, if its checksum is right.
pub(super) fn inspect(block: &[u8], offset: u32) -> Option<Trailer> {
    if block.len() != BLOCK_BYTES || stored_crc(block) != crc(block, offset) {
        return None;
    }
    let segment = u64::from_be_bytes(block[PAYLOAD_BYTES..][..8].try_into().ok()?);
    Some(Trailer {
        segment: segment & !STARTS_CHUNK,
        starts_chunk: segment & STARTS_CHUNK != 0,
        stable: u32::from_be_bytes(block[PAYLOAD_BYTES + 8..][..4].try_into().ok()?),
    })
}

/// Words for what stands in a block that is not `inspect`ed well.
pub(super) fn describe(block: &[u8], offset: u32) -> String {
    if block.len() != BLOCK_BYTES {
        return format!("the end of the file after {} bytes", block.len());
    }
    if let Some(trailer) = inspect(block, offset) {
        return format!("a block of segment {}", trailer.segment);
    }
    if is_zero(block) {
        return "zeros".to_owned();
    }
    format!("checksum {:08x} over content of {:08x}", stored_crc(block), crc(block, offset))
}

pub(super) fn is_zero(block: &[u8]) -> bool {
    block.iter().all(|byte| *byte == 0)
}

fn stored_crc(block: &[u8]) -> u32 {
    let bytes = &block[BLOCK_BYTES - 4..];
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

/// Covers the place too, so that a block written to a wrong place is not valid there.
fn crc(block: &[u8], offset: u32) -> u32 {
    let mut crc = Crc32::new();
    crc.update(&offset.to_be_bytes());
    crc.update(&block[..BLOCK_BYTES - 4]);
    crc.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_valid_only_whole_and_in_its_place() {
        let trailer = Trailer { segment: 77, stable: 8192, starts_chunk: true };
        let mut block = vec![9; BLOCK_BYTES];
        seal(&mut block, 4096, trailer);
        assert_eq!(inspect(&block, 4096), Some(trailer));
        assert_eq!(inspect(&block, 8192), None);
        for at in (0..BLOCK_BYTES).step_by(7).chain(PAYLOAD_BYTES..BLOCK_BYTES) {
            block[at] ^= 4;
            assert_eq!(inspect(&block, 4096), None, "byte {at}");
            block[at] ^= 4;
        }
        assert_eq!(inspect(&[0; BLOCK_BYTES], 0), None, "unwritten space is no block");
        assert_eq!(describe(&[0; BLOCK_BYTES], 0), "zeros");
    }
}
