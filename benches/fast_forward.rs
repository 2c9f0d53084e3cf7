//! `cargo bench --bench fast_forward`: what reads inside large partitions cost, in I/O, CPU and
//! memory.
//!
//! In the spirit of ScyllaDB's perf-fast-forward. SSTables are written, opened with a page cache of
//! their own and read directly, below the row cache and the merge. Cold means an empty page cache;
//! I/O is direct, so that the system's page cache has no part in it. Above each row of the table
//! stand the costs it was computed from, per read: reads of the index and the data file, KiB, pages
//! of the index found in memory, wall and CPU time of the process, allocations, and the most memory
//! in use above what was at the start. Clustering keys are even numbers; a row has 100 bytes.

#![expect(clippy::unwrap_used, reason = "a benchmark stops where it fails")]

#[path = "fast_forward/disk.rs"]
mod disk;
#[allow(dead_code, reason = "a group uses of the frame what it needs")]
#[path = "frame/mod.rs"]
mod frame;
#[path = "fast_forward/memory.rs"]
mod memory;
#[path = "fast_forward/table.rs"]
mod table;

use std::path::Path;
use std::rc::Rc;

use disk::CountingDisk;
use frame::{Arguments, Row, Target, cpu_timed, median, print_head};
use futures::future::join_all;
use memory::CountingAllocator;
use table::{Cost, Shape, Table, partition_key, point, timed_async};
use tidegate_engine::clock::Random;
use tidegate_engine::disk::{AlignedBuffer, Backend, Disk, OpenOptions};
use tidegate_engine::mutation::{Fragment, PartitionRange};
use tidegate_engine::sstable::Component;
use tidegate_engine::{Direction, Slice};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

const ROWS: i64 = 1_000_000;
const VALUE_BYTES: usize = 100;
const READERS: usize = 32;
const PAGE_ROWS: u64 = 100;
const MIB: f64 = 1024.0 * 1024.0;
/// Bytes of a row as stored, to size partitions.
const ROW_BYTES: i64 = 118;

struct Group<'a> {
    arguments: &'a Arguments,
    directory: &'a Path,
    disk: Rc<CountingDisk>,
}

fn main() {
    let arguments = Arguments::parse();
    let directory = tempfile::tempdir().unwrap();
    tidegate_engine::disk::run(Backend::Auto, |disk, _| {
        let group = Group {
            arguments: &arguments,
            directory: directory.path(),
            disk: CountingDisk::new(disk),
        };
        async move { group.run().await }
    })
    .unwrap();
}

/// The median of each cost, but the greatest peak.
fn median_cost(costs: &[Cost]) -> Cost {
    let of = |pick: fn(&Cost) -> f64| median(costs.iter().map(pick).collect());
    let mut cost = Cost {
        index_hits: of(|cost| cost.index_hits as f64) as u64,
        wall_us: of(|cost| cost.wall_us),
        cpu_us: of(|cost| cost.cpu_us),
        rows: of(|cost| cost.rows as f64) as u64,
        ..Cost::default()
    };
    cost.reads.index.count = of(|cost| cost.reads.index.count as f64) as u64;
    cost.reads.index.bytes = of(|cost| cost.reads.index.bytes as f64) as u64;
    cost.reads.data.count = of(|cost| cost.reads.data.count as f64) as u64;
    cost.reads.data.bytes = of(|cost| cost.reads.data.bytes as f64) as u64;
    cost.allocated.count = of(|cost| cost.allocated.count as f64) as u64;
    cost.allocated.bytes = of(|cost| cost.allocated.bytes as f64) as u64;
    cost.allocated.peak_bytes =
        costs.iter().map(|cost| cost.allocated.peak_bytes).max().unwrap_or(0);
    cost
}

impl Group<'_> {
    async fn run(&self) {
        print_head(self.arguments);
        if self.wants(&["one row from the middle", "second key near it", "cold : hot"]) {
            self.one_row().await;
        }
        if self.wants(&["LIMIT 1", "absent key"]) {
            self.promoted().await;
        }
        if self.wants(&["small partition"]) {
            self.small().await;
        }
        if self.wants(&["last page"]) {
            self.last_page().await;
        }
        if self.wants(&["whole partition", "flush", "sequential"]) {
            self.whole().await;
        }
    }

    fn wants(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.arguments.wants(name))
    }

    /// Prints what one kind of read cost.
    fn print_cost(&self, name: &str, cost: &Cost) {
        let kib = |bytes: u64| bytes as f64 / 1024.0;
        let Cost { reads, index_hits, wall_us, cpu_us, allocated, rows } = cost;
        if self.arguments.json {
            println!(
                "{{\"cost\":\"{name}\",\"rows\":{rows},\"index_io\":{},\"data_io\":{},\"index_kib\":{:.1},\"data_kib\":{:.1},\"index_hits\":{index_hits},\"wall_us\":{wall_us:.1},\"cpu_us\":{cpu_us:.1},\"allocations\":{},\"allocated_kib\":{:.1},\"peak_kib\":{:.1}}}",
                reads.index.count,
                reads.data.count,
                kib(reads.index.bytes),
                kib(reads.data.bytes),
                allocated.count,
                kib(allocated.bytes),
                kib(allocated.peak_bytes),
            );
            return;
        }
        println!(
            "  {name:<42} rows {rows:<7} I/O {:>3}+{:<4} KiB {:>6.0}+{:<7.0} hits {index_hits:<4} wall {wall_us:>9.1} us  CPU {cpu_us:>9.1} us  allocations {:<7} peak {:.0} KiB",
            reads.index.count,
            reads.data.count,
            kib(reads.index.bytes),
            kib(reads.data.bytes),
            allocated.count,
            kib(allocated.peak_bytes),
        );
    }

    fn print(
        &self,
        name: impl Into<String>,
        unit: &'static str,
        figure: f64,
        baseline: Option<(&'static str, f64)>,
        target: Target,
    ) {
        let name: &'static str = name.into().leak();
        Row { name, unit, figure, baseline, target }.print(self.arguments);
    }

    async fn one_row(&self) {
        let shape =
            Shape { partitions: 1, rows: ROWS, value_bytes: VALUE_BYTES, column_index_bytes: 1024 };
        table::write(&self.disk, self.directory, 1, shape).await;
        let table = Table::open(&self.disk, self.directory, 1).await;
        let key = partition_key(0);
        let mut random = Random::new(1);
        let (mut cold, mut near) = (Vec::new(), Vec::new());
        for _ in 0..self.arguments.scale(51, 501) {
            let ck = ROWS / 2 + random.below(ROWS as u64 / 4) as i64;
            table.cool();
            cold.push(table.read(&key, &point(2 * ck), 1).await);
            // Far enough to lie in another page of the data, near enough to share the index's.
            near.push(table.read(&key, &point(2 * (ck + 100)), 1).await);
        }
        assert!(cold.iter().chain(&near).all(|cost| cost.rows == 1), "every key is there");
        let most = near.iter().map(|cost| cost.reads.count()).max().unwrap_or(0);
        let alone = near.iter().filter(|cost| cost.reads.bytes() <= 4096).count();
        let (cold, near) = (median_cost(&cold), median_cost(&near));
        self.print_cost("one row from the middle, cold", &cold);
        self.print_cost("second key near it", &near);
        let count = cold.reads.count() as f64;
        self.print("one row from the middle, cold", "I/O", count, None, Target::AtMost(20.0));
        let count = near.reads.count() as f64;
        self.print("second key near it", "I/O", count, None, Target::AtMost(1.0));
        let kib = near.reads.bytes() as f64 / 1024.0;
        self.print("second key near it", "KiB", kib, None, Target::AtMost(4.0));
        self.print("second key near it, most", "I/O", most as f64, None, Target::None);
        let share = alone as f64 / self.arguments.scale(51, 501) as f64;
        self.print("second key near it, in one page", "of all", share, None, Target::None);
        if self.wants(&["cold : hot"]) {
            self.cold_and_hot(&table).await;
        }
    }

    /// Random rows by many readers at once: each read with an empty cache, and with the index warm.
    async fn cold_and_hot(&self, table: &Table) {
        let key = partition_key(0);
        // Warms every page of the index and few of the data.
        for ck in (0..ROWS).step_by(1000) {
            table.rows(&key, &point(2 * ck), 1).await;
        }
        let per_reader = self.arguments.scale(100, 400);
        let run = |tables: Vec<Rc<Table>>, is_cold: bool| {
            let key = &key;
            async move {
                self.disk.take();
                let readers = tables.into_iter().enumerate().map(|(reader, table)| async move {
                    let mut random = Random::new(reader as u64 + 7);
                    for _ in 0..per_reader {
                        let ck = random.below(ROWS as u64) as i64;
                        if is_cold {
                            table.cool();
                        }
                        assert_eq!(table.rows(key, &point(2 * ck), 1).await, 1);
                    }
                });
                let ((_, wall), cpu) = cpu_timed(timed_async(join_all(readers))).await;
                let reads = self.disk.take();
                let count = (READERS * per_reader) as f64;
                let rate = count / wall.as_secs_f64();
                let cpu_us = cpu.as_secs_f64() * 1e6 / count;
                (reads.count() as f64 / count, reads.bytes() as f64 / 1024.0 / count, rate, cpu_us)
            }
        };
        let mut own = Vec::new();
        for _ in 0..READERS {
            own.push(Rc::new(Table::open(&self.disk, self.directory, 1).await));
        }
        let cold = run(own, true).await;
        let shared = Rc::new(Table {
            disk: table.disk.clone(),
            cache: table.cache.clone(),
            sstable: table.sstable.clone(),
        });
        let hot = run(vec![shared; READERS], false).await;
        self.print("cold : hot, I/O", "a read", cold.0, Some(("hot", hot.0)), ratio(5.0));
        self.print("cold : hot, KiB", "a read", cold.1, Some(("hot", hot.1)), ratio(3.0));
        let rates = Some(("cold", cold.2));
        self.print("cold : hot, 32 readers, hot", "rows/s", hot.2, rates, ratio(2.5));
        let cpu = Some(("cold", cold.3));
        self.print("cold : hot, CPU, hot", "us a row", hot.3, cpu, Target::None);
    }

    /// Partitions with promoted indexes of 1 MiB, a block a row.
    async fn promoted(&self) {
        let shape = Shape { partitions: 100, rows: 40_000, value_bytes: 8, column_index_bytes: 16 };
        table::write(&self.disk, self.directory, 2, shape).await;
        let table = Table::open(&self.disk, self.directory, 2).await;
        let index_bytes = table.sstable.info().index_bytes as f64 / shape.partitions as f64;
        self.print("LIMIT 1: promoted index", "MiB", index_bytes / MIB, None, Target::AtLeast(1.0));
        let full = Slice::full(Direction::Forward);
        let (mut first, mut bounded, mut reversed) = (Vec::new(), Vec::new(), Vec::new());
        for pk in 0..shape.partitions {
            table.cool();
            first.push(table.read(&partition_key(pk), &full, 1).await);
            table.cool();
            bounded.push(table.read(&partition_key(pk), &table::from(shape.rows), 1).await);
            table.cool();
            let slice = Slice::full(Direction::Reversed);
            reversed.push(table.read(&partition_key(pk), &slice, 1).await);
        }
        let most = |costs: &[Cost]| {
            costs.iter().map(|cost| cost.reads.index.count).max().unwrap_or(0) as f64
        };
        let kib = median_cost(&first).reads.index.bytes / 1024;
        self.print_cost("LIMIT 1", &median_cost(&first));
        self.print_cost("LIMIT 1 from the middle on", &median_cost(&bounded));
        self.print_cost("LIMIT 1, reversed", &median_cost(&reversed));
        self.print("LIMIT 1, index, most", "I/O", most(&first), None, Target::AtMost(1.0));
        self.print("LIMIT 1, index", "KiB", kib as f64, None, Target::AtMost(4.0));

        let mut random = Random::new(3);
        let mut absent = Vec::new();
        for _ in 0..self.arguments.scale(100, 1000) {
            let pk = random.below(shape.partitions as u64) as i64;
            let ck = 2 * random.below(shape.rows as u64) as i64 + 1;
            table.cool();
            absent.push(table.read(&partition_key(pk), &point(ck), 1).await);
        }
        assert!(absent.iter().all(|cost| cost.rows == 0), "odd keys are absent");
        let data: u64 = absent.iter().map(|cost| cost.reads.data.count).sum();
        self.print_cost("absent key, dense index", &median_cost(&absent));
        let data = data as f64 / absent.len() as f64;
        self.print("absent key, dense index, data", "I/O", data, None, Target::AtMost(0.0));
    }

    /// Partitions of one row: a lookup is all index.
    async fn small(&self) {
        let shape = Shape {
            partitions: self.arguments.scale(100_000, 500_000) as i64,
            rows: 1,
            value_bytes: VALUE_BYTES,
            column_index_bytes: 64 << 10,
        };
        table::write(&self.disk, self.directory, 3, shape).await;
        let table = Table::open(&self.disk, self.directory, 3).await;
        let full = Slice::full(Direction::Forward);
        let mut random = Random::new(4);
        let (mut cold, mut hot) = (Vec::new(), Vec::new());
        for _ in 0..self.arguments.scale(201, 2001) {
            let key = partition_key(random.below(shape.partitions as u64) as i64);
            table.cool();
            cold.push(table.read(&key, &full, u64::MAX).await);
            hot.push(table.read(&key, &full, u64::MAX).await);
        }
        let (cold, hot) = (median_cost(&cold), median_cost(&hot));
        self.print_cost("small partition, cold", &cold);
        self.print_cost("small partition, hot", &hot);
        let count = cold.reads.index.count as f64;
        self.print("small partition, index, cold", "I/O", count, None, Target::AtMost(1.0));
        self.print("small partition, hot", "CPU us", hot.cpu_us, None, Target::None);
    }

    async fn last_page(&self) {
        let large = self.arguments.scale(400, 1000) as i64;
        let key = partition_key(0);
        let mut walls = Vec::new();
        for (generation, megabytes) in [(10, 10), (11, 110), (12, large)] {
            let shape = Shape {
                partitions: 1,
                rows: megabytes * 1_000_000 / ROW_BYTES,
                value_bytes: VALUE_BYTES,
                column_index_bytes: 64 << 10,
            };
            table::write(&self.disk, self.directory, generation, shape).await;
            let table = Table::open(&self.disk, self.directory, generation).await;
            let forward = Slice::full(Direction::Forward);
            let reversed = Slice::full(Direction::Reversed);
            let last_forward = table::from(2 * (shape.rows - PAGE_ROWS as i64));
            let slices =
                [("first page", forward), ("last page", reversed), ("last, forward", last_forward)];
            let mut cold = [const { Vec::new() }; 3];
            let mut hot = [const { Vec::new() }; 3];
            for _ in 0..self.arguments.scale(101, 401) {
                for (i, (_, slice)) in slices.iter().enumerate() {
                    table.cool();
                    cold[i].push(table.read(&key, slice, PAGE_ROWS).await);
                    hot[i].push(table.read(&key, slice, PAGE_ROWS).await);
                }
            }
            let cold = cold.map(|costs| median_cost(&costs));
            let hot = hot.map(|costs| median_cost(&costs));
            for (i, (name, _)) in slices.iter().enumerate() {
                self.print_cost(&format!("{name} of {megabytes} MB, cold"), &cold[i]);
                self.print_cost(&format!("{name} of {megabytes} MB, hot"), &hot[i]);
            }
            assert!(cold.iter().all(|cost| cost.rows == PAGE_ROWS), "a page has its rows");
            for (what, costs) in [("cold", &cold), ("hot", &hot)] {
                let name = format!("last page of {megabytes} MB reversed, {what}");
                let base = Some(("first page forward", costs[0].wall_us));
                self.print(name, "us", costs[1].wall_us, base, Target::RatioAtMost(1.15));
                let name = format!("last page of {megabytes} MB reversed, {what}");
                let base = Some(("the same page forward", costs[2].wall_us));
                self.print(name, "us", costs[1].wall_us, base, Target::RatioAtMost(1.15));
            }
            let peak = cold[1].allocated.peak_bytes as f64 / MIB;
            let name = format!("last page of {megabytes} MB reversed, memory");
            self.print(name, "MiB", peak, None, Target::AtMost(1.0));
            walls.push((cold[1].wall_us, hot[1].wall_us));
        }
        let name = format!("last page of {large} MB reversed, cold");
        let base = Some(("of 10 MB", walls[0].0));
        self.print(name, "us", walls[2].0, base, Target::RatioAtMost(1.2));
        let name = format!("last page of {large} MB reversed, hot");
        let base = Some(("of 10 MB", walls[0].1));
        self.print(name, "us", walls[2].1, base, Target::RatioAtMost(1.2));
    }

    async fn whole(&self) {
        let rows = self.arguments.scale(400_000, ROWS as usize) as i64;
        let mut random = Random::new(5);
        let fragments: Vec<Fragment> =
            (0..rows).map(|ck| table::row(&mut random, 2 * ck, VALUE_BYTES)).collect();
        let user_mb = rows as f64 * (VALUE_BYTES + 8) as f64 / 1e6;
        let mut rates = Vec::new();
        for generation in 20..23 {
            let below: Rc<dyn Disk> = self.disk.clone();
            let mut writer = table::writer(below, self.directory, generation, 64 << 10).await;
            let work = async {
                let key = Rc::new(partition_key(0));
                writer.push(Fragment::PartitionStart { key, deletion: None }).await.unwrap();
                for fragment in &fragments {
                    writer.push(fragment.clone()).await.unwrap();
                }
                writer.push(Fragment::PartitionEnd).await.unwrap();
                writer.finish().await.unwrap().unwrap()
            };
            let ((_, wall), cpu) = cpu_timed(timed_async(work)).await;
            rates.push((user_mb / wall.as_secs_f64(), user_mb / cpu.as_secs_f64()));
        }
        drop(fragments);
        let table = Table::open(&self.disk, self.directory, 20).await;
        let data_bytes = table.sstable.info().data_bytes;
        let limit = self.raw_write(data_bytes).await;
        let wall = median(rates.iter().map(|rate| rate.0).collect());
        let cpu = median(rates.iter().map(|rate| rate.1).collect());
        self.print(
            "flush, user data",
            "MB/s",
            wall,
            Some(("disk, written raw", limit)),
            Target::None,
        );
        self.print("flush, user data a second of CPU", "MB/s", cpu, None, Target::None);

        let mut scans = Vec::new();
        let mut raw = [Vec::new(), Vec::new()];
        for _ in 0..3 {
            let work = async {
                let full = Slice::full(Direction::Forward);
                table.rows_in(&PartitionRange::full(), &full, u64::MAX).await
            };
            let ((read, wall), cpu) = cpu_timed(timed_async(work)).await;
            assert_eq!(read as i64, rows);
            scans.push((user_mb / wall.as_secs_f64(), user_mb / cpu.as_secs_f64()));
            raw[0].push(self.raw_read(20, data_bytes, 1).await);
            raw[1].push(self.raw_read(20, data_bytes, 4).await);
        }
        let [one, four] = raw.map(median);
        let wall = median(scans.iter().map(|rate| rate.0).collect());
        let cpu = median(scans.iter().map(|rate| rate.1).collect());
        let name = "sequential read, user data";
        self.print(name, "MB/s", wall, Some(("disk, one read at a time", one)), Target::None);
        self.print(name, "MB/s", wall, Some(("disk, four at a time", four)), Target::None);
        self.print("sequential read a second of CPU", "MB/s", cpu, None, Target::None);

        let mut costs = [Vec::new(), Vec::new()];
        for _ in 0..self.arguments.scale(3, 5) {
            for (i, direction) in [Direction::Forward, Direction::Reversed].into_iter().enumerate()
            {
                table.cool();
                let slice = Slice::full(direction);
                costs[i].push(table.read(&partition_key(0), &slice, u64::MAX).await);
            }
        }
        let [forward, reversed] = costs.map(|costs| median_cost(&costs));
        assert_eq!((forward.rows as i64, reversed.rows as i64), (rows, rows));
        self.print_cost("whole partition, forward", &forward);
        self.print_cost("whole partition, reversed", &reversed);
        for (name, pick) in [
            ("whole partition reversed, wall", (|cost| cost.wall_us) as fn(&Cost) -> f64),
            ("whole partition reversed, CPU", |cost| cost.cpu_us),
        ] {
            let base = Some(("forward", pick(&forward) / rows as f64));
            let figure = pick(&reversed) / rows as f64;
            self.print(name, "us a row", figure, base, Target::RatioAtMost(1.25));
        }
    }

    /// MB/s of a file written in the pieces in which an SSTable is, and synced.
    async fn raw_write(&self, bytes: u64) -> f64 {
        let path = self.directory.join("raw");
        let work = async {
            let file = self.disk.open(&path, OpenOptions::CREATE).await.unwrap();
            let mut buffer = AlignedBuffer::padded(&vec![7; 256 << 10]);
            let mut at = 0;
            while at < bytes {
                let (result, back) = file.write_at(at, buffer).await;
                result.unwrap();
                buffer = back;
                at += buffer.len() as u64;
            }
            file.sync().await.unwrap();
        };
        let ((), wall) = timed_async(work).await;
        self.disk.remove(&path).await.unwrap();
        bytes as f64 / 1e6 / wall.as_secs_f64()
    }

    /// MB/s of a data file read in the pieces in which a scan does, so many at a time.
    async fn raw_read(&self, generation: u64, bytes: u64, at_a_time: usize) -> f64 {
        let path = Component::Data.path(self.directory, generation);
        let file = self.disk.open(&path, OpenOptions::READ).await.unwrap();
        let piece = 256_u64 << 10;
        let lane = |lane: usize| {
            let file = file.clone();
            async move {
                let mut at = lane as u64 * piece;
                while at < bytes {
                    let buffer = AlignedBuffer::with_capacity(piece as usize);
                    let (result, _) = file.read_at(at, buffer).await;
                    result.unwrap();
                    at += at_a_time as u64 * piece;
                }
            }
        };
        let (_, wall) = timed_async(join_all((0..at_a_time).map(lane))).await;
        bytes as f64 / 1e6 / wall.as_secs_f64()
    }
}

/// The figure is so many times the baseline at least.
fn ratio(bound: f64) -> Target {
    Target::RatioAtLeast(bound)
}
