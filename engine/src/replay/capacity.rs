//! How much the cache of a replay holds: entries whatever their size, or bytes.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::trace::Trace;

/// Slots of a replay at most: policies keep some bytes of each.
const ENTRIES_MAX: u64 = 16 << 20;

/// See the head of this file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Capacity {
    Entries(u32),
    Bytes(u64),
    /// Percent of the different entries of the trace, as entries.
    Percent(f64),
}

impl Capacity {
    /// Entries or bytes, for a trace: at least one of them.
    ///
    /// Errors: `Invalid` when it is more than a replay can have.
    pub fn resolve(self, trace: &Trace) -> Result<Capacity> {
        let entries = |count: u64| match count {
            1..=ENTRIES_MAX => Ok(Capacity::Entries(count as u32)),
            0 => Err(Error::invalid("a cache of nothing holds nothing: give it 1 entry at least")),
            _ => Err(Error::invalid(format!("a replay has at most {ENTRIES_MAX} entries"))),
        };
        match self {
            Capacity::Entries(count) => entries(u64::from(count)),
            Capacity::Bytes(0) => Err(Error::invalid("a cache of 0 bytes holds nothing")),
            Capacity::Bytes(bytes) => Ok(Capacity::Bytes(bytes)),
            Capacity::Percent(percent) => {
                let count = percent / 100.0 * f64::from(trace.entry_count());
                entries((count as u64).max(1))
            }
        }
    }

    /// The points of a curve where none are asked for: 0.1 % to 50 % of the entries.
    pub fn curve(trace: &Trace) -> Vec<Capacity> {
        let percents = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0];
        let mut points: Vec<u32> = percents
            .iter()
            .map(|percent| (percent / 100.0 * f64::from(trace.entry_count())) as u32)
            .filter(|entries| *entries > 0)
            .collect();
        points.dedup();
        if points.is_empty() {
            points.push(1);
        }
        points.into_iter().map(Capacity::Entries).collect()
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Capacity::Entries(count) => write!(f, "{count} entries"),
            Capacity::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Capacity::Percent(percent) => write!(f, "{percent} %"),
        }
    }
}

/// `1000`, `64 MiB`, `1.5%`.
impl FromStr for Capacity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wanted = || {
            Error::invalid(format!(
                "'{text}' is no capacity: write 1000 (entries), '64 MiB' or '1%' (of the entries)"
            ))
        };
        let trimmed = text.trim();
        if let Some(percent) = trimmed.strip_suffix('%') {
            let percent = percent.trim().parse().ok();
            let percent = percent.filter(|percent| *percent > 0.0 && *percent <= 100.0);
            return percent.map(Capacity::Percent).ok_or_else(wanted);
        }
        let split = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
        let number: u64 = trimmed[..split].parse().map_err(|_| wanted())?;
        let unit = match trimmed[split..].trim().to_ascii_lowercase().as_str() {
            "" | "entries" => {
                return u32::try_from(number).map(Capacity::Entries).map_err(|_| wanted());
            }
            "b" | "bytes" => 1,
            "kib" | "k" => 1 << 10,
            "mib" | "m" => 1 << 20,
            "gib" | "g" => 1 << 30,
            _ => return Err(wanted()),
        };
        number.checked_mul(unit).map(Capacity::Bytes).ok_or_else(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Request, TraceBuilder};

    fn trace(entries: u64) -> Trace {
        let mut builder = TraceBuilder::default();
        for id in 0..entries {
            let request = Request { id, size_bytes: 1, kind: 0, is_hit: false, time_us: 0 };
            builder.push(request).unwrap();
        }
        builder.finish()
    }

    #[test]
    fn a_capacity_is_read_in_every_unit_and_letter_case() {
        for (text, wanted) in [
            ("1", Capacity::Entries(1)),
            (" 7 entries ", Capacity::Entries(7)),
            ("7Entries", Capacity::Entries(7)),
            ("4294967295", Capacity::Entries(u32::MAX)),
            ("5b", Capacity::Bytes(5)),
            ("5 Bytes", Capacity::Bytes(5)),
            ("3k", Capacity::Bytes(3 << 10)),
            ("3 KiB", Capacity::Bytes(3 << 10)),
            ("2M", Capacity::Bytes(2 << 20)),
            ("2mib", Capacity::Bytes(2 << 20)),
            ("1 G", Capacity::Bytes(1 << 30)),
            ("17179869183 GiB", Capacity::Bytes(u64::MAX - (1 << 30) + 1)),
            ("0.5%", Capacity::Percent(0.5)),
            (" 100 % ", Capacity::Percent(100.0)),
        ] {
            assert_eq!(text.parse::<Capacity>().unwrap(), wanted, "{text}");
        }
        for text in [
            "4294967296",
            "17179869184 GiB",
            "18446744073709551616 b",
            "1.5 MiB",
            "1 MB",
            "MiB",
            "%",
            "100.1%",
            "-1%",
            "nan%",
            "inf%",
        ] {
            assert!(text.parse::<Capacity>().is_err(), "{text}");
        }
        for shown in ["7 entries", "5 bytes"] {
            assert_eq!(shown.parse::<Capacity>().unwrap().to_string(), shown);
        }
        assert_eq!(Capacity::Percent(1.5).to_string(), "1.5 %");
    }

    #[test]
    fn a_replay_has_one_entry_or_byte_at_least_and_so_many_entries_at_most() {
        let most = ENTRIES_MAX as u32;
        let three = trace(3);
        for (capacity, wanted) in [
            (Capacity::Entries(1), Some(Capacity::Entries(1))),
            (Capacity::Entries(most), Some(Capacity::Entries(most))),
            (Capacity::Entries(most + 1), None),
            (Capacity::Entries(0), None),
            (Capacity::Bytes(0), None),
            (Capacity::Bytes(1), Some(Capacity::Bytes(1))),
            (Capacity::Bytes(u64::MAX), Some(Capacity::Bytes(u64::MAX))),
            (Capacity::Percent(0.001), Some(Capacity::Entries(1))),
            (Capacity::Percent(50.0), Some(Capacity::Entries(1))),
            (Capacity::Percent(70.0), Some(Capacity::Entries(2))),
            (Capacity::Percent(100.0), Some(Capacity::Entries(3))),
        ] {
            assert_eq!(capacity.resolve(&three).ok(), wanted, "{capacity}");
        }
        let all = Capacity::Percent(100.0).resolve(&trace(0));
        assert_eq!(all.unwrap(), Capacity::Entries(1), "of no entries");
    }

    #[test]
    fn a_curve_has_points_however_few_entries_there_are() {
        for (entries, points) in
            [(0, &[1][..]), (1, &[1]), (2, &[1]), (10, &[1, 2, 5]), (30, &[1, 3, 6, 15])]
        {
            let wanted: Vec<Capacity> = points.iter().copied().map(Capacity::Entries).collect();
            assert_eq!(Capacity::curve(&trace(entries)), wanted, "{entries}");
        }
    }
}
