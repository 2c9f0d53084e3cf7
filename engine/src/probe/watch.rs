//! A statement that is watched, its reads, and what each of them did on each shard.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use super::counts::{Count, Counters, ReadStats};
use super::steps::{Step, Steps};
use crate::clock::Clock;
use crate::config::WATCHED_READS_MAX;

/// A statement that is watched. The first [`WATCHED_READS_MAX`] reads of it have counters of their
/// own; those behind share the last ones.
pub struct Watch {
    shared: Arc<Shared>,
    reads: Mutex<Vec<Arc<Probe>>>,
}

/// What is kept of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Counters.
    Counts,
    /// And the steps of the statement itself.
    Phases,
    /// And those of its reads.
    Steps,
}

/// What all reads of a statement have in common.
struct Shared {
    clock: Arc<dyn Clock>,
    start_ns: u64,
    detail: Detail,
    steps: Mutex<Steps>,
}

/// One read of a statement, on all shards.
pub struct Probe {
    shared: Arc<Shared>,
    what: String,
    shards: Mutex<Vec<Arc<OnShard>>>,
}

/// What a read does on one shard.
pub struct OnShard {
    shared: Arc<Shared>,
    shard: u32,
    counters: Counters,
}

/// What a read did, as of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadReport {
    /// What is read: the name of a table.
    pub what: String,
    /// By shard, those that were asked.
    pub shards: Vec<(u32, ReadStats)>,
}

/// A read of the disk that has ended.
#[derive(Debug, Clone, Copy)]
pub struct DiskRead<'a> {
    pub file: &'a Path,
    /// Its class of I/O.
    pub class: &'static str,
    /// Bytes.
    pub offset: u64,
    /// Bytes that came.
    pub bytes: usize,
    pub queued_ns: u64,
    pub disk_ns: u64,
}

impl Watch {
    /// A statement that begins now.
    pub fn new(clock: Arc<dyn Clock>, detail: Detail) -> Arc<Self> {
        let start_ns = clock.monotonic_ns();
        let shared = Arc::new(Shared { clock, start_ns, detail, steps: Mutex::default() });
        Arc::new(Watch { shared, reads: Mutex::default() })
    }

    /// A read that is about to begin.
    pub fn read(&self, what: impl Into<String>) -> Arc<Probe> {
        let mut reads = locked(&self.reads);
        if reads.len() >= WATCHED_READS_MAX
            && let Some(last) = reads.last()
        {
            return last.clone();
        }
        let shared = self.shared.clone();
        let probe = Arc::new(Probe { shared, what: what.into(), shards: Mutex::default() });
        reads.push(probe.clone());
        probe
    }

    /// What its reads did so far, in the order in which they began.
    pub fn reads(&self) -> Vec<ReadReport> {
        locked(&self.reads).iter().map(|probe| probe.report()).collect()
    }

    /// All of that together.
    pub fn stats(&self) -> ReadStats {
        let mut sum = ReadStats::default();
        locked(&self.reads).iter().for_each(|probe| sum += probe.stats());
        sum
    }

    /// Notes a step of the statement itself, if steps are wanted.
    pub fn note(&self, text: impl FnOnce() -> String) {
        if self.shared.detail >= Detail::Phases {
            self.shared.step((None, None, None), text());
        }
    }

    /// Its steps in the order of time, and how many there was no room for.
    pub fn steps(&self) -> (Vec<Step>, u64) {
        locked(&self.shared.steps).all()
    }

    /// Nanoseconds since it began.
    pub fn elapsed_ns(&self) -> u64 {
        self.shared.elapsed_ns()
    }
}

impl Shared {
    fn step(
        &self,
        (shard, class, bytes): (Option<u32>, Option<&'static str>, Option<u64>),
        text: String,
    ) {
        let at_ns = self.elapsed_ns();
        locked(&self.steps).add(Step { at_ns, shard, class, bytes, text });
    }

    fn elapsed_ns(&self) -> u64 {
        self.clock.monotonic_ns().saturating_sub(self.start_ns)
    }
}

impl Probe {
    /// What the read does on a shard.
    pub fn on(&self, shard: u32) -> Arc<OnShard> {
        let mut shards = locked(&self.shards);
        if let Some(known) = shards.iter().find(|known| known.shard == shard) {
            return known.clone();
        }
        let (shared, counters) = (self.shared.clone(), Counters::default());
        let new = Arc::new(OnShard { shared, shard, counters });
        shards.push(new.clone());
        new
    }

    /// What it did so far, on all shards together.
    pub fn stats(&self) -> ReadStats {
        let mut sum = ReadStats::default();
        locked(&self.shards).iter().for_each(|shard| sum += shard.stats());
        sum
    }

    /// The same for each shard.
    pub fn report(&self) -> ReadReport {
        let of_shard = |shard: &Arc<OnShard>| (shard.shard, shard.stats());
        let mut shards: Vec<_> = locked(&self.shards).iter().map(of_shard).collect();
        shards.sort_by_key(|(shard, _)| *shard);
        ReadReport { what: self.what.clone(), shards }
    }
}

impl OnShard {
    pub fn add(&self, what: Count, by: u64) {
        self.counters.add(what, by);
    }

    /// What it did so far.
    pub fn stats(&self) -> ReadStats {
        self.counters.stats()
    }

    /// The monotonic clock.
    pub fn now_ns(&self) -> u64 {
        self.shared.clock.monotonic_ns()
    }

    /// Notes a step of the read, if such steps are wanted.
    pub fn note(&self, text: impl FnOnce() -> String) {
        if self.shared.detail == Detail::Steps {
            self.shared.step((Some(self.shard), None, None), text());
        }
    }

    /// A read of the disk has ended.
    pub fn disk_read(&self, read: &DiskRead<'_>) {
        self.add(Count::DiskReads, 1);
        self.add(Count::DiskBytes, read.bytes as u64);
        self.add(Count::TimeQueued, read.queued_ns);
        self.add(Count::TimeDisk, read.disk_ns);
        if self.shared.detail == Detail::Steps {
            let file = read.file.file_name().unwrap_or_default().display();
            let (offset, bytes) = (read.offset, read.bytes);
            let (queued_us, disk_us) = (read.queued_ns / 1000, read.disk_ns / 1000);
            let text = format!(
                "{file}: {bytes} bytes at {offset}, queued {queued_us} µs, in the disk {disk_us} µs"
            );
            self.shared.step((Some(self.shard), Some(read.class), Some(bytes as u64)), text);
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.reads()).finish()
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report().fmt(f)
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().expect("no one panics while holding it")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::SimulatedClock;

    #[test]
    fn reads_are_told_by_shard_and_summed() {
        let clock = SimulatedClock::new(0);
        let watch = Watch::new(clock.clone(), Detail::Counts);
        let [first, second] = ["ks.t", "ks.u"].map(|what| watch.read(what));
        for (probe, shard, rows) in [(&first, 1, 2), (&second, 0, 10), (&first, 0, 5)] {
            probe.on(shard).add(Count::Rows, rows);
        }
        // The same shard again: a scan reads one part after another.
        first.on(1).add(Count::Rows, 1);
        let rows = |report: &ReadReport| {
            let rows = report.shards.iter().map(|(shard, stats)| (*shard, stats[Count::Rows]));
            (report.what.clone(), rows.collect::<Vec<_>>())
        };
        let reads: Vec<_> = watch.reads().iter().map(rows).collect();
        assert_eq!(
            reads,
            [("ks.t".to_owned(), vec![(0, 5), (1, 3)]), ("ks.u".to_owned(), vec![(0, 10)])]
        );
        assert_eq!(watch.stats()[Count::Rows], 18);
        clock.advance(Duration::from_micros(3));
        assert_eq!(watch.elapsed_ns(), 3000);
    }

    #[test]
    fn steps_are_kept_as_far_as_they_are_wanted() {
        for (detail, wanted) in [
            (Detail::Counts, &[][..]),
            (Detail::Phases, &["planned"]),
            (
                Detail::Steps,
                &[
                    "planned",
                    "a gap",
                    "me-1-big-Data.db: 4096 bytes at 8192, queued 2 µs, in the disk 9 µs",
                ],
            ),
        ] {
            let watch = Watch::new(SimulatedClock::new(0), detail);
            let on_shard = watch.read("ks.t").on(3);
            watch.note(|| "planned".to_owned());
            on_shard.note(|| "a gap".to_owned());
            on_shard.disk_read(&DiskRead {
                file: Path::new("/db/me-1-big-Data.db"),
                class: "query",
                offset: 8192,
                bytes: 4096,
                queued_ns: 2_100,
                disk_ns: 9_900,
            });
            let (steps, left_out) = watch.steps();
            let texts: Vec<_> = steps.iter().map(|step| step.text.as_str()).collect();
            assert_eq!((&texts[..], left_out), (wanted, 0), "{detail:?}");
            if let Some(last) = steps.get(2) {
                let of_disk = (last.shard, last.class, last.bytes);
                assert_eq!(of_disk, (Some(3), Some("query"), Some(4096)));
            }
            let stats = watch.stats();
            assert_eq!((stats[Count::DiskReads], stats[Count::TimeDisk]), (1, 9_900));
        }
    }

    #[test]
    fn the_number_of_reads_has_a_bound() {
        let watch = Watch::new(SimulatedClock::new(0), Detail::Counts);
        for _ in 0..WATCHED_READS_MAX + 9 {
            watch.read("ks.t").on(0).add(Count::Partitions, 1);
        }
        let reads = watch.reads();
        assert_eq!(reads.len(), WATCHED_READS_MAX);
        let last = reads.last().map(|read| read.shards[0].1[Count::Partitions]);
        assert_eq!(last, Some(10), "the last one has those behind it");
        assert_eq!(watch.stats()[Count::Partitions] as usize, WATCHED_READS_MAX + 9);
    }
}
