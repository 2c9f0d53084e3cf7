//! `tidegate iotune`: measures a disk, writes what the I/O scheduler needs to know, draws the disk.
//!
//! Invariant: nothing is left on the disk but the file of figures. The files of the measurement
//! have no names from their first moment on, so they are gone however the program ends.

mod device;
mod load;
mod picture;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_engine::Backend;
use tidegate_engine::clock::Random;
use tidegate_engine::io::{DiskProperties, IoProperties, Kind, PROPERTIES_FILE};

use crate::cli::IotuneArguments;
use crate::exit::fail;
use crate::output::{self, progress::ProgressLine};
use crate::repl::colors_wanted;
use crate::stderr::tell_line;
use device::Device;
use load::{Files, Load, Measured, Stream};
use picture::Grid;

/// A disk that is busy for more than this part of the time cannot be measured.
const BUSY_MAX: f64 = 0.1;
/// How long the disk is watched for that.
const WATCH: Duration = Duration::from_millis(1000);
/// A deviation above this is told of, part of the mean.
const DEVIATION_TOLD: f64 = 0.03;
/// Requests of sequential and of random loads: their length, and how many at once.
const LONG: (usize, usize) = (1 << 20, 4);
const SHORT: (usize, usize) = (4096, 128);
/// Parts of the disk's rates that the grid tries, of reads and of writes.
const GRID_READS: [f64; 6] = [0.1, 0.25, 0.4, 0.55, 0.7, 0.85];
const GRID_WRITES: [f64; 6] = [0.0, 0.15, 0.3, 0.45, 0.6, 0.8];
/// How long a cell of the grid is measured, and the length of its writes.
const GRID_CELL: Duration = Duration::from_millis(800);
const GRID_WRITE_BYTES: usize = 128 << 10;
const GRID_FILE: &str = "io-grid.svg";

/// One of the four measurements: what it is called, its part of the time, what it does.
const TESTS: [(&str, f64, Kind, bool); 4] = [
    ("sequential writes", 0.34, Kind::Write, false),
    ("sequential reads", 0.18, Kind::Read, false),
    ("random writes", 0.16, Kind::Write, true),
    ("random reads", 0.16, Kind::Read, true),
];
/// Lengths that are tried, one after another: the shortest at which the disk has the rate of long
/// requests. Each takes a part of the time.
const LENGTHS: [usize; 4] = [512 << 10, 256 << 10, 128 << 10, 64 << 10];
const LENGTH_PART: f64 = 0.02;
/// A rate that is lower by less is as good, part of it.
const RATE_LOST_MAX: f64 = 0.05;

/// Measures; returns the exit code.
pub(crate) fn run(arguments: &IotuneArguments, data: &Path, backend: Backend) -> u8 {
    let directory = arguments.directory.as_deref().unwrap_or(data);
    match measure(arguments, directory, backend) {
        Ok(()) => 0,
        Err(message) => fail(&message),
    }
}

fn measure(arguments: &IotuneArguments, directory: &Path, backend: Backend) -> Result<(), String> {
    let failed =
        |what: &str, error: io::Error| format!("cannot {what} {}: {error}", directory.display());
    std::fs::create_dir_all(directory).map_err(|error| failed("make", error))?;
    let directory = directory.canonicalize().map_err(|error| failed("find", error))?;
    let device = Device::of(&directory)?;
    check_idle(&device, arguments.force)?;
    let files =
        Files::make(&directory, backend).map_err(|error| failed("write files to", error))?;
    let (disk, report) = rates(&files, Duration::from_secs(arguments.seconds.into()))?;
    let path = directory.join(PROPERTIES_FILE);
    let text = IoProperties::text(&device.mountpoint, &disk);
    replace(&path, text.as_bytes()).map_err(|error| failed("write figures to", error))?;
    let mut out = output::stdout();
    let mut show = |text: String| {
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|error| format!("cannot write the result: {error}"))
    };
    show(format!(
        "{report}\n{}: the engine reads it when it opens the directory\n",
        path.display()
    ))?;
    if arguments.grid {
        let grid = grid(&files, &disk)?;
        let path = directory.join(GRID_FILE);
        replace(&path, grid.svg().as_bytes()).map_err(|error| failed("draw in", error))?;
        let colors = colors_wanted(io::stdout().is_terminal());
        show(format!("\n{}\n{}\n", grid.text(colors), path.display()))?;
    }
    Ok(())
}

/// Errors: a disk that others use, unless it is to be measured all the same.
fn check_idle(device: &Device, force: bool) -> Result<(), String> {
    let Some(busy) = device.busy(WATCH) else {
        tell_line!("note: the kernel does not say how busy this disk is");
        return Ok(());
    };
    if busy <= BUSY_MAX {
        return Ok(());
    }
    let busy = format!("{} is busy {:.0} % of the time", device.name(), busy * 100.0);
    match force {
        true => tell_line!("warning: {busy}; the figures will be too low"),
        false => return Err(format!("{busy}: stop what uses it, or measure with --force")),
    }
    Ok(())
}

/// Writes a file beside the old one and exchanges them.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut beside = path.to_owned().into_os_string();
    beside.push(".tmp");
    let beside = PathBuf::from(beside);
    std::fs::write(&beside, content)?;
    std::fs::rename(beside, path)
}

/// The four rates, and lines about them.
fn rates(files: &Files, time: Duration) -> Result<(DiskProperties, String), String> {
    let mut found = [0; 4];
    let mut saturation_bytes = [None; 2];
    let mut report = String::new();
    let mut line = ProgressLine::new();
    for (rate, (name, part, kind, is_random)) in found.iter_mut().zip(TESTS) {
        let (bytes, depth) = if is_random { SHORT } else { LONG };
        let stream = Stream { bytes, depth, is_random, per_second: None };
        let load = Load::of(kind, stream, time.mul_f64(part));
        let measured =
            files.measure(&load, |share| line.show(&format!("{name}: {:.0} %", share * 100.0)))?;
        let per_second = measured.mean();
        let (value, unit) = match is_random {
            true => (per_second, "requests a second"),
            false => (per_second * bytes as f64 / f64::from(1 << 20), "MiB a second"),
        };
        report += &format!("{name:<18} {value:>10.0} {unit}{}\n", deviation(&measured));
        *rate = ((if is_random { per_second } else { per_second * bytes as f64 }) as u64).max(1);
        if !is_random {
            let limit = per_second * bytes as f64 * (1.0 - RATE_LOST_MAX.max(measured.deviation()));
            let shortest = shortest_at_rate(limit, |bytes| {
                // As many bytes at once as before.
                let depth = LONG.0 * LONG.1 / bytes;
                let stream = Stream { bytes, depth, is_random, per_second: None };
                let load = Load::of(kind, stream, time.mul_f64(LENGTH_PART));
                let text = format!("{name} of {} KiB", bytes >> 10);
                Ok(files.measure(&load, |_| line.show(&text))?.mean() * bytes as f64)
            })?;
            if let Some(bytes) = shortest {
                report +=
                    &format!("{:<18} {:>10} KiB are as fast as longer ones\n", "", bytes >> 10);
            }
            saturation_bytes[usize::from(kind == Kind::Write)] = shortest;
        }
    }
    line.clear();
    let [write_bandwidth, read_bandwidth, write_iops, read_iops] = found;
    let (reads, writes) = ((read_iops, read_bandwidth), (write_iops, write_bandwidth));
    let [read_saturation_bytes, write_saturation_bytes] = saturation_bytes;
    let rates = DiskProperties::new(reads, writes);
    Ok((DiskProperties { read_saturation_bytes, write_saturation_bytes, ..rates }, report))
}

/// The shortest of [`LENGTHS`] whose rate, and that of all longer ones, reaches a limit in bytes a
/// second. None where only longer requests do.
///
/// Errors: those of `measure`.
fn shortest_at_rate(
    limit: f64,
    mut measure: impl FnMut(usize) -> Result<f64, String>,
) -> Result<Option<usize>, String> {
    let mut shortest = None;
    for bytes in LENGTHS {
        if measure(bytes)? < limit {
            break;
        }
        shortest = Some(bytes);
    }
    Ok(shortest)
}

fn deviation(measured: &Measured) -> String {
    let deviation = measured.deviation();
    match deviation > DEVIATION_TOLD {
        true => format!(", deviation {:.0} %", deviation * 100.0),
        false => String::new(),
    }
}

/// Latencies of reads beside writes, at parts of what the disk can do of each alone.
fn grid(files: &Files, disk: &DiskProperties) -> Result<Grid, String> {
    let mut cells = Vec::new();
    let count = (GRID_READS.len() * GRID_WRITES.len()) as f64;
    // In drawn order, so that a slow drift of the disk is no slope of the picture.
    let mut order: Vec<_> = (0..GRID_READS.len() * GRID_WRITES.len()).collect();
    let mut random = Random::new(1);
    let mut line = ProgressLine::new();
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    for (done, place) in order.into_iter().enumerate() {
        let read = GRID_READS[place % GRID_READS.len()];
        let write = GRID_WRITES[place / GRID_READS.len()];
        let reads = Stream {
            bytes: SHORT.0,
            depth: SHORT.1,
            is_random: true,
            per_second: Some(read * disk.read_iops as f64),
        };
        let per_second = write * disk.write_bandwidth as f64 / GRID_WRITE_BYTES as f64;
        let writes = (write > 0.0).then_some(Stream {
            bytes: GRID_WRITE_BYTES,
            depth: 16,
            is_random: false,
            per_second: Some(per_second),
        });
        let load = Load { reads: Some(reads), writes, time: GRID_CELL };
        let text = format!("grid: {:.0} %", done as f64 / count * 100.0);
        let measured = files.measure(&load, |_| line.show(&text))?;
        cells.push((place, measured.read_us(0.5), measured.read_us(0.95)));
    }
    line.clear();
    cells.sort_unstable_by_key(|(place, ..)| *place);
    let reads = GRID_READS.map(|part| part * disk.read_iops as f64).to_vec();
    let writes = GRID_WRITES.map(|part| part * disk.write_bandwidth as f64).to_vec();
    let cells = cells.into_iter().map(|(_, p50, p95)| (p50, p95)).collect();
    let ends = (disk.read_iops as f64, disk.write_bandwidth as f64);
    Ok(Grid { reads, writes, cells, ends })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_requests_at_the_full_rate_are_found() {
        let kib = |bytes: usize| bytes as f64 / 1024.0;
        // What a request costs beside its bytes, in KiB: the more, the longer requests must be.
        for (cost, shortest) in [(1.0, Some(64)), (5.0, Some(128)), (20.0, Some(512)), (40.0, None)]
        {
            let mut tried = Vec::new();
            let found = shortest_at_rate(95.0, |bytes| {
                tried.push(bytes);
                Ok(100.0 * kib(bytes) / (kib(bytes) + cost))
            });
            assert_eq!(found, Ok(shortest.map(|kib| kib << 10)), "{cost}");
            // Those that are shorter than one below the rate are not tried.
            let last = tried.last().map_or(0, |bytes| bytes >> 10);
            assert_eq!(last, shortest.map_or(512, |kib| (kib / 2).max(64)), "{cost}");
        }
        let failed = shortest_at_rate(1.0, |_| Err("no disk".to_owned()));
        assert_eq!(failed, Err("no disk".to_owned()));
    }

    #[test]
    fn new_figures_take_the_place_of_old_ones_and_nothing_stays_beside_them() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(PROPERTIES_FILE);
        for content in ["the old figures, of which there are many", "new", ""] {
            replace(&path, content.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "{content}");
        }
        assert!(replace(&directory.path().join("absent/x"), b"new").is_err());
    }

    /// One length that is as fast by chance says nothing of those that are shorter.
    #[test]
    fn a_length_that_just_reaches_the_limit_counts_and_nothing_behind_one_that_does_not() {
        for (rates, shortest) in [
            ([100.0, 100.0, 100.0, 100.0], Some(64)),
            ([101.0, 100.0, 99.9, 500.0], Some(256)),
            ([99.9, 500.0, 500.0, 500.0], None),
            ([100.0, 100.0, 100.0, 99.9], Some(128)),
        ] {
            let mut left = rates.into_iter();
            let found = shortest_at_rate(100.0, |_| Ok(left.next().unwrap()));
            assert_eq!(found, Ok(shortest.map(|kib| kib << 10)), "{rates:?}");
        }
    }
}
