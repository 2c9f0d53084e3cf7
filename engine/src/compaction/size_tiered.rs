//! Size-tiered: SSTables of about one size are merged when there are enough of them.
//!
//! Cassandra's strategy. In order of size each SSTable joins the tier before it if its size is near
//! that tier's average, or if both are small. The small ones of a table at rest are merged though
//! they are few: a small table thus costs reads no more than one SSTable.

use super::facts::FileFacts;
use crate::schema::CompactionOptions;

/// Seconds after which a table is at rest when nothing is flushed.
const REST_SECONDS: i64 = 60;

/// The fullest tier of those with enough SSTables, the smallest of these first, as many as one
/// merge takes. Of tiers that are as full the one of smaller SSTables is cheaper.
pub(super) fn choose<'a>(
    files: &[&'a FileFacts],
    options: &CompactionOptions,
) -> Option<Vec<&'a FileFacts>> {
    let tiers = tiers(files, options);
    let is_enough = |tier: &Vec<&FileFacts>| {
        tier.len() >= options.min_threshold as usize || is_small_and_at_rest(tier, options)
    };
    let enough = tiers.into_iter().filter(is_enough);
    // Tiers stand in order of size, and of equals the last one would win.
    let mut fullest = enough.rev().max_by_key(Vec::len)?;
    fullest.truncate(options.max_threshold as usize);
    Some(fullest)
}

/// Whether these are several and all of them small, and none is new.
fn is_small_and_at_rest(tier: &[&FileFacts], options: &CompactionOptions) -> bool {
    let is_old_and_small = |file: &&FileFacts| {
        file.bytes < options.min_sstable_bytes && file.age_seconds >= REST_SECONDS
    };
    tier.len() >= 2 && tier.iter().all(is_old_and_small)
}

/// Tiers in order of size, each in order of size.
pub(super) fn tiers<'a>(
    files: &[&'a FileFacts],
    options: &CompactionOptions,
) -> Vec<Vec<&'a FileFacts>> {
    let mut files = files.to_vec();
    files.sort_by_key(|file| (file.bytes, file.number));
    let mut tiers: Vec<Vec<&FileFacts>> = Vec::new();
    let mut average = 0.0;
    for file in files {
        let bytes = file.bytes as f64;
        let is_near = average * options.bucket_low.ratio() < bytes
            && bytes < average * options.bucket_high.ratio();
        let min_bytes = options.min_sstable_bytes as f64;
        let are_small = bytes < min_bytes && average < min_bytes;
        match tiers.last_mut().filter(|_| is_near || are_small) {
            Some(tier) => {
                average = (average * tier.len() as f64 + bytes) / (tier.len() + 1) as f64;
                tier.push(file);
            }
            None => {
                average = bytes;
                tiers.push(vec![file]);
            }
        }
    }
    tiers
}
