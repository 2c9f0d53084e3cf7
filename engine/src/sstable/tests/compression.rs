//! Compressed files: the same rows as from the uncompressed ones, and no damage goes unnoticed.

use super::codec::Codec;
use super::damage::{is_other_answer, read_all, sample};
use super::model::*;
use super::*;
use crate::checksum::crc32;
use crate::clock::Random;
use crate::error::Error;
use crate::mutation::Direction;
use crate::policy::event::EntryKind;

pub(crate) const CODECS: [(Codec, &str); 4] = [
    (Codec::Lz4, "LZ4Compressor"),
    (Codec::Snappy, "org.apache.cassandra.io.compress.SnappyCompressor"),
    (Codec::Deflate, "DeflateCompressor"),
    (Codec::Zstd, "ZstdCompressor"),
];

/// Components of a table that another product compressed.
const COMPONENTS: &str = "Data.db\nIndex.db\nSummary.db\nFilter.db\nStatistics.db\n\
                          CompressionInfo.db\n";

/// Compresses the data of generation 1 as another product would.
pub(crate) fn compress(disk: &MemoryDisk, (codec, class): (Codec, &str), chunk_bytes: usize) {
    let path = Component::Data.path(directory(), 1);
    let content = disk.content(&path);
    let mut info = (class.len() as u16).to_be_bytes().to_vec();
    info.extend_from_slice(class.as_bytes());
    info.extend_from_slice(&1u32.to_be_bytes());
    info.extend_from_slice(b"\0\x10crc_check_chance\0\x031.0");
    info.extend_from_slice(&(chunk_bytes as u32).to_be_bytes());
    info.extend_from_slice(&(content.len() as u64).to_be_bytes());
    info.extend_from_slice(&(content.len().div_ceil(chunk_bytes) as u32).to_be_bytes());
    let mut stored = Vec::new();
    for chunk in content.chunks(chunk_bytes) {
        info.extend_from_slice(&(stored.len() as u64).to_be_bytes());
        let chunk = codec::tests::compress(codec, chunk);
        stored.extend_from_slice(&chunk);
        stored.extend_from_slice(&crc32(&chunk).to_be_bytes());
    }
    disk.set_content(&path, stored);
    disk.set_content(&Component::CompressionInfo.path(directory(), 1), info);
    disk.set_content(&Component::Toc.path(directory(), 1), COMPONENTS.into());
    for other in [Component::Crc, Component::Digest, Component::Scylla, Component::Tidegate] {
        block_on(shared(disk).remove(&other.path(directory(), 1))).unwrap();
    }
}

#[test]
fn compressed_tables_give_the_same_rows_whatever_the_codec_and_chunk() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let schema = random_schema(&mut random);
        let partitions = random_partitions(&mut random, &schema);
        if partitions.is_empty() {
            continue;
        }
        let disk = MemoryDisk::default();
        let options = WriterOptions { column_index_bytes: 256, ..WriterOptions::default() };
        let fragments = all_fragments(&partitions, &Slice::full(Direction::Forward));
        write(&disk, 1, &schema, options, fragments).unwrap();
        let codec = CODECS[random.below(4) as usize];
        compress(&disk, codec, 64 << random.below(11));
        read_all(&disk, &schema, &partitions)
            .unwrap_or_else(|error| panic!("seed {seed} {codec:?}: {error}"));
        let table = open(&disk, 1, &schema).unwrap();
        for _ in 0..30 {
            let slice = random_slice(&mut random, &schema);
            let found = read(&table, &PartitionRange::full(), &slice).unwrap();
            assert_eq!(found, all_fragments(&partitions, &slice), "seed {seed} {slice:?}");
            let key = random_key(&mut random, &schema);
            let found = read(&table, &PartitionRange::Single(key.clone()), &slice).unwrap();
            let wanted = partitions.get(&key).map(|partition| partition.fragments(&key, &slice));
            assert_eq!(found, wanted.unwrap_or_default(), "seed {seed} {key:?} {slice:?}");
        }
    }
}

#[test]
fn every_flipped_byte_of_compressed_data_is_named_with_its_chunk() {
    for codec in CODECS {
        let disk = MemoryDisk::default();
        let (schema, partitions) = sample(&disk);
        compress(&disk, codec, 512);
        read_all(&disk, &schema, &partitions).unwrap();
        let info = Component::CompressionInfo.path(directory(), 1);
        let info = disk.content(&info);
        let chunks = compression_info::CompressionInfo::decode(
            &info,
            Version::Me,
            disk.content(&Component::Data.path(directory(), 1)).len() as u64,
            directory(),
        )
        .unwrap();
        let starts: Vec<u64> =
            (0..chunks.data_bytes.div_ceil(512)).map(|number| chunks.chunk(number).at).collect();
        assert!(starts.len() > 2);
        let path = Component::Data.path(directory(), 1);
        let content = disk.content(&path);
        for at in 0..content.len() {
            let mut damaged = content.clone();
            damaged[at] ^= 1 << (at % 8);
            disk.set_content(&path, damaged);
            let error = read_all(&disk, &schema, &partitions).unwrap_err();
            let Error::Corrupt(corruption) = &error else { panic!("byte {at}: {error}") };
            let chunk = starts.iter().rfind(|start| **start <= at as u64).unwrap();
            assert_eq!((corruption.file.as_path(), corruption.offset), (path.as_path(), *chunk));
            assert!(corruption.wanted.starts_with("CRC") && corruption.found.starts_with("CRC"));
        }
        for length in 0..content.len() {
            disk.set_content(&path, content[..length].to_vec());
            let error = read_all(&disk, &schema, &partitions).unwrap_err();
            assert!(matches!(error, Error::Corrupt(_)), "{length} bytes: {error}");
        }
    }
}

/// The chunk map has no checksum of its own: what it says wrong must show as damage elsewhere, or
/// not matter.
#[test]
fn every_flipped_byte_of_the_chunk_map_is_noticed_or_does_not_matter() {
    for codec in CODECS {
        let disk = MemoryDisk::default();
        let (schema, partitions) = sample(&disk);
        compress(&disk, codec, 512);
        let path = Component::CompressionInfo.path(directory(), 1);
        let content = disk.content(&path);
        let mut noticed = 0;
        for at in 0..content.len() {
            for flip in [1, 0x10, 0x80, 0xff] {
                let mut damaged = content.clone();
                damaged[at] ^= flip;
                disk.set_content(&path, damaged);
                let result = read_all(&disk, &schema, &partitions);
                assert!(!is_other_answer(&result), "{codec:?} byte {at} gives other rows");
                noticed += usize::from(result.is_err());
            }
        }
        // Options and the package of the class do not matter.
        let package = codec.1.rfind('.').map_or(0, |at| at + 1);
        let ignored = "crc_check_chance1.0".len() + package;
        assert!(noticed >= (content.len() - ignored) * 4, "{codec:?} {noticed}");
        for length in 0..content.len() {
            disk.set_content(&path, content[..length].to_vec());
            assert!(open(&disk, 1, &schema).is_err(), "{length} bytes");
        }
    }
}

/// Chunks whose checksum fits but whose content does not decompress.
#[test]
fn chunks_that_hold_something_else_are_corrupt() {
    for codec in CODECS {
        let disk = MemoryDisk::default();
        let (schema, partitions) = sample(&disk);
        compress(&disk, codec, 1 << 20);
        let path = Component::Data.path(directory(), 1);
        let content = disk.content(&path);
        let stored = &content[..content.len() - 4];
        for at in 0..stored.len() {
            let mut damaged = stored.to_vec();
            damaged[at] ^= 0x55;
            let crc = crc32(&damaged);
            damaged.extend_from_slice(&crc.to_be_bytes());
            disk.set_content(&path, damaged);
            // An error, or bytes that read as something else, but no panic.
            if let Err(Error::Corrupt(corruption)) = read_all(&disk, &schema, &partitions) {
                assert!(!corruption.wanted.starts_with("CRC"), "{codec:?} byte {at}");
            }
        }
    }
}

#[test]
fn a_scan_reads_past_the_cache_and_a_key_through_it() {
    let disk = MemoryDisk::default();
    let (schema, partitions) = sample(&disk);
    compress(&disk, CODECS[0], 256);
    let cache = PageCache::new(64 << 20, 1);
    let name = SstableName::native(1);
    let opened = Sstable::open_named(shared(&disk), cache.clone(), directory(), &name, schema);
    let table = block_on(opened).unwrap();
    let slice = Slice::full(Direction::Forward);
    read(&table, &PartitionRange::full(), &slice).unwrap();
    assert_eq!(cache.stats().total.pages, 0);
    let key = partitions.keys().next().unwrap().clone();
    read(&table, &PartitionRange::Single(key), &slice).unwrap();
    // A page of the index and the stored pages of the chunks.
    assert!(cache.stats().total.pages >= 2);
}

/// Chunks that did not shrink are stored as they are; only the last one may be padded.
#[test]
fn chunks_stored_as_they_are_are_read() {
    let content: Vec<u8> = (0..64).chain([7; 64]).chain(100..110).collect();
    let read = |last_bytes: usize, middle: Vec<u8>| -> Result<Vec<u8>> {
        let disk = MemoryDisk::default();
        let path = directory().join("nb-1-big-Data.db");
        let mut last = content[128..].to_vec();
        last.resize(last_bytes, 0);
        let mut stored = Vec::new();
        let mut info = b"\0\x0dLZ4Compressor\0\0\0\0".to_vec();
        for number in [64u32, 48, 0, 138, 3] {
            info.extend_from_slice(&number.to_be_bytes());
        }
        for chunk in [content[..64].to_vec(), middle, last] {
            info.extend_from_slice(&(stored.len() as u64).to_be_bytes());
            stored.extend_from_slice(&chunk);
            stored.extend_from_slice(&crc32(&chunk).to_be_bytes());
        }
        let size = stored.len() as u64;
        disk.set_content(&path, stored);
        block_on(async {
            let cache = PageCache::new(1 << 20, 1);
            let checks = file::Checks::None;
            let file = file::CheckedFile::open(
                &disk,
                cache,
                (path.clone(), EntryKind::DataPage),
                Some(size),
                checks,
            )
            .await?;
            let info = compression_info::CompressionInfo::decode(&info, Version::Nb, size, &path)?;
            let file = compressed::CompressedFile::new(file, info);
            let mut out = Vec::new();
            file.read_into(file::Access::Cached, (0, 138), &mut out).await?;
            let mut again = Vec::new();
            file.read_into(file::Access::Scan, (64, 138), &mut again).await?;
            assert_eq!(out[64..], again);
            Ok(out)
        })
    };
    let middle = codec::tests::compress(Codec::Lz4, &[7; 64]);
    assert_eq!(read(48, middle.clone()).unwrap(), content);
    assert_eq!(read(64, middle.clone()).unwrap(), content);
    // As long as a compressed chunk, which it is not.
    let error = read(20, middle).unwrap_err().to_string();
    assert!(error.contains("wanted 10 bytes compressed with LZ4"), "{error}");
    let error = read(48, vec![7; 65]).unwrap_err().to_string();
    assert!(error.contains("at offset 68: wanted 64 bytes stored as they are"), "{error}");
}
