//! The owner of a budget's entries, as the budget sees it.

use crate::policy::Slot;

/// How many victims ahead the owner learns which entries leave soon.
pub const VICTIMS_AHEAD: usize = 6;

/// Which thing a resident is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntryId {
    /// Keyed hash of the entry's identity; equal for the same entry when it returns.
    pub fingerprint: u64,
    /// Number of the table within the shard.
    pub table: u32,
}

/// Whoever owns entries: it knows what stands in their slots, so that the budget need not.
///
/// It is asked only, and never told to remove: the budget returns the slots of those that leave,
/// and the owner takes them out when it has the budget out of its hands.
pub trait Owner {
    /// Whether the resident must stay, besides those that are pinned.
    fn is_in_use(&self, slot: Slot) -> bool;

    /// Which thing the resident is, the same as when it came in. A slot that is removed or evicted
    /// holds its resident until that call returns.
    fn id(&self, slot: Slot) -> EntryId;

    /// The resident is to leave after `ahead` others, most likely: a piece of what that touches may
    /// be fetched. It is told of the numbers below [`VICTIMS_AHEAD`], mostly one after the other
    /// down to 0; of those that a policy names first, the greater ones are missing.
    fn will_leave(&self, _slot: Slot, _ahead: usize) {}
}
