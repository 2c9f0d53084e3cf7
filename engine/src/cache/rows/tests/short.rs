//! Scans over short partitions, which need no reads of their own.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::walks::used_of;
use super::*;
use crate::clock::SimulatedClock;
use crate::mutation::{Filled, FlatRow, FragmentSink};
use crate::policy::event::EntryKind;
use crate::probe::{Detail, Probed, Watch};

/// Takes what comes, and has enough after so many pieces.
struct Few {
    out: VecDeque<Fragment>,
    left: u64,
}

impl Few {
    fn wants_more(&mut self) -> bool {
        // What begins a partition comes in one piece.
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }
}

impl FragmentSink for Few {
    fn row(&mut self, flat: &FlatRow) -> bool {
        self.out.push_back(Fragment::FlatRow(flat.clone()));
        self.wants_more()
    }

    fn rows(&mut self, rows: &[&FlatRow]) -> ControlFlow<usize> {
        for (taken, flat) in (1..).zip(rows) {
            if !self.row(flat) {
                return ControlFlow::Break(taken);
            }
        }
        ControlFlow::Continue(())
    }

    fn fragment(&mut self, fragment: Fragment) -> bool {
        self.out.push_back(fragment);
        self.wants_more()
    }
}

struct Reader {
    expected: Vec<Fragment>,
    source: Box<dyn FragmentSource>,
    out: VecDeque<Fragment>,
}

impl Reader {
    fn open(world: &mut World) -> Self {
        let (expected, source) = world.open_scan();
        Reader { expected, source, out: VecDeque::new() }
    }

    /// Takes up to `pieces`; false at the end.
    fn step(&mut self, pieces: u64, what: &str) -> bool {
        let mut sink = Few { out: std::mem::take(&mut self.out), left: pieces };
        let filled = self.source.pass_now(&mut sink);
        self.out = sink.out;
        let is_over = match filled {
            Filled::Some => false,
            Filled::End => true,
            Filled::Waits => {
                let before = self.out.len();
                block_on(self.source.fill(&mut self.out)).unwrap();
                self.out.len() == before
            }
        };
        if is_over {
            same_scan(self.out.make_contiguous(), &self.expected, what);
        }
        !is_over
    }
}

#[test]
fn a_scan_goes_on_wherever_it_was_stopped_and_whatever_comes_and_goes() {
    for seed in 0..400 {
        let mut world = World::new(seed);
        let what = format!("seed {seed}");
        world.pages.set_capacity_bytes(1 << 20);
        // Most partitions have one row, some two, some none.
        world.keys = 1 + (seed % 2) as i32;
        for _ in 0..12 {
            world.flush();
        }
        for _ in 0..2 {
            let (expected, source) = world.open_scan();
            same_scan(&read_all(source), &expected, &what);
        }
        let mut readers: Vec<Reader> = Vec::new();
        for _ in 0..80 {
            match world.below(10) {
                0 if world.below(2) == 0 => world.flush(),
                1 => world.evict(),
                2 if world.below(6) == 0 => {
                    world.rows.invalidate();
                    world.rows.free(1 + (seed % 7) as usize);
                }
                3 | 4 => readers.push(Reader::open(&mut world)),
                _ if !readers.is_empty() => {
                    let at = world.below(readers.len() as u64) as usize;
                    let pieces = 1 + world.below(7);
                    if !readers[at].step(pieces, &what) {
                        readers.swap_remove(at);
                    }
                }
                _ => {}
            }
            world.check();
        }
        for reader in &mut readers {
            while reader.step(1 + world.below(40), &what) {}
        }
        world.check();
    }
}

const PARTITIONS: u64 = 200;

/// A world of partitions of one row to five, all of them in memory, and how many rows they have.
fn warm() -> (World, u64) {
    let mut world = World::new(1);
    world.pages.set_capacity_bytes(1 << 20);
    world.keys = 5;
    let row = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
    let rows_of = |number: u64| 1 + (number % 5) as i32;
    let data = (0..PARTITIONS).map(|number| {
        let key = PartitionKey::from_bytes(number.to_be_bytes());
        let rows = (0..rows_of(number)).map(|place| (place, row.clone())).collect();
        (key, Data { exists: true, rows, ..Data::default() })
    });
    world.replace(data.collect(), 7);
    let rows: u64 = (0..PARTITIONS).map(|number| rows_of(number) as u64).sum();
    // As much comes in with each scan as its pace allows.
    for _ in 0..12 {
        let mut reader = Reader::open(&mut world);
        while reader.step(u64::MAX, "from the disk") {}
    }
    (world, rows)
}

/// Eight scans tell the policy of each row once, and each of them of about an eighth.
#[test]
fn scans_tell_the_policy_of_the_rows_in_turn() {
    let (mut world, rows) = warm();
    let uses = super::ids::uses(&world);
    world.pages.deliver();
    uses.borrow_mut().clear();
    let mut before = 0;
    for scan in 1..=8_usize {
        let mut reader = Reader::open(&mut world);
        while reader.step(u64::MAX, "from memory") {}
        world.pages.deliver();
        let uses = uses.borrow();
        assert!(uses.values().all(|uses| *uses == 1), "scan {scan}: {uses:?}");
        let share = uses.len() - before;
        before = uses.len();
        assert!((20..=200).contains(&share), "scan {scan} tells of {share} entries");
    }
    assert!(before as u64 >= rows, "{before} of {rows} rows and the ends behind them are used");
}

#[test]
fn its_rows_are_counted_once_each_and_without_a_read_of_each_partition() {
    let (mut world, rows) = warm();
    let (used, reads) = (used_of(&world, EntryKind::Row), world.disk.reads.get());
    let counts = *world.rows.counts.borrow();
    let watch = Watch::new(SimulatedClock::new(0), Detail::Steps);
    let mut reader = Reader::open(&mut world);
    let scan = async { while reader.step(u64::MAX, "from memory") {} };
    block_on(Probed::new(Some(watch.read(Arc::new("a table")).on(0))).run(scan));
    assert_eq!(world.disk.reads.get(), reads);
    assert_eq!(used_of(&world, EntryKind::Row) - used, rows);
    let after = *world.rows.counts.borrow();
    assert_eq!(after.partition_hits - counts.partition_hits, PARTITIONS);
    assert_eq!(after.row_hits - counts.row_hits, rows);
    let steps = watch.steps().into_iter().map(|step| step.text);
    let mut others = steps.filter(|step| !step.contains("of short partitions from memory"));
    assert_eq!(others.next(), None, "a partition had a read of its own");
}
