//! What is measured: rows, the operations on them, and the CPU time that they take.

use std::collections::BTreeSet;
use std::path::Path;

use futures::executor::block_on;
use tidegate_engine::clock::Random;

use crate::frame::{cpu_timed, median};
use crate::store::{Order, Store};

pub const VALUE_BYTES: usize = 100;
pub const ROWS_PER_PARTITION: i64 = 100;
/// Partitions that the reads of the hot set choose from.
const HOT_PARTITIONS: u64 = 10;
const REPEATS: usize = 3;
const MIB: f64 = (1 << 20) as f64;

/// Partition key and clustering key of a row.
pub type Place = (i64, i64);

/// How much is done.
pub struct Work {
    partitions: i64,
    points: usize,
    slices: usize,
    writes: usize,
}

impl Work {
    pub fn new(is_quick: bool) -> Work {
        let full = Work { partitions: 10_000, points: 300_000, slices: 30_000, writes: 300_000 };
        let quick = Work { partitions: 2_000, points: 60_000, slices: 6_000, writes: 60_000 };
        if is_quick { quick } else { full }
    }

    fn rows(&self) -> usize {
        self.partitions as usize * ROWS_PER_PARTITION as usize
    }

    /// Random rows of the first partitions.
    fn places(&self, count: usize, partitions: u64, random: &mut Random) -> Vec<Place> {
        let place = |_| {
            let pk = random.below(partitions) as i64;
            (pk, random.below(ROWS_PER_PARTITION as u64) as i64)
        };
        (0..count).map(place).collect()
    }
}

/// Half of it compresses, half does not.
pub fn value((pk, ck): Place) -> Vec<u8> {
    let mut random = Random::new((pk * ROWS_PER_PARTITION + ck) as u64);
    let mut value = vec![b'v'; VALUE_BYTES];
    for bytes in value[..VALUE_BYTES / 2].chunks_exact_mut(8) {
        bytes.copy_from_slice(&random.below(u64::MAX).to_ne_bytes());
    }
    value
}

/// Named figures of one engine, in the order in which they were measured.
#[derive(Default)]
pub struct Figures(Vec<(&'static str, &'static str, f64)>);

impl Figures {
    pub fn iter(&self) -> impl Iterator<Item = &(&'static str, &'static str, f64)> {
        self.0.iter()
    }

    /// The figure to compare with: by the whole name, else by what stands before the comma.
    pub fn of(&self, name: &str) -> Option<f64> {
        let same = |name: &str| self.0.iter().find(|row| row.0 == name).map(|row| row.2);
        let plain = name.rsplit_once(", ").map(|(plain, _)| plain);
        same(name).or_else(|| plain.and_then(same))
    }

    /// Adds CPU µs an operation: the median of several runs behind one that warms up.
    fn time(&mut self, name: &'static str, operations: usize, mut run: impl FnMut()) {
        run();
        let runs = (0..REPEATS).map(|_| {
            let ((), cpu) = block_on(cpu_timed(async { run() }));
            cpu.as_secs_f64() * 1e6 / operations as f64
        });
        self.0.push((name, "CPU us", median(runs.collect())));
    }
}

/// Runs all of the work on one engine, in an empty folder.
pub fn measure<S: Store>(work: &Work, folder: &Path) -> Figures {
    let store = S::open(folder);
    let mut figures = Figures::default();
    let ((), cpu) = block_on(cpu_timed(async {
        for pk in 0..work.partitions {
            store.write_partition(pk);
        }
        store.flush();
    }));
    let a_row = cpu.as_secs_f64() * 1e6 / work.rows() as f64;
    figures.0.push(("bulk load, a row", "CPU us", a_row));
    store.settle();
    figures.0.push(("data files", "MiB", folder_bytes(folder) as f64 / MIB));

    let mut random = Random::new(1);
    let all = work.places(work.points, work.partitions as u64, &mut random);
    let hot = work.places(work.points, HOT_PARTITIONS, &mut random);
    let partitions: Vec<i64> = all[..work.slices].iter().map(|place| place.0).collect();

    figures.time("full scan, a row", work.rows(), || {
        assert_eq!(store.scan(), work.rows(), "{}: rows of a scan", S::NAME);
    });
    let points = |places: &[Place]| {
        assert_eq!(store.points(places), places.len(), "{}: rows found", S::NAME);
    };
    let names = S::POINT_NAMES;
    figures.time(names[0], work.points, || points(&hot));
    figures.time(names[1], work.points, || points(&all));
    if let Some(name) = S::POINT_CALLS_NAME {
        let some = &all[..work.points / 10];
        figures.time(name, some.len(), || assert_eq!(store.point_calls(some), some.len()));
    }
    for (name, order) in
        [("slice of 100, forward", Order::Forward), ("slice of 100, reversed", Order::Reversed)]
    {
        let rows = work.slices * ROWS_PER_PARTITION as usize;
        figures.time(name, work.slices, || {
            assert_eq!(store.slices(&partitions, order), rows, "{}: rows of slices", S::NAME);
        });
    }
    let writes = work.places(work.writes, work.partitions as u64, &mut random);
    let distinct: BTreeSet<&Place> = writes.iter().collect();
    assert!(distinct.len() > writes.len() / 2, "the writes would hit few rows");
    figures.time(S::WRITE_NAME, work.writes, || store.writes(&writes));
    if let Some(name) = S::WRITE_CALLS_NAME {
        let some = &writes[..work.writes / 10];
        figures.time(name, some.len(), || store.write_calls(some));
    }
    store.close();
    figures
}

/// Bytes of all files below a folder; those of logs are left out.
fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("a folder of data").flatten();
    let size = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_log = name == "commitlog" || name.ends_with(".log") || name.ends_with(".jnl");
        match entry.metadata() {
            Ok(_) if is_log => 0,
            Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            // A file that went meanwhile.
            Err(_) => 0,
        }
    };
    entries.map(size).sum()
}
