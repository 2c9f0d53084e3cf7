//! The row cache against a plain copy of the data: random reads in both directions, flushes and
//! evictions, and after each step every claim of the cache is checked.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use futures::FutureExt;
use futures::executor::block_on;
use futures::future::{LocalBoxFuture, ready};

use super::*;
use crate::clock::Random;
use crate::error::Result;
use crate::mutation::slice::normalise;
use crate::mutation::{
    Cell as RowCell, Direction, Fragment, Liveness, PartitionRange, RangeTombstone,
    RangeTombstoneList, Row, Tombstone,
};
use crate::schema::{
    ClusteringOrder, Column, ColumnId, DataType, TableId, TableOptions, TableSchema,
};

const KEYS: i32 = 20;

fn schema() -> SchemaRef {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let order = ClusteringOrder::Ascending;
    SchemaRef::new(TableSchema {
        id: TableId(7),
        keyspace: "k".into(),
        name: "t".into(),
        columns: vec![
            column("pk", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
            column("ck", DataType::Int, ColumnKind::ClusteringKey { position: 0, order }),
            column("v", DataType::Int, ColumnKind::Regular),
        ],
        options: TableOptions::default(),
    })
}

/// One partition's data.
#[derive(Debug, Clone, Default)]
struct Data {
    exists: bool,
    deletion: Option<Tombstone>,
    rows: BTreeMap<i32, Row>,
    ranges: RangeTombstoneList,
}

impl Data {
    fn add(&mut self, other: &Data) {
        self.exists |= other.exists;
        self.deletion = crate::mutation::tombstone::strongest(self.deletion, other.deletion);
        for (key, row) in &other.rows {
            self.rows.entry(*key).or_default().merge(row);
        }
        for range in other.ranges.iter() {
            self.ranges.add(range);
        }
    }

    /// The fragments of a slice, in its direction.
    fn read(&self, schema: &TableSchema, key: &PartitionKey, slice: &Slice) -> VecDeque<Fragment> {
        let mut out = VecDeque::new();
        if !self.exists {
            return out;
        }
        out.push_back(Fragment::PartitionStart {
            key: Rc::new(key.clone()),
            deletion: self.deletion,
        });
        let mut ranges = slice.ranges.clone();
        if slice.direction.is_reversed() {
            ranges.reverse();
        }
        for range in &ranges {
            let mut items: Vec<(Position, Fragment)> = Vec::new();
            for (ck, row) in &self.rows {
                let ck = clustering(schema, *ck);
                if range.contains(&ck) {
                    let row = Rc::new(row.clone());
                    let at = Position::at(ck.clone());
                    items.push((at, Fragment::Row { key: Rc::new(ck), row }));
                }
            }
            let change = |position: &Position, tombstone| {
                let position = position.clone();
                (position.clone(), Fragment::RangeTombstoneChange { position, tombstone })
            };
            let within = self.ranges.within(range);
            for (at, deletion) in within.iter().enumerate() {
                let (first, last) =
                    (slice.direction.first(&deletion.range), slice.direction.last(&deletion.range));
                items.push(change(first, Some(deletion.tombstone)));
                let next = match slice.direction {
                    Direction::Forward => within.get(at + 1),
                    Direction::Reversed => at.checked_sub(1).map(|before| &within[before]),
                };
                if next.is_none_or(|next| slice.direction.first(&next.range) != last) {
                    items.push(change(last, None));
                }
            }
            items.sort_by(|a, b| a.0.cmp(&b.0));
            if slice.direction.is_reversed() {
                items.reverse();
            }
            out.extend(items.into_iter().map(|(_, fragment)| fragment));
        }
        out.push_back(Fragment::PartitionEnd);
        out
    }
}

fn clustering(schema: &TableSchema, ck: i32) -> ClusteringKey {
    ClusteringKey::from_values(schema, &[crate::schema::Value::Int(ck)]).unwrap()
}

struct Chunked(VecDeque<Fragment>, usize);

/// A source that fails when it is asked for the last of so many times.
struct Failing {
    source: Box<dyn FragmentSource>,
    left: Rc<Cell<usize>>,
}

impl FragmentSource for Failing {
    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>> {
        match self.left.get().checked_sub(1) {
            Some(left) => {
                self.left.set(left);
                self.source.fill(out)
            }
            None => ready(Err(crate::error::Error::invalid("the disk failed"))).boxed_local(),
        }
    }
}

/// A disk that fails after so many reads.
struct FailingDisk(Rc<Disk>, Rc<Cell<usize>>);

impl Underlying for FailingDisk {
    fn read(&self, range: &PartitionRange, slice: &Slice) -> Box<dyn FragmentSource> {
        Box::new(Failing { source: self.0.read(range, slice), left: self.1.clone() })
    }
}

impl FragmentSource for Chunked {
    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>> {
        let count = self.1.min(self.0.len());
        out.extend(self.0.drain(..count));
        ready(Ok(())).boxed_local()
    }
}

/// The data as of one generation, counting how often it was asked.
struct Disk {
    schema: SchemaRef,
    data: BTreeMap<PartitionKey, Data>,
    reads: Cell<u64>,
    chunk: usize,
}

impl Underlying for Disk {
    fn read(&self, range: &PartitionRange, slice: &Slice) -> Box<dyn FragmentSource> {
        self.reads.set(self.reads.get() + 1);
        let PartitionRange::Single(key) = range else {
            let in_range = self.data.iter().filter(|(key, _)| range.contains(key));
            let all = in_range.flat_map(|(key, data)| data.read(&self.schema, key, slice));
            return Box::new(Chunked(all.collect(), self.chunk));
        };
        let data = self.data.get(key).cloned().unwrap_or_default();
        Box::new(Chunked(data.read(&self.schema, key, slice), self.chunk))
    }
}

/// A row and the tombstone that covers it.
type Covered = (ClusteringKey, Row, Option<Tombstone>);

/// What a slow reader must give in the end, itself, and what it gave so far.
type Slow = (Vec<Fragment>, Box<dyn FragmentSource>, VecDeque<Fragment>);

/// What a reader concludes: rows with the tombstone that covers each, in reading order.
fn view(fragments: &[Fragment]) -> (Option<Tombstone>, Vec<Covered>) {
    let mut deletion = None;
    let mut in_force = None;
    let mut rows = Vec::new();
    for fragment in fragments {
        match fragment {
            Fragment::PartitionStart { deletion: own, .. } => deletion = *own,
            Fragment::RangeTombstoneChange { tombstone, .. } => in_force = *tombstone,
            Fragment::Row { key, row } => rows.push(((**key).clone(), (**row).clone(), in_force)),
            Fragment::FlatRow(flat) => {
                rows.push((ClusteringKey::from_ordered(flat.key()), flat.thaw(), in_force));
            }
            Fragment::StaticRow(_) => {}
            Fragment::PartitionEnd => assert_eq!(in_force, None, "a tombstone is left in force"),
        }
    }
    (deletion, rows)
}

/// Every tombstone change as (position, tombstone) without steps that change nothing.
fn changes(fragments: &[Fragment]) -> Vec<(Position, Option<Tombstone>)> {
    let mut out: Vec<(Position, Option<Tombstone>)> = Vec::new();
    for fragment in fragments {
        let Fragment::RangeTombstoneChange { position, tombstone } = fragment else { continue };
        match out.last_mut() {
            Some((last, said)) if last == position => *said = *tombstone,
            _ => out.push((position.clone(), *tombstone)),
        }
    }
    let mut in_force = None;
    out.retain(|(_, tombstone)| std::mem::replace(&mut in_force, *tombstone) != *tombstone);
    out
}

fn read_all(mut source: Box<dyn FragmentSource>) -> Vec<Fragment> {
    let mut out = VecDeque::new();
    loop {
        let before = out.len();
        block_on(source.fill(&mut out)).unwrap();
        if out.len() == before {
            return out.into();
        }
    }
}

struct World {
    random: Random,
    schema: SchemaRef,
    pages: Rc<PageCache>,
    rows: Rc<RowCache>,
    disk: Rc<Disk>,
    generation: u64,
    clock: i64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let schema = schema();
        // Room for all, or for a part only.
        let capacity = if random.one_in(2) { 1 << 20 } else { 3000 };
        let pages = PageCache::new(capacity, seed);
        let rows = RowCache::new(pages.clone(), schema.clone());
        let chunk = 1 + (random.next_u64() % 5) as usize;
        let disk =
            Disk { schema: schema.clone(), data: BTreeMap::new(), reads: Cell::new(0), chunk };
        World { random, schema, pages, rows, disk: Rc::new(disk), generation: 0, clock: 0 }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    fn key(&mut self) -> PartitionKey {
        let pk = self.below(3) as i32;
        PartitionKey::from_values(&self.schema, &[crate::schema::Value::Int(pk)]).unwrap()
    }

    fn range(&mut self) -> ClusteringRange {
        let bound = |world: &mut World| {
            let ck = world.below(KEYS as u64) as i32;
            let ck = clustering(&world.schema, ck);
            if world.below(2) == 0 { Position::before(ck) } else { Position::after(ck) }
        };
        match self.below(6) {
            0 => ClusteringRange::full(),
            1 => ClusteringRange { start: Position::start(), end: bound(self) },
            2 => ClusteringRange { start: bound(self), end: Position::end() },
            3 => {
                let ck = self.below(KEYS as u64) as i32;
                ClusteringRange::prefix(clustering(&self.schema, ck))
            }
            _ => ClusteringRange { start: bound(self), end: bound(self) },
        }
    }

    fn slice(&mut self) -> Slice {
        let ranges = (0..1 + self.below(2)).map(|_| self.range()).collect();
        let direction = if self.below(2) == 0 { Direction::Forward } else { Direction::Reversed };
        Slice { ranges: normalise(ranges), direction }
    }

    fn written(&mut self) -> Data {
        let mut data = Data { exists: true, ..Data::default() };
        for _ in 0..self.below(5) {
            self.clock += 1;
            let mut row = Row { liveness: Some(Liveness::at(self.clock)), ..Row::default() };
            row.put(ColumnId(2), RowCell::live(self.clock, 5i32.to_be_bytes()));
            let ck = self.below(KEYS as u64) as i32;
            data.rows.entry(ck).or_default().merge(&row);
        }
        for _ in 0..self.below(3) {
            self.clock += 1;
            let range = self.range();
            let tombstone = Tombstone { timestamp: self.clock, deletion_time: 1 };
            data.ranges.add(RangeTombstone { range, tombstone });
        }
        if self.below(12) == 0 {
            self.clock += 1;
            data.deletion = Some(Tombstone { timestamp: self.clock, deletion_time: 1 });
        }
        data
    }

    /// A flush: the disk has the data from now on, the cache is told row by row.
    fn flush(&mut self) {
        self.flush_until(usize::MAX);
    }

    /// A flush of which what the cache is told breaks off when it was asked for so many times. True
    /// when it came to its end.
    fn flush_until(&mut self, fills: usize) -> bool {
        let left = Rc::new(Cell::new(fills));
        let key = self.key();
        let memtable = self.written();
        let mut data = self.disk.data.clone();
        data.entry(key.clone()).or_default().add(&memtable);
        let (schema, chunk) = (self.schema.clone(), self.disk.chunk);
        let reads = self.disk.reads.clone();
        self.disk = Rc::new(Disk { schema, data, reads, chunk });
        self.generation += 1;
        self.rows.begin_generation(self.generation);
        let fragments = memtable.read(&self.schema, &key, &Slice::full(Direction::Forward));
        let source = Box::new(Chunked(fragments, 1 + fills % 3));
        let failing = Failing { source, left: left.clone() };
        block_on(self.rows.merge(&key, || Box::new(failing), self.generation));
        left.get() > 0
    }

    /// Some entries of a partition leave, as if for others.
    fn evict(&mut self) {
        let handles: Vec<_> = self.rows.partitions.borrow().values().cloned().collect();
        if handles.is_empty() {
            return;
        }
        let handle = &handles[self.below(handles.len() as u64) as usize];
        for (place, slot) in handle.latest.borrow().clone().slots(usize::MAX) {
            if slot != NO_SLOT && self.below(4) == 0 {
                let (kind, bytes) = self.pages.remove_row(slot);
                handle.evicted(PlaceRef::of_flat(&place), kind, bytes);
            }
        }
    }

    fn open(&mut self) -> (Vec<Fragment>, Box<dyn FragmentSource>) {
        let (key, slice) = (self.key(), self.slice());
        let data = self.disk.data.get(&key).cloned().unwrap_or_default();
        let expected = data.read(&self.schema, &key, &slice).into();
        (expected, self.rows.read(&key, &slice, self.disk.clone(), self.generation))
    }

    /// A scan of everything, and what it must give.
    fn open_scan(&mut self) -> (Vec<Fragment>, Box<dyn FragmentSource>) {
        let direction = if self.below(2) == 0 { Direction::Forward } else { Direction::Reversed };
        let slice = Slice::full(direction);
        let whole =
            self.disk.data.iter().flat_map(|(key, data)| data.read(&self.schema, key, &slice));
        let expected = whole.collect();
        (expected, self.rows.scan(direction, self.disk.clone(), self.generation))
    }

    /// No partition of the disk lies where the cache says that there is none.
    fn check_ring(&self) {
        let partitions = self.rows.partitions.borrow();
        for key in self.disk.data.keys().filter(|key| !partitions.contains_key(key)) {
            assert!(
                !self.rows.is_known_absent(key),
                "{key:?} is in a gap that is said to be known"
            );
        }
    }

    /// Every claim of the cache is true of the disk.
    fn check(&self) {
        self.check_ring();
        let mut bytes = 0;
        for (key, handle) in
            self.rows.partitions.borrow().range((Bound::Unbounded, Bound::Unbounded))
        {
            let data = self.disk.data.get(key).cloned().unwrap_or_default();
            let version = handle.latest.borrow();
            assert_eq!(version.deletion.get(), data.deletion);
            let mut before = Position::start();
            for (flat, slot) in version.slots(usize::MAX) {
                let here = flat.position();
                let claim = version.claim_at(PlaceRef::of_flat(&flat));
                let at_row = here.weight == Weight::At;
                let covering = |ck: &ClusteringKey| data.ranges.covering(ck);
                for ck in 0..KEYS {
                    let row = clustering(&self.schema, ck);
                    let stored = data.rows.get(&ck);
                    if at_row && here.prefix == row {
                        let own = flat.has_row().then(|| flat.thaw());
                        assert_eq!(own.as_ref(), stored, "row {ck}");
                        assert_eq!(claim.tombstone, covering(&row), "tombstone of row {ck}");
                    } else if claim.is_known_before
                        && before.cmp_key(&row).is_lt()
                        && here.cmp_key(&row).is_gt()
                    {
                        assert_eq!(stored, None, "row {ck} is in a gap that is said to be known");
                        assert_eq!(claim.tombstone, covering(&row), "tombstone over {ck}");
                    }
                }
                bytes += u64::from(slot != NO_SLOT);
                before = here;
            }
            assert_eq!(before, Position::end());
        }
        for partitions in self.rows.forgotten.borrow().iter() {
            for handle in partitions.values() {
                let slots = handle.latest.borrow().slots(usize::MAX);
                bytes += slots.iter().filter(|(_, slot)| *slot != NO_SLOT).count() as u64;
            }
        }
        let (counts, pages) = (*self.rows.counts.borrow(), self.pages.stats());
        assert_eq!(bytes, pages.total.pages, "a slot an entry");
        let entries = counts.rows + counts.dummies + counts.partitions;
        assert_eq!((entries, counts.bytes), (bytes, pages.bytes));
    }
}

/// The fragments of each partition that has anything.
fn by_partition(fragments: &[Fragment]) -> Vec<(PartitionKey, Vec<Fragment>)> {
    let mut out: Vec<(PartitionKey, Vec<Fragment>)> = Vec::new();
    for fragment in fragments {
        if let Fragment::PartitionStart { key, .. } = fragment {
            out.push(((**key).clone(), Vec::new()));
        }
        out.last_mut().unwrap().1.push(fragment.clone());
    }
    assert!(out.is_sorted_by(|a, b| a.0 < b.0), "partitions come in ring order, each once");
    let is_empty = |part: &[Fragment]| {
        let (deletion, rows) = view(part);
        deletion.is_none() && rows.is_empty() && changes(part).is_empty()
    };
    out.retain(|(_, part)| !is_empty(part));
    out
}

fn same_scan(found: &[Fragment], expected: &[Fragment], what: &str) {
    let (found, expected) = (by_partition(found), by_partition(expected));
    let keys = |all: &[(PartitionKey, Vec<Fragment>)]| -> Vec<PartitionKey> {
        all.iter().map(|(key, _)| key.clone()).collect()
    };
    assert_eq!(keys(&found), keys(&expected), "{what}");
    for ((_, found), (_, expected)) in found.iter().zip(&expected) {
        same(found, expected, what);
    }
}

fn same(found: &[Fragment], expected: &[Fragment], what: &str) {
    let (found_view, expected_view) = (view(found), view(expected));
    assert_eq!(found_view, expected_view, "{what}");
    assert_eq!(changes(found), changes(expected), "{what}");
}

#[test]
fn reads_equal_the_data_below_whatever_is_known_evicted_or_flushed() {
    for seed in 0..400 {
        let mut world = World::new(seed);
        // Readers under way, and what they must give in the end.
        let mut readers: Vec<Slow> = vec![];
        for _ in 0..60 {
            match world.below(11) {
                0 => world.flush(),
                9 => {
                    let (expected, source) = world.open_scan();
                    same_scan(&read_all(source), &expected, &format!("seed {seed}, a scan"));
                }
                10 => {
                    let (expected, source) = world.open_scan();
                    readers.push((expected, source, VecDeque::new()));
                }
                8 if world.below(6) == 0 => {
                    world.rows.invalidate();
                    world.rows.free(1 + (seed % 7) as usize);
                }
                1 => world.evict(),
                2 => {
                    let (expected, source) = world.open();
                    readers.push((expected, source, VecDeque::new()));
                }
                3 | 4 if !readers.is_empty() => {
                    let at = world.below(readers.len() as u64) as usize;
                    let (_, source, out) = &mut readers[at];
                    let before = out.len();
                    block_on(source.fill(out)).unwrap();
                    if out.len() == before {
                        let (expected, _, out) = readers.swap_remove(at);
                        let out: Vec<Fragment> = out.into();
                        same_scan(&out, &expected, &format!("seed {seed}, a slow reader"));
                    }
                }
                _ => {
                    let (expected, source) = world.open();
                    same(&read_all(source), &expected, &format!("seed {seed}"));
                }
            }
            world.check();
        }
        drop(readers);
        world.rows.invalidate();
        while world.rows.free(3) {}
        assert_eq!(world.pages.stats().bytes, 0, "seed {seed}: everything can be freed");
    }
}

/// Rows of three keys, what was read before, and a read: every case there is.
#[test]
fn tiny_cases() {
    let mut world = World::new(1);
    world.pages.set_capacity_bytes(1 << 20);
    let key = world.key();
    let ck = |ck: i32| clustering(&world.schema, ck);
    let between = |start, end| Some(ClusteringRange { start, end });
    let ranges = [
        None,
        Some(ClusteringRange::full()),
        Some(ClusteringRange::prefix(ck(1))),
        Some(ClusteringRange::prefix(ck(2))),
        between(Position::start(), Position::before(ck(2))),
        between(Position::start(), Position::after(ck(2))),
        between(Position::after(ck(1)), Position::before(ck(3))),
        between(Position::before(ck(1)), Position::after(ck(3))),
        between(Position::after(ck(2)), Position::end()),
    ];
    let directions = [Direction::Forward, Direction::Reversed];
    let deletion = ClusteringRange { start: Position::before(ck(2)), end: Position::after(ck(3)) };
    let mut cases = 0;
    for rows in 0..16 {
        let mut data = Data { exists: true, ..Data::default() };
        for at in (0..3).filter(|at| rows >> at & 1 == 1) {
            data.rows.insert(at + 1, Row { liveness: Some(Liveness::at(5)), ..Row::default() });
        }
        if rows >> 3 == 1 {
            let tombstone = Tombstone { timestamp: 3, deletion_time: 1 };
            data.ranges.add(RangeTombstone { range: deletion.clone(), tombstone });
        }
        world.disk = Rc::new(Disk {
            schema: world.schema.clone(),
            data: BTreeMap::from([(key.clone(), data.clone())]),
            reads: Cell::new(0),
            chunk: 2,
        });
        let slice = |range: &Option<ClusteringRange>, direction| Slice {
            ranges: range.iter().cloned().collect(),
            direction,
        };
        for (before, wanted) in ranges.iter().flat_map(|a| ranges.iter().map(move |b| (a, b))) {
            for (first, second) in directions.iter().flat_map(|a| directions.map(|b| (*a, b))) {
                let what = format!("rows {rows:04b}, {before:?} {first:?}, {wanted:?} {second:?}");
                world.rows.invalidate();
                while world.rows.free(100) {}
                read_all(world.rows.read(&key, &slice(before, first), world.disk.clone(), 0));
                world.check();
                for turn in 0..2 {
                    let reads = world.disk.reads.get();
                    let slice = slice(wanted, second);
                    let expected: Vec<_> = data.read(&world.schema, &key, &slice).into();
                    let found = read_all(world.rows.read(&key, &slice, world.disk.clone(), 0));
                    same(&found, &expected, &what);
                    world.check();
                    let is_known = turn == 1 || before == wanted;
                    assert!(!is_known || world.disk.reads.get() == reads, "{what}: turn {turn}");
                }
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 16 * 81 * 4);
}

#[test]
fn what_was_read_once_is_not_read_again() {
    for seed in 0..200 {
        let mut world = World::new(seed);
        world.pages.set_capacity_bytes(1 << 20);
        for _ in 0..5 {
            world.flush();
        }
        let (key, mut slice) = (world.key(), world.slice());
        for turn in 0..4 {
            let before = world.disk.reads.get();
            read_all(world.rows.read(&key, &slice, world.disk.clone(), world.generation));
            let reads = world.disk.reads.get() - before;
            assert!(turn == 0 || reads == 0, "seed {seed}: {reads} reads in turn {turn}");
            slice.direction = match slice.direction {
                Direction::Forward => Direction::Reversed,
                Direction::Reversed => Direction::Forward,
            };
            // A flush in between goes to the cache, not behind it.
            world.flush();
            world.check();
        }
    }
}

#[test]
fn the_head_of_a_time_series_stays_known_over_flushes_and_eviction() {
    let mut world = World::new(2);
    // Room for about half of the rows.
    world.pages.set_capacity_bytes(30_000);
    let key = world.key();
    let newest = Slice::full(Direction::Reversed);
    let mut reads = Vec::new();
    for at in 0..200 {
        let mut row = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
        row.put(ColumnId(2), RowCell::live(1, 5i32.to_be_bytes()));
        let memtable = Data { exists: true, rows: BTreeMap::from([(at, row)]), ..Data::default() };
        let mut data = world.disk.data.clone();
        data.entry(key.clone()).or_default().add(&memtable);
        let schema = world.schema.clone();
        world.disk = Rc::new(Disk { schema, data, reads: Cell::new(0), chunk: 1 });
        world.generation += 1;
        world.rows.begin_generation(world.generation);
        let fragments = memtable.read(&world.schema, &key, &Slice::full(Direction::Forward));
        let merge = world.rows.merge(&key, || Box::new(Chunked(fragments, 3)), world.generation);
        block_on(merge);
        // The newest row only: the reader goes when it has it.
        let mut source = world.rows.read(&key, &newest, world.disk.clone(), world.generation);
        let mut out = VecDeque::new();
        while !out
            .iter()
            .any(|fragment| matches!(fragment, Fragment::Row { .. } | Fragment::FlatRow(_)))
        {
            block_on(source.fill(&mut out)).unwrap();
        }
        let (_, rows) = view(out.make_contiguous());
        assert_eq!(rows[0].0, clustering(&world.schema, at));
        reads.push(world.disk.reads.get());
    }
    assert_eq!(reads.iter().sum::<u64>(), 1, "one read of the disk, the first: {reads:?}");
}

/// What a read gives until its end or an error; true at the end.
fn read_until_error(mut source: Box<dyn FragmentSource>) -> (VecDeque<Fragment>, bool) {
    let mut out = VecDeque::new();
    loop {
        let before = out.len();
        match block_on(source.fill(&mut out)) {
            Ok(()) if out.len() == before => return (out, true),
            Ok(()) => {}
            Err(_) => return (out, false),
        }
    }
}

#[test]
fn an_error_at_any_read_leaves_nothing_that_is_not_true() {
    let (mut failures, mut merges_cut) = (0, 0);
    for seed in 0..80 {
        for fills in 0.. {
            // The same world every time, and the error one read later.
            let mut world = World::new(seed);
            for _ in 0..3 {
                world.flush();
            }
            let (all, generation) = (Slice::full(Direction::Forward), world.generation);
            for number in 0..3 {
                let key = PartitionKey::from_bytes(i32::to_be_bytes(number));
                let slice = world.slice();
                read_all(world.rows.read(&key, &slice, world.disk.clone(), generation));
            }
            let disk: Rc<dyn Underlying> =
                Rc::new(FailingDisk(world.disk.clone(), Rc::new(Cell::new(fills))));
            let (key, slice) = (world.key(), world.slice());
            let mut is_whole = true;
            let sources = [
                world.rows.read(&key, &slice, disk.clone(), generation),
                world.rows.scan(slice.direction, disk.clone(), generation),
                world.rows.read(&key, &all, disk, generation),
            ];
            for source in sources {
                is_whole &= read_until_error(source).1;
                world.check();
            }
            merges_cut += usize::from(!world.flush_until(fills));
            world.check();
            for _ in 0..3 {
                let (expected, source) = world.open();
                same_scan(
                    &read_all(source),
                    &expected,
                    &format!("seed {seed}, after {fills} reads"),
                );
            }
            let (expected, source) = world.open_scan();
            same_scan(&read_all(source), &expected, &format!("seed {seed}, a scan after {fills}"));
            world.check();
            if is_whole {
                break;
            }
            failures += 1;
        }
    }
    assert!(failures > 100 && merges_cut >= 80, "{failures} reads failed, {merges_cut} merges");
}

#[test]
fn a_second_scan_and_what_is_absent_between_ask_nobody() {
    for seed in 0..100 {
        let mut world = World::new(seed);
        world.pages.set_capacity_bytes(1 << 20);
        for _ in 0..seed % 4 {
            world.flush();
        }
        for turn in 0..4 {
            let before = world.disk.reads.get();
            let (expected, source) = world.open_scan();
            same_scan(&read_all(source), &expected, &format!("seed {seed}, turn {turn}"));
            let key = PartitionKey::from_bytes((seed + 77).to_be_bytes());
            let (all, generation) = (Slice::full(Direction::Forward), world.generation);
            let absent = read_all(world.rows.read(&key, &all, world.disk.clone(), generation));
            assert_eq!(absent, [], "a key that is known to be absent leaves no entry");
            let reads = world.disk.reads.get() - before;
            assert_eq!(reads, u64::from(turn == 0), "seed {seed}: reads in turn {turn}");
            // What a flush brings goes to the cache as well, new partitions too.
            world.flush();
            world.check();
        }
    }
}

#[test]
fn a_partition_that_is_absent_is_looked_for_once() {
    let mut world = World::new(1);
    let key = world.key();
    for turn in 0..3 {
        let slice = world.slice();
        let found = read_all(world.rows.read(&key, &slice, world.disk.clone(), 0));
        assert_eq!(view(&found), (None, vec![]));
        assert_eq!(world.disk.reads.get(), 1, "turn {turn}");
    }
}
