//! A deletion: everything written at or before `timestamp` is gone.

/// Deletion mark of a partition, range or row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tombstone {
    /// Microseconds; deletes data with this timestamp or an older one.
    pub timestamp: i64,
    /// Wall clock at the deletion, seconds: when garbage collection may begin to count.
    pub deletion_time: i32,
}

impl Tombstone {
    /// Whether data written at `timestamp` is deleted by this.
    pub fn covers(self, timestamp: i64) -> bool {
        timestamp <= self.timestamp
    }
}

/// The stronger of two optional tombstones.
pub fn strongest(a: Option<Tombstone>, b: Option<Tombstone>) -> Option<Tombstone> {
    // `None` orders below every tombstone.
    a.max(b)
}
