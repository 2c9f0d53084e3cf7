//! Random writes, reads, flushes, compactions, faults, restarts and power cuts against a reference.
//!
//! Each seed plays several lives of one database of two tables on one simulated disk. What was
//! acknowledged must be there after whatever happened; what was under way when the power went may
//! be there, whole. Where no fault was on in a life, nothing may fail; faults come while the
//! database opens and closes, too, and at the end of some plays a bit of a file turns.
//! `TIDEGATE_SEEDS=from..to` plays other seeds, `TIDEGATE_SEEDS=n` replays one.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "model/batch.rs"]
mod batch;
#[path = "model/conditional.rs"]
mod conditional;
#[path = "model/damage.rs"]
mod damage;
#[path = "model/day.rs"]
mod day;
#[path = "model/reference.rs"]
mod reference;
#[path = "seeds.rs"]
mod seeds;
#[path = "model/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tidegate_engine::clock::{Random, SimulatedClock};
use tidegate_engine::compaction::Reason;
use tidegate_engine::disk::{Counters, Faults, SimulatedDisk};
use tidegate_engine::{
    CompactionClass, CompactionEnd, CompactionRecord, Database, Direction, Durability, Error,
    Result,
};
use tokio::task::LocalSet;

use reference::{Bound, Change, Elements, Key, Put, Range, Reference, Seen, Write, differ};
use world::{Life, PARTITIONS, Tables, now};

const SEEDS: u64 = 600;
/// Values of each clustering column.
const VALUES: u64 = 8;
const LIVES: u64 = 4;
const STEPS_MAX: u64 = 40;
const MS: u64 = 1000;
/// Longer than a play.
const GRACE_LONG: i32 = 864_000;
/// Values of the first clustering column where partitions are large: more rows than a leaf of the
/// row cache or of an index page takes.
const VALUES_MANY: u64 = 40;

/// What became of the seeds, to see that a run met what it is meant to meet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Met {
    acknowledged: u64,
    refused: u64,
    /// Batches of several partitions that were told to be done, and of those that were not told the
    /// ones that were there at the next start, and that were not.
    batches: u64,
    batches_survived: u64,
    batches_vanished: u64,
    /// Conditional writes that were done, and that were not.
    applied: u64,
    not_applied: u64,
    reads: u64,
    power_cuts: u64,
    restarts: u64,
    /// Writes under way at a power cut that were there afterwards, and that were not.
    survived: u64,
    vanished: u64,
    /// Opens that a fault made fail, and those that it did not.
    failed_opens: u64,
    faulty_opens: u64,
    tables_made: u64,
    /// Times at which columns went and came back.
    emptied: u64,
    compactions: u64,
    /// Those of tables of runs.
    merges_of_runs: u64,
    /// SSTables of another number of shards that were rewritten.
    resharded: u64,
    large_writes: u64,
    equal_timestamps: u64,
    /// Changes of maps, and those that write a whole one.
    elements: u64,
    whole_maps: u64,
    /// Reads of files with a turned bit that were refused, and those that were right.
    damage_told: u64,
    damage_passed: u64,
    disk: (u64, u64, u64),
}

struct Player {
    random: Random,
    clock: Arc<SimulatedClock>,
    disk: SimulatedDisk,
    reference: Reference,
    /// Writes that were refused or under way: there after the next start or not.
    unsure: BTreeMap<i32, Vec<Write>>,
    writes: i64,
    /// No later write is as old as this one.
    floor: i64,
    /// Timestamp of the last write, and when it came.
    last_timestamp: i64,
    last_second: i32,
    /// Whether a write that is drawn must not be older than any before it.
    is_punctual: bool,
    raised: conditional::Raised,
    /// Seconds for which tombstones are kept. Where that is short no write comes late: it could be
    /// older than what was purged.
    grace: i32,
    /// Of all tables.
    strategy: CompactionClass,
    /// Values of the first clustering column.
    values: u64,
    /// Part of a refused batch may be visible: only the next start tells which.
    is_unclear: bool,
    /// Whether operations of the disk fail at present.
    is_faulty: bool,
    /// Whether none failed on purpose in this life.
    is_clean: bool,
    tables_made: u64,
    met: Met,
}

enum End {
    Restart,
    PowerCut,
}

impl Player {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let values = if random.one_in(16) { VALUES_MANY } else { VALUES };
        let grace = if random.one_in(2) { GRACE_LONG } else { random.below(20) as i32 };
        Player {
            disk: SimulatedDisk::new(random.next_u64()),
            random,
            clock: SimulatedClock::new(1_700_000_000_000_000),
            reference: Reference::default(),
            unsure: BTreeMap::new(),
            writes: 0,
            floor: 0,
            last_timestamp: 0,
            last_second: 0,
            is_punctual: false,
            raised: conditional::Raised::new(),
            grace,
            strategy: CompactionClass::ALL[seed as usize % CompactionClass::ALL.len()],
            values,
            is_unclear: false,
            is_faulty: false,
            is_clean: true,
            tables_made: 0,
            met: Met::default(),
        }
    }

    /// What tables keep, and how they are merged.
    fn keeping(&self) -> (i32, CompactionClass) {
        (self.grace, self.strategy)
    }

    fn play(mut self) -> Met {
        // Acknowledged means on disk: only then does a power cut lose nothing.
        let is_sync = !self.random.one_in(4);
        let durability = if is_sync { Durability::Sync } else { Durability::None };
        for _ in 0..LIVES {
            if is_sync && self.random.one_in(3) {
                self.open_under_faults(durability);
            }
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let keeping = self.keeping();
            let life = Life::draw(&mut self.random, durability, keeping);
            let local = LocalSet::new();
            let end = local.block_on(&runtime, self.live(life));
            self.end(end, local);
        }
        match self.random.below(4) {
            0 if is_sync => self.turn_a_bit(durability),
            1 if is_sync => self.lie(durability),
            _ => {}
        }
        self.met
    }

    /// The disk as the next life finds it.
    fn end(&mut self, end: End, local: LocalSet) {
        let next = match end {
            End::Restart => {
                self.met.restarts += 1;
                self.disk.clone()
            }
            End::PowerCut => {
                self.met.power_cuts += 1;
                self.disk.power_cut()
            }
        };
        self.count(self.disk.counters());
        // Tasks of the life that ended see a dead disk, or none at all.
        drop(local);
        self.disk = next;
        self.set_faults(Faults { delay_turns_max: 4, ..Faults::default() });
        self.is_clean = true;
    }

    fn set_faults(&mut self, faults: Faults) {
        let harmless = Faults { delay_turns_max: faults.delay_turns_max, ..Faults::default() };
        self.is_faulty = faults != harmless;
        self.is_clean &= !self.is_faulty;
        self.disk.set_faults(faults);
    }

    /// Opens the database while the disk fails, and closes it, or stops in the middle.
    fn open_under_faults(&mut self, durability: Durability) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let keeping = self.keeping();
        let life = Life::draw(&mut self.random, durability, keeping);
        let local = LocalSet::new();
        self.draw_faults();
        self.met.faulty_opens += 1;
        let turns = self.random.one_in(3).then(|| self.random.below(2000));
        let (disk, clock) = (self.disk.clone(), self.clock.clone());
        let is_open = local.block_on(&runtime, async move {
            let open = tokio::task::spawn_local(async move {
                let (database, _) = world::open(&disk, &clock, life).await?;
                // With a fault on, closing may say that something could not be written.
                let _ = database.close().await;
                Ok::<(), Error>(())
            });
            match turns {
                Some(turns) => {
                    for _ in 0..turns {
                        tokio::task::yield_now().await;
                    }
                    None
                }
                None => Some(open.await.unwrap().is_ok()),
            }
        });
        self.met.failed_opens += u64::from(is_open == Some(false));
        let end = if is_open.is_none() { End::PowerCut } else { End::Restart };
        self.end(end, local);
    }

    fn count(&mut self, counters: Counters) {
        self.met.disk.0 += counters.reads;
        self.met.disk.1 += counters.writes;
        self.met.disk.2 += counters.syncs;
    }

    async fn live(&mut self, life: Life) -> End {
        let may_cut = life.durability == Durability::Sync;
        let opened = world::open(&self.disk, &self.clock, life).await;
        let (database, mut tables) =
            opened.expect("a database opens after whatever happened to it");
        self.settle(&database, &tables).await;
        let steps = self.random.below(STEPS_MAX);
        for _ in 0..steps {
            self.step(&database, &mut tables, may_cut).await;
            if std::mem::take(&mut self.is_unclear) {
                break;
            }
        }
        let ended = database.compaction_history().await.unwrap();
        let is_of_other = |record: &&CompactionRecord| {
            record.reason == Reason::Reshard && record.end == CompactionEnd::Done
        };
        self.met.resharded += ended.iter().filter(is_of_other).count() as u64;
        if may_cut && self.random.one_in(2) {
            self.cut_while_busy(&database, &tables).await;
            return End::PowerCut;
        }
        if may_cut && self.random.one_in(4) {
            self.draw_faults();
        } else {
            self.set_faults(Faults::default());
        }
        // After a failed sync the log is closed to writes, and closing says so.
        let closed = database.close().await;
        self.succeeds("close", &closed);
        End::Restart
    }

    /// Reads fail while a fault is on, and not for what is past.
    fn may_fail(&self, what: &str, error: &Error) {
        assert!(self.is_faulty, "{what}, without a fault at present: {error}");
    }

    /// Where no fault was on in this life, nothing fails.
    fn succeeds<T>(&self, what: &str, result: &Result<T>) {
        if let Err(error) = result {
            assert!(!self.is_clean, "{what}, without any fault: {error}");
        }
    }

    async fn step(&mut self, database: &Database, tables: &mut Tables, may_fail: bool) {
        match self.random.below(20) {
            0..7 => self.write(database, tables).await,
            7 => self.write_batch(database, tables).await,
            8..10 => self.write_if(database, tables).await,
            10..15 => self.read(database, tables).await,
            15 => self.scan(database, tables).await,
            16 => self.flush(database).await,
            17 if self.random.one_in(3) => database.invalidate_cache(None).await.unwrap(),
            17 if self.random.one_in(3) => self.make_and_drop(database, tables).await,
            17 => self.clock.advance(Duration::from_secs(self.random.below(30))),
            18 if self.random.one_in(2) => self.compact(database, tables).await,
            18 if may_fail => self.draw_faults(),
            _ => self.set_faults(Faults::default()),
        }
    }

    async fn flush(&mut self, database: &Database) {
        if self.random.one_in(3) {
            // Refused when the disk is full or broken; the memtables stay.
            let flushed = database.flush(None).await;
            self.succeeds("flush", &flushed);
            return;
        }
        // Reads and writes meet it at every place where it lets others run.
        let database = database.clone();
        let is_clean = self.is_clean;
        drop(tokio::task::spawn_local(async move {
            match database.flush(None).await {
                // A fault may have come meanwhile; then the next step says so.
                Ok(()) | Err(Error::Closed | Error::Io { .. } | Error::Poisoned { .. }) => {}
                Err(error) => assert!(!is_clean, "flush, without any fault: {error}"),
            }
        }));
    }

    /// Merges all SSTables of a table, while others go on or not.
    async fn compact(&mut self, database: &Database, tables: &Tables) {
        let id = tables.of(self.random.below(2 * PARTITIONS as u64) as i32).id;
        let (database, is_clean) = (database.clone(), self.is_clean);
        let compact = async move { database.compact(id).await };
        if self.random.one_in(2) {
            let compacted = compact.await;
            self.succeeds("compact", &compacted);
            self.met.compactions += u64::from(compacted.is_ok());
            let is_of_runs = self.strategy == CompactionClass::Incremental;
            self.met.merges_of_runs += u64::from(compacted.is_ok() && is_of_runs);
            return;
        }
        drop(tokio::task::spawn_local(async move {
            // Its table may be dropped, the database closed, and a fault have come meanwhile.
            let damage = compact.await.err().filter(|error| matches!(error, Error::Corrupt(_)));
            assert!(damage.is_none() || !is_clean, "compact, without any fault: {damage:?}");
        }));
    }

    /// Changes of the catalog while reads and writes go on: a table comes and goes, and the second
    /// table is made anew or truncated.
    async fn make_and_drop(&mut self, database: &Database, tables: &mut Tables) {
        self.tables_made += 1;
        self.met.tables_made += 1;
        let name = format!("x{}", self.tables_made);
        let (other, keeping) = (database.clone(), self.keeping());
        let change = async move {
            let made = other.create_table(world::definition(&name, keeping), false).await?;
            other.flush(Some(made.id)).await?;
            other.drop_table("default", &name, false).await
        };
        let (changed, ()) = futures::join!(change, async {
            for _ in 0..3 {
                self.write(database, tables).await;
                if self.is_unclear {
                    break;
                }
                self.read(database, tables).await;
            }
        });
        self.succeeds("a change of the catalog", &changed);
        // Whether a change was made that failed, nobody knows before the next start.
        if self.is_clean && self.random.one_in(2) {
            self.empty_columns(database, tables).await;
        }
        if !self.is_clean || !self.random.one_in(3) {
            return;
        }
        let made = match self.random.one_in(2) {
            true => database.truncate_table("default", world::SECOND).await,
            false => {
                database.drop_table("default", world::SECOND, false).await.unwrap();
                let second = world::definition(world::SECOND, self.keeping());
                database.create_table(second, false).await
            }
        };
        self.reference.writes.retain(|partition, _| *partition < PARTITIONS);
        self.unsure.retain(|partition, _| *partition < PARTITIONS);
        tables.replace_second(made.unwrap());
    }

    /// Drops columns of a table and adds them again, beside whatever goes on: what was written to
    /// them is gone.
    async fn empty_columns(&mut self, database: &Database, tables: &mut Tables) {
        // Later writes are newer.
        self.floor = self.writes;
        self.last_second = 0;
        let at = self.floor * MS as i64 * 1000 + self.floor;
        let is_second = self.random.one_in(2);
        let columns: &[&str] = match self.random.below(4) {
            0 => &["v"],
            1 => &["m"],
            2 => &["s", "m"],
            _ => &["w", "v"],
        };
        world::empty_columns(database, tables, is_second, (columns, at)).await;
        self.met.emptied += 1;
        let is_of = |partition: i32| (partition >= PARTITIONS) == is_second;
        let unsure = self.unsure.iter_mut().chain(&mut self.reference.writes);
        for (_, writes) in unsure.filter(|(partition, _)| is_of(**partition)) {
            // A conditional write may be newer than that.
            let old = writes.iter_mut().filter(|write| write.timestamp <= at);
            old.for_each(|write| write.empty_columns(columns));
        }
    }

    fn draw_faults(&mut self) {
        let mut faults = Faults { delay_turns_max: 1 << self.random.below(6), ..Faults::default() };
        match self.random.below(10) {
            0 => faults.read_error_one_in = 1 + self.random.below(20),
            1 => faults.write_error_one_in = 20 + self.random.below(100),
            2 => faults.sync_error_one_in = 20 + self.random.below(100),
            3 => faults.capacity_bytes = Some(self.random.below(1 << 20)),
            4 => faults.open_files_max = Some(self.random.below(60)),
            5 => faults.name_error_one_in = 1 + self.random.below(20),
            6 => faults.stall_one_in = 20 + self.random.below(200),
            7 => faults.short_one_in = 1 + self.random.below(3),
            _ => {}
        }
        self.set_faults(faults);
    }

    /// Some writes at the same time.
    async fn write(&mut self, database: &Database, tables: &Tables) {
        let writes: Vec<Write> = (0..1 + self.random.below(4)).map(|_| self.draw_write()).collect();
        let mutations = writes.iter().map(|write| world::mutation(tables, write));
        if self.random.one_in(3) {
            let result = database.apply_many(mutations.collect()).await;
            self.is_unclear |= result.is_err();
            for write in writes {
                self.told(write, &result);
            }
        } else {
            let results = join_all(mutations.map(|mutation| database.apply(mutation))).await;
            for (write, result) in writes.into_iter().zip(results) {
                self.told(write, &result);
            }
        }
    }

    /// The engine said that a write is done, or that it is not.
    fn told(&mut self, write: Write, result: &Result<()>) {
        self.succeeds("write", result);
        if result.is_ok() {
            self.met.acknowledged += 1;
            self.reference.add(write);
        } else {
            self.met.refused += 1;
            self.unsure.entry(write.partition).or_default().push(write);
        }
    }

    /// Leaves writes, and perhaps a flush, under way.
    async fn cut_while_busy(&mut self, database: &Database, tables: &Tables) {
        for _ in 0..self.random.below(4) {
            let write = self.draw_write();
            let (database, mutation) = (database.clone(), world::mutation(tables, &write));
            self.unsure.entry(write.partition).or_default().push(write);
            tokio::task::spawn_local(async move {
                let _ = database.apply(mutation).await;
            });
        }
        if self.random.one_in(3) {
            self.leave_batch(database, tables);
        }
        // Drawn last, so that it meets nothing newer.
        if self.raised.is_empty() && self.random.one_in(2) {
            let partition = self.random.below(2 * PARTITIONS as u64) as i32;
            let conditional = self.draw_conditional(partition);
            let (database, tables) = (database.clone(), tables.clone());
            self.unsure.entry(partition).or_default().push(conditional.write.clone());
            tokio::task::spawn_local(async move {
                let _ = world::write_if(&database, &tables, &conditional).await;
            });
        }
        if self.random.one_in(2) {
            let database = database.clone();
            tokio::task::spawn_local(async move {
                let _ = database.flush(None).await;
            });
        }
        for _ in 0..self.random.below(200) {
            tokio::task::yield_now().await;
        }
    }

    async fn read(&mut self, database: &Database, tables: &Tables) {
        let partition = self.random.below(2 * PARTITIONS as u64) as i32;
        let ranges = match self.random.below(3) {
            0 => vec![Range::FULL],
            1 => vec![self.draw_range()],
            _ => {
                // Disjoint and in order, as a slice wants them.
                let mut values: Vec<i32> = (0..4).map(|_| self.value()).collect();
                values.sort_unstable();
                values.dedup();
                let one = |a| Bound { a: Some(a), b: None, is_after: false };
                values
                    .iter()
                    .map(|a| Range { start: one(*a), end: Bound { is_after: true, ..one(*a) } })
                    .collect()
            }
        };
        let direction =
            if self.random.one_in(2) { Direction::Forward } else { Direction::Reversed };
        let limit = self.random.one_in(3).then(|| self.random.below(10) as usize);
        let past_cache = self.random.one_in(6);
        let before = now(&self.clock);
        let options = (limit, past_cache);
        let read = world::read(database, tables, partition, (&ranges, direction), options).await;
        // A fault of the disk is told; a wrong answer is never given.
        let Ok(found) = read.inspect_err(|error| self.may_fail("read", error)) else { return };
        let expected = |now| {
            let mut rows = self.reference.read(partition, &ranges, now);
            if direction == Direction::Reversed {
                rows.reverse();
            }
            rows.truncate(limit.unwrap_or(usize::MAX));
            rows
        };
        let (is_right, wanted) = any_like((before..=now(&self.clock)).map(expected), &found);
        if !is_right {
            differ(&format!("{partition}, {ranges:?} {direction:?} {limit:?}"), &found, &wanted);
        }
        self.met.reads += 1;
    }

    async fn scan(&mut self, database: &Database, tables: &Tables) {
        let direction =
            if self.random.one_in(2) { Direction::Forward } else { Direction::Reversed };
        let before = now(&self.clock);
        let scan = world::scan(database, tables, direction).await;
        let Ok(found) = scan.inspect_err(|error| self.may_fail("scan", error)) else { return };
        let mut partitions: BTreeMap<i32, Vec<Seen>> = BTreeMap::new();
        let mut last = None;
        for (partition, row) in found {
            let is_new = last.replace(partition) != Some(partition);
            let rows = partitions.entry(partition).or_default();
            assert!(!is_new || rows.is_empty(), "partition {partition} comes twice");
            rows.push(row);
        }
        let mut expected: BTreeMap<i32, Vec<Seen>> = BTreeMap::new();
        for partition in self.reference.partitions() {
            let found = partitions.get(&partition).map_or(&[][..], Vec::as_slice);
            let rows = |now| {
                let mut rows = self.reference.read(partition, &[Range::FULL], now);
                if direction == Direction::Reversed {
                    rows.reverse();
                }
                rows
            };
            // Each shard has its own moment.
            let rows = (before..=now(&self.clock)).map(rows);
            let (_, rows) = any_like(rows, found);
            if !rows.is_empty() {
                expected.insert(partition, rows);
            }
        }
        if partitions != expected {
            let flat = |all: BTreeMap<i32, Vec<Seen>>| -> Vec<(i32, Seen)> {
                all.into_iter()
                    .flat_map(|(p, rows)| rows.into_iter().map(move |r| (p, r)))
                    .collect()
            };
            differ(&format!("scan {direction:?}"), &flat(partitions), &flat(expected));
        }
        self.met.reads += 1;
    }

    fn value(&mut self) -> i32 {
        self.random.below(VALUES) as i32
    }

    fn first_value(&mut self) -> i32 {
        self.random.below(self.values) as i32
    }

    fn draw_key(&mut self) -> Key {
        Key { a: self.first_value(), b: self.value() }
    }

    /// An interval of clustering keys, never empty.
    fn draw_range(&mut self) -> Range {
        let (low, high) = (self.first_value(), self.first_value());
        let (low, high) = (low.min(high), low.max(high));
        let bound = |a, is_after| Bound { a: Some(a), b: None, is_after };
        let exact = |a, b, is_after| Bound { a: Some(a), b: Some(b), is_after };
        match self.random.below(5) {
            0 => Range { start: bound(low, false), end: bound(high, true) },
            1 => Range { start: bound(low, false), end: Bound::END },
            2 => Range { start: Bound::START, end: bound(high, true) },
            // `b` descends: the greater value stands first.
            3 => {
                let (b, c) = (self.value(), self.value());
                Range { start: exact(low, b.max(c), false), end: exact(low, b.min(c), true) }
            }
            _ => Range { start: exact(low, self.value(), true), end: bound(high + 1, false) },
        }
    }

    fn draw_expiry(&mut self) -> Option<(i32, i32)> {
        let ttl = 1 + self.random.below(60) as i32;
        self.random.one_in(5).then(|| (now(&self.clock) + ttl, ttl))
    }

    fn draw_put<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Put<T> {
        if self.random.one_in(6) {
            return Put { value: None, expiry: None };
        }
        let expiry = self.draw_expiry();
        Put { value: Some(value(self)), expiry }
    }

    fn draw_text(&mut self) -> String {
        let length = 1_usize << self.random.below(9);
        format!("{:x}", self.random.next_u64()).repeat(length.div_ceil(16))
    }

    /// Changes of a map, of few keys, so that they meet.
    fn draw_elements(&mut self) -> Elements {
        let replaces = self.random.one_in(3);
        self.met.whole_maps += u64::from(replaces);
        let first = self.random.below(VALUES) as i32;
        let puts = (0..self.random.below(4) as i32)
            .map(|i| {
                let key = (first + 3 * i) % VALUES as i32;
                (key, self.draw_put(|player| player.random.below(100) as i32))
            })
            .collect();
        self.met.elements += 1;
        Elements { replaces, puts }
    }

    fn draw_write(&mut self) -> Write {
        self.writes += 1;
        // Some writes come late: their timestamps are older than those of earlier writes.
        let may_be_late = self.grace == GRACE_LONG && !self.is_punctual;
        let late =
            if may_be_late && self.random.one_in(5) { self.random.below(40) as i64 } else { 0 };
        let late = late.min(self.writes - self.floor - 1);
        let mut timestamp = (self.writes - late) * MS as i64 * 1000 + self.writes;
        // Two writes at one moment are told apart by what they say.
        // Later the first may be past its time, and a tombstone in an SSTable.
        let is_same_second = may_be_late && self.last_second == now(&self.clock);
        let is_above = self.last_timestamp > self.floor * MS as i64 * 1000;
        if self.random.one_in(8) && is_same_second && is_above {
            timestamp = self.last_timestamp;
            self.met.equal_timestamps += 1;
        }
        (self.last_timestamp, self.last_second) = (timestamp, now(&self.clock));
        let mut changes = Vec::new();
        match self.random.below(20) {
            0 => changes.push(Change::DeletePartition),
            1..4 => changes.push(Change::DeleteRange(self.draw_range())),
            4 => changes.push(Change::DeleteRow(self.draw_key())),
            5 => changes.push(Change::Static(self.draw_put(Self::draw_text))),
            _ => {
                let first = self.draw_key();
                let is_large = self.values == VALUES_MANY && self.random.one_in(4);
                self.met.large_writes += u64::from(is_large);
                let rows =
                    if is_large { 60 + self.random.below(140) } else { 1 + self.random.below(4) };
                for i in 0..rows as i32 {
                    // Different rows: one write gives a cell one value.
                    let b = first.b + i;
                    let a = (first.a + b / VALUES as i32) % self.values as i32;
                    let key = Key { a, b: b % VALUES as i32 };
                    let put =
                        |player: &mut Self| Some(player.draw_put(|p| p.random.next_u64() as i64));
                    let v = if self.random.one_in(4) { None } else { put(self) };
                    let w = if self.random.one_in(2) {
                        None
                    } else {
                        Some(self.draw_put(Self::draw_text))
                    };
                    let m = self.random.one_in(3).then(|| self.draw_elements());
                    let insert = self.random.one_in(2);
                    let expiry = self.draw_expiry();
                    changes.push(Change::Row { key, insert, expiry, v, w, m });
                }
                if self.random.one_in(10) {
                    changes.push(Change::Static(self.draw_put(Self::draw_text)));
                }
            }
        }
        let partition = self.random.below(2 * PARTITIONS as u64) as i32;
        Write { partition, timestamp, now: now(&self.clock), changes, is_batched: false }
    }
}

/// Whether a read that takes some time shows one of these states of its partition, and that one; or
/// the last.
fn any_like(states: impl Iterator<Item = Vec<Seen>>, found: &[Seen]) -> (bool, Vec<Seen>) {
    let mut last = Vec::new();
    for state in states {
        if state == found {
            return (true, state);
        }
        last = state;
    }
    (false, last)
}

#[test]
fn what_was_acknowledged_survives_everything() {
    let played = seeds::play(seeds::of("TIDEGATE_SEEDS", SEEDS), |seed| {
        let _name = NameOnPanic(seed);
        Player::new(seed).play()
    });
    let sum = |field: fn(&Met) -> u64| played.iter().map(field).sum::<u64>();
    let met = [
        ("acknowledged", sum(|met| met.acknowledged)),
        ("refused", sum(|met| met.refused)),
        ("batches", sum(|met| met.batches)),
        ("batches survived", sum(|met| met.batches_survived)),
        ("batches vanished", sum(|met| met.batches_vanished)),
        ("applied", sum(|met| met.applied)),
        ("not applied", sum(|met| met.not_applied)),
        ("reads", sum(|met| met.reads)),
        ("power cuts", sum(|met| met.power_cuts)),
        ("restarts", sum(|met| met.restarts)),
        ("survived", sum(|met| met.survived)),
        ("vanished", sum(|met| met.vanished)),
        ("opens that failed", sum(|met| met.failed_opens)),
        ("opens under faults", sum(|met| met.faulty_opens)),
        ("tables made and dropped", sum(|met| met.tables_made)),
        ("columns emptied", sum(|met| met.emptied)),
        ("compactions", sum(|met| met.compactions)),
        ("merges of runs", sum(|met| met.merges_of_runs)),
        ("SSTables of another shard count", sum(|met| met.resharded)),
        ("writes of many rows", sum(|met| met.large_writes)),
        ("equal timestamps", sum(|met| met.equal_timestamps)),
        ("changes of maps", sum(|met| met.elements)),
        ("whole maps", sum(|met| met.whole_maps)),
        ("damage told", sum(|met| met.damage_told)),
        ("reads beside damage", sum(|met| met.damage_passed)),
    ];
    println!("{} seeds: {met:?}", played.len());
    if played.len() as u64 >= SEEDS {
        for (what, count) in met {
            // Most faults stop one table, and not the open.
            let least = match what {
                "opens that failed" => 20,
                "batches survived" | "batches vanished" => 10,
                _ => 100,
            };
            assert!(count > least, "only {count} {what}: the play does not meet what it is for");
        }
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in [3, 14, 159] {
        assert_eq!(Player::new(seed).play(), Player::new(seed).play(), "seed {seed}");
    }
}

/// Rows live for an hour, and what expired stays for ten minutes: from the third hour on the disk
/// holds no more than in the second.
#[test]
fn rows_that_expire_make_room_for_those_that_come() {
    for class in [CompactionClass::TimeWindow, CompactionClass::Incremental] {
        let most = day::play(day::Day { hours: 6, scale: 10_000, class });
        let (early, later) = (most[1], most[2..].iter().max().copied().unwrap());
        assert!(10 * later <= 12 * early, "{class:?} holds most in each hour: {most:?}");
    }
}

/// Says which seed was played when a play panics.
struct NameOnPanic(u64);

impl Drop for NameOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay with: TIDEGATE_SEEDS={} cargo test --test model", self.0);
        }
    }
}
