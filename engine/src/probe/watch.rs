//! A statement that is watched, its reads, and what each of them did on each shard.
//!
//! A session may watch every statement, so watching is cheap: a statement that reads one shard
//! allocates its [`Watch`] and nothing else.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use smallvec::SmallVec;

use super::counts::{Count, Counters, ReadStats};
use super::steps::{Step, Steps};
use crate::clock::Clock;
use crate::config::WATCHED_READS_MAX;

/// A statement that is watched. The first [`WATCHED_READS_MAX`] reads of it have counters of their
/// own; those behind share the last ones.
pub struct Watch {
    clock: Arc<dyn Clock>,
    start_ns: u64,
    detail: Detail,
    /// Those of the first shard that is asked: most statements ask no other.
    first: Counters,
    steps: Mutex<Steps>,
    reads: Mutex<SmallVec<[OneRead; 1]>>,
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

/// The shard, the class of I/O and the bytes of a step, as far as it has them.
type StepOf = (Option<u32>, Option<&'static str>, Option<u64>);

/// What a read reads, where somebody wants to see it.
pub type What = Arc<dyn fmt::Display + Send + Sync>;

/// A read as its statement knows it.
struct OneRead {
    what: What,
    /// By shard, those that were asked.
    shards: SmallVec<[(u32, Place); 1]>,
}

/// Where counters are.
#[derive(Clone)]
enum Place {
    /// `Watch::first`.
    First,
    Own(Arc<Counters>),
}

/// One read of a statement, on all shards.
#[derive(Clone)]
pub struct Probe {
    watch: Arc<Watch>,
    /// Its number among the reads of the statement.
    number: usize,
}

/// What a read does on one shard. Only the thread that runs the shard adds to it.
#[derive(Clone)]
pub struct OnShard {
    watch: Arc<Watch>,
    shard: u32,
    place: Place,
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
        let (first, steps, reads) = Default::default();
        Arc::new(Watch { clock, start_ns, detail, first, steps, reads })
    }

    /// A read that is about to begin.
    pub fn read(self: &Arc<Self>, what: What) -> Probe {
        let mut reads = locked(&self.reads);
        if reads.len() < WATCHED_READS_MAX {
            reads.push(OneRead { what, shards: SmallVec::new() });
        }
        Probe { watch: Arc::clone(self), number: reads.len() - 1 }
    }

    /// What its reads did so far, in the order in which they began.
    pub fn reads(&self) -> Vec<ReadReport> {
        locked(&self.reads).iter().map(|read| self.report(read)).collect()
    }

    /// All of that together.
    pub fn stats(&self) -> ReadStats {
        let mut sum = ReadStats::default();
        locked(&self.reads).iter().for_each(|read| sum += self.stats_of(read));
        sum
    }

    /// Notes a step of the statement itself, if steps are wanted.
    pub fn note<T: Into<Cow<'static, str>>>(&self, text: impl FnOnce() -> T) {
        if self.detail >= Detail::Phases {
            self.step((None, None, None), text().into());
        }
    }

    /// Notes by what path the statement runs. Where only phases are kept this is none that takes
    /// time, and stands at the beginning: another look at the clock costs more than the step.
    pub fn note_path(&self, text: &'static str) {
        match self.detail {
            Detail::Counts => {}
            Detail::Phases => self.step_at(0, (None, None, None), text.into()),
            Detail::Steps => self.note(|| text),
        }
    }

    /// Its steps in the order of time.
    pub fn steps(&self) -> Vec<Step> {
        locked(&self.steps).all()
    }

    /// How many steps there was no room for.
    pub fn left_out(&self) -> u64 {
        locked(&self.steps).left_out()
    }

    /// The clock of its steps.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// When it began, by the monotonic clock.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Nanoseconds since it began.
    pub fn elapsed_ns(&self) -> u64 {
        self.clock.monotonic_ns().saturating_sub(self.start_ns)
    }

    fn step(&self, of: StepOf, text: Cow<'static, str>) {
        self.step_at(self.elapsed_ns(), of, text);
    }

    fn step_at(&self, at_ns: u64, (shard, class, bytes): StepOf, text: Cow<'static, str>) {
        locked(&self.steps).add(Step { at_ns, shard, class, bytes, text });
    }

    fn counters<'a>(&'a self, place: &'a Place) -> &'a Counters {
        match place {
            Place::First => &self.first,
            Place::Own(counters) => counters,
        }
    }

    fn stats_of(&self, read: &OneRead) -> ReadStats {
        let mut sum = ReadStats::default();
        read.shards.iter().for_each(|(_, place)| sum += self.counters(place).stats());
        sum
    }

    fn report(&self, read: &OneRead) -> ReadReport {
        let of_shard = |(shard, place): &(u32, Place)| (*shard, self.counters(place).stats());
        let mut shards: Vec<_> = read.shards.iter().map(of_shard).collect();
        shards.sort_by_key(|(shard, _)| *shard);
        ReadReport { what: read.what.to_string(), shards }
    }
}

impl Probe {
    /// What the read does on a shard.
    pub fn on(&self, shard: u32) -> OnShard {
        let mut reads = locked(&self.watch.reads);
        let has_first = self.number == 0 && reads[0].shards.is_empty();
        let known = &mut reads[self.number].shards;
        let place = match known.iter().find(|(known, _)| *known == shard) {
            Some((_, place)) => place.clone(),
            None => {
                let place = if has_first { Place::First } else { Place::Own(Arc::default()) };
                known.push((shard, place.clone()));
                place
            }
        };
        OnShard { watch: Arc::clone(&self.watch), shard, place }
    }

    /// What it did so far, on all shards together.
    pub fn stats(&self) -> ReadStats {
        self.watch.stats_of(&locked(&self.watch.reads)[self.number])
    }
}

impl OnShard {
    pub fn add(&self, what: Count, by: u64) {
        self.watch.counters(&self.place).add(what, by);
    }

    /// What it did so far.
    pub fn stats(&self) -> ReadStats {
        self.watch.counters(&self.place).stats()
    }

    /// The monotonic clock.
    pub fn now_ns(&self) -> u64 {
        self.watch.clock.monotonic_ns()
    }

    /// Notes a step of the read, if such steps are wanted.
    pub fn note<T: Into<Cow<'static, str>>>(&self, text: impl FnOnce() -> T) {
        if self.watch.detail == Detail::Steps {
            self.watch.step((Some(self.shard), None, None), text().into());
        }
    }

    /// A read of the disk has ended.
    pub fn disk_read(&self, read: &DiskRead<'_>) {
        self.add(Count::DiskReads, 1);
        self.add(Count::DiskBytes, read.bytes as u64);
        self.add(Count::TimeQueued, read.queued_ns);
        self.add(Count::TimeDisk, read.disk_ns);
        if self.watch.detail == Detail::Steps {
            let file = read.file.file_name().unwrap_or_default().display();
            let (offset, bytes) = (read.offset, read.bytes);
            let (queued_us, disk_us) = (read.queued_ns / 1000, read.disk_ns / 1000);
            let text = format!(
                "{file}: {bytes} bytes at {offset}, queued {queued_us} µs, in the disk {disk_us} µs"
            );
            let of_disk = (Some(self.shard), Some(read.class), Some(bytes as u64));
            self.watch.step(of_disk, text.into());
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
        self.watch.report(&locked(&self.watch.reads)[self.number]).fmt(f)
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
        let [first, second] = ["ks.t", "ks.u"].map(|what| watch.read(Arc::new(what)));
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
            let on_shard = watch.read(Arc::new("ks.t")).on(3);
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
            let (steps, left_out) = (watch.steps(), watch.left_out());
            let texts: Vec<_> = steps.iter().map(|step| &*step.text).collect();
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
    fn the_path_stands_at_the_beginning_of_phases() {
        let all = [(Detail::Counts, None), (Detail::Phases, Some(0)), (Detail::Steps, Some(5000))];
        for (detail, wanted) in all {
            let clock = SimulatedClock::new(0);
            let watch = Watch::new(clock.clone(), detail);
            clock.advance(Duration::from_micros(5));
            watch.note_path("short path");
            let at_ns: Vec<_> = watch.steps().iter().map(|step| step.at_ns).collect();
            assert_eq!(at_ns, Vec::from_iter(wanted), "{detail:?}");
        }
    }

    #[test]
    fn the_number_of_reads_has_a_bound() {
        let watch = Watch::new(SimulatedClock::new(0), Detail::Counts);
        for _ in 0..WATCHED_READS_MAX + 9 {
            watch.read(Arc::new("ks.t")).on(0).add(Count::Partitions, 1);
        }
        let reads = watch.reads();
        assert_eq!(reads.len(), WATCHED_READS_MAX);
        let last = reads.last().map(|read| read.shards[0].1[Count::Partitions]);
        assert_eq!(last, Some(10), "the last one has those behind it");
        assert_eq!(watch.stats()[Count::Partitions] as usize, WATCHED_READS_MAX + 9);
    }
}
