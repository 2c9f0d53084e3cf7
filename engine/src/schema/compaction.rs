//! How a table's SSTables are merged: the option `compaction`, with Cassandra's names.
//!
//! Not here: the strategies (`compaction`), and when they are asked (`database`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// SSTables that one compaction merges at most: each takes a window of its data in memory.
const INPUTS_MAX: u32 = 128;
/// Least size at which what is written is cut: a page. Statements count in MiB.
const SSTABLE_BYTES_MIN: u64 = 4 << 10;
/// ScyllaDB's size of the fragments of a run.
const FRAGMENT_BYTES: u64 = 1000 << 20;
/// Greatest ratio that can be set.
const RATIO_MAX: u32 = 1_000_000;

/// A ratio in thousandths: what a person writes as `0.5` is compared and kept exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Thousandths(pub u32);

impl Thousandths {
    /// The ratio as a number.
    pub fn ratio(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

impl FromStr for Thousandths {
    type Err = Error;

    /// From a decimal number; digits behind the third are cut.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::invalid(format!("'{text}' is no ratio such as 0.5"));
        let (whole, digits) = text.split_once('.').unwrap_or((text, ""));
        let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_digits(whole) || !is_digits(digits) {
            return Err(wrong());
        }
        let whole: u32 = whole.parse().map_err(|_| wrong())?;
        let digits = format!("{digits:0<3}");
        let digits: u32 = digits[..3].parse().map_err(|_| wrong())?;
        let all = whole.checked_mul(1000).and_then(|whole| whole.checked_add(digits));
        all.filter(|all| *all <= RATIO_MAX).map(Thousandths).ok_or_else(wrong)
    }
}

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:03}", self.0 % 1000);
        let digits = digits.trim_end_matches('0');
        let digits = if digits.is_empty() { "0" } else { digits };
        write!(f, "{}.{digits}", self.0 / 1000)
    }
}

/// Which strategy chooses what is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionClass {
    /// SSTables of about the same size are merged.
    #[default]
    SizeTiered,
    /// Levels of disjoint SSTables of one size, each level ten times the one before.
    Leveled,
    /// SSTables whose newest data is of the same stretch of time are merged.
    TimeWindow,
    /// Runs of about the same size are merged; a run is SSTables that do not overlap.
    Incremental,
}

impl CompactionClass {
    pub const ALL: [CompactionClass; 4] = [
        CompactionClass::SizeTiered,
        CompactionClass::Leveled,
        CompactionClass::TimeWindow,
        CompactionClass::Incremental,
    ];

    /// Name of the class, without its package: ScyllaDB's of the incremental one, else Cassandra's.
    pub fn class(self) -> &'static str {
        match self {
            CompactionClass::SizeTiered => "SizeTieredCompactionStrategy",
            CompactionClass::Leveled => "LeveledCompactionStrategy",
            CompactionClass::TimeWindow => "TimeWindowCompactionStrategy",
            CompactionClass::Incremental => "IncrementalCompactionStrategy",
        }
    }

    /// The strategy of a class, named with or without its package, in full, without
    /// `CompactionStrategy` or by its initials.
    pub fn of_class(class: &str) -> Option<Self> {
        let name = class.rsplit('.').next()?;
        CompactionClass::ALL.into_iter().find(|one| {
            let full = one.class();
            let short = full.trim_end_matches("CompactionStrategy");
            let initials: String = full.chars().filter(char::is_ascii_uppercase).collect();
            [full, short, &initials].iter().any(|known| known.eq_ignore_ascii_case(name))
        })
    }
}

/// The unit of a window of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowUnit {
    Minutes,
    Hours,
    #[default]
    Days,
}

impl WindowUnit {
    pub const ALL: [WindowUnit; 3] = [WindowUnit::Minutes, WindowUnit::Hours, WindowUnit::Days];

    /// Cassandra's name of it.
    pub fn name(self) -> &'static str {
        match self {
            WindowUnit::Minutes => "MINUTES",
            WindowUnit::Hours => "HOURS",
            WindowUnit::Days => "DAYS",
        }
    }

    /// The unit of this name, in any letter case.
    pub fn of_name(name: &str) -> Option<Self> {
        WindowUnit::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }

    fn seconds(self) -> i64 {
        match self {
            WindowUnit::Minutes => 60,
            WindowUnit::Hours => 3600,
            WindowUnit::Days => 86_400,
        }
    }
}

/// The option `compaction` of a table. Each strategy reads what it knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompactionOptions {
    pub class: CompactionClass,
    /// Whether the table's SSTables are merged without being asked.
    pub is_enabled: bool,
    /// SSTables of a tier that are merged together, at least and at most.
    pub min_threshold: u32,
    pub max_threshold: u32,
    /// What belongs to a tier: sizes between these, as multiples of its average.
    pub bucket_low: Thousandths,
    pub bucket_high: Thousandths,
    /// Smaller SSTables are one tier.
    pub min_sstable_bytes: u64,
    /// Size of the SSTables of a leveled table, and of the fragments of a run.
    pub sstable_bytes: u64,
    /// How many times the level before it a level is.
    pub fanout: u32,
    /// How many times the largest tier of runs the two largest may be; any, where absent.
    pub space_amplification_goal: Option<Thousandths>,
    /// Length of a window.
    pub window_unit: WindowUnit,
    pub window_size: u32,
    /// Part of the cells of an SSTable that could go, from which on it is rewritten alone.
    pub tombstone_threshold: Thousandths,
    /// Seconds that an SSTable must be there before it is rewritten alone.
    pub tombstone_interval_seconds: u32,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        CompactionOptions {
            class: CompactionClass::default(),
            is_enabled: true,
            min_threshold: 4,
            max_threshold: 32,
            bucket_low: Thousandths(500),
            bucket_high: Thousandths(1500),
            min_sstable_bytes: 50 << 20,
            sstable_bytes: 160 << 20,
            fanout: 10,
            space_amplification_goal: None,
            window_unit: WindowUnit::default(),
            window_size: 1,
            tombstone_threshold: Thousandths(200),
            tombstone_interval_seconds: 86_400,
        }
    }
}

impl CompactionOptions {
    /// Those of a table of this strategy of which nothing else is said.
    pub fn of_class(class: CompactionClass) -> Self {
        let usual = CompactionOptions { class, ..CompactionOptions::default() };
        match class {
            CompactionClass::Incremental => {
                CompactionOptions { sstable_bytes: FRAGMENT_BYTES, ..usual }
            }
            _ => usual,
        }
    }

    /// Length of a window of time, seconds.
    pub fn window_seconds(&self) -> i64 {
        self.window_unit.seconds() * i64::from(self.window_size)
    }

    /// Errors: `Invalid` naming the rule that is broken.
    pub fn validate(&self) -> Result<()> {
        let rules = [
            (self.min_threshold >= 2, "min_threshold is at least 2".to_owned()),
            (
                self.max_threshold >= self.min_threshold && self.max_threshold <= INPUTS_MAX,
                format!("max_threshold is between min_threshold and {INPUTS_MAX}"),
            ),
            (
                self.bucket_low < self.bucket_high && self.bucket_high.0 > 1000,
                "bucket_low is below bucket_high, which is above 1".to_owned(),
            ),
            (
                self.sstable_bytes >= SSTABLE_BYTES_MIN,
                format!("sstable_size_in_mb is at least 1, or {SSTABLE_BYTES_MIN} bytes"),
            ),
            (self.fanout >= 2, "fanout_size is at least 2".to_owned()),
            (
                self.space_amplification_goal.is_none_or(|goal| (1001..=2000).contains(&goal.0)),
                "space_amplification_goal is above 1 and at most 2".to_owned(),
            ),
            (self.window_size >= 1, "compaction_window_size is at least 1".to_owned()),
            (
                (1..=1000).contains(&self.tombstone_threshold.0),
                "tombstone_threshold is between 0.001 and 1".to_owned(),
            ),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            None => Ok(()),
            Some((_, rule)) => Err(Error::invalid(rule)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_read_back() {
        for (text, thousandths) in [("0.5", 500), ("1", 1000), ("1.25", 1250), ("0.0009", 0)] {
            let ratio: Thousandths = text.parse().unwrap();
            assert_eq!(ratio, Thousandths(thousandths), "{text}");
            assert_eq!(ratio.to_string().parse::<Thousandths>().unwrap(), ratio);
        }
        for wrong in ["", ".5", "-1", "half", "1e3", "5000000"] {
            assert!(wrong.parse::<Thousandths>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn classes_have_long_and_short_names() {
        let package = "org.apache.cassandra.db.compaction.LeveledCompactionStrategy";
        let named = [
            ("SizeTieredCompactionStrategy", CompactionClass::SizeTiered),
            (package, CompactionClass::Leveled),
            ("timewindow", CompactionClass::TimeWindow),
            ("STCS", CompactionClass::SizeTiered),
            ("twcs", CompactionClass::TimeWindow),
            ("ICS", CompactionClass::Incremental),
            ("incremental", CompactionClass::Incremental),
        ];
        for (name, class) in named {
            assert_eq!(CompactionClass::of_class(name), Some(class), "{name}");
        }
        assert_eq!(CompactionClass::of_class("CompactionStrategy"), None);
    }

    #[test]
    fn impossible_options_are_refused() {
        CompactionOptions::default().validate().unwrap();
        let changes: [fn(&mut CompactionOptions); 6] = [
            |options| options.min_threshold = 1,
            |options| options.max_threshold = 3,
            |options| options.bucket_low = Thousandths(1500),
            |options| options.sstable_bytes = 1,
            |options| options.window_size = 0,
            |options| options.tombstone_threshold = Thousandths(1001),
        ];
        for change in changes {
            let mut options = CompactionOptions::default();
            change(&mut options);
            assert!(options.validate().is_err(), "{options:?}");
        }
    }

    /// Of each rule: what just keeps to it, what just breaks it, and the word that names it.
    #[test]
    fn each_rule_ends_where_it_says() {
        type Change = fn(&mut CompactionOptions);
        let rules: [(Change, Change, &str); 11] = [
            (|o| o.min_threshold = 2, |o| o.min_threshold = 1, "min_threshold is"),
            (|o| o.max_threshold = 4, |o| o.max_threshold = 3, "max_threshold"),
            (|o| o.max_threshold = 128, |o| o.max_threshold = 129, "and 128"),
            (
                |o| o.bucket_low = Thousandths(1499),
                |o| o.bucket_low = Thousandths(1500),
                "bucket_low",
            ),
            (
                |o| o.bucket_high = Thousandths(1001),
                |o| o.bucket_high = Thousandths(1000),
                "bucket_high",
            ),
            (|o| o.sstable_bytes = 4 << 10, |o| o.sstable_bytes = (4 << 10) - 1, "at least 1"),
            (|o| o.fanout = 2, |o| o.fanout = 1, "fanout_size"),
            (
                |o| o.space_amplification_goal = Some(Thousandths(1001)),
                |o| o.space_amplification_goal = Some(Thousandths(1000)),
                "space_amplification_goal",
            ),
            (
                |o| o.space_amplification_goal = Some(Thousandths(2000)),
                |o| o.space_amplification_goal = Some(Thousandths(2001)),
                "at most 2",
            ),
            (|o| o.window_size = 1, |o| o.window_size = 0, "compaction_window_size"),
            (
                |o| o.tombstone_threshold = Thousandths(1000),
                |o| o.tombstone_threshold = Thousandths(1001),
                "tombstone_threshold",
            ),
        ];
        for (keeps, breaks, name) in rules {
            let mut options = CompactionOptions::default();
            keeps(&mut options);
            assert!(options.validate().is_ok(), "{name}: {options:?}");
            breaks(&mut options);
            let told = options.validate().unwrap_err().to_string();
            assert!(told.contains(name), "{name}: {told}");
        }
        let least = CompactionOptions { tombstone_threshold: Thousandths(1), ..Default::default() };
        assert!(least.validate().is_ok());
        let none = CompactionOptions { tombstone_threshold: Thousandths(0), ..least };
        assert!(none.validate().is_err());
        assert_eq!("1000".parse::<Thousandths>().unwrap(), Thousandths(RATIO_MAX));
        assert!("1000.001".parse::<Thousandths>().is_err());
        assert_eq!(Thousandths(50).to_string(), "0.05");
    }

    #[test]
    fn defaults_follow_the_strategy() {
        for class in CompactionClass::ALL {
            let options = CompactionOptions::of_class(class);
            options.validate().unwrap();
            let mib = if class == CompactionClass::Incremental { 1000 } else { 160 };
            assert_eq!((options.class, options.sstable_bytes >> 20), (class, mib));
        }
    }

    #[test]
    fn windows_are_as_long_as_their_unit_says() {
        for (unit, seconds) in
            [(WindowUnit::Minutes, 180), (WindowUnit::Hours, 10_800), (WindowUnit::Days, 259_200)]
        {
            let options =
                CompactionOptions { window_unit: unit, window_size: 3, ..Default::default() };
            assert_eq!(options.window_seconds(), seconds, "{unit:?}");
            assert_eq!(WindowUnit::of_name(&unit.name().to_lowercase()), Some(unit));
        }
    }

    #[test]
    fn each_strategy_and_each_unit_is_found_by_every_form_of_its_name() {
        for (class, name, initials) in [
            (CompactionClass::SizeTiered, "SizeTiered", "STCS"),
            (CompactionClass::Leveled, "Leveled", "LCS"),
            (CompactionClass::TimeWindow, "TimeWindow", "TWCS"),
            (CompactionClass::Incremental, "Incremental", "ICS"),
        ] {
            let full = format!("{name}CompactionStrategy");
            assert_eq!(class.class(), full);
            let package = format!("org.apache.cassandra.db.compaction.{full}");
            for known in [name, initials, &full, &package] {
                for known in [known.to_owned(), known.to_lowercase(), known.to_uppercase()] {
                    assert_eq!(CompactionClass::of_class(&known), Some(class), "{known}");
                    // A name that only begins so, or ends so, is another one.
                    assert_eq!(CompactionClass::of_class(&format!("{known}2")), None, "{known}");
                    assert_eq!(CompactionClass::of_class(&format!("{known}.")), None, "{known}");
                }
            }
        }
        for (unit, name) in [
            (WindowUnit::Minutes, "MINUTES"),
            (WindowUnit::Hours, "HOURS"),
            (WindowUnit::Days, "DAYS"),
        ] {
            assert_eq!(unit.name(), name);
            for known in [name, &name.to_lowercase()] {
                assert_eq!(WindowUnit::of_name(known), Some(unit), "{known}");
            }
            assert_eq!(WindowUnit::of_name(&name[..name.len() - 1]), None, "{name}");
        }
        for unknown in ["", "S", "CS", "MONTHS", "Strategy"] {
            assert_eq!(CompactionClass::of_class(unknown), None, "{unknown}");
            assert_eq!(WindowUnit::of_name(unknown), None, "{unknown}");
        }
    }
}
