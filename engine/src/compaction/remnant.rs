//! What a purge leaves out, as a stream of its own.
//!
//! A merge that lets go of inputs on its way may let go of a tombstone before it lets go of another
//! input with what that covers. Until then the tombstone stands in an SSTable of its own. The idea
//! is ScyllaDB's.

use std::rc::Rc;

use super::purge::{Others, Purge};
use crate::mutation::{Fragment, Tombstone};
use crate::schema::PartitionKey;

/// Follows a purge from fragment to fragment.
#[derive(Default)]
pub(super) struct Remnants {
    /// The partition, as long as nothing of it was given.
    partition: Option<Rc<PartitionKey>>,
    /// Something of the partition was given.
    is_open: bool,
    /// The range tombstone that is in force in what was given.
    range: Option<Tombstone>,
}

impl Remnants {
    /// What was left out of `before`, after `purge` has seen it. `left` is what it let through.
    /// Of a row it is all that is dead: more does no harm, as merging is idempotent.
    pub(super) fn of<O: Others>(
        &mut self,
        before: Fragment,
        left: Option<&Fragment>,
        (purge, has_purged): (&Purge<O>, bool),
    ) -> Vec<Fragment> {
        match before {
            Fragment::PartitionStart { key, deletion } => {
                let is_left =
                    matches!(left, Some(Fragment::PartitionStart { deletion: Some(_), .. }));
                match deletion.filter(|_| !is_left) {
                    Some(deletion) => {
                        self.is_open = true;
                        vec![Fragment::PartitionStart { key, deletion: Some(deletion) }]
                    }
                    None => {
                        self.partition = Some(key);
                        Vec::new()
                    }
                }
            }
            Fragment::StaticRow(row) if has_purged => {
                self.within(Fragment::StaticRow(Rc::new(purge.dead_of(&row))))
            }
            Fragment::Row { key, row } if has_purged => {
                self.within(Fragment::Row { key, row: Rc::new(purge.dead_of(&row)) })
            }
            Fragment::RangeTombstoneChange { position, tombstone } => {
                let tombstone = tombstone.filter(|_| purge.range().is_none());
                if tombstone == self.range {
                    return Vec::new();
                }
                self.range = tombstone;
                self.within(Fragment::RangeTombstoneChange { position, tombstone })
            }
            Fragment::PartitionEnd => {
                self.partition = None;
                let is_open = std::mem::take(&mut self.is_open);
                assert!(self.range.is_none(), "a partition ends with {:?} in force", self.range);
                if is_open { vec![Fragment::PartitionEnd] } else { Vec::new() }
            }
            Fragment::StaticRow(_) | Fragment::Row { .. } | Fragment::FlatRow(_) => Vec::new(),
        }
    }

    /// A fragment, and the beginning of its partition if that was not given.
    fn within(&mut self, fragment: Fragment) -> Vec<Fragment> {
        self.is_open = true;
        let start =
            self.partition.take().map(|key| Fragment::PartitionStart { key, deletion: None });
        start.into_iter().chain([fragment]).collect()
    }
}
