//! Mixed reads and writes on a disk that fails, stalls and gives half of what was asked, with less
//! memory than they want: each read is right or says what was wrong, and nothing is left of any.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::admission::{LevelId, LevelOptions, LevelStatus, Workload};
use crate::clock::{Deadline, Random, SimulatedClock};
use crate::database::tests::faults::run;
use crate::disk::{Faults, SimulatedDisk};
use crate::error::Error;
use crate::runtime::{ShardContext, SimulatedTimer};

const SEEDS: u64 = 12;
const PARTITIONS: usize = 12;
/// Rows of each partition when the clients begin.
const ROWS: i32 = 500;
const CLIENTS: u64 = 48;
const STEPS: usize = 25;

/// What happened, so that the test shows that it met what it is about.
#[derive(Debug, Default)]
struct Seen {
    whole: Cell<u32>,
    dropped: Cell<u32>,
    failed: Cell<u32>,
    late: Cell<u32>,
    refused: Cell<u32>,
    killed: Cell<u32>,
    written: Cell<u32>,
}

fn add(count: &Cell<u32>) {
    count.set(count.get() + 1);
}

struct World {
    database: Database,
    schema: SchemaRef,
    clock: std::sync::Arc<SimulatedClock>,
    levels: Vec<LevelId>,
    /// Rows of each partition that are written, and those that are about to be.
    written: RefCell<[(i32, i32); PARTITIONS]>,
    seen: Seen,
}

fn name(partition: usize) -> String {
    format!("p{partition}")
}

/// What every row holds, so that a row of another partition is noticed.
fn value(partition: usize, at: i32) -> i64 {
    partition as i64 * 1_000_000 + i64::from(at)
}

async fn open(disk: &SimulatedDisk, seed: u64) -> World {
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let (timer, _) = SimulatedTimer::passing(clock.clone(), 3);
    let contexts = (0..2).map(|shard| {
        let (clock, timer) = (clock.clone(), Rc::new(timer.clone()));
        ShardContext::new((shard, 2), disk.shared(), clock, timer, seed)
    });
    let options = Options {
        // Most of what is read comes from the disk, and some reads find no memory.
        cache_bytes: 8 << 10,
        read_memory_bytes: 16 << 10,
        clock: clock.clone(),
        seed,
        ..Options::new(Path::new("/db"))
    };
    let database = Database::open_local(options, contexts.collect()).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    let level = |timeout_ms, workload, shares| LevelOptions {
        timeout_ms,
        workload: Some(workload),
        shares: Some(shares),
    };
    for (name, options) in [
        ("fast", level(Some(50), Workload::Interactive, 1000)),
        ("bulk", level(None, Workload::Batch, 100)),
    ] {
        database.create_service_level(name, options, false).await.unwrap();
    }
    let catalog = database.catalog();
    let levels = catalog.service_levels().map(|(_, level)| level.id).collect();
    let written = RefCell::new([(0, 0); PARTITIONS]);
    World { database, schema, clock, levels, written, seen: Seen::default() }
}

impl World {
    async fn write(&self, partition: usize) {
        let at = {
            let (_, begun) = &mut self.written.borrow_mut()[partition];
            *begun += 1;
            *begun - 1
        };
        let row = insert(&self.schema, &name(partition), at, value(partition, at), 1);
        self.database.apply(row).await.unwrap();
        self.written.borrow_mut()[partition].0 += 1;
        add(&self.seen.written);
    }

    /// One read that is taken to its end, or up to some batch.
    async fn read(&self, random: &mut Random) {
        let partition = random.below(PARTITIONS as u64) as usize;
        let direction = [Direction::Forward, Direction::Reversed][random.below(2) as usize];
        let within = Duration::from_millis(1 + random.below(60));
        let deadline = random.one_in(2).then(|| Deadline::after(within, &*self.clock));
        let limit = random.one_in(3).then(|| 1 + random.below(400) as usize);
        let level = self.levels[random.below(self.levels.len() as u64) as usize];
        let slice = Slice::full(direction);
        let read = read_of(&self.schema, &name(partition), slice, limit);
        let past_cache = random.one_in(4);
        let (least, _) = self.written.borrow()[partition];
        let mut stream = self.database.read(ReadCommand { deadline, level, past_cache, ..read });
        let takes = random.one_in(4).then(|| random.below(3) as usize);
        let mut found: Vec<i64> = Vec::new();
        for taken in 0.. {
            if takes == Some(taken) {
                return add(&self.seen.dropped);
            }
            match stream.next().await {
                Some(Ok(batch)) => found.extend((0..batch.num_rows()).map(|row| {
                    match crate::batch::value_at(batch.column(0), row, &DataType::BigInt) {
                        Ok(Some(Value::BigInt(value))) => value,
                        other => panic!("no bigint: {other:?}"),
                    }
                })),
                Some(Err(error)) => return self.note(&error),
                None => break,
            }
            // A client that takes its time.
            for _ in 0..random.below(20) {
                tokio::task::yield_now().await;
            }
        }
        add(&self.seen.whole);
        let (_, most) = self.written.borrow()[partition];
        if direction == Direction::Reversed {
            found.reverse();
        }
        let limit = limit.map_or(i32::MAX, |limit| limit as i32);
        let count = found.len() as i32;
        assert!(
            (least.min(limit)..=most.min(limit)).contains(&count),
            "{count} of {least}..{most}"
        );
        // Rows of one read are neighbours: from the first one on, or up to the last one.
        let first = found.first().map_or(0, |first| first - value(partition, 0));
        assert!(direction == Direction::Reversed || first == 0, "the first is row {first}");
        let wanted = (0..i64::from(count)).map(|at| value(partition, 0) + first + at);
        let is_gap = |(found, wanted): (&i64, i64)| *found != wanted;
        // Writes of one partition may end in another order than they began.
        let gaps = found.iter().zip(wanted).filter(|pair| is_gap(*pair)).count();
        let open = (most - least).unsigned_abs() as usize;
        assert!(gaps == 0 || open > 0, "{found:?}");
        assert!(found.is_sorted() && found.iter().all(|found| self.is_of(partition, *found)));
    }

    fn is_of(&self, partition: usize, found: i64) -> bool {
        let (_, begun) = self.written.borrow()[partition];
        (value(partition, 0)..value(partition, begun)).contains(&found)
    }

    fn note(&self, error: &Error) {
        let seen = &self.seen;
        match error {
            Error::Io { .. } => add(&seen.failed),
            Error::Timeout { .. } => add(&seen.late),
            Error::Overloaded(_) => add(&seen.refused),
            Error::Unavailable(told) if told.contains("KILL READ") => add(&seen.killed),
            other => panic!("a read ended with: {other}"),
        }
    }

    async fn kill_one(&self, random: &mut Random) {
        let reads = self.database.reads_report().await.unwrap();
        if reads.is_empty() {
            return;
        }
        let number = reads[random.below(reads.len() as u64) as usize].number;
        match self.database.kill_read(number).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(other) => panic!("killing read {number}: {other}"),
        }
    }

    async fn client(&self, seed: u64) {
        let mut random = Random::new(seed);
        for _ in 0..STEPS {
            match random.below(20) {
                0..16 => self.read(&mut random).await,
                16..19 => self.write(random.below(PARTITIONS as u64) as usize).await,
                _ => self.kill_one(&mut random).await,
            }
        }
    }

    /// Nobody holds anything any more, and everybody gets in.
    async fn check_end(&self, what: &str) {
        assert!(self.database.reads_report().await.unwrap().is_empty(), "{what}: reads are left");
        for (name, _, status) in self.database.service_level_report().await.unwrap() {
            let LevelStatus { running, queued, aside, memory_bytes, .. } = status;
            let held = (running, queued, aside, memory_bytes);
            assert_eq!(held, (0, 0, 0, 0), "{what}: level {name} holds something");
        }
        for level in &self.levels {
            for partition in 0..PARTITIONS {
                let slice = Slice::full(Direction::Forward);
                let read = read_of(&self.schema, &name(partition), slice, None);
                let found = values(&self.database, ReadCommand { level: *level, ..read }).await;
                let (written, _) = self.written.borrow()[partition];
                let wanted = (0..written).map(|at| value(partition, at));
                assert!(found.iter().copied().eq(wanted), "{what}: partition {partition}");
            }
        }
    }
}

#[test]
fn mixed_load_on_a_bad_disk_is_right_or_says_why_and_leaves_nothing() {
    let total = Seen::default();
    for seed in 0..SEEDS {
        run(async {
            let disk = SimulatedDisk::new(seed);
            let world = Rc::new(open(&disk, seed).await);
            for partition in 0..PARTITIONS {
                for _ in 0..ROWS {
                    world.write(partition).await;
                }
            }
            world.database.flush(None).await.unwrap();
            let faults = Faults {
                read_error_one_in: 400,
                short_one_in: 4,
                stall_one_in: 60,
                delay_turns_max: 8,
                ..Faults::default()
            };
            disk.set_faults(faults);
            let client = |number| {
                let world = world.clone();
                tokio::task::spawn_local(async move { world.client(seed * 1000 + number).await })
            };
            for client in (0..CLIENTS).map(client).collect::<Vec<_>>() {
                client.await.unwrap();
            }
            disk.set_faults(Faults::default());
            world.database.flush(None).await.unwrap();
            world.check_end(&format!("seed {seed}")).await;
            let seen = &world.seen;
            for (of, count) in [
                (&total.whole, &seen.whole),
                (&total.dropped, &seen.dropped),
                (&total.failed, &seen.failed),
                (&total.late, &seen.late),
                (&total.refused, &seen.refused),
                (&total.killed, &seen.killed),
                (&total.written, &seen.written),
            ] {
                of.set(of.get() + count.get());
            }
            world.database.close().await.unwrap();
        });
    }
    let met = [&total.whole, &total.dropped, &total.failed, &total.late, &total.killed];
    assert!(met.iter().all(|count| count.get() > 5), "{total:?}");
    assert!(total.refused.get() > 0, "{total:?}");
}
