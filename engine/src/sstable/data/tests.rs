//! Files of SSTables as bytes: what was written is what is read, whichever way a reader moves.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use futures::executor::block_on;

use super::compressed::CompressedFile;
use super::file::{
    Access, CHUNK_BYTES, CheckedFile, Checks, FileWriter, SCAN_BYTES_MAX, decode_chunks,
};
use super::window::{Content, Window};
use crate::cache::PageCache;
use crate::checksum::crc32;
use crate::clock::Random;
use crate::config::PAGE_BYTES;
use crate::error::{Error, Result};
use crate::policy::event::EntryKind;
use crate::schema::{Compression, Compressor};
use crate::sstable::Version;
use crate::sstable::format::codec::ChunkEncoder;
use crate::sstable::format::compression_info::{self, CompressionInfo};
use crate::sstable::tests::memory_disk::MemoryDisk;

const PATH: &str = "/data/file";

/// Bytes of which no two neighbouring pages are alike.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 ^ (at / PAGE_BYTES) as u8).collect()
}

/// A file of these bytes, as far as it opens.
fn opened(content: &[u8], wanted_size: Option<u64>, checks: Checks) -> Result<Rc<CheckedFile>> {
    let disk = MemoryDisk::default();
    disk.set_content(Path::new(PATH), content.to_vec());
    let place = (PathBuf::from(PATH), EntryKind::DataPage);
    block_on(CheckedFile::open(&disk, PageCache::new(1 << 20, 1), place, wanted_size, checks))
}

fn crcs(content: &[u8], unit: usize) -> Vec<u32> {
    content.chunks(unit).map(crc32).collect()
}

/// The same bytes in chunks of so many.
fn compressed(content: &[u8], chunk_bytes: u32) -> Content {
    let compression = Compression { chunk_bytes, ..Compression::new(Compressor::Lz4) };
    let mut encoder = ChunkEncoder::new(compression);
    let (mut file, mut offsets, mut stored) = (Vec::new(), Vec::new(), Vec::new());
    for chunk in content.chunks(chunk_bytes as usize) {
        stored.clear();
        encoder.compress(chunk, &mut stored);
        offsets.push(file.len() as u64);
        file.extend_from_slice(&stored);
        file.extend_from_slice(&crc32(&stored).to_be_bytes());
    }
    let map = compression_info::encode(&compression, content.len() as u64, &offsets);
    let size = file.len() as u64;
    let info = CompressionInfo::decode(&map, Version::Me, size, Path::new(PATH)).unwrap();
    Content::Compressed(CompressedFile::new(opened(&file, None, Checks::None).unwrap(), info))
}

/// Moves a window at random, and looks at all that it holds after each move.
fn check_moves(what: &str, content: Content, wanted: &[u8], (access, seed): (Access, u64)) {
    let (mut random, size) = (Random::new(seed), wanted.len() as u64);
    let mut window = Window::new(content, access).looking_ahead(true);
    let mut at = 0;
    for number in 0..80 {
        let length = if random.one_in(12) { 150_000 } else { 300 };
        let length = 1 + random.below(length);
        let (from, to) = match random.below(12) {
            0 => {
                at = random.below(size);
                (at, (at + length).min(size))
            }
            1 => {
                window.set_careful(random.one_in(2));
                (at, (at + 1).min(size))
            }
            2..=4 => (at.saturating_sub(length), at),
            _ => (at, (at + length).min(size)),
        };
        if from == to {
            at = size / 2;
            continue;
        }
        let is_backward = to <= at;
        if is_backward {
            let low = from - random.below(from + 1);
            block_on(window.retreat((from, to), low)).unwrap();
            at = from;
        } else if random.one_in(10) {
            block_on(window.take_in(from, to)).unwrap();
        } else {
            let limit = from + random.below(size - from + 1);
            block_on(window.advance(from, to - from, limit)).unwrap();
            assert!(window.holds(from, to - from), "{what}, {access:?}, move {number}");
            at = to;
        }
        let (start, held) = window.held();
        let stands_there = wanted.get(start as usize..).and_then(|rest| rest.get(..held.len()));
        assert!(stands_there == Some(held), "{what}, {access:?}, move {number}: held {start}");
        if window.holds(from, to - from) {
            let found = window.bytes_from(from).get(..(to - from) as usize);
            let is_right = found == wanted.get(from as usize..to as usize);
            assert!(is_right, "{what}, {access:?}, move {number}: {from}..{to}");
        } else {
            assert!(!is_backward, "{what}, {access:?}, move {number}: {from}..{to}");
        }
    }
    for (from, length) in [(size, 1), (size - 1, 2), (0, size + 1), (u64::MAX, 1), (2, u64::MAX)] {
        let found = block_on(window.advance(from, length, u64::MAX));
        let is_told = matches!(found, Err(Error::Corrupt(_)));
        assert!(is_told, "{what}, {access:?}: {length} bytes at {from}: {found:?}");
    }
}

#[test]
fn a_window_has_the_bytes_of_its_file_wherever_it_is_moved() {
    let wanted = bytes(600_001);
    let plain = |checks| Content::Plain(opened(&wanted, None, checks).unwrap());
    for (seed, access) in (1..).zip([Access::Cached, Access::Rows, Access::Scan]) {
        let unit = 4 * PAGE_BYTES;
        let contents = [
            ("unchecked", plain(Checks::None)),
            ("by pages", plain(Checks::Pages(crcs(&wanted, PAGE_BYTES)))),
            ("by pieces", plain(Checks::Chunks(unit as u64, crcs(&wanted, unit)))),
            ("in short chunks", compressed(&wanted, 1024)),
            ("in long chunks", compressed(&wanted, 16 << 10)),
        ];
        for (what, content) in contents {
            check_moves(what, content, &wanted, (access, seed));
        }
    }
}

#[test]
fn a_file_is_written_as_it_was_given_whatever_its_length() {
    const PIECE: usize = 256 << 10;
    let around = |border: usize| [border - 1, border, border + 1];
    let borders = [PAGE_BYTES, CHUNK_BYTES, PIECE, 2 * PIECE];
    for length in [0, 1].into_iter().chain(borders.into_iter().flat_map(around)) {
        let wanted = bytes(length);
        for given in [1000, CHUNK_BYTES, 3 * PIECE] {
            let what = format!("{length} bytes, given {given} at once");
            let disk = MemoryDisk::default();
            let written = block_on(async {
                let mut writer = FileWriter::create(&disk, Path::new(PATH)).await.unwrap();
                let mut at = 0;
                for part in wanted.chunks(given) {
                    if !writer.append_now(part) {
                        assert!(writer.room() < part.len(), "{what}: there was room");
                        assert_eq!(writer.position(), at, "{what}: nothing was appended");
                        writer.append(part).await.unwrap();
                    }
                    at += part.len() as u64;
                    assert_eq!(writer.position(), at, "{what}");
                }
                writer.finish().await.unwrap()
            });
            assert!(disk.content(Path::new(PATH)) == wanted, "{what}");
            assert_eq!(written.size, length as u64, "{what}");
            assert_eq!(written.pages, crcs(&wanted, PAGE_BYTES), "{what}");
            assert_eq!(written.chunks, crcs(&wanted, CHUNK_BYTES), "{what}");
            assert_eq!(written.whole, crc32(&wanted), "{what}");
        }
    }
}

#[test]
fn a_file_opens_only_with_its_size_and_with_checksums_for_all_of_it() {
    for length in [1, PAGE_BYTES, PAGE_BYTES + 1, CHUNK_BYTES, CHUNK_BYTES + 1] {
        let content = bytes(length);
        let size = length as u64;
        for wanted in [size - 1, size, size + 1] {
            let found = opened(&content, Some(wanted), Checks::None).map(|_| ());
            match found {
                Ok(()) => assert_eq!(wanted, size),
                Err(Error::Corrupt(corruption)) => {
                    assert_ne!(wanted, size);
                    assert_eq!(corruption.offset, size.min(wanted), "{wanted} of {size} bytes");
                }
                Err(error) => panic!("{wanted} of {size} bytes: {error}"),
            }
        }
        for unit in [PAGE_BYTES, CHUNK_BYTES] {
            let crcs = crcs(&content, unit);
            let with_more = [crcs.clone(), vec![0]].concat();
            for (crcs, opens) in [(&crcs[1..], false), (&crcs[..], true), (&with_more[..], true)] {
                let checks = match unit {
                    PAGE_BYTES => Checks::Pages(crcs.to_vec()),
                    _ => Checks::Chunks(unit as u64, crcs.to_vec()),
                };
                let what = format!("{} checksums for {size} bytes in units of {unit}", crcs.len());
                let Ok(file) = opened(&content, Some(size), checks) else {
                    assert!(!opens, "{what}");
                    continue;
                };
                assert!(opens, "{what}");
                assert!(block_on(file.read(0, size)).unwrap() == content, "{what}");
                for access in [Access::Cached, Access::Scan] {
                    let read = |range, out: &mut Vec<u8>| block_on(file.append(access, range, out));
                    let mut out = Vec::new();
                    read((size - 1, 1), &mut out).unwrap();
                    read((size, 0), &mut out).unwrap();
                    assert_eq!(out, content[length - 1..], "{what}");
                    for range in [(size, 1), (0, size + 1), (1, u64::MAX)] {
                        let found = read(range, &mut out);
                        assert!(matches!(found, Err(Error::Corrupt(_))), "{what}: {range:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn checksums_cover_a_power_of_two_from_a_page_to_what_a_scan_reads() {
    let crcs = [1u32, 0xffff_ffff, 7];
    let least = PAGE_BYTES as u32;
    let most = SCAN_BYTES_MAX as u32;
    let powers = (0..32).map(|bit| 1u32 << bit);
    let good: Vec<u32> = powers.filter(|bytes| (least..=most).contains(bytes)).collect();
    assert_eq!((good.first(), good.last()), (Some(&least), Some(&most)));
    let others = [0, 1, 3, least - 1, least + 1, 3 * least, most - 1, most + 1, 2 * most, u32::MAX];
    for bytes in good.iter().copied().chain([least / 2]).chain(others) {
        for count in 0..=crcs.len() {
            let mut content = bytes.to_be_bytes().to_vec();
            crcs[..count].iter().for_each(|crc| content.extend_from_slice(&crc.to_be_bytes()));
            let wanted = good.contains(&bytes).then(|| (u64::from(bytes), crcs[..count].to_vec()));
            assert_eq!(decode_chunks(&content).ok(), wanted, "{count} of {bytes} bytes");
        }
    }
    for short in 0..4 {
        assert!(decode_chunks(&least.to_be_bytes()[..short]).is_err(), "{short} bytes");
    }
}
