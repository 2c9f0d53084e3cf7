//! Frames: pieces of JSON that a file takes one behind the other, each whole or not there.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::checksum::crc32;
use crate::config::PAGE_BYTES;

/// Magic, CRC, length, sequence.
const HEAD_BYTES: usize = 20;

/// A frame, padded to whole pages.
pub fn encode<T: Serialize>(magic: [u8; 4], sequence: u64, content: &T) -> Vec<u8> {
    let json = serde_json::to_vec(content).expect("what frames hold has only text keys");
    let mut checked = (json.len() as u32).to_be_bytes().to_vec();
    checked.extend_from_slice(&sequence.to_be_bytes());
    checked.extend_from_slice(&json);
    let mut frame = magic.to_vec();
    frame.extend_from_slice(&crc32(&checked).to_be_bytes());
    frame.extend_from_slice(&checked);
    frame.resize(frame.len().next_multiple_of(PAGE_BYTES), 0);
    frame
}

/// Sequence, content and padded length of the frame at the front of `bytes`, if it is whole.
pub fn parse<T: DeserializeOwned>(magic: [u8; 4], bytes: &[u8]) -> Option<(u64, T, usize)> {
    let checked = bytes.strip_prefix(&magic)?;
    let (crc, checked) = checked.split_first_chunk::<4>()?;
    let length = u32::from_be_bytes(*checked.first_chunk::<4>()?) as usize;
    let content = checked.get(..length.checked_add(12)?)?;
    if crc32(content) != u32::from_be_bytes(*crc) {
        return None;
    }
    let sequence = u64::from_be_bytes(*content[4..].first_chunk::<8>()?);
    let edits = serde_json::from_slice(&content[12..]).ok()?;
    let end = (HEAD_BYTES + length).next_multiple_of(PAGE_BYTES);
    Some((sequence, edits, end.min(bytes.len())))
}
