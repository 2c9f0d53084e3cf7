//! Work that is stopped wherever it may yield: at each such place others come by, or the work is
//! dropped, and what the cache claims stays true.

use std::pin::Pin;
use std::task::Poll;

use super::*;
use crate::mutation::{Filled, FlatRow, FragmentSink, PartitionRange};
use crate::runtime::{self, EachTurn};

/// A disk that has to be waited for.
struct SlowDisk(Rc<Disk>);

struct Waiting(Box<dyn FragmentSource>);

impl Underlying for SlowDisk {
    fn read(&self, range: &PartitionRange, slice: &Slice) -> Box<dyn FragmentSource> {
        Box::new(Waiting(self.0.read(range, slice)))
    }

    fn read_row(&self, key: &Rc<PartitionKey>, row: ClusteringKey, wants_front: bool) -> RowFuture {
        let read = self.0.read_row(key, row, wants_front);
        Box::pin(async move {
            runtime::yield_now().await;
            read.await
        })
    }

    fn rows_per_opening(&self, range: &PartitionRange) -> usize {
        self.0.rows_per_opening(range)
    }

    fn entries(&self) -> usize {
        self.0.entries()
    }
}

impl FragmentSource for Waiting {
    fn fill<'a>(
        &'a mut self,
        out: &'a mut VecDeque<Fragment>,
    ) -> futures::future::LocalBoxFuture<'a, crate::error::Result<()>> {
        Box::pin(async move {
            runtime::yield_now().await;
            self.0.fill(out).await
        })
    }

    fn skip_partition(&mut self) {
        self.0.skip_partition();
    }
}

/// A reader that may stop behind every fragment and for every read of the disk.
pub(super) struct Reading {
    work: Option<Work>,
    found: Rc<RefCell<VecDeque<Fragment>>>,
    expected: Expected,
}

/// Takes one fragment at a time.
struct One<'a>(&'a RefCell<VecDeque<Fragment>>);

impl FragmentSink for One<'_> {
    fn row(&mut self, flat: &FlatRow) -> bool {
        self.fragment(Fragment::FlatRow(flat.clone()))
    }

    fn fragment(&mut self, fragment: Fragment) -> bool {
        self.0.borrow_mut().push_back(fragment);
        false
    }
}

impl Reading {
    pub(super) fn begin(world: &World, asked: Asked) -> Reading {
        let mut source = world.reader(&asked, Rc::new(SlowDisk(world.disk.clone())));
        let found: Rc<RefCell<VecDeque<Fragment>>> = Rc::default();
        let given = found.clone();
        let work = async move {
            loop {
                let filled = source.pass_now(&mut One(&given));
                if filled == Filled::End {
                    return;
                }
                if filled == Filled::Waits {
                    let mut more = VecDeque::new();
                    source.fill(&mut more).await.unwrap();
                    if more.is_empty() {
                        return;
                    }
                    given.borrow_mut().append(&mut more);
                }
                runtime::maybe_yield().await;
            }
        };
        Reading { work: Some(Box::pin(work)), found, expected: world.expected(asked) }
    }

    /// One step; false when it is at its end.
    pub(super) fn step(&mut self, turns: &EachTurn) -> bool {
        if self.work.as_mut().is_some_and(|work| turns.poll(work.as_mut()).is_ready()) {
            self.work = None;
        }
        self.work.is_some()
    }

    /// Reads to the end and compares.
    pub(super) fn finish(mut self, turns: &EachTurn, what: &str) {
        while self.step(turns) {}
        self.expected.check(self.found.borrow_mut().make_contiguous(), what);
    }
}

/// What is stopped.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Flush,
    /// A flush whose every row the cache knows a place for.
    FlushIntoKnown,
    Free,
    Evict,
    Read(Direction),
    Scan(Direction),
}

const KINDS: [Kind; 8] = [
    Kind::Flush,
    Kind::FlushIntoKnown,
    Kind::Free,
    Kind::Evict,
    Kind::Read(Direction::Forward),
    Kind::Read(Direction::Reversed),
    Kind::Scan(Direction::Forward),
    Kind::Scan(Direction::Reversed),
];

/// Who comes by while it is stopped.
#[derive(Debug, Clone, Copy)]
enum Guest {
    Nobody,
    Reader,
    RowReader,
    /// A reader that has put in a part when the work goes on.
    SlowReader(Direction),
    Invalidate,
    InvalidateAndFree,
    EvictSome,
    EvictAll,
    Flush,
    /// The set of SSTables is another one, its data being the same.
    Replace,
    /// A flush that breaks off.
    BrokenFlush,
}

const GUESTS: [Guest; 12] = [
    Guest::Nobody,
    Guest::Reader,
    Guest::RowReader,
    Guest::SlowReader(Direction::Forward),
    Guest::SlowReader(Direction::Reversed),
    Guest::Invalidate,
    Guest::InvalidateAndFree,
    Guest::EvictSome,
    Guest::EvictAll,
    Guest::Flush,
    Guest::Replace,
    Guest::BrokenFlush,
];

/// What is stopped, and the memtable that it brings, or the reader that it is.
struct Stopped {
    work: Option<Work>,
    reading: Option<Reading>,
    memtable: Option<(PartitionKey, Data)>,
}

fn begin(world: &mut World, kind: Kind) -> Stopped {
    let key = world.key();
    let (mut reading, mut memtable) = (None, None);
    let work = match kind {
        Kind::Flush | Kind::FlushIntoKnown => {
            if let Kind::FlushIntoKnown = kind {
                let all = Slice::full(Direction::Forward);
                read_all(world.reader(&Asked::One(key.clone(), all), world.disk.clone()));
            }
            let data = world.written();
            memtable = Some((key.clone(), data.clone()));
            Some(world.begin_flush(key, data))
        }
        Kind::Free => {
            world.rows.invalidate();
            let rows = world.rows.clone();
            let free = async move {
                while rows.free(1) {
                    runtime::maybe_yield().await;
                }
            };
            Some(Box::pin(free) as Work)
        }
        Kind::Evict => {
            let pages = world.pages.clone();
            let held = pages.stats().bytes as usize;
            let evict = async move {
                for bytes in (0..held).rev().step_by(100) {
                    pages.set_capacity_bytes(bytes);
                    runtime::maybe_yield().await;
                }
                while pages.trim() {
                    runtime::maybe_yield().await;
                }
            };
            Some(Box::pin(evict) as Work)
        }
        Kind::Read(direction) => {
            let slice = Slice { direction, ..world.slice() };
            reading = Some(Reading::begin(world, Asked::One(key, slice)));
            None
        }
        Kind::Scan(direction) => {
            reading = Some(Reading::begin(world, Asked::All(direction)));
            None
        }
    };
    Stopped { work, reading, memtable }
}

impl Stopped {
    /// Goes on to the next stop; false at the end.
    fn step(&mut self, turns: &EachTurn) -> bool {
        if let Some(reading) = &mut self.reading {
            return reading.step(turns);
        }
        if self.work.as_mut().is_some_and(|work| turns.poll(Pin::as_mut(work)) == Poll::Ready(())) {
            self.work = None;
        }
        self.work.is_some()
    }
}

/// Lets the guest do its work; a slow reader is left over.
fn visit(world: &mut World, guest: Guest, turns: &EachTurn, what: &str) -> Option<Reading> {
    let key = world.key();
    match guest {
        Guest::Nobody => {}
        Guest::Reader => {
            let slice = world.slice();
            world.read_now(Asked::One(key, slice), what);
            world.read_everything(what);
        }
        Guest::RowReader => {
            for direction in [Direction::Forward, Direction::Reversed] {
                for ck in 0..world.keys {
                    let ranges = vec![ClusteringRange::prefix(clustering(&world.schema, ck))];
                    let slice = Slice { ranges, direction };
                    world.read_now(Asked::One(key.clone(), slice), what);
                }
            }
        }
        Guest::SlowReader(direction) => {
            let mut reading = Reading::begin(world, Asked::One(key, Slice::full(direction)));
            for _ in 0..4 {
                reading.step(turns);
            }
            return Some(reading);
        }
        Guest::Invalidate => world.rows.invalidate(),
        Guest::InvalidateAndFree => {
            world.rows.invalidate();
            while world.rows.free(2) {}
        }
        Guest::EvictSome => {
            for _ in 0..3 {
                world.evict();
            }
        }
        Guest::EvictAll => world.evict_all(),
        Guest::Flush => {
            let data = world.written();
            let mut flush = world.begin_flush(key, data);
            while turns.poll(flush.as_mut()).is_pending() {
                world.check();
            }
            world.beside.pop();
        }
        Guest::Replace => {
            let (data, chunk) = (world.disk.data.clone(), world.disk.chunk % 5 + 1);
            world.replace(data, chunk);
            world.read_now(Asked::One(key, Slice::full(Direction::Forward)), what);
        }
        Guest::BrokenFlush => {
            world.flush_until(1);
        }
    }
    None
}

/// Stops `kind` for the `stop`th time, has `guest` come by, and then goes on, or drops it. False
/// when there are not so many stops.
fn run(seed: u64, kind: Kind, guest: Guest, stop: usize, is_dropped: bool) -> bool {
    let what = format!("seed {seed}, {kind:?} stopped {stop}, {guest:?}, dropped {is_dropped}");
    let turns = EachTurn::new();
    let mut world = World::small(seed);
    world.what.clone_from(&what);
    let (key, slice) = (world.key(), world.slice());
    // One that began before, and sees nothing of it all.
    let mut early = Reading::begin(&world, Asked::One(key, slice));
    for _ in 0..seed % 4 + 1 {
        early.step(&turns);
    }
    let mut stopped = begin(&mut world, kind);
    for _ in 0..=stop {
        if !stopped.step(&turns) {
            return false;
        }
    }
    world.check();
    let guest = visit(&mut world, guest, &turns, &what);
    world.check();
    early.step(&turns);
    if is_dropped {
        stopped.work = None;
        stopped.reading = None;
        world.check();
        world.read_everything(&what);
        world.check();
        if let Some((key, data)) = &stopped.memtable {
            // The memtable is still there, and is flushed again.
            let mut again = world.begin_flush(key.clone(), data.clone());
            while turns.poll(again.as_mut()).is_pending() {}
            world.forget_beside();
        }
    } else {
        while stopped.step(&turns) {}
        if let Some(reading) = stopped.reading.take() {
            reading.finish(&turns, &what);
        }
    }
    if stopped.memtable.is_some() {
        world.forget_beside();
    }
    world.check();
    early.finish(&turns, &what);
    if let Some(reading) = guest {
        reading.finish(&turns, &what);
    }
    world.check();
    world.read_everything(&what);
    world.check();
    world.rows.invalidate();
    while world.rows.free(3) {}
    assert_eq!(world.pages.stats().bytes, 0, "{what}: everything can be freed");
    true
}

#[test]
fn what_is_known_stays_true_wherever_work_is_stopped_or_dropped() {
    let mut stops = BTreeMap::new();
    for seed in 0..1 {
        for kind in KINDS {
            for guest in GUESTS {
                for is_dropped in [false, true] {
                    let count = (0..).take_while(|stop| run(seed, kind, guest, *stop, is_dropped));
                    *stops.entry(format!("{kind:?}")).or_insert(0) += count.count();
                }
            }
        }
    }
    assert!(stops.len() == KINDS.len() && stops.values().all(|count| *count > 100), "{stops:?}");
}
