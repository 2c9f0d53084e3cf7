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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_told_with_its_places_its_tables_and_the_reason() {
        let told = |ranges: &[Range<u32>], tables: &[&str]| {
            let left_out = LeftOut {
                file: PathBuf::from("/db/1.log"),
                ranges: ranges.to_vec(),
                reason: "no file".to_owned(),
                tables: tables.iter().map(|table| (*table).to_owned()).collect(),
            };
            left_out.to_string()
        };
        let two = [4096..8192, 12288..12300];
        for (ranges, tables, wanted) in [
            (&two[..0], &[][..], "all that cannot be read; no table lacks writes"),
            (&two[..1], &["k.a"], "bytes 4096 to 8192; these tables may lack writes: k.a"),
            (
                &two[..],
                &["k.a", "k.b"],
                "bytes 4096 to 8192, bytes 12288 to 12300; these tables may lack writes: k.a, k.b",
            ),
        ] {
            let wanted = format!("left out of /db/1.log: {wanted} (no file)");
            assert_eq!(told(ranges, tables), wanted);
        }
    }
}
