//! Gaps that are known to be empty, and flushes for which there is no room.

use super::*;
use crate::cache::rows::AdmissionFault;

/// A way to leave no room for a partition, and what it is called.
type Crowd = (&'static str, fn(&World));

/// After a scan all is known, that nothing lies between partitions as well. Then a flush brings one
/// that finds no room: nobody may go on taking it for absent.
#[test]
fn a_new_partition_without_room_is_not_taken_for_absent() {
    let ways: [Crowd; 3] = [
        ("it is refused", |world| {
            world.pages.fail_admission(Some((0, AdmissionFault::Refused)));
        }),
        ("all others leave for it", |world| {
            world.pages.fail_admission(Some((0, AdmissionFault::Crowded)));
        }),
        ("the budget is used up", |world| world.pages.set_capacity_bytes(100)),
    ];
    let mut absent = 0;
    for seed in 0..30 {
        for (what, crowd) in ways {
            let mut world = World::new(seed);
            world.pages.set_capacity_bytes(1 << 20);
            for _ in 0..seed % 3 {
                world.flush();
            }
            let (_, scan) = world.open_scan();
            read_all(scan);
            let new = PartitionKey::from_bytes((1000 + seed as i32).to_be_bytes());
            assert!(
                world.rows.is_known_absent(&new),
                "seed {seed}: a scan tells that it is not there"
            );
            crowd(&world);
            let memtable = world.written();
            block_on(world.begin_flush(new.clone(), memtable));
            world.forget_beside();
            let what = format!("seed {seed}, {what}");
            let is_kept = world.rows.partitions.borrow().contains_key(&new);
            let is_absent = world.rows.is_known_absent(&new);
            assert!(is_kept || !is_absent, "{what}: it is said to be absent, and is on disk");
            absent += u32::from(!is_kept);
            world.check_ring();
            let slice = Slice::full(Direction::Forward);
            world.read_now(Asked::One(new.clone(), slice), &what);
            world.read_now(Asked::All(Direction::Forward), &what);
            world.read_now(Asked::All(Direction::Reversed), &what);
        }
    }
    assert!(absent >= 30, "{absent} found no room");
}

/// A reader that waits before a gap while another one fills it has nothing left to read: it says
/// nothing of what lies before the gap, where nobody looked.
#[test]
fn a_gap_that_another_reader_filled_says_nothing_of_what_lies_before_it() {
    let mut world = World::new(1);
    world.pages.set_capacity_bytes(1 << 20);
    let key = world.key();
    let row = || Row { liveness: Some(Liveness::at(1)), ..Row::default() };
    let data =
        Data { exists: true, rows: (0..6).map(|ck| (ck, row())).collect(), ..Data::default() };
    for direction in [Direction::Forward, Direction::Reversed] {
        world.replace(BTreeMap::from([(key.clone(), data.clone())]), 1);
        world.rows.invalidate();
        let asked = |ranges| Asked::One(key.clone(), Slice { ranges, direction });
        world.read_now(asked(vec![]), "the partition, none of its rows");
        let (start, end) = (clustering(&world.schema, 2), clustering(&world.schema, 4));
        let range = ClusteringRange { start: Position::before(start), end: Position::before(end) };
        let asked_part = asked(vec![range]);
        let mut slow = world.reader(&asked_part, world.disk.clone());
        let mut out = VecDeque::new();
        block_on(slow.fill(&mut out)).unwrap();
        assert_eq!(out.len(), 1, "the partition's start; the reader stands before the gap");
        world.read_now(asked_part, "another one fills the gap");
        loop {
            let before = out.len();
            block_on(slow.fill(&mut out)).unwrap();
            if out.len() == before {
                break;
            }
        }
        world.check();
        world.read_now(Asked::One(key.clone(), Slice::full(direction)), "all");
    }
}

/// An entry comes in before those that leave for it: its partition has that one at least, and
/// stays.
#[test]
fn a_partition_stays_for_the_entry_that_pushes_all_its_others_out() {
    let mut world = World::new(1);
    world.pages.set_capacity_bytes(1 << 20);
    let key = world.key();
    let row = || Row { liveness: Some(Liveness::at(1)), ..Row::default() };
    let data =
        Data { exists: true, rows: (0..6).map(|ck| (ck, row())).collect(), ..Data::default() };
    world.replace(BTreeMap::from([(key.clone(), data)]), 1);
    let one = |ck| {
        let ranges = vec![ClusteringRange::prefix(clustering(&world.schema, ck))];
        Asked::One(key.clone(), Slice { ranges, direction: Direction::Forward })
    };
    world.read_now(one(1), "a row of a new partition");
    world.pages.fail_admission(Some((0, AdmissionFault::Crowded)));
    world.read_now(one(4), "a row for which all others leave");
    assert!(!world.pages.fail_admission(None), "they left");
    let known = world.rows.inspect(&key, 10).expect("the partition is still there");
    let is_row = |entry: &&CachedEntry| entry.newest.is_some();
    let rows: Vec<_> = known.entries.iter().filter(is_row).map(|row| &row.position).collect();
    assert_eq!(rows, [&Position::at(clustering(&world.schema, 4))]);
    assert_eq!(world.rows.stats().partition_evictions, 0);
    world.check();
}

/// Rows of a flush go in where something is known; those of places of which nothing is known are
/// counted and left to the disk.
#[test]
fn rows_of_a_flush_are_counted_whether_they_go_in_or_not() {
    let mut world = World::new(1);
    world.pages.set_capacity_bytes(1 << 20);
    let key = world.key();
    let of = |timestamp, keys: &[i32]| {
        let row = Row { liveness: Some(Liveness::at(timestamp)), ..Row::default() };
        let rows = keys.iter().map(|ck| (*ck, row.clone())).collect();
        Data { exists: true, rows, ..Data::default() }
    };
    world.replace(BTreeMap::from([(key.clone(), of(1, &[1, 3, 7]))]), 1);
    let end = Position::before(clustering(&world.schema, 5));
    let ranges = vec![ClusteringRange { start: Position::start(), end }];
    let direction = Direction::Forward;
    world.read_now(Asked::One(key.clone(), Slice { ranges, direction }), "the first rows");
    let before = world.rows.stats();
    assert_eq!((before.rows_merged, before.rows_dropped), (0, 0));

    // One that stands there, one in a gap that is known, and three behind.
    let work = world.begin_flush(key.clone(), of(2, &[1, 2, 6, 7, 8]));
    block_on(work);
    world.forget_beside();
    let stats = world.rows.stats();
    assert_eq!((stats.rows_merged, stats.rows_dropped), (2, 3));
    assert_eq!((stats.rows, stats.insertions), (before.rows + 1, before.insertions + 1));
    world.check();
    world.read_now(Asked::One(key, Slice::full(direction)), "all rows");
}

#[test]
fn gaps_between_partitions_and_behind_the_last_are_counted_up_to_a_bound() {
    let world = World::new(1);
    world.pages.set_capacity_bytes(1 << 20);
    assert_eq!(world.rows.ring_continuity(10), (0, 1), "nothing is known of the whole ring");
    for number in 0..3 {
        let key = PartitionKey::from_bytes(i32::to_be_bytes(number));
        world.read_now(Asked::One(key, Slice::full(Direction::Forward)), "an empty partition");
    }
    assert_eq!(world.rows.ring_continuity(10), (0, 4), "before each, and behind the last");
    // Nothing is on the disk: what is said of any gap is true.
    let handles: Vec<_> = world.rows.partitions.borrow().values().cloned().collect();
    handles[1].is_known_before.set(true);
    world.rows.is_end_known.set(true);
    for (max, wanted) in [(10, (2, 4)), (4, (2, 4)), (3, (1, 3)), (1, (0, 1))] {
        assert_eq!(world.rows.ring_continuity(max), wanted, "of up to {max} gaps");
    }
    let (mut known, mut seen) = (2, 4);
    for handle in &handles {
        let (own_known, own_seen) = handle.latest.borrow().continuity(100);
        (known, seen) = (known + own_known, seen + own_seen);
    }
    assert_eq!(world.rows.continuity(100), (known, seen), "those in partitions count, too");
    assert_eq!(world.rows.continuity(3), (1, 3));
}

/// A read that went on over known entries here and there comes to a stretch that is long enough,
/// just where the range tombstone of the gap ends: there it is closed.
#[test]
fn a_read_that_goes_over_to_a_known_stretch_closes_the_tombstone_of_the_gap() {
    let mut world = World::new(1);
    world.pages.set_capacity_bytes(1 << 20);
    let (key, schema) = (world.key(), world.schema.clone());
    let row = || Row { liveness: Some(Liveness::at(1)), ..Row::default() };
    let tombstone = |timestamp| Tombstone { timestamp, deletion_time: 1 };
    let middle = Position::before(clustering(&schema, KEYS / 2));
    let low = ClusteringRange { start: Position::start(), end: middle.clone() };
    let high = ClusteringRange { start: middle, end: Position::end() };
    // The deleted side is read from below, but for single rows; the other one is known.
    let cases = [
        (Direction::Forward, &low, &high, [1, 3, 5, 7]),
        (Direction::Reversed, &high, &low, [18, 16, 14, 12]),
    ];
    for (direction, deleted, known, singles) in cases {
        for of_known in [None, Some(3), Some(5), Some(7)] {
            let what = format!("{direction:?}, the stretch deleted at {of_known:?}");
            let rows = (0..KEYS).map(|ck| (ck, row())).collect();
            let mut data = Data { exists: true, rows, ..Data::default() };
            for (range, timestamp) in [(deleted, Some(5)), (known, of_known)] {
                let Some(timestamp) = timestamp else { continue };
                let (range, tombstone) = (range.clone(), tombstone(timestamp));
                data.ranges.add(RangeTombstone { range, tombstone });
            }
            world.rows.invalidate();
            while world.rows.free(1000) {}
            world.replace(BTreeMap::from([(key.clone(), data)]), 3);
            let asked = |range: ClusteringRange, direction| {
                Asked::One(key.clone(), Slice { ranges: vec![range], direction })
            };
            for ck in singles {
                let single = ClusteringRange::prefix(clustering(&schema, ck));
                world.read_now(asked(single, Direction::Forward), &what);
            }
            world.read_now(asked(known.clone(), Direction::Forward), &what);
            let (reads, hits) = (world.disk.reads.get(), world.rows.counts.borrow().row_hits);
            world.read_now(asked(ClusteringRange::full(), direction), &what);
            world.check();
            assert_eq!(world.disk.reads.get(), reads + 1, "{what}: the gap is read in one go");
            let hits = world.rows.counts.borrow().row_hits - hits;
            assert!(hits >= KEYS as u64 / 2, "{what}: {hits} rows of the stretch from memory");
            for again in [Direction::Forward, Direction::Reversed] {
                world.read_now(asked(ClusteringRange::full(), again), &what);
            }
            assert_eq!(world.disk.reads.get(), reads + 1, "{what}: all is known");
        }
    }
}
