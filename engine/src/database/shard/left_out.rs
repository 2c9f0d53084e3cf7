//! What a start left out of damaged commitlogs, if the options allow it.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// Writes of a commitlog that were left out because they cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The segment.
    pub file: PathBuf,
    /// Bytes of it that were left out; empty where the whole file is gone.
    pub ranges: Vec<Range<u32>>,
    /// What is wrong with the file.
    pub reason: String,
    /// Tables that may lack writes, full names, sorted.
    pub tables: Vec<String>,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "left out of {}: ", self.file.display())?;
        match self.ranges.as_slice() {
            [] => write!(f, "all that cannot be read")?,
            ranges => {
                for (nth, range) in ranges.iter().enumerate() {
                    let comma = if nth == 0 { "" } else { ", " };
                    write!(f, "{comma}bytes {} to {}", range.start, range.end)?;
                }
            }
        }
        let tables = match self.tables.as_slice() {
            [] => "no table lacks writes".to_owned(),
            tables => format!("these tables may lack writes: {}", tables.join(", ")),
        };
        write!(f, "; {tables} ({})", self.reason)
    }
}
