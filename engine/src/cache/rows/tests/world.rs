//! A row cache over a plain copy of the data, and what is true of it at any moment: every claim
//! holds of the data below, but for what a memtable beside the cache still has to bring.

use std::collections::{BTreeMap, VecDeque};

use futures::FutureExt;
use futures::executor::block_on;
use futures::future::{LocalBoxFuture, ready};

use super::super::*;
use crate::clock::Random;
use crate::error::Result;
use crate::mutation::fragment::drop_partition;
use crate::mutation::slice::normalise;
use crate::mutation::tombstone::strongest;
use crate::mutation::{
    Cell as RowCell, Direction, Fragment, FragmentSource, Liveness, PartitionRange, PointRead,
    Position, RangeTombstone, RangeTombstoneList, Row, Slice, Tombstone, Weight,
};
use crate::schema::{
    ClusteringOrder, Column, ColumnId, ColumnKind, DataType, TableId, TableOptions, TableSchema,
    Token,
};

pub(super) const KEYS: i32 = 20;
/// The ring from its start to its end.
pub(super) const WHOLE: (Token, Token) = (Token::MIN, Token::MAX);

/// A memtable whose content is on its way into the cache: readers have it beside that.
#[derive(Debug, Clone)]
pub(super) struct Beside {
    pub(super) key: PartitionKey,
    pub(super) data: Data,
    /// The disk had nothing of the partition before.
    pub(super) is_new: bool,
}

pub(super) fn schema() -> SchemaRef {
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
        drops: Vec::new(),
    })
}

/// One partition's data.
#[derive(Debug, Clone, Default)]
pub(super) struct Data {
    pub(super) exists: bool,
    pub(super) deletion: Option<Tombstone>,
    pub(super) rows: BTreeMap<i32, Row>,
    pub(super) ranges: RangeTombstoneList,
}

impl Data {
    pub(super) fn add(&mut self, other: &Data) {
        self.exists |= other.exists;
        self.deletion = strongest(self.deletion, other.deletion);
        for (key, row) in &other.rows {
            self.rows.entry(*key).or_default().merge(row);
        }
        for range in other.ranges.iter() {
            self.ranges.add(range);
        }
    }

    /// The fragments of a slice, in its direction.
    pub(super) fn read(
        &self,
        schema: &TableSchema,
        key: &PartitionKey,
        slice: &Slice,
    ) -> VecDeque<Fragment> {
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

pub(super) fn clustering(schema: &TableSchema, ck: i32) -> ClusteringKey {
    thread_local! {
        static MADE: RefCell<BTreeMap<i32, ClusteringKey>> = const { RefCell::new(BTreeMap::new()) };
    }
    let make = || ClusteringKey::from_values(schema, &[crate::schema::Value::Int(ck)]).unwrap();
    MADE.with_borrow_mut(|made| made.entry(ck).or_insert_with(make).clone())
}

pub(super) struct Chunked(pub(super) VecDeque<Fragment>, pub(super) usize);

/// A source that fails when it is asked for the last of so many times.
pub(super) struct Failing {
    pub(super) source: Box<dyn FragmentSource>,
    pub(super) left: Rc<Cell<usize>>,
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

    fn skip_partition(&mut self) {
        self.source.skip_partition();
    }
}

/// A disk that fails after so many reads.
pub(super) struct FailingDisk(pub(super) Rc<Disk>, pub(super) Rc<Cell<usize>>);

impl Underlying for FailingDisk {
    fn read(&self, range: &PartitionRange, slice: &Slice) -> Box<dyn FragmentSource> {
        Box::new(Failing { source: self.0.read(range, slice), left: self.1.clone() })
    }

    fn read_row(&self, key: &Rc<PartitionKey>, row: ClusteringKey, wants_front: bool) -> RowFuture {
        let Some(left) = self.1.get().checked_sub(1) else {
            return ready(Err(crate::error::Error::invalid("the disk failed"))).boxed_local();
        };
        self.1.set(left);
        self.0.read_row(key, row, wants_front)
    }

    fn rows_per_opening(&self, range: &PartitionRange) -> usize {
        self.0.rows_per_opening(range)
    }

    fn entries(&self) -> usize {
        self.0.entries()
    }
}

impl FragmentSource for Chunked {
    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>> {
        let count = self.1.min(self.0.len());
        out.extend(self.0.drain(..count));
        ready(Ok(())).boxed_local()
    }

    fn skip_partition(&mut self) {
        assert!(drop_partition(&mut self.0), "a partition has an end");
    }
}

/// The data as of one generation, counting how often it was asked.
pub(super) struct Disk {
    pub(super) schema: SchemaRef,
    pub(super) data: BTreeMap<PartitionKey, Data>,
    pub(super) reads: Cell<u64>,
    pub(super) chunk: usize,
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

    fn read_row(&self, key: &Rc<PartitionKey>, row: ClusteringKey, wants_front: bool) -> RowFuture {
        let slice =
            Slice { ranges: vec![ClusteringRange::prefix(row)], direction: Direction::Forward };
        let mut source = self.read(&PartitionRange::Single((**key).clone()), &slice);
        let read = async move {
            let mut fragments = VecDeque::new();
            let mut filled = usize::MAX;
            while fragments.len() != filled {
                filled = fragments.len();
                source.fill(&mut fragments).await?;
            }
            Ok(point_read(fragments, wants_front))
        };
        read.boxed_local()
    }

    fn rows_per_opening(&self, _range: &PartitionRange) -> usize {
        // Any number is as good.
        self.chunk
    }

    fn entries(&self) -> usize {
        self.chunk
    }
}

/// What a stream of one row says.
fn point_read(fragments: VecDeque<Fragment>, wants_front: bool) -> Option<PointRead> {
    let mut found = None;
    for fragment in fragments {
        match fragment {
            Fragment::PartitionStart { deletion, .. } => {
                let deletion = deletion.filter(|_| wants_front);
                found = Some(PointRead { deletion, ..PointRead::default() });
            }
            other => {
                let found = found.as_mut().expect("a partition begins with its start");
                match other {
                    Fragment::StaticRow(row) if wants_front => found.static_row = Some(row),
                    Fragment::Row { key, row } => {
                        found.row = Some(FlatRow::row(key.as_ordered(), &row));
                    }
                    // The last one ends the tombstone behind the row.
                    Fragment::RangeTombstoneChange { tombstone: Some(tombstone), .. } => {
                        found.tombstone = Some(tombstone);
                    }
                    _ => {}
                }
            }
        }
    }
    found
}

/// A row and the tombstone that covers it.
pub(super) type Covered = (ClusteringKey, Row, Option<Tombstone>);

/// What a slow reader must give in the end, itself, and what it gave so far.
pub(super) type Slow = (Vec<Fragment>, Box<dyn FragmentSource>, VecDeque<Fragment>);

/// What a reader concludes: rows with the tombstone that covers each, in reading order.
pub(super) fn view(fragments: &[Fragment]) -> (Option<Tombstone>, Vec<Covered>) {
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
pub(super) fn changes(fragments: &[Fragment]) -> Vec<(Position, Option<Tombstone>)> {
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

pub(super) fn read_all(mut source: Box<dyn FragmentSource>) -> Vec<Fragment> {
    let mut out = VecDeque::new();
    loop {
        let before = out.len();
        block_on(source.fill(&mut out)).unwrap();
        assert!(out.len() < 10_000, "a reader that does not come to its end");
        if out.len() == before {
            return out.into();
        }
    }
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) schema: SchemaRef,
    pub(super) pages: Rc<PageCache>,
    pub(super) rows: Rc<RowCache>,
    pub(super) disk: Rc<Disk>,
    pub(super) generation: u64,
    pub(super) clock: i64,
    /// Timestamps do not rise.
    pub(super) is_shuffled: bool,
    /// Clustering keys are less than this.
    pub(super) keys: i32,
    /// The case, to be named where something is wrong.
    pub(super) what: String,
    /// Memtables that the cache was not told of whole.
    pub(super) beside: Vec<Beside>,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let schema = schema();
        // Room for all, or for a part only.
        let capacity = if random.one_in(2) { 1 << 20 } else { 3000 };
        let pages = PageCache::new(capacity, seed);
        let rows = RowCache::new(pages.clone(), schema.clone());
        let chunk = 1 + (random.next_u64() % 5) as usize;
        let disk =
            Disk { schema: schema.clone(), data: BTreeMap::new(), reads: Cell::new(0), chunk };
        World {
            random,
            schema,
            pages,
            rows,
            disk: Rc::new(disk),
            generation: 0,
            clock: 0,
            is_shuffled: false,
            keys: KEYS,
            what: String::new(),
            beside: Vec::new(),
        }
    }

    /// A world of few rows, of which some are cached; timestamps come in any order.
    pub(super) fn small(seed: u64) -> World {
        let mut world = World::new(seed);
        world.keys = 6;
        world.is_shuffled = true;
        for _ in 0..3 {
            world.flush();
        }
        for number in 0..3 {
            let key = PartitionKey::from_bytes(i32::to_be_bytes(number));
            let slice = world.slice();
            read_all(world.rows.read(&key, &slice, world.disk.clone(), world.generation));
        }
        if seed.is_multiple_of(2) {
            let (_, source) = world.open_scan();
            read_all(source);
        }
        world.evict();
        world
    }

    /// The next timestamp.
    fn tick(&mut self) -> i64 {
        self.clock += 1;
        if self.is_shuffled { self.clock * 7919 % 10_007 } else { self.clock }
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    pub(super) fn key(&mut self) -> PartitionKey {
        let pk = self.below(3) as i32;
        PartitionKey::from_values(&self.schema, &[crate::schema::Value::Int(pk)]).unwrap()
    }

    pub(super) fn range(&mut self) -> ClusteringRange {
        let bound = |world: &mut World| {
            let ck = world.below(world.keys as u64) as i32;
            let ck = clustering(&world.schema, ck);
            if world.below(2) == 0 { Position::before(ck) } else { Position::after(ck) }
        };
        match self.below(6) {
            0 => ClusteringRange::full(),
            1 => ClusteringRange { start: Position::start(), end: bound(self) },
            2 => ClusteringRange { start: bound(self), end: Position::end() },
            3 => {
                let ck = self.below(self.keys as u64) as i32;
                ClusteringRange::prefix(clustering(&self.schema, ck))
            }
            _ => ClusteringRange { start: bound(self), end: bound(self) },
        }
    }

    pub(super) fn slice(&mut self) -> Slice {
        let ranges = (0..1 + self.below(2)).map(|_| self.range()).collect();
        let direction = if self.below(2) == 0 { Direction::Forward } else { Direction::Reversed };
        Slice { ranges: normalise(ranges), direction }
    }

    pub(super) fn written(&mut self) -> Data {
        let mut data = Data { exists: true, ..Data::default() };
        for _ in 0..self.below(5) {
            let timestamp = self.tick();
            let mut row = Row { liveness: Some(Liveness::at(timestamp)), ..Row::default() };
            row.put(ColumnId(2), RowCell::live(timestamp, 5i32.to_be_bytes()));
            let ck = self.below(self.keys as u64) as i32;
            data.rows.entry(ck).or_default().merge(&row);
        }
        for _ in 0..self.below(3) {
            let range = self.range();
            let tombstone = Tombstone { timestamp: self.tick(), deletion_time: 1 };
            data.ranges.add(RangeTombstone { range, tombstone });
        }
        if self.below(12) == 0 {
            data.deletion = Some(Tombstone { timestamp: self.tick(), deletion_time: 1 });
        }
        data
    }

    /// A flush: the disk has the data from now on, the cache is told row by row.
    pub(super) fn flush(&mut self) {
        self.flush_until(usize::MAX);
    }

    /// A flush of which what the cache is told breaks off when it was asked for so many times. True
    /// when it came to its end.
    pub(super) fn flush_until(&mut self, fills: usize) -> bool {
        let left = Rc::new(Cell::new(fills));
        let key = self.key();
        let memtable = self.written();
        self.bring(&key, &memtable);
        let source = Box::new(self.memtable_source(&key, &memtable, 1 + fills % 3));
        let failing = Failing { source, left: left.clone() };
        block_on(self.rows.merge(&key, || Box::new(failing), self.generation));
        left.get() > 0
    }

    /// The disk has what a memtable holds from now on.
    pub(super) fn bring(&mut self, key: &PartitionKey, memtable: &Data) {
        let mut data = self.disk.data.clone();
        data.entry(key.clone()).or_default().add(memtable);
        self.replace(data, self.disk.chunk);
    }

    /// The set of SSTables is another one.
    pub(super) fn replace(&mut self, data: BTreeMap<PartitionKey, Data>, chunk: usize) {
        let (schema, reads) = (self.schema.clone(), self.disk.reads.clone());
        self.disk = Rc::new(Disk { schema, data, reads, chunk });
        self.generation += 1;
        self.rows.begin_generation(self.generation);
    }

    pub(super) fn memtable_source(
        &self,
        key: &PartitionKey,
        memtable: &Data,
        chunk: usize,
    ) -> Chunked {
        let all = Slice::full(Direction::Forward);
        Chunked(memtable.read(&self.schema, key, &all), chunk)
    }

    /// Begins to flush a memtable: it is beside the cache until
    /// [`forget_beside`](Self::forget_beside).
    pub(super) fn begin_flush(&mut self, key: PartitionKey, memtable: Data) -> Work {
        let is_new = !self.disk.data.contains_key(&key);
        self.bring(&key, &memtable);
        let source = Box::new(self.memtable_source(&key, &memtable, 2));
        self.beside.push(Beside { key: key.clone(), data: memtable, is_new });
        let (rows, generation) = (self.rows.clone(), self.generation);
        Box::pin(async move { rows.merge(&key, || source, generation).await })
    }

    /// The oldest memtable goes.
    pub(super) fn forget_beside(&mut self) {
        self.beside.remove(0);
    }

    /// Everything leaves, as if for others.
    pub(super) fn evict_all(&mut self) {
        self.evict_some(usize::MAX);
    }

    /// The first entries of each partition leave, as if for others.
    pub(super) fn evict_some(&mut self, count: usize) {
        let handles: Vec<_> = self.rows.partitions.borrow().values().cloned().collect();
        for handle in handles {
            for (place, slot) in handle.latest.borrow().clone().slots(count) {
                self.evict_entry(&handle, &place, slot);
            }
        }
    }

    fn evict_entry(&self, handle: &Rc<Handle>, place: &FlatRow, slot: Slot) {
        if slot != NO_SLOT {
            let (kind, bytes) = self.pages.remove_row(slot);
            handle.evicted(PlaceRef::of_flat(place), kind, bytes);
        }
    }

    /// What a reader that begins now must give in the end, its memtables beside it.
    pub(super) fn expected(&self, asked: Asked) -> Expected {
        let (schema, disk) = (self.schema.clone(), self.disk.clone());
        Expected { schema, disk, beside: self.beside.clone(), asked, keys: self.keys }
    }

    /// A reader of the data as it is now.
    pub(super) fn reader(
        &self,
        asked: &Asked,
        below: Rc<dyn Underlying>,
    ) -> Box<dyn FragmentSource> {
        match asked {
            Asked::One(key, slice) => self.rows.read(key, slice, below, self.generation),
            Asked::All(direction) => self.rows.scan(WHOLE, *direction, below, self.generation),
        }
    }

    /// Reads at once and compares.
    pub(super) fn read_now(&self, asked: Asked, what: &str) {
        let source = self.reader(&asked, self.disk.clone());
        self.expected(asked).check(&read_all(source), what);
    }

    /// Every partition backwards, and all forwards.
    pub(super) fn read_everything(&self, what: &str) {
        for number in 0..3 {
            let key = PartitionKey::from_bytes(i32::to_be_bytes(number));
            self.read_now(Asked::One(key, Slice::full(Direction::Reversed)), what);
        }
        self.read_now(Asked::All(Direction::Forward), what);
    }

    /// Some entries of a partition leave, as if for others.
    pub(super) fn evict(&mut self) {
        let handles: Vec<_> = self.rows.partitions.borrow().values().cloned().collect();
        if handles.is_empty() {
            return;
        }
        let handle = &handles[self.below(handles.len() as u64) as usize];
        for (place, slot) in handle.latest.borrow().clone().slots(usize::MAX) {
            if self.below(4) == 0 {
                self.evict_entry(handle, &place, slot);
            }
        }
    }

    pub(super) fn open(&mut self) -> (Vec<Fragment>, Box<dyn FragmentSource>) {
        let (key, slice) = (self.key(), self.slice());
        let data = self.disk.data.get(&key).cloned().unwrap_or_default();
        let expected = data.read(&self.schema, &key, &slice).into();
        (expected, self.rows.read(&key, &slice, self.disk.clone(), self.generation))
    }

    /// A scan of everything, and what it must give.
    pub(super) fn open_scan(&mut self) -> (Vec<Fragment>, Box<dyn FragmentSource>) {
        let direction = if self.below(2) == 0 { Direction::Forward } else { Direction::Reversed };
        self.open_stretch(WHOLE, direction)
    }

    /// No partition of the disk lies where the cache says that there is none.
    pub(super) fn check_ring(&self) {
        let partitions = self.rows.partitions.borrow();
        let is_coming = |key: &PartitionKey| {
            self.beside.iter().any(|beside| beside.is_new && beside.key == *key)
        };
        let is_apart = |key: &&PartitionKey| !partitions.contains_key(key) && !is_coming(key);
        for key in self.disk.data.keys().filter(is_apart) {
            assert!(
                !self.rows.is_known_absent(key),
                "{key:?} is in a gap that is said to be known"
            );
        }
    }

    /// Every claim of the cache is true of the disk.
    pub(super) fn check(&self) {
        self.check_ring();
        let mut bytes = 0;
        let all_rows: Vec<_> = (0..self.keys).map(|ck| clustering(&self.schema, ck)).collect();
        let what = &self.what;
        for handle in self.rows.partitions.borrow().values() {
            let key = &*handle.key;
            let data = self.disk.data.get(key).cloned().unwrap_or_default();
            let version = handle.latest.borrow();
            let beside: Vec<_> = self.beside.iter().filter(|beside| beside.key == *key).collect();
            let with_beside = |own: Option<Tombstone>, of: &dyn Fn(&Data) -> Option<Tombstone>| {
                beside.iter().fold(own, |own, beside| strongest(own, of(&beside.data)))
            };
            let deletion = with_beside(version.deletion(), &|data| data.deletion);
            assert_eq!(deletion, data.deletion, "{what}");
            let mut before = Position::start();
            for (flat, slot) in version.slots(usize::MAX) {
                let here = flat.position();
                let claim = version.claim_at(PlaceRef::of_flat(&flat));
                let at_row = here.weight == Weight::At;
                let covering = |data: &Data, ck: &ClusteringKey| data.ranges.covering(ck);
                for (ck, row) in (0..).zip(&all_rows) {
                    let is_here = at_row && here.prefix == *row;
                    let is_inside = claim.is_known_before
                        && before.cmp_key(row).is_lt()
                        && here.cmp_key(row).is_gt();
                    if !is_here && !is_inside {
                        continue;
                    }
                    let mut own = (is_here && flat.has_row()).then(|| flat.thaw());
                    for there in beside.iter().filter_map(|beside| beside.data.rows.get(&ck)) {
                        own.get_or_insert_default().merge(there);
                    }
                    let place = if is_here { "at its entry" } else { "in a gap said to be known" };
                    assert_eq!(own.as_ref(), data.rows.get(&ck), "{what}: row {ck} {place}");
                    let tombstone = with_beside(claim.tombstone, &|data| covering(data, row));
                    assert_eq!(
                        tombstone,
                        covering(&data, row),
                        "{what}: tombstone of row {ck} {place}"
                    );
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
        assert_eq!(pages.bytes, bytes_held(&self.rows), "{what}: the budget is what entries take");
    }
}

/// Bytes of all that is held, each thing counted anew.
pub(super) fn bytes_held(rows: &RowCache) -> u64 {
    let (known, forgotten) = (rows.partitions.borrow(), rows.forgotten.borrow());
    let handles = known.values().chain(forgotten.iter().flat_map(|gone| gone.values()));
    let of_handle = |handle: &Rc<Handle>| {
        let version = handle.latest.borrow().clone();
        let slots = version.slots(usize::MAX);
        let held = slots.iter().filter(|(_, slot)| *slot != NO_SLOT);
        let of_entry = |(flat, _): &(FlatRow, Slot)| match flat.position() == Position::end() {
            true => bytes_of(&handle.key, &version),
            false => ENTRY_BYTES + flat.memory_bytes(),
        };
        held.map(of_entry).sum::<usize>() as u64
    };
    handles.map(of_handle).sum()
}

/// The fragments of each partition that has anything.
pub(super) fn by_partition(fragments: &[Fragment]) -> Vec<(PartitionKey, Vec<Fragment>)> {
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

pub(super) fn same_scan(found: &[Fragment], expected: &[Fragment], what: &str) {
    let (found, expected) = (by_partition(found), by_partition(expected));
    let keys = |all: &[(PartitionKey, Vec<Fragment>)]| -> Vec<PartitionKey> {
        all.iter().map(|(key, _)| key.clone()).collect()
    };
    assert_eq!(keys(&found), keys(&expected), "{what}");
    for ((_, found), (_, expected)) in found.iter().zip(&expected) {
        same(found, expected, what);
    }
}

pub(super) fn same(found: &[Fragment], expected: &[Fragment], what: &str) {
    let (found_view, expected_view) = (view(found), view(expected));
    assert_eq!(found_view, expected_view, "{what}");
    assert_eq!(changes(found), changes(expected), "{what}");
}

/// Something under way that stops wherever it may yield.
pub(super) type Work = LocalBoxFuture<'static, ()>;

/// What a reader asks for.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    One(PartitionKey, Slice),
    All(Direction),
}

/// What a reader must give: the data as it was when it began, which it takes from the cache, the
/// disk and the memtables beside it.
pub(super) struct Expected {
    schema: SchemaRef,
    pub(super) disk: Rc<Disk>,
    beside: Vec<Beside>,
    pub(super) asked: Asked,
    keys: i32,
}

impl Expected {
    pub(super) fn check(&self, found: &[Fragment], what: &str) {
        match &self.asked {
            Asked::One(key, slice) => self.check_one(found, key, slice, what),
            Asked::All(direction) => {
                let slice = Slice::full(*direction);
                let mut parts: BTreeMap<_, _> = by_partition(found).into_iter().collect();
                for key in self.disk.data.keys() {
                    let part = parts.remove(key).unwrap_or_default();
                    self.check_one(&part, key, &slice, what);
                }
                assert!(parts.is_empty(), "{what}: nobody has {parts:?}");
            }
        }
    }

    fn check_one(&self, found: &[Fragment], key: &PartitionKey, slice: &Slice, what: &str) {
        let none = Data::default();
        let data = self.disk.data.get(key).unwrap_or(&none);
        let beside: Vec<&Data> =
            self.beside.iter().filter(|there| there.key == *key).map(|there| &there.data).collect();
        if beside.is_empty() {
            let expected: Vec<_> = data.read(&self.schema, key, slice).into();
            return same(found, &expected, what);
        }
        // What comes from two sides says things twice: what it says of each row counts.
        let (deletion, rows) = view(found);
        let deletion = beside.iter().fold(deletion, |own, data| strongest(own, data.deletion));
        assert_eq!(deletion, data.deletion, "{what}");
        let in_order = |a: &Covered, b: &Covered| match slice.direction {
            Direction::Forward => a.0 < b.0,
            Direction::Reversed => a.0 > b.0,
        };
        assert!(rows.is_sorted_by(in_order), "{what}");
        let changes = changes(found);
        for ck in 0..self.keys {
            let key = clustering(&self.schema, ck);
            if !slice.ranges.iter().any(|range| range.contains(&key)) {
                continue;
            }
            let mut row = rows.iter().find(|row| row.0 == key).map(|row| row.1.clone());
            for there in beside.iter().filter_map(|data| data.rows.get(&ck)) {
                row.get_or_insert_default().merge(there);
            }
            assert_eq!(row.as_ref(), data.rows.get(&ck), "{what}: row {ck}");
            let is_before =
                |at: &Position| at.cmp_key(&key).is_lt() != slice.direction.is_reversed();
            let own = changes.iter().rfind(|(at, _)| is_before(at)).and_then(|change| change.1);
            let covering =
                beside.iter().fold(own, |own, data| strongest(own, data.ranges.covering(&key)));
            assert_eq!(covering, data.ranges.covering(&key), "{what}: over row {ck}");
        }
    }
}
