//! What may be purged of a merge: nothing that covers a write elsewhere, wherever that one is.

use std::task::Poll;

use futures::future::{join, poll_fn};

use super::*;
use crate::compaction::{Choice, Reason};
use crate::mutation::{
    CellPath, ClusteringRange, Direction, MultiCell, PartitionRange, RangeTombstone, Slice,
    Tombstone,
};
use crate::reader::QueryReader;
use crate::schema::OnCorruption;
use crate::table::{Compacted, CompactionOrder};

/// Seconds; every deletion here is far past its grace.
const NOW: i32 = 1_000_000;
const DELETED_AT: i64 = 10;
const PK: i32 = 1;

/// `pk int, v blob, ck int | s blob static, m map<int, blob>`
fn wide_schema(on_corruption: OnCorruption) -> SchemaRef {
    let mut schema = TableSchema::clone(&schema(true));
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    schema.columns.extend([
        column("s", DataType::Blob, ColumnKind::Static),
        column("m", DataType::map_of(DataType::Int, DataType::Blob), ColumnKind::Regular),
    ]);
    schema.options.gc_grace_seconds = 0;
    schema.options.on_corruption = on_corruption;
    SchemaRef::new(schema)
}

const STATIC: ColumnId = ColumnId(3);
const MAP: ColumnId = ColumnId(4);

impl World {
    fn wide(disk: &MemoryDisk, on_corruption: OnCorruption) -> World {
        World::open(disk.clone(), wide_schema(on_corruption), 1 << 20, (0, 1))
    }

    fn apply(&self, change: impl FnOnce(&mut Mutation)) {
        let mut mutation = Mutation::new(self.table.schema().id, partition_key(PK));
        change(&mut mutation);
        self.table.active().replay(None, mutation);
    }

    /// Deletes partition 1 in an SSTable of its own; the number of that one.
    fn deletion(&self) -> u64 {
        let tombstone = Tombstone { timestamp: DELETED_AT, deletion_time: 1 };
        self.apply(|mutation| mutation.deletion = Some(tombstone));
        self.flush();
        self.numbers().pop().unwrap()
    }

    fn numbers(&self) -> Vec<u64> {
        let statuses = self.table.sstable_statuses(0);
        statuses.iter().map(|status| status.info.generation).collect()
    }

    fn order(&self, inputs: Vec<u64>) -> CompactionOrder {
        CompactionOrder {
            choice: Choice {
                inputs,
                level: 0,
                cut_bytes: None,
                is_incremental: false,
                reason: Reason::Asked,
            },
            now_seconds: i64::from(NOW),
            may_purge: true,
            progress: Rc::default(),
        }
    }

    fn merge(&self, inputs: Vec<u64>) -> Compacted {
        block_on(self.table.compact(self.order(inputs))).unwrap()
    }

    /// Rows that a query sees in partition 1, past the cache.
    fn live(&self) -> usize {
        self.live_of(PK, true)
    }

    fn live_of(&self, pk: i32, past_cache: bool) -> usize {
        let slice = Slice::full(Direction::Forward);
        let range = PartitionRange::Single(partition_key(pk));
        let source = self.table.read(&range, &slice, past_cache);
        let (mut reader, mut rows) = (QueryReader::new(source, NOW, true), 0);
        loop {
            let pulled = reader.pull(usize::MAX, &mut |live| {
                rows += match live.content {
                    crate::reader::LiveContent::Flat(flat) => flat.len(),
                    _ => 1,
                };
                Ok(true)
            });
            if pulled.unwrap() == crate::mutation::Filled::End
                || !block_on(reader.refill()).unwrap()
            {
                return rows;
            }
        }
    }

    /// The deletion alone is merged, and nothing of it may go.
    fn check_stays(&self, deletion: u64, what: &str) {
        assert_eq!(self.live(), 0, "{what}: it is deleted");
        let compacted = self.merge(vec![deletion]);
        assert_eq!(compacted.purged.count, 0, "{what}: it is needed");
        assert_eq!(self.live(), 0, "{what}: it came back");
    }
}

fn elements(timestamp: i64) -> Row {
    let cells = vec![(CellPath::from_ordered([1]), Cell::live(timestamp, *b"v"))];
    Row { multi: vec![(MAP, MultiCell { deletion: None, cells })], ..Row::default() }
}

/// Without it a file of what is older would say of its times that it knows nothing.
fn younger(world: &World) -> RangeTombstone {
    let tombstone = Tombstone { timestamp: 20, deletion_time: NOW };
    RangeTombstone { range: ClusteringRange::prefix(world.clustering(2)), tombstone }
}

/// Whatever a write consists of, its time counts: in a memtable as in an SSTable.
#[test]
fn a_tombstone_stays_for_every_kind_of_write_that_it_covers() {
    type Write = fn(&World, &mut Mutation);
    let writes: [(&str, Write); 7] = [
        ("a marker", |world, mutation| {
            let row = Row { liveness: Some(Liveness::at(5)), ..Row::default() };
            mutation.rows.push((world.clustering(1), row));
        }),
        ("a cell", |world, mutation| {
            let cells = vec![(ColumnId(1), Cell::live(5, *b"v"))];
            mutation.rows.push((world.clustering(1), Row { cells, ..Row::default() }));
        }),
        ("an element", |world, mutation| mutation.rows.push((world.clustering(1), elements(5)))),
        ("a static cell beside a younger deletion", |world, mutation| {
            mutation.range_tombstones.push(younger(world));
            let cells = vec![(STATIC, Cell::live(5, *b"v"))];
            mutation.static_row = Some(Row { cells, ..Row::default() });
        }),
        ("an older cell beside a younger deletion", |world, mutation| {
            mutation.range_tombstones.push(younger(world));
            let cells = vec![(ColumnId(1), Cell::live(5, *b"v"))];
            mutation.rows.push((world.clustering(1), Row { cells, ..Row::default() }));
        }),
        ("an element beside a younger deletion", |world, mutation| {
            mutation.range_tombstones.push(younger(world));
            mutation.rows.push((world.clustering(1), elements(5)));
        }),
        ("a cell of that very moment", |world, mutation| {
            let cells = vec![(ColumnId(1), Cell::live(DELETED_AT, *b"v"))];
            mutation.rows.push((world.clustering(1), Row { cells, ..Row::default() }));
        }),
    ];
    type Put = fn(&World);
    let places: [(&str, Put); 3] = [
        ("a memtable", |_| {}),
        ("a memtable that is being flushed", |world| world.table.seal()),
        ("an SSTable", World::flush),
    ];
    for (what, write) in writes {
        for (place, put) in places {
            let world = World::wide(&MemoryDisk::default(), OnCorruption::Fail);
            let deletion = world.deletion();
            world.apply(|mutation| write(&world, mutation));
            put(&world);
            world.check_stays(deletion, &format!("{what} in {place}"));
        }
    }
}

/// The file of an SSTable that cannot be opened may come back, with rows that are deleted.
#[test]
fn a_tombstone_stays_for_rows_of_an_sstable_that_could_not_be_opened() {
    let disk = MemoryDisk::default();
    let world = World::wide(&disk, OnCorruption::Skip);
    world.write((PK, 1), DELETED_AT - 5, 10);
    world.flush();
    let deletion = world.deletion();
    let is_first = |path: &&std::path::PathBuf| path.to_string_lossy().ends_with("-Data.db");
    let names = disk.names();
    let data = names.iter().filter(is_first).min().unwrap();
    let content = disk.content(data);
    disk.set_content(data, content[..content.len() - 1].to_vec());
    drop(world);
    let world = World::wide(&disk, OnCorruption::Skip);
    assert_eq!(world.numbers(), [deletion], "the other one is left out");
    world.check_stays(deletion, "left out");
    drop(world);
    disk.set_content(data, content);
    let world = World::wide(&disk, OnCorruption::Skip);
    assert_eq!(world.numbers().len(), 2, "it is mended");
    assert_eq!(world.live(), 0);
}

/// Lets others have so many turns.
async fn turns(count: usize) {
    let mut left = count;
    let passed = poll_fn(|context| {
        context.waker().wake_by_ref();
        left = left.saturating_sub(1);
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    });
    passed.await;
}

/// While a merge runs, a write comes that has the time of a tombstone which it has left out. It is
/// in memory still, or was flushed, when the merge ends.
#[test]
fn a_tombstone_stays_for_a_write_that_comes_while_it_is_merged() {
    let times = [(DELETED_AT - 5, false), (DELETED_AT, false), (11, true)];
    for (is_flushed, (timestamp, is_seen)) in
        [false, true].into_iter().flat_map(|is_flushed| times.map(|time| (is_flushed, time)))
    {
        let world = World::wide(&MemoryDisk::default(), OnCorruption::Fail);
        let deletion = world.deletion();
        block_on(async {
            // The first output waits for the manifest, and then the deletion is gone already.
            let manifest = world.table.manifest.lock().await;
            let writing = async {
                turns(1000).await;
                world.write((PK, 1), timestamp, 10);
                let flushing = async {
                    if is_flushed {
                        world.table.flush().await.unwrap();
                    }
                };
                // The flush waits behind the merge, which comes back behind it.
                let release = async {
                    turns(1000).await;
                    drop(manifest);
                };
                join(flushing, release).await;
            };
            let order = world.order(vec![deletion]);
            let (compacted, _) = join(world.table.compact(order), writing).await;
            let purged = compacted.unwrap().purged.count;
            assert_eq!(purged > 0, is_seen, "a write of {timestamp}, flushed {is_flushed}");
        });
        let what = format!("a write of {timestamp}, flushed {is_flushed}");
        assert_eq!(world.live(), usize::from(is_seen), "{what}");
    }
}

/// A deletion that is purged must go from the cache too, in however many partitions there was one.
#[test]
fn of_any_number_of_partitions_the_cache_forgets_what_was_purged() {
    // Of more than 16 a merge does not say which, in tests.
    for partitions in [1, 16, 17, 40] {
        let world = World::wide(&MemoryDisk::default(), OnCorruption::Fail);
        for pk in 0..partitions {
            let mut mutation = world.mutation((pk, 1), 1, 10);
            let tombstone = Tombstone { timestamp: DELETED_AT, deletion_time: 1 };
            let deleted = Row { deletion: Some(tombstone), ..Row::default() };
            mutation.rows.push((world.clustering(2), deleted));
            world.table.active().replay(None, mutation);
        }
        world.flush();
        for pk in 0..partitions {
            assert_eq!(world.live_of(pk, false), 1, "the cache knows the deletion now");
        }
        let compacted = world.merge(world.numbers());
        assert_eq!(compacted.purged.count, partitions as u64);
        for pk in 0..partitions {
            // Older than what nobody has any more.
            world.write((pk, 2), DELETED_AT - 5, 10);
            for past_cache in [true, false] {
                let found = world.live_of(pk, past_cache);
                assert_eq!(found, 2, "{pk} of {partitions}, past the cache: {past_cache}");
            }
        }
    }
}

/// A merge that ends early for want of something leaves nothing behind, and may be run again.
#[test]
fn a_merge_that_fails_leaves_everything_as_it_was() {
    let world = World::wide(&MemoryDisk::default(), OnCorruption::Fail);
    for ck in 0..3 {
        world.write((PK, ck), 1 + i64::from(ck), 10);
        world.flush();
    }
    let files = || {
        let names = world.disk.names().into_iter();
        names.filter(|path| path.to_string_lossy().contains("/me-")).collect::<Vec<_>>()
    };
    let (inputs, before) = (world.numbers(), world.table.sstable_statuses(0));
    let files_before = files();
    let compact = |numbers: &[u64]| block_on(world.table.compact(world.order(numbers.to_vec())));
    let unknown = compact(&[inputs[0], inputs[2] + 100]).unwrap_err();
    assert!(matches!(unknown, crate::error::Error::Invalid(_)), "{unknown}");
    assert_eq!(world.table.sstable_statuses(0), before);
    for time in 1..3 {
        // The name of one of the output's files is taken.
        let output = inputs[2] + time;
        let taken = Path::new(DIRECTORY).join(format!("me-{output}-big-Statistics.db"));
        world.disk.set_content(&taken, Vec::new());
        compact(&inputs).unwrap_err();
        assert_eq!(world.table.sstable_statuses(0), before, "time {time}");
        assert_eq!(files(), files_before, "time {time}: nothing is left of its output");
        assert!(!world.table.has_set_aside(&inputs), "time {time}: they are not damaged");
        assert_eq!(world.live(), 3, "time {time}");
    }
    let outputs = world.merge(inputs.clone()).outputs;
    assert_eq!(outputs.iter().map(|info| info.rows).collect::<Vec<_>>(), [3]);
    assert!(outputs[0].generation > inputs[2] + 2, "a number that was taken is not given again");
    let after = world.table.sstable_statuses(0);
    assert_eq!(after.len(), 1);
    assert!(!after[0].is_input && !after[0].is_set_aside, "{after:?}");
    assert!(files().iter().all(|path| !files_before.contains(path)), "the inputs are gone");
    assert_eq!(world.live(), 3);
}

#[test]
fn a_table_is_asked_what_to_merge_when_its_sstables_have_changed() {
    let world = World::wide(&MemoryDisk::default(), OnCorruption::Fail);
    let table = &world.table;
    let told = || (table.is_compaction_due(), table.is_backlog_stale());
    let settle = || {
        table.set_compaction_due(false);
        table.compaction_backlog(0);
        assert_eq!(told(), (false, false), "it was asked and looked at");
    };
    assert_eq!(told(), (true, true), "nobody has asked a table that was just opened");
    settle();
    world.write((PK, 1), 1, 10);
    assert_eq!(told(), (false, false), "what is in memory is no SSTable");
    for round in 0..2 {
        world.write((PK, round), 2, 10);
        world.flush();
        assert_eq!(told(), (true, true), "flush {round}");
        settle();
    }
    world.flush();
    assert_eq!(told(), (false, false), "there was nothing to flush");
    world.merge(world.numbers());
    assert_eq!(told(), (true, true), "a merge changes what there is");
    settle();
    table.set_compaction_due(true);
    assert_eq!(told(), (true, true), "time alone makes more to do as well");
    table.mark_dropped();
    assert_eq!(told(), (false, false), "nothing of a dropped table is merged");
    assert_eq!(table.compaction_backlog(0), 0);
}
