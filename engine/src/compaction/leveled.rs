//! Leveled: from level 1 on the SSTables of a level are disjoint and of one size, and each level
//! may hold a multiple of the one before.
//!
//! ```text
//! level 0   what flushes wrote; these overlap
//! level 1   fanout SSTables
//! level 2   fanout times as many ...
//! ```
//! The idea is LevelDB's, names and limits are Cassandra's. The fullest level gives an SSTable to
//! the next one: that which meets least there for its size, so that least is rewritten.

use super::facts::{Choice, Facts, FileFacts, Reason};
use super::size_tiered;
use crate::schema::CompactionOptions;

/// Deepest level.
pub(super) const LEVEL_MAX: u32 = 8;
/// How far above its limit a level is before it gives something away.
const SCORE_MIN: f64 = 1.001;

/// Bytes that a level may hold.
fn bytes_max(level: u32, options: &CompactionOptions) -> f64 {
    options.sstable_bytes as f64 * f64::from(options.fanout).powi(level as i32)
}

/// The first level that has room for so many bytes.
pub(super) fn level_for(bytes: u64, options: &CompactionOptions) -> u32 {
    let has_room = |level: &u32| bytes as f64 <= bytes_max(*level, options);
    (1..LEVEL_MAX).find(has_room).unwrap_or(LEVEL_MAX)
}

pub(super) fn choose(facts: &Facts<'_>) -> Option<Choice> {
    let options = facts.options;
    let of = |level: u32| facts.files.iter().filter(move |file| file.level == level);
    let zero: Vec<&FileFacts> = of(0).collect();
    // So many overlapping SSTables would cost each read: first they become fewer.
    if zero.len() > options.max_threshold as usize
        && let Some(tier) = size_tiered::choose(&zero, options)
    {
        return Some(Choice::whole(tier, Reason::Tier));
    }
    for level in (1..LEVEL_MAX).rev() {
        let bytes: u64 = of(level).map(|file| file.bytes).sum();
        if bytes as f64 / bytes_max(level, options) > SCORE_MIN {
            let next: Vec<&FileFacts> = of(level + 1).collect();
            let given = cheapest(of(level), &next)?;
            let met = next.into_iter().filter(|file| file.meets(given));
            let files = met.chain([given]);
            return Some(Choice::leveled(files, level + 1, options.sstable_bytes, Reason::Level));
        }
    }
    if zero.len() < options.min_threshold as usize {
        return None;
    }
    // The oldest first, and with them all of level 1 that they meet.
    let mut given = zero;
    given.truncate(options.max_threshold as usize);
    let bytes: u64 = given.iter().map(|file| file.bytes).sum();
    if bytes < options.sstable_bytes {
        return Some(Choice::whole(given, Reason::Level));
    }
    let met: Vec<&FileFacts> =
        of(1).filter(|file| given.iter().any(|given| given.meets(file))).collect();
    let files = given.into_iter().chain(met);
    Some(Choice::leveled(files, 1, options.sstable_bytes, Reason::Level))
}

/// Of a level the SSTable that meets the fewest bytes of the next level for its own.
fn cheapest<'a>(
    level: impl Iterator<Item = &'a FileFacts>,
    next: &[&FileFacts],
) -> Option<&'a FileFacts> {
    let cost = |file: &FileFacts| {
        let met = next.iter().filter(|other| other.meets(file)).map(|other| other.bytes);
        met.sum::<u64>() as f64 / file.bytes.max(1) as f64
    };
    level.min_by(|a, b| cost(a).total_cmp(&cost(b)).then_with(|| a.number.cmp(&b.number)))
}
