//! SSTables that were written under another number of shards, and how they go.

mod foreign;
mod handover;
mod resharding;

pub(super) use foreign::{Log, Resharding, sees_to};
pub use handover::Handovers;
