//! `CompressionInfo.db`: how the data file is compressed, and where its chunks lie.
//!
//! ```text
//! file := bytes16 class, i32 n, n x (bytes16 key, bytes16 value), i32 chunk bytes,
//!         [nb: i32 stored bytes from which a chunk is stored as it is],
//!         i64 data bytes, i32 n, n x i64 offset of a chunk
//! ```
//! Every position in the other components counts uncompressed bytes. A chunk in `Data.db` is
//! followed by the CRC of its stored bytes.

use std::path::Path;

use super::codec::Codec;
use super::coding::{Fault, Input, Parsed, put_bytes16};
use super::component::Version;
use crate::error::{Error, Result};
use crate::schema::Compression;

/// Longest chunk that is read. One is held in memory whole; the products write up to 64 KiB unless
/// told otherwise.
const CHUNK_BYTES_MAX: u32 = 16 << 20;
/// Bytes of the checksum behind each chunk.
pub(crate) const CRC_BYTES: u64 = 4;
/// Offsets that share a base.
const GROUP: usize = 64;

/// Ascending offsets, packed: 4 bytes each and a base for every 64. A chunk takes at most
/// `CHUNK_BYTES_MAX` and a bit, so a group spans less than 4 GiB.
#[derive(Debug, Clone, PartialEq)]
struct Offsets {
    bases: Vec<u64>,
    deltas: Vec<u32>,
}

impl CompressionInfo {
    /// Bytes of memory that it takes beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let Offsets { bases, deltas } = &self.offsets;
        bases.capacity() * size_of::<u64>() + deltas.capacity() * size_of::<u32>()
    }
}

impl Offsets {
    fn get(&self, number: u64) -> Option<u64> {
        let number = usize::try_from(number).ok()?;
        Some(self.bases[number / GROUP] + u64::from(*self.deltas.get(number)?))
    }
}

/// Where one chunk is stored and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Offset of the stored bytes in the data file.
    pub(crate) at: u64,
    /// Stored bytes, the checksum behind them not included.
    pub(crate) stored_bytes: u64,
    /// Bytes when decompressed.
    pub(crate) bytes: u64,
    /// Stored as it is, perhaps with padding.
    pub(crate) is_raw: bool,
}

/// The content of `CompressionInfo.db`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CompressionInfo {
    pub(crate) codec: Codec,
    /// Bytes of every chunk but the last, a power of two.
    pub(crate) chunk_bytes: u64,
    /// A chunk of this many stored bytes or more is stored as it is.
    raw_from_bytes: u64,
    /// Bytes of the uncompressed data.
    pub(crate) data_bytes: u64,
    offsets: Offsets,
    /// Size of the data file as stored.
    file_bytes: u64,
}

/// Most bytes that a chunk may be stored in: more than any of the codecs ever needs.
fn stored_bytes_max(chunk_bytes: u64) -> u64 {
    chunk_bytes + chunk_bytes / 4 + 1024
}

/// Bytes of a whole `CompressionInfo.db` for `me`, of a file whose chunks begin at `offsets`.
pub(crate) fn encode(compression: &Compression, data_bytes: u64, offsets: &[u64]) -> Vec<u8> {
    assert!(offsets.is_sorted_by(|a, b| a < b), "offsets of chunks do not ascend: {offsets:?}");
    let mut out = Vec::with_capacity(64 + 8 * offsets.len());
    put_bytes16(&mut out, compression.compressor.class().as_bytes());
    let level = compression.level.map(|level| level.to_string());
    out.extend_from_slice(&u32::from(level.is_some()).to_be_bytes());
    if let Some(level) = level {
        put_bytes16(&mut out, b"compression_level");
        put_bytes16(&mut out, level.as_bytes());
    }
    out.extend_from_slice(&compression.chunk_bytes.to_be_bytes());
    out.extend_from_slice(&data_bytes.to_be_bytes());
    let count = u32::try_from(offsets.len()).expect("fewer than 2^32 chunks");
    out.extend_from_slice(&count.to_be_bytes());
    offsets.iter().for_each(|offset| out.extend_from_slice(&offset.to_be_bytes()));
    out
}

impl CompressionInfo {
    /// Reads a whole `CompressionInfo.db` at `path`, of a data file of `file_bytes`.
    ///
    /// Errors: `Corrupt`; `Invalid` for an unknown codec.
    pub(crate) fn decode(
        bytes: &[u8],
        version: Version,
        file_bytes: u64,
        path: &Path,
    ) -> Result<Self> {
        let mut input = Input::new(bytes);
        let class = input.bytes16().map_err(|fault| fault.into_error(path, 0))?;
        let class = String::from_utf8_lossy(class);
        let codec = Codec::of_class(&class).ok_or_else(|| {
            Error::invalid(format!(
                "{} names the compressor '{class}': readable are {}",
                path.display(),
                Codec::NAMES
            ))
        })?;
        let decoded = Self::decode_body(&mut input, codec, version, file_bytes);
        decoded.map_err(|fault| fault.into_error(path, 0))
    }

    fn decode_body(
        input: &mut Input<'_>,
        codec: Codec,
        version: Version,
        file_bytes: u64,
    ) -> Parsed<Self> {
        let options = input.count32()?;
        input.items(options, 4, |input| Ok((input.bytes16()?, input.bytes16()?)))?;
        let before = input.clone();
        let chunk_bytes = input.u32()?;
        if !chunk_bytes.is_power_of_two() || chunk_bytes > CHUNK_BYTES_MAX {
            let wanted = format!("a chunk length that is a power of two up to {CHUNK_BYTES_MAX}");
            return Err(before.bad(wanted, chunk_bytes));
        }
        let chunk_bytes = u64::from(chunk_bytes);
        let raw_from_bytes = if version >= Version::Nb { input.count32()? } else { u64::MAX };
        let before = input.clone();
        let data_bytes = input.i64()?;
        let data_bytes = u64::try_from(data_bytes)
            .map_err(|_| before.bad("the length of the data", data_bytes))?;
        let before = input.clone();
        let count = input.count32()?;
        let needed = data_bytes.div_ceil(chunk_bytes);
        // Some writers end with an empty chunk.
        if count == 0 || !(needed..=needed.saturating_add(1)).contains(&count) {
            let wanted = format!("{needed} chunks for {data_bytes} bytes of data");
            return Err(before.bad(wanted, count));
        }
        let offsets = decode_offsets(input, count, (chunk_bytes, file_bytes))?;
        if input.remaining() != 0 {
            let found = format!("{} bytes", input.remaining());
            return Err(input.bad("the end of the chunk map", found));
        }
        Ok(CompressionInfo { codec, chunk_bytes, raw_from_bytes, data_bytes, offsets, file_bytes })
    }

    /// The chunk of this number, which holds data.
    pub(crate) fn chunk(&self, number: u64) -> Chunk {
        let at = self.offsets.get(number).expect("decoding found a chunk for all data");
        let end = self.offsets.get(number + 1).unwrap_or(self.file_bytes);
        debug_assert!(at + CRC_BYTES <= end, "chunk {number} at {at}..{end}");
        debug_assert!(
            number * self.chunk_bytes < self.data_bytes,
            "chunk {number} is behind the {} bytes of data",
            self.data_bytes
        );
        let stored_bytes = end - at - CRC_BYTES;
        Chunk {
            at,
            stored_bytes,
            bytes: (self.data_bytes - number * self.chunk_bytes).min(self.chunk_bytes),
            is_raw: stored_bytes >= self.raw_from_bytes,
        }
    }
}

fn decode_offsets(
    input: &mut Input<'_>,
    count: u64,
    (chunk_bytes, file_bytes): (u64, u64),
) -> Parsed<Offsets> {
    let wanted = count.saturating_mul(8);
    if wanted > input.remaining() {
        return Err(Fault::Short { needed: input.at().saturating_add(wanted) });
    }
    let room = stored_bytes_max(chunk_bytes) + CRC_BYTES;
    let mut offsets = Offsets { bases: Vec::new(), deltas: Vec::with_capacity(count as usize) };
    let mut next = 0..=0;
    for number in 0..count as usize {
        let before = input.clone();
        let offset = input.i64()? as u64;
        if !next.contains(&offset) {
            let wanted = format!("a chunk between {} and {}", next.start(), next.end());
            return Err(before.bad(wanted, offset as i64));
        }
        if number % GROUP == 0 {
            offsets.bases.push(offset);
        }
        let delta = offset - offsets.bases[number / GROUP];
        offsets.deltas.push(u32::try_from(delta).expect("64 chunks take less than 4 GiB"));
        next = offset + CRC_BYTES..=offset + room;
    }
    if !next.contains(&file_bytes) {
        let wanted = format!("a file of {} to {} bytes", next.start(), next.end());
        return Err(input.bad(wanted, file_bytes));
    }
    Ok(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode_map(class: &[u8], lengths: (u32, i64), offsets: &[i64]) -> Vec<u8> {
        let mut out = (class.len() as u16).to_be_bytes().to_vec();
        out.extend_from_slice(class);
        out.extend_from_slice(&1u32.to_be_bytes());
        out.extend_from_slice(b"\0\x01k\0\x02vv");
        out.extend_from_slice(&lengths.0.to_be_bytes());
        out.extend_from_slice(&lengths.1.to_be_bytes());
        out.extend_from_slice(&(offsets.len() as u32).to_be_bytes());
        offsets.iter().for_each(|offset| out.extend_from_slice(&offset.to_be_bytes()));
        out
    }

    fn decode(bytes: &[u8], file_bytes: u64) -> Result<CompressionInfo> {
        CompressionInfo::decode(bytes, Version::Me, file_bytes, Path::new("x"))
    }

    #[test]
    fn chunks_lie_between_their_offsets() {
        let many: Vec<i64> = (0..1000).map(|number| number * 50).collect();
        let info = decode(&encode_map(b"LZ4Compressor", (1024, 1024 * 1000 - 7), &many), 50_000);
        let info = info.unwrap();
        let chunk =
            |number: u64, bytes| Chunk { at: 50 * number, stored_bytes: 46, bytes, is_raw: false };
        assert_eq!(info.chunk(63), chunk(63, 1024));
        assert_eq!(info.chunk(64), chunk(64, 1024));
        assert_eq!(info.chunk(999), chunk(999, 1017));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let zstd = crate::schema::Compression {
            compressor: Codec::Zstd,
            chunk_bytes: 1024,
            level: Some(5),
        };
        for compression in [zstd, crate::schema::Compression { level: None, ..zstd }] {
            let info = decode(&super::encode(&compression, 2000, &[0, 40]), 90).unwrap();
            assert_eq!((info.codec, info.chunk_bytes, info.data_bytes), (Codec::Zstd, 1024, 2000));
            let last = Chunk { at: 40, stored_bytes: 46, bytes: 976, is_raw: false };
            assert_eq!(info.chunk(1), last);
        }
    }

    #[test]
    fn impossible_maps_are_refused() {
        let good = (1024u32, 2000i64);
        decode(&encode_map(b"LZ4Compressor", good, &[0, 40]), 90).unwrap();
        // An empty chunk at the end.
        decode(&encode_map(b"LZ4Compressor", good, &[0, 40, 80]), 88).unwrap();
        let bad: [((u32, i64), &[i64], u64); 12] = [
            ((1000, 2000), &[0, 40], 90),
            ((0, 2000), &[0, 40], 90),
            ((1 << 30, 2000), &[0], 90),
            ((1024, -1), &[0, 40], 90),
            ((1024, i64::MAX), &[0, 40], 90),
            (good, &[0], 90),
            (good, &[0, 10, 20, 30], 90),
            (good, &[1, 40], 90),
            (good, &[0, -40], 90),
            (good, &[0, 3], 90),
            (good, &[0, 40], 43),
            (good, &[0, 1 << 40], (1 << 40) + 90),
        ];
        for (lengths, offsets, file_bytes) in bad {
            let bytes = encode_map(b"LZ4Compressor", lengths, offsets);
            let error = decode(&bytes, file_bytes).unwrap_err();
            assert!(matches!(error, Error::Corrupt(_)), "{lengths:?} {offsets:?}: {error}");
        }
        let mut long = encode_map(b"LZ4Compressor", good, &[0, 40]);
        long.push(0);
        assert!(decode(&long, 90).is_err());
        let error =
            decode(&encode_map(b"ZstdWithDictsCompressor", good, &[0, 40]), 90).unwrap_err();
        assert!(matches!(&error, Error::Invalid(text) if text.contains("Dicts")), "{error}");
    }
}
