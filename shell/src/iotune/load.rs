//! Loads on files without names, by the engine's own way to the disk.
//!
//! Each thread has a file and a disk of its own; a load is divided among the threads. Rates are
//! sampled while it runs, and samples of the warm-up are left out.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use futures::future::join_all;
use tidegate_engine::clock::{Clock, Random, SystemClock};
use tidegate_engine::disk::{self, Access, AlignedBuffer, DiskFile, OpenOptions as DiskOptions};
use tidegate_engine::io::Kind;
use tidegate_engine::runtime::{RealTimer, Timer};
use tidegate_engine::{Backend, Result, os};

/// Most bytes of all files, and the part of the free space that they may take.
const FILE_BYTES_MAX: u64 = 8 << 30;
const FREE_ONE_IN: u64 = 4;
/// Fewer bytes cannot be measured: the device's cache would be.
const FILE_BYTES_MIN: u64 = 64 << 20;
/// Files are whole MiB, the longest request.
const MIB: u64 = 1 << 20;
/// More threads than this do not make a disk faster.
const THREADS_MAX: usize = 4;
const SAMPLE: Duration = Duration::from_millis(100);
/// Part of a load that is its warm-up.
const WARM_UP: f64 = 0.25;

/// Requests of one kind, of all threads together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    pub bytes: usize,
    /// Requests at once.
    pub depth: usize,
    pub is_random: bool,
    /// How many begin in a second; as many as there can be where absent.
    pub per_second: Option<f64>,
}

/// What runs at the same time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub reads: Option<Stream>,
    pub writes: Option<Stream>,
    pub time: Duration,
}

impl Load {
    pub fn of(kind: Kind, stream: Stream, time: Duration) -> Self {
        match kind {
            Kind::Read => Load { reads: Some(stream), writes: None, time },
            Kind::Write => Load { reads: None, writes: Some(stream), time },
        }
    }
}

/// What came of a load.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Measured {
    /// Requests a second, a sample each.
    samples: Vec<f64>,
    /// Time of each read in the disk, ascending.
    read_us: Vec<u32>,
}

impl Measured {
    /// Requests a second.
    pub fn mean(&self) -> f64 {
        self.samples.iter().sum::<f64>() / self.samples.len().max(1) as f64
    }

    /// Standard deviation of a sample, part of the mean.
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares = self.samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>();
        (squares / self.samples.len().max(1) as f64).sqrt() / mean.max(f64::MIN_POSITIVE)
    }

    /// The latency that a part of the reads stayed below, µs.
    pub fn read_us(&self, part: f64) -> f64 {
        let last = self.read_us.len().saturating_sub(1);
        self.read_us.get((last as f64 * part) as usize).map_or(0.0, |us| f64::from(*us))
    }
}

/// The files of all threads.
pub(super) struct Files {
    files: Vec<File>,
    /// Bytes of each.
    bytes: u64,
    backend: Backend,
    clock: SystemClock,
}

/// What threads tell each other while a load runs.
struct Shared<'a> {
    files: &'a Files,
    load: &'a Load,
    start_ns: u64,
    /// Requests that ended.
    ended: AtomicU64,
    /// Requests of a paced stream that were begun: reads, writes.
    begun: [AtomicU64; 2],
    read_us: Mutex<Vec<u32>>,
}

impl Files {
    /// Makes the files. They take room as they are written.
    ///
    /// Errors: above all too little room.
    pub fn make(directory: &Path, backend: Backend) -> io::Result<Self> {
        let threads = os::available_cores()?.len().clamp(1, THREADS_MAX);
        let free = os::free_bytes(directory)?;
        let bytes = (free / FREE_ONE_IN).min(FILE_BYTES_MAX) / threads as u64;
        let bytes = bytes / MIB * MIB;
        if bytes * (threads as u64) < FILE_BYTES_MIN {
            let message = format!("{free} bytes are free, {FILE_BYTES_MIN} are needed four times");
            return Err(io::Error::other(message));
        }
        let make = |number| {
            let path = directory.join(format!(".iotune-{}-{number}", std::process::id()));
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create_new(true).open(&path)?;
            // From here on it is gone when nobody has it open.
            std::fs::remove_file(&path)?;
            Ok(file)
        };
        let files = (0..threads).map(make).collect::<io::Result<Vec<File>>>()?;
        Ok(Files { files, bytes, backend, clock: SystemClock::new() })
    }

    /// Runs a load and tells how far it has come.
    ///
    /// Errors: text for people.
    pub fn measure(
        &self,
        load: &Load,
        mut tell: impl FnMut(f64),
    ) -> std::result::Result<Measured, String> {
        let (ended, begun) = (AtomicU64::new(0), Default::default());
        let start_ns = self.clock.monotonic_ns();
        let read_us = Mutex::default();
        let shared = Shared { files: self, load, start_ns, ended, begun, read_us };
        let mut samples = Vec::new();
        let all: std::result::Result<(), String> = std::thread::scope(|scope| {
            let start = |number| {
                let shared = &shared;
                scope.spawn(move || shared.run(number))
            };
            let threads: Vec<_> = (0..self.files.len()).map(start).collect();
            samples = shared.sample(&mut tell);
            threads.into_iter().try_for_each(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        });
        all?;
        let mut read_us = shared.read_us.into_inner().expect("no thread panicked");
        read_us.sort_unstable();
        Ok(Measured { samples, read_us })
    }
}

impl Shared<'_> {
    fn elapsed_ns(&self) -> u64 {
        self.files.clock.monotonic_ns() - self.start_ns
    }

    fn is_over(&self) -> bool {
        u128::from(self.elapsed_ns()) >= self.load.time.as_nanos()
    }

    /// Rates until the load is over, without those of the warm-up.
    fn sample(&self, tell: &mut impl FnMut(f64)) -> Vec<f64> {
        let mut samples = Vec::new();
        let (mut before, mut before_ns) = (0, 0);
        while !self.is_over() {
            std::thread::sleep(SAMPLE.min(self.load.time / 8));
            let (now, now_ns) = (self.ended.load(Relaxed), self.elapsed_ns());
            let share = now_ns as f64 / self.load.time.as_nanos() as f64;
            if share > WARM_UP && share <= 1.0 {
                samples.push((now - before) as f64 * 1e9 / (now_ns - before_ns) as f64);
            }
            (before, before_ns) = (now, now_ns);
            tell(share.min(1.0));
        }
        tell(1.0);
        samples
    }

    /// One thread's part of the load.
    fn run(&self, number: usize) -> std::result::Result<(), String> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", self.files.files[number].as_raw_fd()));
        let ran: Result<Result<()>> = disk::run(self.files.backend, |disk, _| async move {
            let options = DiskOptions { access: Access::ReadWrite, data_sync: false };
            let file = disk.open(&path, options).await?;
            let (reads, writes) = (self.load.reads, self.load.writes);
            let both = [(Kind::Read, reads), (Kind::Write, writes)];
            let streams = both.into_iter().filter_map(|(kind, stream)| Some((kind, stream?)));
            let mut loops = Vec::new();
            for (kind, stream) in streams {
                let next = Rc::new(std::cell::Cell::new(0));
                for at in 0..stream.depth.div_ceil(self.files.files.len()) {
                    let random = Random::new((number * 1000 + at) as u64 ^ self.start_ns);
                    loops.push(self.repeat((file.clone(), next.clone()), kind, stream, random));
                }
            }
            join_all(loops).await.into_iter().collect()
        });
        ran.flatten().map_err(|error| error.to_string())
    }

    /// One request after another, until the time is over.
    async fn repeat(
        &self,
        (file, next): (Rc<dyn DiskFile>, Rc<std::cell::Cell<u64>>),
        kind: Kind,
        stream: Stream,
        mut random: Random,
    ) -> Result<()> {
        let written = file.size().await?.max(stream.bytes as u64).min(self.files.bytes);
        // Random requests go where there is something, others may make the file longer.
        let area = if stream.is_random || kind == Kind::Read { written } else { self.files.bytes };
        let places = area / stream.bytes as u64;
        let mut buffer = AlignedBuffer::with_capacity(stream.bytes);
        buffer.set_len(stream.bytes);
        // Zeros might be kept without being written.
        buffer
            .chunks_exact_mut(8)
            .for_each(|word| word.copy_from_slice(&random.next_u64().to_le_bytes()));
        while self.wait_for_turn(kind, stream).await {
            let place = match stream.is_random {
                true => random.below(places),
                false => next.replace(next.get() + 1) % places,
            };
            let offset = place * stream.bytes as u64;
            let started_ns = self.elapsed_ns();
            let (result, back) = match kind {
                Kind::Read => file.read_at(offset, buffer).await,
                Kind::Write => file.write_at(offset, buffer).await,
            };
            result?;
            buffer = back;
            self.ended.fetch_add(1, Relaxed);
            if kind == Kind::Read {
                let us = (self.elapsed_ns() - started_ns) / 1000;
                let mut all = self.read_us.lock().expect("no thread panics with it");
                all.push(u32::try_from(us).unwrap_or(u32::MAX));
            }
        }
        Ok(())
    }

    /// Waits until the next request of a stream is due; false when the time is over.
    async fn wait_for_turn(&self, kind: Kind, stream: Stream) -> bool {
        if let Some(per_second) = stream.per_second {
            let turn = self.begun[usize::from(kind == Kind::Write)].fetch_add(1, Relaxed);
            let due_ns = (turn as f64 / per_second * 1e9) as u64;
            let wait_ns = due_ns.saturating_sub(self.elapsed_ns());
            if u128::from(due_ns) >= self.load.time.as_nanos() {
                return false;
            }
            if wait_ns > 0 {
                RealTimer.sleep_finely(Duration::from_nanos(wait_ns)).await;
            }
        }
        !self.is_over()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_a_mean_and_a_deviation() {
        let measured = Measured { samples: vec![90.0, 110.0], read_us: (0..=100).collect() };
        assert_eq!((measured.mean(), measured.deviation()), (100.0, 0.1));
        assert_eq!((measured.read_us(0.5), measured.read_us(0.95)), (50.0, 95.0));
        assert_eq!((Measured::default().mean(), Measured::default().read_us(0.5)), (0.0, 0.0));
    }

    #[test]
    fn loads_run_on_files_that_have_no_names() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::make(directory.path(), Backend::Blocking).unwrap();
        let time = Duration::from_millis(500);
        let long = Stream { bytes: 64 << 10, depth: 2, is_random: false, per_second: None };
        let written = files.measure(&Load::of(Kind::Write, long, time), |_| {}).unwrap();
        let paced = Stream { bytes: 4096, depth: 2, is_random: true, per_second: Some(1000.0) };
        let load = Load { reads: Some(paced), writes: Some(long), time };
        let mut told = Vec::new();
        let both = files.measure(&load, |share| told.push(share)).unwrap();
        assert!(written.mean() > 0.0 && written.read_us.is_empty());
        assert!((1..=500).contains(&both.read_us.len()), "{} reads", both.read_us.len());
        assert!(told.is_sorted() && told.last() == Some(&1.0));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
