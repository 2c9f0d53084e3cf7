//! What every benchmark group shares: its rows, its arguments and its clocks.
//!
//! A row says name, figure, baseline of the same run, ratio, target and whether the target holds.
//! `-- --json` prints one object a line, `-- --quick` keeps the run under a minute, and a word
//! picks the rows whose name contains it.

pub mod table;

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Arguments after `--`.
pub struct Arguments {
    pub json: bool,
    pub quick: bool,
    filter: Option<String>,
}

impl Arguments {
    /// Reads the process's arguments; unknown flags (cargo passes `--bench`) are ignored.
    pub fn parse() -> Self {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let has = |flag: &str| words.iter().any(|word| word == flag);
        Arguments {
            json: has("--json"),
            quick: has("--quick"),
            filter: words.iter().find(|word| !word.starts_with('-')).cloned(),
        }
    }

    /// Whether a row is to be measured, or rows that are measured together and have `name` in
    /// theirs.
    pub fn wants(&self, name: &str) -> bool {
        self.filter.as_deref().is_none_or(|filter| name.contains(filter) || filter.contains(name))
    }

    /// `quick` in a quick run, else `full`.
    pub fn scale(&self, quick: usize, full: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

/// What a figure must reach.
#[derive(Clone, Copy)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// Bounds the ratio of figure to baseline, not the figure.
    RatioAtMost(f64),
    RatioAtLeast(f64),
    RatioWithin(f64, f64),
    /// Shown for comparison only.
    None,
}

/// One line of a group's table.
pub struct Row<'a> {
    pub name: &'a str,
    pub unit: &'static str,
    pub figure: f64,
    /// The same work by the baseline, in the same unit and run, and what that is.
    pub baseline: Option<(&'static str, f64)>,
    pub target: Target,
}

impl Row<'_> {
    fn ratio(&self) -> Option<f64> {
        self.baseline.map(|(_, baseline)| self.figure / baseline)
    }

    fn holds(&self) -> Option<bool> {
        match self.target {
            Target::AtLeast(bound) => Some(self.figure >= bound),
            Target::AtMost(bound) => Some(self.figure <= bound),
            Target::RatioAtMost(bound) => self.ratio().map(|ratio| ratio <= bound),
            Target::RatioAtLeast(bound) => self.ratio().map(|ratio| ratio >= bound),
            Target::RatioWithin(least, most) => {
                self.ratio().map(|ratio| (least..=most).contains(&ratio))
            }
            Target::None => None,
        }
    }

    fn target_text(&self) -> String {
        match self.target {
            Target::AtLeast(bound) => format!(">= {}", number(bound)),
            Target::AtMost(bound) => format!("<= {}", number(bound)),
            Target::RatioAtMost(bound) => format!("ratio <= {}", number(bound)),
            Target::RatioAtLeast(bound) => format!("ratio >= {}", number(bound)),
            Target::RatioWithin(least, most) => format!("ratio {least} to {most}"),
            Target::None => "-".into(),
        }
    }

    /// Prints the row, as text or JSON.
    pub fn print(&self, arguments: &Arguments) {
        let holds = match self.holds() {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "-",
        };
        if arguments.json {
            let optional = |value: Option<f64>| value.map_or("null".into(), |v| format!("{v:.4}"));
            println!(
                "{{\"name\":\"{}\",\"unit\":\"{}\",\"figure\":{:.4},\"baseline\":{},\"ratio\":{},\"target\":\"{}\",\"holds\":{}}}",
                self.name,
                self.unit,
                self.figure,
                optional(self.baseline.map(|(_, value)| value)),
                optional(self.ratio()),
                self.target_text(),
                self.holds().map_or("null".to_owned(), |holds| holds.to_string()),
            );
            return;
        }
        let baseline = match self.baseline {
            Some((what, value)) => format!("{} ({what})", number(value)),
            None => "-".into(),
        };
        let ratio = self.ratio().map_or("-".into(), |ratio| format!("{ratio:.2}"));
        println!(
            "{:<44} {:>11} {:<9} | {:<38} | {:>7} | {:<14} | {holds}",
            self.name,
            number(self.figure),
            self.unit,
            baseline,
            ratio,
            self.target_text()
        );
    }
}

/// Prints the head of the table.
pub fn print_head(arguments: &Arguments) {
    if !arguments.json {
        println!(
            "{:<44} {:>11} {:<9} | {:<38} | {:>7} | {:<14} | holds",
            "name", "figure", "unit", "baseline", "ratio", "target"
        );
    }
}

fn number(value: f64) -> String {
    if value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

/// Wall time of `work`.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// A moment, for the time between two of them.
pub fn wall() -> Duration {
    clock(ClockId::Monotonic)
}

/// The median of several measurements.
pub fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "nothing was measured");
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Of several pairs of figure and baseline, measured one beside the other, that of the median
/// ratio.
pub fn median_ratio(mut pairs: Vec<(f64, f64)>) -> (f64, f64) {
    assert!(!pairs.is_empty(), "nothing was measured");
    pairs.sort_by(|(a, base_a), (b, base_b)| (a / base_a).total_cmp(&(b / base_b)));
    pairs[pairs.len() / 2]
}

/// CPU time that the whole process spends while `work` runs.
pub async fn cpu_timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let start = clock(ClockId::ProcessCPUTime);
    let result = work.await;
    (result, clock(ClockId::ProcessCPUTime) - start)
}

/// The CPU time of this thread alone: of a stretch that waits for nothing, whatever else the
/// machine does.
pub fn thread_cpu_timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = clock(ClockId::ThreadCPUTime);
    let result = work();
    (result, clock(ClockId::ThreadCPUTime) - start)
}

fn clock(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Copies a folder with all that is in it, as it is now. Files that go meanwhile are left out.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            match std::fs::copy(entry.path(), target) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => panic!("{}: {error}", entry.path().display()),
            }
        }
    }
}
