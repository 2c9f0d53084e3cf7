//! The counters of a read, beside what the table holds and what the disk was asked for.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;

use super::super::limits::{open, run};
use super::*;
use crate::clock::{Clock, SimulatedClock};
use crate::disk::{Counters, Faults, SimulatedDisk};
use crate::probe::{Count, Detail, ReadStats, Watch};

const ROWS: u64 = 300;

/// What stands in a database of one shard, and what its disk was asked for.
struct World {
    disk: SimulatedDisk,
    clock: Arc<SimulatedClock>,
    database: Database,
    schema: SchemaRef,
}

impl World {
    /// A table whose partition `a` has [`ROWS`] rows, in an SSTable of several blocks.
    async fn new(clock: Arc<SimulatedClock>) -> World {
        let disk = SimulatedDisk::with_faults(1, Faults::default());
        let database = open(&disk, &clock, |options| options).await.unwrap();
        let mut definition = definition();
        definition.options.column_index_bytes = 1024;
        let schema = database.create_table(definition, false).await.unwrap();
        let world = World { disk, clock, database, schema };
        let rows = 0..ROWS as i32;
        let writes = rows.map(|at| insert(&world.schema, "a", at, i64::from(at), 1)).collect();
        world.database.apply_many(writes).await.unwrap();
        world
    }

    /// The same after a start: nothing is cached.
    async fn cold(self) -> World {
        self.database.flush(None).await.unwrap();
        self.database.close().await.unwrap();
        let World { disk, clock, schema, .. } = self;
        let database = open(&disk, &clock, |options| options).await.unwrap();
        World { disk, clock, database, schema }
    }

    /// Reads, and gives the counters and how many rows came. What the disk was asked for by the
    /// read is what the counters say.
    async fn read(&self, command: ReadCommand) -> (ReadStats, u64) {
        let watch = Watch::new(self.clock.clone(), Detail::Steps);
        let Counters { reads, bytes_read, .. } = self.disk.counters();
        let probe = watch.read(self.schema.clone());
        let stream = self.database.read_watched(command, probe);
        let batches: Vec<RecordBatch> = stream.try_collect().await.unwrap();
        let after = self.disk.counters();
        let stats = watch.stats();
        assert_eq!(stats[Count::DiskReads], after.reads - reads, "{stats:?}");
        assert_eq!(stats[Count::DiskBytes], after.bytes_read - bytes_read, "{stats:?}");
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        assert_eq!(stats[Count::Rows], rows, "{stats:?}");
        (stats, rows)
    }

    fn all(&self, direction: Direction, limit: Option<usize>) -> ReadCommand {
        read_of(&self.schema, "a", Slice::full(direction), limit)
    }

    fn row(&self, at: i32) -> ReadCommand {
        let range = ClusteringRange::prefix(ck(&self.schema, at));
        let slice = Slice { ranges: vec![range], direction: Direction::Forward };
        read_of(&self.schema, "a", slice, None)
    }
}

/// Rows of memtables, of the row cache and of SSTables.
fn origins(stats: &ReadStats) -> [u64; 3] {
    [Count::MemtableRows, Count::CacheRows, Count::SstableRows].map(|what| stats[what])
}

/// Hits of the row cache, misses and gaps.
fn of_cache(stats: &ReadStats) -> [u64; 3] {
    [Count::CacheHits, Count::CacheMisses, Count::GapsFilled].map(|what| stats[what])
}

#[test]
fn rows_are_counted_where_they_came_from_in_both_directions() {
    for direction in [Direction::Forward, Direction::Reversed] {
        run(async |clock| {
            let world = World::new(clock).await;
            let (stats, rows) = world.read(world.all(direction, None)).await;
            assert_eq!((rows, origins(&stats)), (ROWS, [ROWS, 0, 0]), "{stats:?}");
            assert_eq!((stats[Count::Partitions], stats[Count::DiskReads]), (1, 0));

            let world = world.cold().await;
            let (stats, rows) = world.read(world.all(direction, None)).await;
            assert_eq!((rows, origins(&stats)), (ROWS, [0, 0, ROWS]), "{stats:?}");
            assert_eq!(of_cache(&stats), [0, 1, 0], "{stats:?}");
            assert_eq!((stats[Count::SstableReads], stats[Count::SstablesPassed]), (1, 0));
            assert!(stats[Count::DiskReads] > 0 && stats[Count::PagesRead] > 0, "{stats:?}");

            // Warm: memory has it all.
            let (stats, rows) = world.read(world.all(direction, None)).await;
            assert_eq!((rows, origins(&stats)), (ROWS, [0, ROWS, 0]), "{stats:?}");
            assert_eq!((of_cache(&stats), stats[Count::DiskReads]), ([1, 0, 0], 0), "{stats:?}");
            let read = world.all(direction, None);
            let (stats, _) = world.read(ReadCommand { past_cache: true, ..read }).await;
            assert_eq!((origins(&stats), of_cache(&stats)), ([0, 0, ROWS], [0; 3]), "{stats:?}");
            world.database.close().await.unwrap();
        });
    }
}

#[test]
fn a_page_reads_its_part_and_the_next_one_fills_the_gap() {
    for direction in [Direction::Forward, Direction::Reversed] {
        run(async |clock| {
            let world = World::new(clock).await.cold().await;
            let (page, rows) = world.read(world.all(direction, Some(10))).await;
            let came = page[Count::SstableRows];
            assert_eq!((rows, of_cache(&page)), (10, [0, 1, 0]), "{page:?}");
            assert!((10..ROWS / 2).contains(&came), "a page of 10 reads {came} rows");
            let (again, _) = world.read(world.all(direction, Some(10))).await;
            assert_eq!((origins(&again), of_cache(&again)), ([0, 10, 0], [1, 0, 0]), "{again:?}");
            let (more, rows) = world.read(world.all(direction, None)).await;
            assert_eq!((rows, of_cache(&more)), (ROWS, [1, 0, 1]), "{more:?}");
            let [_, cached, read] = origins(&more);
            assert_eq!(cached + read, ROWS, "each row comes once: {more:?}");
            assert!(cached >= 10, "{more:?}");
            world.database.close().await.unwrap();
        });
    }
}

#[test]
fn one_row_is_counted_as_such() {
    run(async |clock| {
        let world = World::new(clock).await.cold().await;
        for (at, wanted, cached) in [
            (150, [0, 0, 1], [0, 1, 0]),
            (150, [0, 1, 0], [1, 0, 0]),
            // Of a known partition an unknown row.
            (151, [0, 0, 1], [1, 0, 1]),
            (1_000_000, [0, 0, 0], [1, 0, 1]),
        ] {
            let (stats, rows) = world.read(world.row(at)).await;
            assert_eq!((origins(&stats), of_cache(&stats)), (wanted, cached), "{at}: {stats:?}");
            assert_eq!(rows, wanted.iter().sum::<u64>(), "{at}");
        }
        // A partition that the SSTable's range of keys or its filter leaves out.
        let nobody = read_of(&world.schema, "nobody", Slice::full(Direction::Forward), None);
        let (stats, rows) = world.read(nobody).await;
        assert_eq!((rows, stats[Count::SstableReads], stats[Count::SstablesPassed]), (0, 0, 1));
        assert_eq!((stats[Count::Partitions], stats[Count::DiskReads]), (0, 0), "{stats:?}");
        world.database.close().await.unwrap();
    });
}

/// Ten rows go by a range, one by its key, and another partition whole.
async fn delete(world: &World, timestamp: i64) {
    let tombstone = Tombstone { timestamp, deletion_time: 1 };
    let (start, end) = (ck(&world.schema, 10), ck(&world.schema, 19));
    let range = ClusteringRange { start: Position::before(start), end: Position::after(end) };
    let mut ten = Mutation::new(world.schema.id, key(&world.schema, "a"));
    ten.range_tombstones.push(RangeTombstone { range, tombstone });
    let mut one = Mutation::new(world.schema.id, key(&world.schema, "a"));
    let deleted = Row { deletion: Some(tombstone), ..Row::default() };
    one.rows.push((ck(&world.schema, 50), deleted));
    let mut whole = Mutation::new(world.schema.id, key(&world.schema, "b"));
    whole.deletion = Some(tombstone);
    for mutation in [ten, one, whole] {
        world.database.apply(mutation).await.unwrap();
    }
}

#[test]
fn what_was_deleted_is_counted_wherever_it_lies() {
    for direction in [Direction::Forward, Direction::Reversed] {
        run(async |clock| {
            let world = World::new(clock).await;
            world.database.apply(insert(&world.schema, "b", 1, 1, 1)).await.unwrap();
            let world = world.cold().await;
            delete(&world, 2).await;
            // Beside the SSTable with the rows: in the memtable, then in an SSTable, cold and warm.
            let deleted = |stats: &ReadStats| (stats[Count::Tombstones], stats[Count::RowsDropped]);
            for place in ["memtable", "cache", "memtable and cache"] {
                let (stats, rows) = world.read(world.all(direction, None)).await;
                assert_eq!((rows, deleted(&stats)), (ROWS - 11, (2, 11)), "{place}: {stats:?}");
                let b = read_of(&world.schema, "b", Slice::full(direction), None);
                let (stats, rows) = world.read(b).await;
                assert_eq!((rows, deleted(&stats)), (0, (1, 1)), "{place}: {stats:?}");
            }
            let world = world.cold().await;
            for place in ["files", "cache"] {
                let (stats, rows) = world.read(world.all(direction, None)).await;
                assert_eq!((rows, deleted(&stats)), (ROWS - 11, (2, 11)), "{place}: {stats:?}");
            }
            // A row that came back stands beside its older deletion.
            world.database.apply(insert(&world.schema, "a", 50, 1, 3)).await.unwrap();
            let (stats, rows) = world.read(world.all(direction, None)).await;
            assert_eq!((rows, deleted(&stats)), (ROWS - 10, (2, 10)), "{stats:?}");
            world.database.close().await.unwrap();
        });
    }
}

#[test]
fn a_scan_of_a_shard_counts_all_its_partitions() {
    run(async |clock| {
        let world = World::new(clock).await;
        for pk in ["b", "c", "d"] {
            world.database.apply(insert(&world.schema, pk, 1, 1, 1)).await.unwrap();
        }
        let world = world.cold().await;
        world.database.apply(insert(&world.schema, "e", 1, 1, 1)).await.unwrap();
        for wanted in [[1, 0, ROWS + 3], [1, ROWS + 3, 0]] {
            let (stats, rows) = world.read(scan_of(&world.schema, 0)).await;
            assert_eq!((rows, stats[Count::Partitions]), (ROWS + 4, 5), "{stats:?}");
            assert_eq!(origins(&stats), wanted, "{stats:?}");
        }
        world.database.close().await.unwrap();
    });
}

/// A read that waits for the memory of its batches says how long.
#[test]
fn the_time_that_a_read_waits_is_counted() {
    run(async |clock| {
        let world = World::new(clock).await;
        // Batches of so many rows are charged.
        for from in (1000..9000).step_by(1000) {
            let rows = (from..from + 1000).map(|at| insert(&world.schema, "a", at, 1, 1));
            world.database.apply_many(rows.collect()).await.unwrap();
        }
        let of_shard = |shard: std::rc::Rc<crate::database::Shard>| {
            std::future::ready(shard.read_memory().clone()).boxed_local()
        };
        let memory = world.database.on_shard(&key(&world.schema, "a"), of_shard).await.unwrap();
        let free = memory.status();
        let held = memory.try_charge((free.bytes_max - free.used) as usize).unwrap();
        let began_ns = world.clock.monotonic_ns();
        let mut read = Box::pin(world.read(world.all(Direction::Forward, None)));
        while memory.status().waiting == 0 {
            assert!(futures::poll!(&mut read).is_pending(), "the read needs memory");
            tokio::task::yield_now().await;
        }
        world.clock.advance(Duration::from_millis(70));
        drop(held);
        let (stats, rows) = read.await;
        assert_eq!(rows, ROWS + 8000);
        let ended_ns = world.clock.monotonic_ns();
        let waited_ns = stats[Count::TimeAdmission];
        assert!((70_000_000..=ended_ns - began_ns).contains(&waited_ns), "{waited_ns} ns");
        world.database.close().await.unwrap();
    });
}
