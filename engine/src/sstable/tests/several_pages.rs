//! Promoted indexes of several pages: slices with bounds in every block, read from a cold cache, in
//! both directions, against a model. A bound that is one block off loses rows of that block only.

use super::memory_disk::Read;
use super::model::*;
use super::*;
use crate::clock::Random;
use crate::mutation::slice::normalise;
use crate::mutation::{
    Cell, ClusteringRange, Direction, Liveness, Position, RangeTombstone, Row, Tombstone,
};
use crate::schema::{ClusteringOrder, Column, ColumnId, ColumnKind, DataType, Value};

const BLOCK_BYTES: u32 = 1024;
const PAGE: u64 = crate::config::PAGE_BYTES as u64;
/// Rows stand at even keys; about five fill a block.
const ROWS: i32 = 4000;
const ROWS_BETWEEN_BOUNDS: usize = 4;
/// Keys are long, so that a page of the index tells of few blocks.
const KEY_BYTES: usize = 90;

struct Wide {
    disk: MemoryDisk,
    schema: SchemaRef,
    key: PartitionKey,
    partition: Partition,
}

impl Wide {
    fn write(order: ClusteringOrder) -> Wide {
        let mut random = Random::new(5);
        let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
        let schema = schema_of(vec![
            column("p", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
            column("c", DataType::Text, ColumnKind::ClusteringKey { position: 0, order }),
            column("v", DataType::Blob, ColumnKind::Regular),
        ]);
        let key = PartitionKey::from_values(&schema, &[Value::Int(1)]).unwrap();
        let mut partition = Partition::default();
        for number in 0..ROWS {
            let timestamp = BASE_TIMESTAMP + random.below(9) as i64;
            let value = vec![number as u8; 60 + random.below(80) as usize];
            let row = Row {
                liveness: Some(Liveness::at(timestamp)),
                cells: vec![(ColumnId(2), Cell::live(timestamp, value))],
                ..Row::default()
            };
            partition.rows.insert(clustering(&schema, 2 * number), row);
        }
        // Some end in the block where they begin, some reach over several.
        for number in 0..150 {
            let first = random.below(2 * ROWS as u64) as i32;
            let last = first + random.below(if number % 3 == 0 { 200 } else { 12 }) as i32;
            let (a, b) = (clustering(&schema, first), clustering(&schema, last));
            let range = ClusteringRange {
                start: Position::before(a.clone().min(b.clone())),
                end: Position::after(a.max(b)),
            };
            let timestamp = BASE_TIMESTAMP + number;
            let tombstone = Tombstone { timestamp, deletion_time: 1_700_000_000 };
            partition.tombstones.add(RangeTombstone { range, tombstone });
        }
        let disk = MemoryDisk::default();
        let options = WriterOptions { column_index_bytes: BLOCK_BYTES, ..WriterOptions::default() };
        let fragments = partition.fragments(&key, &Slice::full(Direction::Forward));
        write(&disk, 1, &schema, options, fragments).unwrap();
        Wide { disk, schema, key, partition }
    }

    /// The table with nothing in its cache.
    fn cold(&self) -> Rc<Sstable> {
        open(&self.disk, 1, &self.schema).unwrap()
    }

    /// Reads and compares; the share of the index that was not read.
    fn check(&self, slice: &Slice) -> f64 {
        let cold = self.cold();
        self.disk.reads.borrow_mut().clear();
        let found = read(&cold, &PartitionRange::Single(self.key.clone()), slice).unwrap();
        let wanted = self.partition.fragments(&self.key, slice);
        let rows = |fragments: &[Fragment]| {
            fragments.iter().filter(|f| matches!(f, Fragment::Row { .. })).count()
        };
        let what = format!("{slice:?}: {} rows, {} wanted", rows(&found), rows(&wanted));
        assert!(found == wanted, "{what}");
        let reads = self.disk.reads.borrow();
        let of_index = |read: &&Read| read.path.to_string_lossy().ends_with("-Index.db");
        let bytes: u64 = reads.iter().filter(of_index).map(|read| read.bytes).sum();
        1.0 - bytes as f64 / cold.info().index_bytes as f64
    }

    /// A place at, before or behind the row with a number, or between it and the next.
    fn bound(&self, number: usize, random: &mut Random) -> Position {
        let key = clustering(&self.schema, 2 * number as i32 + random.below(2) as i32);
        if random.one_in(2) { Position::before(key) } else { Position::after(key) }
    }

    fn range(&self, (first, last): (usize, usize), random: &mut Random) -> ClusteringRange {
        let (a, b) = (self.bound(first, random), self.bound(last, random));
        ClusteringRange { start: a.clone().min(b.clone()), end: a.max(b) }
    }
}

fn clustering(schema: &SchemaRef, ck: i32) -> ClusteringKey {
    let text = format!("{ck:0KEY_BYTES$}");
    ClusteringKey::from_values(schema, &[Value::Text(text)]).unwrap()
}

#[test]
fn slices_with_bounds_in_every_block_lose_nothing_from_a_cold_cache() {
    // Every block, and of the other order, every third.
    for (order, step) in [(ClusteringOrder::Ascending, 1), (ClusteringOrder::Descending, 3)] {
        let wide = Wide::write(order);
        let mut random = Random::new(11);
        let index_bytes = wide.cold().info().index_bytes;
        assert!(index_bytes > 20 * PAGE, "the promoted index has {index_bytes} bytes");
        let (mut unread, mut slices) = (0.0, 0.0);
        for (turn, first) in (0..ROWS as usize).step_by(step * ROWS_BETWEEN_BOUNDS).enumerate() {
            // Within a block, to the next, over some, and to an end of the partition.
            let last = first + [1, 5, 9, 40][turn % 4];
            let mut range = wide.range((first, last), &mut random);
            match random.below(12) {
                0 => range.start = Position::start(),
                1 => range.end = Position::end(),
                _ => {}
            }
            for direction in [Direction::Forward, Direction::Reversed] {
                let ranges = normalise(vec![range.clone()]);
                unread += wide.check(&Slice { ranges, direction });
                slices += 1.0;
            }
        }
        // Else bounds would be looked for in memory only.
        assert!(unread / slices > 0.5, "of the index {} were not read", unread / slices);
    }
}

#[test]
fn slices_of_several_ranges_lose_nothing_from_a_cold_cache() {
    let wide = Wide::write(ClusteringOrder::Ascending);
    let mut random = Random::new(12);
    for _ in 0..300 {
        let ranges = (0..2 + random.below(4)).map(|_| {
            let first = random.below(ROWS as u64) as usize;
            let last = first + random.below(30) as usize;
            wide.range((first, last), &mut random)
        });
        let ranges = normalise(ranges.collect());
        let direction = [Direction::Forward, Direction::Reversed][random.below(2) as usize];
        wide.check(&Slice { ranges, direction });
    }
}

/// More blocks than one search keeps.
#[test]
fn a_slice_of_very_many_ranges_loses_nothing_from_a_cold_cache() {
    let wide = Wide::write(ClusteringOrder::Ascending);
    let mut random = Random::new(13);
    let step = 10 * ROWS_BETWEEN_BOUNDS;
    let ranges = (0..ROWS as usize).step_by(step);
    let ranges = ranges.map(|first| wide.range((first, first + 3), &mut random)).collect();
    let ranges = normalise(ranges);
    assert_eq!(ranges.len(), 100);
    for direction in [Direction::Forward, Direction::Reversed] {
        wide.check(&Slice { ranges: ranges.clone(), direction });
    }
}

#[test]
fn rows_of_every_block_are_found_from_a_cold_cache() {
    let wide = Wide::write(ClusteringOrder::Ascending);
    for number in (0..2 * ROWS).step_by(2 * ROWS_BETWEEN_BOUNDS + 1) {
        let row = clustering(&wide.schema, number);
        let found = read_row(&wide.cold(), &wide.key, &row, true).unwrap().unwrap_or_default();
        let wanted = wide.partition.point(&row, true);
        assert!(is_same_point(found.clone(), wanted, true), "row {number}: {found:?}");
    }
}
