//! A statement that was watched, when it is over.

use std::borrow::Cow;
use std::sync::Arc;

use tidegate_engine::probe::{Brief, Count, ReadStats, Step, Watch};

/// Bytes of a statement's text that are kept.
const TEXT_BYTES_MAX: usize = 2000;

/// How a statement ended.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub started_us: i64,
    pub duration_us: u64,
    pub rows: u64,
    pub error: Option<String>,
    /// Of the trace that its client keeps, if the client said so.
    pub trace_id: Option<Arc<str>>,
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
    /// Of the trace that its client keeps, 32 hex digits, if the client said so.
    pub trace_id: Option<Arc<str>>,
    /// What it did.
    pub(super) did: Did,
}

/// What is kept of what a statement did.
#[derive(Debug, Clone, Default)]
pub(super) struct Did {
    /// Holds where there is no `watch`.
    brief: Brief,
    /// Steps, and counters of several reads.
    watch: Option<Arc<Watch>>,
}

impl Did {
    /// Counters of all its reads.
    pub fn counted(stats: ReadStats) -> Self {
        Did { brief: Brief::counted(stats), watch: None }
    }

    /// Keeps what a statement did that is over. Returns what is to be dropped.
    pub fn keep(&mut self, watch: Arc<Watch>) -> Option<Arc<Watch>> {
        let before = self.watch.take();
        self.watch = watch.end_in(&mut self.brief).err();
        before
    }

    #[cfg(test)]
    pub fn is_brief(&self) -> bool {
        self.watch.is_none()
    }
}

impl Record {
    pub(super) fn new(number: u64, whose: (&Arc<str>, &str), end: End, did: Did) -> Self {
        let (session, statement) = (Arc::clone(whose.0), whose.1.into());
        let End { started_us, duration_us, rows, error, trace_id } = end;
        Record { number, started_us, duration_us, session, statement, rows, error, trace_id, did }
    }

    /// All steps in the order of time; the last ones are the counters of its reads.
    pub fn steps(&self) -> Vec<Step> {
        let Did { brief, watch } = &self.did;
        let (mut steps, reads) = match watch {
            Some(watch) => (watch.steps(), watch.reads()),
            None => (brief.steps(), brief.reads()),
        };
        // A microsecond is not told to its end.
        let at_ns = steps.last().map_or(0, |last| last.at_ns).max(self.duration_us * 1000);
        for read in reads {
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
        self.did.watch.as_ref().map_or(0, |watch| watch.left_out())
    }

    /// Counters of all its reads.
    pub fn stats(&self) -> ReadStats {
        let Did { brief, watch } = &self.did;
        watch.as_ref().map_or_else(|| brief.stats(), |watch| watch.stats())
    }
}

/// A text cut to what a record keeps.
pub fn kept(text: &str) -> Cow<'_, str> {
    match text.len() > TEXT_BYTES_MAX {
        true => format!("{}…", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]).into(),
        false => text.into(),
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

    #[test]
    fn a_text_as_long_as_may_be_is_kept_whole_and_one_byte_more_is_cut() {
        let text = |bytes: usize| "x".repeat(bytes);
        for bytes in [0, 1, TEXT_BYTES_MAX - 1, TEXT_BYTES_MAX] {
            assert_eq!(kept(&text(bytes)), text(bytes), "{bytes}");
        }
        let whole = text(TEXT_BYTES_MAX);
        for more in ["x", "é", "xx"] {
            assert_eq!(kept(&format!("{whole}{more}")), format!("{whole}…"), "{more}");
        }
        // A letter that stands across the end is left out.
        let across = format!("{}é", text(TEXT_BYTES_MAX - 1));
        assert_eq!(kept(&across), format!("{}…", text(TEXT_BYTES_MAX - 1)));
    }
}
