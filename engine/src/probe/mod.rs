//! What a statement did in the engine: counters of each read, and steps where they are wanted.
//!
//! ```text
//! Watch      a statement: its start, its steps, its reads          any thread
//!   Probe    one read of it: a scan, or a read by key
//!     OnShard    what the read did on one shard: counters          one thread a shard
//! Brief      what most statements did, when they are over
//! ```
//! [`Database::read_watched`](crate::Database::read_watched) takes a probe. The shard polls such a
//! read within [`Probed`], and code below says what it does by [`count`], [`timer`] and [`note`]. A
//! read without a probe pays for one look at a thread's variable there.
//!
//! Invariant: what a read did is counted before its next batch leaves the shard, so whoever has all
//! rows has all counts. A request that several reads wait for counts for the one that began it.
//!
//! Not here: what is shown and kept of statements (the shell).

mod brief;
mod counts;
mod current;
mod latencies;
mod report;
mod steps;
mod watch;

pub use brief::Brief;
pub use counts::{Count, ReadStats};
pub(crate) use current::with;
pub use current::{Probed, Timer, count, count_by, current, note, timer};
pub use latencies::Latencies;
pub use report::{ReadReport, What};
pub use steps::Step;
pub use watch::{Detail, DiskRead, OnShard, Probe, Watch};
