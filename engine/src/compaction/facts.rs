//! What a strategy is told, and what it answers.

use crate::schema::{CompactionOptions, Token};

/// What is known of one SSTable that may be merged.
#[derive(Debug, Clone, PartialEq)]
pub struct FileFacts {
    /// Its number; a greater one is newer.
    pub number: u64,
    /// Bytes of data as stored.
    pub bytes: u64,
    pub partitions: u64,
    pub rows: u64,
    pub level: u32,
    /// The run that it is a fragment of. The SSTables of a run do not overlap; one that a flush
    /// wrote is a run by itself.
    pub run: u64,
    /// Of its data and tombstones, microseconds.
    pub min_timestamp: i64,
    pub max_timestamp: i64,
    /// Least and greatest token.
    pub first: Token,
    pub last: Token,
    /// Part of its cells and tombstones whose grace has passed, 0 to 1.
    pub droppable: f64,
    /// Whether the grace of everything in it has passed.
    pub is_expired: bool,
    /// Whether it may have cells of columns that were dropped.
    pub has_dropped: bool,
    /// Seconds since it was first seen.
    pub age_seconds: i64,
}

impl FileFacts {
    /// Whether the stretches of tokens of two SSTables meet.
    pub fn meets(&self, other: &FileFacts) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The SSTables of one table on one shard that may be merged.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// By number.
    pub files: &'a [FileFacts],
    pub options: &'a CompactionOptions,
    /// Wall clock, seconds since the epoch.
    pub now_seconds: i64,
}

/// Why a merge was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// SSTables of about one size.
    Tier,
    /// A level holds more than it should.
    Level,
    /// SSTables of one stretch of time.
    Window,
    /// The second largest tier of runs takes too much room beside the largest.
    Space,
    /// Everything in an SSTable is past its grace.
    Expired,
    /// Many tombstones of an SSTable can go.
    Tombstones,
    /// Somebody asked for it.
    Asked,
    /// A policy chose it.
    Policy,
    /// An SSTable was written under another number of shards.
    Reshard,
}

impl Reason {
    /// In a word, as `system.compactions` has it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Tier => "tier",
            Reason::Level => "level",
            Reason::Window => "window",
            Reason::Space => "space",
            Reason::Expired => "expired",
            Reason::Tombstones => "tombstones",
            Reason::Asked => "asked",
            Reason::Policy => "policy",
            Reason::Reshard => "reshard",
        }
    }
}

/// A merge that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Numbers of the SSTables, ascending, one at least.
    pub inputs: Vec<u64>,
    /// Level of what is written.
    pub level: u32,
    /// Bytes of data at which what is written is cut, behind a partition; nowhere where absent.
    pub cut_bytes: Option<u64>,
    /// Whether inputs go as soon as the merge has passed them. What is written is a run then.
    pub is_incremental: bool,
    pub reason: Reason,
}

impl Choice {
    /// Whether it rewrites what this shard owns of an SSTable of another number of shards.
    pub fn is_resharding(&self) -> bool {
        self.reason == Reason::Reshard
    }

    /// A merge of these into one SSTable of level 0.
    pub(super) fn whole<'a>(
        files: impl IntoIterator<Item = &'a FileFacts>,
        reason: Reason,
    ) -> Choice {
        Choice { level: 0, cut_bytes: None, ..Choice::leveled(files, 0, 0, reason) }
    }

    /// A merge of these into SSTables of `level`.
    pub(super) fn leveled<'a>(
        files: impl IntoIterator<Item = &'a FileFacts>,
        level: u32,
        cut_bytes: u64,
        reason: Reason,
    ) -> Choice {
        let mut inputs: Vec<u64> = files.into_iter().map(|file| file.number).collect();
        inputs.sort_unstable();
        inputs.dedup();
        Choice { inputs, level, cut_bytes: Some(cut_bytes), is_incremental: false, reason }
    }

    /// A merge of these into one run of fragments of so many bytes.
    pub(super) fn run<'a>(
        files: impl IntoIterator<Item = &'a FileFacts>,
        fragment_bytes: u64,
        reason: Reason,
    ) -> Choice {
        Choice { is_incremental: true, ..Choice::leveled(files, 0, fragment_bytes, reason) }
    }
}
