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
