//! What a query sees through the row cache is what it sees past it: random writes with few
//! timestamps, lives, tombstones of all kinds and collections, in partitions of several leaves,
//! while flushes and evictions go on.

use super::*;
use crate::clock::Random;
use crate::compaction::{Choice, Reason};
use crate::mutation::slice::normalise;
use crate::mutation::{
    CellPath, ClusteringRange, Direction, Filled, MultiCell, PartitionRange, Position,
    RangeTombstone, Slice, Tombstone,
};
use crate::reader::{LiveContent, LiveRows, QueryReader};
use crate::schema::table_schema::SchemaRef;
use crate::table::CompactionOrder;

const PARTITIONS: u64 = 3;
/// More than two leaves of entries.
const KEYS: u64 = 300;
/// Few, so that many are equal.
const TIMESTAMPS: u64 = 6;
const NOW: i32 = 100;

const VALUE: ColumnId = ColumnId(1);
const MAP: ColumnId = ColumnId(3);
const STATIC: ColumnId = ColumnId(4);

/// What a query sees of a row: key, marker, values and elements, and values of the static row.
type Seen = (PartitionKey, Option<Vec<u8>>, Values, Values);
type Values = Vec<(ColumnId, Vec<u8>, Vec<u8>)>;

fn definition() -> SchemaRef {
    let mut definition = TableSchema::clone(&schema(true));
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let map = DataType::map_of(DataType::Int, DataType::Blob);
    definition.columns.push(column("m", map, ColumnKind::Regular));
    definition.columns.push(column("s", DataType::Blob, ColumnKind::Static));
    definition.options.column_index_bytes = 512;
    SchemaRef::new(definition)
}

struct Answers {
    world: World,
    random: Random,
    what: String,
}

/// A reader under way: what it must give, itself, and what it gave.
type Slow = (Vec<Seen>, QueryReader, Vec<Seen>);

impl Answers {
    fn new(seed: u64) -> Answers {
        let mut random = Random::new(seed);
        let capacity = [20_000, 60_000, 4 << 20][random.below(3) as usize];
        let world = World::open(MemoryDisk::default(), definition(), capacity, (0, 1));
        Answers { world, random, what: format!("seed {seed}, {capacity} bytes") }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    fn key(&mut self) -> PartitionKey {
        partition_key(self.random.below(PARTITIONS) as i32)
    }

    fn row_key(&mut self) -> ClusteringKey {
        let ck = self.random.below(KEYS) as i32;
        self.world.clustering(ck)
    }

    fn range(&mut self) -> ClusteringRange {
        let bound = |answers: &mut Answers| {
            let key = answers.row_key();
            if answers.random.one_in(2) { Position::before(key) } else { Position::after(key) }
        };
        let (a, b) = (bound(self), bound(self));
        let (start, end) = (a.clone().min(b.clone()), a.max(b));
        match self.below(6) {
            0 => ClusteringRange::full(),
            1 => ClusteringRange { start: Position::start(), end },
            2 => ClusteringRange { start, end: Position::end() },
            3 => ClusteringRange::prefix(self.row_key()),
            _ => ClusteringRange { start, end },
        }
    }

    fn cell(&mut self, timestamp: i64) -> Cell {
        let value = vec![self.below(4) as u8; 1 + self.below(40) as usize];
        match self.below(8) {
            0 => Cell::deleted(timestamp, self.below(3) as i32),
            1 | 2 => {
                let (ttl, expiry) = (1 + self.below(3) as i32, NOW - 1 + self.below(3) as i32);
                Cell::expiring(timestamp, value, ttl, expiry)
            }
            _ => Cell::live(timestamp, value),
        }
    }

    fn row(&mut self) -> Row {
        let timestamp = self.below(TIMESTAMPS) as i64;
        let mut row = Row::default();
        if !self.random.one_in(3) {
            row.liveness = Some(match self.below(4) {
                0 => {
                    let (ttl, expiry) = (1 + self.below(3) as i32, NOW - 1 + self.below(3) as i32);
                    Liveness::expiring(timestamp, ttl, expiry)
                }
                _ => Liveness::at(timestamp),
            });
        }
        if !self.random.one_in(4) {
            let cell = self.cell(timestamp);
            row.put(VALUE, cell);
        }
        if self.random.one_in(4) {
            let deletion_time = self.below(3) as i32;
            let deletion = self
                .random
                .one_in(3)
                .then(|| Tombstone { timestamp: timestamp - 1, deletion_time });
            let mut map = MultiCell { deletion, cells: Vec::new() };
            for element in 0..self.below(4) as i32 {
                let path = CellPath::from_stored(&DataType::Int, &element.to_be_bytes()).unwrap();
                let timestamp = self.below(TIMESTAMPS) as i64;
                let cell = self.cell(timestamp);
                map.put(path, cell);
            }
            row.put_multi(MAP, map);
        }
        if self.random.one_in(8) {
            // Also one that covers a part of what is written with it.
            let timestamp = self.below(TIMESTAMPS) as i64;
            row.deletion = Some(Tombstone { timestamp, deletion_time: 1 });
        }
        row
    }

    fn write(&mut self) {
        let mut mutation = Mutation::new(self.world.table.schema().id, self.key());
        match self.below(60) {
            0 => {
                let timestamp = self.below(2) as i64;
                mutation.deletion = Some(Tombstone { timestamp, deletion_time: 1 });
            }
            1..6 => {
                let (range, timestamp) = (self.range(), self.below(TIMESTAMPS) as i64);
                let tombstone = Tombstone { timestamp, deletion_time: self.below(3) as i32 };
                if !range.is_empty() {
                    mutation.range_tombstones.push(RangeTombstone { range, tombstone });
                }
            }
            6 | 7 => {
                let timestamp = self.below(TIMESTAMPS) as i64;
                let cells = vec![(STATIC, self.cell(timestamp))];
                mutation.static_row = Some(Row { cells, ..Row::default() });
            }
            _ => {
                let (key, row) = (self.row_key(), self.row());
                if !row.is_empty() {
                    mutation.rows.push((key, row));
                }
            }
        }
        self.world.table.active().replay(None, mutation);
    }

    fn asked(&mut self) -> (PartitionRange, Slice) {
        let direction = [Direction::Forward, Direction::Reversed][self.below(2) as usize];
        if self.random.one_in(4) {
            return (PartitionRange::full(), Slice::full(direction));
        }
        let ranges = match self.below(3) {
            0 => vec![ClusteringRange::full()],
            1 => vec![self.range()],
            _ => (0..self.below(5)).map(|_| self.range()).collect(),
        };
        (PartitionRange::Single(self.key()), Slice { ranges: normalise(ranges), direction })
    }

    fn reader(&self, (range, slice): &(PartitionRange, Slice), past: bool) -> QueryReader {
        QueryReader::new(self.world.table.read(range, slice, past), NOW, true)
    }

    fn wanted(&self, asked: &(PartitionRange, Slice)) -> Vec<Seen> {
        let (mut reader, mut seen) = (self.reader(asked, true), Vec::new());
        while pull(&mut reader, usize::MAX, &mut seen) {}
        seen
    }

    fn evict(&mut self) {
        let capacity = self.world.cache.capacity_bytes() as usize;
        let parts = 1 + self.below(8) as usize;
        self.world.cache.set_capacity_bytes(capacity * parts / 9);
        while self.world.cache.trim() {}
        self.world.cache.set_capacity_bytes(capacity);
    }

    /// Merges some of the SSTables, or all: queries see the same. Returns how much was purged.
    fn compact(&mut self) -> u64 {
        let takes_all = self.random.one_in(2);
        let statuses = self.world.table.sstable_statuses(0);
        let numbers = statuses.iter().map(|status| status.info.generation);
        let inputs: Vec<u64> = numbers.filter(|_| takes_all || !self.random.one_in(3)).collect();
        if inputs.is_empty() {
            return 0;
        }
        // Deletions are of the first seconds; what expires does so about now.
        let gc_grace_seconds = [0, NOW - 2, NOW - 1, NOW][self.below(4) as usize];
        let mut schema = (*self.world.table.schema()).clone();
        schema.options.gc_grace_seconds = gc_grace_seconds;
        self.world.table.set_schema(SchemaRef::new(schema));
        let cut_bytes = self.random.one_in(2).then(|| 1 + self.random.below(20_000));
        let is_incremental = cut_bytes.is_some() && self.random.one_in(2);
        let order = CompactionOrder {
            choice: Choice { inputs, level: 0, cut_bytes, is_incremental, reason: Reason::Asked },
            now_seconds: i64::from(NOW),
            may_purge: !self.random.one_in(4),
            progress: Rc::default(),
        };
        let everything = (PartitionRange::full(), Slice::full(Direction::Forward));
        let before = self.wanted(&everything);
        let compacted = block_on(self.world.table.compact(order)).unwrap();
        let after = self.wanted(&everything);
        self.check(&everything, &after, &before);
        compacted.purged.count
    }

    fn check(&self, asked: &(PartitionRange, Slice), found: &[Seen], wanted: &[Seen]) {
        let first = found.iter().zip(wanted).position(|(a, b)| a != b);
        let at = first.unwrap_or(found.len().min(wanted.len()));
        assert!(
            found == wanted,
            "{}: {asked:?}: {} rows through the cache, {} past it; row {at} is {:?}, wanted {:?}",
            self.what,
            found.len(),
            wanted.len(),
            found.get(at),
            wanted.get(at)
        );
    }
}

/// What a query sees of the values of a row.
fn values(row: &Row) -> Values {
    let mut values: Values = Vec::new();
    for (column, cell) in &row.cells {
        values.extend(cell.value_at(NOW).map(|value| (*column, Vec::new(), value.to_vec())));
    }
    for (column, multi) in &row.multi {
        let elements = multi.live_cells(NOW);
        values.extend(
            elements.map(|(path, value)| (*column, path.as_ordered().to_vec(), value.to_vec())),
        );
    }
    values
}

/// Reads up to `max` rows more; false at the end.
fn pull(reader: &mut QueryReader, max: usize, seen: &mut Vec<Seen>) -> bool {
    let mut take = |rows: LiveRows<'_>| {
        let statics = rows.static_row.map(values).unwrap_or_default();
        let mut add = |key: Option<&[u8]>, values: Values| {
            seen.push((
                PartitionKey::clone(rows.partition),
                key.map(<[u8]>::to_vec),
                values,
                statics.clone(),
            ));
        };
        match rows.content {
            LiveContent::Row { key, row } => add(Some(key.as_ordered()), values(row)),
            LiveContent::Flat(flat) => {
                flat.iter().for_each(|flat| add(Some(flat.key()), values(&flat.thaw())));
            }
            LiveContent::StaticOnly => add(None, Vec::new()),
        }
        Ok(true)
    };
    match reader.pull(max, &mut take).unwrap() {
        Filled::End => false,
        Filled::Some => true,
        Filled::Waits => block_on(reader.refill()).unwrap(),
    }
}

#[test]
fn queries_see_the_same_through_the_row_cache_as_past_it() {
    let (mut from_memory, mut evictions, mut purged) = (0, 0, 0);
    for seed in 0..24 {
        let mut answers = Answers::new(seed);
        let mut slow: Vec<((PartitionRange, Slice), Slow)> = Vec::new();
        for _ in 0..80 {
            match answers.below(13) {
                12 => purged += answers.compact(),
                0 | 1 => (0..60).for_each(|_| answers.write()),
                2 => answers.world.flush(),
                3 => answers.evict(),
                4 => {
                    let asked = answers.asked();
                    let (wanted, reader) = (answers.wanted(&asked), answers.reader(&asked, false));
                    // A scan sees each partition as of when it comes there: it is not compared.
                    if matches!(asked.0, PartitionRange::Single(_)) {
                        slow.push((asked, (wanted, reader, Vec::new())));
                    }
                }
                5 | 6 if !slow.is_empty() => {
                    let at = answers.below(slow.len() as u64) as usize;
                    let max = 1 + answers.below(40) as usize;
                    let (_, (_, reader, seen)) = &mut slow[at];
                    if !pull(reader, max, seen) {
                        let (asked, (wanted, _, seen)) = slow.swap_remove(at);
                        answers.check(&asked, &seen, &wanted);
                    }
                }
                7 => {
                    // One that breaks off.
                    let asked = answers.asked();
                    let mut reader = answers.reader(&asked, false);
                    pull(&mut reader, 1 + answers.below(200) as usize, &mut Vec::new());
                }
                _ => {
                    let asked = answers.asked();
                    let wanted = answers.wanted(&asked);
                    let (mut reader, mut seen) = (answers.reader(&asked, false), Vec::new());
                    while pull(&mut reader, usize::MAX, &mut seen) {}
                    answers.check(&asked, &seen, &wanted);
                }
            }
        }
        let stats = answers.world.table.rows().stats();
        from_memory += stats.row_hits;
        evictions += stats.evictions;
    }
    assert!(from_memory > 10_000 && evictions > 1000, "{from_memory} rows, {evictions} evictions");
    assert!(purged > 100, "{purged} tombstones and dead cells were purged");
}

#[test]
fn a_read_that_began_before_a_flush_leaves_nothing_stale() {
    let world = World::open(MemoryDisk::default(), schema(true), 1 << 20, (0, 1));
    world.write((1, 1), 1, 10);
    world.flush();
    world.write((1, 2), 2, 10);
    let range = PartitionRange::Single(partition_key(1));
    let slice = Slice::full(Direction::Forward);
    let early = world.table.read(&range, &slice, false);
    world.flush();
    // It brings what it reads of the older files into the cache, or not: the next one sees both.
    assert_eq!(rows_of(early, usize::MAX).len(), 2);
    for _ in 0..2 {
        let later = world.table.read(&range, &slice, false);
        assert_eq!(rows_of(later, usize::MAX).len(), 2);
    }
}
