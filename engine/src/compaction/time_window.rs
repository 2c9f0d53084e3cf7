//! Time-window: SSTables whose newest data is of one stretch of time become one, and then stay.
//!
//! Cassandra's strategy. The newest window is still being written, so its SSTables are merged by
//! size; a window that is closed becomes one SSTable. Data that expires together thus goes
//! together.

use std::collections::BTreeMap;

use super::facts::{Choice, Facts, FileFacts, Reason};
use super::size_tiered;

const MICROSECONDS: i64 = 1_000_000;

pub(super) fn choose(facts: &Facts<'_>) -> Option<Choice> {
    let options = facts.options;
    let length = options.window_seconds().saturating_mul(MICROSECONDS).max(1);
    let mut windows: BTreeMap<i64, Vec<&FileFacts>> = BTreeMap::new();
    for file in facts.files {
        windows.entry(file.max_timestamp.div_euclid(length)).or_default().push(file);
    }
    let newest = windows.keys().next_back().copied()?;
    windows.into_iter().rev().find_map(|(window, mut files)| {
        if window == newest {
            let tier = size_tiered::choose(&files, options)?;
            return Some(Choice::whole(tier, Reason::Window));
        }
        if files.len() < 2 {
            return None;
        }
        files.sort_by_key(|file| (file.bytes, file.number));
        files.truncate(options.max_threshold as usize);
        Some(Choice::whole(files, Reason::Window))
    })
}
