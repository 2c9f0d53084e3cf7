//! Every step of an update that can fail does so once: an entry that finds no room, or pushes all
//! others out, and a read that breaks off.

use super::*;
use crate::cache::rows::AdmissionFault;

/// An update of the cache.
#[derive(Debug, Clone, Copy)]
enum Update {
    Flush,
    FlushIntoKnown,
    Read(Direction),
    ReadSlice,
    ReadRows,
    Scan(Direction),
}

const UPDATES: [Update; 8] = [
    Update::Flush,
    Update::FlushIntoKnown,
    Update::Read(Direction::Forward),
    Update::Read(Direction::Reversed),
    Update::ReadSlice,
    Update::ReadRows,
    Update::Scan(Direction::Forward),
    Update::Scan(Direction::Reversed),
];

/// Brings something that the update will use; what is drawn is drawn here, so that the update is
/// the same whatever becomes of it.
fn prepare(world: &mut World, update: Update) -> (PartitionKey, Slice, Data) {
    let (key, slice, memtable) = (world.key(), world.slice(), world.written());
    if let Update::FlushIntoKnown = update {
        let all = Slice::full(Direction::Forward);
        read_all(world.reader(&Asked::One(key.clone(), all), world.disk.clone()));
    }
    if let Update::Scan(_) = update {
        // So that it meets partitions that are not there.
        world.evict_all();
        world.pages.set_capacity_bytes(1 << 20);
    }
    (key, slice, memtable)
}

fn update(world: &mut World, update: Update, of: (PartitionKey, Slice, Data), what: &str) {
    let (key, slice, memtable) = of;
    match update {
        Update::Flush | Update::FlushIntoKnown => {
            block_on(world.begin_flush(key, memtable));
            world.forget_beside();
        }
        Update::Read(direction) => world.read_now(Asked::One(key, Slice::full(direction)), what),
        Update::ReadSlice => world.read_now(Asked::One(key, slice), what),
        Update::ReadRows => {
            for ck in 0..world.keys {
                let ranges = vec![ClusteringRange::prefix(clustering(&world.schema, ck))];
                let slice = Slice { ranges, ..slice };
                world.read_now(Asked::One(key.clone(), slice), what);
            }
        }
        Update::Scan(direction) => world.read_now(Asked::All(direction), what),
    }
}

#[test]
fn an_entry_without_room_at_any_place_leaves_nothing_that_is_not_true() {
    let mut faults = BTreeMap::new();
    for seed in 0..24 {
        for kind in UPDATES {
            for fault in [AdmissionFault::Refused, AdmissionFault::Crowded] {
                for after in 0.. {
                    let what = format!("seed {seed}, {kind:?}, {fault:?} after {after}");
                    assert!(after < 200, "{what}: an update has so many entries");
                    let mut world = World::small(seed);
                    world.what.clone_from(&what);
                    let of = prepare(&mut world, kind);
                    world.pages.fail_admission(Some((after, fault)));
                    update(&mut world, kind, of, &what);
                    world.check();
                    if world.pages.fail_admission(None) {
                        break;
                    }
                    world.read_everything(&what);
                    world.check();
                    *faults.entry(format!("{kind:?}")).or_insert(0) += 1;
                }
            }
        }
    }
    assert!(
        faults.len() == UPDATES.len() && faults.values().all(|count| *count > 20),
        "{faults:?}"
    );
}

#[test]
fn a_budget_of_any_size_leaves_nothing_that_is_not_true() {
    let mut is_tight = 0;
    for seed in 0..3 {
        for kind in UPDATES {
            for bytes in (0..2600).step_by(130) {
                let what = format!("seed {seed}, {kind:?} in {bytes} bytes");
                let mut world = World::small(seed);
                world.what.clone_from(&what);
                let of = prepare(&mut world, kind);
                world.pages.set_capacity_bytes(bytes);
                while world.pages.trim() {}
                world.check();
                let passed = world.pages.stats().total.passed + world.rows.stats().evictions;
                update(&mut world, kind, of, &what);
                world.check();
                world.read_everything(&what);
                world.check();
                let stats = world.pages.stats();
                assert!(stats.bytes <= bytes as u64, "{what}: {} bytes", stats.bytes);
                is_tight += u32::from(stats.total.passed + world.rows.stats().evictions > passed);
            }
        }
    }
    assert!(is_tight > 100, "in {is_tight} cases something had to leave");
}

#[test]
fn a_memtable_that_breaks_off_at_any_fragment_leaves_nothing_that_is_not_true() {
    let mut broken = 0;
    for seed in 0..30 {
        for fills in 0.. {
            let what = format!("seed {seed}, broken off after {fills}");
            let mut world = World::small(seed);
            world.what.clone_from(&what);
            let (key, _, memtable) = prepare(&mut world, Update::FlushIntoKnown);
            world.bring(&key, &memtable);
            let left = Rc::new(Cell::new(fills));
            let source = Box::new(world.memtable_source(&key, &memtable, 1));
            let failing = Failing { source, left: left.clone() };
            block_on(world.rows.merge(&key, || Box::new(failing), world.generation));
            world.check();
            world.read_everything(&what);
            world.check();
            if left.get() > 0 {
                break;
            }
            broken += 1;
        }
    }
    assert!(broken > 100, "{broken} flushes broke off");
}
