//! The file of a recorded trace.
//!
//! ```text
//! file    : header block* end
//! header  : "TGTRACE\n" | version u16 | flags u16 | started, µs since the epoch, i64 | crc u32
//! block   : bytes of payload u32 | requests u32 | shard u16 | bytes of an id u8 | 0 u8
//!           | time of the first request, µs since the start, u64 | crc u32 | payload
//! request : head u8 | id, or varint of its place among the ids of this block
//!           | varint of the size where it changed | varint of µs since the request before, if any
//! head    : kind 0..4 | id seen in this block 4 | size changed 5 | time passed 6 | hit 7
//! end     : a block of no requests; payload: requests u64 | lost u64
//! ```
//! Little endian. The CRC of a block covers its header before the CRC and its payload. Flag 0 of
//! the file: hits are known. A block of one shard is in order; blocks of different shards stand in
//! the order in which they were written.
//!
//! Invariant: what is read was written so: every byte is under a CRC, and a torn end is no silent
//! end, because only the end block says how many requests there are.

use std::collections::HashMap;
use std::path::Path;

use super::request::{Request, Trace, TraceBuilder};
use crate::checksum::Crc32;
use crate::error::{Error, Result};

/// First bytes of a file.
pub(super) const MAGIC: &[u8; 8] = b"TGTRACE\n";
const VERSION: u16 = 1;
const FLAG_HITS: u16 = 1;
const HEADER_BYTES: usize = 24;
const BLOCK_HEADER_BYTES: usize = 24;
const END_BYTES: usize = 16;

/// Requests of one block at most.
pub const BLOCK_REQUESTS_MAX: usize = 4096;
/// Head, id of 8 bytes, size of 5 and time of 10.
const REQUEST_BYTES_MAX: usize = 24;

const SEEN: u8 = 1 << 4;
const SIZED: u8 = 1 << 5;
const TIMED: u8 = 1 << 6;
const HIT: u8 = 1 << 7;

/// The header of a recording that began at `started_us` of the wall clock.
pub fn encode_header(started_us: i64) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&FLAG_HITS.to_le_bytes());
    header.extend_from_slice(&started_us.to_le_bytes());
    let crc = crate::checksum::crc32(&header);
    header.extend_from_slice(&crc.to_le_bytes());
    header
}

/// A block of `requests` (1 to [`BLOCK_REQUESTS_MAX`]) of one shard, in order of time.
pub fn encode_block(shard: u16, requests: &[Request]) -> Vec<u8> {
    assert!((1..=BLOCK_REQUESTS_MAX).contains(&requests.len()), "a block of {}", requests.len());
    let largest = requests.iter().map(|request| request.id).max().unwrap_or(0);
    let id_bytes = (u64::BITS - largest.leading_zeros()).div_ceil(8).max(1) as usize;
    let start_us = requests[0].time_us;
    let mut payload = Vec::with_capacity(requests.len() * 4);
    let mut places: HashMap<u64, u32> = HashMap::new();
    let (mut size_bytes, mut time_us) = (0, start_us);
    for request in requests {
        let next = places.len() as u32;
        let place = *places.entry(request.id).or_insert(next);
        let passed = request.time_us.saturating_sub(time_us);
        let mut head = request.kind & 0xF;
        head |= if place < next { SEEN } else { 0 };
        head |= if request.size_bytes != size_bytes { SIZED } else { 0 };
        head |= if passed > 0 { TIMED } else { 0 };
        head |= if request.is_hit { HIT } else { 0 };
        payload.push(head);
        match head & SEEN {
            0 => payload.extend_from_slice(&request.id.to_le_bytes()[..id_bytes]),
            _ => put_varint(&mut payload, u64::from(place)),
        }
        if head & SIZED != 0 {
            put_varint(&mut payload, u64::from(request.size_bytes));
        }
        if head & TIMED != 0 {
            put_varint(&mut payload, passed);
        }
        (size_bytes, time_us) = (request.size_bytes, time_us + passed);
    }
    block(requests.len() as u32, shard, id_bytes as u8, start_us, &payload)
}

/// The end of a recording of `requests`, beside which `lost` happened that are not in it.
pub fn encode_end(requests: u64, lost: u64) -> Vec<u8> {
    let payload = [requests.to_le_bytes(), lost.to_le_bytes()].concat();
    block(0, 0, 0, 0, &payload)
}

fn block(requests: u32, shard: u16, id_bytes: u8, start_us: u64, payload: &[u8]) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_HEADER_BYTES + payload.len());
    block.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    block.extend_from_slice(&requests.to_le_bytes());
    block.extend_from_slice(&shard.to_le_bytes());
    block.extend_from_slice(&[id_bytes, 0]);
    block.extend_from_slice(&start_us.to_le_bytes());
    let mut crc = Crc32::new();
    crc.update(&block);
    crc.update(payload);
    block.extend_from_slice(&crc.finish().to_le_bytes());
    block.extend_from_slice(payload);
    block
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Whether a file begins as a recorded trace does.
pub(super) fn is_recorded(file: &[u8]) -> bool {
    file.starts_with(MAGIC)
}

/// Reads a recorded trace. Ids of different shards stay different.
///
/// Errors: `Unavailable` for a newer version, `Corrupt` naming the offset, `Invalid` when it is too
/// long, or empty as at the beginning of a recording.
pub fn read_recorded(path: &Path, file: &[u8]) -> Result<Trace> {
    if file.is_empty() {
        return Err(Error::invalid(format!(
            "{} is empty; while reads are recorded to it, RECORD TRACE STOP writes the rest",
            path.display()
        )));
    }
    let mut at = Place { path, file, at: 0 };
    let flags = at.header()?;
    let mut builder = TraceBuilder::default();
    if flags & FLAG_HITS != 0 {
        builder.count_hits();
    }
    let mut requests = 0;
    while at.at < file.len() {
        let block_at = at.at;
        let block = at.block()?;
        if block.requests > 0 {
            requests += u64::from(block.requests);
            block.read(path, block_at, &mut builder)?;
            continue;
        }
        let corrupt =
            |wanted: &str, found: String| Error::corrupt(path, block_at as u64, wanted, found);
        let Some((counted, lost)) = block.payload.split_first_chunk::<8>() else {
            return Err(corrupt("an end block of 16 bytes", block.payload.len().to_string()));
        };
        let lost = lost.try_into().map(u64::from_le_bytes);
        let lost =
            lost.map_err(|_| corrupt("an end block of 16 bytes", block.payload.len().to_string()))?;
        if u64::from_le_bytes(*counted) != requests {
            let wanted = format!("{} requests", u64::from_le_bytes(*counted));
            return Err(corrupt(&wanted, requests.to_string()));
        }
        if at.at < file.len() {
            let more = format!("{} bytes more", file.len() - at.at);
            return Err(Error::corrupt(path, at.at as u64, "the end of the file", more));
        }
        return Ok(builder.finish_recorded(lost, true));
    }
    Ok(builder.finish_recorded(0, false))
}

/// How far a file was read.
struct Place<'a> {
    path: &'a Path,
    file: &'a [u8],
    at: usize,
}

struct Block<'a> {
    requests: u32,
    shard: u16,
    id_bytes: usize,
    start_us: u64,
    payload: &'a [u8],
}

impl<'a> Place<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let rest = &self.file[self.at..];
        if rest.len() < bytes {
            let found = format!("{} bytes and the end of the file", rest.len());
            return Err(Error::corrupt(self.path, self.at as u64, format!("{bytes} bytes"), found));
        }
        self.at += bytes;
        Ok(&rest[..bytes])
    }

    /// The flags of the file.
    fn header(&mut self) -> Result<u16> {
        let header = self.take(HEADER_BYTES)?;
        let version = u16::from_le_bytes([header[8], header[9]]);
        if &header[..8] != MAGIC {
            return Err(Error::corrupt(self.path, 0, "TGTRACE", "something else"));
        }
        if version > VERSION {
            return Err(Error::Unavailable(format!(
                "{} is a trace of version {version}, this build reads up to {VERSION}",
                self.path.display()
            )));
        }
        let (covered, crc) = header.split_at(HEADER_BYTES - 4);
        self.check(0, crate::checksum::crc32(covered), crc)?;
        Ok(u16::from_le_bytes([header[10], header[11]]))
    }

    fn block(&mut self) -> Result<Block<'a>> {
        let start = self.at;
        let header = self.take(BLOCK_HEADER_BYTES)?;
        let number = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (bytes, requests) = (number(0), number(4));
        // Before the CRC is known to be right, a length is only a claim.
        let bytes_max = match requests {
            0 => END_BYTES,
            1.. => BLOCK_REQUESTS_MAX * REQUEST_BYTES_MAX,
        };
        if requests as usize > BLOCK_REQUESTS_MAX || bytes as usize > bytes_max {
            let found = format!("{requests} in {bytes} bytes");
            return Err(Error::corrupt(self.path, start as u64, "a block of requests", found));
        }
        let payload = self.take(bytes as usize)?;
        let mut crc = Crc32::new();
        crc.update(&header[..20]);
        crc.update(payload);
        self.check(start, crc.finish(), &header[20..24])?;
        let start_us = u64::from(number(12)) | u64::from(number(16)) << 32;
        let shard = u16::from_le_bytes([header[8], header[9]]);
        Ok(Block { requests, shard, id_bytes: usize::from(header[10]), start_us, payload })
    }

    fn check(&self, at: usize, found: u32, wanted: &[u8]) -> Result<()> {
        let wanted = wanted.iter().rev().fold(0, |crc, byte| crc << 8 | u32::from(*byte));
        if wanted == found {
            return Ok(());
        }
        let (wanted, found) = (format!("crc {wanted:08x}"), format!("crc {found:08x}"));
        Err(Error::corrupt(self.path, at as u64, wanted, found))
    }
}

impl Block<'_> {
    fn read(&self, path: &Path, at: usize, builder: &mut TraceBuilder) -> Result<()> {
        let wrong = || Error::corrupt(path, at as u64, "whole requests", "a block with a torn one");
        let mut rest = self.payload;
        let mut ids = Vec::new();
        let (mut size_bytes, mut time_us) = (0, self.start_us);
        for _ in 0..self.requests {
            let (head, after) = rest.split_first().ok_or_else(wrong)?;
            rest = after;
            let id = if head & SEEN != 0 {
                let place = varint(&mut rest).and_then(|place| usize::try_from(place).ok());
                *place.and_then(|place| ids.get(place)).ok_or_else(wrong)?
            } else {
                let (id, after) = rest.split_at_checked(self.id_bytes).ok_or_else(wrong)?;
                rest = after;
                let id = id.iter().rev().fold(0_u64, |id, byte| id << 8 | u64::from(*byte));
                ids.push(id);
                id
            };
            if head & SIZED != 0 {
                let size = varint(&mut rest).and_then(|size| u32::try_from(size).ok());
                size_bytes = size.ok_or_else(wrong)?;
            }
            if head & TIMED != 0 {
                let passed = varint(&mut rest).ok_or_else(wrong)?;
                time_us = time_us.saturating_add(passed);
            }
            builder.push(Request {
                // A bijection a shard: the caches of two shards never hold the same page.
                id: id ^ u64::from(self.shard).wrapping_mul(0x9E37_79B9_7F4A_7C15),
                size_bytes,
                kind: head & 0xF,
                is_hit: head & HIT != 0,
                time_us,
            })?;
        }
        if rest.is_empty() { Ok(()) } else { Err(wrong()) }
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Random;

    fn requests(seed: u64, count: usize) -> Vec<Request> {
        let mut random = Random::new(seed);
        let mut time_us = 0;
        (0..count)
            .map(|_| {
                time_us += random.below(3) * random.below(1000);
                Request {
                    id: random.below(300).wrapping_mul(0xA5A5_1234_5678_9ABD),
                    size_bytes: if random.one_in(10) { 100 } else { 4096 },
                    kind: random.below(16) as u8,
                    is_hit: random.one_in(2),
                    time_us,
                }
            })
            .collect()
    }

    fn file(blocks: &[Vec<u8>]) -> Vec<u8> {
        [encode_header(7), blocks.concat()].concat()
    }

    fn read(file: &[u8]) -> Result<Trace> {
        read_recorded(Path::new("t.trace"), file)
    }

    #[test]
    fn what_was_recorded_is_read() {
        let all = requests(3, 10_000);
        let mut blocks: Vec<Vec<u8>> =
            all.chunks(BLOCK_REQUESTS_MAX).map(|chunk| encode_block(0, chunk)).collect();
        blocks.push(encode_end(10_000, 17));
        let trace = read(&file(&blocks)).unwrap();
        let mut builder = TraceBuilder::default();
        builder.count_hits();
        all.iter().for_each(|request| builder.push(*request).unwrap());
        assert_eq!(trace, builder.finish_recorded(17, true));
        assert_eq!((trace.entry_count(), trace.lost()), (300, 17));
        let bytes: usize = blocks.iter().map(Vec::len).sum();
        assert!(bytes < 10_000 * 9, "{bytes} bytes for 10000 requests");
        blocks.pop();
        assert!(!read(&file(&blocks)).unwrap().is_complete(), "without an end it was cut off");
    }

    #[test]
    fn ids_of_two_shards_stay_different() {
        let one = requests(3, 1);
        let blocks = [encode_block(0, &one), encode_block(1, &one), encode_end(2, 0)];
        assert_eq!(read(&file(&blocks)).unwrap().entry_count(), 2);
    }

    #[test]
    fn every_damaged_bit_and_every_cut_is_named() {
        let all = requests(5, 40);
        let whole = file(&[encode_block(0, &all), encode_end(40, 0)]);
        assert!(read(&whole).unwrap().is_complete());
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = read(&damaged).unwrap_err();
            let is_named = matches!(error, Error::Corrupt(_) | Error::Unavailable(_));
            assert!(is_named, "bit {bit}: {error}");
        }
        let boundaries = [HEADER_BYTES, whole.len() - BLOCK_HEADER_BYTES - END_BYTES];
        for length in 0..whole.len() {
            let cut = read(&whole[..length]);
            match boundaries.contains(&length) {
                true => assert!(!cut.unwrap().is_complete(), "{length}"),
                false if length == 0 => assert!(matches!(cut, Err(Error::Invalid(_)))),
                false => assert!(matches!(cut, Err(Error::Corrupt(_))), "{length}"),
            }
        }
        let more = [whole.as_slice(), &[0]].concat();
        assert!(matches!(read(&more), Err(Error::Corrupt(_))));
    }

    /// Each block is whole by itself: only the end knows how many requests there were.
    #[test]
    fn a_block_that_is_missing_or_comes_twice_is_named() {
        let all = requests(9, 120);
        let blocks: Vec<Vec<u8>> = all.chunks(40).map(|chunk| encode_block(0, chunk)).collect();
        let read_of = |places: &[usize]| {
            let chosen = places.iter().map(|at| blocks[*at].clone());
            read(&file(&chosen.chain([encode_end(120, 2)]).collect::<Vec<_>>()))
        };
        let whole = read_of(&[0, 1, 2]).unwrap();
        assert_eq!((whole.reads().len(), whole.lost(), whole.is_complete()), (120, 2, true));
        for places in [&[1, 2][..], &[0, 2], &[0, 1], &[], &[0, 1, 1, 2]] {
            let error = read_of(places).unwrap_err();
            assert!(matches!(error, Error::Corrupt(_)), "{places:?}: {error}");
            let wanted = format!("wanted 120 requests, found {}", 40 * places.len());
            assert!(error.to_string().contains(&wanted), "{places:?}: {error}");
        }
    }

    #[test]
    fn numbers_of_every_width_are_read_as_they_were_written() {
        for largest in [0, 1, 0xFF, 0x100, 0xFFFF_FFFF, 1 << 40, u64::MAX] {
            let request = |id, size_bytes, time_us| Request {
                id,
                size_bytes,
                kind: 15,
                is_hit: id == largest,
                time_us,
            };
            let all = [
                request(largest, 1, 5_999),
                request(largest / 2, u32::MAX, 5_999),
                request(0, 0x80, 1 << 30),
                request(largest, 0x80, 1 << 41),
            ];
            let mut builder = TraceBuilder::default();
            builder.count_hits();
            all.iter().for_each(|request| builder.push(*request).unwrap());
            let trace = read(&file(&[encode_block(0, &all), encode_end(4, 0)])).unwrap();
            assert_eq!(trace, builder.finish_recorded(0, true), "{largest}");
        }
    }

    #[test]
    fn a_file_without_hits_tells_of_none_and_a_newer_one_is_not_read() {
        let header = |version: u16, flags: u16| {
            let mut header = encode_header(7);
            header.truncate(HEADER_BYTES - 4);
            header[8..10].copy_from_slice(&version.to_le_bytes());
            header[10..12].copy_from_slice(&flags.to_le_bytes());
            let crc = crate::checksum::crc32(&header);
            header.extend_from_slice(&crc.to_le_bytes());
            header
        };
        let rest = [encode_block(0, &requests(3, 50)), encode_end(50, 0)].concat();
        let read_with = |version, flags| read(&[header(version, flags), rest.clone()].concat());
        assert!(read_with(VERSION, FLAG_HITS).unwrap().recorded_hits().is_some_and(|n| n > 0));
        assert_eq!(read_with(VERSION, 0).unwrap().recorded_hits(), None, "it is not known");
        let newer = read_with(VERSION + 1, FLAG_HITS).unwrap_err();
        assert!(matches!(newer, Error::Unavailable(_)), "{newer}");
    }

    /// A block that is under its CRC and yet none that was written so.
    #[test]
    fn blocks_with_whole_checksums_and_wrong_requests_are_named() {
        let read_with = |requests: u32, payload: &[u8]| {
            let ids_of_one_byte = block(requests, 0, 1, 0, payload);
            read(&file(&[ids_of_one_byte, encode_end(u64::from(requests), 0)]))
        };
        assert_eq!(read_with(1, &[SIZED, 7, 5]).unwrap().reads()[0].size_bytes, 5);
        assert_eq!(read_with(2, &[0, 7, SEEN, 0]).unwrap().entry_count(), 1);
        for (requests, payload) in [
            (1, &[][..]),
            (1, &[0]),
            (1, &[SEEN, 0]),
            (1, &[0, 7, 9]),
            (1, &[SIZED, 7]),
            (1, &[SIZED, 7, 0x80, 0x80, 0x80, 0x80, 0x10]),
            (1, &[TIMED, 7, 0x80]),
            (1, &[TIMED, 7, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0]),
            (2, &[0, 7, SEEN, 1]),
            (2, &[0, 7]),
            (BLOCK_REQUESTS_MAX as u32 + 1, &[0, 7]),
        ] {
            let told = read_with(requests, payload).unwrap_err();
            assert!(matches!(told, Error::Corrupt(_)), "{requests} in {payload:?}: {told}");
        }
        for bytes in [0, 7, 8, 15, 17] {
            let end = block(0, 0, 0, 0, &vec![0_u8; bytes]);
            let told = read(&file(&[end])).unwrap_err();
            assert!(matches!(told, Error::Corrupt(_)), "an end of {bytes} bytes: {told}");
        }
        assert!(read(&file(&[block(0, 0, 0, 0, &[0; 16])])).unwrap().is_complete());
    }
}
