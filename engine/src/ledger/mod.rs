//! What must be on disk, recorded apart from it: so that what is gone is noticed.
//!
//! A manifest that is missing or was cut back, and a commitlog segment that is missing or empty,
//! look like ones that were never written; with an older catalog newer tables look dropped. The
//! ledger of a shard says what there was.
//!
//! ```text
//! file  := frame*, zeros                 room for all frames is taken when the file is made
//! frame := "TGLD", u32 CRC of what follows, u32 length, u64 sequence, JSON, zeros to the page end
//! JSON  := list of entries
//! ```
//! Invariants: an entry is recorded only when what it names is durable, and what it names goes only
//! when the entry says so or SSTables have all that it held. So the ledger never asks for more than
//! must be there, and a ledger that is gone costs nothing but its watch.

pub mod frame;
#[expect(clippy::module_inception, reason = "the file of the type, as elsewhere")]
mod ledger;
#[cfg(test)]
mod tests;

pub use ledger::{Entry, Known, Ledger, SegmentEntry};
