//! Reads of what the cache knows: points, slices, absence; and what it takes to hold it.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use futures::FutureExt;
use tidegate_engine::batch::BatchBuilder;
use tidegate_engine::clock::Random;
use tidegate_engine::database::Shard;
use tidegate_engine::mutation::{Filled, Fragment, PartitionRange};
use tidegate_engine::reader::QueryReader;
use tidegate_engine::{
    ClusteringRange, ColumnId, Database, Direction, PartitionKey, SchemaRef, Slice,
};

use super::allocator;
use super::frame::{Arguments, Row, Target, cpu_timed, median};
use super::{VALUE_BYTES, clustering_key, open, partition_key, row_of, write};

const ROWS_PER_PARTITION: i64 = 100;
const REPEATS: usize = 5;
/// A timestamp of a usual size: some microseconds of this decade.
const WRITTEN_AT: i64 = 1_790_000_000_000_000;
/// Bytes of user data in a row: the key's and the value's.
const ROW_BYTES: usize = VALUE_BYTES + 8;

/// Shared with the shard, so that making and freeing the list is not measured.
type Reads = Arc<Vec<(PartitionRange, Slice)>>;

/// Runs the rows that are wanted.
pub async fn run(arguments: &Arguments) {
    let names = ["point", "slice", "absent", "memory"];
    if !names.iter().any(|name| arguments.wants(name)) {
        return;
    }
    let partitions = arguments.scale(5_000, 70_000) as i64;
    let reads = arguments.scale(50_000, 500_000);
    let directory = tempfile::tempdir().unwrap();
    // Small at first, so that the allocator counts the tables of slots as they grow.
    let (database, schema) = open(directory.path(), 1 << 20, 64 << 20).await;
    for pk in 0..partitions {
        let writes = (0..ROWS_PER_PARTITION).map(|ck| write(&schema, pk, 2 * ck, WRITTEN_AT));
        database.apply_many(writes.collect()).await.unwrap();
    }
    database.flush(None).await.unwrap();
    let bench = Bench { database, schema, partitions };

    // The first reads bring every row in.
    bench.database.set_cache_bytes(8 << 30).await.unwrap();
    let before = allocator::held_bytes();
    let whole = (0..partitions).map(|pk| (bench.partition(pk), all(Direction::Forward)));
    let (_, rows) = bench.read(&Arc::new(whole.collect())).await;
    assert_eq!(rows as i64, partitions * ROWS_PER_PARTITION);
    let stats = bench.database.row_cache_report().await.unwrap()[0].stats;
    // Rows, without the pieces of indexes that they were found by.
    let all_bytes = bench.database.cache_report().await.unwrap()[0].bytes;
    let held = allocator::held_bytes() - before - (all_bytes - stats.bytes) as i64;
    Row {
        name: "memory for rows of 108 bytes",
        unit: "x",
        figure: held as f64 / (rows as usize * ROW_BYTES) as f64,
        baseline: Some(("what the cache counts", {
            stats.bytes as f64 / (rows as usize * ROW_BYTES) as f64
        })),
        target: Target::AtMost(1.6),
    }
    .print(arguments);

    if arguments.wants("point") {
        bench.print_points(arguments, reads).await;
    }
    if arguments.wants("absent") {
        bench.print_absent(arguments, reads).await;
    }
    if arguments.wants("slice") {
        bench.print_slices(arguments, reads / 10).await;
    }
    bench.database.close().await.unwrap();
}

fn all(direction: Direction) -> Slice {
    Slice::full(direction)
}

fn one(range: ClusteringRange) -> Slice {
    Slice { ranges: vec![range], direction: Direction::Forward }
}

struct Bench {
    database: Database,
    schema: SchemaRef,
    partitions: i64,
}

impl Bench {
    fn partition(&self, pk: i64) -> PartitionRange {
        PartitionRange::Single(partition_key(&self.schema, pk))
    }

    async fn print_points(&self, arguments: &Arguments, reads: usize) {
        let tree = self.tree();
        let mut random = Random::new(3);
        let points = self.points(reads, self.partitions, &mut random);
        let hot = self.points(reads, 10, &mut random);
        for (name, list, bound) in
            [("point read, random", points, 1.2), ("point read, hot set", hot, 0.6)]
        {
            let baseline = tree_point(&tree, &list).await;
            let figure = self.median_read(&list).await;
            let per_read = |micros: f64| micros / reads as f64;
            let target = Target::AtMost(bound);
            let baseline = Some(("BTreeMap", per_read(baseline)));
            Row { name, unit: "CPU us", figure: per_read(figure), baseline, target }
                .print(arguments);
            let start = allocator::allocations();
            let count = list.len();
            self.read(&list).await;
            // Those of the call to the shard are shared by all.
            let figure =
                ((allocator::allocations() - start) as f64 / count as f64 * 1e3).round() / 1e3;
            let name = match bound < 1.0 {
                true => "point read, hot set, allocations",
                false => "point read, random, allocations",
            };
            Row { name, unit: "a read", figure, baseline: None, target: Target::AtMost(2.0) }
                .print(arguments);
        }
    }

    async fn print_absent(&self, arguments: &Arguments, reads: usize) {
        let mut random = Random::new(4);
        // Odd keys have no rows, and partitions beyond the last do not exist.
        let absent_rows = (0..reads).map(|_| {
            let pk = random.below(10) as i64;
            let ck = 2 * random.below(ROWS_PER_PARTITION as u64) as i64 + 1;
            (self.partition(pk), one(row_of(&self.schema, ck)))
        });
        let absent_rows: Reads = Arc::new(absent_rows.collect());
        let absent_partitions = (0..reads).map(|_| {
            let pk = self.partitions + random.below(10) as i64;
            (self.partition(pk), one(row_of(&self.schema, 0)))
        });
        let absent_partitions: Reads = Arc::new(absent_partitions.collect());
        for (name, list) in [("absent row", absent_rows), ("absent partition", absent_partitions)] {
            let (_, found) = self.read(&list).await;
            assert_eq!(found, 0, "{name}");
            let before = self.disk_reads().await;
            let micros = self.median_read(&list).await;
            assert_eq!(self.disk_reads().await, before, "{name}: it is looked for once");
            let (figure, target) = (micros / reads as f64, Target::AtMost(0.6));
            Row { name, unit: "CPU us", figure, baseline: None, target }.print(arguments);
        }
    }

    async fn print_slices(&self, arguments: &Arguments, slices: usize) {
        let mut random = Random::new(5);
        let mut list_of = |direction| -> Reads {
            let slice = |_| (self.partition(random.below(10) as i64), all(direction));
            Arc::new((0..slices).map(slice).collect())
        };
        let lists = [Direction::Forward, Direction::Reversed].map(&mut list_of);
        let mut runs = [Vec::new(), Vec::new()];
        // In turns, so that both have the same share of the machine's better and worse moments.
        for _ in 0..REPEATS {
            for (list, runs) in lists.iter().zip(&mut runs) {
                runs.push(self.batches(list).await);
            }
        }
        let rows = slices as f64 * ROWS_PER_PARTITION as f64;
        let [forward, reversed] = runs.map(|runs| median(runs) / rows);
        for (name, figure, baseline, target) in [
            ("slice of 100 into a batch, forward", forward, None, Target::AtMost(0.08)),
            (
                "slice of 100 into a batch, reversed",
                reversed,
                Some(("forward", forward)),
                Target::RatioAtMost(1.05),
            ),
        ] {
            Row { name, unit: "us a row", figure, baseline, target }.print(arguments);
        }
    }

    fn points(&self, count: usize, partitions: i64, random: &mut Random) -> Reads {
        let point = |_| {
            let pk = random.below(partitions as u64) as i64;
            let ck = 2 * random.below(ROWS_PER_PARTITION as u64) as i64;
            (self.partition(pk), one(row_of(&self.schema, ck)))
        };
        Arc::new((0..count).map(point).collect())
    }

    fn tree(&self) -> BTreeMap<(PartitionKey, Vec<u8>), Vec<u8>> {
        let mut tree = BTreeMap::new();
        for pk in 0..self.partitions {
            for ck in 0..ROWS_PER_PARTITION {
                let ck = clustering_key(&self.schema, 2 * ck).as_ordered().to_vec();
                tree.insert((partition_key(&self.schema, pk), ck), vec![b'v'; VALUE_BYTES]);
            }
        }
        tree
    }

    /// CPU µs of the reads together, and the rows that they found.
    async fn read(&self, reads: &Reads) -> (f64, u64) {
        let (id, route) = (self.schema.id, partition_key(&self.schema, 0));
        let reads = reads.clone();
        let work = move |shard: Rc<Shard>| {
            async move {
                let table = shard.table(id).unwrap();
                let mut fragments = VecDeque::new();
                let mut found = 0;
                for (range, slice) in &*reads {
                    let mut source = table.read(range, slice, false);
                    loop {
                        if source.fill_now(&mut fragments) == Filled::Waits {
                            source.fill(&mut fragments).await.unwrap();
                        }
                        if fragments.is_empty() {
                            break;
                        }
                        for fragment in fragments.drain(..) {
                            found += u64::from(matches!(
                                fragment,
                                Fragment::Row { .. } | Fragment::FlatRow(_)
                            ));
                        }
                    }
                }
                found
            }
            .boxed_local()
        };
        let (found, cpu) = cpu_timed(self.database.on_shard(&route, work)).await;
        (cpu.as_secs_f64() * 1e6, found.unwrap())
    }

    /// CPU µs of the reads together: the median of several runs.
    async fn median_read(&self, reads: &Reads) -> f64 {
        let mut runs = Vec::new();
        for _ in 0..REPEATS {
            runs.push(self.read(reads).await.0);
        }
        median(runs)
    }

    /// CPU µs of the reads together, each made an Arrow batch.
    async fn batches(&self, reads: &Reads) -> f64 {
        let (schema, route) = (self.schema.clone(), partition_key(&self.schema, 0));
        let reads = reads.clone();
        let work = move |shard: Rc<Shard>| {
            async move {
                let table = shard.table(schema.id).unwrap();
                for (range, slice) in &*reads {
                    let source = table.read(range, slice, false);
                    let mut reader = QueryReader::new(source, 0, true);
                    let columns = [ColumnId(1), ColumnId(2)];
                    let mut builder = BatchBuilder::new(schema.clone(), &columns, 0);
                    loop {
                        let pulled =
                            reader.pull(usize::MAX, &mut |rows| builder.push(rows).map(|()| true));
                        match pulled.unwrap() {
                            Filled::Some => {}
                            Filled::Waits => assert!(reader.refill().await.unwrap()),
                            Filled::End => break,
                        }
                    }
                    let batch = builder.finish().unwrap();
                    assert_eq!(batch.num_rows() as i64, ROWS_PER_PARTITION);
                }
            }
            .boxed_local()
        };
        let (done, cpu) = cpu_timed(self.database.on_shard(&route, work)).await;
        done.unwrap();
        cpu.as_secs_f64() * 1e6
    }

    /// Times that reads went below the row cache.
    async fn disk_reads(&self) -> u64 {
        let stats = self.database.row_cache_report().await.unwrap()[0].stats;
        stats.gaps_read + stats.partition_misses
    }
}

fn key_of(range: &PartitionRange) -> PartitionKey {
    match range {
        PartitionRange::Single(key) => key.clone(),
        PartitionRange::Tokens { .. } => unreachable!("partitions are read one by one"),
    }
}

/// CPU µs of the same points in a tree.
async fn tree_point(tree: &BTreeMap<(PartitionKey, Vec<u8>), Vec<u8>>, reads: &Reads) -> f64 {
    let keys: Vec<(PartitionKey, Vec<u8>)> = reads
        .iter()
        .map(|(range, slice)| (key_of(range), slice.ranges[0].start.prefix.as_ordered().to_vec()))
        .collect();
    let ((), cpu) = cpu_timed(async {
        for key in &keys {
            assert_eq!(std::hint::black_box(tree.get(key)).map(Vec::len), Some(VALUE_BYTES));
        }
    })
    .await;
    cpu.as_secs_f64() * 1e6
}
