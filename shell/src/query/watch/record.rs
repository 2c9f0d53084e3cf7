//! A statement that was watched, when it is over.

use std::sync::Arc;

use tidegate_engine::probe::{Count, ReadStats, Step, Watch};

/// Bytes of a statement's text that are kept.
const TEXT_BYTES_MAX: usize = 2000;

/// How a statement ended.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub started_us: i64,
    pub duration_us: u64,
    pub rows: u64,
    pub error: Option<String>,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Record {
    /// Counts the records of a journal.
    pub number: u64,
    /// Wall clock, microseconds since the epoch.
    pub started_us: i64,
    pub duration_us: u64,
    /// Who ran it.
    pub session: Arc<str>,
    /// Its text, cut where it is long.
    pub statement: Arc<str>,
    /// Rows that were given or written.
    pub rows: u64,
    pub error: Option<String>,
    /// What it did.
    pub(super) did: Did,
}

/// What is kept of what a statement did.
#[derive(Debug)]
pub(super) enum Did {
    /// Its steps, and the counters of its reads.
    Watched(Arc<Watch>),
    /// Counters of all its reads.
    Counted(Box<ReadStats>),
}

impl Record {
    pub(super) fn new(
        number: u64,
        (session, statement): (Arc<str>, Arc<str>),
        end: End,
        did: Did,
    ) -> Self {
        let End { started_us, duration_us, rows, error } = end;
        Record { number, started_us, duration_us, session, statement, rows, error, did }
    }

    /// All steps in the order of time; the last ones are the counters of its reads.
    pub fn steps(&self) -> Vec<Step> {
        let Did::Watched(watch) = &self.did else { return Vec::new() };
        let mut steps = watch.steps();
        // A microsecond is not told to its end.
        let at_ns = steps.last().map_or(0, |last| last.at_ns).max(self.duration_us * 1000);
        for read in watch.reads() {
            steps.extend(read.shards.iter().map(|(shard, stats)| Step {
                at_ns,
                shard: Some(*shard),
                class: None,
                bytes: None,
                text: format!("{}: {}", read.what, counters_text(stats)).into(),
            }));
        }
        steps
    }

    /// Steps for which there was no room.
    pub fn left_out(&self) -> u64 {
        match &self.did {
            Did::Watched(watch) => watch.left_out(),
            Did::Counted(_) => 0,
        }
    }

    /// Counters of all its reads.
    pub fn stats(&self) -> ReadStats {
        match &self.did {
            Did::Watched(watch) => watch.stats(),
            Did::Counted(stats) => **stats,
        }
    }
}

/// A text cut to what a record keeps.
pub fn kept(text: &Arc<str>) -> Arc<str> {
    match text.len() > TEXT_BYTES_MAX {
        true => format!("{}…", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]).into(),
        false => Arc::clone(text),
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
        assert_eq!(&*kept(&"SELECT 1".into()), "SELECT 1");
        let long = "é".repeat(TEXT_BYTES_MAX).into();
        let cut = kept(&long);
        assert!(cut.len() <= TEXT_BYTES_MAX + '…'.len_utf8() && cut.ends_with("é…"));
    }
}
