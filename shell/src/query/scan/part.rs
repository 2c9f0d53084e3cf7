//! One part of a scan: what a shard gives of it. See `plan/access/divided.rs`.

use datafusion::prelude::SessionConfig;

/// Settings that have it make scans read this shard and no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnlyShard(pub u32);

impl OnlyShard {
    /// What scans under these settings read; `None` for all shards.
    pub fn of(config: &SessionConfig) -> Option<Self> {
        config.get_extension::<OnlyShard>().map(|only| *only)
    }
}
