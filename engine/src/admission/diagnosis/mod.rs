//! What people are told of the reads of a shard: those under way, those that waited long, and who
//! holds what when a read gets no further.

mod long_wait;
mod reads;
mod report;

pub use long_wait::LongWait;
pub(super) use long_wait::LongWaits;
pub use reads::{NotedRead, ReadState, ReadStatus};
pub(super) use reads::{Read, Reads};
pub(super) use report::{Scene, report};
