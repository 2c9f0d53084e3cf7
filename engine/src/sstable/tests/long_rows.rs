//! Long rows are announced before they are read to whoever asks for that, in both directions and
//! for every slice; what is read is the same.

use super::model::*;
use super::*;
use crate::clock::Random;
use crate::mutation::slice::normalise;
use crate::mutation::{
    Cell, ClusteringRange, Direction, Liveness, Position, RangeTombstone, Row, Tombstone,
};
use crate::schema::{ClusteringOrder, Column, ColumnId, ColumnKind, DataType, Value};

const ROWS: i32 = 60;

pub(super) fn schema() -> SchemaRef {
    let order = ClusteringOrder::Ascending;
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    schema_of(vec![
        column("p", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
        column("c", DataType::Int, ColumnKind::ClusteringKey { position: 0, order }),
        column("v", DataType::Blob, ColumnKind::Regular),
    ])
}

fn clustering(schema: &SchemaRef, ck: i32) -> ClusteringKey {
    ClusteringKey::from_values(schema, &[Value::Int(ck)]).unwrap()
}

fn row(random: &mut Random, bytes: usize) -> Row {
    let timestamp = BASE_TIMESTAMP + random.below(9) as i64;
    // Compression does not make it short.
    let value: Vec<u8> = (0..bytes / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect();
    Row {
        liveness: Some(Liveness::at(timestamp)),
        cells: vec![(ColumnId(2), Cell::live(timestamp, value))],
        ..Row::default()
    }
}

fn partition(schema: &SchemaRef) -> Partition {
    let mut random = Random::new(7);
    let mut partition = Partition::default();
    for number in 0..ROWS {
        let bytes = if random.one_in(3) { 100 } else { 300_000 + random.below(200_000) as usize };
        partition.rows.insert(clustering(schema, number), row(&mut random, bytes));
    }
    for number in 0..8 {
        let first = random.below(ROWS as u64) as i32;
        let last = first + random.below(8) as i32;
        let range = ClusteringRange {
            start: Position::before(clustering(schema, first)),
            end: Position::after(clustering(schema, last)),
        };
        let timestamp = BASE_TIMESTAMP - 1 - number;
        let tombstone = Tombstone { timestamp, deletion_time: 1_700_000_000 };
        partition.tombstones.add(RangeTombstone { range, tombstone });
    }
    partition
}

fn is_long(fragment: &Fragment) -> bool {
    fragment.memory_bytes() > 256 << 10
}

/// All fragments but the announcements; each long row must have one, as the last of the fill
/// before.
fn without_announcements(mut source: Box<dyn FragmentSource>, what: &str) -> Vec<Fragment> {
    source.join_merge(2);
    let (mut all, mut in_force, mut announced) = (Vec::new(), None, None);
    loop {
        let mut out = VecDeque::new();
        block_on(source.fill(&mut out)).unwrap();
        if out.is_empty() {
            return all;
        }
        for (at, fragment) in out.iter().enumerate() {
            if let (true, Fragment::Row { key, .. }) = (is_long(fragment), fragment) {
                assert_eq!(at, 0, "{what}: a long row comes alone");
                let Some(Fragment::RangeTombstoneChange { position, .. }) = announced.take() else {
                    panic!("{what}: no announcement of row {key:?}");
                };
                assert_eq!(position.prefix, **key, "{what}");
            }
        }
        announced = out.back().cloned();
        for fragment in out {
            if let Fragment::RangeTombstoneChange { tombstone, .. } = &fragment
                && std::mem::replace(&mut in_force, *tombstone) == *tombstone
            {
                continue;
            }
            all.push(fragment);
        }
    }
}

#[test]
fn long_rows_are_announced_and_read_as_ever() {
    let (disk, schema) = (MemoryDisk::default(), schema());
    let key = PartitionKey::from_values(&schema, &[Value::Int(1)]).unwrap();
    let partition = partition(&schema);
    let fragments = partition.fragments(&key, &Slice::full(Direction::Forward));
    write(&disk, 1, &schema, WriterOptions::default(), fragments).unwrap();
    let range = PartitionRange::Single(key.clone());
    let mut random = Random::new(3);
    let mut bound = || {
        let key = clustering(&schema, random.below(ROWS as u64) as i32);
        if random.one_in(2) { Position::before(key) } else { Position::after(key) }
    };
    let mut slices = vec![vec![ClusteringRange::full()]];
    for _ in 0..40 {
        let ranges = [(); 2].map(|()| {
            let (a, b) = (bound(), bound());
            ClusteringRange { start: a.clone().min(b.clone()), end: a.max(b) }
        });
        slices.push(normalise(ranges.to_vec()));
    }
    for ranges in slices {
        for direction in [Direction::Forward, Direction::Reversed] {
            let slice = Slice { ranges: ranges.clone(), direction };
            let what = format!("{slice:?}");
            let table = open(&disk, 1, &schema).unwrap();
            let source = table.read(&ReadPlan::of(&range, &slice)).expect("it may be there");
            let found = without_announcements(source, &what);
            // Values of 300 KB help nobody who reads a failure.
            assert!(found == partition.fragments(&key, &slice), "{what}");
        }
    }
}

/// All sources of a merge together hold about as much as one alone.
#[test]
fn a_source_of_a_merge_hands_over_less_at_once() {
    let (disk, schema) = (MemoryDisk::default(), schema());
    let key = PartitionKey::from_values(&schema, &[Value::Int(1)]).unwrap();
    let (mut random, mut partition) = (Random::new(7), Partition::default());
    for number in 0..2000 {
        partition.rows.insert(clustering(&schema, number), row(&mut random, 16));
    }
    let slice = Slice::full(Direction::Forward);
    let wanted = partition.fragments(&key, &slice);
    write(&disk, 1, &schema, WriterOptions::default(), wanted.clone()).unwrap();
    let table = open(&disk, 1, &schema).unwrap();
    for (inputs, most) in [(None, 256), (Some(2), 128), (Some(8), 32), (Some(1000), 16)] {
        let range = PartitionRange::full();
        let mut source = table.read(&ReadPlan::of(&range, &slice)).expect("it is there");
        if let Some(inputs) = inputs {
            source.join_merge(inputs);
        }
        let (mut all, mut longest) = (Vec::new(), 0);
        loop {
            let mut out = VecDeque::new();
            block_on(source.fill(&mut out)).unwrap();
            if out.is_empty() {
                break;
            }
            longest = longest.max(out.len());
            all.extend(out);
        }
        assert!(all == wanted, "one of {inputs:?}");
        assert!((most..=most + 4).contains(&longest), "{longest} of one of {inputs:?}");
    }
}
