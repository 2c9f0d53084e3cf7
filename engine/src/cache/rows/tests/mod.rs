//! The row cache against a plain copy of the data: random reads in both directions, flushes and
//! evictions, and after each step every claim of the cache is checked.

mod budget;
mod faults;
mod gaps;
mod held;
mod hot;
mod ids;
mod interleavings;
mod short;
mod stops;
mod stretches;
mod walks;
mod world;

use std::collections::{BTreeMap, VecDeque};

use futures::executor::block_on;

use super::*;
use crate::mutation::{
    Cell as RowCell, Direction, Fragment, FragmentSource, Liveness, Position, RangeTombstone, Row,
    Slice, Tombstone,
};
use crate::schema::ColumnId;
use world::*;

#[test]
fn reads_equal_the_data_below_whatever_is_known_evicted_or_flushed() {
    for seed in 0..400 {
        let mut world = World::new(seed);
        if seed % 3 == 0 {
            // Reads that bring in some of what they pass.
            world.rows.set_fill_min(3);
        }
        // Readers under way, and what they must give in the end.
        let mut readers: Vec<Slow> = vec![];
        for _ in 0..60 {
            match world.below(11) {
                0 => world.flush(),
                9 => {
                    let (expected, source) = world.open_scan();
                    same_scan(&read_all(source), &expected, &format!("seed {seed}, a scan"));
                    let (expected, source) = world.open_some();
                    same_scan(&read_all(source), &expected, &format!("seed {seed}, a stretch"));
                }
                10 => {
                    let (expected, source) = world.open_some();
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

/// Allocators hand out pieces of up to a kilobyte faster than longer ones.
#[test]
fn a_read_waits_in_a_small_piece_of_memory() {
    let mut world = World::new(2);
    let (key, slice) = (world.key(), Slice::full(Direction::Forward));
    let mut source = world.rows.read(&key, &slice, world.disk.clone(), world.generation);
    let mut out = VecDeque::new();
    let bytes = size_of_val(&*source.fill(&mut out));
    assert!(bytes <= 1024, "{bytes} bytes");
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
                world.rows.scan(WHOLE, slice.direction, disk.clone(), generation),
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
