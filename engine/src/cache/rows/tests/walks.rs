//! Long walks: over rows that are handed over many at once, and over entries without rows, which
//! come to an end of their turn.

use std::ops::ControlFlow;

use super::*;
use crate::mutation::{Filled, FlatRow, FragmentSink};
use crate::policy::event::EntryKind;
use crate::runtime::EachTurn;

/// Absent rows that the cache has an entry of.
const ABSENT: i32 = 60;

/// A world in which `ABSENT` rows of a partition are known to be absent by an entry each, and
/// nothing else of it is there but the row behind them; everything is known.
fn absent_rows() -> (World, PartitionKey) {
    let mut world = World::new(1);
    world.pages.set_capacity_bytes(1 << 20);
    world.keys = ABSENT + 1;
    let key = world.key();
    let mut data = Data { exists: true, ..Data::default() };
    data.rows.insert(ABSENT, Row { liveness: Some(Liveness::at(1)), ..Row::default() });
    world.replace(BTreeMap::from([(key.clone(), data)]), 1);
    for ck in 0..ABSENT {
        let ranges = vec![ClusteringRange::prefix(clustering(&world.schema, ck))];
        let slice = Slice { ranges, direction: Direction::Forward };
        world.read_now(Asked::One(key.clone(), slice), "an absent row");
    }
    world.read_now(Asked::One(key.clone(), Slice::full(Direction::Forward)), "all");
    world.read_now(Asked::All(Direction::Forward), "all, and what is around");
    world.check();
    assert!(world.rows.stats().dummies >= ABSENT as u64, "{:?}", world.rows.stats());
    (world, key)
}

/// Entries of a kind that were used so far.
pub(super) fn used_of(world: &World, of: EntryKind) -> u64 {
    let kinds = world.pages.stats().kinds;
    kinds.iter().filter(|(kind, _)| *kind == of).map(|(_, counts)| counts.hits).sum()
}

/// Entries without rows that were used so far.
fn used(world: &World) -> u64 {
    used_of(world, EntryKind::Dummy)
}

struct All(VecDeque<Fragment>);

impl FragmentSink for All {
    fn row(&mut self, flat: &FlatRow) -> bool {
        self.fragment(Fragment::FlatRow(flat.clone()))
    }

    fn fragment(&mut self, fragment: Fragment) -> bool {
        self.0.push_back(fragment);
        true
    }
}

/// Entries that one call may pass, and those at which it begins and ends.
const PASSED_MAX: u64 = 6;

#[test]
fn entries_without_rows_are_passed_in_turns() {
    let (world, key) = absent_rows();
    let turns = EachTurn::new();
    for direction in [Direction::Forward, Direction::Reversed] {
        for asked in [Asked::One(key.clone(), Slice::full(direction)), Asked::All(direction)] {
            let what = format!("{asked:?}");
            let (reads, before) = (world.disk.reads.get(), used(&world));
            // As one that takes rows where they lie.
            let mut source = world.reader(&asked, world.disk.clone());
            let mut sink = All(VecDeque::new());
            loop {
                let before = used(&world);
                let filled = source.pass_now(&mut sink);
                let passed = used(&world) - before;
                assert!(passed <= PASSED_MAX, "{what}: {passed} entries in one go");
                match filled {
                    Filled::Some => {}
                    Filled::End => break,
                    Filled::Waits => panic!("{what}: all is known"),
                }
            }
            assert!(used(&world) - before >= ABSENT as u64, "{what}: it passes them all");
            world.expected(asked.clone()).check(sink.0.make_contiguous(), &what);
            // As one that is given fragments: where nothing comes it has to wait, and others have
            // their turn.
            let mut source = world.reader(&asked, world.disk.clone());
            let mut out = VecDeque::new();
            loop {
                let length = out.len();
                let before = used(&world);
                let filled = source.fill_now(&mut out);
                let passed = used(&world) - before;
                assert!(passed <= PASSED_MAX, "{what}: {passed} entries in one go");
                assert_eq!(filled == Filled::Some, out.len() > length, "{what}");
                if filled == Filled::End {
                    break;
                }
                if filled == Filled::Waits {
                    let mut fill = source.fill(&mut out);
                    loop {
                        let before = used(&world);
                        let is_ready = turns.poll(fill.as_mut()).is_ready();
                        let passed = used(&world) - before;
                        // The reader of one partition inside a scan has a go of its own.
                        assert!(passed <= 2 * PASSED_MAX, "{what}: {passed} entries in one turn");
                        if is_ready {
                            break;
                        }
                    }
                    drop(fill);
                    if out.len() == length {
                        break;
                    }
                }
            }
            world.expected(asked.clone()).check(out.make_contiguous(), &what);
            assert_eq!(world.disk.reads.get(), reads, "{what}: all is known");
        }
    }
}

#[test]
fn a_scan_over_partitions_that_are_known_and_empty_takes_turns() {
    let mut world = World::new(1);
    world.pages.set_capacity_bytes(1 << 20);
    let keys = (0..40i32).map(|pk| PartitionKey::from_bytes(pk.to_be_bytes()));
    let empty = Data { exists: true, ..Data::default() };
    world.replace(keys.map(|key| (key, empty.clone())).collect(), 1);
    world.read_now(Asked::All(Direction::Forward), "cold");
    let reads = world.disk.reads.get();
    let mut source = world.reader(&Asked::All(Direction::Forward), world.disk.clone());
    let (mut sink, mut calls) = (All(VecDeque::new()), 0);
    while source.pass_now(&mut sink) == Filled::Some {
        calls += 1;
    }
    assert!(calls >= 10, "{calls} calls");
    world.expected(Asked::All(Direction::Forward)).check(sink.0.make_contiguous(), "a scan");
    world.read_now(Asked::All(Direction::Reversed), "a scan that is given fragments");
    assert_eq!(world.disk.reads.get(), reads);
}

/// Takes rows as they come, and so many of them in a turn.
struct Few {
    out: VecDeque<Fragment>,
    left: usize,
    calls: usize,
}

impl FragmentSink for Few {
    fn row(&mut self, flat: &FlatRow) -> bool {
        self.rows(&[flat]).is_continue()
    }

    fn rows(&mut self, rows: &[&FlatRow]) -> ControlFlow<usize> {
        assert!(!rows.is_empty() && self.left > 0);
        self.calls += 1;
        let taken = self.left.min(rows.len());
        self.left -= taken;
        self.out.extend(rows[..taken].iter().map(|flat| Fragment::FlatRow((*flat).clone())));
        if self.left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(taken) }
    }

    fn fragment(&mut self, fragment: Fragment) -> bool {
        self.out.push_back(fragment);
        true
    }
}

#[test]
fn a_walk_goes_on_behind_the_rows_that_were_taken() {
    const ROWS: i32 = 300;
    let mut world = World::new(1);
    world.pages.set_capacity_bytes(1 << 20);
    world.keys = ROWS;
    let key = world.key();
    let row = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
    for has_more in [false, true] {
        let mut data = Data { exists: true, ..Data::default() };
        data.rows.extend((0..ROWS).map(|ck| (ck, row.clone())));
        if has_more {
            // Absent rows and a tombstone interrupt the runs.
            data.rows.retain(|ck, _| ck % 50 != 7);
            let (start, end) = (clustering(&world.schema, 120), clustering(&world.schema, 160));
            let range =
                ClusteringRange { start: Position::before(start), end: Position::after(end) };
            let tombstone = Tombstone { timestamp: 1, deletion_time: 1 };
            data.ranges.add(RangeTombstone { range, tombstone });
        }
        let rows = data.rows.len() as u64;
        world.rows.invalidate();
        while world.rows.free(1000) {}
        world.replace(BTreeMap::from([(key.clone(), data)]), 7);
        for ck in (0..ROWS).filter(|ck| ck % 50 == 7) {
            let ranges = vec![ClusteringRange::prefix(clustering(&world.schema, ck))];
            let slice = Slice { ranges, direction: Direction::Forward };
            world.read_now(Asked::One(key.clone(), slice), "one row");
        }
        world.read_now(Asked::One(key.clone(), Slice::full(Direction::Forward)), "all");
        for direction in [Direction::Forward, Direction::Reversed] {
            let asked = Asked::One(key.clone(), Slice::full(direction));
            for few in (1..70).chain([127, 128, 129, 299, 300, 301]) {
                let what = format!("{direction:?}, {few} in a turn, more: {has_more}");
                let reads = world.disk.reads.get();
                let mut source = world.reader(&asked, world.disk.clone());
                let mut sink = Few { out: VecDeque::new(), left: few, calls: 0 };
                let (before, mut turns) = (used_of(&world, EntryKind::Row), 0);
                loop {
                    turns += 1;
                    match source.pass_now(&mut sink) {
                        Filled::Some => sink.left = few,
                        Filled::End => break,
                        Filled::Waits => panic!("{what}: all is known"),
                    }
                }
                assert_eq!(world.disk.reads.get(), reads, "{what}");
                world.expected(asked.clone()).check(sink.out.make_contiguous(), &what);
                let used = used_of(&world, EntryKind::Row) - before;
                // Where a turn ends the row may count for the next one too.
                assert!((rows..=rows + turns).contains(&used), "{what}: {used} used");
                if few > ROWS as usize && !has_more {
                    assert!(sink.calls < 20, "{what}: {} calls", sink.calls);
                }
            }
        }
        world.check();
    }
}
