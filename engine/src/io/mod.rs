//! The I/O scheduler: what a disk can do, and which class of requests has it next.
//!
//! ```text
//! read_at, write_at -> ScheduledDisk -> FairQueue of a shard -> TokenBucket of all -> disk
//!                      class, pieces    who is next, by shares  how much a disk takes
//! ```
//! A disk serves reads and writes at a steady latency only as long as
//! `reads/READS + writes/WRITES + bytes/BYTES + … <= 1`. `model.rs` gives every request its part of
//! that sum, in picoseconds of the whole disk; `bucket.rs` hands out a second of it a second. So a
//! queue forms here and not in the disk, and `fair_queue.rs` picks from it by shares. Mechanism and
//! rules are those of ScyllaDB's scheduler: <https://github.com/scylladb/seastar>, `fair_queue`.
//!
//! A policy of world `io-priority` may plan the shares of one shard's classes (`priority.rs`).
//!
//! Without measured figures (`properties.rs` reads them) nothing is held back; only the number of
//! requests in the disk is bounded, and beyond it the same fair queue decides.
//!
//! Not here: the disks themselves (`disk`), who belongs to which class (whoever calls [`run_as`] or
//! takes a disk of a class).

mod bucket;
mod class;
mod fair_queue;
mod model;
mod priority;
mod properties;
mod queue;
mod scheduled;
mod scheduler;
mod stats;
#[cfg(test)]
mod tests;

pub use class::{Class, run_as, run_in};
pub use fair_queue::{FairQueue, Flow};
pub use model::{DiskModel, Kind};
pub use properties::{DiskProperties, IoProperties, PROPERTIES_FILE};
pub use queue::{IoQueue, Running, queries_rest, query_waits};
pub use scheduled::ScheduledDisk;
pub use scheduler::{ClassSettings, Scheduler};
pub use stats::ClassStats;
