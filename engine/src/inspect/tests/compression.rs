//! Compressed files of our own are sound, and damage in them is found.

use super::*;
use crate::clock::Random;
use crate::mutation::Direction;
use crate::schema::Compression;
use crate::sstable::tests::compression::CODECS;
use crate::sstable::tests::damage::read_all;
use crate::sstable::tests::model::*;

/// What the writer compresses is read back, and found sound by the other reader.
#[test]
fn compressed_tables_of_our_own_give_the_same_rows() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let schema = random_schema(&mut random);
        let partitions = random_partitions(&mut random, &schema);
        if partitions.is_empty() {
            continue;
        }
        let disk = MemoryDisk::default();
        let compressor = CODECS[random.below(4) as usize].0;
        let chunk_bytes = 1024 << random.below(4);
        let compression = Compression { compressor, chunk_bytes, level: None };
        let options = WriterOptions {
            column_index_bytes: 256,
            compression: Some(compression),
            ..WriterOptions::default()
        };
        let fragments = all_fragments(&partitions, &Slice::full(Direction::Forward));
        let info = write(&disk, 1, &schema, options, fragments).unwrap();
        let stored = disk.content(&Component::Data.path(directory(), 1));
        assert_eq!(info.data_bytes, stored.len() as u64);
        let toc = disk.content(&Component::Toc.path(directory(), 1));
        let toc = String::from_utf8(toc).unwrap();
        assert!(toc.contains("CompressionInfo.db\n") && !toc.contains("CRC.db\n"), "{toc}");
        read_all(&disk, &schema, &partitions)
            .unwrap_or_else(|error| panic!("seed {seed} {compression:?}: {error}"));
        let problems = || verified_native(&disk).problems;
        // Counters of the model hold random bytes; all else is sound.
        let is_value = |problem: &Error| problem.to_string().contains("values of type counter");
        assert!(problems().iter().all(is_value), "seed {seed}: {:#?}", problems());
        // Checked by page, by chunk and as a whole.
        let mut damaged = stored.clone();
        let at = random.below(stored.len() as u64) as usize;
        damaged[at] ^= 4;
        disk.set_content(&Component::Data.path(directory(), 1), damaged);
        assert!(read_all(&disk, &schema, &partitions).is_err());
        assert!(problems().iter().any(|problem| problem.to_string().contains("wanted CRC ")));
        block_on(remove_files(&disk, directory(), 1)).unwrap();
        assert_eq!(disk.names(), Vec::<std::path::PathBuf>::new());
    }
}
