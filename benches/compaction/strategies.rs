//! A load of updates under each strategy, and under a policy: what is written for a byte of the
//! user, what lies on the disk for a byte that lives, and what a read costs.

use std::path::Path;

use futures::executor::block_on;
use tidegate_engine::clock::Random;
use tidegate_engine::io::Class;
use tidegate_engine::{CompactionClass, CompactionOptions, Database, SchemaRef, Thousandths};

use crate::frame::table::{VALUE_BYTES, write};
use crate::frame::{Arguments, Row, Target};
use crate::world::{self, ROWS_PER_PARTITION};

/// Updates a row has, on average.
const UPDATES: usize = 5;
/// Rows of one call.
const BATCH: usize = 1000;
/// Bytes of keys and value that the user gives for a row.
const ROW_BYTES: f64 = VALUE_BYTES as f64 + 16.0;

/// What came of a load.
struct Outcome {
    written: f64,
    space: f64,
    peak: f64,
    reads: f64,
    reads_of_one: f64,
}

fn options(class: CompactionClass, arguments: &Arguments) -> CompactionOptions {
    let is_incremental = class == CompactionClass::Incremental;
    CompactionOptions {
        // In proportion to the load: of a terabyte they would be the defaults.
        sstable_bytes: arguments.scale(2, 16) as u64 * (1 << 20),
        min_sstable_bytes: arguments.scale(1, 4) as u64 * (1 << 20),
        space_amplification_goal: is_incremental.then_some(Thousandths(1150)),
        ..CompactionOptions::of_class(class)
    }
}

/// Requests to the disk that a point read makes.
fn reads_of_get(database: &Database, schema: &SchemaRef, rows: u64) -> f64 {
    let (before, _) = world::did(database, Class::Query);
    let mut random = Random::new(9);
    let count = 2_000;
    for _ in 0..count {
        let key = world::key(schema, random.below(rows) as i64);
        // A row may have had no update.
        database.get(schema, key).wait().unwrap();
    }
    (world::did(database, Class::Query).0 - before) as f64 / f64::from(count)
}

/// Who chooses what is merged.
#[derive(Clone, Copy)]
enum Chooser {
    Strategy(CompactionClass),
    /// A component of `plugins/dist`.
    Policy(&'static str),
}

impl Chooser {
    fn name(self) -> &'static str {
        match self {
            Chooser::Strategy(class) => class.class().trim_end_matches("CompactionStrategy"),
            Chooser::Policy(name) => name,
        }
    }

    /// That of a table.
    fn class(self) -> CompactionClass {
        match self {
            Chooser::Strategy(class) => class,
            Chooser::Policy(_) => CompactionClass::default(),
        }
    }
}

fn put_in_charge(database: &Database, name: &str) {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugins/dist");
    let component = std::fs::read(dist.join(format!("{name}.wasm"))).expect("a component");
    block_on(database.create_policy(name, component, Vec::new(), None)).unwrap();
    block_on(database.set_compaction_policy(Some(name))).unwrap();
}

fn play(chooser: Chooser, arguments: &Arguments) -> Outcome {
    let updates = arguments.scale(300_000, 5_000_000);
    let rows = (updates / UPDATES) as u64;
    let directory = tempfile::tempdir().unwrap();
    let database = world::open(directory.path());
    let schema = world::create(&database, "updates", options(chooser.class(), arguments));
    if let Chooser::Policy(name) = chooser {
        put_in_charge(&database, name);
    }
    let mut random = Random::new(7);
    let flush_every = arguments.scale(10, 40);
    let (mut timestamp, mut peak) = (0, 0);
    for batch in 0..updates / BATCH {
        let write = |_| {
            timestamp += 1;
            let row = random.below(rows) as i64;
            write(&schema, row / ROWS_PER_PARTITION, row % ROWS_PER_PARTITION, timestamp)
        };
        block_on(database.apply_many((0..BATCH).map(write).collect())).unwrap();
        if batch % flush_every == 0 {
            world::flush(&database);
            peak = peak.max(world::sstables(&database, &schema).1);
        }
    }
    world::flush(&database);
    world::settle(&database);
    let written = [Class::Flush, Class::Compaction].map(|class| world::did(&database, class).1);
    let bytes = world::sstables(&database, &schema).1;
    let reads = reads_of_get(&database, &schema, rows);
    block_on(database.compact(schema.id)).unwrap();
    let live = world::sstables(&database, &schema).1.max(1) as f64;
    let reads_of_one = reads_of_get(&database, &schema, rows);
    block_on(database.close()).unwrap();
    Outcome {
        written: written.iter().sum::<u64>() as f64 / (updates as f64 * ROW_BYTES),
        space: bytes as f64 / live,
        peak: peak as f64 / live,
        reads,
        reads_of_one,
    }
}

pub fn print(arguments: &Arguments) {
    let strategies = CompactionClass::ALL.map(Chooser::Strategy);
    for chooser in strategies.into_iter().chain([Chooser::Policy("lazy_leveling")]) {
        let name = chooser.name();
        if !arguments.wants(&format!("updates, {name}")) {
            continue;
        }
        let outcome = play(chooser, arguments);
        let space = match chooser {
            Chooser::Strategy(CompactionClass::Incremental) => Target::AtMost(1.2),
            _ => Target::None,
        };
        let of_one = Some(("after COMPACT", outcome.reads_of_one));
        for (what, unit, figure, baseline, target) in [
            ("written", "times", outcome.written, None, Target::None),
            ("space", "times", outcome.space, None, space),
            ("space, most", "times", outcome.peak, None, Target::None),
            ("reads a get", "reads", outcome.reads, of_one, Target::None),
        ] {
            let name = format!("updates, {name}: {what}");
            Row { name: &name, unit, figure, baseline, target }.print(arguments);
        }
    }
}
