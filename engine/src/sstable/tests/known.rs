//! Parsed promoted indexes where the cache does not take them, and where one of another partition
//! is found.

use super::model::*;
use super::*;
use crate::clock::Random;
use crate::mutation::{Direction, Liveness, Row};
use crate::policy::cache_admission::{AdmissionCandidate, AdmissionPolicy};
use crate::policy::event::EntryKind;
use crate::policy::eviction::PolicyFailure;
use crate::schema::{ClusteringOrder, Column, ColumnKind, DataType, Value};

/// Lets pages in and nothing that was parsed.
struct PagesOnly;

impl AdmissionPolicy for PagesOnly {
    fn name(&self) -> &str {
        "pages_only"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn wants_feedback(&self) -> bool {
        false
    }

    fn admit(&mut self, candidate: &AdmissionCandidate) -> Result<bool, PolicyFailure> {
        Ok(candidate.kind != EntryKind::PartitionIndexPage)
    }

    fn feedback(&mut self, _: &[u64]) -> Result<(), PolicyFailure> {
        Ok(())
    }
}

/// A table of blocks of a row or two, read through `cache`, and what is in it.
fn table(seed: u64, cache: Rc<PageCache>) -> Option<(Rc<Sstable>, Partitions)> {
    let mut random = Random::new(seed);
    let schema = random_schema(&mut random);
    let partitions = random_partitions(&mut random, &schema);
    let disk = MemoryDisk::default();
    let options = WriterOptions { column_index_bytes: 64, ..WriterOptions::default() };
    let fragments = all_fragments(&partitions, &Slice::full(Direction::Forward));
    write(&disk, 1, &schema, options, fragments)?;
    let table =
        block_on(Sstable::open(shared(&disk), cache, directory(), (1, None), schema)).unwrap();
    Some((table, partitions))
}

#[track_caller]
fn check_rows(table: &Rc<Sstable>, key: &PartitionKey, partition: &Partition) {
    for row in partition.rows.keys() {
        let found = read_row(table, key, row, true).unwrap().unwrap();
        let wanted = partition.point(row, true);
        assert!(is_same_point(found.clone(), wanted, true), "{row:?} of {key:?}: {found:?}");
    }
}

fn token(key: &PartitionKey) -> u64 {
    key.token().0 as u64
}

#[test]
fn where_none_is_kept_few_are_parsed_and_rows_are_found() {
    let mut refused = 0;
    for seed in 0..40 {
        let cache = PageCache::new(64 << 20, 1);
        cache.set_admission(Some(("pages_only".to_owned(), Box::new(PagesOnly))));
        let Some((table, partitions)) = table(seed, cache) else { continue };
        for (key, partition) in partitions.iter().chain(&partitions) {
            check_rows(&table, key, partition);
            assert!(table.known.get(token(key)).is_none(), "seed {seed}");
        }
        refused += u32::from(table.parses_left_out.get() > 0);
    }
    assert!(refused >= 10, "of {refused} tables one was refused and then others left out");
}

#[test]
fn one_of_another_partition_with_this_token_is_not_taken_for_it() {
    let mut others = 0;
    for seed in 0..40 {
        let Some((table, partitions)) = table(seed, PageCache::new(64 << 20, 1)) else { continue };
        let (first, rest) = (partitions.iter().next(), partitions.iter().skip(1));
        let Some((first, partition)) = first else { continue };
        check_rows(&table, first, partition);
        let Some(known) = table.known.get(token(first)) else { continue };
        for (key, partition) in rest {
            assert!(
                table.known.insert(token(key), known.clone(), size_of_val(&*known)),
                "seed {seed}"
            );
            check_rows(&table, key, partition);
            others += 1;
        }
    }
    assert!(others >= 10, "{others} partitions were met so");
}

/// The search guesses where a key stands by its first eight bytes, which many may have alike.
#[test]
fn rows_whose_keys_begin_alike_are_found_wherever_they_stand() {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let order = ClusteringOrder::Ascending;
    let schema = schema_of(vec![
        column("p", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
        column("c", DataType::Text, ColumnKind::ClusteringKey { position: 0, order }),
    ]);
    let key = PartitionKey::from_values(&schema, &[Value::Int(1)]).unwrap();
    for alike in ["b", "m", "y"] {
        let mut partition = Partition::default();
        for (begin, count) in [("a", 20), (alike, 400), ("z", 20)] {
            for number in 0..count {
                let text = format!("{}{number:03}", begin.repeat(9));
                let row = ClusteringKey::from_values(&schema, &[Value::Text(text)]).unwrap();
                let liveness = Some(Liveness::at(BASE_TIMESTAMP));
                partition.rows.insert(row, Row { liveness, ..Row::default() });
            }
        }
        let partitions: Partitions = [(key.clone(), partition)].into();
        let disk = MemoryDisk::default();
        let options = WriterOptions { column_index_bytes: 64, ..WriterOptions::default() };
        let fragments = all_fragments(&partitions, &Slice::full(Direction::Forward));
        write(&disk, 1, &schema, options, fragments).unwrap();
        let cache = PageCache::new(64 << 20, 1);
        let open = Sstable::open(shared(&disk), cache, directory(), (1, None), schema.clone());
        let table = block_on(open).unwrap();
        for _ in 0..2 {
            check_rows(&table, &key, &partitions[&key]);
            assert!(table.known.get(token(&key)).is_some(), "its index is parsed");
        }
    }
}

/// A read that the disk answers is put into a box: the shorter it is, the less a read costs.
#[test]
fn a_read_whose_place_is_known_takes_less_room_than_one_that_seeks_it() {
    let mut known = 0;
    for seed in 0..40 {
        let Some((table, partitions)) = table(seed, PageCache::new(64 << 20, 1)) else { continue };
        for (key, partition) in &partitions {
            let Some(row) = partition.rows.keys().next() else { continue };
            let bytes = || {
                let read = table.clone().read_row(Rc::new(key.clone()), row.clone(), false);
                size_of_val(&*read)
            };
            let seeks = bytes();
            check_rows(&table, key, partition);
            if table.known.get(token(key)).is_some() {
                assert!(3 * bytes() < 2 * seeks, "{} beside {seeks} bytes", bytes());
                known += 1;
            }
        }
    }
    assert!(known >= 10, "{known} places were known");
}
