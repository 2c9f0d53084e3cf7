//! A statement that is watched, its reads, and what each of them did on each shard.
//!
//! A session may watch every statement, so watching is cheap: for a statement that reads one shard
//! nothing is allocated but a [`Watch`], and that is mostly one that was used before (see
//! [`Brief`](super::Brief)). Its probe moves to the shard without a copy.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::brief::Brief;
use super::counts::{Count, Counters, ReadStats};
use super::report::{ReadReport, What};
use super::steps::{Step, Steps};
use crate::clock::Clock;
use crate::config::WATCHED_READS_MAX;

thread_local! {
    /// A watch that nobody uses, and that is as a fresh one but for its clock, start, detail and
    /// what it knows.
    static SPARE: Cell<Option<Arc<Watch>>> = const { Cell::new(None) };
}

/// A statement that is watched. The first [`WATCHED_READS_MAX`] reads of it have counters of their
/// own; those behind share the last ones.
///
/// It is made for statements that do little else: its fields are set again without a look at who
/// else has it, which costs as much as ten of them.
pub struct Watch {
    clock: Arc<dyn Clock>,
    start_ns: AtomicU64,
    /// Its place among the details.
    detail: AtomicU8,
    /// Where `Noted::known` is, so that a read of the same need not be told again what it reads.
    known: AtomicUsize,
    /// Those of the first shard that is asked: most statements ask no other.
    first: Counters,
    noted: Mutex<Noted>,
}

/// What is known so far.
#[derive(Default)]
struct Noted {
    steps: Steps,
    /// The shard of the first read, which reads `known`, while there is no other read: most
    /// statements have no other.
    one: Option<u32>,
    /// What the first read by a path reads, of this statement or of one before.
    known: Option<What>,
    /// What was known when reads began that their statement does not know yet.
    former: Vec<What>,
    reads: Vec<OneRead>,
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

/// A read as its statement knows it.
struct OneRead {
    what: What,
    /// By shard, those that were asked.
    shards: Vec<(u32, Place)>,
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
    read: Read,
}

/// Which read of its statement.
#[derive(Clone)]
enum Read {
    Number(usize),
    /// One that its statement does not know before it is on a shard: to tell it of both at once
    /// takes its lock once.
    New {
        path: &'static str,
        what: Reads,
    },
}

/// What a read by a path reads.
#[derive(Clone)]
enum Reads {
    New(What),
    /// What stood at this place when the read began.
    Known(usize),
}

/// What a read does on one shard. Only the thread that runs the shard adds to it.
#[derive(Clone)]
pub struct OnShard {
    watch: Arc<Watch>,
    shard: u32,
    place: Place,
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

impl Detail {
    const ALL: [Detail; 3] = [Detail::Counts, Detail::Phases, Detail::Steps];
}

/// Where something is, which tells it from everything else as long as it is there.
fn place_of<T: ?Sized>(what: &Arc<T>) -> usize {
    Arc::as_ptr(what).cast::<()>().addr()
}

impl Watch {
    /// A statement that begins now.
    pub fn new(clock: Arc<dyn Clock>, detail: Detail) -> Arc<Self> {
        let start_ns = AtomicU64::new(clock.monotonic_ns());
        let detail = AtomicU8::new(detail as u8);
        let (known, first, noted) = Default::default();
        Arc::new(Watch { clock, start_ns, detail, known, first, noted })
    }

    /// As [`new`](Self::new), by the watch of a statement that is over, if the thread has one.
    pub fn of(clock: &Arc<dyn Clock>, detail: Detail) -> Arc<Self> {
        match SPARE.take() {
            Some(used) if Arc::ptr_eq(&used.clock, clock) => {
                // Nobody else has it: who gets it next gets these with it.
                used.start_ns.store(clock.monotonic_ns(), Ordering::Relaxed);
                used.detail.store(detail as u8, Ordering::Relaxed);
                used
            }
            _ => Watch::new(Arc::clone(clock), detail),
        }
    }

    fn detail(&self) -> Detail {
        Detail::ALL[usize::from(self.detail.load(Ordering::Relaxed))]
    }

    /// Writes what is kept of a statement that is over, if it did no more than a [`Brief`] has room
    /// for. The watch is used again.
    ///
    /// Errors: the watch where it did more, or somebody else still has it.
    pub fn end_in(mut self: Arc<Self>, brief: &mut Brief) -> Result<(), Arc<Self>> {
        let Some(watch) = Arc::get_mut(&mut self) else { return Err(self) };
        let noted = watch.noted.get_mut().expect("no one panics while holding it");
        let Some(path) = noted.brief_path() else { return Err(self) };
        brief.path = path;
        brief.set_read(noted.one.take().zip(noted.known.as_ref()));
        noted.former.clear();
        watch.first.take_to(&mut brief.stats);
        debug_assert!(brief.read.is_some() || brief.stats == ReadStats::default(), "of no read");
        SPARE.set(Some(self));
        Ok(())
    }

    /// A read that is about to begin.
    pub fn read(self: &Arc<Self>, what: What) -> Probe {
        let number = locked(&self.noted).add_read(what);
        Probe { watch: Arc::clone(self), read: Read::Number(number) }
    }

    /// The one read of a statement that runs by this path. Where only phases are kept the path is
    /// none that takes time, and stands at the beginning: another look at the clock costs more than
    /// the step.
    pub fn read_by<T>(self: &Arc<Self>, path: &'static str, what: &Arc<T>) -> Probe
    where
        T: fmt::Display + Send + Sync + 'static,
    {
        let place = place_of(what);
        let what = match self.known.load(Ordering::Relaxed) == place {
            true => Reads::Known(place),
            false => Reads::New(Arc::clone(what) as What),
        };
        Probe { watch: Arc::clone(self), read: Read::New { path, what } }
    }

    /// What its reads did so far, in the order in which they began.
    pub fn reads(&self) -> Vec<ReadReport> {
        locked(&self.noted).all().iter().map(|read| self.report(read)).collect()
    }

    /// All of that together.
    pub fn stats(&self) -> ReadStats {
        let mut sum = ReadStats::default();
        locked(&self.noted).all().iter().for_each(|read| sum += self.stats_of(read));
        sum
    }

    /// Notes a step of the statement itself, if steps are wanted.
    pub fn note<T: Into<Cow<'static, str>>>(&self, text: impl FnOnce() -> T) {
        if self.detail() >= Detail::Phases {
            self.step((None, None, None), text().into());
        }
    }

    fn add_path(&self, noted: &mut Noted, text: &'static str) {
        match self.detail() {
            Detail::Counts => {}
            Detail::Phases => noted.steps.begin(text),
            Detail::Steps => {
                let (at_ns, text) = (self.elapsed_ns(), text.into());
                noted.steps.add(Step { at_ns, shard: None, class: None, bytes: None, text });
            }
        }
    }

    /// Its steps in the order of time.
    pub fn steps(&self) -> Vec<Step> {
        locked(&self.noted).steps.all()
    }

    /// How many steps there was no room for.
    pub fn left_out(&self) -> u64 {
        locked(&self.noted).steps.left_out()
    }

    /// The clock of its steps.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// When it began, by the monotonic clock.
    pub fn start_ns(&self) -> u64 {
        self.start_ns.load(Ordering::Relaxed)
    }

    /// Nanoseconds since it began.
    pub fn elapsed_ns(&self) -> u64 {
        self.clock.monotonic_ns().saturating_sub(self.start_ns())
    }

    fn step(&self, (shard, class, bytes): StepOf, text: Cow<'static, str>) {
        let at_ns = self.elapsed_ns();
        locked(&self.noted).steps.add(Step { at_ns, shard, class, bytes, text });
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

impl Noted {
    /// Takes the path, if there are no steps but that, and no reads but the first.
    fn brief_path(&mut self) -> Option<Option<&'static str>> {
        match self.reads.is_empty() {
            true => self.steps.take_path(),
            false => None,
        }
    }

    /// All reads.
    fn all(&mut self) -> &mut Vec<OneRead> {
        if let Some(shard) = self.one.take() {
            assert!(self.reads.is_empty(), "another read began before the first");
            let what = self.known.clone().expect("the first read is of what is known");
            self.reads.push(OneRead { what, shards: vec![(shard, Place::First)] });
        }
        &mut self.reads
    }

    /// Returns its number.
    fn add_read(&mut self, what: What) -> usize {
        let reads = self.all();
        if reads.len() < WATCHED_READS_MAX {
            reads.push(OneRead { what, shards: Vec::new() });
        }
        reads.len() - 1
    }

    /// What a read reads that began when this was known.
    fn known(&self, place: usize) -> What {
        let mut all = self.known.iter().chain(&self.former);
        let found = all.find(|what| place_of(what) == place);
        Arc::clone(found.expect("what is known stays as long as the statement"))
    }

    /// Knows this from now on.
    fn know(&mut self, what: What, place: &AtomicUsize) {
        place.store(place_of(&what), Ordering::Relaxed);
        self.former.extend(self.known.replace(what));
    }

    /// A read that begins on a shard, and where it counts what it does there; `place` is that of
    /// what is known.
    fn add_read_on(&mut self, what: Reads, shard: u32, place: &AtomicUsize) -> Place {
        let what = match what {
            Reads::Known(at) if self.is_first() && place.load(Ordering::Relaxed) == at => None,
            Reads::Known(at) => Some(self.known(at)),
            Reads::New(what) => Some(what),
        };
        if self.is_first() {
            if let Some(what) = what {
                self.know(what, place);
            }
            self.one = Some(shard);
            return Place::First;
        }
        let number = self.add_read(what.expect("it is told of every read but the first"));
        self.place_of(number, shard)
    }

    /// Whether no read has begun.
    fn is_first(&self) -> bool {
        self.one.is_none() && self.reads.is_empty()
    }

    /// Where a read counts what it does on a shard.
    fn place_of(&mut self, number: usize, shard: u32) -> Place {
        let known = &mut self.all()[number].shards;
        if let Some((_, place)) = known.iter().find(|(known, _)| *known == shard) {
            return place.clone();
        }
        let has_first = number == 0 && known.is_empty();
        let place = if has_first { Place::First } else { Place::Own(Arc::default()) };
        known.push((shard, place.clone()));
        place
    }
}

impl Probe {
    /// What the read does on a shard.
    pub fn on(self, shard: u32) -> OnShard {
        let Probe { watch, read } = self;
        let mut noted = locked(&watch.noted);
        let place = match read {
            Read::Number(number) => noted.place_of(number, shard),
            Read::New { path, what } => {
                watch.add_path(&mut noted, path);
                noted.add_read_on(what, shard, &watch.known)
            }
        };
        drop(noted);
        OnShard { watch, shard, place }
    }

    /// The same read, which its statement knows: it may go to several shards.
    pub fn known(self) -> Self {
        let Probe { watch, read } = self;
        let number = match read {
            Read::Number(number) => number,
            Read::New { path, what } => {
                let mut noted = locked(&watch.noted);
                watch.add_path(&mut noted, path);
                let what = match what {
                    Reads::Known(place) => noted.known(place),
                    Reads::New(what) => what,
                };
                noted.add_read(what)
            }
        };
        Probe { watch, read: Read::Number(number) }
    }

    /// What it did so far, on all shards together.
    pub fn stats(&self) -> ReadStats {
        match self.read {
            Read::Number(number) => self.watch.stats_of(&locked(&self.watch.noted).all()[number]),
            Read::New { .. } => ReadStats::default(),
        }
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
        if self.watch.detail() == Detail::Steps {
            self.watch.step((Some(self.shard), None, None), text().into());
        }
    }

    /// A read of the disk has ended.
    pub fn disk_read(&self, read: &DiskRead<'_>) {
        self.add(Count::DiskReads, 1);
        self.add(Count::DiskBytes, read.bytes as u64);
        self.add(Count::TimeQueued, read.queued_ns);
        self.add(Count::TimeDisk, read.disk_ns);
        if self.watch.detail() == Detail::Steps {
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
        match &self.read {
            Read::Number(number) => {
                self.watch.report(&locked(&self.watch.noted).all()[*number]).fmt(f)
            }
            Read::New { path, .. } => write!(f, "{path}, not begun"),
        }
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
            probe.clone().on(shard).add(Count::Rows, rows);
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
            let probe = watch.read_by("short path", &Arc::new("ks.t"));
            assert!(watch.reads().is_empty() && probe.stats() == ReadStats::default());
            probe.on(2).add(Count::Rows, 1);
            let at_ns: Vec<_> = watch.steps().iter().map(|step| step.at_ns).collect();
            assert_eq!(at_ns, Vec::from_iter(wanted), "{detail:?}");
            assert_eq!(watch.stats()[Count::Rows], 1);
            watch.note(|| "a phase");
            let texts: Vec<_> = watch.steps().into_iter().map(|step| step.text).collect();
            let wanted = wanted.map_or(&[][..], |_| &["short path", "a phase"]);
            assert_eq!(texts, wanted, "{detail:?}");
        }
    }

    #[test]
    fn reads_behind_the_first_have_counters_of_their_own() {
        let watch = Watch::new(SimulatedClock::new(0), Detail::Phases);
        for (what, shard, rows) in [("ks.t", 1, 2), ("ks.u", 1, 3), ("ks.t", 0, 4)] {
            watch.read_by("short path", &Arc::new(what)).on(shard).add(Count::Rows, rows);
        }
        let rows = |read: &ReadReport| (read.what.clone(), read.shards[0].1[Count::Rows]);
        let reads: Vec<_> = watch.reads().iter().map(rows).collect();
        assert_eq!(reads, [("ks.t".into(), 2), ("ks.u".into(), 3), ("ks.t".into(), 4)]);
    }

    /// A watch that is used again knows what the last statement read.
    #[test]
    fn reads_are_told_what_they_read_whatever_the_statement_before_read() {
        let clock: Arc<dyn Clock> = SimulatedClock::new(0);
        let tables = ["ks.t", "ks.u", "ks.v"].map(Arc::new);
        let mut brief = Brief::default();
        for last in 0..3 {
            // All orders in which two reads are begun and come to their shard.
            for (a, b) in [(0, 1), (1, 0), (0, 0), (1, 1), (2, 0), (0, 2), (1, 2)] {
                for is_swapped in [false, true] {
                    let before = Watch::of(&clock, Detail::Phases);
                    before.read_by("path", &tables[last]).on(0).add(Count::Rows, 1);
                    assert!(before.end_in(&mut brief).is_ok());
                    assert_eq!(brief.reads()[0].what, *tables[last]);

                    let watch = Watch::of(&clock, Detail::Phases);
                    let mut reads = [(a, 10), (b, 20)]
                        .map(|(table, rows)| (table, rows, watch.read_by("path", &tables[table])));
                    if is_swapped {
                        reads.reverse();
                    }
                    let mut wanted = Vec::new();
                    for (table, rows, probe) in reads {
                        probe.on(0).add(Count::Rows, rows);
                        wanted.push((tables[table].to_string(), rows));
                    }
                    let rows = |read: ReadReport| (read.what, read.shards[0].1[Count::Rows]);
                    let told: Vec<_> = watch.reads().into_iter().map(rows).collect();
                    assert_eq!(told, wanted, "after {last}");
                }
            }
        }
    }

    #[test]
    fn a_read_of_several_shards_is_one() {
        let watch = Watch::new(SimulatedClock::new(0), Detail::Phases);
        let probe = watch.read_by("short path", &Arc::new("ks.t")).known();
        for shard in [1, 0, 1] {
            probe.clone().on(shard).add(Count::Rows, 1);
        }
        let reads = watch.reads();
        assert_eq!((reads.len(), reads[0].shards.len(), watch.steps().len()), (1, 2, 1));
        assert_eq!(probe.stats()[Count::Rows], 3);
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

    /// Sessions of different wishes follow one another on a thread, and those of two databases.
    #[test]
    fn a_watch_that_is_used_again_keeps_what_its_own_statement_wants() {
        let clock: Arc<dyn Clock> = SimulatedClock::new(0);
        let mut brief = Brief::default();
        for before in Detail::ALL {
            for detail in Detail::ALL {
                assert!(Watch::of(&clock, before).end_in(&mut brief).is_ok());
                let watch = Watch::of(&clock, detail);
                watch.note(|| "a phase");
                watch.read(Arc::new("ks.t")).on(0).note(|| "a step");
                let texts: Vec<_> = watch.steps().into_iter().map(|step| step.text).collect();
                let all = ["a phase", "a step"];
                let wanted = &all[..detail as usize];
                assert_eq!(texts, wanted, "{detail:?} after {before:?}");
            }
        }
        assert!(Watch::of(&clock, Detail::Counts).end_in(&mut brief).is_ok());
        let other = SimulatedClock::new(0);
        other.advance(Duration::from_micros(5));
        let shared: Arc<dyn Clock> = other.clone();
        let watch = Watch::of(&shared, Detail::Counts);
        other.advance(Duration::from_micros(7));
        assert_eq!((watch.start_ns(), watch.elapsed_ns()), (5000, 7000));
    }

    #[test]
    fn a_read_of_the_disk_is_counted_with_its_bytes_and_both_of_its_times() {
        for detail in Detail::ALL {
            let clock = SimulatedClock::new(0);
            let watch = Watch::new(clock.clone(), detail);
            let on_shard = watch.read(Arc::new("ks.t")).on(1);
            clock.advance(Duration::from_micros(4));
            for (bytes, queued_ns, disk_ns) in [(4096, 10, 700), (512, 2, 30)] {
                let file = Path::new("/db/me-1-big-Data.db");
                let (class, offset) = ("query", 0);
                on_shard.disk_read(&DiskRead { file, class, offset, bytes, queued_ns, disk_ns });
            }
            let wanted = [
                (Count::DiskReads, 2),
                (Count::DiskBytes, 4608),
                (Count::TimeQueued, 12),
                (Count::TimeDisk, 730),
            ];
            assert_eq!(on_shard.stats().nonzero().collect::<Vec<_>>(), wanted, "{detail:?}");
            let bytes: Vec<_> = watch.steps().iter().map(|step| (step.at_ns, step.bytes)).collect();
            let steps = [(4000, Some(4096)), (4000, Some(512))];
            let wanted = if detail == Detail::Steps { &steps[..] } else { &[] };
            assert_eq!(bytes, wanted, "{detail:?}");
        }
    }
}
