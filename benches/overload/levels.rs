//! Service levels: reads that somebody waits for beside a scan of everything.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use tidegate_engine::{Deadline, LevelId, LevelOptions, Scan, SchemaRef, Workload};

use crate::client::{Answer, Client, Closed, Counts, offer, percentile, side_by_side, spread};
use crate::frame::{Arguments, Row, Target, median};
use crate::world::{World, rows_of};

/// Partitions that somebody reads, and their rows.
const PARTITIONS: i64 = 200;
const ROWS: i64 = 1000;
/// Partitions of the table that is scanned.
const SCANNED: i64 = 1000;
/// Scans at once.
const SCANS: usize = 4;
/// Part of what the shard can do that is offered.
const LIGHT: f64 = 0.4;
const HEAVY: f64 = 2.0;
const TIMEOUT: Duration = Duration::from_millis(500);
const ROUNDS: usize = 3;

struct Load {
    world: World,
    read: SchemaRef,
    scanned: SchemaRef,
    interactive: LevelId,
    batch: LevelId,
    length: Duration,
}

impl Load {
    fn open(arguments: &Arguments) -> Self {
        let world = World::open(Some(1), 512 << 20);
        let read = world.table("read", PARTITIONS, ROWS, None);
        let scanned = world.table("scanned", SCANNED, ROWS, None);
        let create = |name: &str, shares, workload| {
            let options = LevelOptions { timeout_ms: None, workload, shares: Some(shares) };
            block_on(world.database.create_service_level(name, options, false)).unwrap();
            world.database.catalog().service_level(name).unwrap().id
        };
        let interactive = create("interactive", 1000, Some(Workload::Interactive));
        let batch = create("batch", 100, Some(Workload::Batch));
        let length = Duration::from_millis(arguments.scale(1500, 4000) as u64);
        Load { world, read, scanned, interactive, batch, length }
    }

    /// Reads a second that the shard answers where it does nothing else.
    fn capacity(&self) -> f64 {
        let ask = |number| self.world.read(&self.read, spread(number, PARTITIONS));
        let times = (Duration::from_millis(300), Duration::from_secs(1));
        side_by_side(times, &[&Closed::new(8, ask)])[0].served
    }

    fn offer(&self, per_second: f64) -> Vec<Answer> {
        let clock = self.world.database.clock();
        let ask = |number| {
            let terms = (self.interactive, Some(Deadline::after(TIMEOUT, &**clock)));
            self.world.read_within(&self.read, spread(number, PARTITIONS), terms)
        };
        offer(per_second, (self.length, 9), ask)
    }

    /// The same beside scans; also how many of those were refused.
    fn beside_scans(&self, per_second: f64) -> (Vec<Answer>, u64) {
        let scan = |_| {
            let scan = Scan::new(&self.scanned).level(self.batch);
            rows_of(self.world.database.scan(scan))
        };
        let (client, counts) = (Closed::new(SCANS, scan), Counts::default());
        let stop = AtomicBool::new(false);
        let answers = thread::scope(|scope| {
            scope.spawn(|| client.run(&counts, &stop));
            let answers = self.offer(per_second);
            stop.store(true, Relaxed);
            answers
        });
        (answers, counts.refused())
    }
}

fn p99(answers: &[Answer]) -> f64 {
    let served = answers.iter().filter(|answer| answer.is_served);
    percentile(&mut served.map(|answer| answer.ms).collect::<Vec<_>>(), 99.0)
}

/// Runs the rows if they are wanted.
pub fn print(arguments: &Arguments) {
    let light = "interactive p99 beside batch scans, 1000:100";
    let (shed, batch) = ("interactive refused at 2 x the load", "batch scans refused beside it");
    if ![light, shed, batch].iter().any(|name| arguments.wants(name)) {
        return;
    }
    let load = Load::open(arguments);
    let capacity = load.capacity();
    if arguments.wants(light) {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..arguments.scale(1, ROUNDS) {
            alone.push(p99(&load.offer(LIGHT * capacity)));
            beside.push(p99(&load.beside_scans(LIGHT * capacity).0));
        }
        let (figure, baseline) = (median(beside), Some(("alone", median(alone))));
        let target = Target::RatioAtMost(1.5);
        Row { name: light, unit: "ms", figure, baseline, target }.print(arguments);
    }
    if arguments.wants(shed) || arguments.wants(batch) {
        let (answers, scans_refused) = load.beside_scans(HEAVY * capacity);
        let refused = answers.iter().filter(|answer| !answer.is_served).count();
        let baseline = Some(("asked", answers.len() as f64));
        for (name, figure, baseline, target) in [
            (shed, refused as f64, baseline, Target::AtLeast(1.0)),
            (batch, scans_refused as f64, None, Target::AtMost(0.0)),
        ] {
            Row { name, unit: "reads", figure, baseline, target }.print(arguments);
        }
    }
    load.world.close();
}
