//! The world of I/O priority: how the classes of I/O share a disk.
//!
//! A policy returns shares, and the I/O scheduler obeys them. Nothing here is called for a single
//! request.

use super::eviction::PolicyFailure;

/// What the disk can do, and how one shard's requests fared in it since the last plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskLoad {
    /// Since the last plan.
    pub elapsed_us: u64,
    /// Pages read and written a second at most; 0 where the disk was not measured.
    pub read_iops: u64,
    pub write_iops: u64,
    /// Bytes read and written a second at most; 0 where the disk was not measured.
    pub read_bandwidth: u64,
    pub write_bandwidth: u64,
    /// Requests that the disk has now.
    pub in_disk: u64,
    /// What requests took in the disk; 0 where none ended.
    pub p50_us: u64,
    pub p99_us: u64,
}

/// Requests of one class of one shard since the last plan, and what there is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassLoad {
    pub arrived: u64,
    /// Given to the disk.
    pub started: u64,
    /// Of those that were given to it.
    pub bytes: u64,
    /// Requests that wait now, and their bytes.
    pub queued: u64,
    pub queued_bytes: u64,
    /// How long those that were given to the disk had waited; 0 where there were none.
    pub p50_us: u64,
    pub p99_us: u64,
    /// The shares in force.
    pub shares: u32,
}

/// A policy of I/O priority.
pub trait IoPriorityPolicy {
    /// Name and version as the policy states them.
    fn name(&self) -> &str;
    fn version(&self) -> &str;

    /// Its own figures, for people.
    ///
    /// Errors: the policy failed and must not be called again.
    fn metrics(&mut self) -> Result<Vec<(String, f64)>, PolicyFailure> {
        Ok(Vec::new())
    }

    /// Called at intervals while there is I/O; changes the shares that are to hold from now on, one
    /// number a class: 1 to 1000, or 0 for what a statement set.
    ///
    /// Errors: the policy failed and must not be called again; the plan is as it was.
    fn plan(
        &mut self,
        now_us: u64,
        disk: &DiskLoad,
        classes: &[ClassLoad],
        shares: &mut [u32],
    ) -> Result<(), PolicyFailure>;
}
