//! Service levels: which work goes together, how fast it has to be, and its part of a shard.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Deadline;
use crate::config::{LEVEL_SHARES_DEFAULT, LEVEL_SHARES_MAX};
use crate::error::{Error, Result};

/// Name of the service level of what names none.
pub const DEFAULT_LEVEL: &str = "default";

/// Names a level for ever: one that was dropped and comes back has another.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct LevelId(pub u64);

impl LevelId {
    /// Of what names no level.
    pub const DEFAULT: LevelId = LevelId(0);
}

/// What work does where there is too much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Somebody waits for it: what cannot begin soon is refused.
    Interactive,
    /// It waits for as long as it takes.
    Batch,
}

impl Workload {
    pub const ALL: [Workload; 2] = [Workload::Interactive, Workload::Batch];

    pub fn name(self) -> &'static str {
        match self {
            Workload::Interactive => "interactive",
            Workload::Batch => "batch",
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Workload::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| {
            Error::invalid(format!("a workload type is 'interactive' or 'batch', not '{text}'"))
        })
    }
}

/// What is set of a level; what is not has its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LevelOptions {
    /// Most milliseconds of a statement, 1 at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// Its part of a shard beside those of other levels, 1 to [`LEVEL_SHARES_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<u32>,
}

impl LevelOptions {
    pub fn shares(&self) -> u32 {
        self.shares.unwrap_or(LEVEL_SHARES_DEFAULT)
    }

    pub fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }

    /// Errors: `Invalid` for shares or a timeout that no level has.
    pub fn check(&self) -> Result<()> {
        if !(1..=LEVEL_SHARES_MAX).contains(&self.shares()) {
            let shares = self.shares();
            let message = format!("shares are 1 to {LEVEL_SHARES_MAX}, not {shares}");
            return Err(Error::invalid(message));
        }
        if self.timeout_ms == Some(0) {
            return Err(Error::invalid("a timeout is a millisecond at least, or NULL for none"));
        }
        Ok(())
    }
}

/// A level as the catalog has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServiceLevel {
    pub id: LevelId,
    #[serde(flatten)]
    pub options: LevelOptions,
}

/// On what terms work is done: those of nobody in particular, unless they say more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Terms {
    /// Whose part of the shards it takes.
    pub level: LevelId,
    /// Until when it is wanted.
    pub deadline: Option<Deadline>,
}

/// How the reads of a service level stand, those of both classes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LevelStatus {
    pub running: u64,
    pub queued: u64,
    /// Reads whose clients take nothing, and those that wait for memory.
    pub aside: u64,
    pub memory_bytes: u64,
    /// Since the start.
    pub admitted: u64,
    pub refused: u64,
    /// Reads that were ended for the memory that their level held.
    pub killed: u64,
}

impl LevelStatus {
    /// Both together.
    pub fn and(self, other: LevelStatus) -> LevelStatus {
        LevelStatus {
            running: self.running + other.running,
            queued: self.queued + other.queued,
            aside: self.aside + other.aside,
            memory_bytes: self.memory_bytes + other.memory_bytes,
            admitted: self.admitted + other.admitted,
            refused: self.refused + other.refused,
            killed: self.killed + other.killed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_bounds() {
        let shares = |shares| LevelOptions { shares: Some(shares), ..LevelOptions::default() };
        let timeout = |ms| LevelOptions { timeout_ms: Some(ms), ..LevelOptions::default() };
        for (options, wanted) in [
            (LevelOptions::default(), None),
            (shares(1), None),
            (shares(1000), None),
            (shares(0), Some("1 to 1000, not 0")),
            (shares(1001), Some("1 to 1000, not 1001")),
            (timeout(1), None),
            (timeout(0), Some("a millisecond at least")),
        ] {
            let said = options.check().err().map(|error| error.to_string());
            match wanted {
                None => assert_eq!(said, None, "{options:?}"),
                Some(part) => assert!(said.is_some_and(|text| text.contains(part)), "{options:?}"),
            }
        }
        let workloads = ["Interactive", "batch"].map(|text| text.parse::<Workload>().unwrap());
        assert_eq!(workloads, Workload::ALL);
        assert!("bulk".parse::<Workload>().unwrap_err().to_string().contains("'bulk'"));
    }
}
