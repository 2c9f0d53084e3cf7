//! A scan through the row cache asks the disk for little more than one past it, whatever the cache
//! has kept and lost. Counted in reads and bytes: no time, no luck.

use super::*;
use crate::clock::Random;
use crate::mutation::{ClusteringRange, Direction, PartitionRange, Position, Slice};

/// What a scan may ask for beyond 1.2 times what the scan past the cache asks for: to begin once
/// more.
const MORE_REQUESTS: u64 = 8;
const MORE_BYTES: u64 = 256 << 10;
const VALUE_BYTES: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    /// Partitions of one row, without clustering columns.
    Single,
    Narrow,
    Wide,
}

impl Shape {
    /// Partitions, and rows of each.
    fn counts(self) -> (i32, i32) {
        match self {
            Shape::Single => (4000, 1),
            Shape::Narrow => (160, 30),
            Shape::Wide => (2, 2500),
        }
    }
}

struct Scans {
    world: World,
    random: Random,
    shape: Shape,
    clock: i64,
    capacity: usize,
    what: String,
}

impl Scans {
    fn new(seed: u64, shape: Shape) -> Scans {
        let mut random = Random::new(seed);
        let (partitions, rows) = shape.counts();
        let data_bytes = (partitions * rows) as usize * VALUE_BYTES;
        // Room for a small part, for some, for most, and for more than all.
        let capacity = data_bytes * [1, 4, 8, 30][random.below(4) as usize] / 10;
        let schema = schema(shape != Shape::Single);
        let world = World::open(MemoryDisk::default(), schema, capacity, (0, 1));
        if random.one_in(2) {
            // Scans bring in a part of what they read.
            world.table.rows().set_fill_min(200);
        }
        let what = format!("seed {seed}, {shape:?}, a cache of {capacity} bytes");
        Scans { world, random, shape, clock: 0, capacity, what }
    }

    fn below(&mut self, limit: i32) -> i32 {
        self.random.below(limit as u64) as i32
    }

    fn at_random(&mut self) -> (i32, i32) {
        let (partitions, rows) = self.shape.counts();
        (self.below(partitions), self.below(rows))
    }

    /// Writes a part of all rows, one in `sparse`.
    fn load(&mut self, sparse: u64) {
        let (partitions, rows) = self.shape.counts();
        self.clock += 1;
        for pk in 0..partitions {
            for ck in 0..rows {
                if self.random.one_in(sparse) {
                    self.world.write((pk, ck), self.clock, VALUE_BYTES);
                }
            }
        }
        self.world.flush();
    }

    fn source(&self, range: &PartitionRange, slice: &Slice, past: bool) -> Box<dyn FragmentSource> {
        self.world.table.read(range, slice, past)
    }

    /// Reads one row, or some around it.
    fn read_some(&mut self, is_slice: bool) {
        let (pk, ck) = self.at_random();
        let at = |ck| self.world.clustering(ck);
        let range = match is_slice && self.shape != Shape::Single {
            true => ClusteringRange {
                start: Position::before(at(ck)),
                end: Position::after(at(ck + 40)),
            },
            false => ClusteringRange::prefix(at(ck)),
        };
        let slice = Slice { ranges: vec![range], direction: Direction::Forward };
        rows_of(self.source(&PartitionRange::Single(partition_key(pk)), &slice, false), usize::MAX);
    }

    /// Something that changes what the cache knows.
    fn disturb(&mut self) {
        match self.below(9) {
            0 | 1 => (0..300).for_each(|_| self.read_some(false)),
            2 => (0..40).for_each(|_| self.read_some(true)),
            3 => {
                let slice = Slice::full(Direction::Forward);
                let max = 1 + self.below(900) as usize;
                rows_of(self.source(&PartitionRange::full(), &slice, false), max);
            }
            4 | 5 => {
                // What was not used for longest leaves; then there is room again.
                let parts = 1 + self.below(8) as usize;
                self.world.cache.set_capacity_bytes(self.capacity * parts / 9);
                while self.world.cache.trim() {}
                self.world.cache.set_capacity_bytes(self.capacity);
            }
            6 => self.load(50),
            7 => {
                self.world.table.rows().invalidate();
                while self.world.table.rows().free(1000) {}
            }
            _ => {
                let slice = Slice::full(Direction::Reversed);
                let range = PartitionRange::Single(partition_key(self.at_random().0));
                rows_of(self.source(&range, &slice, false), usize::MAX);
            }
        }
    }

    /// Compares a scan of all, or of one partition, with one past the cache. The ratio of their
    /// requests.
    ///
    /// A partition is read in pieces that grow from 4 KiB, of each file, since most readers want
    /// its first rows only.
    fn compare(&self, range: &PartitionRange, direction: Direction) -> f64 {
        let is_single = matches!(range, PartitionRange::Single(_));
        let begun = if is_single { self.world.table.stats().sstables } else { 1 };
        let slice = Slice::full(direction);
        let scan = |past| rows_of(self.source(range, &slice, past), usize::MAX);
        let (past, wanted) = self.world.cost_of(|| scan(true));
        let (through, found) = self.world.cost_of(|| scan(false));
        let asked = self.world.disk.reads.borrow().clone();
        let what = format!(
            "{}: {direction:?}, {through:?} through the cache, {past:?} past it",
            self.what
        );
        assert!(found == wanted, "{what}: {} rows, {} past it", found.len(), wanted.len());
        let allowed = |past: u64, more: u64| past + past / 5 + more;
        let is_allowed = through.requests <= allowed(past.requests, begun * MORE_REQUESTS)
            && through.bytes <= allowed(past.bytes, begun * MORE_BYTES);
        assert!(is_allowed, "{what}: {asked:?}");
        through.requests as f64 / past.requests as f64
    }

    fn compare_all(&self) -> f64 {
        let whole = PartitionRange::full();
        let ratios = [Direction::Forward, Direction::Reversed]
            .map(|direction| self.compare(&whole, direction));
        if self.shape == Shape::Wide {
            self.compare(&PartitionRange::Single(partition_key(1)), Direction::Forward);
        }
        ratios[0].min(ratios[1])
    }
}

/// A cache that knows a range to be empty is filled by a flush, and what does not fit leaves holes.
#[test]
fn a_scan_of_what_a_flush_brought_costs_no_more_than_past_the_cache() {
    for shape in [Shape::Single, Shape::Narrow, Shape::Wide] {
        for (seed, parts) in [(1, 2), (2, 5), (3, 9)] {
            let mut scans = Scans::new(seed, shape);
            let (partitions, rows) = shape.counts();
            scans.capacity = (partitions * rows) as usize * VALUE_BYTES * parts / 10;
            scans.what = format!("{shape:?}, a cache for {parts} tenths");
            scans.world.cache.set_capacity_bytes(scans.capacity);
            let whole = PartitionRange::full();
            rows_of(scans.source(&whole, &Slice::full(Direction::Forward), false), usize::MAX);
            for _ in 0..3 {
                scans.load(2);
            }
            assert!(scans.world.table.rows().stats().evictions > 0, "{}", scans.what);
            // Some are used more, so that holes lie scattered.
            for _ in 0..300 {
                scans.read_some(false);
            }
            scans.load(20);
            for _ in 0..3 {
                scans.compare_all();
            }
        }
    }
}

#[test]
fn scans_through_the_cache_cost_no_more_than_past_it_whatever_it_has_lost() {
    let (mut from_memory, mut compared) = (0, 0);
    for seed in 0..9 {
        let shape = [Shape::Single, Shape::Narrow, Shape::Wide][seed as usize % 3];
        let mut scans = Scans::new(100 + seed, shape);
        if scans.random.one_in(2) {
            rows_of(
                scans.source(&PartitionRange::full(), &Slice::full(Direction::Forward), false),
                1,
            );
        }
        for _ in 0..1 + scans.below(3) {
            scans.load(2);
        }
        for _ in 0..6 {
            for _ in 0..1 + scans.below(3) {
                scans.disturb();
            }
            let ratio = scans.compare_all();
            compared += 1;
            from_memory += u32::from(ratio < 0.5);
        }
    }
    // The cache is of use all the same.
    assert!(
        from_memory >= compared / 8,
        "{from_memory} of {compared} scans came from memory mostly"
    );
}

/// Holes that lie apart, in a partition and between partitions, are read in sequence where many are
/// near, and are known again where there is room.
#[test]
fn what_was_lost_is_read_once_where_there_is_room() {
    for shape in [Shape::Single, Shape::Narrow, Shape::Wide] {
        let mut scans = Scans::new(7, shape);
        scans.capacity = 40 << 20;
        scans.world.cache.set_capacity_bytes(scans.capacity);
        scans.what = format!("{shape:?}");
        scans.load(1);
        let whole = PartitionRange::full();
        let scan = |scans: &Scans| {
            let slice = Slice::full(Direction::Forward);
            rows_of(scans.source(&whole, &slice, false), usize::MAX).len()
        };
        scan(&scans);
        // Rows that are used again stay longer.
        for _ in 0..1500 {
            scans.read_some(false);
        }
        scans.world.cache.set_capacity_bytes(2 << 20);
        while scans.world.cache.trim() {}
        scans.world.cache.set_capacity_bytes(scans.capacity);
        scans.compare_all();
        let (partitions, of_each) = shape.counts();
        let asked = || {
            let (asked, rows) = scans.world.cost_of(|| scan(&scans));
            assert_eq!(rows, (partitions * of_each) as usize);
            asked.bytes
        };
        // A scan brings in its first entries, and those behind what it found.
        let asked: Vec<u64> = (0..9).map(|_| asked()).collect();
        assert!(asked.is_sorted_by(|a, b| a >= b), "{shape:?}: {asked:?} bytes, ever less");
        assert_eq!(asked[8], 0, "{shape:?}: all is known again");
    }
}
