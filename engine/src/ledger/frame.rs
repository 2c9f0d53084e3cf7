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

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: [u8; 4] = *b"TEST";

    /// A text has two more bytes in JSON.
    #[test]
    fn frames_of_any_length_take_whole_pages_and_are_read_one_behind_the_other() {
        let full = PAGE_BYTES - HEAD_BYTES - 2;
        for length in [0, 1, full - 1, full, full + 1, full + PAGE_BYTES, full + PAGE_BYTES + 1] {
            let text = "x".repeat(length);
            let first = encode(MAGIC, 7, &text);
            let pages = (HEAD_BYTES + 2 + length).div_ceil(PAGE_BYTES);
            assert_eq!(first.len(), pages * PAGE_BYTES, "{length}");
            let mut both = first.clone();
            both.extend_from_slice(&encode(MAGIC, u64::MAX, &"next"));
            let (sequence, found, behind) = parse::<String>(MAGIC, &both).unwrap();
            assert_eq!((sequence, found, behind), (7, text, first.len()));
            let (sequence, found, behind) = parse::<String>(MAGIC, &both[behind..]).unwrap();
            assert_eq!((sequence, &*found, behind), (u64::MAX, "next", PAGE_BYTES), "{length}");
        }
    }

    #[test]
    fn what_is_cut_changed_or_anothers_is_no_frame() {
        let whole = encode(MAGIC, 7, &"text");
        let used = HEAD_BYTES + 6;
        let (sequence, _, length) = parse::<String>(MAGIC, &whole[..used]).unwrap();
        assert_eq!((sequence, length), (7, used), "what it is filled up with may be missing");
        for bytes in 0..used {
            assert!(parse::<String>(MAGIC, &whole[..bytes]).is_none(), "{bytes} bytes are left");
            let mut changed = whole.clone();
            changed[bytes] ^= 1;
            assert!(parse::<String>(MAGIC, &changed).is_none(), "byte {bytes} is another one");
        }
        assert!(parse::<String>(*b"TESU", &whole).is_none(), "it is of another file");
        assert!(parse::<u64>(MAGIC, &whole).is_none(), "it holds a text");
    }
}
