//! Reads of one table: rows by their whole keys, and batches of rows.
//!
//! ```text
//! ReadCommand ──> Reading ─────> Forming ──> RecordBatch
//!                  what is left   the batch      │ the only one: the answer
//!                  to read        that is built  └ one of several: sent
//! ```
//! A [`Reading`] goes on in steps that wait for nothing. So a read whose rows only the row cache
//! has, and that fit one batch, is answered in the turn in which it was asked. Else its batches are
//! sent as they are taken.

mod command;
mod forming;
mod point;
mod reading;
mod stream;
mod tombstones;

pub use command::{Partitions, ReadCommand, Sent, Told};
pub use point::{PointQuery, Progress};
pub use reading::{Reading, Whole};
pub(super) use tombstones::TombstoneWatch;
pub use tombstones::{ManyTombstones, TombstoneLimits, TombstonePage};
