//! What lookups cost, counted in reads of the files: no time, no luck.

use futures::future::join_all;

use super::memory_disk::Read;
use super::model::*;
use super::*;
use crate::mutation::{Cell, ClusteringRange, Direction, Liveness, Position, Row};
use crate::policy::event::EntryKind;
use crate::schema::{
    ClusteringKey, ClusteringOrder, Column, ColumnId, ColumnKind, DataType, PartitionKey, Value,
};

const PAGE: u64 = crate::config::PAGE_BYTES as u64;

/// Partitions 0, 1, 2 and so on of as many rows each, with clustering keys 0, 2, 4 and so on.
struct Tables {
    disk: MemoryDisk,
    schema: SchemaRef,
}

/// Reads of one operation.
#[derive(Debug, PartialEq)]
struct Cost {
    index: Vec<Read>,
    data: Vec<Read>,
    rows: usize,
}

impl Cost {
    fn data_bytes(&self) -> u64 {
        self.data.iter().map(|read| read.bytes).sum()
    }
}

impl Tables {
    fn write(partitions: i32, rows: i32, value_bytes: usize, block: u32) -> Tables {
        let order = ClusteringOrder::Ascending;
        let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
        let schema = schema_of(vec![
            column("p", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
            column("c", DataType::Int, ColumnKind::ClusteringKey { position: 0, order }),
            column("v", DataType::Text, ColumnKind::Regular),
        ]);
        let tables = Tables { disk: MemoryDisk::default(), schema };
        let mut keys: Vec<PartitionKey> = (0..partitions).map(|p| tables.key(p)).collect();
        keys.sort();
        let fragments = keys.into_iter().flat_map(|key| {
            let start = Fragment::PartitionStart { key: Rc::new(key), deletion: None };
            let rows = (0..rows).map(|c| {
                let row = Row {
                    liveness: Some(Liveness::at(BASE_TIMESTAMP)),
                    cells: vec![(ColumnId(2), Cell::live(BASE_TIMESTAMP, vec![b'x'; value_bytes]))],
                    ..Row::default()
                };
                Fragment::Row { key: Rc::new(tables.row(2 * c)), row: Rc::new(row) }
            });
            std::iter::once(start).chain(rows).chain([Fragment::PartitionEnd])
        });
        let options = WriterOptions { column_index_bytes: block, ..WriterOptions::default() };
        write(&tables.disk, 1, &tables.schema, options, fragments);
        tables
    }

    fn key(&self, p: i32) -> PartitionKey {
        PartitionKey::from_values(&self.schema, &[Value::Int(p)]).unwrap()
    }

    fn row(&self, c: i32) -> ClusteringKey {
        ClusteringKey::from_values(&self.schema, &[Value::Int(c)]).unwrap()
    }

    fn point(&self, c: i32) -> Slice {
        Slice { ranges: vec![ClusteringRange::prefix(self.row(c))], direction: Direction::Forward }
    }

    fn range(&self, from: i32, to: i32) -> Slice {
        let (start, end) = (Position::before(self.row(from)), Position::after(self.row(to)));
        let ranges = vec![ClusteringRange { start, end }];
        Slice { ranges, direction: Direction::Forward }
    }

    fn open(&self) -> Rc<Sstable> {
        open(&self.disk, 1, &self.schema).unwrap()
    }

    /// Reads until `limit` rows are there.
    fn read(&self, table: &Rc<Sstable>, p: i32, slice: &Slice, limit: usize) -> Cost {
        self.disk.reads.borrow_mut().clear();
        let range = PartitionRange::Single(self.key(p));
        let mut source = table.read(&ReadPlan::of(&range, slice)).expect("it may be there");
        let (mut rows, mut out) = (0, VecDeque::new());
        while rows < limit {
            block_on(source.fill(&mut out)).unwrap();
            if out.is_empty() {
                break;
            }
            rows += out.drain(..).filter(|f| matches!(f, Fragment::Row { .. })).count();
        }
        let of = |suffix: &str| {
            let reads = self.disk.reads.borrow();
            let name = |read: &&Read| read.path.to_string_lossy().ends_with(suffix);
            reads.iter().filter(name).cloned().collect()
        };
        Cost { index: of("-Index.db"), data: of("-Data.db"), rows }
    }
}

#[test]
fn a_cold_lookup_reads_few_pages_of_a_large_index() {
    let tables = Tables::write(1, 60_000, 100, 1024);
    let index_pages = tables.open().index.size() / PAGE;
    assert!(index_pages > 30, "{index_pages} pages of index");
    let steps = u64::BITS - index_pages.leading_zeros();
    for c in [2, 39_998, 60_000, 119_990] {
        let cost = tables.read(&tables.open(), 0, &tables.point(c), 1);
        assert_eq!((cost.rows, cost.data.len()), (1, 1), "{cost:?}");
        // The page of the entry; at most a page of offsets and one of blocks for each halving.
        let most = 1 + 2 * steps as usize;
        assert!(cost.index.len() <= most, "{} of at most {most}: {cost:?}", cost.index.len());
        assert!(cost.index.iter().all(|read| read.bytes <= 2 * PAGE), "{cost:?}");
    }
}

#[test]
fn a_second_key_near_the_first_reads_data_once_and_no_index() {
    let tables = Tables::write(1, 60_000, 100, 1024);
    let (mut in_one_page, mut count) = (0, 0);
    for c in (10_000..100_000).step_by(1_478) {
        let table = tables.open();
        tables.read(&table, 0, &tables.point(c), 1);
        let cost = tables.read(&table, 0, &tables.point(c + 200), 1);
        assert_eq!(cost.rows, 1);
        // The index's page may end between the two.
        if !cost.index.is_empty() {
            continue;
        }
        count += 1;
        assert_eq!(cost.data.len(), 1, "{cost:?}");
        assert!(cost.data_bytes() <= 2 * PAGE, "{cost:?}");
        in_one_page += usize::from(cost.data_bytes() <= PAGE);
    }
    assert!(count > 40 && in_one_page * 3 > count * 2, "{in_one_page} of {count}");
}

#[test]
fn a_key_that_is_not_there_reads_no_data_when_every_row_is_a_block() {
    let tables = Tables::write(1, 5_000, 8, 1);
    let table = tables.open();
    for c in (-1..10_001).step_by(26) {
        let cost = tables.read(&table, 0, &tables.point(c), 1);
        assert_eq!((cost.rows, cost.data.len()), (0, 0), "{c}: {cost:?}");
        let reversed = Slice { direction: Direction::Reversed, ..tables.point(c) };
        let cost = tables.read(&table, 0, &reversed, 1);
        assert_eq!((cost.rows, cost.data.len()), (0, 0), "{c}: {cost:?}");
    }
    for c in (0..10_000).step_by(26) {
        assert_eq!(tables.read(&table, 0, &tables.point(c), 1).rows, 1);
    }
}

#[test]
fn the_upper_bound_costs_no_read_of_the_index() {
    let tables = Tables::write(1, 60_000, 100, 1024);
    for (from, to) in [(10_000, 10_400), (50_000, 90_000), (70_002, 119_000)] {
        let lower = tables.read(&tables.open(), 0, &tables.range(from, 200_000), 1);
        let both = tables.read(&tables.open(), 0, &tables.range(from, to), 1);
        assert_eq!(lower.index, both.index);
    }
    // What it finds in memory keeps the read from going past the range.
    let table = tables.open();
    let rows = tables.read(&table, 0, &tables.range(10_000, 10_400), usize::MAX);
    assert_eq!(rows.rows, 201);
    let bytes = 201 * 120;
    assert!(rows.data_bytes() <= bytes + 2 * PAGE, "{} of {bytes}", rows.data_bytes());
}

#[test]
fn the_first_row_needs_one_page_of_index_however_large_the_promoted_index_is() {
    let tables = Tables::write(20, 4_000, 8, 1);
    assert!(tables.open().index.size() > 20 * (64 << 10));
    for p in 0..20 {
        let cost = tables.read(&tables.open(), p, &Slice::full(Direction::Forward), 1);
        assert_eq!((cost.rows > 0, cost.index.len(), cost.data.len()), (true, 1, 1), "{cost:?}");
        // An entry's front may lie across two pages.
        assert!(cost.index[0].bytes <= 2 * PAGE, "{cost:?}");
    }
}

#[test]
fn one_page_of_the_index_is_parsed_once_and_answers_for_all_its_partitions() {
    let tables = Tables::write(1_000, 1, 8, 1 << 16);
    let table = tables.open();
    for p in 0..1_000 {
        let full = Slice::full(Direction::Forward);
        let cost = tables.read(&table, p, &full, 1);
        assert!(cost.rows == 1 && cost.index.len() <= 1, "{cost:?}");
        assert_eq!(tables.read(&table, p, &full, 1).index, []);
    }
    let stats = table.cache_stats();
    let of = |wanted| stats.kinds.iter().find(|(kind, _)| *kind == wanted).unwrap().1;
    let pages = of(EntryKind::PartitionIndexPage);
    // A page has 128 partitions.
    assert_eq!((pages.pages, pages.misses), (8, 8));
    assert_eq!(pages.hits, 2 * 1_000 - 8);
}

#[test]
fn lookups_that_come_together_share_one_read() {
    let tables = Tables::write(1, 20_000, 100, 1024);
    let table = tables.open();
    let lookup = async |p: i32, c: i32| {
        let slice = tables.point(c);
        let range = PartitionRange::Single(tables.key(p));
        let mut source = table.read(&ReadPlan::of(&range, &slice)).expect("it may be there");
        let mut out = VecDeque::new();
        source.fill(&mut out).await.unwrap();
        out.len()
    };
    tables.disk.reads.borrow_mut().clear();
    let found = block_on(join_all((0..20).map(|_| lookup(0, 20_000))));
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]));
    let together = tables.disk.reads.take();
    let alone = tables.read(&tables.open(), 0, &tables.point(20_000), 1);
    assert_eq!(together.len(), alone.index.len() + alone.data.len(), "{together:?}");
}

#[test]
fn a_cold_read_costs_many_times_a_warm_one() {
    let tables = Tables::write(1, 60_000, 100, 1024);
    let warm = tables.open();
    for c in (0..120_000).step_by(700) {
        tables.read(&warm, 0, &tables.point(c), 1);
    }
    let (mut cold_reads, mut warm_reads) = (0, 0);
    let (mut cold_bytes, mut warm_bytes) = (0, 0);
    for c in (1_098..119_000).step_by(2_346) {
        let all = |cost: Cost| [cost.index, cost.data].concat();
        let cold = all(tables.read(&tables.open(), 0, &tables.point(c), 1));
        let hot = all(tables.read(&warm, 0, &tables.point(c), 1));
        cold_reads += cold.len();
        warm_reads += hot.len();
        cold_bytes += cold.iter().map(|read| read.bytes).sum::<u64>();
        warm_bytes += hot.iter().map(|read| read.bytes).sum::<u64>();
    }
    assert!(warm_reads > 0 && cold_reads >= 5 * warm_reads, "{cold_reads} to {warm_reads}");
    assert!(cold_bytes >= 3 * warm_bytes, "{cold_bytes} to {warm_bytes}");
}

#[test]
fn the_last_page_of_a_large_partition_costs_what_that_of_a_small_one_does() {
    let reversed = Slice::full(Direction::Reversed);
    let costs = [6_000, 60_000].map(|rows| {
        let tables = Tables::write(1, rows, 100, 64 << 10);
        tables.read(&tables.open(), 0, &reversed, 100)
    });
    for cost in &costs {
        assert!(cost.rows >= 100);
        // The entry, the last offset, the last block; the block of data, and one more if it is
        // short.
        assert!(cost.index.len() <= 3 && cost.data.len() <= 3, "{cost:?}");
        assert!(cost.data_bytes() <= (64 << 10) + 8 * PAGE, "{cost:?}");
    }
}

#[test]
fn the_last_block_of_a_long_index_is_read_with_the_entry() {
    // 7,000 blocks: their offsets alone take seven pages.
    let tables = Tables::write(1, 60_000, 100, 1024);
    let table = tables.open();
    let cost = tables.read(&table, 0, &Slice::full(Direction::Reversed), 1);
    let index_bytes = table.index.size();
    // The entry, where the last block must be, the last offset: all before anything is known of
    // them.
    let [entry, block, offset] = &cost.index[..] else { panic!("{cost:?}") };
    assert_eq!((entry.at, offset.at + offset.bytes), (0, index_bytes), "{cost:?}");
    assert!(block.at > 0 && block.bytes <= 4 * PAGE && index_bytes > 30 * PAGE, "{cost:?}");
    assert_eq!(cost.data.len(), 1, "{cost:?}");
}

#[test]
fn where_a_partition_ends_is_found_once() {
    let tables = Tables::write(1, 60_000, 100, 64 << 10);
    let table = tables.open();
    let reversed = Slice::full(Direction::Reversed);
    let first = tables.read(&table, 0, &reversed, 100);
    let second = tables.read(&table, 0, &reversed, 100);
    assert!(!first.index.is_empty() && second.index.is_empty() && second.data.is_empty());
    // More rows than were at hand: the data before, and still nothing of the index.
    let more = tables.read(&table, 0, &reversed, 2_000);
    assert_eq!((more.rows >= 2_000, more.index.len()), (true, 0));
    let range = PartitionRange::Single(tables.key(0));
    let again = read(&table, &range, &reversed).unwrap();
    let cold = read(&tables.open(), &range, &reversed).unwrap();
    assert!(again.len() == 60_002 && again == cold, "the same rows whoever walked");
}

#[test]
fn a_page_of_rows_reads_little_more_than_its_rows() {
    let tables = Tables::write(1, 60_000, 100, 4096);
    for direction in [Direction::Forward, Direction::Reversed] {
        let slice = Slice { direction, ..tables.range(20_000, 100_000) };
        for (limit, bytes) in [(1, 3 * PAGE), (100, 8 * PAGE), (1000, 64 * PAGE)] {
            let cost = tables.read(&tables.open(), 0, &slice, limit);
            assert!(cost.rows >= limit && cost.data_bytes() <= bytes, "{direction:?} {cost:?}");
        }
    }
}

#[test]
fn a_short_partition_is_one_read_whichever_row_is_wanted() {
    let (partitions, rows, value_bytes) = (200, 10, 1000);
    let tables = Tables::write(partitions, rows, value_bytes, 64 << 10);
    let longest = rows as u64 * (value_bytes as u64 + 64);
    // Where the last partition of a page of the index ends is not known: there are two pages.
    let mut without_end = 0;
    for p in 0..partitions {
        let whole = [Direction::Forward, Direction::Reversed].map(Slice::full);
        let points = [0, 8, 18].map(|c| tables.point(c));
        let reversed = Slice { direction: Direction::Reversed, ..tables.point(8) };
        let mut has_end = true;
        for slice in whole.iter().chain(&points).chain([&reversed]) {
            let cost = tables.read(&tables.open(), p, slice, usize::MAX);
            assert_eq!(cost.rows, if whole.contains(slice) { rows as usize } else { 1 });
            has_end &= cost.data.len() == 1 && cost.data_bytes() <= longest + 2 * PAGE;
        }
        without_end += i32::from(!has_end);
    }
    assert!(without_end <= 2, "{without_end} partitions took more");
}
