//! Readers that are held open while all around them changes.

use super::stops::Reading;
use super::*;
use crate::runtime::EachTurn;

#[test]
fn a_reader_gives_its_own_data_over_flushes_another_set_of_sstables_and_eviction() {
    let turns = EachTurn::new();
    let mut held = 0;
    for seed in 0..15 {
        for stop in 0.. {
            let mut world = World::small(seed);
            let (key, slice) = (world.key(), world.slice());
            let what = format!("seed {seed}, held open at {stop}");
            let asked = match seed % 3 {
                0 => Asked::All(slice.direction),
                _ => Asked::One(key.clone(), slice.clone()),
            };
            let mut readers = vec![
                Reading::begin(&world, asked.clone()),
                Reading::begin(&world, Asked::One(key.clone(), Slice::full(slice.direction))),
            ];
            let mut is_open = false;
            for _ in 0..stop {
                is_open = false;
                for reader in &mut readers {
                    is_open |= reader.step(&turns);
                }
            }
            if stop > 0 && !is_open {
                break;
            }
            held += 1;
            let flush = |world: &mut World| {
                let memtable = world.written();
                let mut flush = world.begin_flush(key.clone(), memtable);
                while turns.poll(flush.as_mut()).is_pending() {}
                world.forget_beside();
                world.check();
                world.read_now(asked.clone(), &what);
                world.check();
            };
            flush(&mut world);
            readers[0].step(&turns);
            // As a compaction leaves it: other files, the same data.
            let (data, chunk) = (world.disk.data.clone(), world.disk.chunk % 5 + 1);
            world.replace(data, chunk);
            readers.push(Reading::begin(&world, asked.clone()));
            world.evict_all();
            world.check();
            readers[1].step(&turns);
            flush(&mut world);
            if seed % 2 == 0 {
                world.rows.invalidate();
                while world.rows.free(2) {}
            }
            world.check();
            for reader in readers {
                reader.finish(&turns, &what);
                world.check();
            }
            world.read_everything(&what);
        }
    }
    assert!(held > 100, "{held} readers were held open");
}
