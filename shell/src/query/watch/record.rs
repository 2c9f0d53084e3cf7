//! A statement that was watched, when it is over.

use tidegate_engine::probe::{Count, ReadReport, ReadStats, Step};

/// Bytes of a statement's text that are kept.
const TEXT_BYTES_MAX: usize = 2000;

/// See the head of this file.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Counts the records of a journal.
    pub number: u64,
    /// Wall clock, microseconds since the epoch.
    pub started_us: i64,
    pub duration_us: u64,
    /// Who ran it.
    pub session: String,
    /// Its text, cut where it is long.
    pub statement: String,
    /// Rows that were given or written.
    pub rows: u64,
    pub error: Option<String>,
    /// In the order of time.
    pub noted: Vec<Step>,
    /// Its reads with their counters.
    pub reads: Vec<ReadReport>,
    /// Steps for which there was no room.
    pub left_out: u64,
    /// Counters of all its reads.
    pub stats: ReadStats,
}

impl Record {
    /// All steps in the order of time; the last ones are the counters of its reads. Their text is
    /// made here: most traces are read by nobody.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = self.noted.clone();
        // A microsecond is not told to its end.
        let at_ns = steps.last().map_or(0, |last| last.at_ns).max(self.duration_us * 1000);
        for read in &self.reads {
            steps.extend(read.shards.iter().map(|(shard, stats)| Step {
                at_ns,
                shard: Some(*shard),
                class: None,
                bytes: None,
                text: format!("{}: {}", read.what, counters_text(stats)),
            }));
        }
        steps
    }
}

/// A text cut to what a record keeps.
pub fn kept(text: &str) -> String {
    match text.len() > TEXT_BYTES_MAX {
        true => format!("{}…", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]),
        false => text.to_owned(),
    }
}

/// Counters that are not zero, with times in microseconds.
pub fn counters_text(stats: &ReadStats) -> String {
    let text = |(what, value): (Count, u64)| match what.is_time() {
        true => format!("{}={} µs", what.name(), value / 1000),
        false => format!("{}={value}", what.name()),
    };
    stats.nonzero().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(kept("SELECT 1"), "SELECT 1");
        let long = "é".repeat(TEXT_BYTES_MAX);
        let cut = kept(&long);
        assert!(cut.len() <= TEXT_BYTES_MAX + '…'.len_utf8() && cut.ends_with("é…"));
    }
}
