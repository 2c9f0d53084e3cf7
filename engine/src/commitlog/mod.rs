//! The commitlog: every write of a shard, on disk before it is acknowledged.

mod position;

pub use position::ReplayPosition;
