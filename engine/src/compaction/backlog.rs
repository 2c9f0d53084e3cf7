//! How much a table's strategy has before it, and what that makes of the shares of compaction.
//!
//! ScyllaDB's controllers estimate the work by a formula for each strategy: bytes of an SSTable
//! times the logarithm of the table's size over its own. That never comes to nothing, and so the
//! shares depend on how much larger the disk is than memory. Here the strategy itself is asked,
//! merge after merge, as if each was made at once: a table that wants nothing has no backlog.

use super::choose::choose;
use super::facts::{Choice, Facts, FileFacts, Reason};
use crate::config::IO_SHARES_MAX;
use crate::io::Class;
use crate::schema::Token;

/// Merges that are looked ahead, and of many SSTables. A table that wants more has much before it
/// in any case.
const MERGES_MAX: usize = 16;
const MERGES_OF_MANY_MAX: usize = 2;
const MANY: usize = 256;
/// SSTables that a merge is taken to write at most.
const OUTPUTS_MAX: u64 = 256;
/// Backlog, as a multiple of the shard's memory, up to which compaction has its least shares, and
/// from which on it has the most. These are ScyllaDB's points.
const CALM: f64 = 1.5;
const PRESSING: f64 = 30.0;

/// Bytes that merges would read until the strategy of the table wants none.
pub fn backlog(facts: &Facts<'_>) -> u64 {
    let mut files = facts.files.to_vec();
    let mut bytes: u64 = 0;
    let merges = if files.len() > MANY { MERGES_OF_MANY_MAX } else { MERGES_MAX };
    for _ in 0..merges {
        let Some(choice) = choose(&Facts { files: &files, ..*facts }) else { break };
        bytes = bytes.saturating_add(merge(&mut files, &choice));
    }
    bytes
}

/// Puts what a merge would write in the place of its inputs. Returns the bytes of these.
fn merge(files: &mut Vec<FileFacts>, choice: &Choice) -> u64 {
    let next = files.last().map_or(1, |last| last.number + 1);
    let is_input = |file: &mut FileFacts| choice.inputs.contains(&file.number);
    let inputs: Vec<FileFacts> = files.extract_if(.., is_input).collect();
    let bytes = inputs.iter().map(|file| file.bytes).sum();
    let Some(whole) = inputs.into_iter().reduce(together) else { return 0 };
    if choice.reason == Reason::Expired {
        return bytes;
    }
    let count = choice.cut_bytes.map_or(1, |cut| bytes.div_ceil(cut.max(1)).clamp(1, OUTPUTS_MAX));
    let (first, last) = (i128::from(whole.first.0), i128::from(whole.last.0));
    // Tokens are spread evenly.
    let token = |at: u64| first + (last - first) * i128::from(at) / i128::from(count);
    let end = |at: u64| if at + 1 < count { token(at + 1) - 1 } else { last };
    files.extend((0..count).map(|at| FileFacts {
        number: next + at,
        run: if choice.is_incremental { next } else { next + at },
        level: choice.level,
        bytes: bytes / count,
        first: Token(token(at) as i64),
        last: Token(end(at).max(token(at)) as i64),
        droppable: 0.0,
        is_expired: false,
        has_dropped: false,
        age_seconds: 0,
        ..whole.clone()
    }));
    bytes
}

fn together(a: FileFacts, b: FileFacts) -> FileFacts {
    FileFacts {
        partitions: a.partitions.max(b.partitions),
        rows: a.rows + b.rows,
        min_timestamp: a.min_timestamp.min(b.min_timestamp),
        max_timestamp: a.max_timestamp.max(b.max_timestamp),
        first: a.first.min(b.first),
        last: a.last.max(b.last),
        ..a
    }
}

/// Shares of compaction on a shard with such a backlog and so much memory.
pub fn shares(backlog_bytes: u64, memory_bytes: u64) -> u32 {
    let least = f64::from(Class::Compaction.default_shares());
    let times = backlog_bytes as f64 / memory_bytes.max(1) as f64;
    let part = ((times - CALM) / (PRESSING - CALM)).clamp(0.0, 1.0);
    (least + part * (f64::from(IO_SHARES_MAX) - least)).round() as u32
}
