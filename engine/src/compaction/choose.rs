//! What is merged next: what only takes room first, then what the strategy wants, then SSTables of
//! many tombstones, each alone.

use super::facts::{Choice, Facts, FileFacts, Reason};
use super::{incremental, leveled, size_tiered, time_window};
use crate::schema::CompactionClass;

/// Seconds that an SSTable must be there before it is rewritten because everything in it is past
/// its grace: what keeps it then may be gone.
const EXPIRED_AGE_SECONDS: i64 = 600;

/// The merge that is wanted most, if any.
pub fn choose(facts: &Facts<'_>) -> Option<Choice> {
    if !facts.options.is_enabled {
        return None;
    }
    expired(facts).or_else(|| by_strategy(facts)).or_else(|| tombstones(facts))
}

/// The merge of all SSTables, if there is more than one, or one from which something can go. Of
/// more than one merge may take, the smallest are merged first.
pub fn major(facts: &Facts<'_>) -> Option<Choice> {
    let options = facts.options;
    if options.class == CompactionClass::Incremental {
        return incremental::major(facts);
    }
    let mut files: Vec<&FileFacts> = facts.files.iter().collect();
    match files[..] {
        [] => return None,
        [only] if only.droppable == 0.0 && !only.is_expired && !only.has_dropped => return None,
        _ => {}
    }
    files.sort_by_key(|file| (file.bytes, file.number));
    let is_all = files.len() <= options.max_threshold as usize;
    files.truncate(options.max_threshold as usize);
    Some(match options.class {
        CompactionClass::Leveled if is_all => {
            let bytes = files.iter().map(|file| file.bytes).sum();
            let level = leveled::level_for(bytes, options);
            Choice::leveled(files, level, options.sstable_bytes, Reason::Asked)
        }
        _ => Choice::whole(files, Reason::Asked),
    })
}

fn by_strategy(facts: &Facts<'_>) -> Option<Choice> {
    match facts.options.class {
        CompactionClass::SizeTiered => {
            let files: Vec<&FileFacts> = facts.files.iter().collect();
            let tier = size_tiered::choose(&files, facts.options)?;
            Some(Choice::whole(tier, Reason::Tier))
        }
        CompactionClass::Leveled => leveled::choose(facts),
        CompactionClass::TimeWindow => time_window::choose(facts),
        CompactionClass::Incremental => incremental::choose(facts),
    }
}

/// An SSTable of which nothing is left but what others may keep.
pub(super) fn expired(facts: &Facts<'_>) -> Option<Choice> {
    let is_ripe = |file: &&FileFacts| file.is_expired && file.age_seconds >= EXPIRED_AGE_SECONDS;
    let mut files = facts.files.iter().filter(is_ripe);
    let file = files.find(|file| is_oldest_of_its_range(file, facts.files))?;
    Some(alone(file, facts, Reason::Expired))
}

/// The SSTable with most tombstones that can go, if they are worth it.
fn tombstones(facts: &Facts<'_>) -> Option<Choice> {
    let options = facts.options;
    let age_min = i64::from(options.tombstone_interval_seconds);
    let threshold = options.tombstone_threshold.ratio();
    let is_worth = |file: &&FileFacts| {
        file.droppable > threshold
            && file.age_seconds >= age_min
            && is_oldest_of_its_range(file, facts.files)
    };
    let files = facts.files.iter().filter(is_worth);
    let most = files
        .max_by(|a, b| a.droppable.total_cmp(&b.droppable).then_with(|| b.number.cmp(&a.number)))?;
    Some(alone(most, facts, Reason::Tombstones))
}

/// Whether everything that its tombstones may cover elsewhere is newer than they are.
pub(super) fn is_oldest_of_its_range(file: &FileFacts, all: &[FileFacts]) -> bool {
    let mut others = all.iter().filter(|other| other.number != file.number && other.meets(file));
    others.all(|other| other.min_timestamp > file.max_timestamp)
}

/// A rewrite of one SSTable that leaves it on its level, and in its run.
fn alone(file: &FileFacts, facts: &Facts<'_>, reason: Reason) -> Choice {
    let options = facts.options;
    match options.class {
        CompactionClass::Leveled => {
            Choice::leveled([file], file.level, options.sstable_bytes, reason)
        }
        CompactionClass::Incremental => Choice::run([file], options.sstable_bytes, reason),
        CompactionClass::SizeTiered | CompactionClass::TimeWindow => {
            Choice { level: file.level, ..Choice::whole([file], reason) }
        }
    }
}
