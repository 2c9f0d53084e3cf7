//! A file on a real disk, loads on it, and what the disk can do.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tidegate_engine::clock::{Clock, Random, SystemClock};
use tidegate_engine::disk::{Access, AlignedBuffer, Disk, DiskFile, OpenOptions};
use tidegate_engine::io::{
    Class, ClassSettings, DiskModel, DiskProperties, IoQueue, Kind, ScheduledDisk, Scheduler,
};
use tidegate_engine::runtime::{RealTimer, Timer};

use super::frame::{Arguments, Row, Target};

pub const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
/// Requests of sequential and of random loads at once, when the disk is measured.
const LONG_DEPTH: usize = 4;
pub const SHORT_DEPTH: usize = 64;

/// Where a load goes.
#[derive(Clone, Copy)]
pub enum Place {
    Random,
    /// From here on, as a part of the file, and from there again at its end.
    Sequential(f64),
}

/// How fast requests come.
#[derive(Clone, Copy)]
pub enum Pace {
    /// So many at once, each when one before it ended.
    Closed(usize),
    /// At drawn moments (Poisson), so many a second, whatever became of those before.
    Open(f64),
}

/// Requests of one class.
#[derive(Clone, Copy)]
pub struct Load {
    pub class: Class,
    pub kind: Kind,
    pub bytes: usize,
    pub place: Place,
    pub pace: Pace,
}

impl Load {
    /// Reads of pages of what queries want.
    pub fn reads(pace: Pace) -> Load {
        let (kind, place) = (Kind::Read, Place::Random);
        Load { class: Class::Query, kind, bytes: PAGE, place, pace }
    }
}

/// What came of a load.
#[derive(Default)]
pub struct Played {
    /// Requests that ended within the time.
    pub requests: usize,
    /// Time of each from its call to its end.
    pub us: Vec<f64>,
    pub seconds: f64,
}

impl Played {
    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// The latency that a part of the requests stayed below.
    pub fn us(&mut self, part: f64) -> f64 {
        assert!(!self.us.is_empty(), "nothing was read");
        self.us.sort_by(f64::total_cmp);
        self.us[((self.us.len() - 1) as f64 * part) as usize]
    }
}

/// The file, and what its disk was measured to do.
pub struct Bench {
    raw: Rc<dyn Disk>,
    clock: Arc<dyn Clock>,
    path: PathBuf,
    bytes: u64,
    pub figures: DiskProperties,
    /// How long one load runs.
    pub time: Duration,
    pub rounds: usize,
    seed: Cell<u64>,
    _directory: tempfile::TempDir,
}

impl Bench {
    pub async fn prepare(raw: Rc<dyn Disk>, arguments: &Arguments) -> Bench {
        let directory = tempfile::tempdir().unwrap();
        let bytes = (arguments.scale(512, 2048) * MIB) as u64;
        let time = Duration::from_millis(arguments.scale(700, 2000) as u64);
        let (path, clock) = (directory.path().join("file"), SystemClock::shared());
        let figures = DiskProperties::new((1, 1), (1, 1));
        let (rounds, seed) = (arguments.scale(3, 7), Cell::new(1));
        let mut bench =
            Bench { raw, clock, path, bytes, figures, time, rounds, seed, _directory: directory };
        bench.fill().await;
        bench.measure_disk().await;
        bench.print_figures(arguments);
        bench
    }

    async fn fill(&self) {
        let options = OpenOptions::CREATE;
        let file = self.raw.open(&self.path, options).await.unwrap();
        file.allocate(self.bytes).await.unwrap();
        let mut buffer = random_buffer(MIB, &mut Random::new(7));
        for at in (0..self.bytes).step_by(MIB) {
            let (result, back) = file.write_at(at, buffer).await;
            result.unwrap();
            buffer = back;
        }
        file.sync().await.unwrap();
    }

    /// The four rates, one after another.
    async fn measure_disk(&mut self) {
        let mut rates = Vec::new();
        for kind in [Kind::Read, Kind::Write] {
            for (bytes, depth, place) in
                [(PAGE, SHORT_DEPTH, Place::Random), (MIB, LONG_DEPTH, Place::Sequential(0.0))]
            {
                let load =
                    Load { class: Class::Query, kind, bytes, place, pace: Pace::Closed(depth) };
                let played = self.play(None, &[load]).await.remove(0);
                let units = if bytes == PAGE { 1.0 } else { bytes as f64 };
                rates.push((played.per_second() * units) as u64);
            }
        }
        let rates = DiskProperties::new((rates[0], rates[1]), (rates[2], rates[3]));
        let read_saturation_bytes = self.shortest_at_rate(Kind::Read, rates.read_bandwidth).await;
        let write_saturation_bytes =
            self.shortest_at_rate(Kind::Write, rates.write_bandwidth).await;
        self.figures = DiskProperties { read_saturation_bytes, write_saturation_bytes, ..rates };
    }

    /// As `tidegate iotune` finds the shortest requests that have the rate of long ones.
    async fn shortest_at_rate(&self, kind: Kind, rate: u64) -> Option<usize> {
        let mut shortest = None;
        for bytes in [512 << 10, 256 << 10, 128 << 10, 64 << 10] {
            let (place, pace) = (Place::Sequential(0.0), Pace::Closed(LONG_DEPTH * MIB / bytes));
            let load = Load { class: Class::Query, kind, bytes, place, pace };
            let played = self.play(None, &[load]).await.remove(0);
            if played.per_second() * (bytes as f64) < 0.95 * rate as f64 {
                break;
            }
            shortest = Some(bytes);
        }
        shortest
    }

    fn print_figures(&self, arguments: &Arguments) {
        let figures = &self.figures;
        for (name, unit, figure) in [
            ("the disk: random reads of 4 KiB", "k/s", figures.read_iops as f64 / 1e3),
            ("the disk: reads of 1 MiB in order", "MB/s", figures.read_bandwidth as f64 / 1e6),
            ("the disk: random writes of 4 KiB", "k/s", figures.write_iops as f64 / 1e3),
            ("the disk: writes of 1 MiB in order", "MB/s", figures.write_bandwidth as f64 / 1e6),
        ] {
            Row { name, unit, figure, baseline: None, target: Target::None }.print(arguments);
        }
        for (name, bytes) in [
            ("the disk: shortest reads at that rate", figures.read_saturation_bytes),
            ("the disk: shortest writes at that rate", figures.write_saturation_bytes),
        ] {
            let figure = bytes.unwrap_or(MIB) as f64 / 1024.0;
            Row { name, unit: "KiB", figure, baseline: None, target: Target::None }
                .print(arguments);
        }
    }

    /// A queue before the disk, as one of so many shards has it.
    pub fn queue(&self, shard_count: u32) -> Rc<IoQueue> {
        let model = DiskModel::measured(&self.figures);
        let scheduler = Scheduler::new(model, shard_count, self.clock.monotonic_ns());
        let sleep = Box::new(|duration| RealTimer.sleep_finely(duration));
        IoQueue::new(scheduler, self.clock.clone(), sleep)
    }

    /// Runs loads at the same time; without a queue they go straight to the disk.
    pub async fn play(&self, queue: Option<&Rc<IoQueue>>, loads: &[Load]) -> Vec<Played> {
        let start_ns = self.clock.monotonic_ns();
        let all = loads.iter().map(|load| async move {
            let disk = match queue {
                Some(queue) => {
                    ScheduledDisk::new(self.raw.clone(), queue.clone(), Some(load.class))
                }
                None => self.raw.clone() as Rc<dyn Disk>,
            };
            let options = OpenOptions { access: Access::ReadWrite, data_sync: false };
            let file = disk.open(&self.path, options).await.unwrap();
            let end_ns = start_ns + self.time.as_nanos() as u64;
            let player = Rc::new(Player {
                file,
                clock: self.clock.clone(),
                load: *load,
                places: self.bytes / load.bytes as u64,
                end_ns,
                random: RefCell::new(Random::new(self.seed.replace(self.seed.get() + 1))),
                next: Cell::new(0),
                played: RefCell::default(),
            });
            player.clone().play().await;
            let mut played = player.played.take();
            played.seconds = (end_ns - start_ns) as f64 / 1e9;
            played
        });
        join_all(all).await
    }
}

struct Player {
    file: Rc<dyn DiskFile>,
    clock: Arc<dyn Clock>,
    load: Load,
    /// Requests that fit the file one after another.
    places: u64,
    end_ns: u64,
    random: RefCell<Random>,
    next: Cell<u64>,
    played: RefCell<Played>,
}

impl Player {
    async fn play(self: Rc<Self>) {
        let tasks = match self.load.pace {
            Pace::Closed(depth) => (0..depth).map(|_| spawn(self.clone().repeat())).collect(),
            Pace::Open(per_second) => self.clone().begin(per_second).await,
        };
        join_all(tasks).await.into_iter().for_each(|task: Joined| task.unwrap());
    }

    fn is_over(&self) -> bool {
        self.clock.monotonic_ns() >= self.end_ns
    }

    async fn repeat(self: Rc<Self>) {
        let mut buffer = random_buffer(self.load.bytes, &mut self.random.borrow_mut());
        while !self.is_over() {
            buffer = self.request(buffer).await;
        }
    }

    /// Begins requests at drawn moments.
    async fn begin(self: Rc<Self>, per_second: f64) -> Vec<tokio::task::JoinHandle<()>> {
        let (mut tasks, mut due_ns) = (Vec::new(), self.clock.monotonic_ns() as f64);
        loop {
            let drawn = self.random.borrow_mut().below(1 << 53) as f64 / (1_u64 << 53) as f64;
            due_ns += -(1.0 - drawn).ln() / per_second * 1e9;
            if due_ns as u64 >= self.end_ns {
                return tasks;
            }
            let wait_ns = (due_ns as u64).saturating_sub(self.clock.monotonic_ns());
            if wait_ns > 0 {
                RealTimer.sleep_finely(Duration::from_nanos(wait_ns)).await;
            }
            let player = self.clone();
            tasks.push(spawn(async move {
                player.request(AlignedBuffer::for_reading(player.load.bytes)).await;
            }));
        }
    }

    async fn request(&self, buffer: AlignedBuffer) -> AlignedBuffer {
        let place = match self.load.place {
            Place::Random => self.random.borrow_mut().below(self.places),
            Place::Sequential(from) => {
                let first = (from * self.places as f64) as u64;
                (first + self.next.replace(self.next.get() + 1)) % self.places
            }
        };
        let offset = place * self.load.bytes as u64;
        let start_ns = self.clock.monotonic_ns();
        let (result, buffer) = match self.load.kind {
            Kind::Read => self.file.read_at(offset, buffer).await,
            Kind::Write => self.file.write_at(offset, buffer).await,
        };
        result.unwrap();
        let now_ns = self.clock.monotonic_ns();
        let mut played = self.played.borrow_mut();
        played.requests += usize::from(now_ns <= self.end_ns);
        played.us.push((now_ns - start_ns) as f64 / 1e3);
        buffer
    }
}

type Joined = std::result::Result<(), tokio::task::JoinError>;

fn spawn(task: impl Future<Output = ()> + 'static) -> tokio::task::JoinHandle<()> {
    tokio::task::spawn_local(task)
}

/// Zeros might be kept without being written.
fn random_buffer(bytes: usize, random: &mut Random) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::for_reading(bytes);
    buffer.set_len(bytes);
    for word in buffer.chunks_exact_mut(8) {
        word.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    buffer
}

/// Shares of a class and no limit of its bytes.
pub fn set_shares(queue: &IoQueue, class: Class, shares: u32) {
    queue.scheduler().set(class, ClassSettings { shares, bandwidth: None });
}
